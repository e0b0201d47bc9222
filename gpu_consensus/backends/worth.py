"""Whether "auto" should start a device for this much work.

Labels are the same everywhere, so a wrong guess costs seconds and nothing else. The
numbers are round on purpose. Those of the CPU were measured (``docs/speed.md``); those
of devices were not, since no device has run this yet: they are the bandwidths of data
sheets, less a wide margin. ``gpu-consensus accept`` measures them all on a device.
"""

from __future__ import annotations

COLD_START = 3.0
"""Seconds until a device is at work in a new process: CuPy is loaded, a context made,
the kernels of a fit are compiled. With kernels kept on disk it is about one; a
container without its cache folder pays all of it."""
TRANSFER = 5e9
"""Bytes per second from the host's memory to a device: PCIe 3 without pinned memory."""
PASSES = 10
"""Iterations of a usual fit; each looks up n r K n_init entries of a table."""
CPU_RATE = 5e10
"""Lookups per second of whole fits on a usual workstation: 4e10 on two cores here, and
more cores soon wait for memory."""
DEVICE_RATE = 5e11
"""Lookups per second of whole fits: a fifth of what the shared memory of a small
device (L4) can deliver."""


def device_pays(lookups: int, nbytes: int) -> bool:
    """Whether a device is done before the CPU, from codes on the host and a cold start.

    Parameters
    ----------
    lookups : int
        n r K n_init.
    nbytes : int
        Size of the codes.

    Examples
    --------
    One million objects, 100 partitions and 10 starts of 10 clusters take the CPU some
    two seconds; ten million take it twenty.

    >>> [device_pays(100 * n * 10 * 10, 100 * n) for n in (150, 10**6, 10**7)]
    [False, False, True]
    """
    total = float(PASSES * lookups)
    device = COLD_START + nbytes / TRANSFER + total / DEVICE_RATE
    return device < total / CPU_RATE
