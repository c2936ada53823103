"""Reads safetensors files: 8 bytes with the header's length, a JSON header, the arrays."""

from __future__ import annotations

import json
import math
import os
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.errors import ShoalError

_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1", "U8": "<u1",
    "U16": "<u2", "U32": "<u4", "U64": "<u8", "BOOL": "?",
}  # fmt: skip
_MAX_HEADER = 100 << 20


def read(path: str) -> dict[str, npt.NDArray[Any]]:
    """Returns the arrays by name. They are parts of the mapped file, for reading only."""
    size = os.path.getsize(path)
    try:
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > min(size, _MAX_HEADER):
                raise ValueError(f"its header has {length} bytes")
            header = json.loads(file.read(length))
        content = np.memmap(path, np.uint8, "r", 8 + length) if size > 8 + length else np.empty(0, np.uint8)
        result = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            dtype, shape = np.dtype(_TYPES[entry["dtype"]]), tuple(entry["shape"])
            begin, end = entry["data_offsets"]
            if not 0 <= begin <= end <= len(content) or end - begin != math.prod(shape) * dtype.itemsize:
                raise ValueError(f"{name} is at {begin} to {end} of {len(content)} bytes")
            result[name] = content[begin:end].view(dtype).reshape(shape)
        return result
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ShoalError(f"{path} is not a safetensors file that can be read: {error}") from None


def metadata(path: str) -> dict[str, str]:
    """Returns the texts beside the arrays of a file that read() has read."""
    with open(path, "rb") as file:
        header = json.loads(file.read(*struct.unpack("<Q", file.read(8))))
    return dict(header.get("__metadata__", {}))
