"""Numbers of the papers, and ours beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from .kcc_missing import missing_table, removal_table
from .kcc_objective import objective_table
from .lambda_table import lambda_table
from .least_squares_table import least_squares_table
from .nguyen_caruana import comparison_tables
from .sec_table import sec_table
from .suite import Context, Table

NAME = "papers"

PARTS: dict[str, Callable[[Context], Iterable[Table]]] = {
    "objective": lambda context: [objective_table(context)],
    "missing": lambda context: [missing_table(context)],
    "removal": lambda context: [removal_table(context)],
    "comparison": comparison_tables,
    "lambda": lambda context: [lambda_table(context)],
    "sec": lambda context: [sec_table(context)],
    "least_squares": lambda context: [least_squares_table(context)],
}
"""The tables by the names that ``--only`` takes."""


def run(context: Context) -> Iterator[Table]:
    """Yield the tables of the papers, or some of them."""
    for name in context.only or PARTS:
        yield from PARTS[name](context)
