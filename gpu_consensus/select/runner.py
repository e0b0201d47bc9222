"""The parts of a selection: each with a seed of its own, on threads, kept when done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from gpu_consensus.backends.host_loops import for_each
from gpu_consensus.select.kept import Kept
from gpu_consensus.util.progress import Advance, progress_bar

PURPOSES = ("sample", "scatter", "stability", "gap", "labels", "null", "halves")
"""What random numbers are for; the place in this list parts their seeds."""


@dataclass(frozen=True)
class Runner:
    """How the parts of one selection are computed.

    Attributes
    ----------
    kept : Kept
        Finished parts.
    n_threads : int
        Over parts; no number depends on it.
    progress : bool
        Whether to draw bars.
    """

    kept: Kept
    n_threads: int
    progress: bool

    def seed_of(self, purpose: str, *path: int) -> np.random.SeedSequence:
        """Return the seed of a part, which depends on its name alone."""
        seed = self.kept.seed
        return np.random.SeedSequence(
            seed.entropy,
            spawn_key=(*seed.spawn_key, PURPOSES.index(purpose), *path),
            pool_size=seed.pool_size,
        )

    @contextmanager
    def stage(self, name: str, n_parts: int) -> Iterator[Stage]:
        """Open a bar for parts of one kind; what is finished is saved at its end."""
        with progress_bar(self.progress, name, n_parts) as advance:
            try:
                yield Stage(self, name, advance)
            finally:
                self.kept.save()


@dataclass(frozen=True)
class Stage:
    """Parts of one kind; made by :meth:`Runner.stage`."""

    runner: Runner
    name: str
    advance: Advance

    def run(
        self, keys: Sequence[int], work: Callable[[int], list[float]]
    ) -> list[list[float]]:
        """Return the numbers of parts, computed unless they are kept already."""
        kept = self.runner.kept

        def one(key: int) -> None:
            name = f"{self.name}/{key}"
            if kept.get(name) is None:
                kept.put(name, work(key))
            self.advance()

        for_each(one, keys, self.runner.n_threads)
        found = [kept.get(f"{self.name}/{key}") for key in keys]
        return [numbers for numbers in found if numbers is not None]
