"""The sets of ``bench quality``, each for decisions or held back.

Both lists were written before anything was measured on them. Options of the library may
be chosen by looking at the sets to decide; what is claimed is measured on those held
back. All come from the same families, with other parameters and seeds; no data set is
both decided on and held back. The sets marked "hold" were looked at once before the
last rules of ``auto`` were chosen; those marked "fresh" were written down after that
and before these rules, and are measured with the rules as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.examples import NAMES, load_example

from .features import load_features
from .quality_lifelike import MAKERS as LIFELIKE
from .quality_makers import MAKERS
from .suite import Context

KINDS = ("real", "text", "Gaussian", "unbalanced", "small", "shape")
USES = ("decide", "hold", "fresh")
_TERMS = 2000  # of text: more cost minutes, for k-means keeps centres of all terms


@dataclass(frozen=True)
class QualitySet:
    """One set of features with known clusters.

    Attributes
    ----------
    name : str
    kind : str
        One of ``KINDS``.
    use : {"decide", "hold", "fresh"}
    n, k : int
        Objects and clusters.
    maker : str
        A name of ``MAKERS`` or ``LIFELIKE``, or "file": features of scikit-learn or of
        the folder.
    seed : int
    options : dict
        Of the maker. Of a file: ``of``, its name, if another; ``scaled``, whether
        every feature is brought to deviation 1, since their units differ;
        ``components``, that many principal components; ``classes``, only these, by
        their place; ``ratio``, classes thinned until the largest has so many times the
        objects of the smallest.
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


def _part(
    use: str,
    of: str,
    words: str,
    n: int,
    classes: tuple[int, ...] | None,
    kind: str = "real",
    **options: Any,
) -> QualitySet:
    more = {} if classes is None else {"classes": classes}
    k = options.pop("k", len(classes or ()))
    return QualitySet(
        f"{of}-{words}", kind, use, n, k, "file", 1, {"of": of, **more, **options}
    )


def _made(
    use: str, seed: int, maker: str, n: int, k: int, kind: str, **more: Any
) -> QualitySet:
    words = [maker, f"n{n}", f"k{k}"]
    words += [f"{key[:3]}{value}" for key, value in more.items()]
    options = {"k": k, **more}
    return QualitySet("-".join(words), kind, use, n, k, maker, seed, options)


