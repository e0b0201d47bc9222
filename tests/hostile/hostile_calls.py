"""Hostile calls of Python: one generator of cases for each part of the package."""

import inspect

import hostile_values as values
import numpy as np
import right
from judge import Case
from random_ensembles import noisy

import gpu_consensus as gpc
from gpu_consensus.util.numbers import shown

LABELS = ("label", "partition", "ensemble", "objects")
X_NAMES = ("X", "features", "rows")
BY_NAME = {
    "weights": values.weights,
    "random_state": values.seeds,
    "X": values.features,
    "ensemble": values.labels,
    "ens": values.labels,
    "labels": values.vector,
    "truth": values.vector,
    "a": values.vector,
    "b": values.vector,
    "known": values.vector,
    "result": values.vector,
    "progress": values.switches,
    "refine": values.switches,
    "complete": values.switches,
    "higher_is_better": values.switches,
    "normalised": values.switches,
    "keep_ensembles": values.switches,
    "stop_on_repeat": values.switches,
}
OFTEN_WORDS = (
    "utility", "method", "metric", "strategy", "backend", "on_unlabelled", "linkage",
    "variant", "measure", "partitioner", "alignment", "reduction", "order", "rule",
    "update", "edge_weights", "base", "kind", "by", "zipf_weights", "clusterer",
    "similarity", "feedback", "scale", "title",
)  # fmt: skip
OFTEN_FLOATS = (
    "theta", "decay", "lam", "share", "alpha", "tol", "smoothing", "imbalance",
    "threshold", "sample_share", "zipf_alpha",
)  # fmt: skip
MEANT = {
    "ensemble": LABELS,
    "ens": LABELS,
    "weights": ("weights", "partition"),
    "X": X_NAMES,
    "n_clusters": ("n_clusters", "distinct"),
    "search": ("search", "init"),
    "init": ("init", "search"),
    "random_state": ("random_state",),
}
"""What a message may say instead of the name of a parameter."""


def hostile_value(rng, name):
    """Return a value for a parameter of this name."""
    if name in BY_NAME:
        return BY_NAME[name](rng)
    if name in OFTEN_WORDS:
        return values.words(rng)
    if name in OFTEN_FLOATS:
        return values.floats(rng)
    kinds = [values.ints, values.ints, values.ints, values.floats, values.words]
    return values.pick(rng, kinds)(rng)


def changed(rng, function, good, leave=()):
    """Return arguments of which one or two are hostile, and what these are called."""
    names = [n for n in inspect.signature(function).parameters if n not in leave]
    many = 2 if rng.random() < 0.25 else 1
    hurt = [values.pick(rng, names) for _ in range(many)]
    call = {**good, **{name: hostile_value(rng, name) for name in hurt}}
    meant = tuple(word for name in hurt for word in MEANT.get(name, (name,)))
    return call, meant


def written(name, call):
    """Write a call for a person."""
    return f"{name}({', '.join(f'{key}={shown(v)}' for key, v in call.items())})"


def small_ensemble(rng):
    """Return a good table of labels, some of them missing."""
    n, r = int(rng.integers(8, 28)), 5
    missing = float(values.pick(rng, [0.0, 0.0, 0.2]))
    return noisy(int(rng.integers(2**31)), n=n, r=r, k=3, missing=missing)[0]


def fast(method):
    """Return options that make a method quick."""
    allowed = inspect.signature(gpc.METHODS[method]).parameters
    return {k: v for k, v in {"n_init": 2}.items() if k in allowed}


METHODS = [m for m in gpc.METHODS if m != "auto"] * 3 + ["auto"]
FOLDERS = ("checkpoint",)


