"""Values that callers pass by mistake or to hurt, by the kind of parameter."""

import datetime
import decimal
import fractions
import pathlib

import numpy as np
from hostile_names import HOSTILE


class Fails:
    """Refuses every question."""

    def __repr__(self):
        raise RuntimeError("no repr")

    def __array__(self, *_, **__):
        raise RuntimeError("no array")

    def __len__(self):
        raise RuntimeError("no length")


class Odd:
    """Is an index and a number, and not the same one."""

    def __index__(self):
        return 2

    def __float__(self):
        return 0.5


NOT_NUMBERS = [
    None, True, False, "3", "", "auto", b"3", [], [3], (), {}, {3}, object(), int,
    1j, complex(3, 0), np.array([3]), np.array([1, 2]), np.array([]), np.array("3"),
    np.ma.masked, np.ma.masked_array([1, 2], [True, False]),
    np.datetime64("2020-01-01"),
    np.timedelta64(3, "s"), datetime.date(2020, 1, 1), decimal.Decimal("NaN"),
    lambda *_: 3, Ellipsis, NotImplemented, Fails(), np.array([None]), np.nan,
    pathlib.Path("3"), slice(3), range(3), *HOSTILE[:3],
]  # fmt: skip
INTS = [
    0, 1, 2, 3, -1, -5, 7, 2**31, 2**63, 10**12, 10**30, -(10**30), np.int8(2),
    np.uint8(3), np.int64(3), np.uint64(2**64 - 1), np.array(3), np.bool_(True), 2.0,
    2.5, np.float32(2), np.inf, -np.inf, fractions.Fraction(3, 1),
    decimal.Decimal(3), 10**400, -0.0, Odd(),
]  # fmt: skip
FLOATS = [
    0, 1, 0.0, 1.0, 0.5, 0.1, 0.9, -0.1, -1, 1.5, 2, 1e-320, 5e-324, 1e308, -1e308,
    np.nan, np.inf, -np.inf, np.float16(0.5), np.float32(0.3), np.longdouble(0.5),
    10**400, -(10**400), np.array(0.5), fractions.Fraction(1, 2),
    decimal.Decimal("0.5"), np.int8(1), 1e-12, 1 - 1e-16, Odd(),
]  # fmt: skip
WORDS = [
    "", " ", "auto", "AUTO", "nope", "h ", "\x00", "a" * 10_000, "\ud800", "h\n", "ｈ",
    b"auto", 5, None, [], {}, ("auto",), True, np.str_("auto"), np.array("auto"),
    np.array(["auto"]), object(), Fails(), "l1", "l2", "l", "l5.5", "l999999999",
    "nl3", "l-3", "l1e9", "lnan", "linf", *HOSTILE[:4],
]  # fmt: skip
SEEDS = [
    0, 1, 2**32, 2**63, 10**400, -1, None, 1.5, "0", b"0", [1, 2], np.int64(3), True,
    np.nan, np.array([1]), object(), np.random.SeedSequence(3),
    np.random.default_rng, Fails(), {}, 1j,
]  # fmt: skip


def ints(rng):
    """Return an integer, or something that may be mistaken for one."""
    return pick(rng, INTS if rng.random() < 0.6 else NOT_NUMBERS)


def floats(rng):
    """Return a number, or something that may be mistaken for one."""
    return pick(rng, FLOATS if rng.random() < 0.6 else NOT_NUMBERS)


def words(rng):
    """Return a word, or something else."""
    return pick(rng, WORDS)


def switches(rng):
    """Return what may stand for yes or no."""
    return pick(rng, [True, False, 0, 1, None, "yes", "", [], np.bool_(True), 2, "no"])


def seeds(rng):
    """Return a random state, or none."""
    found = pick(rng, [*SEEDS, "generator", "state"])
    if isinstance(found, str) and found == "generator":
        return np.random.default_rng(5)
    if isinstance(found, str) and found == "state":
        return np.random.RandomState(5)
    return found


