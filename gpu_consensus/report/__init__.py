"""A page on a consensus that a person can read, keep and send; one file of HTML."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gpu_consensus.ensemble.storage import write_atomic
from gpu_consensus.util.checks import check_int
from gpu_consensus.util.options import as_options
from gpu_consensus.util.paths import check_path


def report(
    result: Any,
    path: str | os.PathLike[str],
    *,
    ensemble: Any = None,
    X: Any = None,
    known: Any = None,
    names: Any = None,
    selection: Any = None,
    by_k: Mapping[int, Any] | None = None,
    title: str | None = None,
    command: str | None = None,
    source: Iterable[str | os.PathLike[str]] | str | os.PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    max_objects: int = 1_500,
    random_state: Any = 0,
) -> Path:
    """Write a report on a consensus: the answer, how sure it is, and how it was made.

    One HTML file that needs nothing else: pictures are drawn within it, there is no
    script, and it asks no server for anything. Objects are sampled for pictures; the
    n x n matrix never exists. It needs matplotlib and jinja2:
    ``pip install "gpu-consensus[report]"``.

    Parameters
    ----------
    result : Consensus, or labels of shape (n_samples,)
        What to report on.
    path : path
        The file to write, ending in .html.
    ensemble : Ensemble or array of shape (n_samples, n_partitions), optional
        The basic partitions; those that the result remembers by default.
    X : array, DataFrame or sparse of shape (n_samples, n_features), optional
        Features, or two columns of coordinates, to draw the objects by. Without them
        they are drawn by their labels.
    known : array_like of shape (n_samples,), optional
        Labels known otherwise, to compare with; missing ones are left out.
    names : array_like of shape (n_samples,), optional
        Of the objects; their numbers from 0 by default.
    selection : Selection, optional
        How the number of clusters was chosen; what the result remembers by default.
    by_k : mapping of int to Consensus or labels, optional
        Clusterings of all objects with other numbers of clusters. By default
        :func:`kcc` makes some, on at most 2,000 objects.
    title : str, optional
    command : str, optional
        The command, or the code, that repeats this.
    source : path or several, optional
        The files that were read; their SHA-256 is told. Without them it is that of the
        labels of the ensemble.
    settings : mapping, optional
        What was asked, by name.
    max_objects : int, default 1500
        Objects in the heat map, at most.
    random_state : int, Generator, RandomState, SeedSequence, default 0
        Draws objects and pairs.

    Returns
    -------
    Path
        The file that was written.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> import tempfile
    >>> ens = gpc.Ensemble.from_partitions([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    >>> res = gpc.kcc(ens, 2, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = gpc.report(res, f"{folder}/report.html").read_text("utf-8")
    >>> "2 clusters of 4 objects" in page
    True
    """
    target = check_path("path", path)
    check_target("path=", target)
    max_objects = check_int("max_objects", max_objects, 1)
    check_installed()
    from gpu_consensus.report.page import render
    from gpu_consensus.report.story import Asked, tell

    asked = Asked(title, command, source, as_options("settings", settings))
    story = tell(
        result,
        ensemble,
        X,
        known,
        names,
        selection,
        by_k,
        asked,
        max_objects,
        random_state,
    )
    text = render(story)
    write_atomic(target, lambda file: file.write(text.encode("utf-8")))
    return target


def check_installed() -> None:
    """Say what a report lacks, best before the work."""
    from gpu_consensus.plot.picture import require

    for name in ("matplotlib", "jinja2"):
        require(name, "a report")


def check_target(option: str, path: Path) -> None:
    """Raise an error if ``path`` is no name for a report."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{option}{str(path)!r} should end in .html.")
    if path.is_dir():
        raise IsADirectoryError(
            f"{option}{str(path)!r} is a folder; choose the name of a file."
        )
