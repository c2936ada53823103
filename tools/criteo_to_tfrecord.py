#!/usr/bin/env python3
"""Converts lines of Criteo's click logs (.tsv, .tsv.gz, or - for standard input) to TFRecord files, which no worker of Shoal holds in
memory. The keys and the numbers are those of `format: criteo`. The output is the `data` of a run file, behind a comment.

A file is converted on one CPU: divide a large one (split -l), and convert the parts at the same time, to train-00000.tfrecord,
train-00001.tfrecord and so on."""
import argparse
import contextlib
import gzip
import math
import pathlib
import struct
import sys

from make_clicks import field, masked_crc32c, varint

NUMBERS, TEXTS = 13, 26
NAMES = ["label", "numbers"] + [f"c{column}" for column in range(1, TEXTS + 1)]
# The first bytes of a feature: its name.
FIRST = [field(1, name.encode()) for name in NAMES]


def record(line):
    """A tf.Example; a missing text is a missing feature."""
    cells = line.split(b"\t")
    if len(cells) != 1 + NUMBERS + TEXTS or cells[0] not in (b"0", b"1"):
        raise ValueError(f"has {len(cells)} columns and the label {cells[0].decode(errors='replace')!r}, not 40 and 0 or 1")
    numbers = [math.log1p(max(0, int(cell or 0))) for cell in cells[1:1 + NUMBERS]]
    values = [field(3, field(1, varint(int(cells[0])))), field(2, field(1, struct.pack(f"<{NUMBERS}f", *numbers)))]
    values += [field(1, field(1, text)) if text else b"" for text in cells[1 + NUMBERS:]]
    return field(1, b"".join(field(1, first + field(2, value)) for first, value in zip(FIRST, values) if value))


def convert(lines, out):
    """Returns the number of examples."""
    number = 0
    for number, line in enumerate(lines, 1):
        try:
            content = record(line.rstrip(b"\r\n"))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        length = struct.pack("<Q", len(content))
        out.write(b"%b%b%b%b" % (length, struct.pack("<I", masked_crc32c(length)), content,
                                 struct.pack("<I", masked_crc32c(content))))
    return number


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", metavar="FILE")
    parser.add_argument("output", metavar="OUT.tfrecord", type=pathlib.Path)
    flags = parser.parse_args()
    partial = flags.output.with_name(f".{flags.output.name}.partial")  # A run reads train*.tfrecord*.
    try:
        with contextlib.ExitStack() as stack:
            opened = gzip.open if flags.input.endswith(".gz") else open
            lines = sys.stdin.buffer if flags.input == "-" else stack.enter_context(opened(flags.input, "rb"))
            count = convert(lines, stack.enter_context(open(partial, "wb")))
        partial.replace(flags.output)
    except (OSError, EOFError, ValueError) as error:
        partial.unlink(missing_ok=True)
        parser.exit(1, f"criteo_to_tfrecord: {flags.input}: {error}\n")
    print(f"# {flags.output}: {count} examples")
    print(f'data {{\n  format: tfrecord\n  directory: "{flags.output.resolve().parent}"\n  tfrecord {{ label: "label" }}\n'
          '  numbers: "numbers"')
    print("\n".join(f'  ids {{ column: "{name}" words: true }}' for name in NAMES[2:]) + "\n}")


if __name__ == "__main__":
    main()
