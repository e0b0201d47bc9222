"""Make, run and count hostile cases.

``python tests/hostile/run_hostile.py method 17`` repeats one case and shows it;
``... all 20000`` runs so many of all kinds and counts how they end.
"""

import collections
import contextlib
import pathlib
import sys
import tempfile
import time

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import hostile_calls as calls
import hostile_files as files
import hostile_shows as shows
import hostile_words as words
import numpy as np
from hostile_same import same_answer
from judge import judge

KINDS = {
    "method": (calls.method_call, 700),
    "ensemble": (calls.ensemble_call, 300),
    "metric": (calls.metric_call, 250),
    "generate": (calls.generate_call, 200),
    "estimator": (calls.estimator_call, 80),
    "select": (calls.select_call, 80),
    "utility": (calls.utility_call, 40),
    "measure": (calls.measure_call, 30),
    "same": (same_answer, 80),
    "picture": (shows.picture_call, 60),
    "report": (shows.report_call, 8),
    "ensemble file": (files.ensemble_file, 160),
    "checkpoint": (files.checkpoint_file, 80),
    "table": (files.table_file, 120),
    "command": (words.command_line, 120),
}
"""Who makes a case, and how many of every thousand and a bit are of this kind."""

TOTAL = sum(share for _, share in KINDS.values())


def make(kind, number, folder):
    """Return case ``number`` of a kind; the same in every run."""
    rng = np.random.default_rng([list(KINDS).index(kind), number])
    return KINDS[kind][0](rng, folder)


def run_one(kind, number):
    """Return how a case ended, why, and the call."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with contextlib.chdir(folder):
            case = make(kind, number, folder)
            ending, why = judge(case)
    return ending, why, case.text


def numbers_of(kind, total, part=0, parts=1):
    """Return which cases of a kind belong to a run of so many of all kinds."""
    many = max(1, round(KINDS[kind][1] * total / TOTAL))
    return range(part, many, parts)


def run_kind(kind, numbers):
    """Run some cases; return counts of endings, and what to print of the bad ones."""
    counts, bad = collections.Counter(), []
    for number in numbers:
        ending, why, text = run_one(kind, number)
        counts[ending] += 1
        if why is not None:
            bad.append(
                f"{ending}: {text[:600]}\n    again: python "
                f"tests/hostile/run_hostile.py {kind!r} {number}\n{why}"
            )
    return counts, bad


def main():
    """Repeat one case, or count many."""
    kind, number = sys.argv[1], int(sys.argv[2])
    if kind != "all":
        ending, why, text = run_one(kind, number)
        sys.stdout.write(f"{text}\n{ending}\n{why or ''}\n")
        return
    chosen = sys.argv[3:] or list(KINDS)
    total = collections.Counter()
    for kind in chosen:
        begin = time.process_time()
        counts, bad = run_kind(kind, numbers_of(kind, number))
        total += counts
        seconds = time.process_time() - begin
        sys.stdout.write(f"{kind} {dict(counts)} {seconds:.1f} s\n")
        sys.stdout.writelines(f"{text}\n" for text in bad)
        sys.stdout.flush()
    sys.stdout.write(f"all {dict(total)}\n")


if __name__ == "__main__":
    main()
