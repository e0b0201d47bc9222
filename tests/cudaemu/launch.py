"""Loaded kernels: arguments are checked harder than CuPy does, then the kernel runs."""

import contextlib
import ctypes
import dataclasses
import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from cudaemu.array import ndarray
from cudaemu.build import build, runtime_library
from cudaemu.config import ORDERS, config
from cudaemu.device import FREE_SHARED_BYTES, Block, Device
from cudaemu.errors import ArgumentMismatch, CUDADriverError, KernelFault
from cudaemu.report import Report, describe_bug, locate, read_sites


class _Kernel(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("invoke", ctypes.c_void_p),
        ("max_threads", ctypes.c_int),
        ("n_parameters", ctypes.c_int),
        ("types", ctypes.POINTER(ctypes.c_char_p)),
    )


class _Launch(ctypes.Structure):
    _fields_ = (
        ("kernel", ctypes.POINTER(_Kernel)),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("dynamic_bytes", ctypes.c_ulonglong),
        ("shared_limit", ctypes.c_ulonglong),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
        ("order", ctypes.c_int),
        ("poison", ctypes.c_int),
        ("preempt", ctypes.c_int),
        ("flush_denormals", ctypes.c_int),
        ("seed", ctypes.c_ulonglong),
        ("timeout", ctypes.c_double),
        ("n_allocations", ctypes.c_ulonglong),
        ("allocations", ctypes.POINTER(ctypes.c_ulonglong)),
    )


@functools.cache
def _runtime(mode: str) -> ctypes.CDLL:
    if mode == "asan" and "libasan" not in os.environ.get("LD_PRELOAD", ""):
        raise RuntimeError("mode 'asan' needs a process of its own; see run_asan.")
    library = ctypes.CDLL(str(runtime_library(mode)))
    library.emu_failure.restype = ctypes.c_char_p
    library.emu_report.restype = ctypes.c_char_p
    library.emu_module_base.restype = ctypes.c_ulonglong
    library.emu_module_base.argtypes = [ctypes.c_void_p]
    return library


# The runtime runs one launch at a time.
_lock = threading.Lock()
_recorders: list[list[Report]] = []


@contextlib.contextmanager
def recording() -> Iterator[list[Report]]:
    """Collect the reports of all launches, also of those that fail."""
    reports: list[Report] = []
    _recorders.append(reports)
    try:
        yield reports
    finally:
        # by identity: two empty lists are equal
        _recorders[:] = [other for other in _recorders if other is not reports]


