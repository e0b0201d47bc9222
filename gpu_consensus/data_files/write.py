"""Labels into files, and to standard output."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.data_files.arrays import reader
from gpu_consensus.data_files.source import STANDARD
from gpu_consensus.ensemble.storage import write_atomic

SUFFIXES = (".csv", ".tsv", ".npy", ".parquet")
"""What files of labels may end in."""

_AT_ONCE = 1 << 16


def write_labels(
    path: Path,
    labels: npt.NDArray[np.int32],
    confidence: npt.NDArray[np.float64],
    ids: Sequence[str] | None = None,
    id_name: str = "id",
) -> None:
    """Write labels to .npy, or with ids and confidence to a table; atomic."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        write_atomic(path, lambda file: np.save(file, labels))
    elif suffix == ".parquet":
        table = _arrow(path, labels, confidence, ids, id_name)
        parquet = reader("pyarrow.parquet", path, "pyarrow", "parquet")
        write_atomic(path, lambda file: parquet.write_table(table, file))
    else:
        mark = "\t" if suffix == ".tsv" else ","

        def write(file: Any) -> None:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            _write_text(text, mark, labels, confidence, ids, id_name)
            text.flush()
            text.detach()

        write_atomic(path, write)


def labels_text(
    labels: npt.NDArray[np.int32],
    confidence: npt.NDArray[np.float64],
    ids: Sequence[str] | None = None,
    id_name: str = "id",
) -> str:
    """Return labels, ids and confidence as lines of commas, for standard output."""
    text = io.StringIO()
    _write_text(text, ",", labels, confidence, ids, id_name)
    return text.getvalue().removesuffix("\n")


def check_output(path: Path) -> None:
    """Refuse before the work a file of labels that could not be written after it."""
    if path == STANDARD:
        return
    if path.suffix.lower() not in SUFFIXES:
        listed = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        raise ValueError(f"--output {str(path)!r} should end in {listed}.")
    if path.is_dir():
        raise IsADirectoryError(
            f"--output {str(path)!r} is a folder; choose the name of a file."
        )
    if path.suffix.lower() == ".parquet":
        reader("pyarrow.parquet", path, "pyarrow", "parquet")
    check_writable("--output", path)


def check_writable(option: str, path: Path) -> None:
    """Raise an error if a file or folder cannot be made at ``path``."""
    folder = path.resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{option} {str(path)!r}: the folder {str(path.parent)!r} does not exist; "
            "make it first."
        )
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise OSError(
            f"{option} {str(path)!r} cannot be written ({error.strerror or error}); "
            "choose a folder that may be written."
        ) from None


def _write_text(
    text: Any,
    mark: str,
    labels: npt.NDArray[np.int32],
    confidence: npt.NDArray[np.float64],
    ids: Sequence[str] | None,
    id_name: str,
) -> None:
    writer = csv.writer(text, delimiter=mark, lineterminator="\n")
    writer.writerow([*([] if ids is None else [id_name]), "label", "confidence"])
    for begin in range(0, len(labels), _AT_ONCE):
        some = slice(begin, begin + _AT_ONCE)
        columns: list[Any] = [labels[some].tolist()]
        columns.append([f"{value:.6f}" for value in confidence[some].tolist()])
        if ids is not None:
            columns.insert(0, ids[some])
        writer.writerows(zip(*columns, strict=True))


def _arrow(
    path: Path,
    labels: npt.NDArray[np.int32],
    confidence: npt.NDArray[np.float64],
    ids: Sequence[str] | None,
    id_name: str,
) -> Any:
    pa = reader("pyarrow", path, "pyarrow", "parquet")
    columns: dict[str, Any] = {} if ids is None else {id_name: list(ids)}
    if id_name in ("label", "confidence") and ids is not None:
        columns = {"id": list(ids)}
    return pa.table(columns | {"label": labels, "confidence": confidence})
