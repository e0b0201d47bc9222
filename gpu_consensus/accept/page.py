"""The report as one page of text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from gpu_consensus.accept.agreement import LATE
from gpu_consensus.accept.kernels import SLOW
from gpu_consensus.accept.run import JsonObject
from gpu_consensus.accept.verdict import HOME, steps_by_name

WIDTH = 96
HEADING = "gpu-consensus accept"
"""How every page begins."""


def render(report: JsonObject) -> str:
    """Return the page; speeds are left out where there was no GPU."""
    results = steps_by_name(report)
    parts = [
        _verdict(report),
        _about(report),
        _steps(report),
        _failures(report),
    ]
    if report["gpu"]:
        parts += [
            _roofs(results.get("roofs", {})),
            _kernels(results.get("kernels", {})),
            _startup(results.get("startup", {})),
            _generation(results.get("generation", {})),
            _fit(results.get("fit", {})),
            _slow(report),
        ]
    else:
        parts += [_no_speeds(report), _bytes(results.get("kernels", {}))]
    parts.append(_send(report))
    return "\n\n".join(part for part in parts if part) + "\n"


def _verdict(report: JsonObject) -> str:
    """Return the verdict; a line of its own says if there was no GPU."""
    text = f"{HEADING}: {report['verdict']}"
    return "\n".join(_wrap(line, "") for line in text.replace(". ", ".\n").split("\n"))


def _wrap(text: str, indent: str, first: str | None = None) -> str:
    return "\n".join(
        textwrap.wrap(
            text,
            WIDTH,
            initial_indent=indent if first is None else first,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )
    )


def _facts(rows: list[tuple[str, str]], width: int) -> str:
    """Return lines with a name and its value."""
    indent = " " * (width + 2)
    return "\n".join(_wrap(text, indent, f"{name:<{width}}  ") for name, text in rows)


def _about(report: JsonObject) -> str:
    machine = report["machine"]
    doctor = steps_by_name(report).get("doctor", {})
    host = f"{machine['cpu']}, {machine['cores']} cores"
    if machine["memory_gb"] is not None:
        host += f", {machine['memory_gb']} GB"
    rows = [("host", f"{host}; {machine['os']}; Python {machine['python']}")]
    for index, device in enumerate(machine["devices"]):
        text = (
            f"{device['name']}, compute {device['compute_capability']}, "
            f"{device['memory_gb']} GB"
        )
        if "multiprocessors" in device:
            text += f", {device['multiprocessors']:.0f} multiprocessors"
        if "clock_mhz" in device:
            text += f", {device['clock_mhz']:.0f} MHz"
        rows.append((f"device {index}", text))
    cuda = [f"{part} {number}" for part, number in doctor.get("cuda", {}).items()]
    packages = doctor.get("packages", {}).items()
    there = [f"{name} {version}" for name, version in packages if version]
    rows += [(n, ", ".join(x)) for n, x in (("cuda", cuda), ("packages", there)) if x]
    rows.append(("run", f"{report['date']}, {report['seconds']:.0f} s"))
    return _facts(rows, 9)


def _steps(report: JsonObject) -> str:
    lines = ["steps"]
    for step in report["steps"]:
        head = f"  {step['name']:<11} {step['state']:<10} {step['seconds']:>6.1f} s  "
        text = step["reason"] if step["state"] == "not run" else _summary(step)
        lines.append(_wrap(text, " " * len(head), head).rstrip() if text else head)
    return "\n".join(line.rstrip() for line in lines)


def _summary(step: JsonObject) -> str:
    """Return one line on a step that ran."""
    results = step["results"]
    if step["name"] == "doctor" and "self_test" in results:
        tested = [name for name, wrong in results["self_test"].items() if not wrong]
        return f"every primitive equals the reference: {', '.join(tested)}"
    if step["name"] == "agreement" and results.get("checks"):
        states = [check["state"] for check in results["checks"]]
        text = f"{states.count('passed')} of {len(states)} comparisons equal NumPy"
        skipped = states.count("not run")
        return text + (f", {skipped} not run" if skipped else "")
    if step["name"] == "kernels" and "kernels" in results:
        ran = [one["kernel"] for one in results["kernels"] if "seconds" in one]
        text = f"{len(set(ran))} kernels in {len(ran)} cases"
        late = sum("not_run" in one for one in results["kernels"])
        return text + (f", {late} not run" if late else "")
    if step["name"] == "fit" and "labels_that_differ" in results:
        number = results["labels_that_differ"]
        same = "equal labels" if not number else f"{number} labels differ"
        return f"{same} on the device and by {results['cpu']} on the CPU"
    return ""


def _failures(report: JsonObject) -> str:
    """Return what failed, and what a step that passed could not do."""
    lines = []
    for step in report["steps"]:
        wrong = [step["reason"]] if step["state"] == "failed" else []
        if step["name"] == "agreement":
            wrong += [
                f"{check['name']}: {check['state']}: {check['reason']}"
                for check in step["results"].get("checks", [])
                if check["state"] in ("failed", "not run") and check["reason"] != LATE
            ]
        lines += [_wrap(f"{step['name']}: {text}", "    ", "  ") for text in wrong]
    return "\n".join(["what failed, or was not run", *lines]) if lines else ""


def _speed(number: float) -> str:
    return f"{number / 1e9:,.1f} GB/s"


def _time(seconds: float) -> str:
    """Write a time for a person.

    Examples
    --------
    >>> _time(0.0000123), _time(0.2), _time(12.345)
    ('12.3 us', '200.0 ms', '12.35 s')
    """
    if seconds < 1e-3:
        return f"{1e6 * seconds:.1f} us"
    if seconds < 1:
        return f"{1e3 * seconds:#.4g} ms"
    return f"{seconds:.2f} s"


def _roofs(roofs: JsonObject) -> str:
    if "copy_bytes_per_s" not in roofs:
        return ""
    rows = [("copies in device memory", _speed(roofs["copy_bytes_per_s"]))]
    if "shared_bytes_per_s" in roofs:
        rows.append(("reads from shared memory", _speed(roofs["shared_bytes_per_s"])))
    for name, way in (("to the device", "to_device"), ("to the host", "to_host")):
        kinds = [
            f"{kind} {_speed(x[f'{way}_bytes_per_s']) if isinstance(x, dict) else x}"
            for kind, x in roofs.get("transfers", {}).items()
        ]
        if kinds:
            rows.append((name, ", ".join(kinds)))
    if "launch_s" in roofs:
        alone = _time(roofs["launch_and_wait_s"])
        rows.append(("a launch", f"{_time(roofs['launch_s'])}, waited for {alone}"))
    facts = textwrap.indent(_facts(rows, 24), "  ")
    return f"{_wrap('roofs, timed by ' + roofs['timed_by'], '')}\n{facts}"


def _kernels(kernels: JsonObject) -> str:
    if not kernels.get("kernels"):
        return ""
    lines = [
        f"kernels, beside the roof that binds them (slow: below {SLOW:.0%} of it)",
        f"  {'kernel':<13} {'what':<40} {'time':>10} {'at roof':>10}  share  roof",
    ]
    for one in kernels["kernels"]:
        head = f"  {one['kernel']:<13} {one['what']:<40}"
        if "seconds" not in one:
            lines.append(f"{head} {'failed' if 'failed' in one else 'not run':>10}")
            continue
        head += f" {_time(one['seconds']):>10}"
        if one.get("share") is not None:
            at, share = _time(one["roof_seconds"]), f"{one['share']:.0%}"
            head += f" {at:>10} {share:>6}  {one['roof'].split()[0]}"
        lines.append(head)
    if any((one.get("share") or 0) > 1 for one in kernels["kernels"]):
        lines.append("  (above 100%: what is moved fits a cache of the device)")
    return "\n".join(lines)


def _no_speeds(report: JsonObject) -> str:
    return _wrap(
        f"No speeds are shown, because {report['why_no_gpu']}. The package's own code "
        "for the device ran, kernels and all. The times in the JSON file are those of "
        "the stand-in and say nothing about a GPU.",
        "",
    )


def _bytes(kernels: JsonObject) -> str:
    """Return what kernels have to move; that depends on no device."""
    ran = [one for one in kernels.get("kernels", []) if "seconds" in one]
    if not ran:
        return ""
    lines = [
        "kernels that ran, and bytes that each must move in device and shared memory",
        f"  {'kernel':<13} {'what':<40} {'device':>13} {'shared':>13}",
    ]
    for one in ran:
        row = f"  {one['kernel']:<13} {one['what']:<40}"
        if "formula" in one:  # climbs are chains of steps, which no bytes bound
            row += f" {one['device_bytes']:>13,} {one['shared_bytes']:>13,}"
        lines.append(row.rstrip())
    return "\n".join(lines)


def _startup(startup: JsonObject) -> str:
    lines = []
    for name, text in (("cold", "kernels compiled"), ("warm", "kernels kept")):
        if name not in startup:
            continue
        one = startup[name]
        lines.append(
            f"  {text:<16}  {_time(one['process_s'])}: CuPy {_time(one['import_s'])}, "
            f"context {_time(one['context_s'])}, first kcc "
            f"{_time(one['first_kcc_s'])}, second {_time(one['second_kcc_s'])}"
        )
    title = "a new process to its first result, 150 objects"
    return "\n".join([title, *lines]) if lines else ""


def _generation(generation: JsonObject) -> str:
    lines = [
        f"  {name:<13} {_time(generation[name]['seconds']):>10}, adjusted Rand "
        f"{generation[name]['adjusted_rand']:.3f} with the truth"
        for name in ("cuml", "scikit-learn")
        if name in generation
    ]
    if not lines:
        return ""
    title = (
        f"{generation['n_partitions']} partitions of {generation['n_samples']:,} "
        f"objects with {generation['n_features']} features"
    )
    return "\n".join([title, *lines])


def _fit(fit: JsonObject) -> str:
    lines = [*_fit_lines(fit)]
    if not lines:
        return ""
    title = f"kcc, r = {fit['r']}, {fit['n_clusters']} clusters, one start"
    if "ratio" in fit:
        lines.append(f"  the CPU takes {fit['ratio']:.1f} times as long as the device")
    return "\n".join([title, *lines])


def _fit_lines(fit: JsonObject) -> Iterator[str]:
    for part in ("device", "device_as_cpu"):
        for name, text in (("from_host", "with upload"), ("resident", "resident")):
            if name in fit.get(part, {}):
                yield _fit_line(f"device, {text}", fit[part][name])
    if "on_cpu" in fit:
        yield _fit_line(f"CPU ({fit['cpu']}), all threads", fit["on_cpu"])


def _fit_line(name: str, one: dict[str, Any]) -> str:
    return (
        f"  {name:<25} n = {one['n']:>10,} {_time(one['seconds']):>10} "
        f"{one['iterations']:>3} iterations, {one['lookups_per_s']:.2e} lookups/s"
    )


def _slow(report: JsonObject) -> str:
    if report["state"] != "passed" and not report["slow"]:
        return ""
    if not report["slow"]:
        return "what is slow\n  Nothing that was measured."
    lines = [_wrap(text, "    ", "  ") for text in report["slow"]]
    return "\n".join(["what is slow", *lines])


def _send(report: JsonObject) -> str:
    if not report["gpu"]:
        return _wrap(
            "There is nothing to send back: run it on a machine with a GPU.", ""
        )
    return _wrap(
        f"Please send this page and the JSON file beside it to {HOME}, whether it "
        "passed or not. They name no person, machine, file or serial number.",
        "",
    )
