"""The messages between a worker and a compute program, and their order: docs/compute_program.md, versions 1 to 5.

Everything here is a pure function of bytes. Conversation is the program's side; the owner of the socket gives it the
bytes that arrive and sends the bytes that it returns.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Optional, Protocol, Union

import numpy as np
import numpy.typing as npt

from shoal.errors import ProgramError, ProtocolError

MAGIC = 0x314D4752504C4853
OLDEST_VERSION = 1
VERSION = 5

HELLO, DECLARE, READY, FINAL, DONE, ERROR, LOOK_UP, LOOK_AHEAD, PROGRESS = 1, 2, 3, 4, 5, 6, 7, 8, 9
WELCOME, LAYOUT, TRAIN, EVALUATE, ANNOUNCE, FINISH, ROWS = 17, 18, 19, 20, 21, 22, 23
NAMES = {
    1: "HELLO", 2: "DECLARE", 3: "READY", 4: "FINAL", 5: "DONE", 6: "ERROR", 7: "LOOK_UP", 8: "LOOK_AHEAD",
    9: "PROGRESS",
    17: "WELCOME", 18: "LAYOUT", 19: "TRAIN", 20: "EVALUATE", 21: "ANNOUNCE", 22: "FINISH", 23: "ROWS",
}  # fmt: skip

TRAINABLE, ASSIGN, FROZEN = 1, 2, 3
ONLY_DECLARE = 1  # a purpose of WELCOME
MEAN, AUC = 1, 2  # kinds of metrics
OVER, STOPPED, FAILED, DECLARED, REFUSED = 0, 1, 2, 3, 4  # reasons of FINISH

MAX_PAYLOAD = 1 << 30  # A batch of 2^27 examples; a longer message is not one.
MAX_ERROR_MESSAGE = 4096
MAX_TRACEBACK = 65536

Indices = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Declaration:
    """A declaration: `metrics` are (name, kind), `variables` are (name, kind, shape), `tables` are text."""

    train_examples: int
    test_examples: int
    data_fingerprint: int
    announcements: int
    computation: str
    settings: str
    metrics: Sequence[tuple[str, int]]
    variables: Sequence[tuple[str, int, tuple[int, ...]]]
    tables: str = ""


@dataclass(frozen=True)
class Welcome:
    version: int
    purpose: int
    worker: int
    workers: int
    seed: int
    directory: str
    run_file: str


@dataclass(frozen=True)
class Layout:
    """Sizes of both files, and for each variable its offsets: parameter sets 0 and 1, contribution sets 0 and 1."""

    parameters_size: int
    contributions_size: int
    offsets: Sequence[tuple[int, int, int, int]]


@dataclass(frozen=True)
class Assignment:
    """TRAIN or EVALUATE."""

    is_training: bool
    work: int
    step: int
    epoch: int
    index: int
    seed: int
    parameter_set: int
    contribution_set: int
    indices: Indices = field(compare=False)


@dataclass(frozen=True)
class Announcement:
    epoch: int
    index: int
    indices: Indices = field(compare=False)


@dataclass(frozen=True)
class RowPlaces:
    """ROWS: for each table of the LOOK_UP the offset of its rows in the file of parameters, and of their gradients in
    that of contributions."""

    work: int
    offsets: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Finish:
    reason: int
    text: str


class Counts(Protocol):
    """The histogram of an AUC: for each bin of scores its number and its positive and negative examples."""

    @property
    def bins(self) -> npt.NDArray[np.uint32]: ...
    @property
    def positives(self) -> npt.NDArray[np.uint32]: ...
    @property
    def negatives(self) -> npt.NDArray[np.uint32]: ...


MetricValue = Union[tuple[float, float], Counts]
Message = Union[Welcome, Layout, Assignment, Announcement, RowPlaces, Finish]


def message(kind: int, payload: bytes = b"") -> bytes:
    return struct.pack("<II", len(payload), kind) + payload


def string(text: str, limit: Optional[int] = None) -> bytes:
    """A string field; one that is too long for `limit` bytes keeps its beginning and its end."""
    data = text.encode("utf-8", "replace")
    if limit is not None and len(data) > limit:
        half = limit // 2 - 8
        data = (data[:half].decode("utf-8", "ignore") + "\n...\n" + data[-half:].decode("utf-8", "ignore")).encode()
    return struct.pack("<I", len(data)) + data


def encode_declaration(declared: Declaration, version: int) -> bytes:
    if version == 1 and any(kind != MEAN for _, kind in declared.metrics):
        raise ProgramError(
            "this release of the command shoal has no AUC; use the package and the command of one release"
        )
    if version < 3 and declared.tables:
        raise ProgramError(
            "this release of the command shoal has no tables for programs; use package and command of one release"
        )
    parts = [
        struct.pack(
            "<QQQI",
            declared.train_examples,
            declared.test_examples,
            declared.data_fingerprint,
            declared.announcements,
        ),
        string(declared.computation),
        string(declared.settings),
        struct.pack("<I", len(declared.metrics)),
        *(string(name) + (struct.pack("<I", kind) if version > 1 else b"") for name, kind in declared.metrics),
        struct.pack("<I", len(declared.variables)),
    ]
    for name, kind, shape in declared.variables:
        parts += [string(name), struct.pack(f"<II{len(shape)}Q", kind, len(shape), *shape)]
    if version > 2:
        parts.append(string(declared.tables))
    return message(DECLARE, b"".join(parts))


class _Reader:
    """Reads the fields of one payload."""

    def __init__(self, kind: int, payload: bytes) -> None:
        self._name = NAMES.get(kind, f"message {kind}")
        self._payload = payload
        self._at = 0

    def numbers(self, layout: str) -> tuple[int, ...]:
        size = struct.calcsize(layout)
        self._check(size)
        values = struct.unpack_from(layout, self._payload, self._at)
        self._at += size
        return values

    def string(self) -> str:
        (size,) = self.numbers("<I")
        self._check(size)
        data = self._payload[self._at : self._at + size]
        self._at += size
        return data.decode("utf-8", "replace")

    def examples(self) -> Indices:
        (count,) = self.numbers("<Q")
        self._check(count * 8)
        indices: Indices = np.frombuffer(self._payload, "<i8", count, self._at)
        self._at += count * 8
        return indices

    def end(self) -> None:
        if self._at != len(self._payload):
            raise ProtocolError(f"the worker's {self._name} has {len(self._payload) - self._at} bytes too many")

    def _check(self, size: int) -> None:
        if self._at + size > len(self._payload):
            raise ProtocolError(f"the worker's {self._name} ends after {len(self._payload)} bytes")


def decode(kind: int, payload: bytes) -> Message:
    """Decodes a message of the worker."""
    reader = _Reader(kind, payload)
    result: Message
    if kind == WELCOME:
        version, purpose, worker, workers, seed = reader.numbers("<IIIIQ")
        result = Welcome(version, purpose, worker, workers, seed, reader.string(), reader.string())
    elif kind == LAYOUT:
        parameters, contributions, count = reader.numbers("<QQI")
        values = reader.numbers(f"<{4 * count}Q")
        result = Layout(parameters, contributions, list(zip(*[iter(values)] * 4)))
    elif kind in (TRAIN, EVALUATE):
        work, step, epoch, index, seed, parameters, contributions = reader.numbers("<QQQQQII")
        examples = reader.examples()
        result = Assignment(kind == TRAIN, work, step, epoch, index, seed, parameters, contributions, examples)
    elif kind == ANNOUNCE:
        epoch, index = reader.numbers("<QQ")
        result = Announcement(epoch, index, reader.examples())
    elif kind == ROWS:
        (work,) = reader.numbers("<Q")
        values = reader.numbers(f"<{(len(payload) - 8) // 8}Q")
        result = RowPlaces(work, list(zip(values[::2], values[1::2])))
    elif kind == FINISH:
        (reason,) = reader.numbers("<I")
        result = Finish(reason, reader.string())
    else:
        raise ProtocolError(f"the worker sent a message of the unknown type {kind}")
    reader.end()
    return result


class Conversation:
    """The program's side of the protocol: which message may come next. Single-threaded, without a socket."""

    def __init__(self) -> None:
        self.state = "new"  # new, welcome, declare, layout, map, idle, working, asking, finished
        self._input = bytearray()
        self._work = 0
        self._version = VERSION

    @property
    def has_begun(self) -> bool:
        """Returns whether the worker has sent work."""
        return self._work > 0

    def hello(self, implementation: str) -> bytes:
        self._move("new", "welcome")
        return message(HELLO, struct.pack("<QII", MAGIC, OLDEST_VERSION, VERSION) + string(implementation))

    def declare(self, declared: Declaration) -> bytes:
        self._move("declare", "layout")
        return encode_declaration(declared, self._version)

    def ready(self) -> bytes:
        self._move("map", "idle")
        return message(READY)

    def final(self, variables: Iterable[int]) -> bytes:
        self._move("working", "working")
        variables = list(variables)
        return message(FINAL, struct.pack(f"<Q{len(variables)}I", self._work, *variables))

    def look_up(self, tables: Sequence[tuple[int, Keys]]) -> bytes:
        """tables: numbers of tables, each once, and rising keys of their rows."""
        self._move("working", "asking")
        parts = [struct.pack("<QI", self._work, len(tables))]
        for table, keys in tables:
            parts += [struct.pack("<IQ", table, len(keys)), keys.astype("<u8").tobytes()]
        return message(LOOK_UP, b"".join(parts))

    @property
    def knows_look_ahead(self) -> bool:
        """Returns whether the worker takes LOOK_AHEAD."""
        return self._version > 3

    def look_ahead(self, epoch: int, index: int, tables: Sequence[tuple[int, Keys]]) -> bytes:
        """The keys that this batch of training data will probably look up; tables: as in look_up()."""
        self._move("working", "working")
        parts = [struct.pack("<QQQI", self._work, epoch, index, len(tables))]
        for table, keys in tables:
            parts += [struct.pack("<IQ", table, len(keys)), keys.astype("<u8").tobytes()]
        return message(LOOK_AHEAD, b"".join(parts))

    @property
    def knows_progress(self) -> bool:
        """Returns whether the worker takes PROGRESS."""
        return self._version > 4

    def progress(self) -> bytes:
        self._move("working", "working")
        return message(PROGRESS, struct.pack("<Q", self._work))

    def done(self, loss_sum: float, metrics: Sequence[MetricValue]) -> bytes:
        self._move("working", "idle")
        parts = [struct.pack("<Qd", self._work, loss_sum)]
        for metric in metrics:
            if isinstance(metric, tuple):
                parts.append(struct.pack("<dd", *metric))
            else:
                columns = np.stack([metric.bins, metric.positives, metric.negatives], axis=1)
                parts += [struct.pack("<I", len(columns)), columns.astype("<u4").tobytes()]
        return message(DONE, b"".join(parts))

    def error(self, kind: int, text: str, traceback: str) -> bytes:
        self.state = "finished"
        payload = struct.pack("<I", kind) + string(text, MAX_ERROR_MESSAGE) + string(traceback, MAX_TRACEBACK)
        return message(ERROR, payload)

    def receive(self, data: bytes) -> list[Message]:
        """Takes bytes from the socket and returns the messages that are complete with them."""
        self._input += data
        messages = []
        while len(self._input) >= 8:
            size, kind = struct.unpack_from("<II", self._input)
            if size > MAX_PAYLOAD:
                raise ProtocolError(f"the worker sent a message of {size} bytes")
            if len(self._input) < 8 + size:
                break
            payload = bytes(self._input[8 : 8 + size])
            del self._input[: 8 + size]
            received = decode(kind, payload)
            self._accept(kind, received)
            messages.append(received)
        return messages

    def _accept(self, kind: int, received: Message) -> None:
        if isinstance(received, Finish):
            self.state = "finished"
        elif isinstance(received, Welcome):
            self._expect(kind, "welcome")
            if not OLDEST_VERSION <= received.version <= VERSION:
                raise ProtocolError(
                    f"the worker speaks version {received.version} of the protocol of compute programs, this package "
                    f"versions {OLDEST_VERSION} to {VERSION}; use a command `shoal` and a package of the same release"
                )
            self._version = received.version
            self.state = "declare"
        elif isinstance(received, Layout):
            self._expect(kind, "layout")
            self.state = "map"
        elif isinstance(received, Assignment):
            self._expect(kind, "idle")
            self.state = "working"
            self._work = received.work
        elif isinstance(received, RowPlaces):
            self._expect(kind, "asking")
            if received.work != self._work:
                raise ProtocolError(f"the worker sent ROWS of work {received.work}, not of work {self._work}")
            self.state = "working"
        elif self.state not in ("idle", "working", "asking"):
            self._expect(kind, "idle")

    def _expect(self, kind: int, state: str) -> None:
        if self.state != state:
            raise ProtocolError(f"the worker sent {NAMES[kind]} in the state {self.state}; it belongs to {state}")

    def _move(self, state: str, following: str) -> None:
        if self.state != state:
            raise ProtocolError(f"the program is in the state {self.state}, not {state}")
        self.state = following
