"""AddRemAdd climbs on a CUDA device, one block per climb, in waves."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.cupy.launcher import Launcher, type_name
from gpu_consensus.backends.cupy.source import add_rem_add_kernel
from gpu_consensus.backends.device_errors import cuda_errors
from gpu_consensus.backends.device_memory import ELSEWHERE, for_fewer, room_for
from gpu_consensus.backends.profiling import stage
from gpu_consensus.util.checks import IntArray
from gpu_consensus.util.progress import Advance

_BLOCKS = 16  # blocks of a wave per multiprocessor
_PROBES = 32  # slots of the table to try before a set counts as unknown


def climb_waves(
    gpu: Launcher,
    codes: Any,
    n_labels: IntArray,
    starts: IntArray,
    threshold: tuple[int, int],
    similarity: Any,
    marks: npt.NDArray[np.uint64],
    n_slots: int,
    advance: Advance | None,
) -> tuple[IntArray, IntArray, IntArray, IntArray, dict[int, npt.NDArray[np.uint8]]]:
    """Climb from every start on the device; waves are halved to fit.

    Takes and returns, on the host, what ``gpu_consensus.methods.climbs`` says: sums,
    flips, who was joined and after how many flips, and the sets of who joined nobody.
    ``marks`` are random bits of every object, ``n_slots`` is a power of two.
    """
    with cuda_errors(), stage("add_rem_add"):
        xp = gpu.xp
        (r, n), n_starts = codes.shape, len(starts)
        with room_for(f"climbs among {n} objects", ELSEWHERE):
            if similarity is not None:
                own = similarity.diagonal().astype(np.int32)
            else:
                own = xp.zeros(n, np.int32)
                for i, k_i in enumerate(n_labels.tolist()):
                    own += codes[i] != k_i
            rows, stride = gpu.strided(codes if similarity is None else similarity)
            kernel = add_rem_add_kernel(type_name(rows), int(similarity is not None))
            head = (
                rows,
                np.int64(stride),
                xp.asarray(np.asarray(n_labels, dtype=np.int32)),
                np.int32(r),
                np.int32(n),
                own,
                xp.asarray(marks),
                xp.asarray(np.asarray(starts, dtype=np.int32)),
            )
            keys = xp.zeros(n_slots, np.uint64)
            visitors = xp.empty((n_slots, 2), np.int32)

        def reserve(n_blocks: int) -> tuple[Any, ...]:
            return (
                xp.empty((n_blocks, n), np.int32),
                xp.empty(n_blocks, np.int64),
                xp.empty(n_blocks, np.int32),
                xp.empty(n_blocks, np.int32),
            )

        most = min(n_starts, _BLOCKS * gpu.n_processors, gpu.free_memory() // 16 // n)
        scratch, wave = for_fewer(xp, reserve, max(1, most))
        states, totals, n_flips, slots = scratch
        tail = (
            np.int64(threshold[0]),
            np.int64(threshold[1]),
            keys,
            np.int32(n_slots),
            np.int32(_PROBES),
            visitors,
            *scratch,
        )
        parts: list[tuple[npt.NDArray[Any], ...]] = []
        members: dict[int, npt.NDArray[np.uint8]] = {}
        for begin in range(0, n_starts, wave):
            here = min(wave, n_starts - begin)
            gpu.launch(
                kernel, (here,), (kernel.threads,), (*head, np.int32(begin), *tail)
            )
            part = tuple(xp.asnumpy(array[:here]) for array in (totals, n_flips, slots))
            parts.append(part)
            for x in np.flatnonzero(part[2] < 0).tolist():
                members[begin + x] = np.packbits(xp.asnumpy(states[x]) & 1)
            if advance is not None:
                advance(here)
        total, flips, slot = (
            np.concatenate(column).astype(np.int64)
            for column in zip(*parts, strict=True)
        )
        # a slot keeps its first visitor; to pick some on the device would take memory
        who = np.where(slot[:, None] < 0, -1, xp.asnumpy(visitors)[slot]).astype(
            np.int64
        )
        return total, flips, who[:, 0], who[:, 1], members
