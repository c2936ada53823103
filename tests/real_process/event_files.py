"""Reads TensorBoard event files with nothing but Python: records, checksums, events, what a restart makes void."""
import pathlib
import struct


def _table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        length, checksum = struct.unpack_from("<QI", data, at)
        assert masked_crc32c(data[at:at + 8]) == checksum, f"length at {at}"
        record = data[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length) == (masked_crc32c(record),), f"record at {at}"
        yield record
        at += length + 16


def fields(message):
    """(number, value) of a protocol buffer: integers, floats by their width, else bytes."""
    def varint(at):
        value = shift = 0
        while True:
            byte = message[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value, at
    at = 0
    while at < len(message):
        key, at = varint(at)
        kind = key & 7
        if kind == 0:
            value, at = varint(at)
        elif kind == 2:
            length, at = varint(at)
            value, at = message[at:at + length], at + length
        else:
            width, code = {1: (8, "<d"), 5: (4, "<f")}[kind]
            (value,) = struct.unpack_from(code, message, at)
            at += width
        yield key >> 3, value


def histogram(message):
    parts = dict(fields(message))
    doubles = {number: struct.unpack(f"<{len(parts[number]) // 8}d", parts[number]) for number in (6, 7)}
    return {"num": parts.get(3, 0), "sum": parts.get(4, 0), "sum_squares": parts.get(5, 0),
            "limits": doubles[6], "counts": doubles[7]}


def read(directory):
    """(tag, step) -> number or histogram, of what stands, from all event files of one folder in order."""
    points = {}
    for path in sorted(pathlib.Path(directory).glob("events.out.tfevents.*")):
        events = [list(fields(record)) for record in records(path.read_bytes())]
        assert (3, b"brain.Event:2") in events[0], path
        for event in events[1:]:
            step = dict(event).get(2, 0)
            for number, value in event:
                if number == 7:  # a session starts: later steps come again
                    points = {key: point for key, point in points.items() if key[1] < step}
                if number != 5:
                    continue
                for _, summary in fields(value):
                    what = dict(fields(summary))
                    points[what[1].decode(), step] = what[2] if 2 in what else histogram(what[5])
    return points
