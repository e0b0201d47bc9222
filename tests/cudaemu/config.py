"""How kernels run: one object, changed for the length of a ``with`` block."""

import contextlib
import dataclasses
import os
from collections.abc import Iterator

MODES = ("fast", "asan", "check")
ORDERS = ("forward", "reverse", "random")
STREAMS = ("at once", "late", "copies first", "kernels first", "random")


@dataclasses.dataclass
class Config:
    """Settings that take effect at the next launch."""

    # fast: -O2; asan: address and undefined-behaviour sanitizers, see run_asan; check:
    # races, bounds, alignment and memory traffic
    mode: str = "fast"
    # in which blocks run, and threads within a block take turns
    order: str = "forward"
    seed: int = 1
    # when queued work is done; see stream.py
    streams: str = "at once"
    # chance in percent that a thread gives way before an atomic operation
    preempt: int = 0
    # the byte that fills shared memory and cupy.empty: 0xFF is NaN, -1, or 255
    poison: int = 0xFF
    # CuPy compiles with -ftz=true
    flush_denormals: bool = True
    # seconds of processor time for a launch
    timeout: float = 60.0


config = Config(
    mode=os.environ.get("CUDAEMU_MODE", "fast"),
    streams=os.environ.get("CUDAEMU_STREAMS", "at once"),
)


@contextlib.contextmanager
def configured(**changes: object) -> Iterator[Config]:
    """Change settings, and put them back at the end."""
    before = dataclasses.asdict(config)
    unknown = set(changes) - set(before)
    if unknown:
        raise TypeError(f"unknown settings {sorted(unknown)}; know {sorted(before)}.")
    for name, choices in (("mode", MODES), ("order", ORDERS), ("streams", STREAMS)):
        if changes.get(name, choices[0]) not in choices:
            raise ValueError(f"{name}={changes[name]!r} should be one of {choices}.")
    for name, value in changes.items():
        setattr(config, name, value)
    try:
        yield config
    finally:
        for name, value in before.items():
            setattr(config, name, value)
