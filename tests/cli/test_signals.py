"""A command ends soon after a signal, with the code that shells expect."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import gpu_consensus_command
from gpu_consensus.cli import signals
from gpu_consensus.cli.main import main
from gpu_consensus.ensemble import storage

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows has no such signals"
)
AT_WORK = 60  # seconds until a slow machine is at work
ENDED = 10  # alone it takes less than one; docker/check.sh measures it


def start(tmp_path, script):
    return subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def wait_for(path, process):
    end = time.monotonic() + AT_WORK
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")],
)
def test_generation_on_all_threads_ends(tmp_path, number, code, word):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).normal(size=(4000, 10)))
    arguments = ["generate", "X.npy", "--n-partitions", "100000", "--output", "ens"]
    arguments += ["--checkpoint", "kept"]
    process = start(
        tmp_path,
        "import sys; from gpu_consensus.cli.main import run;"
        f"sys.argv[1:] = {arguments!r}; run()",
    )
    wait_for(tmp_path / "kept", process)
    process.send_signal(number)
    out, err = process.communicate(timeout=ENDED)
    assert process.returncode == code
    assert out == ""
    assert err == f"gpu-consensus: {word}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["X.npy", "kept"]


def test_a_program_that_does_not_listen_is_ended_and_leaves_no_file(tmp_path):
    process = start(
        tmp_path,
        """if True:
        import threading, time
        from pathlib import Path
        from gpu_consensus.cli import signals
        from gpu_consensus.ensemble import storage

        def slowly(file):
            file.write(b"half")
            file.flush()
            Path("begun").touch()
            try:
                threading.Event().wait(60)  # as long work outside Python would
            finally:
                time.sleep(60)

        signals.watch_signals()
        storage.write_atomic("labels.csv", slowly)
        """,
    )
    wait_for(tmp_path / "begun", process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=ENDED)
    assert process.returncode == 143
    assert err == "gpu-consensus: terminated\n"
    assert [path.name for path in tmp_path.iterdir()] == ["begun"]


def test_a_second_signal_ends_a_patient_program_at_once(tmp_path):
    process = start(
        tmp_path,
        """if True:
        import time
        from pathlib import Path
        from gpu_consensus.cli import signals

        signals.watch_signals()
        signals.be_patient(60)
        Path("begun").touch()
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            Path("heard").touch()
            try:
                time.sleep(60)
            finally:
                time.sleep(60)
        """,
    )
    for file in ("begun", "heard"):
        wait_for(tmp_path / file, process)
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=ENDED)
    assert process.returncode == 130


def test_a_new_folder_goes_away_with_the_save_that_made_it(tmp_path):
    process = start(
        tmp_path,
        """if True:
        import os, threading, time
        from pathlib import Path
        import gpu_consensus as gpc
        from gpu_consensus.cli import signals

        def slowly(handle):  # as a busy disk, whose call no signal ends
            Path("begun").touch()
            try:
                threading.Event().wait(60)
            finally:
                time.sleep(60)

        os.fsync = slowly
        signals.watch_signals()
        gpc.Ensemble.from_partitions([[0, 1]]).save("ens")
        """,
    )
    wait_for(tmp_path / "begun", process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=ENDED)
    assert process.returncode == 143
    assert [path.name for path in tmp_path.iterdir()] == ["begun"]


def test_a_signal_that_comes_twice_is_told_once(tmp_path):
    """As by a program that passes on what the terminal has sent to both."""
    process = start(
        tmp_path,
        """if True:
        import io, os, signal, sys
        from gpu_consensus.cli import main as cli

        def end(**_):
            os.kill(os.getpid(), signal.SIGINT)

        class Again(io.TextIOBase):
            def write(self, text):
                sys.__stderr__.write(text)
                os.kill(os.getpid(), signal.SIGINT)
                return len(text)

        sys.stderr = Again()
        cli.gpc.doctor = end
        sys.argv[1:] = ["doctor"]
        cli.run()
        """,
    )
    _, err = process.communicate(timeout=AT_WORK)
    assert (process.returncode, err) == (130, "gpu-consensus: interrupted\n")


def test_a_signal_behind_another_error_is_told_as_such(tmp_path):
    """Some libraries raise an error of their own when one strikes in their import."""
    process = start(
        tmp_path,
        """if True:
        import os, signal
        from gpu_consensus.cli import main as cli

        def load(**_):
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            except KeyboardInterrupt as error:
                raise RuntimeError("Error calling __set_name__") from error

        cli.gpc.doctor = load
        cli.sys.argv[1:] = ["doctor"]
        cli.run()
        """,
    )
    _, err = process.communicate(timeout=AT_WORK)
    assert (process.returncode, err) == (143, "gpu-consensus: terminated\n")


def test_a_reader_that_takes_nothing_does_not_keep_it(tmp_path):
    script = """if True:
        import os, threading, time
        from pathlib import Path
        from gpu_consensus.cli import signals

        os.set_blocking(2, False)
        try:
            while True:
                os.write(2, bytes(65536))
        except BlockingIOError:
            os.set_blocking(2, True)
        signals.watch_signals()
        Path("begun").touch()
        try:
            threading.Event().wait(60)
        finally:
            time.sleep(60)
        """
    process = start(tmp_path, script)
    wait_for(tmp_path / "begun", process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=ENDED) == 143
    process.communicate()


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")],
)
def test_the_command_listens_before_the_package_is_loaded(tmp_path, number, code, word):
    (tmp_path / "numpy.py").write_text(
        "import pathlib, time; pathlib.Path('begun').touch(); time.sleep(60)"
    )
    root = str(Path(gpu_consensus_command.__file__).parent)
    process = start(
        tmp_path,
        f"import sys; sys.path.append({root!r}); import gpu_consensus_command;"
        "gpu_consensus_command.run()",
    )
    wait_for(tmp_path / "begun", process)
    process.send_signal(number)
    out, err = process.communicate(timeout=ENDED)
    assert (process.returncode, out, err) == (code, "", f"gpu-consensus: {word}\n")


def test_no_file_is_known_as_unfinished_afterwards(tmp_path):
    storage.write_atomic(tmp_path / "x", lambda file: file.write(b"x"))
    with pytest.raises(OSError, match="cannot write"):
        storage.write_atomic(tmp_path / "no" / "x", lambda file: None)
    assert not storage._unfinished


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt, 130), (signals.Terminated, 143)]
)
def test_the_command_line_returns_the_code(monkeypatch, capsys, error, code):
    def stop(**_):
        raise error

    monkeypatch.setattr("gpu_consensus.doctor", stop)
    assert main(["doctor"]) == code
    assert capsys.readouterr().err.count("\n") == 1
