"""The worker's side of docs/compute_program.md, written from the page and not with the package's encoders."""

from __future__ import annotations

import math
import mmap
import os
import re
import socket
import struct
import threading
from dataclasses import dataclass, field

import numpy as np

import shoal
from shoal._link import Link

HELLO, DECLARE, READY, FINAL, DONE, ERROR, LOOK_UP, LOOK_AHEAD, PROGRESS = 1, 2, 3, 4, 5, 6, 7, 8, 9
WELCOME, LAYOUT, TRAIN, EVALUATE, ANNOUNCE, FINISH, ROWS = 17, 18, 19, 20, 21, 22, 23
TRAINABLE, ASSIGN, FROZEN = 1, 2, 3
ROW_BYTES = 1 << 24


class Fields:
    def __init__(self, payload):
        self.payload, self.at = payload, 0

    def take(self, layout):
        values = struct.unpack_from("<" + layout, self.payload, self.at)
        self.at += struct.calcsize("<" + layout)
        return values if len(values) > 1 else values[0]

    def text(self):
        size = self.take("I")
        self.at += size
        return self.payload[self.at - size : self.at].decode()

    def end(self):
        assert self.at == len(self.payload)


def text(value):
    return struct.pack("<I", len(value.encode())) + value.encode()


class ProgramFailed(Exception):
    """The program sent ERROR."""

    def __init__(self, kind, message, traceback):
        super().__init__(message)
        self.kind, self.message, self.traceback = kind, message, traceback


@dataclass
class Declared:
    train_examples: int
    test_examples: int
    fingerprint: int
    announcements: int
    computation: str
    settings: str
    metrics: list
    variables: list  # (name, kind, shape)
    tables: list  # (name, dim)
    tables_text: str


@dataclass
class Result:
    loss: float
    metrics: dict
    contributions: dict
    finals: list = field(default_factory=list)  # a list of names per FINAL
    values_at_final: dict = field(default_factory=dict)
    look_ups: list = field(default_factory=list)  # a dict of keys by table per LOOK_UP
    look_aheads: list = field(default_factory=list)  # epoch, index and a dict of keys by table per LOOK_AHEAD
    reports: int = 0  # the number of PROGRESS
    rows: dict = field(default_factory=dict)  # gradients by table and key, summed over the look-ups


