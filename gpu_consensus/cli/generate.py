"""The command ``gpu-consensus generate``: features to an ensemble of partitions."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gpu_consensus as gpc
from gpu_consensus import backends, data_files
from gpu_consensus.cli import inputs, outputs
from gpu_consensus.cli import options as cli_options
from gpu_consensus.cli.cluster import generate_options
from gpu_consensus.cli.plan import estimate, timed, told
from gpu_consensus.cli.printing import show
from gpu_consensus.ensemble import storage
from gpu_consensus.util.checks import check_choice

TEXT = "Features to an ensemble of partitions, kept in a folder or a .npz file."
EXAMPLES = """\
examples:
  gpu-consensus generate data.csv --output ensemble --seed 0
  gpu-consensus generate data.npy --n-partitions 200 --output ensemble.npz
"""
_TABLES = (".csv", ".tsv", ".txt", ".gz", ".npy", ".parquet", ".json", ".html")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    cli_options.add_features(parser)
    cli_options.add_generation(parser)
    parser.add_argument(
        "--n-clusters",
        type=int,
        metavar="NUMBER",
        help="clusters that you have in mind; partitions get several labels for each",
    )
    parser.add_argument(
        "--output",
        type=cli_options.path,
        required=True,
        metavar="PATH",
        help="folder, or file ending in .npz",
    )
    cli_options.add_common(parser, plan=True)


def run(arguments: argparse.Namespace) -> None:
    """Make partitions, and save them."""
    check_choice("--backend", arguments.backend, backends.NAMES)
    _check_ensemble_output(arguments.output)
    outputs.check_paths(arguments, [arguments.data])
    made = generate_options(arguments)
    (table, _), reading = timed(lambda: inputs.read_features(arguments))
    X = table.values
    settings: dict[str, Any] = made | {
        "n_partitions": arguments.n_partitions,
        "strategy": arguments.strategy,
        "n_clusters": arguments.n_clusters,
        "k_range": arguments.k_range,
        "metric": arguments.metric,
        "backend": arguments.backend,
        "n_jobs": arguments.n_jobs,
        "random_state": arguments.seed,
    }
    if arguments.dry_run:

        def trial(rows: Any) -> dict[str, float]:
            _, s = timed(lambda: gpc.generate_partitions(X[rows], **settings))
            return {"partitions": s}

        found = estimate(X.shape[0], trial)
        what = (
            f"{X.shape[0]:,} objects, {X.shape[1]:,} features -> "
            f"{arguments.n_partitions} partitions ({arguments.strategy})"
        )
        show(told(what, found, X.shape[0], reading, [arguments.output]))
        return
    ens = gpc.generate_partitions(
        X,
        checkpoint=arguments.checkpoint,
        progress=not arguments.quiet,
        **settings,
    )
    ens.save(arguments.output)
    show(f"{ens}\n  written to {arguments.output}")


def _check_ensemble_output(path: Path) -> None:
    """Refuse a path that :meth:`Ensemble.save` would refuse after the work."""
    if path.suffix == ".npz" and path.is_dir():
        raise IsADirectoryError(
            f"--output {str(path)!r} is a folder; choose the name of a file."
        )
    if path.suffix.lower() in _TABLES:
        raise ValueError(
            f"--output {str(path)!r} is called like a table, and an ensemble is none; "
            "name a folder, or a file ending in .npz."
        )
    storage.check_replaceable("--output ", path)
    data_files.check_writable("--output", path)
