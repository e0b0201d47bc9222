"""The same answer, however the same labels are written down."""

import hostile_values as values
import numpy as np
from judge import Case

import gpu_consensus as gpc


def clear(seed, n=33, r=9):
    """An ensemble around three clusters, so clear that no tie decides."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.arange(n) % 3)
    labels = np.repeat(truth[:, None], r, axis=1)
    for i, k in ((3, 0), (6, 1)):
        inside = np.flatnonzero(truth == k)
        labels[inside[: len(inside) // 2], i] = 3
    for row in rng.permutation(n)[: n // 2]:
        i = rng.integers(r)
        labels[row, i] = (truth[row] + rng.integers(1, 3)) % 3
    return labels


def names_of(rng):
    """Return four names for four labels."""
    return values.pick(
        rng,
        [
            np.array([3, 0, 9, 4]), np.array([7.0, 2.0**52, 5.0, 0.0]),
            np.array(["d", "", "c", "שלום"]), np.array([2**62, 0, 2**61, 5]),
            np.array([True, 2, "x", (1, 2)], dtype=object),
            np.array([b"a", b"b", b"\xff", b"d"]), np.array([40, 30, 20, 10], np.uint8),
            np.array(["NaN.", "None", "0", "00"]), np.array([10**30, 1, "1", "x"],
            object),
        ],
    )  # fmt: skip


def forms(rng, table):
    """Return ways to hand over a table of any kind."""
    import pandas as pd

    made = [
        lambda: table, lambda: np.asfortranarray(table), lambda: table[:, ::-1][:,
        ::-1],
        lambda: table.astype(object), lambda: pd.DataFrame(table),
        lambda: pd.DataFrame(table).astype("category"), lambda: gpc.Ensemble(table),
        lambda: gpc.Ensemble.from_partitions(list(table.T)),
        lambda: gpc.Ensemble.from_partitions(iter([list(c) for c in table.T])),
    ]  # fmt: skip
    try:
        import polars

        made.append(lambda: polars.DataFrame(table.astype(str)))
    except ImportError:
        pass
    return values.pick(rng, made)()


def same_answer(rng, _):
    """Rename labels, reorder partitions, permute rows, take another container."""
    names = [m for m in gpc.METHODS if m not in ("best", "auto")]
    method = values.pick(rng, names)
    seed = int(rng.integers(2**31))
    labels = clear(seed)
    function = gpc.METHODS[method]
    finds = "n_clusters" not in function.__kwdefaults__ and method in (
        "best",
        "fusion_transfer",
    )
    k = () if finds else (3,)
    rows, columns = rng.permutation(33), rng.permutation(9)
    if method == "vote":  # which takes partitions in their order
        columns = np.arange(9)
    renamed = np.array([names_of(rng)[labels[:, i]] for i in columns], dtype=object).T
    plain = values.pick(rng, [True, False])
    table = renamed if not plain else names_of(rng)[labels[:, columns]]
    given = forms(rng, table[rows])
    how = values.pick(rng, ["numpy", "native", "auto"])

    def run():
        one = function(labels, *k, random_state=0, backend="numpy")
        return one, function(given, *k, random_state=0, backend=how)

    def check(found):
        one, other = found
        again = np.empty(33, int)
        again[rows] = other.labels
        pairs = set(zip(one.labels.tolist(), again.tolist(), strict=True))
        assert len(pairs) == one.n_clusters == other.n_clusters, pairs

    text = f"{method}(clear({seed})) against {type(given).__name__} renamed, {how}"
    return Case(text, run, ("never refused",), check)
