"""Pictures: their numbers against loops and other libraries, and what they promise."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hostile_names import HOSTILE
from matplotlib.backends.backend_agg import FigureCanvasAgg
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

import gpu_consensus as gpc
from gpu_consensus.plot import style
from gpu_consensus.report.svg import new_axes

COLUMNS = (
    *("n_clusters", "stability", "gap"),
    *("scatter", "scatter_low", "scatter_high", "p", "pac"),
)
SELECTION = SimpleNamespace(
    n_clusters=3,
    reason="3 is the stable number of clusters with the largest gap.",
    table=[
        dict(zip(COLUMNS, row, strict=True))
        for row in (
            (2, 0.99, 0.2, 5.0, 5.5, 6.5, 0.025, 0.1),
            (3, 0.98, 0.5, 4.0, 5.2, 6.0, 0.025, 0.0),
            (4, 0.70, 0.4, 3.9, 4.9, 5.6, 0.025, None),
        )
    ],
    p_value=0.025,
    alternatives=[2],
)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    truth = np.repeat([0, 1, 2], [30, 20, 10])
    X = rng.normal(size=(60, 5)) + 4 * truth[:, None]
    return X, truth


@pytest.fixture(scope="module")
def result(data):
    return gpc.cluster(data[0], 3, n_partitions=12, random_state=0)


@pytest.fixture(scope="module")
def ens(result):
    return result.details["ensemble"]


def axes():
    """Axes as a report has them: the smallest that have to do."""
    return new_axes()


def draw(ax):
    """Render a picture: much of what can go wrong does so only then."""
    FigureCanvasAgg(ax.figure).draw()
    return ax


def every_picture(X, known, ens, res):
    yield gpc.plot.selection(SELECTION, axes())
    yield gpc.plot.selection(SELECTION, axes(), measure="gap")
    yield gpc.plot.selection(SELECTION, axes(), measure="scatter")
    yield gpc.plot.pair_distribution(ens, axes())
    yield gpc.plot.coassociation(ens, res, axes(), known=known)
    yield gpc.plot.cluster_tree({2: ens.labels[:, 0], 3: res}, axes(), chosen=3)
    yield gpc.plot.confidence(res, axes(), stability=np.full(len(known), 0.5))
    yield gpc.plot.similarity(ens, axes())
    yield gpc.plot.quality_diversity(ens, res, axes())
    yield gpc.plot.contingency(res, known, axes())
    yield gpc.plot.embedding(X, res, axes())
    yield gpc.plot.embedding(X, res, axes(), by="confidence")
    yield gpc.plot.embedding(ens, res, axes())
    yield gpc.plot.history(res, axes())
    yield gpc.plot.candidates(res, axes())


def test_every_picture_has_title_words_and_numbers(data, ens, result):
    for ax in every_picture(*data, ens, result):
        draw(ax)
        title = ax.get_title(loc="left")
        assert title
        text, (columns, rows) = gpc.plot.text_of(ax), gpc.plot.table_of(ax)
        assert len(text) > 60
        assert text.endswith(".")
        assert rows, title
        assert all(len(row) == len(columns) for row in rows)


def test_words_lie_within_the_picture(data, ens, result):
    """Axis labels and titles are not cut off at the size that a report draws."""
    for ax in every_picture(*data, ens, result):
        draw(ax)
        renderer = ax.figure.canvas.get_renderer()
        frame = ax.figure.bbox
        for one in (*ax.figure.axes, *ax.child_axes):
            words = [one.xaxis.label, one.yaxis.label, one._left_title, *one.texts]
            for text in words:
                box = text.get_window_extent(renderer)
                across = frame.x0 - 2 <= box.x0 and box.x1 <= frame.x1 + 2
                along = frame.y0 - 2 <= box.y0 and box.y1 <= frame.y1 + 2
                shown = not text.get_text() or (across and along)
                assert shown, (ax.get_title(loc="left"), text.get_text())


def test_the_map_shows_shares_of_partitions(ens, result):
    columns, rows = gpc.plot.table_of(gpc.plot.coassociation(ens, result, axes()))
    labels, of = ens.labels, result.labels
    shares = {}
    for a in range(len(of)):
        for b in range(len(of)):
            if a != b:
                same = [labels[a, i] == labels[b, i] for i in range(labels.shape[1])]
                shares.setdefault((of[a], of[b]), []).append(np.mean(same))
    for k, row in enumerate(rows):
        for l, share in enumerate(row[1:]):
            assert share == pytest.approx(np.mean(shares[k, l]), abs=6e-4)
    assert columns[1:] == ("cluster 0", "cluster 1", "cluster 2")


def test_pairs_in_doubt_are_counted(ens):
    ensembles = {3: ens.subset(partitions=[0, 1, 2, 3]), 4: ens}
    ax = gpc.plot.pair_distribution(ensembles, axes())
    for (name, n, mean, low, between, high), k in zip(
        gpc.plot.table_of(ax)[1], ensembles, strict=True
    ):
        labels = ensembles[k].labels
        share = np.array(
            [
                (labels[a] == labels[b]).mean()
                for a in range(len(labels))
                for b in range(a)
            ]
        )
        assert name == f"{k} labels"
        assert n == ensembles[k].n_partitions
        assert mean == pytest.approx(share.mean(), abs=6e-4)
        unclear = ((share > 0.1) & (share < 0.9)).mean()
        assert between == pytest.approx(unclear, abs=6e-4)
        assert low + between + high == pytest.approx(1, abs=2e-3)


def test_partitions_are_compared_as_others_do(ens, result):
    columns = ens.labels.T
    for i, k, _, mean in gpc.plot.table_of(gpc.plot.similarity(ens, axes()))[1]:
        others = [
            adjusted_rand_score(columns[i], other)
            for j, other in enumerate(columns)
            if j != i
        ]
        assert mean == pytest.approx(np.mean(others), abs=6e-4)
        assert k == len(set(columns[i]))
    ax = gpc.plot.quality_diversity(ens, result, axes())
    for i, _, quality, _ in gpc.plot.table_of(ax)[1]:
        shared = normalized_mutual_info_score(
            columns[i], result.labels, average_method="geometric"
        )
        assert quality == pytest.approx(shared, abs=6e-4)


def test_partitions_that_never_meet_can_be_compared():
    ens = gpc.Ensemble.from_partitions([[0, 1, -1, -1], [-1, -1, 0, 1], [0, 1, 0, 1]])
    rows = gpc.plot.table_of(draw(gpc.plot.similarity(ens, axes())))[1]
    assert [row[3] for row in rows] == [1, 1, 1]


def test_clusters_against_classes_are_counted(result, data):
    known = np.array(["x", "y", "z"])[data[1]]
    columns, rows = gpc.plot.table_of(gpc.plot.contingency(result, known, axes()))
    assert columns == ("cluster", "x", "y", "z")
    for name, *line in rows:
        for c, number in zip("xyz", line, strict=True):
            assert number == ((result.labels == int(name)) & (known == c)).sum()


def test_more_classes_than_fit_are_added_up():
    known = np.repeat(np.arange(40), np.arange(1, 41))
    ax = draw(gpc.plot.contingency(known % 3, known, axes()))
    columns, rows = gpc.plot.table_of(ax)
    assert columns[-1] == "all others"
    assert len(columns) == 17
    assert sum(sum(row[1:]) for row in rows) == len(known)


def test_components_are_those_of_scikit_learn(data, result):
    X, _ = data
    ax = gpc.plot.embedding(X, result, axes())
    one, two = PCA(2).fit(X).explained_variance_ratio_
    assert ax.get_xlabel() == f"component 1 ({one:.0%} of the variance)"
    assert ax.get_ylabel() == f"component 2 ({two:.0%} of the variance)"
    wide = np.hstack([X] * 20)  # more features than objects
    assert gpc.plot.embedding(wide, result, axes()).get_xlabel() == ax.get_xlabel()


def test_coordinates_are_drawn_as_they_are(data, result):
    X, _ = data
    ax = gpc.plot.embedding(X[:, :2], result, axes())
    for k, _, x, y, *_ in gpc.plot.table_of(ax)[1]:
        middle = np.median(X[result.labels == k, :2], axis=0)
        assert (x, y) == pytest.approx(tuple(middle), rel=1e-3)


@pytest.mark.parametrize("form", ["frame", "sparse", "constant", "huge"])
def test_features_of_every_kind(form, data, result):
    import pandas as pd
    import scipy.sparse

    X = data[0]
    given = {
        "frame": pd.DataFrame(X),
        "sparse": scipy.sparse.csr_array(np.maximum(X, 0)),
        "constant": np.ones((60, 3)),
        "huge": X * 1e300,
    }[form]
    draw(gpc.plot.embedding(given, result, axes()))


def test_confidence_by_cluster(result):
    rows = gpc.plot.table_of(gpc.plot.confidence(result, axes()))[1]
    for k, n, mean, *_, top in rows:
        own = result.confidence[result.labels == k]
        assert (n, mean) == (len(own), pytest.approx(own.mean(), abs=6e-4))
        assert top <= 1


def test_the_tree_loses_no_object_and_leaves_out_thin_lines():
    rng = np.random.default_rng(0)
    by_k = {k: rng.integers(0, k, 200) for k in (2, 3, 5)}
    ax = draw(gpc.plot.cluster_tree(by_k, axes(), chosen=3))
    rows = gpc.plot.table_of(ax)[1]
    for k, a, below, b, objects, share in rows:
        both = (by_k[k] == a) & (by_k[below] == b)
        assert objects == both.sum()
        assert share == pytest.approx(objects / (by_k[below] == b).sum(), abs=6e-4)
    assert sum(row[4] for row in rows if row[0] == 2) == 200


def test_selection_says_what_was_chosen():
    ax = draw(gpc.plot.selection(SELECTION, axes()))
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "chosen: 3 (p = 0.025)" in words
    assert "alternative" in words
    assert gpc.plot.table_of(ax)[1][2][-1] == ""  # a PAC that is not known
    assert "0.03 below the best" in words
    ax = draw(gpc.plot.selection(SELECTION, axes(), measure="scatter"))
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "data without clusters (null), 95%" in words
    agreed = {"table": [{"n_clusters": 3, "product": 0.9}], "claim": "agreement"}
    ax = gpc.plot.selection(
        SimpleNamespace(**{**vars(SELECTION), **agreed}), axes(), measure="product"
    )
    words = [text.get_text() for text in draw(ax).get_legend().get_texts()]
    assert "0.97 of the best" in words
    nothing = SimpleNamespace(**{**vars(SELECTION), "n_clusters": 1, "p_value": 0.4})
    ax = draw(gpc.plot.selection(nothing, axes()))
    assert "no structure (p = 0.4)" in gpc.plot.text_of(ax)
    with pytest.raises(ValueError, match="measure='stab' is unknown; choose one of"):
        gpc.plot.selection(SELECTION, axes(), measure="stab")


def test_a_table_of_any_form_is_read():
    import pandas as pd

    for table in (
        pd.DataFrame(SELECTION.table),
        {key: [row[key] for row in SELECTION.table] for key in SELECTION.table[0]},
        [SimpleNamespace(**row) for row in SELECTION.table],
    ):
        sel = SimpleNamespace(**{**vars(SELECTION), "table": table})
        rows = gpc.plot.table_of(gpc.plot.selection(sel, axes()))[1]
        assert [row[0] for row in rows] == [2, 3, 4]


def test_large_ensembles_are_sampled():
    """The n x n matrix of these objects would take 80 GB."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 100_000)
    truth[:7] = 3  # a tiny cluster is not lost
    noisy = [np.where(rng.random(len(truth)) < 0.1, 0, truth) for _ in range(4)]
    ens = gpc.Ensemble.from_partitions(noisy)
    ax = draw(gpc.plot.coassociation(ens, truth, axes(), max_objects=300))
    assert "300 of 100,000 objects" in gpc.plot.text_of(ax)
    assert len(gpc.plot.table_of(ax)[1]) == 4
    again = gpc.plot.coassociation(ens, truth, axes(), max_objects=300)
    assert gpc.plot.table_of(again) == gpc.plot.table_of(ax)


