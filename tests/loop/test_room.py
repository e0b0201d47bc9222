"""Starts that there is no memory for are refused before any work, and a cure named."""

import re

import numpy as np
import pytest

import gpu_consensus as gpc
from gpu_consensus.loop import room
from gpu_consensus.loop.room import check_starts


@pytest.mark.parametrize("together", [1, 4, 10**6])
@pytest.mark.parametrize("free", [5_000, 30_000, 10**6])
def test_the_number_that_is_named_is_the_largest_that_fits(monkeypatch, together, free):
    monkeypatch.setattr(room, "available_memory", lambda: free)

    def fits(n_init):
        check_starts(
            "kcc",
            n_init,
            5,
            100,
            table_bytes=2000,
            together=together,
            fixed=1000,
        )

    with pytest.raises(MemoryError, match="kcc with n_init=1000000000000") as error:
        fits(10**12)
    named = re.search(r"n_init=(\d+) fits", str(error.value))
    fits(int(named[1]))
    with pytest.raises(MemoryError, match=f"n_init={named[1]} fits"):
        fits(int(named[1]) + 1)


@pytest.mark.parametrize("method", ["kcc", "sec", "ivc", "ipvc", "em", "qmi"])
def test_methods_refuse_before_they_work(monkeypatch, method):
    labels = np.random.default_rng(0).integers(0, 4, (50, 5))
    with pytest.raises((MemoryError, ValueError), match="n_init=1000000000000 "):
        getattr(gpc, method)(labels, 3, n_init=10**12)
    monkeypatch.setattr(room, "available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="lower n_clusters"):
        getattr(gpc, method)(labels, 3, n_init=1)
