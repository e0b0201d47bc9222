"""Methods over shards of the objects, on the workers of a cluster.

Every function here has the name and the options of a method, and gives its labels, bit
for bit. The loop runs in one place and sends tables; workers have a range of the
objects each, and send back counts, which add up.
"""

from __future__ import annotations

from gpu_consensus.distributed.communicator import (
    Communicator,
    MpiCommunicator,
    ThreadCommunicator,
    WorkerError,
    in_threads,
)
from gpu_consensus.distributed.run import over_shards
from gpu_consensus.distributed.shard import Range
from gpu_consensus.methods.auto import auto as _auto
from gpu_consensus.methods.cvote import cvote as _cvote
from gpu_consensus.methods.ipc import ipc as _ipc
from gpu_consensus.methods.ipvc import ipvc as _ipvc
from gpu_consensus.methods.ivc import ivc as _ivc
from gpu_consensus.methods.kcc import kcc as _kcc
from gpu_consensus.methods.lce import lce as _lce
from gpu_consensus.methods.lwgp import lwgp as _lwgp
from gpu_consensus.methods.qmi import qmi as _qmi
from gpu_consensus.methods.sec import sec as _sec
from gpu_consensus.methods.usenc import usenc as _usenc

__all__ = [
    "Communicator",
    "MpiCommunicator",
    "Range",
    "ThreadCommunicator",
    "WorkerError",
    "auto",
    "cvote",
    "in_threads",
    "ipc",
    "ipvc",
    "ivc",
    "kcc",
    "lce",
    "lwgp",
    "qmi",
    "sec",
    "usenc",
]

auto = over_shards(_auto)
cvote = over_shards(_cvote)
lwgp = over_shards(_lwgp)
usenc = over_shards(_usenc)
kcc = over_shards(_kcc)
sec = over_shards(_sec)
ivc = over_shards(_ivc)
ipvc = over_shards(_ipvc)
ipc = over_shards(_ipc)
qmi = over_shards(_qmi)
lce = over_shards(_lce)
