"""Time on the device: by its own events, or by the host's clock if they do not work."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gpu_consensus.backends.cupy.launcher import Launcher
from gpu_consensus.backends.cupy.source import Kernel


class Span:
    """A stretch of work on the current stream."""

    def __init__(self, xp: Any, by_events: bool) -> None:
        self._xp, self._by_events = xp, by_events
        self._marks: list[Any] = []

    def mark(self) -> None:
        """Record this place in the stream."""
        if self._by_events:
            event = self._xp.cuda.Event(disable_timing=False)
            event.record()
            self._marks.append(event)
        else:
            self._xp.cuda.get_current_stream().synchronize()
            self._marks.append(time.perf_counter())

    def seconds(self) -> float:
        """Return how long it took; waits for its end."""
        begin, end = self._marks
        if not self._by_events:
            return float(end - begin)
        end.synchronize()
        return float(self._xp.cuda.get_elapsed_time(begin, end)) / 1000


class Clock:
    """Times work on the current device.

    Attributes
    ----------
    how : str
        By which clock.
    """

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        self.by_events = True
        self.by_events = self._events_tell()
        self.how = (
            "CUDA events"
            if self.by_events
            else "the host's clock with a wait before and after, because CUDA events "
            "tell no time here"
        )

    def _events_tell(self) -> bool:
        array = self.xp.zeros(1 << 22, np.uint8)
        with self.span() as span:
            array += 1
        return span.seconds() > 0

    @contextmanager
    def span(self) -> Iterator[Span]:
        """Time what is launched within."""
        span = Span(self.xp, self.by_events)
        span.mark()
        yield span
        span.mark()

    def median(self, work: Callable[[], Any], repeats: int) -> float:
        """Return the median of the seconds that work takes, after one warm run."""
        work()
        spans = []
        for _ in range(repeats):
            with self.span() as span:
                work()
            spans.append(span)
        return statistics.median(span.seconds() for span in spans)

    def waited(self, work: Callable[[], Any], repeats: int) -> float:
        """As ``median``, by the host's clock, until the device is done."""
        stream, times = self.xp.cuda.get_current_stream(), []
        for _ in range(repeats + 1):
            stream.synchronize()
            began = time.perf_counter()
            work()
            stream.synchronize()
            times.append(time.perf_counter() - began)
        return statistics.median(times[1:])


class TimedLauncher(Launcher):
    """A launcher that times every kernel by itself."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._spans: list[tuple[str, Span]] = []

    def launch(
        self,
        kernel: Kernel,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        arguments: tuple[Any, ...],
        shared: int = 0,
    ) -> None:
        """See :meth:`Launcher.launch`."""
        with self._clock.span() as span:
            super().launch(kernel, grid, block, arguments, shared)
        self._spans.append((kernel.name, span))

    def take(self, name: str) -> tuple[float, int]:
        """Return seconds and launches of a kernel since the last call of this."""
        times = [span.seconds() for kernel, span in self._spans if kernel == name]
        self._spans.clear()
        return sum(times), len(times)
