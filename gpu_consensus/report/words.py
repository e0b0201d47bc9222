"""The sentences of a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.plot.similarity import Alike
from gpu_consensus.plot.style import clean, count
from gpu_consensus.result import Consensus
from gpu_consensus.util.arrays import to_host


def lead(res: Consensus, ens: Ensemble) -> str:
    """Say the answer in one sentence."""
    labels = to_host(res.labels)
    sure = res.confidence[labels >= 0]
    unclear = int((sure < 0.5).sum())
    doubt = (
        f"{count(unclear, 'object')} ({unclear / len(sure):.1%}) "
        + ("is" if unclear == 1 else "are")
        + " claimed more by other clusters together than by their own"
        if unclear
        else "no object is claimed more by other clusters together than by its own"
    )
    return (
        f"{count(res.n_clusters, 'cluster')} of {count(len(labels), 'object')}, found "
        f"by {clean(res.method, 60)} in {count(ens.n_partitions, 'partition')}; "
        f"the mean confidence is {sure.mean():.3f}, and {doubt}."
    )


def asked(
    res: Consensus, ens: Ensemble, settings: Mapping[str, Any], selection: Any
) -> list[str]:
    """Say what was asked for."""
    how_many = (
        f"{count(res.n_clusters, 'cluster')} came out"
        if selection is None
        else "their number was to be chosen"
    )
    given = "Settings are listed below." if settings else ""
    return [
        f"The clustering of {count(ens.n_samples, 'object')} that agrees best with "
        f"{count(ens.n_partitions, 'partition')} of them; {how_many}. The method is "
        f"{clean(res.method, 60)}. {given}".strip()
    ]


def about_command(command: str | None, settings: Mapping[str, Any]) -> str:
    """Say whether the command repeats the result."""
    if not command:
        return (
            "The call was not recorded; pass it to gpc.report as command, so that "
            "others can repeat it."
        )
    if any(settings.get(name, 0) is None for name in ("seed", "random_state")):
        return (
            "No seed was given: the same command may give other labels. Add --seed 0 "
            "to get the same ones each time."
        )
    return "The same command gives the same labels."


def doubt(res: Consensus, alike: Alike) -> list[str]:
    """Say how sure the answer is."""
    labels = to_host(res.labels)
    sure = res.confidence[labels >= 0]
    low, middle = np.quantile(sure, [0.05, 0.5])
    lines = [
        "Confidence is the share of an object's claims that its own cluster has: how "
        "common its labels are in that cluster, compared with all clusters. 1 means "
        f"that no other cluster has such labels. The median is {middle:.3f}; 5% of the "
        f"objects are below {low:.3f}."
    ]
    if alike.with_result is not None:
        near = np.nan_to_num(alike.with_result)
        lines.append(
            "The partitions share a normalised mutual information of "
            f"{near.mean():.3f} with the answer on average, from {near.min():.3f} to "
            f"{near.max():.3f}."
        )
    missing = int((labels < 0).sum())
    if missing:
        lines.append(
            f"{count(missing, 'object')} without any label got the label -1 and are in "
            "no cluster."
        )
    if not res.converged:
        lines.append("The method was stopped before it had converged.")
    return lines


def number(
    res: Consensus, selection: Any, tree_objects: int | None, n_samples: int
) -> list[str]:
    """Say why there are so many clusters."""
    if selection is not None:
        lines = [clean(selection.reason, 1_000)]
        others = ", ".join(str(int(k)) for k in selection.alternatives)
        if others:
            lines.append(f"Nearly as good: {others} clusters.")
    else:
        lines = [
            f"That there are {res.n_clusters} clusters was asked for, or follows from "
            "the method; this report has not tested it. Choosing by the data is what "
            'n_clusters="auto" is for.'
        ]
    if tree_objects is not None and tree_objects < n_samples:
        lines.append(
            "The tree shows clusterings with other numbers of clusters, made by kcc "
            f"on {tree_objects:,} objects that were drawn."
        )
    return lines


def not_shown(
    res: Consensus, ens: Ensemble, drawn: Any, selection: Any, known: Any
) -> list[str]:
    """Say what must not be read into the report."""
    lines = [
        f"That there are clusters at all. A consensus of {res.n_clusters} clusters is "
        "found in any data, also where there is nothing to find; partitions that all "
        "make the same mistake agree too.",
        "The probability that a label is right. Confidence says how much the "
        "partitions agree on an object, and no more.",
        "Distances. Blocks in the heat map are ordered by the clusters themselves, and "
        "a plane shows a part of what many features say.",
    ]
    if selection is not None:
        lines.append(
            "That no other number of clusters is right: p is about having clusters or "
            "not"
            + (
                ", and was computed on a sample of the objects."
                if "sample" in str(getattr(selection, "reason", ""))
                else "."
            )
        )
    if known is not None:
        lines.append(
            "That the known labels are the right clusters: they may follow another "
            "question than the data do."
        )
    if drawn.sampled:
        lines.append(f"All objects: {'; '.join(drawn.sampled)}.")
    return lines
