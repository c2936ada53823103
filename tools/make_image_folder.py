#!/usr/bin/env python3
"""Writes IDX data, by default Debian's Fashion-MNIST, as an image folder: DIR/train/<class>/*.png and DIR/test/<class>/*.png."""
import argparse
import gzip
import math
import pathlib
import struct
import zlib


def read_idx(path):
    """Returns the dimensions and the bytes of an IDX file, which may be compressed as PATH.gz."""
    compressed = path.with_name(path.name + ".gz")
    data = gzip.decompress(compressed.read_bytes()) if compressed.exists() else path.read_bytes()
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError(f"{path}: not an IDX file of bytes")
    end = 4 + 4 * data[3]
    dims = struct.unpack(f">{data[3]}I", data[4:end]) if len(data) >= end else ()
    if len(data) != end + math.prod(dims):
        raise ValueError(f"{path}: its length does not fit its dimensions {dims}")
    return dims, data[end:]


def png(height, width, pixels):
    """Returns a PNG file of 8-bit grey pixels."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    rows = b"".join(b"\0" + pixels[row * width:(row + 1) * width] for row in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def write_split(source, prefix, target, wanted):
    """Writes the first `wanted` images of a split, or all if it is 0; returns their number."""
    (count, height, width), pixels = read_idx(source / f"{prefix}-images-idx3-ubyte")
    (labelled,), labels = read_idx(source / f"{prefix}-labels-idx1-ubyte")
    if count != labelled:
        raise ValueError(f"{source}: {prefix} has {count} images and {labelled} labels")
    count = min(wanted or count, count)
    for label in set(labels[:count]):
        (target / f"{label:02d}").mkdir(parents=True, exist_ok=True)
    size = height * width
    for i in range(count):
        file = target / f"{labels[i]:02d}" / f"{i:05d}.png"
        file.write_bytes(png(height, width, pixels[i * size:(i + 1) * size]))
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", metavar="DIR", type=pathlib.Path, required=True)
    parser.add_argument("--idx_dir", metavar="DIR", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--train_examples", metavar="N", type=int, default=0, help="only the first N; 0: all")
    parser.add_argument("--test_examples", metavar="N", type=int, default=0, help="only the first N; 0: all")
    flags = parser.parse_args()
    try:
        for prefix, split, wanted in (("train", "train", flags.train_examples), ("t10k", "test", flags.test_examples)):
            print(f"{flags.out / split}: {write_split(flags.idx_dir, prefix, flags.out / split, wanted)} images")
    except (OSError, ValueError) as error:
        parser.exit(1, f"make_image_folder: {error}\n")


if __name__ == "__main__":
    main()