def method_call(rng, folder):
    """Make a call of a method, mostly with something wrong."""
    method = values.pick(rng, METHODS)
    function = gpc.METHODS[method]
    good = {"ensemble": small_ensemble(rng), "random_state": 0, **fast(method)}
    if "n_clusters" in inspect.signature(function).parameters:
        good["n_clusters"] = int(rng.integers(2, 5))
    if rng.random() < 0.1:
        call, meant = good, ()
    else:
        call, meant = changed(rng, function, good, leave=("progress",))
    if "checkpoint" in call:
        call["checkpoint"] = values.paths(rng, folder)
        meant += ("path", "folder", "checkpoint")
    by_name = rng.random() < 0.3

    def run():
        if by_name:
            named = dict(call)
            given = named.pop("ensemble")
            return gpc.consensus(given, named.pop("n_clusters", None), method, **named)
        return function(**call)

    def check(result):
        number = call.get("n_clusters")
        k = number if isinstance(number, (int, np.integer)) else None
        weights = call.get("weights")
        right.check_consensus(result, call["ensemble"], weights, k, call)

    return Case(written(method, call), run, (*meant, "n_clusters", *LABELS), check)


def ensemble_call(rng, folder):
    """Make an ensemble of hostile labels, or ask one for a hostile part."""
    table = small_ensemble(rng)
    ens = gpc.Ensemble(table)
    n, r = table.shape
    index = values.pick(
        rng,
        [
            [0], [], [0, 0], [-1], [n], [10**30], slice(1, 3), slice(None, None, 0),
            np.arange(2), np.arange(2.0), [True] * r, np.ones(n, bool), "0", None, 0,
            5.0,
            [[0, 1]], np.array(1), ["a"], [None], object(), slice("a"), [1.5], {0},
            np.array([0], np.uint8), np.ma.masked_array([0, 1], [0, 1]), slice(5, 5),
            values.Fails(), np.array([10**30], dtype=object), (0, 1), range(2), True,
        ],
    )  # fmt: skip
    kind = values.pick(
        rng,
        ["new", "new", "list", "codes", "subset", "encode", "to", "save", "predict"],
    )
    names = (*LABELS, "weights", "vector", "codes")

    def sound(made):
        assert made.labels.shape == (made.n_samples, made.n_partitions)
        codes, sizes = made.codes, made.n_labels
        assert (codes.max(axis=1) <= sizes).all()
        for i in range(made.n_partitions):
            counted = np.bincount(codes[i], minlength=sizes[i] + 1)
            assert np.array_equal(
                counted, made.marginals[made.offsets[i] : made.offsets[i + 1]]
            )
            assert len(made.categories[i]) == sizes[i]
        assert abs(made.weights.sum() - 1) < 1e-9
        assert (made.weights >= 0).all()

    if kind == "new":
        given, weights = values.labels(rng), values.weights(rng)
        weights = None if rng.random() < 0.7 else weights
        text = f"Ensemble({shown(given)}, {shown(weights)})"
        return Case(text, lambda: gpc.Ensemble(given, weights), names, sound)
    if kind == "list":
        vectors = [values.vector(rng) for _ in range(int(rng.integers(1, 4)))]
        if rng.random() < 0.5:
            vectors = [np.arange(24) % 3, vectors[0]]
        given = values.pick(
            rng, [vectors, tuple(vectors), iter(vectors), vectors[0], 7]
        )
        text = f"Ensemble.from_partitions({shown(vectors)})"

        def run():
            return gpc.Ensemble.from_partitions(given)

        return Case(text, run, names, sound)
    if kind == "codes":
        codes = np.array([[0, 1, 2, 1], [1, 0, 1, 2]], dtype=np.uint8)
        call = {"codes": codes, "n_labels": [3, 2]}
        call[values.pick(rng, ["codes", "n_labels", "categories", "marginals"])] = (
            values.pick(
                rng,
                [
                    [3.7, 2], ["3", 2], [2**33, 2], [-1, 2], [3], None, 5, [[3, 2]],
                    codes.astype(int), codes.astype(float), codes + 9, codes[0],
                    codes[:, :0], np.ma.masked_array(codes, codes > 1), codes.tolist(),
                    [["a", "b", "c"], ["x", "x"]], [["a", "b", "c"], [[], {}]], "ab",
                    np.array([1, 2, 1, 0, 1, 2, 1]), np.array([1, 2, 1, 0, 9, 2, 1]),
                    [3, 2, 2], [True, 2], [10**30, 2], [np.nan, 2], np.array([3, 2.0]),
                    codes.astype(">u2"), values.Fails(), object(), {}, [3, None],
                ],
            )
        )  # fmt: skip
        text = written("Ensemble.from_codes", call)
        wide = (*names, *call, "n_labels", "marginals", "categories")
        return Case(text, lambda: gpc.Ensemble.from_codes(**call), wide, sound)
    if kind == "subset":
        which = values.pick(rng, ["rows", "partitions"])
        text = f"Ensemble.subset({which}={shown(index)})"
        return Case(text, lambda: ens.subset(**{which: index}), (which,), sound)
    if kind == "to":
        where = values.words(rng)

        def run():
            return ens.to(where)

        return Case(f"Ensemble.to({shown(where)})", run, ("backend", "cupy"), sound)
    if kind == "save":
        path = values.paths(rng, folder)
        if rng.random() < 0.5:

            def run():
                return ens.save(path)
        else:

            def run():
                return gpc.Ensemble.load(path)

        return Case(
            f"Ensemble.save/load({shown(path)})", run, ("path", "/", str(path)[:20])
        )
    given = values.labels(rng, 6, r)
    if kind == "encode":

        def run():
            return ens.encode(given)
    else:
        result = gpc.kcc(ens, 2, n_init=2, search=False, random_state=0)

        def run():
            return result.predict(given)

    return Case(f"{kind}({shown(given)})", run, names)