_DECIDE, _HOLD, _FRESH = USES

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
    # more to decide on
    _part(_DECIDE, "digits", "even", 891, (0, 2, 4, 6, 8)),
    _part(_DECIDE, "digits", "odd", 906, (1, 3, 5, 7, 9)),
    _part(_DECIDE, "digits", "few", 450, (0, 1, 3, 5, 8, 9), "unbalanced", ratio=8),
    _part(_DECIDE, "iris", "two", 100, (1, 2)),
    _part(_DECIDE, "ecoli", "large", 307, (0, 1, 2, 3)),
    _part(_DECIDE, "tr11", "some", 294, (0, 1, 2, 3, 4), "text"),
    _made(_DECIDE, 301, "tables", 1500, 6, "real", d=10),
    _made(_DECIDE, 302, "tables", 800, 3, "real", d=8, redundant=6),
    _made(_DECIDE, 303, "tables", 2500, 10, "real", d=16, modes=2, separation=1.3),
    _made(_DECIDE, 304, "tables", 600, 2, "real", d=12, modes=4, tails=0.8),
    _made(_DECIDE, 305, "tables", 1200, 4, "real", d=6, ratio=10, tails=0.5),
    _made(_DECIDE, 306, "tables", 400, 5, "real", d=10, modes=2, separation=1.2),
    _made(_DECIDE, 307, "tables", 5000, 8, "real", d=20, modes=4),
    _made(_DECIDE, 308, "tables", 1000, 2, "real", d=5, ratio=5, separation=1.2),
    _made(_DECIDE, 309, "tables", 300, 3, "real", d=13, modes=1, separation=1.1),
    _made(_DECIDE, 311, "topics", 1500, 6, "text", words=2000, length=60),
    _made(_DECIDE, 312, "topics", 600, 3, "text", words=1500, length=40, ratio=8),
    _made(_DECIDE, 313, "topics", 1000, 10, "text", words=2500, length=100, ratio=15),
    _made(_DECIDE, 314, "topics", 2500, 5, "text", words=2000, length=30, ratio=4),
    _made(_DECIDE, 315, "topics", 400, 2, "text", words=1000, length=80, ratio=3),
    _gauss(_DECIDE, 321, 500, 3, 3, separation=1.5),
    _gauss(_DECIDE, 322, 1500, 5, 2, separation=1.5),
    _gauss(_DECIDE, 323, 2000, 10, 10, separation=1.5),
    _gauss(_DECIDE, 324, 1200, 8, 15, separation=1.2),
    _gauss(_DECIDE, 325, 3000, 12, 5, separation=1.5, density=3.0),
    _gauss(_DECIDE, 326, 700, 4, 50, separation=1.5, covariance="diagonal"),
    _gauss(_DECIDE, 327, 1000, 2, 5, separation=1.0),
    _gauss(_DECIDE, 328, 1500, 6, 6, separation=2.0, noise=20),
    _gauss(_DECIDE, 329, 2500, 7, 3, separation=2.0, covariance="full"),
    _gauss(_DECIDE, 330, 8000, 6, 8, separation=1.5, covariance="full"),
    _gauss(_DECIDE, 331, 900, 2, 20, separation=2.0, noise=40),
    _gauss(_DECIDE, 332, 4000, 20, 8, separation=2.0),
    _gauss(_DECIDE, 340, 800, 2, 3, "unbalanced", ratio=5, separation=1.5),
    _gauss(_DECIDE, 341, 1500, 2, 6, "unbalanced", ratio=15, separation=2.0),
    _gauss(_DECIDE, 342, 1200, 3, 8, "unbalanced", ratio=40, separation=1.5),
    _gauss(_DECIDE, 343, 2000, 4, 3, "unbalanced", ratio=20, separation=2.0),
    _gauss(_DECIDE, 344, 1500, 6, 10, "unbalanced", ratio=10, separation=1.5),
    _gauss(_DECIDE, 345, 3000, 9, 6, "unbalanced", ratio=50, separation=2.0),
    _gauss(_DECIDE, 346, 1000, 5, 4, "unbalanced", ratio=8, density=5.0),
    _gauss(_DECIDE, 347, 2500, 12, 15, "unbalanced", ratio=30, separation=1.5),
    _gauss(_DECIDE, 348, 1800, 4, 5, "unbalanced", ratio=30, noise=10),
    _gauss(_DECIDE, 349, 1000, 3, 2, "unbalanced", ratio=20, covariance="full"),
    _gauss(_DECIDE, 351, 150, 2, 4, "small", separation=1.5),
    _gauss(_DECIDE, 352, 180, 4, 6, "small", separation=1.5),
    _gauss(_DECIDE, 353, 240, 3, 10, "small", separation=2.0, noise=10),
    _gauss(_DECIDE, 354, 200, 3, 3, "small", separation=2.0, ratio=8),
    _gauss(_DECIDE, 355, 250, 8, 5, "small", separation=2.0, covariance="full"),
    _shape(_DECIDE, 361, "rings", 200, 2, "small", radii=(1.0, 2.2), noise=0.07),
    _shape(_DECIDE, 362, "moons", 800, 2, noise=0.12),
    _shape(_DECIDE, 363, "moons", 1200, 2, noise=0.07, ratio=6),
    _shape(_DECIDE, 364, "rings", 1000, 2, radii=(1.0, 2.4), noise=0.2),
    _shape(_DECIDE, 365, "spirals", 1500, 3, arms=3, noise=0.015),
    _shape(_DECIDE, 366, "blobs_in_a_ring", 1500, 5, blobs=4, noise=0.2),
    # held back anew
    _part(_FRESH, "pendigits", "even", 4000, (0, 2, 4, 6, 8)),
    _part(_FRESH, "pendigits", "odd", 2000, (1, 3, 5, 7, 9)),
    _part(_FRESH, "letter", "first", 3000, tuple(range(8))),
    _part(_FRESH, "letter", "last", 1500, tuple(range(20, 26))),
    _part(_FRESH, "mnist", "some", 3000, (0, 3, 4, 7), components=30),
    _part(
        _FRESH, "mnist", "thin", 2500, None, "unbalanced", k=10, ratio=15, components=30
    ),
    _part(_FRESH, "dermatology", "some", 290, (0, 1, 2, 3), scaled=True),
    _part(
        _FRESH,
        "breast_cancer",
        "thin",
        254,
        None,
        "unbalanced",
        k=2,
        ratio=5,
        scaled=True,
    ),
    _part(_FRESH, "wine", "two", 119, (1, 2), scaled=True),
    _part(_FRESH, "k1b", "some", 2000, (0, 1, 2, 3, 5), "text"),
    _part(_FRESH, "tr41", "some", 600, (0, 1, 2, 3, 5, 8), "text"),
    _part(_FRESH, "la12", "some", 2000, (0, 2, 4), "text"),
    _made(_FRESH, 401, "tables", 1400, 5, "real", d=12),
    _made(_FRESH, 402, "tables", 700, 3, "real", d=6, redundant=4),
    _made(_FRESH, 403, "tables", 3000, 12, "real", d=14, modes=2, separation=1.3),
    _made(_FRESH, 404, "tables", 500, 2, "real", d=9, modes=3, tails=0.8),
    _made(_FRESH, 405, "tables", 1500, 4, "real", d=8, ratio=12, tails=0.5),
    _made(_FRESH, 406, "tables", 350, 4, "real", d=12, modes=2, separation=1.2),
    _made(_FRESH, 407, "tables", 10000, 9, "real", d=18, modes=3),
    _made(_FRESH, 408, "tables", 900, 2, "real", d=4, ratio=6, separation=1.3),
    _made(_FRESH, 411, "topics", 1200, 5, "text", words=2000, length=50),
    _made(_FRESH, 412, "topics", 700, 4, "text", words=1500, length=50, ratio=10),
    _made(_FRESH, 413, "topics", 1500, 12, "text", words=2500, length=90, ratio=10),
    _made(_FRESH, 414, "topics", 3000, 7, "text", words=2000, length=35, ratio=5),
    _made(_FRESH, 415, "topics", 300, 2, "text", words=1000, length=60, ratio=4),
    _gauss(_FRESH, 421, 600, 4, 3, separation=1.5),
    _gauss(_FRESH, 422, 1200, 3, 2, separation=1.5),
    _gauss(_FRESH, 423, 2500, 8, 12, separation=1.5),
    _gauss(_FRESH, 424, 1000, 10, 20, separation=1.2),
    _gauss(_FRESH, 425, 2000, 9, 4, separation=1.5, density=4.0),
    _gauss(_FRESH, 426, 800, 5, 40, separation=1.5, covariance="diagonal"),
    _gauss(_FRESH, 427, 1500, 2, 8, separation=1.0),
    _gauss(_FRESH, 428, 1300, 5, 8, separation=2.0, noise=25),
    _gauss(_FRESH, 429, 2000, 6, 3, separation=2.0, covariance="full"),
    _gauss(_FRESH, 430, 12000, 7, 6, separation=1.5, covariance="full"),
    _gauss(_FRESH, 431, 700, 2, 15, separation=2.0, noise=30),
    _gauss(_FRESH, 432, 3500, 16, 7, separation=2.0),
    _gauss(_FRESH, 433, 900, 2, 2, separation=1.5, density=5.0),
    _gauss(_FRESH, 440, 900, 2, 4, "unbalanced", ratio=8, separation=1.5),
    _gauss(_FRESH, 441, 1200, 2, 5, "unbalanced", ratio=20, separation=2.0),
    _gauss(_FRESH, 442, 1400, 3, 6, "unbalanced", ratio=30, separation=1.5),
    _gauss(_FRESH, 443, 1600, 5, 3, "unbalanced", ratio=15, separation=2.0),
    _gauss(_FRESH, 444, 2000, 7, 12, "unbalanced", ratio=10, separation=1.5),
    _gauss(_FRESH, 445, 3500, 8, 5, "unbalanced", ratio=50, separation=2.0),
    _gauss(_FRESH, 446, 1100, 4, 5, "unbalanced", ratio=6, density=4.0),
    _gauss(_FRESH, 447, 3000, 15, 12, "unbalanced", ratio=25, separation=1.5),
    _gauss(_FRESH, 448, 1500, 5, 6, "unbalanced", ratio=40, noise=8),
    _gauss(_FRESH, 449, 1200, 4, 2, "unbalanced", ratio=12, covariance="full"),
    _gauss(_FRESH, 451, 160, 2, 5, "small", separation=1.5),
    _gauss(_FRESH, 452, 200, 5, 5, "small", separation=1.5),
    _gauss(_FRESH, 453, 220, 4, 8, "small", separation=2.0, noise=8),
    _gauss(_FRESH, 454, 180, 3, 4, "small", separation=2.0, ratio=10),
    _gauss(_FRESH, 455, 240, 6, 6, "small", separation=2.0, covariance="full"),
    _shape(_FRESH, 461, "rings", 180, 2, "small", radii=(1.0, 2.3), noise=0.08),
    _shape(_FRESH, 462, "moons", 900, 2, noise=0.11),
    _shape(_FRESH, 463, "moons", 1500, 2, noise=0.08, ratio=5),
    _shape(_FRESH, 464, "rings", 1100, 2, radii=(1.0, 2.3), noise=0.18),
    _shape(_FRESH, 465, "rings", 2500, 3, radii=(1.0, 2.1, 3.1), noise=0.1),
    _shape(_FRESH, 466, "spirals", 1800, 3, arms=3, noise=0.018),
    _shape(_FRESH, 467, "blobs_in_a_ring", 1600, 4, blobs=3, noise=0.2),
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
        X, y = (MAKERS | LIFELIKE)[item.maker](item.seed, item.n, **item.options)
        is_text = item.maker == "topics"
        loaded = Loaded(_weighed_terms(X) if is_text else X, y, is_text)
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
    if "classes" in options:
        rows = np.flatnonzero(np.isin(y, np.unique(y)[list(options["classes"])]))
        X, y = X[rows], y[rows]
    if "ratio" in options:
        rows = _thinned(rng, y, options["ratio"])
        X, y = X[rows], y[rows]
    if item.n < len(y):
        rows = rng.choice(len(y), item.n, replace=False)
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