class FakeWorker:
    """Drives one program over a socket; every method waits for the program's answer."""

    def __init__(self):
        self.socket, self.program_socket = socket.socketpair()
        self.socket.settimeout(60)
        self.parameters_fd = os.memfd_create("parameters")
        self.contributions_fd = os.memfd_create("contributions")
        self.work = 0
        self.buffer = b""
        self.row_of = lambda table, key, dim: np.full(dim, key % 100, np.float32)

    def link(self):
        """Returns the program's end, for a program in this process."""
        return Link(self.program_socket, os.dup(self.parameters_fd), os.dup(self.contributions_fd))

    def send(self, kind, payload=b""):
        self.socket.sendall(struct.pack("<II", len(payload), kind) + payload)

    def receive(self, *kinds):
        while True:
            if len(self.buffer) >= 8:
                size, kind = struct.unpack_from("<II", self.buffer)
                if len(self.buffer) >= 8 + size:
                    fields = Fields(self.buffer[8 : 8 + size])
                    self.buffer = self.buffer[8 + size :]
                    if kind == ERROR:
                        raise ProgramFailed(fields.take("I"), fields.text(), fields.text())
                    assert kind in kinds, (kind, kinds)
                    return kind, fields
            data = self.socket.recv(65536)
            if not data:
                raise EOFError("the program closed the socket")
            self.buffer += data

    def welcome(self, purpose=0, workers=1, seed=1, version=5, directory="/runs/x", run_file="batch_size: 4"):
        _, hello = self.receive(HELLO)
        magic, lowest, highest = hello.take("QII")
        assert struct.pack("<Q", magic) == b"SHLPRGM1"
        assert (lowest, highest) == (1, 5)
        self.implementation = hello.text()
        hello.end()
        self.version = version
        numbers = struct.pack("<IIIIQ", version, purpose, 0, workers, seed)
        self.send(WELCOME, numbers + text(directory) + text(run_file))

    def declaration(self):
        _, f = self.receive(DECLARE)
        train, test, fingerprint, ahead = f.take("QQQI")
        computation, settings = f.text(), f.text()
        kinds = {}
        for _ in range(f.take("I")):
            name = f.text()
            kinds[name] = f.take("I") if self.version > 1 else 1
        self.kinds = kinds
        metrics = list(kinds)
        variables = []
        for _ in range(f.take("I")):
            name, kind = f.text(), f.take("I")
            variables.append((name, kind, tuple(f.take("Q") for _ in range(f.take("I")))))
        tables_text = f.text() if self.version > 2 else ""
        tables = [(name, int(dim)) for name, dim in re.findall(r'name: "([^"]+)" dim: (\d+)', tables_text)]
        f.end()
        self.declared = Declared(
            train, test, fingerprint, ahead, computation, settings, metrics, variables, tables, tables_text
        )
        return self.declared

    def layout(self):
        sizes = [4 * math.prod(shape) for _, _, shape in self.declared.variables]
        aligned = [(size + 63) // 64 * 64 for size in sizes]
        whole = (sum(aligned) + 4095) // 4096 * 4096
        starts = [sum(aligned[:i]) for i in range(len(aligned))]
        self.row_area = 2 * whole
        size = 2 * whole + (ROW_BYTES if self.declared.tables else 0)
        os.ftruncate(self.parameters_fd, size)
        os.ftruncate(self.contributions_fd, size)
        offsets = b"".join(struct.pack("<4Q", at, whole + at, at, whole + at) for at in starts)
        self.send(LAYOUT, struct.pack("<QQI", size, size, len(sizes)) + offsets)
        self.memories = mmap.mmap(self.parameters_fd, size), mmap.mmap(self.contributions_fd, size)
        self.parameters, self.contributions = [
            [
                {
                    name: np.frombuffer(memory, np.float32, math.prod(shape), k * whole + at).reshape(shape)
                    for (name, _, shape), at in zip(self.declared.variables, starts)
                }
                for k in (0, 1)
            ]
            for memory in self.memories
        ]

    def handshake(self, **options):
        """Up to READY; returns the initial values."""
        self.welcome(**options)
        self.declaration()
        self.layout()
        self.receive(READY)[1].end()
        return {name: value.copy() for name, value in self.contributions[0].items()}

    def train(self, values, indices, step=0, epoch=0, index=0, seed=7, sets=None):
        """One batch; the contributions start as NaN, so that anything left out shows."""
        self.work += 1
        ps, cs = sets or (self.work % 2, (self.work // 2) % 2)
        for name, value in values.items():
            self.parameters[ps][name][...] = value
        for name, kind, _ in self.declared.variables:
            if kind != FROZEN:
                self.contributions[cs][name][...] = np.nan
        self.send_work(TRAIN, indices, step, epoch, index, seed, ps, cs)
        result = self.done(cs)
        contributing = {name for name, kind, _ in self.declared.variables if kind != FROZEN}
        result.contributions = {name: self.contributions[cs][name].copy() for name in contributing}
        for name, value in result.values_at_final.items():
            np.testing.assert_array_equal(value, result.contributions[name], err_msg=f"{name} changed after FINAL")
        return result

    def send_work(self, kind, indices, step=0, epoch=0, index=0, seed=7, ps=0, cs=0):
        numbers = struct.pack("<QQQQQIIQ", self.work, step, epoch, index, seed, ps, cs, len(indices))
        self.send(kind, numbers + np.asarray(indices, "<i8").tobytes())

    def evaluate(self, values, indices, index=0, seed=9):
        self.work += 1
        ps = self.work % 2
        for name, value in values.items():
            self.parameters[ps][name][...] = value
        self.send_work(EVALUATE, indices, index=index, seed=seed, ps=ps)
        return self.done(None)

    def done(self, cs):
        result = Result(0, {}, {})
        seen = set()
        gradients = []  # of each table of each look-up: the table, the keys, the memory
        row_at = self.row_area
        while True:
            kind, f = self.receive(FINAL, DONE, LOOK_UP, LOOK_AHEAD, PROGRESS)
            assert f.take("Q") == self.work
            if kind == DONE:
                break
            if kind == PROGRESS:
                assert self.version > 4
                f.end()
                result.reports += 1
                continue
            if kind == LOOK_AHEAD:
                assert self.version > 3
                assert cs is not None, "LOOK_AHEAD in an evaluation"
                result.look_aheads.append((*f.take("QQ"), self.named_keys(f)))
                continue
            if kind == LOOK_UP:
                assert not seen, "LOOK_UP after FINAL"
                row_at = self.look_up(f, row_at, cs is not None, result, gradients)
                continue
            assert cs is not None, "FINAL in an evaluation"
            numbers = [f.take("I") for _ in range((len(f.payload) - 8) // 4)]
            assert numbers
            assert not seen & set(numbers)
            seen |= set(numbers)
            names = [self.declared.variables[i][0] for i in numbers]
            assert all(self.declared.variables[i][1] != FROZEN for i in numbers)
            result.finals.append(names)
            result.values_at_final.update({name: self.contributions[cs][name].copy() for name in names})
        result.loss = f.take("d")
        result.metrics = {
            name: f.take("dd") if kind == 1 else [f.take("III") for _ in range(f.take("I"))]
            for name, kind in self.kinds.items()
        }
        f.end()
        for name, keys, gradient in gradients:
            of_table = result.rows.setdefault(name, {})
            for key, row in zip(keys, gradient):
                of_table[key] = of_table[key] + row if key in of_table else row.copy()
        return result

    def look_up(self, f, row_at, is_training, result, gradients):
        """Answers one LOOK_UP; gradients start as NaN, so that anything left out shows."""
        answer = struct.pack("<Q", self.work)
        asked = self.named_keys(f)
        for name, keys in asked.items():
            shape = len(keys), dict(self.declared.tables)[name]
            dim = shape[1]
            rows, gradient = (
                np.frombuffer(memory, np.float32, math.prod(shape), row_at).reshape(shape) for memory in self.memories
            )
            rows[...] = [self.row_of(name, key, dim) for key in keys]
            if is_training:
                gradient[...] = np.nan
                gradients.append((name, keys, gradient))
            answer += struct.pack("<QQ", row_at, row_at if is_training else 0)
            row_at += (4 * math.prod(shape) + 63) // 64 * 64
        result.look_ups.append(asked)
        self.send(ROWS, answer)
        return row_at

    def named_keys(self, f):
        """The end of a LOOK_UP or LOOK_AHEAD: keys by table."""
        named = {}
        for _ in range(f.take("I")):
            name, _ = self.declared.tables[f.take("I")]
            keys = [f.take("Q") for _ in range(f.take("Q"))]
            assert keys
            assert keys == sorted(set(keys))
            assert name not in named
            named[name] = keys
        f.end()
        assert named
        return named

    def announce(self, indices, epoch=0, index=0):
        self.send(ANNOUNCE, struct.pack("<QQQ", epoch, index, len(indices)) + np.asarray(indices, "<i8").tobytes())

    def finish(self, reason=0, message=""):
        self.send(FINISH, struct.pack("<I", reason) + text(message))

    def close(self):
        self.socket.close()


def play(program, scenario):
    """Runs program(worker) against scenario(fake): the worker's side in a thread, the program here.

    Returns what the scenario returned; raises what either raised. An exception of the program is reported to the
    worker as the package does at the end of a process.
    """
    fake = FakeWorker()
    link = fake.link()
    outcome = {}

    def side():
        try:
            outcome["result"] = scenario(fake)
        except BaseException as error:  # noqa: BLE001 - raised again below
            outcome["error"] = error
        finally:
            fake.close()

    thread = threading.Thread(target=side)
    thread.start()
    try:
        worker = None
        try:
            worker = shoal.Worker(_link=link)
            program(worker)
        except SystemExit:
            outcome["exited"] = True
        except BaseException as error:
            if worker is not None:
                worker._report(error)
            outcome["program"] = error
        else:
            worker._report_end()
    finally:
        link.close()
        thread.join()
    if "program" in outcome:
        raise outcome["program"]
    if "error" in outcome:
        raise outcome["error"]
    return outcome.get("result")