def metric_call(rng, _):
    """Compare hostile labels, or measure hostile data."""
    name = values.pick(
        rng,
        [
            "adjusted_rand", "nmi", "variation_of_information", "van_dongen",
            "rand_distance", "purity", "accuracy", "compactness", "diversity",
            "consensus_criterion",
        ],
    )  # fmt: skip
    function = getattr(gpc.metrics, name)
    table = rng.integers(3, size=(24, 5))
    good = {
        "a": table[:, 0], "b": table[:, 1], "truth": table[:, 0], "labels": table[:, 1],
        "X": rng.normal(size=(24, 3)), "ens": table,
    }  # fmt: skip
    parameters = list(inspect.signature(function).parameters)
    good = {key: value for key, value in good.items() if key in parameters}
    call, meant = changed(rng, function, good)
    names = (*meant, *LABELS, "a ", "b ", "a=", "b=", "clustering")

    def check(value):
        assert np.isfinite(value), value
        assert isinstance(value, float)
        if name in ("adjusted_rand", "nmi"):
            a, b = (np.asarray(call[key]) for key in "ab")
            masked = any(np.ma.isMaskedArray(call[key]) for key in "ab")
            if (
                not masked
                and a.dtype.kind == b.dtype.kind == "i"
                and min(a.min(), b.min()) >= 0
            ):
                literal = (right.rand if name == "adjusted_rand" else right.nmi)(a, b)
                assert abs(value - literal) < 1e-9, (value, literal)
        if name not in ("compactness", "variation_of_information", "adjusted_rand"):
            assert -1e-9 <= value <= 1 + 1e-9 or name == "consensus_criterion", value

    return Case(written(name, call), lambda: function(**call), names, check)


GENERATE = {"n_partitions": 3, "n_clusters": 3, "random_state": 0}