def pick(rng, pool):
    """Draw one of a list, whatever its entries are."""
    return pool[int(rng.integers(len(pool)))]


def weights(rng, r=5):
    """Return weights of partitions, good and bad."""
    ones = np.ones(r)
    return pick(
        rng,
        [
            None, ones, ones * 0, -ones, ones[:-1], ones * np.nan, ones * 1e308,
            ones * 5e-324, np.r_[1, ones[1:] * 1e-320], np.r_[1, ones[1:] * 0],
            np.r_[np.inf, ones[1:]], [1] * r, list("1" * r), [None] * r,
            [10**400] * r, np.array([10**400] * r, dtype=object), ones.astype(bool),
            ones.astype("datetime64[s]"), ones.astype(complex), ones[:, None], 5, "eci",
            "ncai", "ECI", "", {}, np.ma.masked_array(ones, [1] + [0] * (r - 1)),
            np.ma.masked_array(ones), [[1] * r], [1, [2]], object(), Fails(),
            ones.astype(np.float16), np.arange(r), np.array(3), True, b"eci",
            np.array([fractions.Fraction(1, 3)] * r), [decimal.Decimal(1)] * r,
            (x for x in range(r)), set(range(r)), np.arange(r) + 0.5,
        ],
    )  # fmt: skip


def features(rng):
    """Return a table of features, good and bad."""
    import pandas as pd
    import scipy.sparse as sp

    X = np.round(rng.normal(size=(24, 3)), 2)
    kind = int(rng.integers(44))
    hurt = X.copy()
    place = tuple(int(rng.integers(n)) for n in X.shape)
    if kind < 4:
        hurt[place] = pick(rng, [np.nan, np.inf, -np.inf])
    elif kind < 9:
        hurt[:, place[1]] *= pick(rng, [1e308, 1e200, 1e-308, 0.0, 1e154, 5e-324])
    elif kind < 11:
        hurt[:] = pick(rng, [0.0, 5.0, 1e308])
    made = [
        lambda: hurt, lambda: X.tolist(), lambda: X.astype(np.float32),
        lambda: X.astype(np.float16), lambda: X.astype(complex), lambda: X.astype(str),
        lambda: X.astype("datetime64[s]"), lambda: X > 0, lambda: X[0], lambda: X[:0],
        lambda: X[:, :0], lambda: X[None], lambda: X[:1], lambda: X[:, :1],
        lambda: np.asfortranarray(X), lambda: X[::-1, ::-1], lambda: X.astype(">f8"),
        lambda: np.ma.masked_array(X, X > 1), lambda: np.ma.masked_array(X),
        lambda: [[1, 2], [3]], lambda: [["a", "b"]], lambda: 5, lambda: None,
        lambda: "x.csv", lambda: {}, Fails, lambda: pd.DataFrame(X),
        lambda: pd.DataFrame({"a": X[:, 0], "b": ["t"] * 24}),
        lambda: pd.DataFrame({"a": pd.array([1, None] * 12, dtype="Int64")}),
        lambda: pd.DataFrame({"a": pd.Categorical(["x", "y"] * 12)}),
        lambda: sp.csr_array(X), lambda: sp.coo_matrix(X), lambda: damaged(rng, X),
        lambda: X.astype(object), lambda: np.full((24, 2), 10**400, dtype=object),
        lambda: np.full((24, 2), None), lambda: np.repeat(X[:1], 24, axis=0),
        lambda: X.astype(int), lambda: X.astype(np.int8), lambda: X.view("V8"),
        lambda: X.T, lambda: np.longdouble(1) * X, lambda: iter(X),
        lambda: pd.Series(X[:, 0]),
    ]  # fmt: skip
    return hurt if kind < 11 else made[kind]()


