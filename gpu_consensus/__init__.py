"""Consensus clustering: many clusterings in, the one that agrees with them best out."""

from typing import TYPE_CHECKING, Any

from gpu_consensus import metrics
from gpu_consensus.doctor import doctor
from gpu_consensus.ensemble import Ensemble
from gpu_consensus.generate import drop_labels, generate_partitions
from gpu_consensus.kcc import kcc
from gpu_consensus.least_squares import least_squares
from gpu_consensus.methods import METHODS, consensus
from gpu_consensus.result import Consensus, ConvergenceWarning
from gpu_consensus.sec import sec
from gpu_consensus.utilities import Utility
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
    "consensus",
    "doctor",
    "drop_labels",
    "generate_partitions",
    "ipvc",
    "ivc",
    "kcc",
    "least_squares",
    "metrics",
    "sec",
]


def __getattr__(name: str) -> Any:
    """Load the estimator on first use: scikit-learn takes a second to import."""
    if name == "ConsensusClustering":
        from gpu_consensus.estimator import ConsensusClustering

        return ConsensusClustering
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
