#!/usr/bin/env python3
"""Tests tools/make_image_folder.py on IDX files of 2 x 3 pixels."""
import gzip
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

TOOL = pathlib.Path(__file__).with_name("make_image_folder.py")
LABELS = bytes([7, 0, 7, 1])
IMAGES = bytes(range(24))


def write_idx(directory):
    images = b"\0\0\x08\x03" + struct.pack(">III", 4, 2, 3) + IMAGES
    labels = b"\0\0\x08\x01" + struct.pack(">I", 4) + LABELS
    (directory / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
    (directory / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    (directory / "t10k-images-idx3-ubyte").write_bytes(images)
    (directory / "t10k-labels-idx1-ubyte").write_bytes(labels)


def run(*flags):
    return subprocess.run([sys.executable, TOOL, *flags], capture_output=True, text=True, check=False)


def pixels(file):
    """Returns the pixels of a PNG file whose checksums are right and whose rows have no filter."""
    data, at, rows = file.read_bytes(), 8, b""
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8:at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length)[0] == zlib.crc32(kind + body), kind
        rows += body if kind == b"IDAT" else b""
        at += 12 + length
    rows = zlib.decompress(rows)
    assert rows[0] == rows[4] == 0
    return rows[1:4] + rows[5:]


with tempfile.TemporaryDirectory() as name:
    root = pathlib.Path(name)
    write_idx(root)
    out = root / "out"
    done = run(f"--idx_dir={root}", f"--out={out}", "--test_examples=2")
    assert done.returncode == 0, done.stderr
    files = {str(file.relative_to(out)): pixels(file) for file in out.rglob("*.png")}
    expected = {f"train/{LABELS[i]:02d}/{i:05d}.png": IMAGES[6 * i:6 * i + 6] for i in range(4)}
    expected.update({f"test/{LABELS[i]:02d}/{i:05d}.png": IMAGES[6 * i:6 * i + 6] for i in range(2)})
    assert files == expected, files
    (root / "t10k-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03")
    broken = run(f"--idx_dir={root}", f"--out={out}")
    assert broken.returncode == 1 and "t10k-images-idx3-ubyte: " in broken.stderr, broken.stderr
    missing = run(f"--idx_dir={root}/none", f"--out={out}")
    assert missing.returncode == 1 and "none/train-images-idx3-ubyte" in missing.stderr, missing.stderr
