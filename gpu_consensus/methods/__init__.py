"""All methods by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpu_consensus.methods.auto import auto
from gpu_consensus.methods.best import best
from gpu_consensus.methods.borda import borda
from gpu_consensus.methods.correspondence import correspondence
from gpu_consensus.methods.cspa import cspa
from gpu_consensus.methods.cvote import cvote
from gpu_consensus.methods.ecpcs import ecpcs
from gpu_consensus.methods.em import em
from gpu_consensus.methods.furthest import furthest
from gpu_consensus.methods.fusion_transfer import fusion_transfer
from gpu_consensus.methods.hac import hac
from gpu_consensus.methods.hbgf import hbgf
from gpu_consensus.methods.hgpa import hgpa
from gpu_consensus.methods.ipc import ipc
from gpu_consensus.methods.ipvc import ipvc
from gpu_consensus.methods.ivc import ivc
from gpu_consensus.methods.kcc import kcc
from gpu_consensus.methods.lce import lce
from gpu_consensus.methods.least_squares import least_squares
from gpu_consensus.methods.lwea import lwea
from gpu_consensus.methods.lwgp import lwgp
from gpu_consensus.methods.mcla import mcla
from gpu_consensus.methods.qmi import qmi
from gpu_consensus.methods.sec import sec
from gpu_consensus.methods.supra import supra
from gpu_consensus.methods.usenc import usenc
from gpu_consensus.methods.vote import vote
from gpu_consensus.result import Consensus
from gpu_consensus.util.checks import check_choice
from gpu_consensus.util.options import check_options, finds_n_clusters, option_names

METHODS: dict[str, Callable[..., Consensus]] = {
    "auto": auto,
    "kcc": kcc,
    "sec": sec,
    "ivc": ivc,
    "ipvc": ipvc,
    "furthest": furthest,
    "hac": hac,
    "correspondence": correspondence,
    "vote": vote,
    "cvote": cvote,
    "borda": borda,
    "best": best,
    "fusion_transfer": fusion_transfer,
    "ipc": ipc,
    "qmi": qmi,
    "em": em,
    "cspa": cspa,
    "hgpa": hgpa,
    "mcla": mcla,
    "hbgf": hbgf,
    "supra": supra,
    "least_squares": least_squares,
    "lwgp": lwgp,
    "usenc": usenc,
    "lce": lce,
    "ecpcs": ecpcs,
    "lwea": lwea,
}
"""The label methods: an ensemble in, a consensus out."""

FINDERS = frozenset({"best", "fusion_transfer", "least_squares"})
"""The methods whose nature it is to find the number of clusters.

Some others do not need it, but do better with it: without it, methods that vote take
the largest number of labels in a partition.
"""


def consensus(
    ensemble: Any,
    n_clusters: int | None = None,
    method: str = "auto",
    **options: Any,
) -> Consensus:
    """Find a consensus by the name of a method.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The basic partitions.
    n_clusters : int, optional
        Clusters of the consensus; only methods that find their number do without.
    method : str, default "auto"
        One of ``gpc.METHODS``; "auto" runs several of them and keeps the answer that
        the partitions explain best.
    **options
        Options of the method.

    Examples
    --------
    >>> import numpy as np
    >>> import gpu_consensus as gpc
    >>> labels = np.array([[0, 0], [0, 0], [1, 1], [1, 1]])
    >>> gpc.consensus(labels, 2, "kcc", utility="c", random_state=0).n_clusters
    2
    """
    check_choice("method", method, METHODS)
    function = METHODS[method]
    check_options(method, function, options)
    if n_clusters is None:
        if not finds_n_clusters(function):
            raise TypeError(
                f"n_clusters=None should be an integer >= 1; method {method!r} does "
                "not find the number of clusters."
            )
        return function(ensemble, **options)
    if "n_clusters" not in option_names(function):
        raise TypeError(
            f"n_clusters={n_clusters!r} is of no use to method {method!r}, which finds "
            "the number of clusters; leave it out."
        )
    return function(ensemble, n_clusters, **options)
