"""Commands and their answers as bytes: numbers, text, lists and arrays, nothing else.

What is read is only ever taken for data: there is no pickle.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

_ARRAY = "\0array"
_KINDS = "biuf"


def pack(value: Any) -> bytes:
    """Return a value as bytes.

    Examples
    --------
    >>> unpack(pack(["step", np.arange(3), None]))
    ['step', array([0, 1, 2]), None]
    """
    arrays: list[np.ndarray] = []

    def plain(part: Any) -> Any:
        if isinstance(part, np.ndarray):
            assert part.dtype.kind in _KINDS, part.dtype
            arrays.append(np.ascontiguousarray(part))
            return {_ARRAY: [len(arrays) - 1, part.dtype.str, list(part.shape)]}
        if isinstance(part, (list, tuple)):
            return [plain(one) for one in part]
        if isinstance(part, dict):
            return {str(name): plain(one) for name, one in part.items()}
        return part.item() if isinstance(part, np.generic) else part

    head = json.dumps([plain(value), [array.nbytes for array in arrays]]).encode()
    bodies = [array.tobytes() for array in arrays]
    return b"".join([len(head).to_bytes(8, "little"), head, *bodies])


def unpack(packed: bytes) -> Any:
    """Return what :func:`pack` was given; arrays cannot be written to."""
    begin = 8 + int.from_bytes(packed[:8], "little")
    value, sizes = json.loads(packed[8:begin])
    ends = begin + np.cumsum(sizes, dtype=np.int64)
    bodies = [packed[end - size : end] for size, end in zip(sizes, ends, strict=True)]

    def full(part: Any) -> Any:
        if isinstance(part, list):
            return [full(one) for one in part]
        if not isinstance(part, dict):
            return part
        if _ARRAY in part:
            number, kind, shape = part[_ARRAY]
            dtype = np.dtype(kind)
            if dtype.kind not in _KINDS:
                raise ValueError(f"an array of {dtype} is no part of a message.")
            return np.frombuffer(bodies[number], dtype=dtype).reshape(shape)
        return {name: full(one) for name, one in part.items()}

    return full(value)
