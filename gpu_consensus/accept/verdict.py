"""What the measurements mean, in words."""

from __future__ import annotations

from typing import Any

from gpu_consensus.accept.kernels import SHORT, SLOW
from gpu_consensus.accept.run import JsonObject

HOME = "https://github.com/gpu-consensus/gpu-consensus/issues"
SLOW_LINK = 6e9
"""Bytes per second from pinned memory: half of what PCIe 3.0 with 16 lanes gives."""
SLOW_LAUNCH = 2e-5
"""Seconds of a launch; a few millionths are usual."""


def judge(report: JsonObject) -> None:
    """Write state, verdict and what is slow into a report, finished or not."""
    states = [step["state"] for step in report["steps"]]
    failed = [step for step in report["steps"] if step["state"] == "failed"]
    last = report["steps"][-1]["name"] if report["steps"] else "the beginning"
    done = [step["name"] for step in report["steps"] if step["state"] == "passed"]
    total = report["n_steps"]
    skipped = [step["name"] for step in report["steps"] if step["state"] == "not run"]
    numbers = f"{len(done)} of {total} steps passed"
    if skipped:
        numbers += f", {len(skipped)} not run ({', '.join(skipped)})"
    if report["interrupted"]:
        state, text = "interrupted", f"INTERRUPTED in step {last!r}; {numbers}"
    elif "unfinished" in states or len(states) < total:
        state, text = "unfinished", f"UNFINISHED after step {last!r}; {numbers}"
    elif failed:
        names = ", ".join(step["name"] for step in failed)
        state, text = "failed", f"FAILED: {names}; {numbers}"
    elif "agreement" not in done:
        state, text = "incomplete", f"INCOMPLETE: {numbers}"
    else:
        state, text = "passed", f"PASSED: {numbers}"
    if not report["gpu"]:
        text = (
            "NO GPU: this was no GPU but a stand-in on the CPU. On the stand-in: "
            f"{text}"
        )
    report.update(state=state, verdict=text, slow=_slow(report))


def steps_by_name(report: JsonObject) -> dict[str, JsonObject]:
    """Return the results of each step that has begun."""
    return {step["name"]: step["results"] for step in report["steps"]}


def _slow(report: JsonObject) -> list[str]:
    """Return sentences on what is slower than it should be; none without a GPU."""
    if not report["gpu"]:
        return []
    results = steps_by_name(report)
    return [
        *_slow_kernels(results.get("kernels", {}).get("kernels", [])),
        *_slow_host(results.get("roofs", {})),
        *_slow_rest(results),
    ]


def _slow_kernels(kernels: list[JsonObject]) -> list[str]:
    return [
        f"{one['kernel']} ({one['what']}) reaches {one['share']:.0%} of what the "
        f"{one['roof']} could give; {SLOW:.0%} or more was hoped for."
        for one in kernels
        if (one.get("share") or 1) < SLOW and one["seconds"] >= SHORT
    ]


def _slow_host(roofs: JsonObject) -> list[str]:
    sentences = []
    pinned: Any = roofs.get("transfers", {}).get("pinned", {})
    speed = pinned.get("to_device_bytes_per_s") if isinstance(pinned, dict) else None
    if speed is not None and speed < SLOW_LINK:
        sentences.append(
            f"The way from host to device gives {speed / 1e9:.1f} GB/s even from "
            f"pinned memory; {SLOW_LINK / 1e9:.0f} GB/s or more was hoped for (few "
            "PCIe lanes, or a virtual machine?)."
        )
    if roofs.get("launch_s", 0) > SLOW_LAUNCH:
        sentences.append(
            f"A launch takes {1e6 * roofs['launch_s']:.0f} us; below "
            f"{1e6 * SLOW_LAUNCH:.0f} us was hoped for (a busy CPU, or WSL?)."
        )
    return sentences


def _slow_rest(results: dict[str, JsonObject]) -> list[str]:
    sentences = []
    ratio = results.get("fit", {}).get("ratio")
    if ratio is not None and ratio < 1:
        sentences.append(
            f"The large fit takes {1 / ratio:.1f} times as long on the device as on "
            "the CPU."
        )
    generation = results.get("generation", {})
    if "scikit-learn" in generation:
        ratio = generation["scikit-learn"]["seconds"] / generation["cuml"]["seconds"]
        if ratio < 1:
            sentences.append(
                f"Generation takes {1 / ratio:.1f} times as long with cuML as with "
                "scikit-learn."
            )
    return sentences
