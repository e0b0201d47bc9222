"""``cupy.RawModule`` on the emulator."""

from cudaemu.device import FREE_SHARED_BYTES, Machine
from cudaemu.errors import CUDADriverError
from cudaemu.launch import Source
from cudaemu.report import Report
from cudaemu.stream import submit


class RawModule:
    """CUDA text; nothing is compiled, and no device needed, before it is used."""

    machine: Machine

    def __init__(
        self,
        *,
        code: str,
        options: tuple[str, ...] = (),
    ) -> None:
        if not isinstance(options, tuple):  # as Cython types it in CuPy
            raise TypeError(f"options should be a tuple, not {type(options)}.")
        self.code = code
        self.options = options
        self._sources: dict[str, Source] = {}
        # of (kernel, device): the driver keeps it with the function, not the object
        self._shared_allowed: dict[tuple[str, int], int] = {}

    def _source(self) -> Source:
        major, minor = self.machine.device().spec.compute_capability
        target = f"{major}{minor}"
        if target not in self._sources:
            self._sources[target] = Source(self.code, self.options, target)
        return self._sources[target]

    def get_function(self, name: str) -> "Function":
        if name not in self._source().library().kernels:
            raise CUDADriverError(
                "CUDA_ERROR_NOT_FOUND: named symbol not found: " + name
            )
        return Function(self, name)


class Function:
    """One kernel. ``report`` is that of its last launch."""

    report: Report | None = None

    def __init__(self, module: RawModule, name: str) -> None:
        self._module = module
        self.name = self.__name__ = name

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: tuple[object, ...],
        *,
        shared_mem: int = 0,
    ) -> None:
        for name, shape in (("grid", grid), ("block", block)):
            if not isinstance(shape, tuple):
                raise TypeError(f"{name} should be a tuple, not {type(shape)}.")
        device = self._module.machine.device()
        library = self._module._source().library()
        run = library.prepare(
            self.name, grid, block, args, shared_mem, device, self._allowed
        )

        def work() -> None:
            self.report = run()

        submit(work)

    @property
    def _key(self) -> tuple[str, int]:
        return self.name, self._module.machine.device().id

    @property
    def _allowed(self) -> int:
        return self._module._shared_allowed.get(self._key, FREE_SHARED_BYTES)

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        return self._allowed

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        limit = self._module.machine.device().spec.shared_memory_optin
        if not 0 <= size <= limit:
            raise CUDADriverError(
                f"CUDA_ERROR_INVALID_VALUE: max_dynamic_shared_size_bytes={size} "
                f"should be at most {limit}."
            )
        self._module._shared_allowed[self._key] = size
