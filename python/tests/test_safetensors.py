import json
import struct

import numpy as np
import pytest

import shoal
from shoal import _safetensors


def write(path, arrays, header=None):
    entries, data = {"__metadata__": {"step": "3"}}, b""
    for name, array in arrays.items():
        end = len(data) + array.nbytes
        entries[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(data), end]}
        data += array.tobytes()
    text = json.dumps(header or entries).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return str(path)


def test_arrays_are_read(tmp_path):
    arrays = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.float32(4).reshape(())}
    found = _safetensors.read(write(tmp_path / "m", arrays))
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [3], "data_offsets": [-4, 8]},
        {"dtype": "F32", "shape": [3], "data_offsets": [4, 16]},
        {"dtype": "F99", "shape": [2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2]},
        7,
    ],
)
def test_damaged_files_are_refused(entry, tmp_path):
    path = write(tmp_path / "m", {"w": np.zeros(3, np.float32)}, {"w": entry})
    with pytest.raises(shoal.ShoalError, match="is not a safetensors file"):
        _safetensors.read(path)
    for content in (b"", b"\0" * 7, b"\xff" * 20, struct.pack("<Q", 4) + b"[1 2"):
        (tmp_path / "n").write_bytes(content)
        with pytest.raises(shoal.ShoalError, match="is not a safetensors file"):
            _safetensors.read(str(tmp_path / "n"))
