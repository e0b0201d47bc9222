"""Numbers of the papers, and ours beside them."""

from __future__ import annotations

from collections.abc import Iterator

from .kcc_missing import missing_table, removal_table
from .kcc_objective import objective_table
from .lambda_table import lambda_table
from .least_squares_table import least_squares_table
from .nguyen_caruana import comparison_tables
from .sec_table import sec_table
from .suite import Context, Table

NAME = "papers"


def run(context: Context) -> Iterator[Table]:
    """Yield the tables of the papers."""
    yield objective_table(context)
    yield missing_table(context)
    yield removal_table(context)
    yield from comparison_tables(context)
    yield lambda_table(context)
    yield sec_table(context)
    yield least_squares_table(context)
