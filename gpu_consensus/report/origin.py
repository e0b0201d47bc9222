"""Where a result comes from: files and their hashes, versions, the machine."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import gpu_consensus
from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.plot.style import clean
from gpu_consensus.result import Consensus
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.files import FileError, open_regular
from gpu_consensus.util.paths import check_path, reason_of

_BLOCK = 1 << 20
_PACKAGES = ("numpy", "scipy", "scikit-learn", "matplotlib", "jinja2", "pandas")


def what_was_read(source: Any, ens: Ensemble) -> list[tuple[str, str, str]]:
    """Return the name, the size and the SHA-256 of each file that was read."""
    if source is None:
        size, digest = _hash_codes(ens)
        return [("labels of the ensemble", f"{size:,}", digest)]
    several = isinstance(source, Iterable) and not isinstance(source, (str, bytes))
    paths = list(source) if several and not hasattr(source, "__fspath__") else [source]
    rows = []
    for one in paths:
        path = check_path("source", one)
        try:
            size, digest = hash_path(path)
        except FileError as error:
            raise ValueError(
                f"source={str(path)!r} cannot be hashed ({error}); name plain files."
            ) from error
        except OSError as error:
            raise OSError(
                f"source={str(path)!r} cannot be read ({reason_of(error)}); name files "
                "that are there, or leave source out."
            ) from error
        rows.append((clean(path.name, 80), f"{size:,}", digest))
    return rows


def hash_path(path: Path) -> tuple[int, str]:
    """Return the size and the SHA-256 of a file, or of all files of a folder.

    That of a folder is the hash of its names and contents, in the order of the names.
    """
    whole = hashlib.sha256()
    size = 0
    if path.is_dir():
        for inside in sorted(p for p in path.iterdir() if p.is_file()):
            length, digest = hash_path(inside)
            size += length
            whole.update(f"{inside.name}\0{digest}\n".encode(errors="surrogateescape"))
        return size, whole.hexdigest()
    with open_regular(path) as file:
        while block := file.read(_BLOCK):
            size += len(block)
            whole.update(block)
    return size, whole.hexdigest()


def _hash_codes(ens: Ensemble) -> tuple[int, str]:
    whole = hashlib.sha256(f"{ens.codes.dtype} {ens.codes.shape}\n".encode())
    for row in ens.codes:
        whole.update(to_host(row).tobytes())
    return int(ens.codes.nbytes), whole.hexdigest()


def versions(res: Consensus) -> list[tuple[str, str]]:
    """Return the versions of what computed and drew."""
    rows = [
        ("gpu-consensus", gpu_consensus.__version__),
        ("Python", sys.version.split()[0]),
    ]
    for name in _PACKAGES:
        try:
            rows.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            continue
    rows.append(("backend", res.backend))
    rows.append(("machine", f"{platform.system()} {platform.machine()}"))
    return rows


def machine(res: Consensus) -> str:
    """Say what equal results need."""
    cores = os.cpu_count()
    return (
        f"That another machine gives the same: this one has {cores} cores and ran "
        f"{res.backend}. The same partitions give the same labels everywhere; "
        "partitions made anew may differ in the last digits on another machine."
    )
