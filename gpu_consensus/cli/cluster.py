"""The command ``gpu-consensus cluster``: features to consensus labels."""

from __future__ import annotations

import argparse
from typing import Any

import gpu_consensus as gpc
from gpu_consensus.cli import inputs, outputs
from gpu_consensus.cli import options as cli_options
from gpu_consensus.cli import report as cli_report
from gpu_consensus.cli.plan import estimate, facts, timed, told
from gpu_consensus.cli.printing import show
from gpu_consensus.data_files import Table

TEXT = "Features to consensus labels."
EXAMPLES = """\
examples:
  gpu-consensus cluster --example iris --seed 0 --report report.html
  gpu-consensus cluster data.csv --n-clusters auto --output labels.csv --seed 0
  gpu-consensus cluster data.csv --columns 'x_*' --id sample --n-clusters 4
  cat data.csv | gpu-consensus cluster - --n-clusters 4 --output - > labels.csv
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    cli_options.add_features(parser)
    cli_options.add_generation(parser)
    cli_options.add_consensus(parser)
    cli_report.add_report(parser)
    cli_options.add_common(parser, plan=True)


def run(arguments: argparse.Namespace) -> None:
    """Make partitions, find their consensus, and write what was asked for."""
    options = outputs.check_call(arguments, [arguments.data])
    made = generate_options(arguments)
    (table, example), reading = timed(lambda: inputs.read_features(arguments))
    n_clusters = arguments.n_clusters
    if n_clusters is None and example is not None:
        n_clusters = len(example.classes)
    settings: dict[str, Any] = {
        "method": arguments.method,
        "n_partitions": arguments.n_partitions,
        "strategy": arguments.strategy,
        "k_range": arguments.k_range,
        "metric": arguments.metric,
        "generate_options": made,
        "method_options": options,
        "backend": arguments.backend,
        "n_jobs": arguments.n_jobs,
        "random_state": arguments.seed,
    }
    if arguments.dry_run:
        _tell_plan(arguments, table, n_clusters, settings, reading)
        return
    result = gpc.cluster(
        table.values,
        n_clusters,
        checkpoint=arguments.checkpoint,
        progress=not arguments.quiet,
        **settings,
    )
    outputs.finish(
        arguments,
        result,
        result.details["ensemble"],
        result.details["seconds"],
        table,
        example,
        result.details.get("selection"),
    )


def _tell_plan(
    arguments: argparse.Namespace,
    table: Table,
    n_clusters: int | str | None,
    settings: dict[str, Any],
    reading: float,
) -> None:
    X = table.values

    def trial(rows: Any) -> dict[str, float]:
        result, seconds = timed(lambda: gpc.cluster(X[rows], n_clusters, **settings))
        making, finding = result.details["seconds"]
        stages = {"partitions": making, "consensus": finding}
        if "selection" in result.details:
            return {"number of clusters": seconds - making - finding, **stages}
        return stages

    found = estimate(X.shape[0], trial)
    if arguments.json:
        show(facts(found, reading))
        return
    what = (
        f"{X.shape[0]:,} objects, {X.shape[1]:,} features -> {arguments.n_partitions} "
        f"partitions ({arguments.strategy}) -> {n_clusters or 'its own number of'} "
        f"clusters ({arguments.method})"
    )
    written = [arguments.output, arguments.report, arguments.checkpoint]
    show(told(what, found, X.shape[0], reading, written))


def generate_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return further options of generation."""
    return cli_options.read_options(
        "--generate-option",
        arguments.generate_option,
        "generate_partitions",
        gpc.generate_partitions,
    )
