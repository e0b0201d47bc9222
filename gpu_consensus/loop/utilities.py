"""KCC utilities: a convex function mu of a sub-centroid, and all that follows from it.

A utility is a few small functions over counts. Shapes: ``n`` is (S, ...) int64, the
counts n_kj of all partitions below each other (see the seam), zero in the rows for
"missing"; the trailing axes are restarts and clusters. Sums over labels are sums of
integers, so no result depends on their order.

Reference: Wu, Liu, Xiong, Cao, Chen, "K-means-based consensus clustering: a unified
view", TKDE 2015, Tables 1 and 3, Eq. 31-34.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from gpu_consensus.backends.log2 import LOOKUP_BITS, x_log2_x
from gpu_consensus.backends.recipe import FLOOR, lp_norm, power
from gpu_consensus.backends.segments import TINY, Array, LabelSums, Segments
from gpu_consensus.util.checks import FloatArray, IntArray, unknown_name
from gpu_consensus.util.numbers import plain_numbers, shown

_BLOCK = 1 << 18  # numbers passed at once to a function of the user


class Formula(NamedTuple):
    """A utility as functions of counts.

    total(n, segments)
        n_k mu(m_k), (r, ...), 0 for an empty cluster.
    change(n, segments, step)
        By how much that total changes when an object with label j enters (step 1) or
        leaves (step -1) the cluster, (S, ...). Leaving is only asked where n_kj > 0.
    unit(segments)
        mu(e_j), (S,).
    total_of(sums)
        The same as ``total``, from the label sums alone; None where they do not do.
    needs_entropy
        Whether ``total_of`` reads the entropy.
    name
        Its name in compiled refinement; empty where there is none.
    recipe, power
        Its name in the recipe of its table, such as "LP" with power 5; empty where
        there is none.
    divergence(n, segments)
        Where there is no recipe, f(e_j, m_k), (S, ...), for clusters that are not
        empty.
    """

    total: Callable[[Array, Segments], FloatArray]
    change: Callable[[Array, Segments, int], FloatArray]
    unit: Callable[[Segments], FloatArray]
    total_of: Callable[[LabelSums], FloatArray] | None = None
    needs_entropy: bool = False
    name: str = ""
    recipe: str = ""
    power: int = 0
    divergence: Callable[[Array, Segments], FloatArray] | None = None


def _ones(segments: Segments) -> FloatArray:
    return np.ones(int(segments.offsets[-1]))


def _zeros(segments: Segments) -> FloatArray:
    return np.zeros(int(segments.offsets[-1]))


def _ratio(a: Array, b: Array) -> FloatArray:
    """Divide, with 0 where the divisor is 0."""
    return np.asarray(np.divide(a, np.where(b == 0, 1, b)) * (b != 0))


# c: mu = sum m^2, the category utility; with A = sum_j n_kj^2 all sums are integers


def _c_total(n: Array, segments: Segments) -> FloatArray:
    return _ratio(segments.sum(n * n), segments.sum(n))


def _c_change(n: Array, segments: Segments, step: int) -> FloatArray:
    size = segments.to_labels(segments.sum(n))
    square = segments.to_labels(segments.sum(n * n))
    entering = size * (2 * step * n + 1) - step * square
    # an empty cluster gains mu(e_j) = 1, a single object takes its 1 along
    lone = size + step <= (1 if step > 0 else 0)
    return np.where(lone, step * 1.0, _ratio(entering, size * (size + step)))


# h: mu = sum m log2 m, the mutual information of Shannon


def _h_total(n: Array, segments: Segments) -> FloatArray:
    return np.asarray(segments.sum_in_order(x_log2_x(n)) - x_log2_x(segments.sum(n)))


def _h_total_of(sums: LabelSums) -> FloatArray:
    assert sums.entropy is not None
    return np.asarray(sums.entropy - x_log2_x(sums.size))


def _x_log2_x_change(n: Array, step: int) -> FloatArray:
    """(x + 1) log2(x + 1) - x log2 x, without cancellation; for step -1 its reverse."""
    low = np.maximum(n if step > 0 else n - 1, 0)
    bits = int(low.max(initial=0)).bit_length()
    rise = rises(bits).take(low) if bits <= LOOKUP_BITS else _rise(low)
    return np.asarray(step * rise)


def _rise(x: Array) -> FloatArray:
    slope = np.log1p(1.0 / np.maximum(x, 1)) / np.log(2.0)
    return np.asarray(np.log2(x + 1.0) + x * slope)


@lru_cache(maxsize=32)
def rises(bits: int) -> FloatArray:
    """All rises below 2**bits: refinement asks for the same few again and again."""
    return _rise(np.arange(1 << bits))


def _h_change(n: Array, segments: Segments, step: int) -> FloatArray:
    size = _x_log2_x_change(segments.sum(n), step)
    return np.asarray(_x_log2_x_change(n, step) - segments.to_labels(size))


# cos: mu = norm2(m)


def _cos_total(n: Array, segments: Segments) -> FloatArray:
    return np.asarray(np.sqrt(segments.sum(n * n)))


def _cos_change(n: Array, segments: Segments, step: int) -> FloatArray:
    square = segments.to_labels(segments.sum(n * n))
    change = 2 * step * n + 1
    after = np.maximum(square + change, 0)
    return _ratio(change, np.sqrt(after) + np.sqrt(square))


# lP: mu = norm_P(m)


def _lp(p: int) -> Formula:
    norm = lp_norm(p)

    def change(n: Array, segments: Segments, step: int) -> FloatArray:
        peak = segments.to_labels(np.maximum(segments.max(n), 1))
        powers = power(n / peak, p)
        total = segments.to_labels(segments.sum(powers))
        rest = np.maximum(total - powers, 0.0)
        after = rest + power(np.maximum(n + step, 0) / peak, p)
        return np.asarray(peak * (after ** (1.0 / p) - total ** (1.0 / p)))

    return Formula(norm, change, _ones, recipe="LP", power=p)


_BASE = {
    "c": Formula(
        _c_total,
        _c_change,
        _ones,
        lambda sums: _ratio(sums.square, sums.size),
        name="c",
        recipe="C",
    ),
    "h": Formula(_h_total, _h_change, _zeros, _h_total_of, True, "h", "H"),
    "cos": Formula(
        _cos_total,
        _cos_change,
        _ones,
        lambda sums: np.sqrt(sums.square),
        name="cos",
        recipe="COS",
    ),
}
NAMES = ("c", "h", "cos", "l5", "l8", "nc", "nh", "ncos", "nl5", "nl8")


class Utility:
    """A KCC utility of your own, from a convex function and its gradient.

    Parameters
    ----------
    mu : callable
        ``(..., K_i) -> (...)``: a convex function of a distribution over K_i labels.
    gradient : callable
        ``(..., K_i) -> (..., K_i)``: its gradient. It is evaluated at
        ``max(m, 2**-52)`` and must be finite there.
    name : str, default "mine"
        What results call it.
    normalised : bool, default False
        Divide each partition's weight by abs(mu) of its marginal (Eq. 34).

    Notes
    -----
    ``kcc`` checks mu and its gradient on random pairs of distributions and refuses a
    function that is not convex, with the pair.

    Examples
    --------
    >>> import numpy as np
    >>> Utility(lambda m: (m**3).sum(-1), lambda m: 3 * m**2, name="cubic")
    Utility('cubic')
    """

    def __init__(
        self,
        mu: Callable[[FloatArray], FloatArray],
        gradient: Callable[[FloatArray], FloatArray],
        name: str = "mine",
        normalised: bool = False,
    ) -> None:
        for label, function in (("mu", mu), ("gradient", gradient)):
            if not callable(function):
                raise TypeError(f"{label}={shown(function)} should be a function.")
        self.mu = mu
        self.gradient = gradient
        self.name = name
        self.normalised = bool(normalised)

    def __repr__(self) -> str:
        tail = ", normalised=True" if self.normalised else ""
        return f"Utility({self.name!r}{tail})"

    def check(self, n_labels: IntArray) -> None:
        """Raise an error if mu is not convex or the gradient is not mu's."""
        rng, value_range = np.random.default_rng(0), 0.0
        for k_i in np.unique(n_labels[n_labels > 1])[:20]:
            x, y = rng.dirichlet(np.full(k_i, 0.5), size=(2, 64)).clip(FLOOR)
            mu_x, mu_y = self._mu(x), self._mu(y)
            # a high power of many labels is large at the corners alone
            corner = self._mu(np.eye(1, k_i))
            value_range = max(
                value_range, float(np.ptp(np.concatenate([mu_x, mu_y, corner])))
            )
            slack = 1e-9 * (1.0 + np.abs(mu_x) + np.abs(mu_y))
            bent = self._mu((x + y) / 2) - (mu_x + mu_y) / 2 > slack
            if bent.any():
                a, b = x[bent][0], y[bent][0]
                raise ValueError(
                    f"utility {self.name!r} is not convex between "
                    f"{np.round(a, 4).tolist()} and {np.round(b, 4).tolist()}; KCC "
                    "needs a convex mu."
                )
            tangent = mu_x + ((y - x) * self._gradient(x)).sum(-1)
            if (tangent - mu_y > slack).any():
                raise ValueError(
                    f"the gradient of utility {self.name!r} is not that of its mu; "
                    "check its formula."
                )
        if 0 < value_range < 2**20 * TINY:
            raise ValueError(
                f"utility {self.name!r} differs by {value_range:.3g} at most between "
                "distributions, which a table in float32 cannot hold; multiply mu and "
                "its gradient by a large number."
            )

    def _mu(self, m: FloatArray) -> FloatArray:
        value = self._floats("mu", self.mu(m))
        if value.shape != m.shape[:-1] or not np.isfinite(value).all():
            raise ValueError(
                f"mu of utility {self.name!r} should turn shape {m.shape} into finite "
                f"numbers of shape {m.shape[:-1]}; it gave shape {value.shape}, "
                f"finite: {bool(np.isfinite(value).all())}."
            )
        return value

    def _gradient(self, m: FloatArray) -> FloatArray:
        value = self._floats("gradient", self.gradient(np.maximum(m, FLOOR)))
        if value.shape != m.shape or not np.isfinite(value).all():
            raise ValueError(
                f"the gradient of utility {self.name!r} should be finite and of its "
                f"argument's shape {m.shape}; it gave shape {value.shape}, finite: "
                f"{bool(np.isfinite(value).all())}."
            )
        return value

    def _floats(self, what: str, value: Any) -> FloatArray:
        """Return what a function of the caller's gave, if it is numbers."""

        def fail(*_: Any) -> ValueError:
            return ValueError(
                f"{what} of utility {self.name!r} returned {shown(value)}; it should "
                "return numbers."
            )

        try:
            array = plain_numbers(np.asarray(value), fail)
        except ValueError:  # ragged
            raise fail() from None
        if array.dtype.kind not in "biuf":
            raise fail()
        return array.astype(np.float64, copy=False)

    def formula(self) -> Formula:
        """Return the functions of counts that follow from mu and its gradient."""

        def by_partition(
            work: Callable[[Array], FloatArray], n: Array, segments: Segments
        ) -> list[FloatArray]:
            parts = zip(segments.starts, segments.missing, strict=True)
            return [work(np.moveaxis(n[begin:end], 0, -1)) for begin, end in parts]

        def stack(parts: list[FloatArray], segments: Segments) -> FloatArray:
            """Put (..., K_i) blocks below each other, with a row 0 for missing."""
            rows = [np.moveaxis(part, -1, 0) for part in parts]
            blank = np.zeros((1, *rows[0].shape[1:]))
            return np.concatenate([x for row in rows for x in (row, blank)])

        def distribution(n: Array) -> FloatArray:
            """Return n / n_k; uniform for an empty cluster, whose total is 0 anyway."""
            size = n.sum(-1, keepdims=True)
            share = np.where(size == 0, 1.0 / n.shape[-1], n / np.maximum(size, 1))
            return np.asarray(share, dtype=np.float64)

        @cache
        def unit_of(k_i: int) -> FloatArray:
            """Return mu(e_j), (K_i,); never all K_i^2 numbers of the e_j at once."""
            unit = np.zeros(k_i)
            for some in _blocks(k_i, k_i):
                unit[some] = self._mu(np.eye(some.stop - some.start, k_i, some.start))
            return unit

        def divergence(n: Array, segments: Segments) -> FloatArray:
            def work(n_i: Array) -> FloatArray:
                if n_i.shape[-1] == 0:
                    return np.zeros(n_i.shape)
                m = distribution(n_i)
                slope = self._gradient(m)
                level = self._mu(m) - (m * slope).sum(-1)
                return np.asarray(unit_of(n_i.shape[-1]) - level[..., None] - slope)

            return stack(by_partition(work, n, segments), segments)

        def total_of(n_i: Array) -> FloatArray:
            if n_i.shape[-1] == 0:
                return np.zeros(n_i.shape[:-1])
            return np.asarray(n_i.sum(-1) * self._mu(distribution(n_i)))

        def total(n: Array, segments: Segments) -> FloatArray:
            return np.stack(by_partition(total_of, n, segments))

        def change(n: Array, segments: Segments, step: int) -> FloatArray:
            def work(n_i: Array) -> FloatArray:
                changes, k_i = np.empty(n_i.shape), n_i.shape[-1]
                before = total_of(n_i)[..., None]
                for some in _blocks(k_i, n_i.size):
                    one = np.eye(some.stop - some.start, k_i, some.start, dtype=int)
                    shifted = n_i[..., None, :] + step * one
                    changes[..., some] = total_of(np.maximum(shifted, 0)) - before
                return changes

            return stack(by_partition(work, n, segments), segments)

        def unit(segments: Segments) -> FloatArray:
            return np.concatenate(
                [np.append(unit_of(int(size) - 1), 0.0) for size in segments.sizes]
            )

        return Formula(total, change, unit, divergence=divergence)


def _blocks(size: int, numbers: int) -> Iterator[slice]:
    """Cut ``size`` things of so many numbers each into blocks that fit the cache."""
    step = max(1, _BLOCK // max(1, numbers))
    for begin in range(0, size, step):
        yield slice(begin, min(begin + step, size))


def parse_utility(utility: Any) -> tuple[str, Formula, bool]:
    """Return name, formula and whether it is normalised; unknown names are refused.

    Examples
    --------
    >>> name, _, normalised = parse_utility("nl3")
    >>> name, normalised
    ('nl3', True)
    """
    if isinstance(utility, Utility):
        return utility.name, utility.formula(), utility.normalised
    name = utility if isinstance(utility, str) else ""
    match = re.fullmatch(r"(n?)(c|h|cos|l([2-9]|[1-9]\d{1,2}))", name)
    if match is None:
        also = "any 'lP' or 'nlP' with an integer P in 2..999, or a Utility"
        raise unknown_name("utility", utility, NAMES, also=also)
    if match[3]:
        return match[0], _lp(int(match[3])), bool(match[1])
    return match[0], _BASE[match[2]], bool(match[1])
