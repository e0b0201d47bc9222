"""The command ``gpu-consensus cluster``: features to consensus labels."""

from __future__ import annotations

import argparse
from typing import Any

import gpu_consensus as gpc
from gpu_consensus.cli import inputs, outputs
from gpu_consensus.cli import options as cli_options
from gpu_consensus.cli import report as cli_report

TEXT = "Features to consensus labels."
EXAMPLES = """\
examples:
  gpu-consensus cluster --example iris --seed 0 --report report.html
  gpu-consensus cluster data.csv --n-clusters auto --output labels.csv --seed 0
  gpu-consensus cluster data.csv --columns 'x_*' --id sample --n-clusters 4
  zcat data.csv.gz | gpu-consensus cluster - --n-clusters 4 --output - > labels.csv
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    cli_options.add_features(parser)
    cli_options.add_generation(parser)
    cli_options.add_consensus(parser)
    cli_report.add_report(parser)
    cli_options.add_common(parser)


def run(arguments: argparse.Namespace) -> None:
    """Make partitions, find their consensus, and write what was asked for."""
    options = outputs.check_call(arguments, [arguments.data])
    made = generate_options(arguments)
    table, example = inputs.read_features(arguments)
    n_clusters = arguments.n_clusters
    if n_clusters is None and example is not None:
        n_clusters = len(example.classes)
    result = gpc.cluster(
        table.values,
        n_clusters,
        method=arguments.method,
        n_partitions=arguments.n_partitions,
        strategy=arguments.strategy,
        k_range=arguments.k_range,
        metric=arguments.metric,
        generate_options=made,
        method_options=options,
        backend=arguments.backend,
        n_jobs=arguments.n_jobs,
        checkpoint=arguments.checkpoint,
        random_state=arguments.seed,
        progress=not arguments.quiet,
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


def generate_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return further options of generation."""
    return cli_options.read_options(
        "--generate-option",
        arguments.generate_option,
        "generate_partitions",
        gpc.generate_partitions,
    )
