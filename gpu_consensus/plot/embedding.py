"""The objects in a plane, by cluster or by confidence."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.plot.given import Objects, confidence_of, labels_of, sample
from gpu_consensus.plot.picture import close_axes, open_axes
from gpu_consensus.plot.style import INK, MAP, colour_of, count, marker_of
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import FloatArray, check_choice
from gpu_consensus.util.numbers import shown

MAX_OBJECTS = 1_000


class Plane(NamedTuple):
    """Objects in a plane: which, where, and the names of the axes."""

    rows: Objects
    xy: FloatArray
    names: tuple[str, str]
    about: str


def embedding(
    data: Any,
    result: Any,
    ax: Any = None,
    *,
    by: str = "cluster",
    max_objects: int = MAX_OBJECTS,
    random_state: Any = 0,
) -> Any:
    """Draw objects in a plane: coordinates of your own, or principal components.

    Parameters
    ----------
    data : array, DataFrame or sparse of shape (n_samples, n_features), or Ensemble
        Two columns are coordinates and drawn as they are; more become the first two
        principal components of the objects drawn. Of an ensemble those of its labels
        are taken, one column per label.
    result : Consensus, or labels of shape (n_samples,)
    ax : Axes, optional
        Where to draw; a new figure by default.
    by : {"cluster", "confidence"}, default "cluster"
        What colour and sign say; "confidence" needs a Consensus.
    max_objects : int, default 1000
        Of more, some are drawn, at least five of each cluster.
    random_state : int, Generator, RandomState, SeedSequence, default 0

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> import gpu_consensus as gpc
    >>> from matplotlib.figure import Figure
    >>> X = np.array([[0.0, 0, 1], [0, 1, 0], [9, 9, 9], [9, 8, 9]])
    >>> ax = gpc.plot.embedding(X, [0, 0, 1, 1], Figure().subplots())
    >>> ax.get_xlabel()
    'component 1 (99% of the variance)'
    """
    check_choice("by", by, ["cluster", "confidence"])
    labels = labels_of(result, length_of(data))
    plane = lay_out(data, labels, max_objects, random_state)
    return draw_plane(plane, result, ax, by)


def lay_out(
    data: Any, labels: Any, max_objects: int = MAX_OBJECTS, random_state: Any = 0
) -> Plane:
    """Draw objects and find their places in the plane."""
    length = length_of(data)
    if length != len(labels):
        raise ValueError(
            f"data has {length} rows but there are {len(labels)} objects; give one row "
            "per object."
        )
    rows = sample(labels, max_objects, random_state)
    if isinstance(data, Ensemble):
        values, whose = _indicators(data, rows), "principal components of the labels"
    else:
        values, whose = _rows(data, rows), "principal components"
    if not np.isfinite(values).all():
        raise ValueError(
            "data has a NaN or infinite value; fill it in, or leave the picture out."
        )
    if values.shape[1] == 2 and not isinstance(data, Ensemble):
        return Plane(rows, values, ("coordinate 1", "coordinate 2"), "coordinates")
    xy, shares = _components(values)
    first, second = (
        f"component {c} ({share:.0%} of the variance)"
        for c, share in enumerate(shares, 1)
    )
    return Plane(rows, xy, (first, second), whose)


def draw_plane(plane: Plane, result: Any, ax: Any, by: str) -> Any:
    """Draw objects whose places are known."""
    labels = labels_of(result)
    of, xy = labels[plane.rows], plane.xy
    sure = confidence_of(result)
    if by == "confidence" and sure is None:
        raise TypeError(
            "by='confidence' needs a Consensus that has a confidence; labels alone "
            "have none."
        )
    ax = open_axes(ax)
    light = len(of) > 300
    size = 14 if light else 26
    order = np.arange(len(of))
    if sure is not None:
        order = np.argsort(-sure[plane.rows], kind="stable")  # doubt is drawn on top
    found = np.unique(of)
    shared = {"s": size, "linewidths": 0.35, "edgecolors": INK, "rasterized": light}
    for k in found:
        own = order[of[order] == k]
        colour: dict[str, Any] = {"color": colour_of(k)}
        if by == "confidence":
            assert sure is not None
            low = min(0.5, float(np.quantile(sure[plane.rows], 0.02)))
            c = sure[plane.rows[own]]
            colour = {"c": c, "cmap": f"{MAP}_r", "vmin": low, "vmax": 1}
        points = ax.scatter(*xy[own].T, marker=marker_of(k), **colour, **shared)
    if by == "confidence":
        assert sure is not None
        more = "min" if sure[plane.rows].min() < points.norm.vmin else "neither"
        bar = ax.figure.colorbar(points, ax=ax, shrink=0.8, pad=0.03, extend=more)
        bar.set_label("confidence")
        bar.outline.set_visible(False)
    _number(ax, xy, of, found)
    ax.set(xlabel=plane.names[0], ylabel=plane.names[1])
    ax.set(xticks=[], yticks=[])
    some = (
        "all" if len(of) == (labels >= 0).sum() else f"{len(of):,} of the"
    ) + f" {count(int((labels >= 0).sum()), 'object')}"
    text = (
        f"Points in a plane ({plane.about}), {some}, "
        + (
            "coloured by confidence"
            if by == "confidence"
            else "with a colour and a sign for each cluster"
        )
        + ". The number of each cluster stands at its middle. Distances in the plane "
        "are not those of the data."
    )
    return close_axes(
        ax,
        "Objects by confidence" if by == "confidence" else "Objects by cluster",
        text,
        ("cluster", "objects drawn", "middle 1", "middle 2", "spread 1", "spread 2"),
        [_about(k, xy[of == k]) for k in found],
    )


def _number(ax: Any, xy: FloatArray, of: Any, found: Any) -> None:
    """Write the number of each cluster at its middle, on white."""
    for k in found[:64]:
        x, y = np.median(xy[of == k], axis=0)
        box = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": INK, "lw": 0.6}
        ax.text(
            x,
            y,
            str(k),
            ha="center",
            va="center",
            fontsize="small",
            fontweight="bold",
            bbox={**box, "alpha": 0.85},
        )


def _about(k: int, xy: FloatArray) -> tuple[Any, ...]:
    scale = max(float(np.abs(xy).max()), 1e-300)  # squares would overflow
    middle, spread = np.median(xy, axis=0), (xy / scale).std(axis=0) * scale
    return (int(k), len(xy), *(float(f"{v:.4g}") for v in (*middle, *spread)))


def length_of(data: Any, name: str = "data") -> int:
    """Return how many objects a table or an ensemble has."""
    if isinstance(data, Ensemble):
        return data.n_samples
    try:
        shape = tuple(getattr(data, "shape", None) or np.shape(data))
    except Exception:  # ragged, or a class of the caller that has no array
        shape = ()
    if len(shape) != 2 or shape[1] < 1:
        raise ValueError(
            f"{name}={shown(data)} has shape {shape} but should be (n_samples, "
            "n_features), or an Ensemble."
        )
    return int(shape[0])


def _rows(data: Any, rows: Objects) -> FloatArray:
    """Return some rows, dense; of sparse data only columns that these rows use."""
    data = to_host(data)
    if hasattr(data, "iloc"):
        data = data.iloc[rows].to_numpy()
    elif hasattr(data, "tocsr"):
        some = data.tocsr()[rows].tocsc()
        used = np.flatnonzero(np.diff(some.indptr))
        data = some[:, used] if len(used) > 2 else some[:, : max(2, some.shape[1])]
        if data.shape[0] * data.shape[1] > 1 << 26:
            spread = np.asarray(data.multiply(data).sum(axis=0)).ravel()
            data = data[:, np.sort(np.argsort(-spread)[: (1 << 26) // len(rows)])]
        data = data.toarray()
    else:
        data = np.asarray(data)[rows]
    try:
        values: FloatArray = np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            "data has cells that are no numbers; leave out the columns of text."
        ) from None
    return values


def _indicators(ens: Ensemble, rows: Objects) -> FloatArray:
    """Return a column for each label of the partitions, weighted."""
    part = ens.subset(rows=rows)
    blocks: list[npt.NDArray[Any]] = []
    for i, k in enumerate(part.n_labels.tolist()):
        codes = part.codes[i]
        blocks.append((codes[:, None] == np.arange(k)) * np.sqrt(part.weights[i]))
    return np.concatenate(blocks, axis=1).astype(np.float64)


def _components(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the first two principal components, and their shares of the variance."""
    centred = values - values.mean(axis=0)
    scale = np.abs(centred).max()
    if scale > 0:
        centred = centred / scale  # squares of large numbers would overflow
    xy, shares = np.zeros((len(values), 2)), np.zeros(2)
    wide = centred.shape[1] > centred.shape[0]
    gram = centred @ centred.T if wide else centred.T @ centred
    power, vectors = np.linalg.eigh(gram)
    total = power.clip(0).sum()
    for c, column in enumerate(np.argsort(-power)[:2]):
        if power[column] <= 1e-12 * max(total, 1e-300):
            break
        vector = vectors[:, column]
        score = vector * np.sqrt(power[column]) if wide else centred @ vector
        xy[:, c] = score * np.sign(score[np.argmax(np.abs(score))]) * scale
        shares[c] = power[column] / total
    return xy, shares
