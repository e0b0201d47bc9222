"""A stand-in for CuPy: modules that tests install as ``cupy`` and ``cupyx``.

The package's own backend runs on it unchanged. Kernels are the real text, run by the
emulator; everything else is NumPy behind CuPy's rules. It has the names that the
package uses and no others, so that nothing passes here which CuPy has not. When copies
and launches are done is a setting; see ``stream.py``.
"""

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec

import numpy as np

from cudaemu import errors, pinned, stream
from cudaemu.array import ndarray, new_array, on_device, unused, upload
from cudaemu.build import require_compiler
from cudaemu.device import Allocation, Block, DeviceHandle, DeviceSpec, Machine
from cudaemu.raw import RawModule
from cudaemu.stream import synchronize_all

A_DEVICE = (DeviceSpec(),)
# The modules that a program may import; a situation replaces all of them.
MODULES = (
    "cupy", "cupy.cuda", "cupy.cuda.runtime", "cupy.cuda.driver", "cupy.cuda.compiler",
    "cupy.cuda.memory",
    "cupy.cuda.nvrtc", "cupyx",
)  # fmt: skip  # one name a line would hide the rest
# Functions of CuPy that do what NumPy's do.
_FUNCTIONS = (
    "arange", "bincount", "exp", "flatnonzero", "full",
    "isfinite", "log", "minimum", "rint", "searchsorted", "sqrt", "subtract",
    "unique", "where",
)  # fmt: skip  # one name a line would hide the rest


@contextlib.contextmanager
def installed(cupy: types.ModuleType | None) -> Iterator[types.ModuleType | None]:
    """Make ``import cupy`` find this module; None for a machine without CuPy."""
    before = {name: sys.modules[name] for name in list(sys.modules) if _is_cupy(name)}
    for name in before:
        del sys.modules[name]
    for name in MODULES:
        # importing a name that is None raises ModuleNotFoundError
        sys.modules[name] = None if cupy is None else cupy._modules[name]
    try:
        yield cupy
        synchronize_all()
    finally:
        stream.abandon()
        for name in [name for name in sys.modules if _is_cupy(name)]:
            del sys.modules[name]
        sys.modules.update(before)


def _is_cupy(name: str) -> bool:
    return name.split(".")[0] in ("cupy", "cupyx")


def make_cupy(devices: tuple[DeviceSpec, ...] = A_DEVICE) -> types.ModuleType:
    """Return a ``cupy`` for a machine with these devices; ``()`` for none.

    Their memory is Linux's: elsewhere a test that asks for a device is skipped.
    """
    if devices and sys.platform != "linux":
        require_compiler()
    machine = Machine(devices)
    modules = {name: _module(name) for name in MODULES}
    for name, module in modules.items():
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(modules[parent], child, module)
    for name, content in _surface(machine).items():
        modules[name].__dict__.update(content)
    cupy = modules["cupy"]
    cupy.__dict__.update(_modules=modules, machine=machine)
    return cupy


def _surface(machine: Machine) -> dict[str, dict[str, object]]:
    """Return all that the modules hold."""

    class Device(DeviceHandle):
        def __init__(self, device: int | None = None) -> None:
            super().__init__(machine, device)

    return {
        "cupy": {
            **_creation(machine),
            **{name: _function(machine, name) for name in _FUNCTIONS},
            "asnumpy": lambda a: a.get() if isinstance(a, ndarray) else np.asarray(a),
            "get_default_memory_pool": lambda: MemoryPool(machine),
            "ndarray": ndarray,
            # CuPy has only one machine
            "RawModule": type("RawModule", (RawModule,), {"machine": machine}),
        },
        "cupy.cuda": {
            "Device": Device,
            "Event": stream.Event,
            "Stream": stream.Stream,
            "get_allocator": lambda: machine.allocator,
            "get_current_stream": stream.get_current_stream,
            "get_elapsed_time": stream.get_elapsed_time,
            "is_available": lambda: bool(machine.devices),
            "set_allocator": lambda allocator: setattr(machine, "allocator", allocator),
        },
        "cupy.cuda.runtime": {
            "CUDARuntimeError": errors.CUDARuntimeError,
            "driverGetVersion": lambda: machine.driver,
            "getDeviceCount": lambda: machine.device() and len(machine.devices),
            "getDeviceProperties": lambda id: machine.device(id).properties,
            "runtimeGetVersion": lambda: 12090,
        },
        "cupy.cuda.driver": {"CUDADriverError": errors.CUDADriverError},
        "cupy.cuda.compiler": {"CompileException": errors.CompileException},
        "cupy.cuda.memory": {"OutOfMemoryError": errors.OutOfMemoryError},
        "cupy.cuda.nvrtc": {"getVersion": lambda: (12, 9)},
        "cupyx": {"empty_pinned": functools.partial(_empty_pinned, machine)},
    }


