"""What a log hears of long work, and when."""

import pytest

from gpu_consensus.util import progress


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_log_has_a_line_now_and_then(capsys, clock):
    with progress.progress_bar(True, "partitions", 100) as advance:
        for _ in range(100):
            clock[0] += 1.0
            advance(note="rps")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "partitions: 10/100, 1/s, 0:10 gone, 1:30 left rps"
    done = [line.split()[1] for line in lines]
    assert done == ["10/100,", "40/100,", "70/100,", "100/100,"]


def test_what_is_quick_or_unasked_is_not_told(capsys, clock):
    for asked, step in ((True, 0.05), (False, 5.0)):
        with progress.progress_bar(asked, "auto", None) as advance:
            for _ in range(100):
                clock[0] += step
                advance()
    assert capsys.readouterr().err == ""


def test_a_terminal_has_a_bar(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    with progress.progress_bar(True, "reading", 4_000_000, of_bytes=True) as advance:
        advance(1_000_000)
    err = capsys.readouterr().err
    assert "reading" in err
    assert "1.0 MB/4.0 MB" in err
