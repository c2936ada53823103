#!/usr/bin/env python3
"""Writes clicks with columns of ids, as data of one's own may be: DIR/train.csv and DIR/test.csv, or the same examples as arrays of
NumPy or as TFRecord files. deploy/runs/own_clicks.textproto trains on the tables.

An example is a time of the day, a user, the items that the user has seen before, each with the seconds of the visit, the words of a query,
the item that is shown, and whether there was a click. Some examples lack the user, and some users have seen nothing."""
import argparse
import gzip
import pathlib
import random
import struct

USERS, ITEMS, KINDS = 300, 200, 5
WORDS = ("red", "green", "blue", "large", "small", "old", "new")


def example(draw, number):
    """Users mostly look at items of the kind that they like, and click on them; words of the query matter a little."""
    user, item = draw.randrange(USERS), draw.randrange(ITEMS)
    seen = []
    for _ in range(draw.randrange(6)):
        liked = draw.randrange(ITEMS // KINDS) * KINDS + user % KINDS
        seen.append((liked if draw.random() < 0.8 else draw.randrange(ITEMS), draw.randrange(1, 9) / 8))
    words = draw.sample(range(len(WORDS)), draw.randrange(3))
    likely = 0.85 if item % KINDS == user % KINDS else 0.1
    if 0 in words:
        likely = 0.5 * likely + 0.5
    return {"click": int(draw.random() < likely), "time": draw.randrange(96) / 96, "day": f"day {number % 7}",
            "user": None if draw.random() < 0.05 else user, "item": item, "seen": seen, "query": words}


def csv(examples):
    lines = ["click,day,time,user,item,seen,query"]
    for one in examples:
        seen = "|".join(f"{item}:{seconds}" for item, seconds in one["seen"])
        lines.append(f"{one['click']},{one['day']},{one['time']},{'' if one['user'] is None else one['user']},{one['item']},{seen},"
                     + " ".join(WORDS[word] for word in one["query"]))
    return "\n".join(lines) + "\n"


def npy(kind, shape, values):
    """An array of NumPy: '<i8' or '<f4'."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}".encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    content = struct.pack(f"<{len(values)}{'q' if kind == '<i8' else 'f'}", *values)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


def arrays(examples):
    """NAME -> the array's bytes. A missing user is -1, words are their numbers, and a query has two of them or fewer."""
    seen = [pair for one in examples for pair in one["seen"]]
    offsets = [0]
    for one in examples:
        offsets.append(offsets[-1] + len(one["seen"]))
    words = [word for one in examples for word in (one["query"] + [-1, -1])[:2]]
    count = len(examples)
    return {"y": npy("<i8", [count], [one["click"] for one in examples]),
            "x": npy("<f4", [count, 1], [one["time"] for one in examples]),
            "user": npy("<i8", [count], [-1 if one["user"] is None else one["user"] for one in examples]),
            "item": npy("<i8", [count], [one["item"] for one in examples]),
            "seen": npy("<i8", [len(seen)], [item for item, _ in seen]),
            "seen_offsets": npy("<i8", [count + 1], offsets),
            "seconds": npy("<f4", [len(seen)], [seconds for _, seconds in seen]),
            "query": npy("<i8", [count, 2], words)}


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, content):
    """A field of a protocol buffer that has a length."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def record(one):
    """A tf.Example; a missing value is a missing feature."""
    features = {"click": (3, varint(one["click"])), "time": (2, struct.pack("<f", one["time"])), "item": (3, varint(one["item"]))}
    if one["user"] is not None:
        features["user"] = (3, varint(one["user"]))
    if one["seen"]:
        features["seen"] = (3, b"".join(varint(item) for item, _ in one["seen"]))
        features["seconds"] = (2, b"".join(struct.pack("<f", seconds) for _, seconds in one["seen"]))
    lists = {name: field(kind, field(1, values)) for name, (kind, values) in features.items()}
    if one["query"]:
        lists["query"] = field(1, b"".join(field(1, WORDS[word].encode()) for word in one["query"]))
    return field(1, b"".join(field(1, field(1, name.encode()) + field(2, values)) for name, values in sorted(lists.items())))


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc32c_table()


def masked_crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xff] ^ crc >> 8
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def tfrecord(examples):
    out = []
    for one in examples:
        content = record(one)
        length = struct.pack("<Q", len(content))
        out.append(length + struct.pack("<I", masked_crc32c(length)) + content + struct.pack("<I", masked_crc32c(content)))
    return b"".join(out)


def write(out, split, kind, examples):
    """Returns the names of the files."""
    if kind == "npy":
        files = {f"{name}_{split}.npy": content for name, content in arrays(examples).items()}
    elif kind == "tfrecord":
        files = {f"{split}.tfrecord": tfrecord(examples)}
    else:
        content = csv(examples).encode()
        files = {f"{split}.{kind}": gzip.compress(content, mtime=0) if kind == "csv.gz" else content}
    for name, content in files.items():
        (out / name).write_bytes(content)
    return sorted(files)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", metavar="DIR", type=pathlib.Path, required=True)
    parser.add_argument("--format", choices=("csv", "csv.gz", "npy", "tfrecord"), default="csv")
    parser.add_argument("--train_examples", metavar="N", type=int, default=20000)
    parser.add_argument("--test_examples", metavar="N", type=int, default=2000)
    parser.add_argument("--seed", metavar="N", type=int, default=1)
    flags = parser.parse_args()
    draw = random.Random(flags.seed)
    try:
        flags.out.mkdir(parents=True, exist_ok=True)
        for split, count in (("train", flags.train_examples), ("test", flags.test_examples)):
            names = write(flags.out, split, flags.format, [example(draw, number) for number in range(count)])
            print(f"{flags.out}: {', '.join(names)}: {count} examples")
    except OSError as error:
        parser.exit(1, f"make_clicks: {error}\n")


if __name__ == "__main__":
    main()