def _module(name: str) -> types.ModuleType:
    module = types.ModuleType(name, "Stand-in for tests.")
    # importlib.util.find_spec asks for it
    module.__spec__ = ModuleSpec(name, loader=None, is_package=True)
    module.__path__ = []

    def missing(attribute: str) -> object:
        raise AttributeError(unused(f"{name}.{attribute}"))

    module.__getattr__ = missing
    return module


def _function(machine: Machine, name: str) -> Callable[..., object]:
    """Return NumPy's function of that name, run on device memory."""

    def function(*args: object, **options: object) -> object:
        return on_device(machine, getattr(np, name), args, options)

    return function


def _creation(machine: Machine) -> dict[str, object]:
    """Return the functions that make arrays in CuPy's own way."""

    def asarray(a: object, dtype: object = None) -> ndarray:
        if isinstance(a, ndarray):
            same = dtype is None or a.dtype == np.dtype(dtype)
            if same and a.device.id == machine.current:
                return a
            return on_device(machine, np.array, (a, dtype), {})
        host = np.asarray(a, dtype)
        if host.dtype.kind not in "biufc":
            raise ValueError(f"Unsupported dtype {host.dtype}")
        if host.ndim:  # CuPy fills a single entry by a kernel
            machine.copies.append(("up", host.nbytes))
            if not pinned.pool.holds(host):
                machine.staged = max(machine.staged, pinned.rounded(host.nbytes))
        return upload(machine, host, "K")

    def ascontiguousarray(a: object) -> ndarray:
        if not isinstance(a, ndarray):  # as Cython types it in CuPy
            raise TypeError(f"Argument 'a' has incorrect type ({type(a)})")
        # unlike asarray, CuPy gives a contiguous array back wherever it is
        if not a.flags.c_contiguous:
            return on_device(machine, np.array, (a,), {"order": "C"})
        return a if a.ndim else a.reshape(1)

    def empty(shape: object, dtype: object = float) -> ndarray:
        return new_array(machine, shape, dtype)

    def zeros(shape: object, dtype: object = float) -> ndarray:
        return new_array(machine, shape, dtype, zero=True)

    def bincount(x: ndarray, *, minlength: int = 0) -> ndarray:
        # CuPy waits twice: for the check, and for the number of bins
        if x.ndim != 1 or x.dtype.kind == "f" or (x < 0).any():
            raise ValueError("x should be one row of integers that are not negative.")
        n_bins = max(int(x.max()) + 1, minlength)
        return on_device(machine, np.bincount, (x,), {"minlength": n_bins})

    made = (asarray, ascontiguousarray, bincount, empty, zeros)
    return {function.__name__: function for function in made}


def adopt(cupy: types.ModuleType, host: np.ndarray) -> ndarray:
    """Call host memory device memory, without a copy or an account of it.

    For arrays that are larger than memory, such as a sparse memmap.
    """
    root = host
    while isinstance(root.base, np.ndarray):
        root = root.base
    block = Block.__new__(Block)
    block.bytes, block.guards = root, ()
    block.address, block.nbytes = root.ctypes.data, root.nbytes
    return ndarray(cupy.machine, Allocation(cupy.machine.device(), block), host)


class MemoryPool:
    """The pool of the current device."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def free_all_blocks(self) -> None:
        self._machine.device().free_all_blocks()

    def used_bytes(self) -> int:
        return self._machine.device().used

    def free_bytes(self) -> int:
        return self._machine.device().kept

    def get_limit(self) -> int:
        return self._machine.device().pool_limit

    def set_limit(self, size: int) -> None:
        """Bound what the pool of the current device takes; 0 for no bound."""
        self._machine.device().pool_limit = size


def _empty_pinned(
    machine: Machine, shape: tuple[int, ...], dtype: object = float
) -> np.ndarray:
    nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if machine.device().refuses(nbytes):
        raise errors.no_memory()
    machine.pinned.append(pinned.rounded(nbytes))
    return np.ndarray(shape, dtype, pinned.pool.allocate(nbytes))
