"""The sets of ``bench quality``, each for decisions or held back.

The list was written before anything was measured on it. Options of the library may be
chosen by looking at the sets to decide; what is claimed is measured on those held back.
Both halves come from the same families, with other parameters and seeds; no data set
is in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.examples import NAMES, load_example

from .features import load_features
from .quality_makers import MAKERS
from .suite import Context

KINDS = ("real", "text", "Gaussian", "unbalanced", "small", "shape")
USES = ("decide", "hold")
_TERMS = 2000  # of text: more cost minutes, for k-means keeps centres of all terms


@dataclass(frozen=True)
class QualitySet:
    """One set of features with known clusters.

    Attributes
    ----------
    name : str
    kind : str
        One of ``KINDS``.
    use : {"decide", "hold"}
    n, k : int
        Objects and clusters.
    maker : str
        A name of ``MAKERS``, or "file": features of scikit-learn or of the folder.
    seed : int
    options : dict
        Of the maker. Of a file: ``of``, its name, if another; ``scaled``, whether
        every feature is brought to deviation 1, since their units differ;
        ``components``, that many principal components; ``ratio``, classes thinned
        until the largest has so many times the objects of the smallest.
    """

    name: str
    kind: str
    use: str
    n: int
    k: int
    maker: str
    seed: int
    options: dict[str, Any]

    @property
    def needs_folder(self) -> bool:
        """Whether it is read from the folder that the user names."""
        return self.maker == "file" and self.options.get("of", self.name) not in NAMES


@dataclass(frozen=True)
class Loaded:
    """Features and classes of a set, rows shuffled.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n, d)
    y : ndarray of shape (n,)
    is_text : bool
    """

    X: Any
    y: npt.NDArray[Any]
    is_text: bool


def _file(name: str, kind: str, use: str, n: int, k: int, **options: Any) -> QualitySet:
    return QualitySet(name, kind, use, n, k, "file", 0, options)


def _gauss(
    use: str, seed: int, n: int, k: int, d: int, kind: str = "Gaussian", **more: Any
) -> QualitySet:
    words = [f"n{n}", f"k{k}", f"d{d}"]
    words += [f"{key[:3]}{value}" for key, value in more.items()]
    options = {"k": k, "d": d, **more}
    return QualitySet("-".join(words), kind, use, n, k, "mixture", seed, options)


def _shape(
    use: str, seed: int, maker: str, n: int, k: int, kind: str = "shape", **more: Any
) -> QualitySet:
    values = [str(value).replace(", ", "/").strip("()") for value in more.values()]
    name = "-".join([maker, str(n), *values])
    return QualitySet(name, kind, use, n, k, maker, seed, more)


_DECIDE, _HOLD = USES

SETS: tuple[QualitySet, ...] = (
    # to decide on
    _file("iris", "real", _DECIDE, 150, 3),
    _file("digits", "real", _DECIDE, 1797, 10),
    _file("ecoli", "real", _DECIDE, 332, 6),
    _file("breast_w", "real", _DECIDE, 699, 2),
    _file("digits-thinned", "unbalanced", _DECIDE, 587, 10, of="digits", ratio=20),
    _file("tr11", "text", _DECIDE, 414, 9),
    _file("mm", "text", _DECIDE, 2521, 2),
    _gauss(_DECIDE, 1, 600, 3, 2, separation=2.0),
    _gauss(_DECIDE, 2, 1000, 5, 5, separation=1.5, covariance="full"),
    _gauss(_DECIDE, 3, 2000, 10, 8, separation=2.0, covariance="diagonal"),
    _gauss(_DECIDE, 4, 1500, 6, 4, separation=2.5, density=5.0),
    _gauss(_DECIDE, 5, 1000, 4, 20, separation=1.5, noise=10),
    _gauss(_DECIDE, 6, 3000, 15, 10, separation=2.5, covariance="full"),
    _gauss(_DECIDE, 7, 800, 2, 2, separation=1.2, density=4.0),
    _gauss(_DECIDE, 8, 6000, 8, 30, separation=1.5),
    _gauss(_DECIDE, 9, 1200, 4, 3, separation=3.0, covariance="full", noise=2),
    _gauss(_DECIDE, 10, 1000, 3, 2, "unbalanced", ratio=10, separation=2.0),
    _gauss(_DECIDE, 11, 2000, 5, 5, "unbalanced", ratio=50, separation=2.5),
    _gauss(_DECIDE, 12, 1500, 8, 6, "unbalanced", ratio=20, covariance="full"),
    _gauss(_DECIDE, 13, 1000, 2, 10, "unbalanced", ratio=30, separation=1.8),
    _gauss(_DECIDE, 14, 150, 3, 4, "small", separation=2.0),
    _gauss(_DECIDE, 15, 200, 5, 2, "small", separation=2.5, density=3.0),
    _gauss(_DECIDE, 16, 180, 2, 10, "small", separation=1.5, covariance="full"),
    _shape(_DECIDE, 20, "moons", 150, 2, "small", noise=0.06),
    _shape(_DECIDE, 21, "moons", 1000, 2, noise=0.08),
    _shape(_DECIDE, 22, "rings", 800, 2, radii=(1.0, 2.2), noise=0.1),
    _shape(_DECIDE, 23, "rings", 1500, 3, radii=(1.0, 2.0, 3.0), noise=0.1),
    _shape(_DECIDE, 24, "spirals", 1000, 2, arms=2, noise=0.02),
    _shape(_DECIDE, 25, "blobs_in_a_ring", 1000, 4, blobs=3, noise=0.15),
    _shape(_DECIDE, 26, "moons", 4000, 2, noise=0.1),
    _shape(_DECIDE, 27, "rings", 3000, 2, radii=(1.0, 2.0), noise=0.08),
    # held back
    _file("wine", "real", _HOLD, 178, 3, scaled=True),
    _file("breast_cancer", "real", _HOLD, 569, 2, scaled=True),
    _file("dermatology", "real", _HOLD, 358, 6, scaled=True),
    _file("vote", "real", _HOLD, 435, 2),
    _file("pendigits", "real", _HOLD, 10992, 10),
    _file("letter", "real", _HOLD, 20000, 26),
    _file("covtype_15120", "real", _HOLD, 15120, 7, scaled=True),
    _file("mnist", "real", _HOLD, 10000, 10, components=50),
    _file("pendigits-thinned", "unbalanced", _HOLD, 3271, 10, of="pendigits", ratio=30),
    _file("k1b", "text", _HOLD, 2340, 6),
    _file("la12", "text", _HOLD, 6279, 6),
    _file("tr41", "text", _HOLD, 878, 10),
    _gauss(_HOLD, 101, 500, 3, 3, separation=2.0),
    _gauss(_HOLD, 102, 900, 4, 2, separation=1.5),
    _gauss(_HOLD, 103, 1200, 5, 6, separation=1.5, covariance="full"),
    _gauss(_HOLD, 104, 2500, 12, 10, separation=2.0, covariance="diagonal"),
    _gauss(_HOLD, 105, 1500, 7, 5, separation=2.5, density=6.0),
    _gauss(_HOLD, 106, 1000, 5, 25, separation=1.5, noise=15),
    _gauss(_HOLD, 107, 4000, 20, 12, separation=2.5, covariance="full"),
    _gauss(_HOLD, 108, 700, 2, 3, separation=1.2, density=4.0),
    _gauss(_HOLD, 109, 8000, 10, 50, separation=1.5),
    _gauss(_HOLD, 110, 1400, 3, 4, separation=3.0, covariance="full", noise=3),
    _gauss(_HOLD, 111, 2000, 6, 2, separation=3.0, density=3.0),
    _gauss(_HOLD, 112, 1000, 4, 8, separation=1.0),
    _gauss(_HOLD, 113, 3000, 9, 7, separation=2.0, covariance="full", density=4.0),
    _gauss(_HOLD, 114, 20000, 12, 10, separation=2.0, covariance="diagonal"),
    _gauss(_HOLD, 115, 1600, 8, 15, separation=2.0, noise=20),
    _gauss(_HOLD, 116, 2000, 2, 2, separation=2.0, covariance="full"),
    _gauss(_HOLD, 120, 1000, 3, 3, "unbalanced", ratio=10, separation=2.0),
    _gauss(_HOLD, 121, 2500, 6, 5, "unbalanced", ratio=50, separation=2.5),
    _gauss(_HOLD, 122, 1500, 7, 8, "unbalanced", ratio=20, covariance="full"),
    _gauss(_HOLD, 123, 800, 2, 8, "unbalanced", ratio=50, separation=2.0),
    _gauss(_HOLD, 124, 1200, 4, 2, "unbalanced", ratio=25, separation=3.0),
    _gauss(_HOLD, 125, 3000, 10, 10, "unbalanced", ratio=30, covariance="diagonal"),
    _gauss(_HOLD, 126, 2000, 4, 6, "unbalanced", ratio=15, density=4.0),
    _gauss(_HOLD, 127, 1800, 5, 4, "unbalanced", ratio=40, noise=5, separation=2.5),
    _gauss(_HOLD, 128, 5000, 3, 20, "unbalanced", ratio=50, separation=1.5),
    _gauss(_HOLD, 130, 150, 3, 5, "small", separation=2.0),
    _gauss(_HOLD, 131, 220, 6, 3, "small", separation=2.5, density=3.0),
    _gauss(_HOLD, 132, 160, 2, 8, "small", separation=1.5, covariance="full"),
    _gauss(_HOLD, 133, 250, 4, 10, "small", separation=2.0, ratio=8),
    _shape(_HOLD, 140, "moons", 150, 2, "small", noise=0.05),
    _shape(_HOLD, 141, "rings", 200, 2, "small", radii=(1.0, 2.5), noise=0.08),
    _shape(_HOLD, 142, "moons", 600, 2, noise=0.07),
    _shape(_HOLD, 143, "moons", 2000, 2, noise=0.1),
    _shape(_HOLD, 144, "moons", 5000, 2, noise=0.09),
    _shape(_HOLD, 145, "moons", 1500, 2, noise=0.06, ratio=4),
    _shape(_HOLD, 146, "rings", 700, 2, radii=(1.0, 2.0), noise=0.09),
    _shape(_HOLD, 147, "rings", 2000, 2, radii=(1.0, 2.5), noise=0.14),
    _shape(_HOLD, 148, "rings", 5000, 2, radii=(1.0, 1.8), noise=0.06),
    _shape(_HOLD, 149, "rings", 1200, 3, radii=(1.0, 2.0, 3.0), noise=0.08),
    _shape(_HOLD, 150, "rings", 3000, 3, radii=(0.8, 2.0, 3.2), noise=0.12),
    _shape(_HOLD, 151, "rings", 1500, 2, radii=(1.0, 3.0), noise=0.1, d=3),
    _shape(_HOLD, 152, "spirals", 1500, 2, arms=2, noise=0.015),
    _shape(_HOLD, 153, "spirals", 2000, 3, arms=3, noise=0.02),
    _shape(_HOLD, 154, "blobs_in_a_ring", 800, 2, blobs=1, noise=0.2),
    _shape(_HOLD, 155, "blobs_in_a_ring", 2000, 5, blobs=4, noise=0.15),
)
"""All sets. Never move one from those held back to the others."""

RINGED = ("moons", "rings")
"""Makers of the moons, circles and rings that the default should find."""


def load_set(item: QualitySet, context: Context, seed: int) -> Loaded:
    """Return a set with its rows shuffled by the seed.

    Raises a ValueError that says why where a file cannot be had.
    """
    if item.maker == "file":
        loaded = _read(item, context)
    else:
        X, y = MAKERS[item.maker](item.seed, item.n, **item.options)
        loaded = Loaded(X, y, False)
    order = np.random.default_rng([seed, 1876]).permutation(len(loaded.y))
    return Loaded(loaded.X[order], loaded.y[order], loaded.is_text)


def _read(item: QualitySet, context: Context) -> Loaded:
    options, name = item.options, item.options.get("of", item.name)
    rng = np.random.default_rng([item.seed, 1877])
    if name in NAMES:
        example = load_example(name)
        X, y, is_text = example.X, example.y, False
    else:
        found = load_features(context, name)
        X, y, is_text = found.X, found.y, found.is_text
    if name == "vote":  # no is 0, yes 1, and nothing said between them
        X = np.where(X < 0, 0.5, X)
    rows = _thinned(rng, y, options["ratio"]) if "ratio" in options else None
    if rows is None and item.n < len(y):
        rows = rng.choice(len(y), item.n, replace=False)
    if rows is not None:
        X, y = X[rows], y[rows]
    if is_text:
        X = _weighed_terms(X)
    if options.get("scaled"):
        from sklearn.preprocessing import StandardScaler

        X = StandardScaler().fit_transform(X)
    if "components" in options:
        from sklearn.decomposition import PCA

        X = PCA(options["components"], random_state=0).fit_transform(X)
    return Loaded(X, y, is_text)


def _weighed_terms(counts: Any) -> Any:
    """Return tf-idf of the terms that are in most documents, in rows of length 1."""
    from sklearn.feature_extraction.text import TfidfTransformer

    documents = np.asarray((counts > 0).sum(axis=0)).ravel()
    terms = np.sort(np.argsort(-documents, kind="stable")[:_TERMS])
    return TfidfTransformer().fit_transform(counts[:, terms])


def _thinned(
    rng: np.random.Generator, y: npt.NDArray[Any], ratio: float
) -> npt.NDArray[np.intp]:
    """Return rows that leave classes of sizes falling geometrically."""
    classes, sizes = np.unique(y, return_counts=True)
    share = ratio ** -np.linspace(0.0, 1.0, len(classes))
    keep = np.maximum(5, (share * sizes.min()).astype(np.int64))
    drawn = [
        rng.choice(np.flatnonzero(y == label), number, replace=False)
        for label, number in zip(classes, keep, strict=True)
    ]
    return np.concatenate(drawn)
