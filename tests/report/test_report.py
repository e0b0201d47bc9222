"""The report: what it tells, that it is safe and small, and how it refuses."""

import hashlib
import re
import subprocess
import sys
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from hostile_names import HOSTILE

import gpu_consensus as gpc
from gpu_consensus.result import Consensus

SELECTION = SimpleNamespace(
    n_clusters=3,
    reason="3 is the stable number of clusters with the largest gap (p = 0.025).",
    table=[
        {"n_clusters": 2, "stability": 0.9, "gap": 0.2, "scatter": 5.0},
        {"n_clusters": 3, "stability": 0.98, "gap": 0.5, "scatter": 4.0},
    ],
    p_value=0.025,
    alternatives=[2],
    stability=np.full(60, 0.75),
    claim="structure",
)
TAGS = """
a bdi body caption clippath code dd defs desc details div dl dt figcaption figure g
h1 h2 head header html image li link main meta nav p path pattern pre rect section
span style summary svg table tbody td text th thead title tr tspan ul use
"""


class Look(HTMLParser):
    """The elements of a page, their attributes, and the text by element."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.texts, self._open = [], [], {}, []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self._open.append(tag)

    def handle_endtag(self, tag):
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data):
        if self._open:
            self.texts.setdefault(self._open[-1], []).append(data)


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(3)
    truth = np.repeat([0, 1, 2], [30, 20, 10])
    X = rng.normal(size=(60, 5)) + 4 * truth[:, None]
    return X, truth, gpc.cluster(X, 3, n_partitions=12, random_state=0)


def write(folder, result, **options):
    path = gpc.report(result, folder / "report.html", **options)
    return path.read_text(encoding="utf-8")


def test_it_tells_all_that_was_promised(tmp_path, made):
    X, truth, res = made
    source = tmp_path / "data.csv"
    source.write_bytes(b"1,2,3\n")
    page = write(
        tmp_path,
        res,
        X=X,
        known=np.array(["left", "middle", "right"])[truth],
        names=[f"sample {l}" for l in range(60)],
        selection=SELECTION,
        title="My study",
        command="gpu-consensus cluster data.csv --seed 0",
        source=source,
        settings={"seed": 0, "method": "auto"},
    )
    look = Look(page)
    headings = " ".join(look.texts["h2"])
    for words in (
        "What was asked",
        "Data and ensemble",
        "The answer, and how sure it is",
        "Least certain objects",
        "Number of clusters",
        "Comparison with known labels",
        "Diagnostics",
        "How it was made",
        "What this does not show",
    ):
        assert words in headings
    text = " ".join(word for words in look.texts.values() for word in words)
    assert "My study" in text
    assert "3 clusters of 60 objects" in text
    assert SELECTION.reason in text
    assert "gpu-consensus cluster data.csv --seed 0" in text
    assert hashlib.sha256(b"1,2,3\n").hexdigest() in text
    assert gpc.__version__ in text
    assert np.__version__ in text
    assert f"{gpc.metrics.adjusted_rand(truth, res.labels):.3f}" in text
    worst = int(np.argmin(res.confidence))
    assert f"sample {worst}" in text
    assert len(page.encode()) < 1_500_000


def test_every_picture_has_words_and_a_table(tmp_path, made):
    X, truth, res = made
    page = write(tmp_path, res, X=X, known=truth, selection=SELECTION)
    assert write(tmp_path, res, X=X, known=truth, selection=SELECTION) == page
    pictures = re.findall(r"<figure>(.*?)</figure>", page, re.DOTALL)
    assert len(pictures) == 13
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(set(ids)) == len(ids)
    for picture in pictures:
        title, text = re.search(r'aria-labelledby="(\S+) (\S+)"', picture).groups()
        assert f'<title id="{title}">' in picture
        assert f'<desc id="{text}">' in picture
        assert 'role="img"' in picture
        assert "<figcaption>" in picture
        assert re.search(r"<details>.*<table.*</details>", picture, re.DOTALL)
    for used in re.findall(r'(?:href="#|url\(#)([^")]+)', page):
        assert used in ids


def test_names_of_others_do_no_harm(tmp_path, made):
    X, _, res = made
    known = np.array(HOSTILE, dtype=object)[np.arange(60) % len(HOSTILE)]
    page = write(
        tmp_path,
        res,
        X=X,
        known=known,
        names=known,
        title=HOSTILE[0],
        command=HOSTILE[1],
        settings={HOSTILE[2]: HOSTILE[3], "text": HOSTILE[6]},
    )
    look = Look(page)
    assert set(look.tags) <= set(TAGS.split())
    for name, value in look.attributes:
        assert not name.startswith("on")
        if name in ("href", "src"):
            assert value.startswith(("#", "data:"))
    assert "{{ 7 * 7 }}" in "".join(look.texts["bdi"])
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", page)
    assert "a" * 200 not in page
    assert "שלום עולם" in page
    assert len(page.encode()) < 1_500_000


def test_labels_alone_get_a_report(tmp_path, made):
    _, truth, res = made
    ens = res.details["ensemble"]
    labels = np.array(["10", "9", None], dtype=object)[np.array([0, 1, 0])[truth]]
    labels[5] = None
    page = write(tmp_path, labels, ensemble=ens)
    assert "2 clusters of 60 objects, found by labels given" in page
    assert "1 object without any label got the label -1" in page
    words = [str(cell) for cell in Look(page).texts["bdi"]]
    assert "9" in words
    assert "10" in words


def test_confidence_of_given_labels_is_that_of_the_method(tmp_path, made):
    from gpu_consensus.report.given import given_consensus

    _, _, res = made
    again, names = given_consensus(res.labels, res.details["ensemble"])
    assert names is None
    np.testing.assert_allclose(again.confidence, res.confidence, rtol=1e-12)


def test_the_next_cluster_is_the_second_best(made):
    """Against the definition, one object after another."""
    _, _, res = made
    ens, of = res.details["ensemble"].labels, res.labels
    for l in (0, 31, 59):
        claims = [
            np.mean([(ens[of == k, i] == ens[l, i]).mean() for i in range(12)])
            for k in range(3)
        ]
        shares = res.centroids.shares(np.array([l]))[0]
        np.testing.assert_allclose(shares, claims / np.sum(claims), rtol=1e-12)


def test_without_features_objects_are_drawn_by_labels(tmp_path, made):
    X, _, res = made
    bad = X.copy()
    bad[3, 1] = np.nan
    page = write(tmp_path, res, X=bad)
    assert "principal components of the labels" in page
    assert "Objects are drawn by their labels: data has a NaN" in page


def test_large_ensembles_are_sampled(tmp_path):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 12, 30_000)
    noisy = [np.where(rng.random(len(truth)) < 0.2, 0, truth) for _ in range(8)]
    ens = gpc.Ensemble.from_partitions(noisy)
    page = write(tmp_path, truth, ensemble=ens)
    assert "the heat map shows 1,500 of 30,000 objects" in page
    assert "made by kcc on 2,000 objects" in page
    assert len(page.encode()) < 1_500_000


@pytest.mark.parametrize(
    "labels",
    [[0, 0, 0, 0], [0, 1, 2, 3], [0, 0, 1, -1]],
    ids=["one cluster", "a cluster each", "one without"],
)
def test_small_cases_have_a_report_too(tmp_path, labels):
    ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [0, -1, 1, 1], [0, 1, 2, 2]])
    assert "of 4 objects" in write(tmp_path, labels, ensemble=ens)


def test_one_object_and_one_partition(tmp_path):
    ens = gpc.Ensemble.from_partitions([["a"]])
    assert "1 cluster of 1 object" in write(tmp_path, ["x"], ensemble=ens)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"path": "report.txt"}, "should end in .html"),
        ({"path": 5}, "path=5 should be a path"),
        ({"known": [1, 2]}, "known has 2 labels but there are 60 objects"),
        ({"known": [-1] * 60}, "known has no label at all"),
        ({"names": ["a"]}, "names has 1 entries but there are 60 objects"),
        ({"max_objects": 0}, "max_objects=0 should be >= 1"),
        ({"ensemble": np.zeros((3, 2))}, "result has 60 labels but the ensemble has"),
        ({"ensemble": np.full((60, 2), -1)}, "no label in any partition"),
        ({"result": [-1] * 60}, "result has no labelled object"),
        ({"result": [0, 1]}, "result has 2 labels"),
        ({"source": "no such file"}, "no such file"),
    ],
)
def test_wrong_calls_end_in_one_sentence(tmp_path, made, options, words):
    ens = made[2].details["ensemble"]
    given = {"result": made[2], "path": tmp_path / "r.html", "ensemble": ens}
    given |= options
    with pytest.raises((ValueError, TypeError, OSError), match=words):
        gpc.report(given.pop("result"), given.pop("path"), **given)
    assert not (tmp_path / "r.html").exists()


def test_a_result_that_remembers_nothing_needs_the_ensemble(tmp_path):
    res = Consensus(np.zeros(3, np.int32), 1, 0.0, 0.0, np.zeros(1), True, "x", "y")
    with pytest.raises(TypeError, match="pass the partitions"):
        gpc.report(res, tmp_path / "r.html")
    ens = gpc.Ensemble.from_partitions([[0, 0, 1]])
    assert "found by y" in write(tmp_path, res, ensemble=ens)


@pytest.mark.parametrize("name", ["matplotlib", "jinja2"])
def test_without_the_extra_one_sentence_says_what_to_install(
    tmp_path, made, monkeypatch, name
):
    monkeypatch.setitem(sys.modules, name, None)
    words = rf'a report needs {name}.*pip install "gpu-consensus\[report\]"'
    with pytest.raises(ImportError, match=words):
        gpc.report(made[2], tmp_path / "report.html")


def test_a_report_leaves_pyplot_alone():
    code = """
import sys, tempfile, numpy as np, gpu_consensus as gpc
labels = np.array([[0, 0], [0, 1], [1, 1]])
assert "matplotlib" not in sys.modules
with tempfile.TemporaryDirectory() as folder:
    gpc.report([0, 0, 1], folder + "/report.html", ensemble=labels)
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
