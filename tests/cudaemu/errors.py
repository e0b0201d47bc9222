"""What can go wrong: as CuPy says it, and as only the emulator sees it."""


class KernelFault(RuntimeError):
    """A bug in a kernel: a race, an access out of bounds, a barrier that diverges...

    ``kind`` is one of barrier, mask, deadlock, shared, bounds, misaligned, race,
    unwritten, fault, timeout, assert, trap.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class ArgumentMismatch(TypeError):
    """An argument that CuPy would pass, and that the kernel would misread."""


class CUDADriverError(RuntimeError):
    """A launch that the driver refuses, with its number in ``status``."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


class CUDARuntimeError(RuntimeError):
    """An error of the CUDA runtime, with its number in ``status``."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def no_memory() -> CUDARuntimeError:
    """Return how CUDA itself says that memory ran out."""
    return CUDARuntimeError(2, "cudaErrorMemoryAllocation: out of memory")


class OutOfMemoryError(MemoryError):
    """The simulated device has no room for an allocation."""

    def __init__(self, size: int, total: int, limit: int = 0) -> None:
        message = (
            f"Out of memory allocating {size:,} bytes "
            f"(allocated so far: {total:,} bytes"
        )
        super().__init__(
            message + (f", limit set to: {limit:,} bytes)." if limit else ").")
        )


class CompileException(Exception):
    """A source that does not compile, with the compiler's log."""

    def __init__(
        self, msg: str, source: str, name: str, options: tuple, backend: str = "nvrtc"
    ) -> None:
        super().__init__(msg)
        self._msg = msg
        self.source = source
        self.name = name
        self.options = options
        self.backend = backend

    def get_message(self) -> str:
        return self._msg

    def __str__(self) -> str:
        return self._msg
