"""What least squares knows of its climbs, in memory and in a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpu_consensus.loop.saved_call import SavedCall
from gpu_consensus.methods.climbs import Climbs, Threshold, score
from gpu_consensus.util.checks import FloatArray, IntArray


@dataclass
class Known:
    """The clusters so far, and what is known of the climb from each object.

    Attributes
    ----------
    cluster : ndarray of shape (n,), int64
        -1 for objects that are left.
    height : ndarray of shape (n,)
        b, times the denominator of the threshold, of the set where its climb ends.
    reached : ndarray of shape (n,), intp
        The row of ``sets`` that holds this set.
    strayed, unknown : ndarray of shape (n,), bool
        Whether an object left it on the way; whether nothing is known of the climb.
    sets : ndarray of shape (m, ceil(n / 8)), uint8
        Packed bits.
    """

    cluster: IntArray
    height: FloatArray
    reached: npt.NDArray[np.intp]
    strayed: npt.NDArray[np.bool_]
    unknown: npt.NDArray[np.bool_]
    sets: npt.NDArray[np.uint8]

    @classmethod
    def nothing(cls, n: int) -> Known:
        """Return what is known before the first climb."""
        return cls(
            np.full(n, -1, dtype=np.int64),
            np.zeros(n),
            np.zeros(n, dtype=np.intp),
            np.zeros(n, dtype=np.bool_),
            np.ones(n, dtype=np.bool_),
            np.empty((0, -(-n // 8)), dtype=np.uint8),
        )

    @classmethod
    def of(cls, saved: SavedCall, n: int) -> Known:
        """Return what a checkpoint keeps."""
        fresh = cls.nothing(n)
        if saved.state is None:
            return fresh
        for name, array in vars(fresh).items():
            kept = saved.arrays.get(name)
            if (
                kept is None
                or kept.dtype != array.dtype
                or kept.shape[1:] != array.shape[1:]
                or (name != "sets" and kept.shape != array.shape)
            ):
                raise saved.damaged(f"its {name} is not that of this call")
        known = cls(**{name: np.array(saved.arrays[name]) for name in vars(fresh)})
        reached = known.reached[~known.unknown]
        if reached.size and not 0 <= reached.min() <= reached.max() < len(known.sets):
            raise saved.damaged("its climbs end nowhere")
        return known

    @property
    def n_clusters(self) -> int:
        """How many clusters have been found."""
        return int(self.cluster.max(initial=-1)) + 1

    def add(
        self, climbs: Climbs, starts: IntArray, rest: IntArray, threshold: Threshold
    ) -> None:
        """Take in climbs from ``starts``, places among the objects that are left."""
        n, n_sets = len(self.height), len(self.sets)
        fresh = np.empty((len(climbs.sets), self.sets.shape[1]), dtype=np.uint8)
        sizes = np.empty(len(fresh), dtype=np.int64)
        for x, packed in enumerate(climbs.sets):
            members = np.zeros(n, dtype=np.bool_)
            members[rest] = np.unpackbits(packed, count=len(rest))
            sizes[x] = members.sum()
            fresh[x] = np.packbits(members)
        objects, size = rest[starts], sizes[climbs.which]
        self.height[objects] = [
            score(total, s, threshold)
            for total, s in zip(climbs.total.tolist(), size.tolist(), strict=True)
        ]
        self.reached[objects] = climbs.which + n_sets
        self.sets = np.concatenate([self.sets, fresh])
        self.strayed[objects] = climbs.n_flips >= size  # an object left on the way
        self.unknown[objects] = False

    def forget_unused(self, rest: IntArray) -> None:
        """Drop the sets where no known climb ends."""
        known = rest[~self.unknown[rest]]
        used, self.reached[known] = np.unique(self.reached[known], return_inverse=True)
        self.sets = self.sets[used]

    def take_best(self, rest: IntArray) -> IntArray:
        """Make the best set a cluster; return the objects that are left."""
        n = len(self.height)
        best = rest[self.height[rest].argmax()]
        packed = self.sets[self.reached[best]]
        members = np.unpackbits(packed, count=n).astype(np.bool_)
        self.cluster[members] = self.n_clusters
        rest = rest[~members[rest]]
        # a climb that never took in an object of this cluster would be the same again
        some = np.flatnonzero(packed)
        touched = (self.sets[:, some] & packed[some]).any(axis=1)
        self.unknown[rest] = self.strayed[rest] | touched[self.reached[rest]]
        return rest
