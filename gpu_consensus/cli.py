"""The command ``gpu-consensus``.

Exit codes: 0 done; 1 the run failed; 2 the call or the input is wrong. An error is one
line on standard error that says what is wrong and how to mend it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

import gpu_consensus as gpc
from gpu_consensus import backends, examples, tables

_MEASURES = (
    "adjusted_rand",
    "nmi",
    "accuracy",
    "purity",
    "variation_of_information",
    "van_dongen",
    "rand_distance",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = _parser()
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        arguments.run(arguments)
    except KeyboardInterrupt:
        return _fail(arguments, "interrupted", 1)
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away: nothing to say, and no one to hear
        return 1
    except (ValueError, TypeError, OSError, backends.BackendError) as error:
        return _fail(arguments, str(error), 2)
    except Exception as error:
        return _fail(arguments, f"{type(error).__name__}: {error}", 1)
    return 0


def _fail(arguments: argparse.Namespace, message: str, code: int) -> int:
    if arguments.traceback:
        traceback.print_exc()
    print(f"gpu-consensus: {' '.join(message.split())}", file=sys.stderr)
    return code


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line."""
        hint = f"see {self.prog} --help"
        print(f"gpu-consensus: {message}; {hint}.", file=sys.stderr)
        raise SystemExit(2)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="gpu-consensus", description=gpc.__doc__)
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
    _add_features(cluster)
    _add_generation(cluster)
    _add_consensus(cluster, required=False)

    generate = command("generate", _generate, "Features to an ensemble of partitions.")
    _add_features(generate)
    _add_generation(generate)
    generate.add_argument("--n-clusters", type=int, help="clusters in mind")
    generate.add_argument(
        "--output", type=Path, required=True, help="folder, or file ending in .npz"
    )
    _add_common(generate)

    consensus = command("consensus", _consensus, "An ensemble to consensus labels.")
    consensus.add_argument(
        "ensemble", type=Path, help="saved ensemble, or table of labels (.csv, .npy)"
    )
    _add_consensus(consensus, required=True)

    evaluate = command("evaluate", _evaluate, "Compare labels with known classes.")
    evaluate.add_argument("labels", type=Path, help="labels (.csv, .npy)")
    evaluate.add_argument("--truth", type=Path, required=True, help="known classes")
    evaluate.add_argument("--column", help="column of the labels")
    evaluate.add_argument("--truth-column", help="column of the classes")
    evaluate.add_argument("--json", action="store_true", help="print JSON")

    doctor = command("doctor", _doctor, "Tell what runs on this machine.")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_features(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data", type=Path, nargs="?", help="features (.csv, .tsv, .npy, sparse .npz)"
    )
    parser.add_argument(
        "--example", metavar="NAME", help=f"a built-in set: {', '.join(examples.NAMES)}"
    )
    parser.add_argument(
        "--drop", action="append", default=[], metavar="COLUMN", help="leave out"
    )


def _add_generation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--n-partitions", type=int, default=100, help="default 100")
    parser.add_argument("--strategy", default="rps", help="default rps")
    parser.add_argument(
        "--k-range", type=_pair, metavar="LOW:HIGH", help="clusters of the partitions"
    )
    parser.add_argument("--metric", default="euclidean", help="or cosine, for text")


