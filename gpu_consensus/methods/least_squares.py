"""Least-squares consensus (AddRemAdd): clusters one by one, their number is found."""

from __future__ import annotations

import math
import os
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.device_memory import (
    ELSEWHERE,
    DeviceMemoryError,
    DeviceMemoryWarning,
    memory_for,
)
from gpu_consensus.backends.numpy import n_threads
from gpu_consensus.backends.protocol import Backend, Codes, Counts
from gpu_consensus.loop.count_by_cluster import count_by_cluster
from gpu_consensus.loop.saved_call import SavedCall, hash_ensemble
from gpu_consensus.methods.call import Shared, Task, open_task
from gpu_consensus.methods.climbs import (
    Threshold,
    climb_all,
    climb_bytes,
    count_labels,
    score,
)
from gpu_consensus.methods.known_climbs import Known
from gpu_consensus.result import Consensus
from gpu_consensus.util.arrays import is_array, size_text
from gpu_consensus.util.checks import FloatArray, IntArray, check_choice
from gpu_consensus.util.memory import available_memory
from gpu_consensus.util.numbers import real_number, shown
from gpu_consensus.util.progress import Advance, progress_bar
from gpu_consensus.util.warn import warn

_PARTS = 32  # in which climbs are made where they are kept
_FEWEST_STARTS = 64  # of a part
_MATRIX = 1 << 30  # bytes, if nothing else is asked for
_TILE = 1 << 22  # pairs counted at a time
_LARGEST_DENOMINATOR = 10**12
_LARGEST_RATIO = 1000
_MOST_PARTITIONS = 65_535
_MOST_LABELS = 2**29


def least_squares(
    ensemble: Any,
    n_clusters: int | None = None,
    *,
    threshold: float | str = 0.0,
    weights: Any = None,
    on_unlabelled: str = "raise",
    backend: str | Backend = "auto",
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    random_state: Any = None,
    progress: bool = False,
) -> Consensus:
    """Least-squares consensus clustering; it finds the number of clusters.

    With a_lm the number of partitions in which objects l and m share a label (r_l for
    l = m), a cluster S is worth b(S) = sum of a_lm over l, m in S, divided by |S|.
    AddRemAdd begins with one object and flips, in or out, the one that raises b(S)
    most, until none does. It runs from every object; the cluster of largest b is kept
    and taken out, and so on with the rest until nothing is left. Ties go to the first
    object. Their sum g = sum_k b(S_k) is Eq. 3 of [1]_.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions. A missing label agrees with nothing.
    n_clusters : int, optional
        Stop at so many clusters; an object that is left joins the cluster with which
        its mean similarity is largest. By default the number is found.
    threshold : float, "mean" or "half", default 0
        Subtracted from every a_lm: more makes more and smaller clusters. "mean" is the
        mean of all a_lm, l = m included; "half" is half the number of partitions; a
        number lies between 0 and that of the partitions. [1]_ subtracts nothing.
    checkpoint, random_state, progress
        As in :func:`kcc`; nothing is drawn here, so ``random_state`` has no effect.
        With a checkpoint the climbs are made in 32 parts, of which no part is lost;
        climbs of different parts do not know where they meet, which takes longer.
    weights, on_unlabelled, backend, n_jobs, memory_limit
        As in :func:`kcc`. Weights must be in the ratio of whole numbers (0 leaves a
        partition out): a partition of weight 2 counts like two. The a_lm are kept in a
        matrix if twice its n^2 bytes (2 n^2 from 256 partitions on) fit
        ``memory_limit``, by default 1 GiB at most, and the labels fit the device, else
        counted when needed; the answer is the same.

    Returns
    -------
    Consensus
        Clusters are numbered as they were found. ``value`` is g; ``objective`` is the
        sum of squared residuals of Eq. 2, which is the number of labels minus g minus
        n times the threshold; ``history`` has b of each cluster when it was found.
        ``details``: ``sizes`` and ``b`` of the clusters when they were found,
        ``attached`` (objects that joined them at the end) and ``threshold``.

    Notes
    -----
    All sums are integers, and b is one float64 division: every backend gives the same
    clusters. b(S) never falls along a climb. g itself is largest for n clusters of one
    object, so it cannot compare partitions with different numbers of clusters.

    The work is n climbs of as many flips as the cluster has objects, each flip n r
    comparisons (n with the matrix); climbs that meet are counted once.

    References
    ----------
    .. [1] B. Mirkin, A. Shestakov, "A note on the effectiveness of the least squares
       consensus clustering", 2013.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 2, 1]])
    >>> result = gpc.least_squares(ens)
    >>> result.labels.tolist(), result.value
    ([0, 0, 1, 1], 11.0)
    """
    shared = Shared(
        weights, on_unlabelled, backend, n_jobs, memory_limit, random_state, progress
    )
    task = open_task(
        "least_squares",
        ensemble,
        n_clusters,
        shared,
        compares_pairs=True,
        finds_n_clusters=True,
    )
    codes, n_labels = _repeat(task)
    n, r = codes.shape[1], len(codes)
    if r > _MOST_PARTITIONS or n * r >= _MOST_LABELS or n * n * r >= 2**62:
        raise ValueError(
            f"n_samples={n} with n_partitions={r} is too large for least_squares, "
            f"which counts {_MOST_PARTITIONS} partitions and 2^29 labels; use kcc."
        )
    fraction = _as_threshold(threshold, codes, n_labels)
    call: dict[str, Any] = {"method": "least_squares"}
    if checkpoint is not None:
        call |= {
            "ensemble": hash_ensemble(task.given),
            "n_labels": task.given.n_labels.tolist(),
            "weights": task.given_weights.tolist(),
            "n_clusters": n_clusters,
            "threshold": list(fraction),
        }
    saved = SavedCall(checkpoint, call, 0)
    with progress_bar(task.progress, "least_squares", None) as advance:
        clusters = _find_clusters(task, codes, n_labels, fraction, saved, advance)
    labels = np.full(n, len(clusters), dtype=np.int64)
    for k, members in enumerate(clusters):
        labels[members] = k
    counts = _count(task, codes, n_labels, labels, len(clusters))
    sizes = np.array([len(members) for members in clusters])
    values = _worth(counts, sizes, fraction)
    left = np.flatnonzero(labels == len(clusters))
    if left.size:
        labels[left] = _nearest(codes[:, left], n_labels, counts, sizes)
        counts = _count(task, codes, n_labels, labels, len(clusters))
    worth = _worth(counts, np.bincount(labels), fraction)
    value, shift = math.fsum(worth), fraction[0] / fraction[1]
    return task.result(
        labels,
        objective=float(count_labels(codes, n_labels).sum()) - value - n * shift,
        value=value,
        history=values,
        details={
            "sizes": sizes,
            "b": values,
            "attached": int(left.size),
            "threshold": shift,
        },
    )


