"""Where arrays live: only this package knows.

Algorithms are written once, above :class:`~gpu_consensus.backends.protocol.Backend`.
"""

from gpu_consensus.backends.availability import (
    BackendError,
    require_device,
    why_no_device,
    why_not_imported,
    why_unavailable,
)
from gpu_consensus.backends.choose import MEMBERS, NAMES, choose_backend

__all__ = [
    "MEMBERS",
    "NAMES",
    "BackendError",
    "choose_backend",
    "require_device",
    "why_no_device",
    "why_not_imported",
    "why_unavailable",
]
