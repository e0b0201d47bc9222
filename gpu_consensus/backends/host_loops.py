"""Loops that visit objects one after another on the host and have a compiled form.

Each has a reference in NumPy, where the method that needs it lives, and a compiled form
that takes arrays and changes arrays; both give the same bits. This module decides by
the size of the work which one runs: compiled code takes time to load, unless this
process has loaded it already.

==========  ================================  ====================
loop        reference                         work
==========  ================================  ====================
refinement  ``loop.refine.numpy_refinement``  n r K
find_move   ``loop.refine.find_move``         n r K
ipc_sweep   ``methods.ipc.sweep_objects``     objects times starts
tilo_sweep  ``feedback.tilo.sweep``           vertices
climber     ``methods.climbs.numpy_climber``  n r times the starts
==========  ================================  ====================

A refinement and a climber are made once, with the memory that their steps share.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from gpu_consensus.backends.availability import why_unavailable

Function = TypeVar("Function", bound=Callable[..., Any])


class _Loop(NamedTuple):
    """A loop: the work that pays for loading it, and where its compiled form is."""

    least_work: int
    module: str | None
    """None: the reference is compiled as it stands."""


_LOOPS = {
    "refinement": _Loop(1 << 22, "numba_refine"),
    "find_move": _Loop(1 << 22, "numba_refine"),
    "ipc_sweep": _Loop(1 << 14, "numba_ipc"),
    "tilo_sweep": _Loop(48, None),
    "climber": _Loop(1 << 20, "numba_add_rem_add"),
}
_asked: bool | None = None  # by compiled_loops


@contextmanager
def compiled_loops(use: bool) -> Iterator[None]:
    """Use compiled forms however small the work, or never: for comparisons of both.

    It holds for all threads of the process. No result depends on it.
    """
    global _asked
    before, _asked = _asked, use
    try:
        yield
    finally:
        _asked = before


def pays(loop: str, work: int) -> bool:
    """Whether this much work pays for loading the compiled form of a loop."""
    if _asked is None:
        is_loaded = "gpu_consensus.backends.numba_jit" in sys.modules
        enough = is_loaded or work >= _LOOPS[loop].least_work
    else:
        enough = _asked
    return enough and not why_unavailable("numba")


def compiled_form(loop: str) -> Callable[..., Any]:
    """Return the compiled form of a loop; ask :func:`pays` first."""
    module = _LOOPS[loop].module
    assert module is not None
    form: Callable[..., Any] = getattr(
        import_module(f"gpu_consensus.backends.{module}"), loop
    )
    return form


def fastest(loop: str, reference: Function, work: int) -> Function:
    """Return the compiled form of a loop where that pays, else its reference.

    Parameters
    ----------
    loop : str
    reference : callable
        Has the arguments of the compiled form.
    work : int
        In the unit of the table above.
    """
    if not pays(loop, work):
        return reference
    if _LOOPS[loop].module is None:
        form: Function = _compile(reference)
    else:
        form = compiled_form(loop)  # type: ignore[assignment]
    return form


@functools.cache
def _compile(function: Callable[..., Any]) -> Any:
    from gpu_consensus.backends.numba_jit import compiled

    return compiled(function)
