"""Emulated devices whose allocations fail when a test says so."""

import contextlib
import re
import traceback
import warnings

import numpy as np

from gpu_consensus.backends.device_memory import DeviceMemoryError, DeviceMemoryWarning


@contextlib.contextmanager
def failing(cupy, fails):
    """Let the allocations fail of which ``fails(number, size)`` is true."""
    device = cupy.machine.device()
    device.n_asked, device.fails = 0, fails
    try:
        yield device
    finally:
        device.fails = lambda number, nbytes: False


def outcomes(cupy, work, first=1, most=40):
    """Do the work with one allocation failing, each time another from the first on.

    No more than ``most`` of them, as evenly as can be, the last among them: a search
    makes hundreds.

    An outcome is "same", "warned" (and the same), "clear" for our own error, or the
    place in the package where another error of memory came from.
    """
    with failing(cupy, lambda number, nbytes: False) as device:
        work()
        n_asked = device.n_asked
    ended = []
    numbers = range(first, n_asked + 1)
    places = {
        round(at) for at in np.linspace(0, len(numbers) - 1, min(most, len(numbers)))
    }
    for number in (numbers[place] for place in sorted(places) if place >= 0):
        with (
            failing(cupy, lambda asked, nbytes, one=number: asked == one),
            warnings.catch_warnings(record=True) as said,
        ):
            warnings.simplefilter("always")
            try:
                work()
            except DeviceMemoryError as error:
                cured = re.search(
                    "; (lower n_init|lower n_clu|set memory_limit|ask for f|use back)",
                    str(error),
                )
                ended.append("clear" if cured else str(error))
            except MemoryError as error:
                files = [
                    frame.filename
                    for frame in traceback.extract_tb(error.__traceback__)
                ]
                ended.append([name for name in files if "/gpu_consensus/" in name][-1])
            else:
                kinds = {warning.category for warning in said}
                assert kinds <= {DeviceMemoryWarning}
                ended.append("warned" if kinds else "same")
    return ended
