"""Codes larger than device memory, copied to the device range by range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends.device_errors import is_out_of_memory
from gpu_consensus.backends.device_memory import DeviceMemoryWarning, for_fewer
from gpu_consensus.backends.profiling import stage
from gpu_consensus.backends.protocol import Codes
from gpu_consensus.util.arrays import size_text
from gpu_consensus.util.warn import warn

LARGE = 64 << 20
"""Bytes of an array from which it goes to the device without a pinned copy."""
ALIGNED = 16
"""Rows of codes begin at multiples of so many codes: kernels load several at once."""
MOST_PINNED = 256 << 20
"""Largest pinned buffer in bytes; CuPy rounds sizes up to a power of two."""


def upload(xp: Any, host: npt.NDArray[Any]) -> Any:
    """Copy a large array to the device.

    ``cupy.asarray`` would first copy all of it to pinned memory, and keep that. Rows
    that are not contiguous on the host are made so one by one.
    """
    there = xp.empty(host.shape, host.dtype)
    by_row = host.ndim > 1 and not host.flags.c_contiguous
    _copy(xp, zip(there, host, strict=True) if by_row else [(there, host)])
    return there


def upload_codes(xp: Any, host: Codes) -> Any:
    """Copy codes to the device, into rows that are aligned."""
    n_rows, n_samples = host.shape
    wide = n_rows, -(-n_samples // ALIGNED) * ALIGNED
    if wide == host.shape:
        return upload(xp, host)
    if host.nbytes < LARGE:  # one copy
        padded = np.zeros(wide, host.dtype)
        padded[:, :n_samples] = host
        return upload(xp, padded)[:, :n_samples]
    there = xp.empty(wide, host.dtype)[:, :n_samples]
    _copy(xp, zip(there, host, strict=True))
    return there


def _copy(xp: Any, pairs: Iterable[tuple[Any, npt.NDArray[Any]]]) -> None:
    stream = xp.cuda.get_current_stream()
    for there, here in pairs:
        whole = np.ascontiguousarray(here)
        there.set(whole)
        stream.synchronize()  # the copy may read it until then, and CuPy does not wait


def aligned(step: int) -> int:
    """Return so many objects, or a few less, that ranges of them begin aligned.

    Of small ranges none would be much quicker.
    """
    return step if step < 64 * ALIGNED else step // ALIGNED * ALIGNED


class StreamedCodes:
    """Codes on the host, copied to the device in ranges through two pinned buffers.

    Where the host has no pinned memory left, ordinary memory is used.

    While the device works on one range, the next is on its way. The buffers take at
    most twice ``MOST_PINNED`` bytes of the host, 512 MiB. CuPy's pool keeps them, and
    also smaller ones of earlier steps, two for each power of two: in all less than
    twice as much.

    Parameters
    ----------
    xp : module
        cupy.
    host : ndarray of shape (r, n)
        The codes, in memory or mapped from disk.
    """

    def __init__(self, xp: Any, host: Codes) -> None:
        self.xp = xp
        self.host = host
        self.shape = host.shape
        self._has_pinned_memory = True

    def __getitem__(self, partitions: slice) -> StreamedCodes:
        """Return the codes of some partitions, streamed in the same way."""
        part = StreamedCodes(self.xp, self.host[partitions])
        part._has_pinned_memory = self._has_pinned_memory
        return part

    def blocks(self, step: int, scratch: int = 0) -> Iterator[tuple[slice, Codes]]:
        """Yield ranges of at most ``step`` objects with their codes on the device.

        Parameters
        ----------
        step : int
            Objects in a range; fewer if a pinned buffer would pass ``MOST_PINNED``, or
            if there is no memory for so many.
        scratch : int, default 0
            Bytes per object that the caller will need besides the codes.
        """
        cuda = self.xp.cuda
        n_samples = self.shape[1]
        most = max(1, MOST_PINNED // (self.shape[0] * self.host.itemsize))
        (pinned, device), step = for_fewer(
            self.xp,
            lambda n_rows: self._buffers(n_rows, scratch),
            aligned(min(step, most, n_samples)),
        )
        arrived = [cuda.Event(disable_timing=True) for _ in range(2)]
        used = [cuda.Event(disable_timing=True) for _ in range(2)]
        copies = cuda.Stream(non_blocking=True)
        ranges = [
            slice(begin, min(begin + step, n_samples))
            for begin in range(0, n_samples, step)
        ]

        def send(number: int) -> None:
            """Start the copy of one range into its buffer."""
            side, rows = number % 2, ranges[number]
            if number >= 2:
                arrived[side].synchronize()  # its pinned buffer is free again
                copies.wait_event(used[side])  # and its device buffer
            with stage("stream"):
                here = pinned[side][:, : rows.stop - rows.start]
                np.copyto(here, self.host[:, rows])
                device[side].set(pinned[side], stream=copies)
            arrived[side].record(copies)

        # CuPy hands out device memory again in the order of the current stream, which
        # the stream of copies does not follow by itself
        ready = cuda.Event(disable_timing=True)
        ready.record(cuda.get_current_stream())
        copies.wait_event(ready)
        try:
            send(0)
            for number, rows in enumerate(ranges):
                if number + 1 < len(ranges):
                    send(number + 1)
                side, here = number % 2, cuda.get_current_stream()
                here.wait_event(arrived[side])
                yield rows, device[side][:, : rows.stop - rows.start]
                used[side].record(here)
        finally:  # also when the caller stops early: no copy may outlive its buffers
            copies.synchronize()

    def _buffers(self, n_rows: int, scratch: int) -> tuple[list[Codes], list[Any]]:
        """Return two buffers on the host and two on the device."""
        shape, dtype = (self.shape[0], n_rows), self.host.dtype
        device = [self.xp.empty(shape, dtype) for _ in range(2)]
        self.xp.empty(n_rows * scratch, np.uint8)  # CuPy keeps it for the caller
        pinned = self._pinned_buffers(shape, dtype) if self._has_pinned_memory else None
        return pinned or [np.empty(shape, dtype) for _ in range(2)], device

    def _pinned_buffers(self, shape: tuple[int, int], dtype: Any) -> list[Codes] | None:
        """Return two pinned buffers, or None where the host has no such memory left.

        WSL2 and containers with a limit on locked memory have little.
        """
        import cupyx

        try:
            return [cupyx.empty_pinned(shape, dtype=dtype) for _ in range(2)]
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        self._has_pinned_memory = False
        size = shape[0] * shape[1] * self.host.itemsize
        warn(
            f"the host has no pinned memory left for two buffers of {size_text(size)}; "
            "going on with ordinary memory, from which copies are slower.",
            DeviceMemoryWarning,
        )
        return None
