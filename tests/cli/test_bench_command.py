"""``gpu-consensus bench``: the benchmarks, with the words and codes of the command."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench import cli
from gpu_consensus.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


def bench(capsys, *arguments):
    code = main(["bench", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder to work in, with the package on the path of processes."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


@pytest.fixture
def stored(capsys, tmp_path, monkeypatch):
    """A result of a suite of one table, as ``--output`` writes it."""
    monkeypatch.setattr("bench.papers.run", lambda _: iter([]))
    path = tmp_path / "results.json"
    code, page, err = bench(capsys, "papers", "--quick", "--output", path)
    assert (code, err) == (0, "")
    assert "gpu-consensus bench papers --quick --output results.json" in page
    return path, page


def test_a_result_is_written_and_shown_again(capsys, stored):
    path, page = stored
    result = json.loads(path.read_text())
    assert result["command"].startswith("gpu-consensus bench papers --quick")
    assert result["complete"]
    assert bench(capsys, "render", path) == (0, page, "")


def test_help_lists_every_suite(capsys):
    assert main(["--help"]) == 0
    assert "bench" in capsys.readouterr().out.split()
    code, out, _ = bench(capsys, "--help")
    assert code == 0
    assert "usage: gpu-consensus bench" in out
    assert all(name in out for name in [*cli.SUITES, "quality", "render", "plot"])
    code, out, _ = bench(capsys, "quality", "--help")
    assert code == 0
    assert "--search-best" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: suite; see gpu-consensus bench --help."),
        (["paper"], "suite='paper'"),
        (["papers", "--seeds", "0"], "--seeds 0 should be >= 1"),
        (["papers", "--output", "no/such/x.json"], "in a folder that exists"),
        (["papers", "--quik"], "unrecognized arguments: --quik"),
        (["papers", "--data-dir", "none"], "is not a folder"),
        (["render"], "gpu-consensus bench render results.json"),
        (["plot", "x.json"], "gpu-consensus bench plot speed.json"),
        (["quality", "--seeds", "0"], "seeds"),
    ],
)
def test_a_wrong_call_is_one_line(capsys, arguments, message):
    code, out, err = bench(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("gpu-consensus: ")
    assert message in err
    assert err.count("\n") == 1


def test_a_failing_suite_exits_with_1(capsys, monkeypatch):
    def broken(_):
        raise RuntimeError("no luck")

    monkeypatch.setattr("bench.papers.run", broken)
    code, _, err = bench(capsys, "papers", "--quick")
    assert (code, err) == (1, "gpu-consensus: RuntimeError: no luck\n")
    code, _, err = bench(capsys, "papers", "--quick", "--traceback")
    assert code == 1
    assert "Traceback" in err


def test_benchmarks_are_loaded_only_when_asked_for(elsewhere):
    code = (
        "import sys; from gpu_consensus.cli.main import main\n"
        "main(['doctor', '--help'])\n"
        "sys.exit(any('bench' in name.split('.') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=elsewhere, check=False)
    assert done.returncode == 0


def test_processes_of_a_suite_find_it_from_any_folder(elsewhere):
    (elsewhere / "bench").mkdir()  # another folder of that name
    code = (
        "from gpu_consensus.cli.main import main\n"
        "main(['bench', '--help'])\n"
        "from bench.measure import measure_in_child\n"
        "print(measure_in_child('memory', [60, 5, 3, False]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=elsewhere,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "'n': 60" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")],
)
def test_a_signal_ends_a_suite(elsewhere, number, code, word):
    script = (
        "import sys, time; import bench.papers\n"
        "def run(_):\n"
        "    print('at work', file=sys.stderr, flush=True)\n"
        "    time.sleep(60)\n"
        "    yield\n"
        "bench.papers.run = run\n"
        "from gpu_consensus.cli.main import run\n"
        "sys.argv[1:] = ['bench', 'papers', '--quick']\n"
        "run()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=elsewhere,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stderr.readline() == "at work\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (code, "")
    assert err.endswith(f"gpu-consensus: {word}\n")
