"""Which objects each worker holds, and where their labels are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from gpu_consensus.distributed.shard import Range
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.util.numbers import shown


def plan(source: Any, n_shards: int) -> tuple[list[Range], Ensemble, Ensemble | None]:
    """Cut a source into shards.

    Parameters
    ----------
    source : path, sequence of Range, or Ensemble
        A folder that ``Ensemble.save`` wrote, which every worker reads by this path;
        ranges of such folders that are all objects together; or an ensemble that every
        process of a communicator has.
    n_shards : int

    Returns
    -------
    ranges : list of Range
        In order.
    like : Ensemble
        Has the labels and the weights.
    given : Ensemble or None
        What the ranges are of, if it is in memory.
    """
    if isinstance(source, Ensemble):
        return _cut("", source, n_shards), source, source
    if isinstance(source, (str, os.PathLike)):
        path = str(Path(source).absolute())
        like = Ensemble.load(path, mmap=True, verify=False)
        return _cut(path, like, n_shards), like, None
    if not isinstance(source, Sequence) or not all(
        isinstance(one, Range) for one in source
    ):
        raise TypeError(
            f"source={shown(source)} should be the path of a saved ensemble, or a list "
            "of gpu_consensus.distributed.Range."
        )
    ranges = check_ranges(source)
    return ranges, Ensemble.load(ranges[0].path, mmap=True, verify=False), None


def _cut(path: str, like: Ensemble, n_shards: int) -> list[Range]:
    n = like.n_samples
    if n < n_shards:
        raise ValueError(
            f"the source has {n} objects for {n_shards} workers; use fewer workers, or "
            "the method itself."
        )
    ends = [n * s // n_shards for s in range(n_shards + 1)]
    return [Range(path, a, b, a) for a, b in pairwise(ends)]


def check_ranges(ranges: Sequence[Range]) -> list[Range]:
    """Return ranges in order, or raise if objects are missing or there twice.

    Examples
    --------
    >>> check_ranges([Range("b", 2, 5, 0), Range("a", 0, 2, 0)])[0].path
    'a'
    """
    if not ranges:
        raise ValueError("source is an empty list; give at least one range.")
    ranges = sorted(ranges, key=lambda where: where.first)
    end = 0
    for where in ranges:
        if where.begin < 0 or where.last <= where.first:
            raise ValueError(
                f"{shown(where)} holds no object; give first < last and begin >= 0."
            )
        if where.first > end:
            raise ValueError(
                f"no shard has the objects {end} to {where.first - 1}; every object "
                "belongs to one."
            )
        if where.first < end:
            raise ValueError(
                f"two shards have the objects {where.first} to "
                f"{min(end, where.last) - 1}; every object belongs to one."
            )
        end = where.last
    return ranges