def _add_consensus(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument(
        "--n-clusters", type=int, required=required, help="clusters of the consensus"
    )
    parser.add_argument(
        "--method", default="kcc", help=f"one of {', '.join(gpc.METHODS)}"
    )
    parser.add_argument("--utility", help="utility of kcc, default h")
    parser.add_argument("--n-init", type=int, help="starts, default 10")
    parser.add_argument("--output", type=Path, help="labels, .csv or .npy")
    _add_common(parser)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, help="same seed, same labels")
    parser.add_argument(
        "--backend", default="auto", help=f"one of {', '.join(backends.NAMES)}"
    )
    parser.add_argument("--n-jobs", type=int, help="threads, default all cores")
    parser.add_argument(
        "--checkpoint", type=Path, help="go on from here if interrupted"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def _pair(text: str) -> tuple[int, int]:
    low, _, high = text.partition(":")
    if not (low.isdecimal() and high.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} should be two numbers like 2:10")
    return int(low), int(high)


def _cluster(arguments: argparse.Namespace) -> None:
    X, example = _features(arguments)
    n_clusters = arguments.n_clusters
    if n_clusters is None:
        if example is None:
            raise ValueError("--n-clusters is missing; say how many clusters you want.")
        n_clusters = len(example.classes)
    _check_output(arguments.output)
    seeds = np.random.SeedSequence(arguments.seed).spawn(2)
    began = time.perf_counter()
    ens = _make_partitions(arguments, X, n_clusters, seeds[0], arguments.checkpoint)
    print(f"{ens}\n  made in {time.perf_counter() - began:.2f} s")
    saved = arguments.checkpoint and arguments.checkpoint / "consensus.npz"
    result = _find(arguments, ens, n_clusters, seeds[1], saved)
    _show(result, example)
    _write(arguments.output, result)


def _generate(arguments: argparse.Namespace) -> None:
    X, _ = _features(arguments)
    seed = np.random.SeedSequence(arguments.seed)
    ens = _make_partitions(
        arguments, X, arguments.n_clusters, seed, arguments.checkpoint
    )
    ens.save(arguments.output)
    print(f"{ens}\n  written to {arguments.output}")


def _consensus(arguments: argparse.Namespace) -> None:
    path = arguments.ensemble
    if path.is_dir() or path.suffix == ".npz":
        ens = gpc.Ensemble.load(path)
    else:
        labels = tables.read_labels(path)
        ens = gpc.Ensemble(labels if labels.ndim == 2 else labels[:, None])
    _check_output(arguments.output)
    print(ens)
    seed = np.random.SeedSequence(arguments.seed)
    result = _find(arguments, ens, arguments.n_clusters, seed, arguments.checkpoint)
    _show(result, None)
    _write(arguments.output, result)


def _evaluate(arguments: argparse.Namespace) -> None:
    labels = tables.read_labels(arguments.labels, arguments.column)
    truth = tables.read_labels(arguments.truth, arguments.truth_column)
    for name, found, option in (
        ("labels", labels, "--column"),
        ("truth", truth, "--truth-column"),
    ):
        if found.ndim != 1:
            raise ValueError(
                f"{name} has {found.shape[1]} columns; name one with {option}."
            )
    scores = {
        name: float(getattr(gpc.metrics, name)(truth, labels)) for name in _MEASURES
    }
    if arguments.json:
        print(json.dumps(scores, indent=2))
    else:
        for name, score in scores.items():
            print(f"{name:<26} {score:.6f}")


def _doctor(arguments: argparse.Namespace) -> None:
    found = gpc.doctor()
    print(json.dumps(found.as_dict(), indent=2) if arguments.json else found)
    if not found.healthy:
        raise RuntimeError("a backend gives wrong results; see above, and report it.")


def _features(arguments: argparse.Namespace) -> tuple[Any, examples.Example | None]:
    if (arguments.data is None) == (arguments.example is None):
        raise ValueError("give either a file of features or --example NAME.")
    if arguments.example is not None:
        example = examples.load_example(arguments.example)
        return example.X, example
    return tables.read_features(arguments.data, arguments.drop), None


def _make_partitions(
    arguments: argparse.Namespace,
    X: Any,
    n_clusters: int | None,
    seed: np.random.SeedSequence,
    checkpoint: Path | None,
) -> gpc.Ensemble:
    return gpc.generate_partitions(
        X,
        arguments.n_partitions,
        arguments.strategy,
        n_clusters,
        arguments.k_range,
        metric=arguments.metric,
        backend=arguments.backend,
        n_jobs=arguments.n_jobs,
        random_state=seed,
        checkpoint=checkpoint,
        progress=_bar(arguments),
    )


def _find(
    arguments: argparse.Namespace,
    ens: gpc.Ensemble,
    n_clusters: int,
    seed: np.random.SeedSequence,
    checkpoint: Path | None,
) -> gpc.Consensus:
    chosen = {"utility": arguments.utility, "n_init": arguments.n_init}
    began = time.perf_counter()
    result = gpc.consensus(
        ens,
        n_clusters,
        arguments.method,
        backend=arguments.backend,
        n_jobs=arguments.n_jobs,
        random_state=seed,
        checkpoint=checkpoint,
        progress=_bar(arguments),
        **{name: value for name, value in chosen.items() if value is not None},
    )
    print(f"{result}\n  found in {time.perf_counter() - began:.2f} s\n")
    return result


def _bar(arguments: argparse.Namespace) -> bool:
    return not arguments.quiet and sys.stderr.isatty()


def _check_output(path: Path | None) -> None:
    """Refuse a path that cannot be written before the work, not after it."""
    if path is None:
        return
    if path.suffix not in (".csv", ".npy"):
        raise ValueError(f"--output {str(path)!r} should end in .csv or .npy.")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(
            f"--output {str(path)!r}: the folder {str(path.parent)!r} does not exist; "
            "make it first."
        )


def _show(result: gpc.Consensus, example: examples.Example | None) -> None:
    """Print the clusters: size, mean confidence and, if known, the classes."""
    names = example.classes if example else []
    widths = [max(5, len(name)) for name in names]
    head = "".join(f"  {n:>{w}}" for n, w in zip(names, widths, strict=True))
    print(f"cluster   size  confidence{head}")
    for k in range(result.n_clusters):
        inside = result.labels == k
        row = f"{k:>7}  {inside.sum():>5}  {result.confidence[inside].mean():>10.3f}"
        if example:
            row += _class_counts(example.y[inside], widths)
        print(row)
    if example:
        rand = gpc.metrics.adjusted_rand(example.y, result.labels)
        nmi = gpc.metrics.nmi(example.y, result.labels)
        print(f"\nagreement with the known classes: R_n {rand:.3f}, NMI {nmi:.3f}")


def _class_counts(y: npt.NDArray[np.int64], widths: list[int]) -> str:
    counts = np.bincount(y, minlength=len(widths))
    return "".join(f"  {n:>{w}}" for n, w in zip(counts, widths, strict=True))


def _write(path: Path | None, result: gpc.Consensus) -> None:
    if path is None:
        print("(labels are not kept; add --output labels.csv)")
        return
    tables.write_labels(path, result.labels, result.confidence)
    print(f"labels written to {path}")


if __name__ == "__main__":
    sys.exit(main())
