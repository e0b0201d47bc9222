"""The command ``gpu-consensus consensus``: partitions to consensus labels."""

from __future__ import annotations

import argparse
import time
from typing import Any

import gpu_consensus as gpc
from gpu_consensus import data_files
from gpu_consensus.cli import inputs, outputs
from gpu_consensus.cli import options as cli_options
from gpu_consensus.cli import report as cli_report
from gpu_consensus.cli.plan import estimate, facts, timed, told
from gpu_consensus.cli.printing import show
from gpu_consensus.util.options import option_names

TEXT = "An ensemble, or a table of labels, to consensus labels."
EXAMPLES = """\
examples:
  gpu-consensus consensus ensemble --n-clusters 4 --output labels.csv --seed 0
  gpu-consensus consensus survey.csv --columns colour,shape,size --n-clusters 3
  gpu-consensus consensus cells.h5ad --columns 'leiden_*' --n-clusters auto
  gpu-consensus consensus ensemble --n-clusters 4 --method hac \\
    --option linkage=single
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    group = parser.add_argument_group("data")
    group.add_argument(
        "ensemble",
        type=cli_options.path,
        help="saved ensemble, or table with a partition in each column: "
        f"{cli_options.LABELS}",
    )
    cli_options.add_columns(group)
    cli_options.add_form(group)
    cli_options.add_consensus(parser)
    cli_report.add_report(parser)
    cli_options.add_common(parser, plan=True)


def run(arguments: argparse.Namespace) -> None:
    """Find the consensus, and write what was asked for."""
    options = outputs.check_call(arguments, [arguments.ensemble])
    method, n_clusters = arguments.method, arguments.n_clusters
    known = option_names(gpc.METHODS[method])
    if n_clusters is not None and "n_clusters" not in known:
        raise ValueError(
            f"--n-clusters is no option of {method}, which finds the number of "
            "clusters; leave it out."
        )
    checkpoint = arguments.checkpoint
    if checkpoint is not None:
        if "checkpoint" not in known:
            raise ValueError(f"--checkpoint is no option of {method}; leave it out.")
        data_files.check_writable("--checkpoint", checkpoint)
        options["checkpoint"] = checkpoint
    (ens, table), reading = timed(
        lambda: inputs.read_ensemble(arguments, arguments.ensemble)
    )
    shared = {
        "backend": arguments.backend,
        "n_jobs": arguments.n_jobs,
        "random_state": arguments.seed,
    }
    if arguments.dry_run:
        options.pop("checkpoint", None)
        _tell_plan(arguments, ens, {**shared, **options}, reading)
        return
    shared["progress"] = not arguments.quiet
    selection = None
    if n_clusters == cli_options.AUTO:
        selection = gpc.select_n_clusters(ens, **shared)
        n_clusters = selection.n_clusters
    began = time.perf_counter()
    result = gpc.consensus(ens, n_clusters, method, **shared, **options)
    seconds = time.perf_counter() - began
    outputs.finish(arguments, result, ens, (None, seconds), table, selection=selection)


def _tell_plan(
    arguments: argparse.Namespace,
    ens: gpc.Ensemble,
    settings: dict[str, Any],
    reading: float,
) -> None:
    n_clusters, method = arguments.n_clusters, arguments.method

    def trial(rows: Any) -> dict[str, float]:
        part = ens.subset(rows=rows)
        stages, k = {}, n_clusters
        if k == cli_options.AUTO:
            one = {name: settings[name] for name in ("backend", "n_jobs")}
            selection, stages["number of clusters"] = timed(
                lambda: gpc.select_n_clusters(part, random_state=0, **one)
            )
            k = selection.n_clusters
        _, stages["consensus"] = timed(
            lambda: gpc.consensus(part, k, method, **settings)
        )
        return stages

    found = estimate(ens.n_samples, trial)
    if arguments.json:
        show(facts(found, reading))
        return
    what = (
        f"{ens.n_samples:,} objects, {ens.n_partitions} partitions -> "
        f"{n_clusters or 'its own number of'} clusters ({method})"
    )
    written = [arguments.output, arguments.report, arguments.checkpoint]
    show(told(what, found, ens.n_samples, reading, written))
