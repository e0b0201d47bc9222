"""What ``cluster`` and ``consensus`` check before the work, and give after it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import gpu_consensus as gpc
from gpu_consensus import backends, data_files, examples
from gpu_consensus.cli import options as cli_options
from gpu_consensus.cli import report as cli_report
from gpu_consensus.cli.printing import say_block, show
from gpu_consensus.data_files import STANDARD, Table
from gpu_consensus.loop.utilities import parse_utility
from gpu_consensus.util.checks import check_choice, check_int
from gpu_consensus.util.options import finds_n_clusters, option_names
from gpu_consensus.util.paths import check_outputs


def check_call(
    arguments: argparse.Namespace, inputs: Iterable[Path | None]
) -> dict[str, Any]:
    """Check before the work what can be checked; return the method's options.

    What needs the data is left to the library.
    """
    method = check_choice("--method", arguments.method, gpc.METHODS)
    given = {"utility": arguments.utility, "n_init": arguments.n_init}
    options = {name: value for name, value in given.items() if value is not None}
    function = gpc.METHODS[method]
    known = option_names(function)
    for name in options:
        if name not in known:
            option = "--" + name.replace("_", "-")
            raise ValueError(
                f"{option} is no option of {method}; leave it out, or add --method kcc."
            )
    options |= cli_options.read_options("--option", arguments.option, method, function)
    if arguments.utility is not None:
        parse_utility(arguments.utility)
    if arguments.n_init is not None:
        check_int("--n-init", arguments.n_init, 1)
    if arguments.n_clusters is not None:
        if arguments.n_clusters != cli_options.AUTO:
            check_int("--n-clusters", arguments.n_clusters, 1)
    elif (
        not finds_n_clusters(gpc.METHODS[method])
        and getattr(arguments, "example", None) is None
    ):
        raise ValueError(
            "--n-clusters is missing; say how many clusters you want, or auto."
        )
    backends.choose_backend(arguments.backend, None, arguments.n_jobs)
    cli_report.check(arguments)
    if arguments.output is not None:
        data_files.check_output(arguments.output)
    if arguments.output == STANDARD and arguments.json:
        raise ValueError(
            "--output - and --json both print to standard output; choose a file for "
            "the labels."
        )
    check_paths(arguments, inputs)
    return options


def check_paths(arguments: argparse.Namespace, inputs: Iterable[Path | None]) -> None:
    """Refuse to write over what is read, or twice to one place."""
    read = [path for path in inputs if path is not None and path != STANDARD]
    truth = getattr(arguments, "truth", None)
    written = [
        ("--output", None if arguments.output == STANDARD else arguments.output),
        ("--report", getattr(arguments, "report", None)),
        ("--checkpoint", getattr(arguments, "checkpoint", None)),
    ]
    check_outputs(
        written,
        [("the input", path) for path in read]
        + ([] if truth is None else [("--truth", truth)]),
    )


def finish(
    arguments: argparse.Namespace,
    result: gpc.Consensus,
    ensemble: Any,
    seconds: tuple[float | None, float],
    table: Table,
    example: examples.Example | None = None,
    selection: gpc.Selection | None = None,
) -> None:
    """Write labels and report, and print what came out.

    Parameters
    ----------
    seconds : (float or None, float)
        Of making the partitions, if they were made, and of finding the consensus.
    """
    output: Path | None = arguments.output
    if output is not None and output != STANDARD:
        data_files.write_labels(
            output, result.labels, result.confidence, table.ids, table.id_name
        )
    X = None if seconds[0] is None else table.values  # features, not labels
    cli_report.write(arguments, result, X, example, table.ids)
    if arguments.json:
        facts = _facts(arguments, result, ensemble, seconds, example, selection)
        show(json.dumps(facts, indent=2))
        return
    text = _text(arguments, result, ensemble, seconds, example, selection)
    if output == STANDARD:
        if not arguments.quiet:
            say_block(text)
        show(
            data_files.labels_text(
                result.labels, result.confidence, table.ids, table.id_name
            )
        )
    else:
        show(text)


def _text(
    arguments: argparse.Namespace,
    result: gpc.Consensus,
    ensemble: Any,
    seconds: tuple[float | None, float],
    example: examples.Example | None,
    selection: gpc.Selection | None,
) -> str:
    lines = [] if selection is None else [str(selection)]
    lines.append(str(ensemble))
    if seconds[0] is not None:
        lines.append(f"  made in {seconds[0]:.2f} s")
    lines += [str(result), f"  found in {seconds[1]:.2f} s", ""]
    lines += _summary(result, example)
    if arguments.output is None:
        lines.append("(labels are not kept; add --output labels.csv)")
    elif arguments.output != STANDARD:
        lines.append(f"labels written to {arguments.output}")
    if arguments.report is not None:
        lines.append(f"report written to {arguments.report}")
    return "\n".join(lines)


def _facts(
    arguments: argparse.Namespace,
    result: gpc.Consensus,
    ensemble: Any,
    seconds: tuple[float | None, float],
    example: examples.Example | None,
    selection: gpc.Selection | None,
) -> dict[str, Any]:
    """Return the summary as plain numbers and text."""
    sizes, confidence = _clusters(result)
    facts: dict[str, Any] = {
        "n_samples": len(result.labels),
        "n_partitions": ensemble.n_partitions,
        "n_clusters": result.n_clusters,
        "method": result.method,
        "backend": result.backend,
        "value": float(result.value),
        "objective": float(result.objective),
        "converged": bool(result.converged),
        "sizes": sizes,
        "confidence": confidence,
        "seconds": {"partitions": seconds[0], "consensus": seconds[1]},
        "output": None if arguments.output is None else str(arguments.output),
        "report": None if arguments.report is None else str(arguments.report),
    }
    if selection is not None:
        facts["selection"] = selection.as_dict()
    if example is not None:
        facts["agreement"] = {
            "adjusted_rand": float(gpc.metrics.adjusted_rand(example.y, result.labels)),
            "nmi": float(gpc.metrics.nmi(example.y, result.labels)),
        }
    return facts


def _clusters(result: gpc.Consensus) -> tuple[list[int], list[float]]:
    """Return the size and the mean confidence of every cluster."""
    size = np.bincount(result.labels, minlength=result.n_clusters)
    total = np.bincount(result.labels, result.confidence, minlength=result.n_clusters)
    return size.tolist(), (total / np.maximum(size, 1)).tolist()


def _summary(result: gpc.Consensus, example: examples.Example | None) -> list[str]:
    """Return lines on the clusters: size, mean confidence and, if known, classes."""
    names = example.classes if example else []
    widths = [max(5, len(name)) for name in names]
    head = "".join(f"  {n:>{w}}" for n, w in zip(names, widths, strict=True))
    sizes, confidence = _clusters(result)
    wide = max(5, len(str(max(sizes))))
    lines = [f"cluster  {'size':>{wide}}  confidence{head}"]
    for k, (size, sure) in enumerate(zip(sizes, confidence, strict=True)):
        row = f"{k:>7}  {size:>{wide}}  {sure:>10.3f}"
        if example:
            row += _class_counts(example.y[result.labels == k], widths)
        lines.append(row)
    lines.append("")
    if example:
        rand = gpc.metrics.adjusted_rand(example.y, result.labels)
        nmi = gpc.metrics.nmi(example.y, result.labels)
        lines.append(f"agreement with the known classes: R_n {rand:.3f}, NMI {nmi:.3f}")
    return lines


def _class_counts(y: npt.NDArray[np.int64], widths: list[int]) -> str:
    counts = np.bincount(y, minlength=len(widths))
    return "".join(f"  {n:>{w}}" for n, w in zip(counts, widths, strict=True))
