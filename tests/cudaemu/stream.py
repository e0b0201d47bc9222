"""Streams and events without anything to wait for: all work here is synchronous."""

import threading
import time


class Event:
    def __init__(
        self,
        block: bool = False,
        disable_timing: bool = False,
        interprocess: bool = False,
    ) -> None:
        self.time: float | None = None
        self.done = True

    def record(self, stream: "Stream | None" = None) -> None:
        self.time = time.perf_counter()

    def synchronize(self) -> None:
        pass


def get_elapsed_time(start: Event, end: Event) -> float:
    """Return milliseconds between two recorded events."""
    if start.time is None or end.time is None:
        raise RuntimeError("cudaErrorInvalidResourceHandle: an event was not recorded.")
    return (end.time - start.time) * 1e3


class Stream:
    null: "Stream"
    _current = threading.local()

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False
    ) -> None:
        self.null_stream = null
        self.non_blocking = non_blocking
        self.ptr = 0 if null else id(self)
        self.done = True
        self._before: list[Stream] = []

    def __enter__(self) -> "Stream":
        self._before.append(get_current_stream())
        return self.use()

    def __exit__(self, *_error: object) -> None:
        self._before.pop().use()

    def use(self) -> "Stream":
        Stream._current.stream = self
        return self

    def synchronize(self) -> None:
        pass

    def record(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        pass


Stream.null = Stream(null=True)


def get_current_stream(device_id: int | None = None) -> Stream:
    return getattr(Stream._current, "stream", Stream.null)
