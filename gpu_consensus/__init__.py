"""Consensus clustering: many clusterings in, the one that agrees with them best out."""

from typing import TYPE_CHECKING, Any

from gpu_consensus import metrics
from gpu_consensus.best import best
from gpu_consensus.correspondence import correspondence
from gpu_consensus.cspa import cspa
from gpu_consensus.cvote import cvote
from gpu_consensus.doctor import doctor
from gpu_consensus.em import em
from gpu_consensus.ensemble import Ensemble
from gpu_consensus.furthest import furthest
from gpu_consensus.fusion_transfer import fusion_transfer
from gpu_consensus.generate import drop_labels, generate_partitions
from gpu_consensus.hac import hac
from gpu_consensus.hbgf import hbgf
from gpu_consensus.hgpa import hgpa
from gpu_consensus.ipc import ipc
from gpu_consensus.kcc import kcc
from gpu_consensus.lambda_consensus import lambda_consensus
from gpu_consensus.least_squares import least_squares
from gpu_consensus.mcla import mcla
from gpu_consensus.methods import METHODS, consensus
from gpu_consensus.qmi import qmi
from gpu_consensus.result import Consensus, ConvergenceWarning
from gpu_consensus.sec import sec
from gpu_consensus.supra import supra
from gpu_consensus.utilities import Utility
from gpu_consensus.vote import borda, vote
from gpu_consensus.voting import ipvc, ivc

if TYPE_CHECKING:
    from gpu_consensus.estimator import ConsensusClustering

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Consensus",
    "ConsensusClustering",
    "ConvergenceWarning",
    "Ensemble",
    "Utility",
    "best",
    "borda",
    "consensus",
    "correspondence",
    "cspa",
    "cvote",
    "doctor",
    "drop_labels",
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
    "least_squares",
    "mcla",
    "metrics",
    "qmi",
    "sec",
    "supra",
    "vote",
]


def __getattr__(name: str) -> Any:
    """Load the estimator on first use: scikit-learn takes a second to import."""
    if name == "ConsensusClustering":
        from gpu_consensus.estimator import ConsensusClustering

        return ConsensusClustering
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
