"""What a report tells: words, numbers and pictures, before they become a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.plot.given import codes_of, ensemble_of
from gpu_consensus.plot.style import clean, count
from gpu_consensus.report import facts, words
from gpu_consensus.report.figures import Picture, draw_all
from gpu_consensus.report.given import given_consensus, names_of
from gpu_consensus.report.origin import machine, versions, what_was_read
from gpu_consensus.result import Consensus
from gpu_consensus.util.arrays import to_host


class Asked(NamedTuple):
    """What the caller says of the call."""

    title: str | None
    command: str | None
    source: Any
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Story:
    """All that a page shows; text is as it was given, and not yet escaped."""

    title: str
    lead: str
    tiles: list[tuple[str, str]]
    asked: list[str]
    settings: list[tuple[str, str]]
    command: str
    about_command: str
    ensemble: facts.Table
    clusters: facts.Table
    doubt: list[str]
    least_certain: facts.Table
    number: list[str]
    scores: facts.Table | None
    pictures: dict[str, list[Picture]]
    left_out: list[str]
    versions: facts.Table
    source: facts.Table
    not_shown: list[str] = field(default_factory=list)


def tell(
    result: Any,
    ensemble: Any,
    X: Any,
    known: Any,
    names: Any,
    selection: Any,
    by_k: Mapping[int, Any] | None,
    asked: Asked,
    max_objects: int,
    random_state: Any,
) -> Story:
    """Gather what a report tells."""
    ens = _ensemble(result, ensemble)
    res, label_names = given_consensus(result, ens)
    called = names_of(names, ens.n_samples)
    classes = _known(known, ens.n_samples)
    chosen = res.details.get("selection") if selection is None else selection
    drawn = draw_all(res, ens, X, known, chosen, by_k, max_objects, random_state)
    ranks = facts.rank_doubt(res, called, classes)
    n = ens.n_samples
    sure = res.confidence[to_host(res.labels) >= 0]
    lead = words.lead(res, ens)
    tiles = [
        ("clusters", str(res.n_clusters)),
        ("objects", f"{n:,}"),
        ("partitions", f"{ens.n_partitions:,}"),
        ("mean confidence", f"{sure.mean():.3f}"),
    ]
    scores = None if classes is None else facts.scores(res, classes[0])
    return Story(
        title=clean(asked.title or _title(ens), 120),
        lead=lead,
        tiles=tiles,
        asked=words.asked(res, ens, asked.settings, chosen),
        settings=[
            (clean(key, 60), _value(value)) for key, value in asked.settings.items()
        ],
        command=clean(asked.command, 4_000, lines=True) if asked.command else "",
        about_command=words.about_command(asked.command, asked.settings),
        ensemble=facts.about_ensemble(ens, drawn.alike),
        clusters=facts.about_clusters(res, label_names, classes, chosen),
        doubt=words.doubt(res, drawn.alike),
        least_certain=ranks,
        number=words.number(res, chosen, drawn.tree_objects, n),
        scores=scores,
        pictures=drawn.pictures,
        left_out=drawn.left_out,
        versions=facts.Table("Versions", ("what", "version"), versions(res)),
        source=facts.Table(
            "Input", ("what", "bytes", "SHA-256"), what_was_read(asked.source, ens)
        ),
        not_shown=[*words.not_shown(res, ens, drawn, chosen, known), machine(res)],
    )


def _value(value: Any) -> str:
    """Return a setting in words."""
    if value is None or value == []:
        return "not given"
    return clean(value, 200)


def _title(ens: Ensemble) -> str:
    return f"Consensus of {count(ens.n_partitions, 'partition')}"


def _ensemble(result: Any, ensemble: Any) -> Ensemble:
    """Return the ensemble that was given, or that the result remembers."""
    if ensemble is None and isinstance(result, Consensus):
        ensemble = result.details.get("ensemble")
        if ensemble is None and result.centroids is not None:
            ensemble = result.centroids.ensemble
    if ensemble is None:
        raise TypeError(
            "ensemble=None, and the result remembers none; pass the partitions that "
            "it was made from as ensemble."
        )
    return ensemble_of(ensemble)


def _known(
    known: Any, n_samples: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]] | None:
    if known is None:
        return None
    codes, classes = codes_of("known", known)
    if len(codes) != n_samples:
        raise ValueError(
            f"known has {len(codes)} labels but there are {n_samples} objects; give "
            "one label per object."
        )
    if not (codes >= 0).any():
        raise ValueError("known has no label at all; leave it out.")
    return codes, classes