def generate_call(rng, folder):
    """Make partitions, or clusters of features."""
    X = np.round(rng.normal(size=(24, 3)), 2)
    name = values.pick(
        rng, ["generate", "generate", "cluster", "lambda", "drop", "views"]
    )
    names = (*X_NAMES, "n_clusters", "k_range", "sample", "strategy")
    if name == "drop":
        good = {"ensemble": small_ensemble(rng), "share": 0.2, "random_state": 0}
        call, meant = changed(rng, gpc.drop_labels, good)
        text = written("drop_labels", call)
        return Case(text, lambda: gpc.drop_labels(**call), (*meant, *LABELS, "share"))
    if name in ("lambda", "views"):
        good = {"X": X if name == "lambda" else [X, X[:, :2]], "n_clusters": 2}
        good |= {"n_rounds": 2, "n_clusterers": 2, "random_state": 0}
        good |= {"method_options": {"n_init": 2}}
        function = gpc.lambda_consensus
    elif name == "cluster":
        function = gpc.cluster
        good = {"X": X, "n_clusters": 2, "n_partitions": 3, "random_state": 0}
        good["method"] = values.pick(rng, ["kcc", "sec", "vote", "hac"])
    else:
        function = gpc.generate_partitions
        strategies = ["rps", "rfs", "restarts", "zipf", "projection"]
        good = {"X": X, "strategy": values.pick(rng, strategies), **GENERATE}
    call, meant = changed(rng, function, good, leave=("progress",))
    if "checkpoint" in call:
        call["checkpoint"] = values.paths(rng, folder)
        meant += ("path", "folder", "checkpoint")
    if "k_range" in call:
        call["k_range"] = values.pick(
            rng,
            [
                (2, 4), (4, 2), (0, 3), (2, 10**30), (2,), 5, "23", (2.5, 3), [2, 3],
                None,
                (True, 3), (2, np.nan), (np.int8(2), np.int8(4)), {}, (2, 10**6), (24,
                24),
                np.array([2, 3]), (None, 3), values.Fails(), (1, 1), (-3, -2), ("2",
                "3"),
            ],
        )  # fmt: skip
    for option in ("generate_options", "method_options"):
        if option in call and option in meant:
            call[option] = values.pick(
                rng,
                [
                    5, None, [], "x", {"n_partitions": 3}, {"nope": 1}, {5: 5},
                    {"n_init": "x"}, {"weights": [1]}, {"random_state": 3}, {"": 1},
                    {"max_iter": 0}, [("n_init", 2)], {"backend": "numpy"}, {None: 1},
                    {"n_clusters": 3}, {"ensemble": 1}, {"X": 1}, {"checkpoint": "x"},
                ],
            )  # fmt: skip
            names = (*names, "n_partitions", "nope", "option", "n_init", "max_iter")
            names = (*names, "random_state", "backend", "weights", "ensemble")
            names = (*names, "checkpoint")

    def check(made):
        if isinstance(made, gpc.Ensemble):
            assert made.n_samples == len(made.labels)
            assert (made.n_labels >= 1).all()
        else:
            right.check_labels(made.labels, len(made.labels), made.n_clusters)

    return Case(written(name, call), lambda: function(**call), (*meant, *names), check)


def estimator_call(rng, _):
    """Fit an estimator with hostile parameters or data."""
    X = np.round(rng.normal(size=(24, 3)), 2)
    good = {"n_clusters": 2, "method": "kcc", "n_partitions": 3, "random_state": 0}
    call, meant = changed(rng, gpc.ConsensusClustering, good, leave=("progress",))
    given = values.features(rng) if rng.random() < 0.4 else X
    does = values.pick(rng, ["fit", "fit_predict", "set_params"])

    def run():
        model = gpc.ConsensusClustering(**call)
        if does == "set_params":
            model.set_params(**call)
        return model.fit(given) if does == "fit" else model.fit_predict(given)

    def check(made):
        labels = made.labels_ if does == "fit" else made
        right.check_labels(labels, len(labels), int(labels.max()) + 1)

    names = (*meant, *X_NAMES, "n_clusters", "n_partitions", "nope", "k_range")
    text = written("ConsensusClustering", call) + f".{does}({shown(given)})"
    return Case(text, run, names, check)