@pytest.mark.filterwarnings("ignore:Glyph:UserWarning")
def test_names_of_others_do_no_harm(data, ens, result):
    known = np.array(HOSTILE, dtype=object)[np.arange(60) % len(HOSTILE)]
    for ax in (
        gpc.plot.contingency(result, known, axes()),
        gpc.plot.coassociation(ens, result, axes(), known=known),
    ):
        draw(ax)
        shown = ax.figure.findobj(lambda a: hasattr(a, "get_text"))
        assert max(len(text.get_text()) for text in shown) < 200


def test_many_clusters_have_numbers_and_signs_of_their_own(data):
    signs = {(style.colour_of(k), style.marker_of(k)) for k in range(64)}
    assert len(signs) == 64
    assert len({style.colour_of(k) for k in range(8)}) == 8
    ax = gpc.plot.embedding(data[0], np.arange(60) % 20, axes())
    assert {text.get_text() for text in ax.texts} == {str(k) for k in range(20)}


def test_colours_are_read_on_their_ground():
    assert style.ink_on("#F0E442") == "black"
    assert style.ink_on("#000000") == "white"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda e, r: gpc.plot.similarity(e, ax=3), "ax=3 should be one Axes"),
        (lambda e, r: gpc.plot.confidence([0, 1], axes()), "should be a Consensus"),
        (lambda e, r: gpc.plot.history([0, 1], axes()), "should be a Consensus"),
        (lambda e, r: gpc.plot.candidates(None, axes()), "result has no candidates"),
        (
            lambda e, r: gpc.plot.coassociation(e, [0, 1], axes()),
            "result has 2 labels but there are 60 objects",
        ),
        (
            lambda e, r: gpc.plot.coassociation(e, r, axes(), known=[1]),
            "known has 1 labels but there are 60 objects",
        ),
        (lambda e, r: gpc.plot.cluster_tree({}, axes()), "with at least one"),
        (
            lambda e, r: gpc.plot.cluster_tree({2: [0, 1], 3: [0]}, axes()),
            "clusterings have 1 to 2 objects",
        ),
        (lambda e, r: gpc.plot.contingency([0, 1], [-1, -1], axes()), "in common"),
        (lambda e, r: gpc.plot.embedding([1, 2], [0, 1], axes()), r"shape \(2,\)"),
        (
            lambda e, r: gpc.plot.embedding([[1, np.nan]], [0], axes()),
            "NaN or infinite",
        ),
        (
            lambda e, r: gpc.plot.embedding([[1, 2]], [0], axes(), by="confidence"),
            "needs a Consensus",
        ),
        (lambda e, r: gpc.plot.text_of(axes()), "holds no picture"),
        (
            lambda e, r: gpc.plot.similarity(
                gpc.Ensemble.from_partitions([[-1, -1]]), axes()
            ),
            "no label in any partition",
        ),
    ],
)
def test_wrong_calls_end_in_one_sentence(call, words, ens, result):
    with pytest.raises((ValueError, TypeError), match=words):
        call(ens, result)


def test_without_matplotlib_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    words = r'a picture needs matplotlib.*pip install "gpu-consensus\[report\]"'
    with pytest.raises(ImportError, match=words):
        gpc.plot.similarity(np.array([[0, 0], [0, 1]]))


def test_a_figure_of_pyplot_is_made_where_none_is_given():
    code = """
import matplotlib
matplotlib.use("agg")
import numpy as np, gpu_consensus as gpc, sys
assert "matplotlib.pyplot" not in sys.modules
ax = gpc.plot.similarity(np.array([[0, 0], [0, 1], [1, 1]]))
import matplotlib.pyplot as plt
assert plt.gca().figure is ax.figure
"""
    subprocess.run([sys.executable, "-c", code], check=True)
