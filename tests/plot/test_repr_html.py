"""What a notebook shows of results."""

from html.parser import HTMLParser

import numpy as np
import pytest

import gpu_consensus as gpc


class Cells(HTMLParser):
    """The texts of a page, by element."""

    def __init__(self, page):
        super().__init__()
        self.tag, self.found = "", {}
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tag = tag

    def handle_data(self, data):
        self.found.setdefault(self.tag, []).append(data)


def test_an_ensemble_tells_its_sizes():
    ens = gpc.Ensemble.from_partitions([[0, 0, 1, -1], [0, 1, 2, 3]])
    found = Cells(ens._repr_html_()).found
    assert found["caption"] == ["Ensemble"]
    cells = dict(zip(found["td"][::2], found["td"][1::2], strict=True))
    assert cells["objects"] == "4"
    assert cells["labels of a partition"] == "2 to 4, median 3"
    assert cells["missing labels"] == "12.50%"


@pytest.mark.every_backend
def test_a_consensus_tells_its_clusters():
    labels = np.repeat([0, 1, 2], [2, 5, 3])
    res = gpc.kcc(np.stack([labels, labels], axis=1), 3, random_state=0)
    found = Cells(res._repr_html_()).found
    assert found["caption"] == [repr(res)]
    rows = [found["td"][i : i + 4] for i in range(0, 12, 4)]
    assert [row[1:] for row in rows] == [
        ["5", "50.0%", "1.000"],
        ["3", "30.0%", "1.000"],
        ["2", "20.0%", "1.000"],
    ]


def test_names_are_escaped_and_clusters_are_few():
    res = gpc.Consensus(
        labels=np.arange(30, dtype=np.int32),
        n_clusters=30,
        objective=0.0,
        value=0.0,
        history=np.zeros(1),
        converged=True,
        backend="numpy",
        method="<b>mine</b>",
    )
    page = res._repr_html_()
    assert "<b>" not in page
    assert "and 10 more" in page
    assert page.count("<tr>") == 22


def test_a_selection_tells_its_candidates():
    X = np.random.default_rng(0).normal(size=(60, 2))
    X[::2] += 9
    sel = gpc.select_n_clusters(
        X, [2, 3], n_null=19, n_init=2, n_partitions=4, random_state=0
    )
    found = Cells(sel._repr_html_()).found
    assert sel.reason in found["caption"][0]
    assert found["th"] == list(sel.table[0])
    cells = np.reshape(found["td"], (2, -1))
    assert cells[:, 0].tolist() == ["2, chosen", "3"]
    assert float(cells[0, 5]) == pytest.approx(sel.table[0]["stability"], abs=1e-3)
