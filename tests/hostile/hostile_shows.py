"""Pictures and reports of hostile data."""

import inspect

import hostile_values as values
import numpy as np
from hostile_calls import LABELS, X_NAMES, hostile_value, small_ensemble, written
from hostile_names import HOSTILE
from judge import Case

import gpu_consensus as gpc
from gpu_consensus import plot

PICTURES = (
    "candidates", "cluster_tree", "coassociation", "confidence", "contingency",
    "embedding", "history", "pair_distribution", "quality_diversity", "selection",
    "similarity",
)  # fmt: skip
_kept = {}


def made():
    """Return a consensus, its ensemble and a selection, made once."""
    if not _kept:
        table = small_ensemble(np.random.default_rng(0))
        ens = gpc.Ensemble(table)
        X = np.random.default_rng(1).normal(size=(len(table), 3))
        _kept["ens"] = ens
        _kept["X"] = X
        _kept["auto"] = gpc.consensus(ens, 3, random_state=0)
        _kept["res"] = gpc.kcc(ens, 3, n_init=2, random_state=0)
        _kept["sel"] = gpc.select_n_clusters(
            X, [2, 3], n_null=19, n_init=1, n_partitions=2, random_state=0
        )
    return _kept


def anything(rng, n):
    """Return what might be passed as a result, labels, an ensemble or a selection."""
    good = made()
    return values.pick(
        rng,
        [
            *good.values(), None, 5, "x", [], {}, object(), values.Fails(),
            np.arange(n),
            np.zeros(n), np.full(n, -1), np.arange(n - 1), np.full(n, np.nan),
            np.array(HOSTILE)[np.arange(n) % len(HOSTILE)], [["a"]], {2: good["res"]},
            {3: good["res"], 2: np.arange(n) % 2}, {"x": 5}, {2: 5}, {None: None},
            [good["ens"], good["ens"]], {2: good["ens"], 3: good["ens"]}, np.ones((n,
            2)),
            np.ones((n, 0)), np.ones((0, 2)), np.full((n, 2), np.nan), iter([1]), True,
            np.datetime64("2020-01-01"), np.arange(n) * 1j, [None] * n, plot,
        ],
    )  # fmt: skip


def picture_call(rng, _):
    """Draw something hostile."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    good = made()
    n = good["ens"].n_samples
    name = values.pick(rng, PICTURES)
    function = getattr(plot, name)
    call = {
        "ensemble": good["ens"], "result": good["res"], "known": np.arange(n) % 4,
        "clusterings": {2: np.arange(n) % 2, 3: good["res"]}, "data": good["X"],
        "ensembles": good["ens"], "sel": good["sel"],
    }  # fmt: skip
    if name == "candidates":
        call["result"] = good["auto"]
    names = inspect.signature(function).parameters
    call = {key: value for key, value in call.items() if key in names}
    hurt = values.pick(rng, list(names))
    if hurt == "ax":
        call["ax"] = values.pick(rng, [5, None, Figure(), "x", values.Fails()])
    elif hurt in call or hurt in ("stability", "known"):
        call[hurt] = anything(rng, n)
    else:
        call[hurt] = hostile_value(rng, hurt)

    def run():
        from matplotlib import pyplot

        try:
            return function(**call)
        finally:
            pyplot.close("all")

    def check(ax):
        assert ax.get_title(loc="left")
        assert len(plot.text_of(ax)) > 20
        columns, rows = plot.table_of(ax)
        assert all(len(row) == len(columns) for row in rows)

    meant = (hurt, *LABELS, *X_NAMES, "result", "object", "auto", "selection")
    return Case(written(f"plot.{name}", call), run, meant, check)


def report_call(rng, folder):
    """Write a report on something hostile."""
    good = made()
    n = good["ens"].n_samples
    call = {"result": good["res"], "path": folder / "report.html"}
    if rng.random() < 0.5:
        call["by_k"] = {}
    names = [*inspect.signature(gpc.report).parameters]
    hurt = values.pick(rng, names)
    if hurt == "path":
        call["path"] = values.paths(rng, folder)
    elif hurt in ("max_objects", "random_state", "title", "command"):
        call[hurt] = hostile_value(rng, hurt)
    elif hurt == "source":
        call[hurt] = values.paths(rng, folder)
    else:
        call[hurt] = anything(rng, n)

    def check(path):
        text = path.read_text("utf-8")
        assert "<script" not in text.lower()
        assert len(text) < 1.5e6
        assert text.rstrip().endswith("</html>")

    meant = (hurt, *LABELS, *X_NAMES, "path", "result", "selection", "/")
    return Case(written("report", call), lambda: gpc.report(**call), meant, check)
