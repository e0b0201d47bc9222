"""What the commands read, by the options that a person gave."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gpu_consensus as gpc
from gpu_consensus import data_files, examples
from gpu_consensus.cli.printing import say_notes
from gpu_consensus.data_files import Choice, Form, Table


def form_of(arguments: argparse.Namespace) -> Form:
    """Return how files of text are written."""
    return Form(
        arguments.header, arguments.separator, arguments.decimal, arguments.encoding
    )


def choice_of(arguments: argparse.Namespace) -> Choice:
    """Return which columns are wanted."""
    return Choice(
        tuple(arguments.columns),
        tuple(arguments.drop),
        arguments.id,
        arguments.no_id,
    )


def read_features(
    arguments: argparse.Namespace,
) -> tuple[Table, examples.Example | None]:
    """Read the features, or load the example, and say what was recognised."""
    check_source(arguments)
    choice = choice_of(arguments)
    if arguments.example is not None:
        example = examples.load_example(arguments.example)
        place = f"--example {arguments.example}"
        X = data_files.drop_columns(example.X, choice, place)
        return Table(X, []), example
    table = data_files.read_features(
        arguments.data, choice, form_of(arguments), progress=not arguments.quiet
    )
    say_notes(table.notes, quiet=arguments.quiet)
    return table, None


def check_source(arguments: argparse.Namespace) -> None:
    """Refuse both a file and an example, or neither."""
    if (arguments.data is None) == (arguments.example is None):
        raise ValueError("give either a file or --example NAME.")


def read_ensemble(arguments: argparse.Namespace, path: Path) -> tuple[Any, Table]:
    """Read an ensemble, or a table of labels; the table is empty for the former."""
    choice = choice_of(arguments)
    if path.is_dir() or path.suffix.lower() == ".npz":
        if choice != Choice():
            raise ValueError(
                f"{str(path)!r} is a saved ensemble, in which no columns can be "
                "chosen; leave out --columns, --drop, --id and --no-id."
            )
        return gpc.Ensemble.load(path), Table(None, [])
    table = data_files.read_partitions(path, choice, form_of(arguments))
    say_notes(table.notes, quiet=getattr(arguments, "quiet", False))
    return gpc.Ensemble(table.values), table
