"""The acceptance run, on the emulated device: to the end, honest, and harmless."""

import contextlib
import getpass
import importlib
import json
import os
import re
import socket
import sys
from pathlib import Path

import pytest
from conftest import emulated
from cudaemu import DeviceSpec, installed, make_cupy

from gpu_consensus import accept
from gpu_consensus.accept import agreement, roofs, verdict
from gpu_consensus.accept.run import Sizes, Step
from gpu_consensus.backends.cupy.backend import CupyBackend
from gpu_consensus.backends.cupy.source import all_kernels
from gpu_consensus.cli import main as cli
from gpu_consensus.methods import METHODS

TINY = Sizes(40, 3000, 600, 4, 32, 1 << 14, 2, 2, 300, 2000, 6, 1000)
SMALL = DeviceSpec(multiprocessors=1)
SPEED = re.compile(r"\d (GB/s|ms|us)\b|lookups")


@contextlib.contextmanager
def no_self_test():
    """Leave the doctor's comparisons out: they have tests of their own."""
    with pytest.MonkeyPatch.context() as patch:
        doctor = importlib.import_module("gpu_consensus.doctor")
        patch.setattr(doctor, "self_test", lambda backend: "")
        yield


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A whole run on a machine with two devices: report, JSON, page and lines told."""
    output, lines = tmp_path_factory.mktemp("accept") / "accept.json", []
    with emulated(SMALL, SMALL), no_self_test():
        report = accept.accept(output, sizes=TINY, log=lines.append)
    page = output.with_suffix(".txt").read_text(encoding="utf-8")
    return report, output.read_text(encoding="utf-8"), page, lines


def step(report, name):
    (found,) = (step for step in report["steps"] if step["name"] == name)
    return found


@pytest.fixture
def few(monkeypatch):
    """Only the comparisons, and few of them, by the name of the command."""
    monkeypatch.setattr(
        accept, "STEPS", (Step("agreement", agreement.check_agreement),)
    )
    monkeypatch.setattr(agreement, "METHODS", {"kcc": METHODS["kcc"]})
    monkeypatch.setattr(agreement, "UTILITIES", ("c",))
    monkeypatch.setattr(accept, "FULL", TINY)


def test_it_runs_to_the_end_and_says_that_this_was_no_gpu(ran):
    report, text, page, lines = ran
    assert json.loads(text) == report
    assert report["state"] == "passed"
    assert report["gpu"] is False
    assert report["note"].startswith("This was no GPU")
    states = {one["name"]: one["state"] for one in report["steps"]}
    assert states == {
        "doctor": "passed",
        "agreement": "passed",
        "roofs": "passed",
        "kernels": "passed",
        "startup": "not run",
        "generation": "not run",
        "fit": "passed",
    }
    assert page.splitlines()[0].startswith("gpu-consensus accept: NO GPU: this was no")
    assert report["verdict"].startswith("NO GPU: ")
    assert not SPEED.search(page)
    assert report["slow"] == []
    assert [line.split(":")[0] for line in lines] == [f"{i} of 7" for i in range(1, 8)]


def test_every_method_kernel_and_device_took_part(ran):
    report, _, _, _ = ran
    checks = step(report, "agreement")["results"]["checks"]
    assert {one["state"] for one in checks} == {"passed"}
    names = [one["name"] for one in checks]
    for method in METHODS:
        assert sum(name.startswith(f"{method} (") for name in names) == 3
    for utility in agreement.UTILITIES:
        assert f"kcc, utility {utility}" in names
    assert {"lambda_consensus", "two threads at once", "device 0", "device 1"} <= {
        *names
    }
    timed = step(report, "kernels")["results"]["kernels"]
    assert {one["kernel"] for one in timed} == {one.name for one in all_kernels()}
    assert all(one["seconds"] > 0 and one["launches"] > 0 for one in timed)
    fit = step(report, "fit")["results"]
    assert fit["labels_that_differ"] == 0
    assert fit["device"]["from_host"]["n"] == fit["on_cpu"]["n"] == TINY.n_fit


def test_the_page_fits_a_screen_of_100_columns(ran):
    _, _, page, _ = ran
    assert max(map(len, page.splitlines())) <= 100
    assert page.isascii()
    assert not re.search(r"[ \t]$", page, re.MULTILINE)


def test_nothing_tells_who_or_where(ran):
    _, text, page, _ = ran
    secrets = {
        *(socket.gethostname(), getpass.getuser(), str(Path.home()), str(Path.cwd())),
        *(sys.prefix, str(Path(__file__).parents[1]), os.environ["PATH"]),
    }
    for written in (text, page):
        assert not re.search(r"(?<![\w:/.])/(home|tmp|usr|root|var|work)\b", written)
        assert not re.search(r"uuid|serial\b(?! number)|pci", written, re.IGNORECASE)
        for secret in secrets:
            assert not re.search(rf"\b{re.escape(secret)}\b", written), secret


def test_a_wrong_kernel_fails(few, monkeypatch, capsys, tmp_path):
    right = CupyBackend.assign

    def wrong(self, *arguments, **options):
        found = right(self, *arguments, **options)
        found.assignment[...] = found.assignment ^ 1
        return found

    output = tmp_path / "accept.json"
    with emulated(SMALL):
        monkeypatch.setattr(CupyBackend, "assign", wrong)
        code = cli.main(["accept", "--output", str(output)])
    page, err = capsys.readouterr()
    assert code == 1
    assert "NO GPU" in page.splitlines()[0]
    assert "FAILED: agreement" in page
    assert "assign of many objects, resident: failed: " in page
    assert err.splitlines()[-1] == (
        "gpu-consensus: the acceptance run is failed; see above."
    )
    report = json.loads(output.read_text())
    assert report["state"] == "failed"
    checks = step(report, "agreement")["results"]["checks"]
    (wrong,) = (x for x in checks if x["name"] == "assign of many objects, resident")
    assert wrong["reason"] == "9000 of 9000 clusters differ from NumPy's"


def test_the_command_passes_where_all_agrees(few, capsys, tmp_path):
    output = tmp_path / "accept.json"
    with emulated(SMALL):
        assert cli.main(["accept", "--output", str(output), "--quiet"]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        assert out == output.with_suffix(".txt").read_text()
        # again: its own page may be replaced
        assert cli.main(["accept", "--output", str(output), "--quiet"]) == 0


def test_memory_that_earlier_comparisons_left_is_not_counted():
    with emulated(SMALL):
        xp = CupyBackend().xp
        loop = [xp.zeros(1000)]
        loop.append(loop)
        del loop
        with agreement._memory(xp, 4096):
            assert xp.get_default_memory_pool().get_limit() == 4096


def test_interrupted_it_leaves_what_was_measured(monkeypatch, tmp_path):
    def stopped(context, found):
        found["so_far"] = 7
        raise KeyboardInterrupt

    def never(context, found):
        raise AssertionError("it was interrupted before this")

    steps = (
        Step("roofs", roofs.measure_roofs),
        Step("agreement", stopped),
        Step("fit", never),
    )
    monkeypatch.setattr(accept, "STEPS", steps)
    output = tmp_path / "accept.json"
    with emulated(SMALL), pytest.raises(KeyboardInterrupt):
        accept.accept(output, sizes=TINY)
    report = json.loads(output.read_text())
    assert report["interrupted"] is True
    assert report["state"] == "interrupted"
    assert [one["state"] for one in report["steps"]] == ["passed", "unfinished"]
    assert step(report, "agreement")["results"] == {"so_far": 7}
    assert "INTERRUPTED in step 'agreement'" in output.with_suffix(".txt").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "accept.json",
        "accept.txt",
    ]


def test_what_a_killed_process_leaves_says_so(monkeypatch, tmp_path):
    output, seen = tmp_path / "accept.json", []

    def look(context, found):
        seen.append(json.loads(output.read_text())["verdict"])
        return ""

    steps = (Step("roofs", lambda context, found: ""), Step("agreement", look))
    monkeypatch.setattr(accept, "STEPS", steps)
    with emulated(SMALL):
        report = accept.accept(output, sizes=TINY)
    assert "UNFINISHED after step 'roofs'" in seen[0]
    assert report["state"] == "passed"


def test_a_step_that_fails_does_not_stop_the_others(monkeypatch, tmp_path):
    def broken(context, found):
        raise RuntimeError("an illegal address")

    steps = (Step("roofs", broken), Step("agreement", lambda context, found: ""))
    monkeypatch.setattr(accept, "STEPS", steps)
    with emulated(SMALL):
        report = accept.accept(tmp_path / "a.json", sizes=TINY)
    assert [one["state"] for one in report["steps"]] == ["failed", "passed"]
    assert step(report, "roofs")["reason"] == "RuntimeError: an illegal address"
    assert report["state"] == "failed"


def test_without_time_nothing_is_run_and_nothing_passes(tmp_path):
    with emulated(SMALL):
        report = accept.accept(tmp_path / "a.json", sizes=TINY, budget=1e-9)
    assert {one["state"] for one in report["steps"]} == {"not run"}
    assert report["state"] == "incomplete"
    assert "--budget" in report["steps"][0]["reason"]


def fails(capsys, *arguments):
    """Return the one line that a wrong call prints."""
    code = cli.main(["accept", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1)
    return err


def test_without_a_device_it_says_why_in_one_line(capsys, tmp_path):
    output = tmp_path / "accept.json"
    with installed(make_cupy(())):
        assert "there is no NVIDIA driver; install" in fails(capsys, "--output", output)
    with installed(None):
        assert "CuPy is not installed; run pip" in fails(capsys, "--output", output)
    assert not list(tmp_path.iterdir())


def test_an_output_that_cannot_be_written_is_refused_before_the_work(
    monkeypatch, capsys, tmp_path
):
    def never(context, found):
        raise AssertionError("the output was not checked")

    monkeypatch.setattr(accept, "STEPS", (Step("roofs", never),))
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    with emulated(SMALL):
        missing = tmp_path / "missing" / "accept.json"
        assert "does not exist; make it" in fails(capsys, "--output", missing)
        folder = tmp_path / "folder.json"
        assert "is a folder; choose" in fails(capsys, "--output", folder)
        text = tmp_path / "accept.csv"
        assert "should end in .json" in fails(capsys, "--output", text)
        notes = tmp_path / "notes.json"
        assert "which is another file" in fails(capsys, "--output", notes)
        output = tmp_path / "a.json"
        for budget in ("-1", "inf", "nan"):
            assert "above 0" in fails(capsys, "--output", output, "--budget", budget)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_comparisons_that_were_not_made_do_not_pass(few, monkeypatch, tmp_path):
    monkeypatch.setattr(agreement, "_SHARE", 0.0)  # the time is up at once
    with emulated(SMALL):
        report = accept.accept(tmp_path / "a.json", sizes=TINY)
    assert step(report, "agreement")["state"] == "not run"
    assert report["state"] == "incomplete"
    page = accept.render(report)
    assert "INCOMPLETE" in page
    assert "the time was up before" in page
    assert agreement.LATE not in page


def test_the_page_of_a_gpu_names_what_is_slow(ran):
    """Numbers of no device, wide ones: this is about words and columns."""
    report = json.loads(ran[1])
    report.update(gpu=True, why_no_gpu="")
    roof = {"copy_bytes_per_s": 9e12, "shared_bytes_per_s": 9e13, "launch_s": 3e-5}
    pinned = {"to_device_bytes_per_s": 1.5e9, "to_host_bytes_per_s": 1.5e9}
    step(report, "roofs")["results"].update(
        roof, transfers={"pageable": pinned, "pinned": pinned}
    )
    kernels = step(report, "kernels")["results"]["kernels"]
    for one in kernels:
        one.update(seconds=0.123456)
        if "share" in one:
            one.update(share=0.9, roof_seconds=0.1)
    kernels[0]["share"] = 0.123
    kernels[1].update(share=0.1, seconds=1e-6)  # a launch decides that
    times = {"import_s": 1.234, "context_s": 0.2, "process_s": 12.3}
    times |= {"first_kcc_s": 0.0034, "second_kcc_s": 0.0012}
    step(report, "startup")["results"].update(cold=times, warm=times)
    made = {"seconds": 12.3, "adjusted_rand": 0.98}
    step(report, "generation")["results"].update(
        {"n_partitions": 10, "n_samples": 10**6, "n_features": 16}
        | {"cuml": made, "scikit-learn": {**made, "seconds": 1.0}}
    )
    step(report, "fit")["results"]["ratio"] = 0.5
    verdict.judge(report)
    page = accept.render(report)
    assert max(map(len, page.splitlines())) <= 100
    assert page.startswith("gpu-consensus accept: PASSED: 5 of 7 steps passed")
    assert len(report["slow"]) == 5
    assert report["slow"][0] == (
        "assign (1 x 32 columns, K_i=10) reaches 12% of what the shared memory could "
        "give; 40% or more was hoped for."
    )
    assert verdict.HOME in page