class Library:
    """A compiled file of kernels."""

    def __init__(
        self,
        code: str,
        mode: str,
        options: tuple[str, ...] = (),
        compute_capability: str = "80",
    ) -> None:
        self.mode = mode
        self.runtime = _runtime(mode)
        self.path: Path = build(code, mode, options, compute_capability)
        self._handle = ctypes.CDLL(str(self.path))
        self.kernels: dict[str, _Kernel] = {}
        size, address = (
            ctypes.sizeof(_Kernel),
            ctypes.addressof(_Kernel.in_dll(self._handle, "emu_kernels")),
        )
        while (kernel := _Kernel.from_address(address)).name:
            self.kernels[kernel.name.decode()] = kernel
            address += size

    def prepare(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[object],
        shared_mem: int,
        device: Device,
        shared_allowed: int,
    ) -> Callable[[], Report]:
        """Check a launch and return what runs it, to be called once.

        That raises KernelFault when the kernel has a bug. ``shared_allowed`` is the
        kernel's max_dynamic_shared_size_bytes.
        """
        kernel = self.kernels[name]
        # CuPy makes one block of an empty grid, and so do we
        shape = tuple(max(1, int(n)) for n in (*grid, 1, 1)[:3])
        threads = tuple(max(1, int(n)) for n in (*block, 1, 1)[:3])
        _check_shape(name, shape, threads, kernel.max_threads)
        if shared_mem > shared_allowed:
            raise CUDADriverError(
                f"CUDA_ERROR_INVALID_VALUE: {name}: shared_mem={shared_mem} needs "
                f"max_dynamic_shared_size_bytes, which is {shared_allowed}."
            )
        values, blocks = _marshal(name, kernel, args, device)
        pointers = (ctypes.c_void_p * max(1, len(values)))(
            *(ctypes.addressof(value) for value in values)
        )
        extents = [n for b in blocks for n in (b.address, b.nbytes)]
        request = _Launch(
            kernel=ctypes.pointer(kernel),
            grid=shape,
            block=threads,
            dynamic_bytes=shared_mem,
            shared_limit=_shared_limit(device, shared_allowed),
            arguments=pointers,
            order=ORDERS.index(config.order),
            poison=config.poison,
            preempt=config.preempt,
            flush_denormals=config.flush_denormals,
            seed=config.seed,
            timeout=config.timeout,
            n_allocations=len(blocks),
            allocations=(ctypes.c_ulonglong * max(1, len(extents)))(*extents),
        )
        report = Report(name, shape, threads, shared_mem, self.mode)

        def run() -> Report:
            assert len(values) == len(args)  # the request points into them
            with _lock:
                failed = self.runtime.emu_launch(ctypes.byref(request))
                failure = self.runtime.emu_failure().decode() if failed else ""
                seen = self.runtime.emu_report().decode()
            if [b for b in blocks if not b.intact()] and not failure:
                failure = "bounds: a write beside the allocation of an argument"
            self._finish(report, kernel, failure, seen)
            return report

        return run

    def _finish(self, report: Report, kernel: _Kernel, failure: str, seen: str) -> None:
        """Fill in the report, hand it to the recorders, and raise what was found."""
        if not failure and not seen:
            for reports in _recorders:
                reports.append(report)
            return
        base = self.runtime.emu_module_base(kernel.invoke)
        failure, seen = locate(self.path, base, f"{failure}\n{seen}").split("\n", 1)
        lines = seen.splitlines()
        report.sites = read_sites(line for line in lines if line.startswith("site "))
        bugs = [describe_bug(line) for line in lines if not line.startswith("site ")]
        if failure:
            bugs.insert(0, tuple(failure.split(": ", 1)))
        report.bugs = [f"{kind}: {message}" for kind, message in bugs]
        for reports in _recorders:
            reports.append(report)
        if bugs:
            kind, message = bugs[0]
            more = f" (and {len(bugs) - 1} more)" if len(bugs) > 1 else ""
            raise KernelFault(kind, f"{report.kernel}: {message}{more}")


def _check_shape(
    name: str, grid: tuple[int, ...], block: tuple[int, ...], max_threads: int
) -> None:
    n_threads = block[0] * block[1] * block[2]
    if n_threads > max_threads or n_threads > 1024 or block[2] > 64:
        raise CUDADriverError(
            f"CUDA_ERROR_INVALID_VALUE: {name}: block={block} should have at most "
            f"{min(max_threads, 1024)} threads."
        )
    if grid[0] >= 2**31 or grid[1] > 65535 or grid[2] > 65535:
        raise CUDADriverError(f"CUDA_ERROR_INVALID_VALUE: {name}: grid={grid}.")


def _shared_limit(device: Device, allowed: int) -> int:
    """Return how much shared memory a block may have, static and dynamic together."""
    asked = allowed > FREE_SHARED_BYTES
    return device.spec.shared_memory_optin if asked else FREE_SHARED_BYTES


@functools.cache
def _types(address: int) -> tuple[str, ...]:
    """Return the types of a kernel's parameters; loaded files stay where they are."""
    kernel = _Kernel.from_address(address)
    return tuple(kernel.types[i].decode() for i in range(kernel.n_parameters))


