"""What a multiprocessor of each architecture has, and how many blocks fit on it.

Numbers: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
Arithmetic: NVIDIA's ``cuda_occupancy.h``.
"""

from typing import NamedTuple

WARP = 32
REGISTERS = 65_536  # of a multiprocessor, and the most for a block
_QUARTERS = 4  # of a multiprocessor; a warp lives in one of them
_REGISTER_UNIT = 256  # in which registers are given to a warp


class Architecture(NamedTuple):
    """Limits of one architecture."""

    number: int
    device: str  # a well-known one
    warps: int  # that a multiprocessor holds
    blocks: int  # that a multiprocessor holds
    shared: int  # bytes of a multiprocessor
    reserved: int  # of them, by the driver for each block
    shared_unit: int  # in which they are given to a block

    @property
    def name(self) -> str:
        return f"sm_{self.number}"

    @property
    def shared_limit(self) -> int:
        """The most bytes for a block that asks for more than 48 KiB."""
        return self.shared - self.reserved

    def blocks_together(self, registers: int, threads: int, shared: int) -> int:
        """Return how many blocks a multiprocessor holds at once.

        >>> ARCHITECTURES[80].blocks_together(registers=64, threads=512, shared=0)
        2
        >>> ARCHITECTURES[80].blocks_together(registers=64, threads=512, shared=99_000)
        1
        """
        warps = -(-threads // WARP)
        quarter = REGISTERS // _QUARTERS // registers_of_warp(registers)
        by_shared = self.blocks
        if shared + self.reserved:
            by_shared = self.shared // _up(shared + self.reserved, self.shared_unit)
        return min(
            _QUARTERS * quarter // warps, self.warps // warps, by_shared, self.blocks
        )

    def occupancy(self, registers: int, threads: int, shared: int) -> float:
        """Return the warps on a multiprocessor as a share of those it could hold."""
        blocks = self.blocks_together(registers, threads, shared)
        return blocks * -(-threads // WARP) / self.warps


def registers_of_warp(registers: int) -> int:
    """Return what a warp takes whose threads have so many registers.

    >>> registers_of_warp(65)
    2304
    """
    return _up(registers * WARP, _REGISTER_UNIT)


def _up(amount: int, unit: int) -> int:
    return -(-amount // unit) * unit


_KIB = 1024
ARCHITECTURES = {
    architecture.number: architecture
    for architecture in (
        Architecture(70, "V100", 64, 32, 96 * _KIB, 0, 256),
        Architecture(75, "T4", 32, 16, 64 * _KIB, 0, 256),
        Architecture(80, "A100", 64, 32, 164 * _KIB, _KIB, 128),
        Architecture(86, "RTX 3090", 48, 16, 100 * _KIB, _KIB, 128),
        Architecture(89, "L4", 48, 24, 100 * _KIB, _KIB, 128),
        Architecture(90, "H100", 64, 32, 228 * _KIB, _KIB, 128),
        Architecture(100, "B200", 64, 32, 228 * _KIB, _KIB, 128),
        Architecture(120, "RTX 5090", 48, 24, 100 * _KIB, _KIB, 128),
    )
}
