"""Starts of EM that climb together, and how far they have come on disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpu_consensus.loop.saved_call import SavedCall
from gpu_consensus.methods.mixture import Mixture, Model


class End(NamedTuple):
    """The end of a start."""

    start: int
    mixture: Mixture
    history: list[float]
    converged: bool

    @property
    def rank(self) -> tuple[float, int]:
        """Greatest likelihood first, then the first of equals."""
        return -self.history[-1], self.start


@dataclass
class Climb:
    """Starts that run together.

    Attributes
    ----------
    next : int
        The first start that is not among them.
    alive : list of int
        Those that have not ended.
    history : dict of int to list of float
        The log-likelihoods of each of these.
    mixture, before : Mixture
        Of these, now and an iteration ago.
    """

    next: int
    alive: list[int]
    history: dict[int, list[float]]
    mixture: Mixture
    before: Mixture

    def run(self, model: Model, max_iter: int, tol: float) -> Iterator[list[End]]:
        """Run the starts until each ends; yield those that do after each iteration."""
        while self.alive:
            counts, likelihoods = model.expect(self.mixture)
            going: list[int] = []
            ended: list[End] = []
            for a, q in enumerate(self.alive):
                history = self.history[q]
                last = history[-1] if history else -np.inf
                # rounding may take back a little at the end: the step does not count
                fell = likelihoods[a] < last
                history.append(last if fell else float(likelihoods[a]))
                converged = bool(likelihoods[a] - last <= tol * model.n_samples)
                if converged or len(history) == max_iter:
                    there = self.before if fell else self.mixture
                    ended.append(End(q, there.take([a]), history, converged))
                else:
                    going.append(a)
            self.before = self.mixture.take(going)
            self.alive = [self.alive[a] for a in going]
            if going:
                self.mixture = model.maximise(np.ascontiguousarray(counts[:, going]))
            yield ended


def save_climb(saved: SavedCall, climb: Climb, best: End | None) -> None:
    """Keep the starts at work, and the best of those that have ended."""
    state: dict[str, Any] = {
        "next": climb.next,
        "alive": climb.alive,
        "history": [climb.history[q] for q in climb.alive],
    }
    arrays = {
        "alpha": climb.mixture.alpha,
        "theta": climb.mixture.theta,
        "alpha_before": climb.before.alpha,
        "theta_before": climb.before.theta,
    }
    if best is not None:
        state["best"] = [best.start, best.history, best.converged]
        arrays |= {"alpha_best": best.mixture.alpha, "theta_best": best.mixture.theta}
    saved.save(state, arrays)


def resumed(saved: SavedCall) -> tuple[End | None, Climb | None]:
    """Return the best of the starts that had ended, and those that were at work."""
    state, arrays = saved.state, saved.arrays
    if state is None:
        return None, None
    try:
        best = None
        if "best" in state:
            start, history, converged = state["best"]
            there = Mixture(arrays["alpha_best"], arrays["theta_best"])
            best = End(int(start), there, list(history), bool(converged))
        histories = zip(state["alive"], state["history"], strict=True)
        climb = Climb(
            int(state["next"]),
            list(state["alive"]),
            {q: list(history) for q, history in histories},
            Mixture(arrays["alpha"], arrays["theta"]),
            Mixture(arrays["alpha_before"], arrays["theta_before"]),
        )
    except (LookupError, TypeError, ValueError) as error:
        raise saved.damaged("its parts are not those of em") from error
    return best, climb
