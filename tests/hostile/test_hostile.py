"""Every hostile call ends in a right result, or in one sentence of ours.

What is hostile is made by ``hostile_*.py``, the same in every run; a case that fails
says how to repeat it. ``run_hostile.py`` counts how cases of each kind end.
"""

import pytest
from run_hostile import KINDS, numbers_of, run_kind

FEW, MANY = 2_100, 20_000


def end_well(kind, total):
    """Run the cases of a kind that belong to so many of all."""
    counts, bad = run_kind(kind, numbers_of(kind, total))
    assert not bad, f"{len(bad)} of {counts.total()}:\n" + "\n".join(bad[:5])


@pytest.mark.parametrize("kind", KINDS)
def test_hostile(kind):
    end_well(kind, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_hostile(kind):
    end_well(kind, MANY)


def test_so_many_there_are():
    assert sum(len(numbers_of(kind, FEW)) for kind in KINDS) >= 2_000
    assert sum(len(numbers_of(kind, MANY)) for kind in KINDS) >= 19_900
