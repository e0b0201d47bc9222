"""NVRTC through ctypes, from the wheel ``nvidia-cuda-nvrtc-cu12``."""

import ctypes
import functools
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

WHEEL = "nvidia-cuda-nvrtc-cu12"
LIBRARY = "libnvrtc.so.12"


class CompileError(RuntimeError):
    """A text that NVRTC refuses, with its log."""


class Compiled(NamedTuple):
    """What NVRTC made of a text."""

    ptx: str
    log: str


def why_no_nvrtc() -> str:
    """Return why NVRTC cannot be used here, or an empty string."""
    try:
        _library()
    except (metadata.PackageNotFoundError, OSError) as error:
        return f"NVRTC is missing ({error}); install {WHEEL}"
    return ""


def require_nvrtc() -> None:
    """Skip the test where NVRTC is missing; in CI (CI=true) on Linux fail instead.

    Elsewhere the extra ``test`` does not bring it.
    """
    import pytest  # the command needs it not

    reason = why_no_nvrtc()
    if reason and os.environ.get("CI") == "true" and sys.platform == "linux":
        pytest.fail(f"CI must compile the CUDA kernels: {reason}.")
    if reason:
        pytest.skip(f"cannot compile CUDA kernels: {reason}.")


def version() -> str:
    """Return the version of the wheel, such as "12.9.86"."""
    return metadata.version(WHEEL)


@functools.cache
def _library() -> ctypes.CDLL:
    files = metadata.distribution(WHEEL).files or []
    found = [Path(file.locate()) for file in files if file.name == LIBRARY]
    if not found:
        raise FileNotFoundError(f"the wheel has no {LIBRARY}")
    library = ctypes.CDLL(str(found[0]))
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def compile_text(text: str, options: Sequence[str]) -> Compiled:
    """Compile CUDA text down to machine code, or raise CompileError."""
    library = _library()
    program = ctypes.c_void_p()
    _check(
        library.nvrtcCreateProgram(
            ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None
        )
    )
    try:
        words = [option.encode() for option in options]
        result = library.nvrtcCompileProgram(
            program, len(words), (ctypes.c_char_p * len(words))(*words)
        )
        log = _read(program, "ProgramLog")
        if result:
            raise CompileError(f"options {' '.join(options)}:\n{log}")
        return Compiled(_read(program, "PTX"), log)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _read(program: ctypes.c_void_p, what: str) -> str:
    size = ctypes.c_size_t()
    _check(getattr(_library(), f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    _check(getattr(_library(), f"nvrtcGet{what}")(program, text))
    return text.value.decode()


def _check(result: int) -> None:
    if result:
        raise RuntimeError(_library().nvrtcGetErrorString(result).decode())
