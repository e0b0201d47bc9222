"""A stand-in for CuPy: modules that tests install as ``cupy`` and ``cupyx``.

The package's own backend runs on it unchanged. Kernels are the real text, run by the
emulator; everything else is NumPy behind CuPy's rules. When copies and launches are
done is a setting; see ``stream.py``.
"""

import contextlib
import ctypes
import functools
import sys
import types
from collections.abc import Iterator
from importlib.machinery import ModuleSpec

import numpy as np

from cudaemu import errors, pinned, stream
from cudaemu.array import (
    NOT_IN_CUPY,
    MemoryPointer,
    ndarray,
    new_array,
    on_device,
    upload,
)
from cudaemu.device import Allocation, Block, DeviceHandle, DeviceSpec, Machine
from cudaemu.raw import RawKernel, RawModule
from cudaemu.stream import synchronize_all

VERSION = "14.2.0"
A_DEVICE = (DeviceSpec(),)
# The names that a program may import; a situation replaces all of them.
MODULES = (
    "cupy", "cupy.cuda", "cupy.cuda.runtime", "cupy.cuda.driver", "cupy.cuda.memory",
    "cupy.cuda.compiler", "cupy.cuda.nvrtc", "cupyx",
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
    """Return a ``cupy`` for a machine with these devices; ``()`` for none."""
    machine = Machine(devices)
    modules = {name: _module(name) for name in MODULES}
    for name, module in modules.items():
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(modules[parent], child, module)
    cupy = modules["cupy"]
    cupy.__dict__.update(_creation(machine))
    cupy.__dict__.update(
        __version__=VERSION,
        __getattr__=functools.partial(_numpy_name, machine),
        _modules=modules,
        machine=machine,
        ndarray=ndarray,
        RawModule=_bound(RawModule, machine),
        RawKernel=_bound(RawKernel, machine),
        asnumpy=_asnumpy,
        get_array_module=functools.partial(_array_module, cupy),
        get_default_memory_pool=lambda: MemoryPool(machine),
        get_default_pinned_memory_pool=lambda: pinned.pool,
    )
    _fill_cuda(modules, machine)
    modules["cupyx"].__dict__.update(
        empty_pinned=functools.partial(_empty_pinned, machine),
        zeros_pinned=np.zeros,
        scatter_add=lambda array, key, value: on_device(
            machine, np.add.at, (array, key, value), {}
        ),
    )
    return cupy


def _module(name: str) -> types.ModuleType:
    module = types.ModuleType(name, "Stand-in for tests.")
    # importlib.util.find_spec asks for it
    module.__spec__ = ModuleSpec(name, loader=None, is_package=True)
    module.__path__ = []
    return module


def _bound(base: type, machine: Machine) -> type:
    """Return the class with its machine filled in: CuPy has only one."""
    return type(base.__name__, (base,), {"machine": machine})


def _fill_cuda(modules: dict[str, types.ModuleType], machine: Machine) -> None:
    class Device(DeviceHandle):
        def __init__(self, device: int | DeviceHandle | None = None) -> None:
            super().__init__(machine, None if device is None else int(device))

    modules["cupy.cuda"].__dict__.update(
        is_available=lambda: bool(machine.devices),
        Device=Device,
        Stream=stream.Stream,
        Event=stream.Event,
        get_current_stream=stream.get_current_stream,
        get_elapsed_time=stream.get_elapsed_time,
        alloc_pinned_memory=functools.partial(_alloc_pinned, machine),
        alloc=lambda size: _alloc(machine, size),
        MemoryPointer=MemoryPointer,
    )
    modules["cupy.cuda.runtime"].__dict__.update(
        CUDARuntimeError=errors.CUDARuntimeError,
        getDeviceCount=lambda: machine.device() and len(machine.devices),
        getDevice=lambda: machine.device().id,
        setDevice=lambda id: Device(id).use(),
        getDeviceProperties=lambda id: Device(id).properties,
        driverGetVersion=lambda: 12090 if machine.devices else 0,
        runtimeGetVersion=lambda: 12090,
        memGetInfo=lambda: Device().mem_info,
        deviceSynchronize=lambda: Device().synchronize(),
        memcpyHostToDevice=1,
        memcpyDeviceToHost=2,
        memcpyDeviceToDevice=3,
        memcpyDefault=4,
        memcpy=functools.partial(_memcpy, machine),
        memcpyAsync=functools.partial(_memcpy, machine),
        memcpy2D=functools.partial(_memcpy_2d, machine),
        memcpy2DAsync=functools.partial(_memcpy_2d, machine),
    )
    modules["cupy.cuda.driver"].CUDADriverError = errors.CUDADriverError
    modules["cupy.cuda.memory"].OutOfMemoryError = errors.OutOfMemoryError
    modules["cupy.cuda.memory"].MemoryPointer = MemoryPointer
    modules["cupy.cuda.compiler"].CompileException = errors.CompileException
    modules["cupy.cuda.nvrtc"].getVersion = lambda: (12, 9)


def _creation(machine: Machine) -> dict[str, object]:
    """Return the functions that make arrays in CuPy's own way."""

    def array(
        obj: object,
        dtype: object = None,
        copy: bool = True,
        order: str = "K",
        **_: object,
    ) -> ndarray:
        if isinstance(obj, ndarray):
            same = dtype is None or obj.dtype == np.dtype(dtype)
            is_here = obj.device.id == machine.current
            fits = order != "C" or obj.flags.c_contiguous
            if same and is_here and fits and not copy:
                return obj
            return on_device(machine, np.array, (obj, dtype), {"order": order})
        host = np.asarray(obj, dtype, order=order)
        if host.dtype.kind not in "biufc":
            raise ValueError(f"Unsupported dtype {host.dtype}")
        if host.ndim:  # CuPy fills a single entry by a kernel
            machine.copies.append(("up", host.nbytes))
            machine.staged = max(machine.staged, pinned.rounded(host.nbytes))
        return upload(machine, host, order)

    def asarray(
        a: object, dtype: object = None, order: str = "K", *, blocking: bool = False
    ) -> ndarray:
        return array(a, dtype, copy=False, order=order)

    def ascontiguousarray(a: object, dtype: object = None) -> ndarray:
        if not isinstance(a, ndarray):  # as Cython types it in CuPy
            raise TypeError(f"Argument 'a' has incorrect type ({type(a)})")
        same = dtype is None or a.dtype == np.dtype(dtype)
        # unlike asarray, CuPy gives a contiguous array back wherever it is
        found = a if same and a.flags.c_contiguous else array(a, dtype, order="C")
        return found if found.ndim else found.reshape(1)

    def empty(shape: object, dtype: object = float, order: str = "C") -> ndarray:
        return new_array(machine, shape, dtype, order=order)

    def zeros(shape: object, dtype: object = float, order: str = "C") -> ndarray:
        return new_array(machine, shape, dtype, zero=True, order=order)

    def empty_like(a: ndarray, dtype: object = None) -> ndarray:
        return empty(a.shape, dtype or a.dtype)

    def zeros_like(a: ndarray, dtype: object = None) -> ndarray:
        return zeros(a.shape, dtype or a.dtype)

    made = (array, asarray, ascontiguousarray, empty, zeros, empty_like, zeros_like)
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


def _numpy_name(machine: Machine, name: str) -> object:
    """Return NumPy's function of that name, run on device memory."""
    value = getattr(np, name, None)
    if value is None or isinstance(value, types.ModuleType) or name in NOT_IN_CUPY:
        raise AttributeError(f"module 'cupy' has no attribute {name!r}")
    if isinstance(value, np.ufunc):
        return _Ufunc(machine, value)
    if isinstance(value, type) or not callable(value):
        return value

    @functools.wraps(value)
    def function(*args: object, **options: object) -> object:
        return on_device(machine, value, args, options)

    return function


class _Ufunc:
    def __init__(self, machine: Machine, ufunc: np.ufunc) -> None:
        self._machine = machine
        self._ufunc = ufunc

    def __call__(self, *args: object, **options: object) -> object:
        return on_device(self._machine, self._ufunc, args, options)

    def __getattr__(self, name: str) -> object:  # at, reduce, accumulate, outer
        method = getattr(self._ufunc, name)
        return lambda *args, **options: on_device(self._machine, method, args, options)


def _asnumpy(
    a: object,
    stream: object = None,
    order: str = "C",
    out: np.ndarray | None = None,
    *,
    blocking: bool = True,
) -> np.ndarray:
    if isinstance(a, ndarray):
        return a.get(stream, order, out)
    return np.asarray(a, order=order)


def _array_module(cupy: types.ModuleType, *args: object) -> types.ModuleType:
    return cupy if any(isinstance(arg, ndarray) for arg in args) else np


class MemoryPool:
    """The pool of the current device."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def free_all_blocks(self, stream: object = None) -> None:
        self._machine.device().free_all_blocks()

    def used_bytes(self) -> int:
        return self._machine.device().used

    def total_bytes(self) -> int:
        return self.used_bytes() + self.free_bytes()

    def free_bytes(self) -> int:
        return self._machine.device().kept

    def n_free_blocks(self) -> int:
        return self._machine.device().n_free_blocks()

    def get_limit(self) -> int:
        return self._machine.device().pool_limit

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        if (size is None) == (fraction is None):
            raise ValueError("exactly one of size and fraction must be given.")
        device = self._machine.device()
        device.pool_limit = int(device.spec.memory * fraction) if size is None else size


def _empty_pinned(
    machine: Machine, shape: object, dtype: object = float, order: str = "C"
) -> np.ndarray:
    nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return np.ndarray(shape, dtype, _alloc_pinned(machine, nbytes), order=order)


def _alloc_pinned(machine: Machine, size: int) -> np.ndarray:
    """Return a buffer, larger than asked for as CuPy's pool rounds up."""
    if machine.device().refuses(size):
        raise errors.CUDARuntimeError(2, "cudaErrorMemoryAllocation: out of memory")
    machine.pinned.append(pinned.rounded(size))
    return pinned.pool.allocate(size)


def _alloc(machine: Machine, size: int) -> MemoryPointer:
    allocation = machine.device().allocate(size)
    allocation.fill(zero=False)
    return MemoryPointer(allocation, allocation.address)


def _memcpy(
    machine: Machine, dst: int, src: int, size: int, kind: int, stream: int = 0
) -> None:
    _memcpy_2d(machine, dst, size, src, size, size, 1, kind, stream)


def _memcpy_2d(
    machine: Machine,
    dst: int,
    dpitch: int,
    src: int,
    spitch: int,
    width: int,
    height: int,
    kind: int,
    stream: int = 0,
) -> None:
    """Copy rows; what must be device memory is checked to its last byte.

    Waits for all work: the package does not use it.
    """
    synchronize_all()
    for address, pitch, on_the_device in (
        (dst, dpitch, kind in (1, 3)),
        (src, spitch, kind in (2, 3)),
    ):
        allocation = machine.device().find(address) if on_the_device else None
        last = address + pitch * (height - 1) + width
        if (
            on_the_device
            and height
            and (allocation is None or last > allocation.address + allocation.nbytes)
        ):
            raise errors.CUDARuntimeError(1, "cudaErrorInvalidValue: invalid argument")
    for row in range(height):
        ctypes.memmove(dst + row * dpitch, src + row * spitch, width)
