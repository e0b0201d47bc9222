"""Simulated devices: their properties and their memory."""

import ctypes
import dataclasses
import mmap
import threading
import weakref
from collections.abc import Callable

import numpy as np

from cudaemu import stream
from cudaemu.config import config
from cudaemu.errors import CUDARuntimeError, OutOfMemoryError

# Shared memory that every kernel may use without asking.
FREE_SHARED_BYTES = 48 * 1024
ALIGNMENT = 512
_LARGE = 1 << 20
_GUARD_BYTES = 4096  # a multiple of the alignment
_GUARD_BYTE = 0xA5
_GUARD = bytes([_GUARD_BYTE]) * (_GUARD_BYTES + ALIGNMENT)


@dataclasses.dataclass(frozen=True)
class DeviceSpec:
    """What a simulated device has; the defaults are an A100's but for the memory."""

    name: str = "Emulated A100"
    compute_capability: tuple[int, int] = (8, 0)
    multiprocessors: int = 108
    shared_memory_optin: int = 163 * 1024
    shared_memory_per_multiprocessor: int = 164 * 1024
    memory: int = 1 << 30


class Device:
    """The state of one device: which memory is in use, and which CuPy's pool keeps.

    As in CuPy, memory that is freed goes back to the pool at once, even if work that
    uses it is still queued, and is handed out again to whoever asks on the same stream.
    Only same sizes are handed out again, and no large ones.
    """

    def __init__(self, id: int, spec: DeviceSpec) -> None:
        self.id = id
        self.spec = spec
        self.used = 0
        self.kept = 0
        self.peak = 0
        self.pool_limit = 0
        # called with number and size of an allocation, says whether it fails
        self.fails: Callable[[int, int], bool] = lambda number, nbytes: False
        self.n_asked = 0
        # finalizers give memory back from whatever thread drops the last reference
        self._lock = threading.RLock()
        self._free: dict[tuple[int, int], list[np.ndarray]] = {}

    def refuses(self, nbytes: int) -> bool:
        """Count an attempt to allocate, pinned memory too; whether it shall fail."""
        self.n_asked += 1
        return self.fails(self.n_asked, nbytes)

    def allocate(self, nbytes: int) -> "Allocation":
        """Return memory; the caller fills it, in the order of its stream."""
        rounded = -(-nbytes // ALIGNMENT) * ALIGNMENT
        with self._lock:
            if self.refuses(rounded):
                raise OutOfMemoryError(rounded, self.used, self.pool_limit)
            arena = (stream.get_current_stream().ptr, rounded)
            whole, fresh = self._from_pool(arena), False
            if whole is None:
                self._make_room(rounded)
                whole, fresh = _reserve(nbytes if config.mode == "asan" else rounded)
            self.used += rounded
            self.peak = max(self.peak, self.used)
            allocation = Allocation(self, Block(whole, nbytes), fresh)
            weakref.finalize(allocation, self._release, arena, whole)
        return allocation

    def _from_pool(self, arena: tuple[int, int]) -> np.ndarray | None:
        if not self._free.get(arena):
            return None
        self.kept -= arena[1]
        return self._free[arena].pop()

    def _make_room(self, nbytes: int) -> None:
        """Give kept memory back if the device has no more; raise if that is too little.

        The limit of the pool counts what it keeps, and is not made room for.
        """
        if self.pool_limit and self.used + self.kept + nbytes > self.pool_limit:
            raise OutOfMemoryError(nbytes, self.used, self.pool_limit)
        if self.used + self.kept + nbytes > self.spec.memory:
            self.free_all_blocks()
        if self.used + nbytes > self.spec.memory:
            raise OutOfMemoryError(nbytes, self.used, self.pool_limit)

    def _release(self, arena: tuple[int, int], whole: np.ndarray) -> None:
        with self._lock:
            self.used -= arena[1]
            if arena[1] < _LARGE and config.mode != "asan":
                self._free.setdefault(arena, []).append(whole)
                self.kept += arena[1]

    def free_all_blocks(self) -> None:
        """Give memory back to the device, which waits for all its work first."""
        stream.synchronize_all()
        with self._lock:
            self._free.clear()
            self.kept = 0

    @property
    def properties(self) -> dict[str, object]:
        """What ``cupy.cuda.runtime.getDeviceProperties`` returns."""
        major, minor = self.spec.compute_capability
        return {
            "name": self.spec.name.encode(),
            "totalGlobalMem": self.spec.memory,
            "major": major,
            "minor": minor,
        }


class Block:
    """Memory between guards, which a kernel that writes too far hits before it hits the
    test process, and which tell of it afterwards."""

    def __init__(self, whole: np.ndarray, nbytes: int) -> None:
        begin = 0 if config.mode == "asan" else _GUARD_BYTES
        self.nbytes = nbytes
        # work of an earlier owner in a queue may still use the bytes behind the last
        end = len(whole) - begin if stream.deferred() else begin + nbytes
        self.guards = whole[:begin], whole[end:]
        self.bytes = whole[begin : begin + nbytes]
        self.address = self.bytes.ctypes.data
        for part in self.guards:
            part[:] = _GUARD_BYTE

    def intact(self) -> bool:
        """Return whether nobody wrote beside the allocation; mend it if so."""
        damaged = [
            part for part in self.guards if part.tobytes() != _GUARD[: len(part)]
        ]
        for part in damaged:
            part[:] = _GUARD_BYTE
        return not damaged


class Allocation:
    """Who owns a block: while this lives, nobody else gets it.

    Queued work holds the block alone, as a GPU holds nothing but an address.
    """

    def __init__(self, device: Device, block: Block, fresh: bool = False) -> None:
        self.device = device
        self.block = block
        self.fresh = fresh  # known to be zero
        self.nbytes, self.address = block.nbytes, block.address

    def fill(self, *, zero: bool) -> None:
        """Zero the memory, or fill it with rubbish, in the order of the stream."""
        if not (zero and self.fresh):
            there, byte = self.block.bytes, 0 if zero else config.poison
            stream.submit(lambda: there.fill(byte))


def _reserve(nbytes: int) -> tuple[np.ndarray, bool]:
    """Return memory with guards, and whether it is known to be zero.

    Large memory comes as untouched pages: a huge array of zeros costs nothing. But
    AddressSanitizer needs malloc, of exactly the size, for its red zone at the end.
    """
    guards = 0 if config.mode == "asan" else 2 * _GUARD_BYTES
    if nbytes >= _LARGE and guards:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        return np.frombuffer(mmap.mmap(-1, nbytes + guards, flags), np.uint8), True
    libc = ctypes.CDLL(None)
    libc.free.argtypes = [ctypes.c_void_p]
    address = ctypes.c_void_p()
    size = max(nbytes + guards, 1)
    alignment = ctypes.c_size_t(ALIGNMENT)
    if libc.posix_memalign(ctypes.byref(address), alignment, ctypes.c_size_t(size)):
        raise MemoryError(f"the host has no {nbytes} bytes for a simulated device.")
    raw = (ctypes.c_uint8 * size).from_address(address.value)
    weakref.finalize(raw, libc.free, address.value).atexit = False
    return np.frombuffer(raw, np.uint8)[: nbytes + guards], False


class Machine:
    """All devices of a simulated machine, and which one is current."""

    def __init__(self, specs: tuple[DeviceSpec, ...]) -> None:
        self.devices = [Device(id, spec) for id, spec in enumerate(specs)]
        # ("up" or "down", bytes) of every copy between host and device
        self.copies: list[tuple[str, int]] = []
        # the largest pinned buffer that CuPy made for a copy by itself, and keeps
        self.staged = 0
        # bytes of every pinned buffer that was asked for, as the pool rounds them
        self.pinned: list[int] = []
        # what hands out memory: CuPy's pool, or None for CUDA itself
        self.allocator: object = "CuPy's pool"
        # CUDA's number of the driver's version, 0 where there is none
        self.driver = 12_090 if specs else 0
        self._local = threading.local()

    def device(self, id: int | None = None) -> Device:
        """Return a device, the current one by default."""
        if not self.devices:
            raise CUDARuntimeError(
                100, "cudaErrorNoDevice: no CUDA-capable device is detected"
            )
        id = self.current if id is None else id
        if not 0 <= id < len(self.devices):
            raise CUDARuntimeError(
                101, "cudaErrorInvalidDevice: invalid device ordinal"
            )
        return self.devices[id]

    @property
    def current(self) -> int:
        return getattr(self._local, "device", 0)

    @current.setter
    def current(self, id: int) -> None:
        self._local.device = id


class DeviceHandle:
    """``cupy.cuda.Device``: names a device, makes it current in a ``with`` block."""

    def __init__(self, machine: Machine, id: int | None = None) -> None:
        self._machine = machine
        self._before: list[int] = []
        self.id = machine.device(id).id

    def __enter__(self) -> "DeviceHandle":
        self._before.append(self._machine.current)
        self._machine.current = self.id
        return self

    def __exit__(self, *_error: object) -> None:
        self._machine.current = self._before.pop()

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    @property
    def _spec(self) -> DeviceSpec:
        return self._machine.device(self.id).spec

    @property
    def compute_capability(self) -> str:
        return "{}{}".format(*self._spec.compute_capability)

    @property
    def mem_info(self) -> tuple[int, int]:
        device = self._machine.device(self.id)
        return self._spec.memory - device.used - device.kept, self._spec.memory

    @property
    def attributes(self) -> dict[str, int]:
        return {
            "MultiProcessorCount": self._spec.multiprocessors,
            "MaxSharedMemoryPerBlockOptin": self._spec.shared_memory_optin,
            "MaxSharedMemoryPerMultiprocessor": (
                self._spec.shared_memory_per_multiprocessor
            ),
        }
