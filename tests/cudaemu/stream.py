"""Streams and events: work that is queued, and done when something waits for it.

On a GPU a launch or a copy only joins the queue of its stream. ``config.streams`` says
when the emulator does the work:

- ``at once``: before the call returns. Simple and fast, and blind to a missing wait.
- ``late``: when the host waits for it (``synchronize``, ``get``, ``int(array)``), or
  when work that is waited for waits for its event. Copies come as late as the program
  allows.
- ``copies first``: as ``late``, but streams other than the default one run ahead as far
  as the events that they wait for allow. Copies come as early as the program allows.
- ``kernels first``: the same for the default stream; all others are late.
- ``random``: as ``late``, but now and then any stream goes a step ahead.

An order of events that the program does not forbid may happen on a device, so a program
whose results differ in one of these lacks a wait. All devices of a machine share one
default stream here; the package uses one device at a time.
"""

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import ClassVar

from cudaemu.config import config
from cudaemu.errors import CUDARuntimeError


class Event:
    """A place in a stream's queue, once recorded; waiting for one that is not, is no
    wait at all."""

    def __init__(self, *, disable_timing: bool = False) -> None:
        self.stream: Stream | None = None
        self.position = 0
        self.timed = not disable_timing
        self.moment = 0.0  # in seconds, when the stream came to it

    def record(self, stream: "Stream | None" = None) -> None:
        self.stream = stream or get_current_stream()
        if self.timed:
            self.stream._append(self._note) if deferred() else self._note()
        self.position = self.stream.submitted

    def _note(self) -> None:
        self.moment = time.perf_counter()

    def synchronize(self) -> None:
        if self.stream is not None:
            self.stream._finish(self.position)

    @property
    def done(self) -> bool:
        return self.stream is None or self.stream.finished >= self.position


class Stream:
    _current = threading.local()
    # a stream whose object is gone still does its work: CUDA's does, too
    _busy: ClassVar[set["Stream"]] = set()
    _random = random.Random(0)

    def __init__(self, *, null: bool = False, non_blocking: bool = False) -> None:
        self.null_stream = null
        self.non_blocking = non_blocking
        self.ptr = 0 if null else id(self)
        self.submitted = self.finished = 0
        self._queue: deque[Callable[[], object] | Event] = deque()
        self._stepping = False
        self._before: list[Stream] = []

    def __enter__(self) -> "Stream":
        self._before.append(get_current_stream())
        Stream._current.stream = self
        return self

    def __exit__(self, *_error: object) -> None:
        Stream._current.stream = self._before.pop()

    def synchronize(self) -> None:
        self._finish(self.submitted)

    def wait_event(self, event: Event) -> None:
        if event.stream is not None:
            # the event may be recorded again later
            place = Event(disable_timing=True)
            place.stream, place.position = event.stream, event.position
            self._append(place)

    def _append(self, item: Callable[[], object] | Event) -> None:
        self._queue.append(item)
        self.submitted += 1
        Stream._busy.add(self)

    def _submit(self, work: Callable[[], object]) -> None:
        """Queue work; the default stream and blocking ones wait for each other."""
        if config.streams == "at once":
            self.synchronize()
            work()
            return
        for other in list(Stream._busy):
            blocking = not (self.non_blocking or other.non_blocking)
            if blocking and self.null_stream != other.null_stream:
                event = Event(disable_timing=True)
                event.record(other)
                self.wait_event(event)
        self._append(work)
        _run_ahead()

    def _step(self) -> None:
        """Do the first piece of work, and whatever it waits for before."""
        item = self._queue[0]  # stays there until it is done: nobody may pass it
        self._stepping = True
        try:
            item.synchronize() if isinstance(item, Event) else item()
        finally:
            self._stepping = False
            self._queue.popleft()
            self.finished += 1
            if not self._queue:
                Stream._busy.discard(self)

    def _ready(self) -> bool:
        """Whether the next work can be done without waiting for another stream."""
        if self._stepping or not self._queue:
            return False
        head = self._queue[0]
        return not isinstance(head, Event) or head.done

    def _finish(self, position: int) -> None:
        while self.finished < position:
            self._step()
            _run_ahead()


_DEFAULT = Stream(null=True)


def get_elapsed_time(start: Event, end: Event) -> float:
    """Return milliseconds between two events that the device has passed."""
    if any(not event.timed or event.stream is None for event in (start, end)):
        raise CUDARuntimeError(
            400, "cudaErrorInvalidResourceHandle: invalid resource handle"
        )
    if not (start.done and end.done):
        raise CUDARuntimeError(600, "cudaErrorNotReady: device not ready")
    return 1000 * (end.moment - start.moment)


def get_current_stream() -> Stream:
    return getattr(Stream._current, "stream", _DEFAULT)


def submit(work: Callable[[], object], stream: Stream | None = None) -> None:
    """Queue work on a stream, the current one by default."""
    (stream or get_current_stream())._submit(work)


def deferred() -> bool:
    """Whether work may be done later than it is asked for."""
    return config.streams != "at once"


def synchronize_all() -> None:
    """Finish the work of all streams, as cudaFree and cudaDeviceSynchronize do."""
    while Stream._busy:
        next(iter(Stream._busy)).synchronize()


def abandon() -> None:
    """Forget work that nobody waited for, at the end of a simulated machine."""
    for stream in list(Stream._busy):
        stream.finished = stream.submitted
        stream._queue.clear()
    Stream._busy.clear()
    Stream._random.seed(config.seed)


def _run_ahead() -> None:
    """Let streams do work that nobody waits for yet."""
    if config.streams in ("copies first", "kernels first"):
        ahead = config.streams == "kernels first"  # the default stream, or the others
        for stream in sorted(Stream._busy, key=lambda s: s.ptr):
            while stream.null_stream == ahead and stream._ready():
                stream._step()
    elif config.streams == "random":
        while Stream._random.random() < 0.4:
            able = sorted((s for s in Stream._busy if s._ready()), key=lambda s: s.ptr)
            if not able:
                return
            Stream._random.choice(able)._step()