def _marshal(
    name: str, kernel: _Kernel, args: Sequence[object], device: Device
) -> tuple[list[ctypes.Array], list[Block]]:
    """Return the arguments as bytes, and the memory that they point into.

    Not its owner: a launch in a queue keeps no array alive.
    """
    types = _types(ctypes.addressof(kernel))
    if len(args) != len(types):
        raise ArgumentMismatch(
            f"{name} takes {len(types)} arguments ({', '.join(types)}), "
            f"got {len(args)}."
        )
    values, blocks = [], []
    for position, (arg, wanted) in enumerate(zip(args, types, strict=True)):
        what = f"{name}, argument {position}"
        if wanted.startswith("*"):
            address, block = _pointer(what, arg, wanted[1:], device)
            if block is not None:
                blocks.append(block)
            data = np.uint64(address).tobytes()
        else:
            data = _scalar(what, arg, wanted)
        values.append((ctypes.c_char * 16).from_buffer_copy(data.ljust(16, b"\0")))
    return values, blocks


def _pointer(
    what: str, arg: object, wanted: str, device: Device
) -> tuple[int, Block | None]:
    """Return a device address, and the whole allocation around it.

    Strides are the caller's affair: a view is passed by its first element.
    """
    if isinstance(arg, ndarray):
        element = wanted.split("x")[0]
        if wanted != "void" and arg.dtype.str[1:] != element:
            raise ArgumentMismatch(
                f"{what}: {arg.dtype} array, the kernel wants {wanted}."
            )
        if arg.device.id != device.id:
            raise ValueError(
                f"{what}: Array device must be same as the current device: array "
                f"device = {arg.device.id} while current = {device.id}"
            )
        return arg.place
    if isinstance(arg, np.ndarray):
        raise TypeError(f"Unsupported type {type(arg)}")
    if isinstance(arg, int | np.integer) and not isinstance(arg, bool):
        if isinstance(arg, np.generic) and arg.itemsize != 8:
            raise ArgumentMismatch(f"{what}: {arg.dtype} for a pointer of 8 bytes.")
        if int(arg) == 0:  # a null pointer, for data that is optional
            return 0, None
        raise ArgumentMismatch(f"{what}: {int(arg):#x} for a pointer; pass the array.")
    raise ArgumentMismatch(
        f"{what}: {type(arg)}, the kernel wants a pointer to {wanted}."
    )


def _scalar(what: str, arg: object, wanted: str) -> bytes:
    """Return the bytes of a NumPy scalar of exactly the parameter's type.

    CuPy passes a Python int as 8 bytes whatever the kernel wants, so only 8-byte
    parameters may take one; a Python float never may.
    """
    if isinstance(arg, np.generic):
        if arg.dtype.str[1:] != wanted:
            raise ArgumentMismatch(
                f"{what}: {arg.dtype} scalar, the kernel wants {wanted}."
            )
        return arg.tobytes()
    if isinstance(arg, ndarray):
        raise ArgumentMismatch(f"{what}: an array, the kernel wants a scalar {wanted}.")
    if isinstance(arg, int) and not isinstance(arg, bool) and wanted in ("i8", "u8"):
        return np.dtype(wanted).type(arg).tobytes()
    if isinstance(arg, bool | int | float):
        raise ArgumentMismatch(
            f"{what}: Python {type(arg).__name__}, the kernel wants {wanted}; pass a "
            "NumPy scalar."
        )
    raise TypeError(f"Unsupported type {type(arg)}")


@dataclasses.dataclass
class Source:
    """CUDA text, compiled for each mode when that mode first needs it."""

    code: str
    options: tuple[str, ...] = ()
    compute_capability: str = "80"
    _libraries: dict[str, Library] = dataclasses.field(default_factory=dict)

    def library(self) -> Library:
        """Return the library for the mode that is configured now."""
        mode = config.mode
        if mode not in self._libraries:
            self._libraries[mode] = Library(
                self.code, mode, self.options, self.compute_capability
            )
        return self._libraries[mode]
