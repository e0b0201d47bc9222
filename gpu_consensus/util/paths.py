"""One door for paths: what may be read and written, checked before the work."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpu_consensus.util.numbers import shown


def check_path(name: str, value: Any) -> Path:
    """Return ``value`` as a path, or raise an error that says why it is none.

    Examples
    --------
    >>> check_path("checkpoint", 5)
    Traceback (most recent call last):
    ...
    TypeError: checkpoint=5 should be a path, as text or as a pathlib.Path.
    >>> check_path("checkpoint", "")
    Traceback (most recent call last):
    ...
    ValueError: checkpoint='' is empty; give the name of a file or of a folder.
    """
    try:
        text = os.fspath(value)
        path = Path(text)
    except TypeError:
        raise TypeError(
            f"{name}={shown(value)} should be a path, as text or as a pathlib.Path."
        ) from None
    if not text:
        raise ValueError(f"{name}='' is empty; give the name of a file or of a folder.")
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except ValueError:  # a null byte, or half of a surrogate pair
        raise ValueError(
            f"{name}={shown(value)} holds a character that no path may have; choose "
            "another name."
        ) from None
    except OSError as error:
        raise OSError(
            f"{name}={shown(value)} cannot be used ({reason_of(error)}); choose "
            "another path."
        ) from None
    return path


def reason_of(error: OSError) -> str:
    """Return what the system says of a failure, without its number and the path."""
    return error.strerror or str(error)


def is_same(path: Path, other: Path) -> bool:
    """Whether two names lead to one file or folder, through links of either kind."""
    try:
        return path.resolve() == other.resolve() or path.samefile(other)
    except (OSError, RuntimeError):  # one is not there yet, or links go in a circle
        return False


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a path leads into a folder, at any depth."""
    try:
        return folder.resolve() in path.resolve().parents
    except (OSError, RuntimeError):
        return False


def check_outputs(
    outputs: Iterable[tuple[str, Path | None]], inputs: Iterable[tuple[str, Path]]
) -> None:
    """Refuse an output that would overwrite an input, or another output.

    Parameters
    ----------
    outputs : iterable of (str, Path or None)
        How the caller named each, and where it leads; None is left out.
    inputs : iterable of (str, Path)
    """
    written = [(name, path) for name, path in outputs if path is not None]
    for name, path in written:
        for source, read in inputs:
            part_of = is_inside(path, read) and path.exists()
            if is_same(path, read) or part_of:
                raise ValueError(
                    f"{name} {str(path)!r} would overwrite {source} {str(read)!r}; "
                    "choose another path."
                )
    for i, (name, path) in enumerate(written):
        for other, earlier in written[:i]:
            if is_same(path, earlier):
                raise ValueError(
                    f"{name} and {other} are both {str(path)!r}; choose a path for "
                    "each."
                )


def check_no_link(path: Path, what: str) -> None:
    """Refuse a link where a file of our own should be: it could lead anywhere."""
    if path.is_symlink():
        raise ValueError(
            f"{str(path)!r} is a link, and {what} holds files alone; remove the link."
        )
