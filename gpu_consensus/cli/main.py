"""The command ``gpu-consensus``.

Exit codes: 0 done; 1 the run failed; 2 the call or the input is wrong; 130 interrupted
by Ctrl-C, 143 by SIGTERM. An error is one line on standard error that says what is
wrong and how to mend it.

Results are printed when all work is done and ``--output`` is written. If the reader of
standard output ends early, as ``head`` does, only text is lost: the exit code is 0.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

import gpu_consensus as gpc
from gpu_consensus import backends, examples
from gpu_consensus.backends.device_errors import DeviceLostError
from gpu_consensus.cli import options as cli_options
from gpu_consensus.cli import report as cli_report
from gpu_consensus.cli import select_k, signals
from gpu_consensus.ensemble import data_files, storage
from gpu_consensus.ensemble.encoding import encode
from gpu_consensus.loop.utilities import parse_utility
from gpu_consensus.util.checks import check_choice, check_int
from gpu_consensus.util.options import finds_n_clusters, option_names

_MEASURES = (
    "adjusted_rand",
    "nmi",
    "accuracy",
    "purity",
    "variation_of_information",
    "van_dongen",
    "rand_distance",
)


class _RunError(RuntimeError):
    """The run failed, for a reason that a person can read."""


def run() -> NoReturn:
    """Run the command line as a program: handle signals, and exit."""
    signals.watch_signals()
    try:
        code = main()
        signals.leave_to_watcher()
    except KeyboardInterrupt as error:
        code = signals.say_ended(error)
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        return _main(argv)


def _main(argv: Sequence[str] | None) -> int:
    shown = io.StringIO()  # help, or the version
    given = sys.argv[1:] if argv is None else list(argv)
    show_traceback = False
    try:
        if given[:1] == ["bench"]:  # it has a parser of its own
            show_traceback = "--traceback" in given
            return _bench([word for word in given[1:] if word != "--traceback"])
        try:
            with contextlib.redirect_stdout(shown):
                arguments = _parser().parse_args(given)
                arguments.words = given
        except SystemExit as stop:
            _print(shown.getvalue().rstrip("\n"))
            return int(stop.code or 0)
        show_traceback = arguments.traceback
        arguments.run(arguments)
    except (Exception, KeyboardInterrupt) as error:
        if signals.is_ended(error):
            return signals.say_ended(error)
        return _fail(*_message_and_code(error), show_traceback)
    return 0


def _message_and_code(error: BaseException) -> tuple[str, int]:
    """Return the message and the exit code for an error."""
    if isinstance(error, (_RunError, DeviceLostError)):
        return str(error), 1
    if isinstance(error, (ValueError, TypeError, OSError, backends.BackendError)):
        return str(error), 2
    return f"{type(error).__name__}: {error}", 1


def _print(text: str) -> None:
    """Print to standard output now: at exit it would be too late to say what failed."""
    if not text:
        return
    try:
        print(text, flush=True)
    except OSError as error:
        # what is left in the buffer must go somewhere, or Python complains at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise _RunError(
                f"standard output cannot be written: {error.strerror or error}."
            ) from error


def _fail(message: str, code: int, show_traceback: bool) -> int:
    with contextlib.suppress(OSError):
        if show_traceback:
            traceback.print_exc()
        print(f"gpu-consensus: {' '.join(message.split())}", file=sys.stderr)
    return code


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Show a warning in one line, without the file and line that it came from."""
    with contextlib.suppress(OSError):
        text = " ".join(str(message).split())
        print(f"gpu-consensus: warning: {text}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = cli_options.Parser(prog="gpu-consensus", description=gpc.__doc__)
    parser.add_argument("--version", action="version", version=gpc.__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.add_argument(
            "--traceback", action="store_true", help="show where an error arose"
        )
        added.set_defaults(run=run)
        return added

    cluster = command("cluster", _cluster, "Features to consensus labels.")
    cli_options.add_features(cluster)
    cli_options.add_generation(cluster)
    cli_options.add_consensus(cluster)
    cli_report.add_options(cluster)

    generate = command("generate", _generate, "Features to an ensemble of partitions.")
    cli_options.add_features(generate)
    cli_options.add_generation(generate)
    generate.add_argument("--n-clusters", type=int, help="clusters in mind")
    generate.add_argument(
        "--output", type=Path, required=True, help="folder, or file ending in .npz"
    )
    cli_options.add_common(generate)

    consensus = command("consensus", _consensus, "An ensemble to consensus labels.")
    consensus.add_argument(
        "ensemble", type=Path, help="saved ensemble, or table of labels (.csv, .npy)"
    )
    cli_options.add_header(consensus)
    cli_options.add_consensus(consensus)
    cli_report.add_options(consensus)
    cli_report.add_command(command, _print)

    select_k.add_options(command("select-k", _select_k, select_k.TEXT))

    evaluate = command("evaluate", _evaluate, "Compare labels with known classes.")
    evaluate.add_argument("labels", type=Path, help="labels (.csv, .npy)")
    evaluate.add_argument("--truth", type=Path, required=True, help="known classes")
    evaluate.add_argument("--column", help="column of the labels")
    evaluate.add_argument("--truth-column", help="column of the classes")
    cli_options.add_header(evaluate)
    cli_options.add_header(evaluate, "--truth-header", "the same for --truth alone")
    evaluate.add_argument("--json", action="store_true", help="print JSON")

    doctor = command("doctor", _doctor, "Tell what runs on this machine.")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.add_argument(
        "--quick", action="store_true", help="versions and backends, no self-test"
    )

    accept = command(
        "accept",
        _accept,
        "Try everything on this machine's GPU, and write a report to send back.",
    )
    accept.add_argument(
        "--output",
        type=Path,
        default=Path("accept.json"),
        help="JSON file, with a page of text beside it (default: accept.json)",
    )
    accept.add_argument(
        "--budget", type=float, default=600.0, help="seconds it may take (default: 600)"
    )
    accept.add_argument(
        "--quick", action="store_true", help="small sizes, whose speeds tell little"
    )
    accept.add_argument("--quiet", action="store_true", help="show no progress")
    commands.add_parser("bench", help="Measure speed and quality; see bench --help.")
    return parser


def _cluster(arguments: argparse.Namespace) -> None:
    options = _check_consensus(arguments)
    made = _generate_options(arguments)
    X, example = _features(arguments)
    n_clusters = arguments.n_clusters
    if n_clusters is None and example is not None:
        n_clusters = len(example.classes)
    result = gpc.cluster(
        X,
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
        progress=_bar(arguments),
    )
    making, finding = result.details["seconds"]
    made_of = f"{result.details['ensemble']}\n  made in {making:.2f} s"
    if "selection" in result.details:
        made_of = f"{result.details['selection']}\n{made_of}"
    told = _tell(arguments, result, finding, example)
    _print(f"{made_of}\n{told}{cli_report.write(arguments, result, X, example)}")


def _generate(arguments: argparse.Namespace) -> None:
    check_choice("--backend", arguments.backend, backends.NAMES)
    _check_ensemble_output(arguments.output)
    made = _generate_options(arguments)
    X, _ = _features(arguments)
    ens = gpc.generate_partitions(
        X,
        arguments.n_partitions,
        arguments.strategy,
        arguments.n_clusters,
        arguments.k_range,
        metric=arguments.metric,
        backend=arguments.backend,
        n_jobs=arguments.n_jobs,
        random_state=arguments.seed,
        checkpoint=arguments.checkpoint,
        progress=_bar(arguments),
        **made,
    )
    ens.save(arguments.output)
    _print(f"{ens}\n  written to {arguments.output}")


def _consensus(arguments: argparse.Namespace) -> None:
    options = _check_consensus(arguments)
    method, n_clusters = arguments.method, arguments.n_clusters
    known = option_names(gpc.METHODS[method])
    if n_clusters is not None and "n_clusters" not in known:
        raise ValueError(
            f"--n-clusters is no option of {method}, which finds the number of "
            "clusters; leave it out."
        )
    path, checkpoint = arguments.ensemble, arguments.checkpoint
    if checkpoint is not None:
        if "checkpoint" not in known:
            raise ValueError(f"--checkpoint is no option of {method}; leave it out.")
        data_files.check_writable("--checkpoint", checkpoint)
        options["checkpoint"] = checkpoint
    if path.is_dir() or path.suffix.lower() == ".npz":
        ens = gpc.Ensemble.load(path)
    else:
        ens = gpc.Ensemble(data_files.read_partitions(path, arguments.header))
    if n_clusters == cli_options.AUTO:
        selection = gpc.select_n_clusters(
            ens,
            backend=arguments.backend,
            n_jobs=arguments.n_jobs,
            random_state=arguments.seed,
            progress=_bar(arguments),
        )
        n_clusters = selection.n_clusters
        _print(str(selection))
    began = time.perf_counter()
    result = gpc.consensus(
        ens,
        n_clusters,
        method,
        backend=arguments.backend,
        n_jobs=arguments.n_jobs,
        random_state=arguments.seed,
        progress=_bar(arguments),
        **options,
    )
    seconds = time.perf_counter() - began
    told = _tell(arguments, result, seconds)
    _print(f"{ens}\n{told}{cli_report.write(arguments, result)}")


def _select_k(arguments: argparse.Namespace) -> None:
    _print(select_k.run(arguments, _bar(arguments)))


def _evaluate(arguments: argparse.Namespace) -> None:
    header, truth_header = arguments.header, arguments.truth_header
    labels = _codes(
        "labels",
        data_files.read_labels(arguments.labels, arguments.column, header),
    )
    truth = _codes(
        "truth",
        data_files.read_labels(
            arguments.truth,
            arguments.truth_column,
            header if truth_header is None else truth_header,
            role="truth",
            option="--truth-column",
        ),
    )
    if len(labels) != len(truth):
        raise ValueError(
            f"labels has {len(labels)} objects but truth has {len(truth)}; give both "
            "one line per object, and --header or --no-header if the first line was "
            "taken for what it is not."
        )
    if not ((labels >= 0) & (truth >= 0)).any():
        raise ValueError("no object has a label in both labels and truth.")
    scores = {
        name: float(getattr(gpc.metrics, name)(truth, labels)) for name in _MEASURES
    }
    if arguments.json:
        _print(json.dumps(scores, indent=2))
    else:
        _print("\n".join(f"{name:<26} {score:.6f}" for name, score in scores.items()))


def _codes(name: str, labels: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return labels as numbers from 0, -1 where they are missing."""
    codes, categories = encode(labels, name)
    return np.where(codes == len(categories), -1, codes)


def _doctor(arguments: argparse.Namespace) -> None:
    report = gpc.doctor(quick=arguments.quick)
    _print(json.dumps(report.as_dict(), indent=2) if arguments.json else str(report))
    if not report.healthy:
        raise _RunError(
            "a backend fails, or gives wrong results; see above, and report it."
        )


def _accept(arguments: argparse.Namespace) -> None:
    from gpu_consensus import accept

    signals.be_patient(8)  # what was measured is written; docker stop waits 10 s
    report = accept.accept(
        arguments.output,
        sizes=accept.QUICK if arguments.quick else accept.FULL,
        budget=arguments.budget,
        progress=_bar(arguments),
        log=_say_nothing if arguments.quiet else _say,
    )
    _print(accept.render(report).rstrip("\n"))
    if report["state"] != "passed":
        raise _RunError(f"the acceptance run is {report['state']}; see above.")


def _bench(given: list[str]) -> int:
    from gpu_consensus.cli.bench import run_bench

    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        code = run_bench(given)
    _print(shown.getvalue().rstrip("\n"))
    if code and signals.was_heard():  # what was finished is written
        raise KeyboardInterrupt
    return code


def _say(text: str) -> None:
    """Print a line on progress to standard error."""
    with contextlib.suppress(OSError):
        print(f"gpu-consensus: {text}", file=sys.stderr, flush=True)


def _say_nothing(text: str) -> None:
    """Show nothing."""


def _features(arguments: argparse.Namespace) -> tuple[Any, examples.Example | None]:
    if (arguments.data is None) == (arguments.example is None):
        raise ValueError("give either a file of features or --example NAME.")
    if arguments.example is not None:
        example = examples.load_example(arguments.example)
        where = f"--example {arguments.example}"
        return data_files.drop_columns(example.X, arguments.drop, where), example
    return data_files.read_features(
        arguments.data, arguments.drop, arguments.header
    ), None


def _generate_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return further options of generation."""
    return cli_options.read_options(
        "--generate-option",
        arguments.generate_option,
        "generate_partitions",
        gpc.generate_partitions,
    )


def _tell(
    arguments: argparse.Namespace,
    result: gpc.Consensus,
    seconds: float,
    example: examples.Example | None = None,
) -> str:
    """Write a consensus, and return the text that describes it."""
    kept = "(labels are not kept; add --output labels.csv)"
    if arguments.output is not None:
        data_files.write_labels(arguments.output, result.labels, result.confidence)
        kept = f"labels written to {arguments.output}"
    clusters = "\n".join(_summary(result, example))
    return f"{result}\n  found in {seconds:.2f} s\n\n{clusters}\n{kept}"


def _bar(arguments: argparse.Namespace) -> bool:
    return not arguments.quiet and sys.stderr.isatty()


def _check_consensus(arguments: argparse.Namespace) -> dict[str, Any]:
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
        raise ValueError("--n-clusters is missing; say how many clusters you want.")
    backends.choose_backend(arguments.backend, None, arguments.n_jobs)
    cli_report.check(arguments)
    path = arguments.output
    if path is not None:
        if path.suffix.lower() not in (".csv", ".npy"):
            raise ValueError(f"--output {str(path)!r} should end in .csv or .npy.")
        if path.is_dir():
            raise IsADirectoryError(
                f"--output {str(path)!r} is a folder; choose the name of a file."
            )
        data_files.check_writable("--output", path)
    return options


def _check_ensemble_output(path: Path) -> None:
    """Refuse a path that :meth:`Ensemble.save` would refuse after the work."""
    if path.suffix == ".npz" and path.is_dir():
        raise IsADirectoryError(
            f"--output {str(path)!r} is a folder; choose the name of a file."
        )
    storage.check_replaceable("--output ", path)
    data_files.check_writable("--output", path)


def _summary(result: gpc.Consensus, example: examples.Example | None) -> list[str]:
    """Return lines on the clusters: size, mean confidence and, if known, classes."""
    names = example.classes if example else []
    widths = [max(5, len(name)) for name in names]
    head = "".join(f"  {n:>{w}}" for n, w in zip(names, widths, strict=True))
    lines = [f"cluster   size  confidence{head}"]
    for k in range(result.n_clusters):
        inside = result.labels == k
        row = f"{k:>7}  {inside.sum():>5}  {result.confidence[inside].mean():>10.3f}"
        if example:
            row += _class_counts(example.y[inside], widths)
        lines.append(row)
    if example:
        rand = gpc.metrics.adjusted_rand(example.y, result.labels)
        nmi = gpc.metrics.nmi(example.y, result.labels)
        lines.append(
            f"\nagreement with the known classes: R_n {rand:.3f}, NMI {nmi:.3f}"
        )
    return lines


def _class_counts(y: npt.NDArray[np.int64], widths: list[int]) -> str:
    counts = np.bincount(y, minlength=len(widths))
    return "".join(f"  {n:>{w}}" for n, w in zip(counts, widths, strict=True))


if __name__ == "__main__":
    run()
