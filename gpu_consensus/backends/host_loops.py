"""Loops on the host that are no primitives of a backend and have a form in C.

Each has a reference in NumPy, where the method that needs it lives. The form in C takes
the same arguments and gives the same bits. It runs wherever it was built.

============  ==========================================
loop          reference
============  ==========================================
prices        ``loop.exact_step.numpy_prices``
merge_cells   ``loop.merging.numpy_merge_cells``
settle_cells  ``loop.settling.numpy_settle_cells``
ipc_sweep     ``methods.ipc.sweep_objects``
tilo_sweep    ``feedback.tilo.sweep``
climber       ``methods.climbs.numpy_climber``
merges        ``methods.agglomerate.numpy_merges``
expectation   ``methods.expectation.numpy_expectation``
memberships   ``methods.expectation.numpy_memberships``
vote_round    ``methods.cumulative.numpy_vote_round``
pair_sums     ``methods.bottleneck.numpy_pair_sums``
nearest_rows  ``generate.rows.nearest_rows``
draw_starts   ``generate.lloyd.draw_starts``
lloyd_starts  ``generate.lloyd.lloyd_starts``
============  ==========================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from gpu_consensus.backends.native import library
from gpu_consensus.backends.native.threads import for_each

__all__ = [
    "compiled_form",
    "compiled_loops",
    "fastest",
    "for_each",
    "has_compiled_loops",
]

Function = TypeVar("Function", bound=Callable[..., Any])
_allowed = True  # by compiled_loops


@contextmanager
def compiled_loops(use: bool) -> Iterator[None]:
    """Leave the forms in C out, for comparisons of both.

    It holds for all threads of the process. No result depends on it.
    """
    global _allowed
    before, _allowed = _allowed, use
    try:
        yield
    finally:
        _allowed = before


def has_compiled_loops() -> bool:
    """Whether the loops run in C here."""
    return _allowed and not library.why_unavailable()


def compiled_form(loop: str) -> Any:
    """Return the form in C of a loop; ask :func:`has_compiled_loops` first."""
    from gpu_consensus.backends.native import loops

    return getattr(loops, loop)


def fastest(loop: str, reference: Function) -> Function:
    """Return the form in C of a loop where there is one, else its reference."""
    form: Function = compiled_form(loop) if has_compiled_loops() else reference
    return form
