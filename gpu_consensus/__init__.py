"""Consensus clustering: many clusterings in, the one that agrees with them best out."""

import importlib
from typing import TYPE_CHECKING, Any

from gpu_consensus import metrics
from gpu_consensus.cluster import cluster
from gpu_consensus.doctor import doctor
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.generate.generate_partitions import drop_labels, generate_partitions
from gpu_consensus.loop.utilities import Utility
from gpu_consensus.methods import METHODS, consensus
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
from gpu_consensus.methods.lambda_consensus import lambda_consensus
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
from gpu_consensus.report import report
from gpu_consensus.result import Consensus, ConvergenceWarning
from gpu_consensus.select.result import Selection
from gpu_consensus.select.select_n_clusters import select_n_clusters

if TYPE_CHECKING:
    from gpu_consensus import anndata, distributed, plot
    from gpu_consensus.estimator import ConsensusClustering

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Consensus",
    "ConsensusClustering",
    "ConvergenceWarning",
    "Ensemble",
    "Selection",
    "Utility",
    "anndata",
    "auto",
    "best",
    "borda",
    "cluster",
    "consensus",
    "correspondence",
    "cspa",
    "cvote",
    "distributed",
    "doctor",
    "drop_labels",
    "ecpcs",
    "em",
    "furthest",
    "fusion_transfer",
    "generate_partitions",
    "hac",
    "hbgf",
    "hgpa",
    "ipc",
    "ipvc",
    "ivc",
    "kcc",
    "lambda_consensus",
    "lce",
    "least_squares",
    "lwea",
    "lwgp",
    "mcla",
    "metrics",
    "plot",
    "qmi",
    "report",
    "sec",
    "select_n_clusters",
    "supra",
    "usenc",
    "vote",
]


def __getattr__(name: str) -> Any:
    """Load on first use what takes its time, or what few need."""
    if name == "ConsensusClustering":
        from gpu_consensus.estimator import ConsensusClustering

        return ConsensusClustering
    if name in ("anndata", "distributed", "plot"):
        return importlib.import_module(f"gpu_consensus.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