def damaged(rng, X):
    """Return a sparse matrix that lies about itself."""
    import scipy.sparse as sp

    form = pick(rng, ["csr", "csc", "coo", "bsr", "lil", "dia"])
    made = sp.coo_array(np.where(X > 0, X, 0)).asformat(form)
    if form in ("csr", "csc", "bsr"):
        if rng.random() < 0.5:
            made.indices = made.indices.copy()
            made.indices[0] = pick(rng, [-1, 10**6, -(10**6)])
        else:
            made.indptr = made.indptr.copy()
            made.indptr[1] = pick(rng, [-1, 10**6, 2**31 - 1])
    elif form == "coo":
        axis = made.coords[int(rng.integers(2))]
        axis[0] = pick(rng, [-1, 10**6])
    elif form == "lil":
        made.rows[0] = [99]
    return made


def labels(rng, n=24, r=5):
    """Return a table of labels, good and bad."""
    import pandas as pd
    import scipy.sparse as sp

    good = rng.integers(3, size=(n, r))
    holes = np.where(rng.random((n, r)) < 0.2, -1, good)
    blank = good.copy()
    blank[int(rng.integers(n))] = -1
    text = good.astype(str)
    made = [
        lambda: good, lambda: good, lambda: holes, lambda: holes, lambda: blank,
        lambda: text, lambda: good.astype(float), lambda: good + 0.5,
        lambda: np.where(holes < 0, np.nan, good), lambda: good - 2,
        lambda: good.astype(np.int8), lambda: good.astype(np.uint64) + 2**63,
        lambda: good > 0, lambda: good.astype(complex), lambda: good[0],
        lambda: good[:0], lambda: good[:, :0], lambda: good[:1], lambda: good[:, :1],
        lambda: good[None], lambda: good.tolist(), lambda: holes * 0 - 1,
        lambda: np.ma.masked_array(good, good > 1),
        lambda: good.astype("datetime64[D]"),
        lambda: pd.DataFrame(text), lambda: pd.DataFrame(good).astype("category"),
        lambda: pd.DataFrame({"a": [None, "x"] * 12, "b": [1, 2] * 12}),
        lambda: good.astype(object), lambda: np.where(good > 1, None, text),
        lambda: np.full((n, r), np.inf), lambda: np.full((n, r), {}, dtype=object),
        lambda: sp.csr_array(good), lambda: 5, lambda: None, lambda: "labels.csv",
        Fails,
        lambda: np.asfortranarray(good), lambda: good.astype(">i4"),
        lambda: np.repeat(good[:1], n, axis=0), lambda: np.arange(n * r).reshape(n, r),
        lambda: good * 10**15, lambda: np.array(HOSTILE)[good],
        lambda: good.astype("S1"),
        lambda: good.astype(np.float16), lambda: good.astype("m8[s]"),
        lambda: np.frompyfunc(lambda k: (k, "x"), 1, 1)(good), lambda: {},
        lambda: pd.Series(good[:, 0]), lambda: [good[:, 0], good[:, 1]],
        lambda: iter(good),
    ]  # fmt: skip
    return pick(rng, made)()


def vector(rng, n=24):
    """Return one vector of labels, good and bad."""
    table = labels(rng, n, 3)
    try:
        cut = int(rng.integers(5))
        if cut == 0:
            return table
        if cut == 1:
            return table[:, 0][:-1]
        return table.iloc[:, 0] if hasattr(table, "iloc") else table[:, 0]
    except Exception:  # a table of another form has no first column
        return table


def paths(rng, folder):
    """Return a place to write to, or what is none."""
    target = folder / "there"
    target.mkdir(exist_ok=True)
    link = folder / "link"
    if not link.is_symlink():
        link.symlink_to(folder / "nowhere" / "at all")
    return pick(
        rng,
        [
            "", None, 5, "\x00", str(folder / ("a" * 300)), folder / "a\x00b", b"", [],
            folder / "no" / "such", target, link, folder / "good.html", str(folder),
            folder / "good.npz", folder / "good", "/dev/null", "/dev/full", object(),
            "/proc/self/mem", str(folder / "\ud800"), folder / "file.txt", True, 1.5,
            folder / "a.html" / "b.html", pathlib.PurePosixPath("/"), "~", ".",
        ],
    )  # fmt: skip
