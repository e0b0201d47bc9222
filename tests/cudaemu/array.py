"""The stand-in for ``cupy.ndarray``: NumPy arrays behind CuPy's rules.

It is no subclass of ``numpy.ndarray``, as CuPy's is none: ``np.asarray`` of it raises
and ``isinstance`` tells the two apart, so host code that forgets where an array lives
fails here as it fails on a GPU.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from cudaemu import pinned
from cudaemu.device import Allocation, Block, DeviceHandle, Machine
from cudaemu.errors import OutOfMemoryError, no_memory
from cudaemu.stream import Stream, deferred, get_current_stream, submit

# Methods of the package's arrays that NumPy may run on the memory: they change nothing,
# and the shape of their result depends on no value.
METHODS = frozenset({
    "all", "any", "argmax", "astype", "copy", "diagonal", "max", "min", "reshape",
    "std", "sum", "view",
})  # fmt: skip  # one name a line would hide the rest
# Arguments of NumPy's reductions that CuPy's lack.
_NOT_OF_REDUCTIONS = frozenset({"where", "initial"})
# Functions beside ufuncs that may wait in a queue. All others first wait for the
# stream's work.
_QUEUED = METHODS | {"__call__", "array", "transpose"}


def unused(name: str) -> str:
    """Say that the stand-in lacks what CuPy may have."""
    cause = "the package did not use it; add it if CuPy has it."
    return f"the stand-in has no {name}: {cause}"


class Flags:
    """``array.flags``: CuPy knows no array that cannot be written."""

    __slots__ = ("c_contiguous",)

    def __init__(self, flags: object) -> None:
        self.c_contiguous = flags.c_contiguous


class ndarray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array in the memory of a simulated device."""

    def __init__(
        self, machine: Machine, allocation: Allocation, host: np.ndarray
    ) -> None:
        self._machine = machine
        self._allocation = allocation
        self._host = host  # a view of the device's memory

    shape = property(lambda self: self._host.shape)
    dtype = property(lambda self: self._host.dtype)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    nbytes = property(lambda self: self._host.nbytes)
    itemsize = property(lambda self: self._host.itemsize)
    strides = property(lambda self: self._host.strides)
    flags = property(lambda self: Flags(self._host.flags))
    T = property(lambda self: on_device(self._machine, np.transpose, (self,), {}))

    @property
    def place(self) -> tuple[int, Block]:
        """The address, and the block of memory that it lies in."""
        return self._host.ctypes.data, self._allocation.block

    @property
    def device(self) -> DeviceHandle:
        return DeviceHandle(self._machine, self._allocation.device.id)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._host.ctypes.data, False),
            "strides": None if self.flags.c_contiguous else self.strides,
            "version": 3,
        }

    def _settled(self) -> np.ndarray:
        """Return the memory when the stream's work is done, as ``get`` waits for it."""
        get_current_stream().synchronize()
        return self._host

    def get(self, *, out: np.ndarray | None = None) -> np.ndarray:
        if out is not None:
            _check_transfer(self, out)
            if not out.flags.c_contiguous:
                raise RuntimeError(
                    "`out` cannot be specified when copying to non-contiguous ndarray"
                )
        self._machine.copies.append(("down", self.nbytes))
        if out is None:
            return np.array(self._settled(), order="C")
        np.copyto(out, self._settled())
        return out

    def set(self, arr: np.ndarray, stream: Stream | None = None) -> None:
        """Queue a copy on a stream, the current one by default.

        CUDA may read memory that is not pinned before this returns, or when the stream
        comes to it: all that the copy has is an address.
        """
        _check_transfer(self, arr)
        if not self._host.flags.forc:
            raise RuntimeError("Cannot set to non-contiguous array")
        arr = np.asarray(arr, order="C" if self.flags.c_contiguous else "F")
        self._machine.copies.append(("up", self.nbytes))
        there, read = self._host, pinned.pool.reader(arr)
        submit(lambda: np.copyto(there, read()), stream)

    def __array__(self, *_args: object, **_options: object) -> np.ndarray:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` "
            "to construct a NumPy array explicitly."
        )

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **options: object
    ) -> object:
        return on_device(self._machine, getattr(ufunc, method), inputs, options)

    def __array_function__(self, function: Callable, *_: object) -> object:
        raise TypeError(unused(f"numpy.{function.__name__} of arrays on a device"))

    def __getattr__(self, name: str) -> object:
        if name not in METHODS:
            raise AttributeError(unused(f"cupy.ndarray.{name}"))

        def method(*args: object, **options: object) -> object:
            function = getattr(np.ndarray, name)
            return on_device(self._machine, function, (self, *args), options)

        return method

    def __getitem__(self, key: object) -> "ndarray":
        self._count_index(key)
        host = _lower(key)
        if deferred() and not _is_mask(host):
            picked = _queued(self._machine, np.ndarray.__getitem__, (self._host, host))
            if picked is not None:
                return picked(self)
        picked = self._settled()[host]
        if isinstance(picked, np.generic):  # CuPy gives a view of no dimensions
            picked = self._host[(*(host if isinstance(host, tuple) else (host,)), ...)]
        return lift(self._machine, picked, [self])

    def __setitem__(self, key: object, value: object) -> None:
        if isinstance(value, np.ndarray | list):
            raise TypeError(f"Unsupported type {type(value)}")
        self._count_index(key)
        there, key, value = self._host, _lower(key), _lower(value)
        submit(lambda: there.__setitem__(key, value))

    def _count_index(self, key: object) -> None:
        """Note the copies that CuPy makes of an index: lists and host arrays go up.

        To pick by a mask, it waits for the number of entries.
        """
        for part in key if isinstance(key, tuple) else (key,):
            if isinstance(part, list | np.ndarray):
                self._machine.copies.append(("up", np.asarray(part).nbytes))
            if _is_mask(part):
                self._machine.copies.append(("down", 4))

    def __iter__(self) -> "Iterator[ndarray]":
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __len__(self) -> int:
        return len(self._host)

    def __bool__(self) -> bool:
        return bool(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __repr__(self) -> str:
        return repr(self._settled())

    def __str__(self) -> str:
        return str(self._settled())


def _check_transfer(array: ndarray, host: object) -> None:
    if not isinstance(host, np.ndarray):
        raise TypeError(f"Only numpy.ndarray can be used, not {type(host)}.")
    if host.dtype != array.dtype:
        raise TypeError(f"{host.dtype} array does not match {array.dtype} array")
    if host.shape != array.shape:
        raise ValueError(f"Shape mismatch: {host.shape} and {array.shape}")


def new_array(
    machine: Machine,
    shape: object,
    dtype: object,
    *,
    zero: bool = False,
    order: str = "C",
) -> ndarray:
    """Allocate on the current device; poisoned unless ``zero``."""
    shape = (shape,) if np.ndim(shape) == 0 else tuple(shape)
    kind = np.dtype(dtype)
    nbytes = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    try:
        allocation = machine.device().allocate(nbytes)
    except OutOfMemoryError:
        if machine.allocator is None:  # only CuPy's pool says it in words
            raise no_memory() from None
        raise
    allocation.fill(zero=zero)
    host = np.ndarray(shape, kind, allocation.block.bytes, order=order)
    return ndarray(machine, allocation, host)


def upload(machine: Machine, host: np.ndarray, order: str = "C") -> ndarray:
    """Copy a host array to the current device.

    In order "K" a single row or column is of Fortran's order, as CuPy makes it.
    """
    if order == "K" and host.flags.f_contiguous:
        array = new_array(machine, host.shape, host.dtype, order="F")
    else:
        array = _empty_like(machine, host)
    if pinned.pool.holds(host):  # no copy in between: it is read when its turn comes
        read, there = pinned.pool.reader(host), array._host
        submit(lambda: np.copyto(there, read()))
        return array
    there, here = array._host, host.copy() if deferred() else host
    submit(lambda: np.copyto(there, here))
    return array


def _empty_like(machine: Machine, host: np.ndarray) -> ndarray:
    fortran = host.flags.f_contiguous and not host.flags.c_contiguous
    return new_array(machine, host.shape, host.dtype, order="F" if fortran else "C")


def on_device(
    machine: Machine, function: Callable, args: tuple, options: dict
) -> object:
    """Let NumPy compute with device memory; the result is on the device.

    Host arrays among the arguments raise, as in CuPy.
    """
    arrays: list[ndarray] = []
    _collect((args, options), arrays)
    name = getattr(function, "__name__", "")
    if name in METHODS and _NOT_OF_REDUCTIONS & options.keys():
        raise TypeError(f"{name}() of CuPy takes no {sorted(options)}.")
    out = options.get("out")
    args, options = _lower(args), _lower(options)
    if out is not None:
        submit(lambda: function(*args, **options))
        return out[0] if isinstance(out, tuple) else out
    if arrays and deferred():
        if isinstance(function, np.ufunc) or name in _QUEUED:
            result = _queued(machine, function, args, options)
            if result is not None:
                return result(*arrays)
        get_current_stream().synchronize()
    return lift(machine, function(*args, **options), arrays)


def _queued(
    machine: Machine, function: Callable, args: tuple, options: dict | None = None
) -> "Callable[..., ndarray] | None":
    """Queue a computation; return what wraps its result, given its arguments.

    A first run on whatever the memory holds tells the shape; None if it fails.
    """
    options = options or {}
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shaped = function(*args, **options)
    except (IndexError, ValueError):
        return None
    if isinstance(shaped, np.generic):
        shaped = np.asarray(shaped)
    if not isinstance(shaped, np.ndarray):
        return None

    def wrap(*sources: ndarray) -> ndarray:
        owner = _owner(shaped, sources)
        if owner is not None:
            return ndarray(machine, owner, shaped)
        array = _empty_like(machine, shaped)
        there = array._host
        submit(lambda: np.copyto(there, function(*args, **options)))
        return array

    return wrap


def _owner(result: np.ndarray, sources: "Sequence[ndarray]") -> Allocation | None:
    """Return the allocation that a result is a view of."""
    for source in sources:
        offset = result.ctypes.data - source._allocation.address
        if 0 <= offset < max(1, source._allocation.nbytes):
            return source._allocation
    return None


def _is_mask(key: object) -> bool:
    """Whether an index selects by values, so that its result has no known shape."""
    parts = key if isinstance(key, tuple) else (key,)
    return any(getattr(part, "dtype", None) == np.bool_ for part in parts)


def lift(machine: Machine, result: object, sources: list[ndarray]) -> object:
    """Wrap a result: a view keeps its memory, anything new is allocated."""
    if isinstance(result, np.generic):
        result = np.asarray(result)
    if isinstance(result, tuple | list):
        kind = tuple if isinstance(result, tuple) else list
        return kind(lift(machine, item, sources) for item in result)
    if not isinstance(result, np.ndarray):
        return result
    owner = _owner(result, sources)
    if owner is not None:
        return ndarray(machine, owner, result)
    return upload(machine, result)


def _lower(value: object) -> object:
    if isinstance(value, ndarray):
        return value._host
    if isinstance(value, tuple | list):
        kind = tuple if isinstance(value, tuple) else list
        return kind(_lower(item) for item in value)
    if isinstance(value, dict):
        return {name: _lower(item) for name, item in value.items()}
    return value


def _collect(value: object, arrays: list[ndarray]) -> None:
    if isinstance(value, ndarray):
        arrays.append(value)
    elif isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    elif isinstance(value, tuple | list):
        for item in value:
            _collect(item, arrays)
    elif isinstance(value, dict):
        _collect(tuple(value.values()), arrays)