def _repeat(task: Task) -> tuple[Codes, IntArray]:
    """Return codes and numbers of labels with a partition of weight w there w times."""
    codes, n_labels = task.codes, task.ensemble.n_labels
    if task.equal_weights:
        return codes, n_labels
    ratio = task.weights / task.weights.min()
    parts = [Fraction(x).limit_denominator(_LARGEST_RATIO) for x in ratio.tolist()]
    unit = math.lcm(*(part.denominator for part in parts))
    times = np.array([int(part * unit) for part in parts])
    total = int(times.sum())
    if (
        total > _MOST_PARTITIONS
        or total * codes.shape[1] >= _MOST_LABELS  # before they take the memory
        or not np.allclose(times / unit, ratio, rtol=1e-9, atol=0)
    ):
        raise ValueError(
            "weights should be in the ratio of small whole numbers for least_squares, "
            "which counts partitions; round them, or use kcc."
        )
    return np.repeat(codes, times, axis=0), np.repeat(n_labels, times)


def _as_threshold(threshold: Any, codes: Codes, n_labels: IntArray) -> Threshold:
    """Return what to subtract as a fraction that keeps all sums within 64 bits."""
    r, n = codes.shape
    if isinstance(threshold, str):
        check_choice("threshold", threshold, ["mean", "half"])
        fraction = Fraction(r, 2)
        if threshold == "mean":
            total = sum(
                int((np.bincount(labels, minlength=k_i)[:k_i] ** 2).sum())
                for labels, k_i in zip(codes, n_labels.tolist(), strict=True)
            )
            fraction = Fraction(total, n * n)
    else:
        number = real_number(threshold)
        if not 0 <= number <= r:
            raise ValueError(
                f"threshold={shown(threshold)} should be 'mean', 'half' or a number in "
                f"0..{r}, the number of partitions."
            )
        fraction = Fraction(number)
    most = min(_LARGEST_DENOMINATOR, max(1, 2**62 // (n * n * r)))
    return fraction.limit_denominator(most).as_integer_ratio()


def _find_clusters(
    task: Task,
    codes: Codes,
    n_labels: IntArray,
    threshold: Threshold,
    saved: SavedCall,
    advance: Advance,
) -> list[npt.NDArray[np.intp]]:
    """Take out the best cluster until no object is left, or there are enough."""
    n = codes.shape[1]
    known = Known.of(saved, n)
    rest = np.flatnonzero(known.cluster < 0)
    there = np.arange(n)  # the objects of `similarity`, or of `resident` without it
    resident: Any = None
    similarity: Any = None
    if rest.size and known.n_clusters != task.n_clusters:
        resident = _resident(task, codes)
        similarity = _similarity(task, resident, n_labels, advance)
    most = n if saved.path is None else max(_FEWEST_STARTS, -(-n // _PARTS))
    while rest.size and known.n_clusters != task.n_clusters:
        starts = np.flatnonzero(known.unknown[rest])[:most]
        if starts.size:
            if len(there) > len(rest):
                if similarity is not None:
                    keep = np.flatnonzero(np.isin(there, rest))
                    similarity = _keep(task, similarity, keep)
                resident = None  # frees its memory first
                left = np.ascontiguousarray(codes[:, rest])
                resident = _resident(task, left) if similarity is None else left
                there = rest
            climbs = climb_all(
                resident,
                n_labels,
                starts,
                threshold,
                similarity,
                advance,
                n_threads(task.n_jobs),
            )
            known.forget_unused(rest)
            known.add(climbs, starts, rest, threshold)
        if not known.unknown[rest].any():
            rest = known.take_best(rest)
            found = known.n_clusters
            advance(0, f"{found} clusters, {len(rest)} objects left")
        if saved.is_due():
            saved.save({}, vars(known))
    saved.save({}, vars(known))
    return [np.flatnonzero(known.cluster == k) for k in range(known.n_clusters)]


def _resident(task: Task, codes: Codes) -> Any:
    """Return codes where the backend computes, all of them: climbs read any two."""
    resident = task.backend.resident(codes, climb_bytes(codes.shape[1]))
    if not is_array(resident):
        raise DeviceMemoryError(
            "the device has no memory left for the codes of least_squares, "
            f"{size_text(codes.nbytes)}; {ELSEWHERE}."
        )
    return resident


def _similarity(task: Task, resident: Any, n_labels: IntArray, advance: Advance) -> Any:
    """Return all a_lm where the backend computes, or None if they are too many."""
    r, n = resident.shape
    kind = np.uint8 if r <= 255 else np.uint16
    limit = task.memory_limit
    if limit is None:
        free = available_memory()
        limit = min(_MATRIX, (_MATRIX if free is None else free) // 4)
    if 2 * n * n * np.dtype(kind).itemsize > limit:
        return None
    backend = task.backend
    everyone = np.arange(n)
    step = max(1, _TILE // n)
    try:
        with memory_for(f"similarities of {n} objects", ELSEWHERE):
            matrix = backend.xp.empty((n, n), kind)
            for begin in range(0, n, step):
                rows = everyone[begin : begin + step]
                same = backend.pairs(resident, n_labels, rows, everyone).same
                matrix[begin : begin + step] = backend.to_device(same.astype(kind))
                advance(0, f"similarities of {begin + len(rows)} objects")
    except MemoryError:  # a device may have less than the host
        _warn_of_counting(n)
        return None
    return matrix


def _keep(task: Task, similarity: Any, objects: IntArray) -> Any:
    """Return the similarities of some objects, or None if there is no memory."""
    try:
        with memory_for("similarities that stay", ELSEWHERE):
            keep = task.backend.to_device(objects)
            # one side after the other: CuPy would make an index for every pair
            return similarity[keep][:, keep]
    except MemoryError:
        _warn_of_counting(len(objects))
        return None


def _warn_of_counting(n_samples: int) -> None:
    warn(
        f"there is no memory left for the similarities of {n_samples} objects; going "
        "on by counting them when needed, which takes longer.",
        DeviceMemoryWarning,
    )


def _count(
    task: Task, codes: Codes, n_labels: IntArray, labels: IntArray, n_clusters: int
) -> Counts:
    """Count the labels of each cluster, (S, K); missing ones are 0."""
    offsets = _offsets(n_labels)
    counts: Counts = count_by_cluster(
        task.backend, codes, offsets, labels, n_clusters, task.memory_limit
    ).copy()
    counts[offsets[1:] - 1] = 0
    return counts


def _offsets(n_labels: IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(n_labels + 1)])


def _worth(counts: Counts, sizes: IntArray, threshold: Threshold) -> FloatArray:
    """Return b of every cluster: sum_i sum_j n_kj^2 is its sum of a_lm."""
    totals = (counts**2).sum(axis=0)
    scores = [
        score(total, size, threshold)
        for total, size in zip(totals.tolist(), sizes.tolist(), strict=True)
    ]
    return np.array(scores) / threshold[1]


def _nearest(
    codes: Codes, n_labels: IntArray, counts: Counts, sizes: IntArray
) -> npt.NDArray[np.intp]:
    """Return the cluster of largest mean similarity, the first of equals."""
    near = np.zeros((codes.shape[1], len(sizes)), dtype=np.int64)
    for labels, first in zip(codes, _offsets(n_labels)[:-1], strict=True):
        near += counts[first + labels.astype(np.int64)]
    best: npt.NDArray[np.intp] = (near / sizes).argmax(axis=1)
    return best