def select_call(rng, folder):
    """Choose a number of clusters with something hostile."""
    if rng.random() < 0.6:
        good = {"data": np.round(rng.normal(size=(24, 3)), 2), "n_init": 1}
        good |= {"n_partitions": 2}
    else:
        good = {"data": small_ensemble(rng), "kind": "labels", "method": "vote"}
    good |= {"candidates": [2, 3], "n_null": 19, "random_state": 0}
    call, meant = changed(rng, gpc.select_n_clusters, good, leave=("progress",))
    if "candidates" in meant:
        call["candidates"] = values.pick(
            rng,
            [
                [], [1], [0], [-2], [2.5], ["2"], "23", 5, None, [10**30], range(2,
                10**9),
                [2, 2], range(4, 1), [True], [np.nan], iter([2, 3]), {2: 3}, [24], [25],
                [1000], np.array([2, 3]), np.array([[2]]), [None], (k for k in [2]),
                [[2]],
                np.array([2.0]), values.Fails(), [np.int8(3)], range(2, 30),
            ],
        )  # fmt: skip
    if "data" in meant:
        call["data"] = values.pick(rng, [values.features, values.labels])(rng)
        meant += (*X_NAMES, *LABELS, "kind")
    if "checkpoint" in call:
        call["checkpoint"] = values.paths(rng, folder)
        meant += ("path", "folder")

    def check(found):
        assert isinstance(found, gpc.Selection)
        assert found.reason.endswith(".")
        assert 0 < found.p_value <= 1
        assert found.n_clusters == 1 or found.n_clusters in [
            row["n_clusters"] for row in found.table
        ]
        assert found._repr_html_().startswith("<")

    names = (*meant, "candidates", "share", "data", "kind")
    text = written("select_n_clusters", call)
    return Case(text, lambda: gpc.select_n_clusters(**call), names, check)


def utility_call(rng, _):
    """Bring a utility of one's own that is none."""
    table = small_ensemble(rng)
    kinds = [
        lambda p: (p**2).sum(-1), lambda p: "x", lambda p: None, lambda p: p * np.nan,
        lambda p: 2 * p, lambda p: p[0], lambda p: p.sum(), lambda p: p + 1j,
        lambda p: -(p**2).sum(-1), lambda p: np.inf, lambda p: p.tolist(), 5, None, "h",
    ]  # fmt: skip
    mu, gradient = values.pick(rng, kinds), values.pick(rng, kinds)
    if rng.random() < 0.3:
        mu, gradient = kinds[0], kinds[4]
    name, normalised = values.pick(rng, ["mine", "", 5, "h"]), values.switches(rng)

    def run():
        own = gpc.Utility(mu, gradient, name, normalised)
        return gpc.kcc(table, 2, own, n_init=2, random_state=0)

    names = ("mu", "gradient", "name", "utility", "normalised", "Utility")

    def check(made):
        return right.check_consensus(made, table, None, 2, {"utility": 0})

    place = kinds.index(mu), kinds.index(gradient)
    text = (
        f"Utility(kinds[{place[0]}], kinds[{place[1]}], {name!r}, {shown(normalised)})"
    )
    return Case(text, run, names, check)


def measure_call(rng, _):
    """Take the best partition by a measure of one's own."""
    table = small_ensemble(rng)
    measure = values.pick(
        rng,
        [
            lambda a, b: "x", lambda a, b: None, lambda a, b: np.nan,
            lambda a, b: np.array([1.0]), lambda a, b: 10**400, lambda a, b: 1j,
            gpc.metrics.nmi, "nmi", "nope", lambda a, b: True, lambda a, b: 1,
            lambda a, b: np.float32(2), 5, lambda a, b: a,
        ],
    )  # fmt: skip
    better = values.switches(rng)

    def run():
        return gpc.best(table, measure, higher_is_better=better, random_state=0)

    names = ("measure", "higher_is_better")

    def check(made):
        return right.check_consensus(made, table)

    return Case(f"best(measure={shown(measure)}, {shown(better)})", run, names, check)
