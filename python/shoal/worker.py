"""The lowest layer: a program that computes the batches of one worker, with arrays only."""

from __future__ import annotations

import collections
import contextlib
import faulthandler
import math
import mmap
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from time import monotonic
from typing import Any, Optional

import numpy as np

from shoal import _protocol, _seeds, _version
from shoal._control import StopRequest
from shoal._declaration import Variable, make_declaration
from shoal._evaluations import Evaluations
from shoal._link import Link
from shoal._metrics import EMPTY, Metric, Value
from shoal._rows import Keys, Rows
from shoal._work import Array, Arrays, Contributions, Work
from shoal.errors import PERMANENT, RETRYABLE, SURROUNDINGS, ProgramError, ProtocolError, describe, place
from shoal.optimizers import Optimizer
from shoal.tables import Table

__all__ = ["Rows", "Variable", "Work", "Worker"]

# The shortest time in seconds between two reports of progress, and between the begin of a batch and the first one.
_PROGRESS_PERIOD = 1.0


class Worker:
    """The connection of this program with its worker.

    Make it first, before data are loaded: the worker waits for it. Then declare the variables and iterate:

        worker = shoal.Worker()
        worker.declare([shoal.Variable("w", initial=np.zeros(10))], examples=60000, optimizer=shoal.SGD(0.1))
        for work in worker:
            work.gradients["w"] = …
            work.done(loss_sum)

    `random`, `numpy.random` and `torch` are seeded from the run's seed (--seed), here equally in all programs of a run,
    so that initial values follow from it, and after the declaration differently in each worker.

    The loop ends when the run is over. If the run is stopped, or the worker is gone, the loop raises SystemExit
    instead, so what follows it runs only with a finished model. It may take an hour; then the worker kills the program.

    A program that was started by hand (python train.py) becomes a run in one process.
    """

    _process_of_first: Optional[int] = None  # The process that has made one with the connection to its worker.

    def __init__(self, _link: Optional[Link] = None) -> None:
        link = _link or Link.from_environment()
        if link is None:
            from shoal import _process

            if Worker._process_of_first == os.getpid():
                raise ProgramError("a program has one shoal.Worker(); train everything in one loop over it")
            _process.start_by_hand()
            raise AssertionError("start_by_hand does not return")
        self._link: Optional[Link] = link
        self._process = os.getpid()
        self._conversation = _protocol.Conversation()
        self._inbox: collections.deque[_protocol.Message] = collections.deque()
        self._announcements: collections.deque[_protocol.Announcement] = collections.deque()
        self._metrics: dict[str, int] = {}  # The kind of each name.
        self._variables: list[Variable] = []
        self._numbers: dict[str, int] = {}
        self._tables: dict[str, Table] = {}
        self._contributing: dict[str, None] = {}  # The names of what a batch contributes to, in order.
        self._parameters: tuple[Arrays, Arrays] = ({}, {})
        self._contributions: tuple[Arrays, Arrays] = ({}, {})
        self._memory: Optional[tuple[mmap.mmap, memoryview]] = None  # Parameters and contributions.
        self._places: list[tuple[int, ...]] = []  # Where each variable is in both.
        self._finish: Optional[_protocol.Finish] = None
        self._progress_at = 0.0  # The time of the last report of progress, or of the begin of the batch.
        self._called_at = place()
        self._left_at = ""
        self._exit: Optional[tuple[str, object]] = None  # Where sys.exit was called, and with what.
        self._loop_thread: Optional[int] = None
        self._failed_thread: Optional[BaseException] = None
        self._has_declared = False
        self._has_loop = False
        self._is_asked = False
        if _link is None:
            from shoal import _process

            Worker._process_of_first = os.getpid()
            _process.install(self)
        self._send(self._conversation.hello(f"shoal {_version.VERSION} (Python {sys.version.split()[0]})"))
        welcome = self._wait()
        if not isinstance(welcome, _protocol.Welcome):
            raise SystemExit(0)
        self._welcome = welcome
        self._stop_request = StopRequest(welcome.directory)
        self._evaluations = Evaluations(welcome.directory)
        self._is_asked = welcome.purpose == _protocol.ONLY_DECLARE
        if _link is None:
            _process.explain_silence(welcome.run_file)
            _seeds.seed_program(welcome.seed)

    @property
    def index(self) -> int:
        """The index of this worker in the run, from 0."""
        return self._welcome.worker

    @property
    def count(self) -> int:
        """The number of workers of the run."""
        return self._welcome.workers

    @property
    def seed(self) -> int:
        """The run's seed (--seed), for generators that the program makes itself."""
        return self._welcome.seed

    @property
    def directory(self) -> str:
        """The run's directory."""
        return self._welcome.directory

    @property
    def run_file(self) -> str:
        """The run file as text. It counts: the run may have another batch size than this program asks for."""
        return self._welcome.run_file

    @property
    def variables(self) -> Sequence[Variable]:
        """The names, shapes and kinds of the declared variables, without their initial values, which the run has."""
        return tuple(self._variables)

    def declare(
        self,
        variables: Sequence[Variable],
        *,
        tables: Sequence[Table] = (),
        examples: int,
        test_examples: int = 0,
        optimizer: Optional[Optimizer] = None,
        batch_size: Optional[int] = None,
        epochs: Optional[int] = None,
        max_steps: Optional[int] = None,
        metrics: Sequence[Metric] = (),
        prefetch: int = 0,
        data_fingerprint: int = 0,
        computation: str = "",
    ) -> None:
        """Declares variables, data and settings, and waits until the run is ready.

        tables: embedding rows by 64-bit key, of which work.look_up() gives a batch those that it needs.
        examples, test_examples: how many there are; Shoal chooses which of them a batch has.
        optimizer, batch_size, epochs, max_steps: used where neither flags nor a run file say otherwise.
        metrics: names of values that done() reports, at most 16; shoal.AUC(name), or the name "auc", is an AUC.
        prefetch: how many batches announcements() may name ahead of time, at most 64.
        data_fingerprint: tells other data apart; 0: unknown.
        computation: what the bytes of the results depend on; the same in all programs of a run.

        If the launcher only asks for the declaration, the program ends here with SystemExit.
        """
        self._check_process()
        if self._has_declared:
            raise ProgramError("declare() was called a second time; a program declares its variables once")
        declaration = make_declaration(
            variables, tables, examples, test_examples, optimizer, batch_size, epochs, max_steps, metrics, prefetch,
            data_fingerprint, computation or f"numpy {np.__version__}",
        )  # fmt: skip
        self._called_at = place()
        self._has_declared = True
        self._exit = None  # The program has caught it.
        self._variables = list(variables)
        self._tables = {table.name: table for table in tables}
        self._numbers = {variable.name: i for i, variable in enumerate(variables)}
        self._contributing = {variable.name: None for variable in variables if variable.contributes}
        self._metrics = dict(declaration.metrics)
        self._send(self._conversation.declare(declaration))
        layout = self._wait()
        if not isinstance(layout, _protocol.Layout):
            raise SystemExit(0)
        self._map(layout)
        for variable in self._variables:
            self._contributions[0][variable.name][...] = variable.initial
        self._variables = [variable.without_values() for variable in self._variables]  # The run has the values now.
        self._send(self._conversation.ready())
        if Worker._process_of_first is not None:
            _seeds.seed_worker(self.seed, self.index)
        faulthandler.cancel_dump_traceback_later()

    def __iter__(self) -> Iterator[Work]:
        self._check_process()
        if not self._has_declared:
            raise ProgramError(
                "the program asks for work before it has declared variables; call worker.declare() first"
            )
        if self._conversation.state == "working":
            raise ProgramError("a second loop over the worker began while a batch is open; one loop gets all work")
        self._has_loop = True
        self._loop_thread = threading.get_ident()
        while True:
            work = self._next_work()
            if work is None:
                return
            self._exit = None  # The program has caught it.
            try:
                yield work
            except GeneratorExit:
                self._left_at = place(sys._getframe(1))
                raise
            if not work.is_done:
                raise ProgramError(f"{work} ended without work.done(loss_sum); call it once for every work")

    def announcements(self) -> list[_protocol.Announcement]:
        """Returns the training batches that were announced since the last call, without waiting.

        They probably come soon; any of them may not come, and others may come instead.
        """
        self._check_process()
        while self._finish is None and self._link is not None and self._link.has_input():
            self._read()
        result = list(self._announcements)
        self._announcements.clear()
        return result

    def stop(self, flags: Sequence[str] = ()) -> None:
        """Asks the run to make a checkpoint and to stop, and does not wait for that.

        The request goes to the chief, so the loop continues for some steps until the checkpoint, and then raises
        SystemExit. A run whose last step comes before that finishes. The programs of all workers may call this, as
        often as they like. The run ends as after `shoal stop`: with exit code 143 and the status "stopped".

        flags: those that `shoal stop` needs, such as --tls_cert=….
        """
        self._check_process()
        if not self._conversation.has_begun:
            raise ProgramError("worker.stop() is called before the first batch; call it in the loop")
        if self._finish is None:
            self._stop_request.send(flags)

    def last_evaluation(self) -> Optional[dict[str, Any]]:
        """Returns the newest evaluation of the run as a whole, which all its workers have computed; None before it.

        {"step": 400, "epoch": 1, "loss": 0.43, "accuracy": 0.85, "examples": 10000} and the other metrics by name; NaN
        where a value is not finite. Epochs count from 0. It is read from metrics.jsonl in the run's directory.
        """
        return self._evaluations.newest()

    def _next_work(self) -> Optional[Work]:
        while True:
            message = self._wait()
            if isinstance(message, _protocol.Assignment):
                return self._make_work(message)
            if isinstance(message, _protocol.Finish):
                if message.reason == _protocol.OVER:
                    return None
                if message.reason == _protocol.REFUSED:
                    self._explain_refusal(message.text)
                elif message.text:
                    print(f"shoal: {message.text}", file=sys.stderr)
                raise SystemExit(0)

    def _explain_refusal(self, why: str) -> None:
        text = f"{self._called_at}: the run refuses this declaration: {why}"
        print(text, file=sys.stderr)
        self._send_error(PERMANENT, text, "")

    def _make_work(self, assignment: _protocol.Assignment) -> Work:
        if assignment.parameter_set > 1 or assignment.contribution_set > 1:
            raise ProtocolError(f"work {assignment.work} names a set above 1")
        arrays = self._contributions[assignment.contribution_set] if assignment.is_training else {}
        contributions = Contributions(arrays, self._contributing)
        self._progress_at = monotonic()
        return Work(self, assignment, self._parameters[assignment.parameter_set], contributions)

    def _map(self, layout: _protocol.Layout) -> None:
        assert self._link is not None
        if len(layout.offsets) != len(self._variables):
            raise ProtocolError(f"LAYOUT has {len(layout.offsets)} variables, not {len(self._variables)}")
        parameters, contributions = self._memory = self._link.map(layout)
        self._places = [tuple(offsets) for offsets in layout.offsets]
        for variable, offsets in zip(self._variables, layout.offsets):
            for number in (0, 1):
                for memory, offset, sets in (
                    (parameters, offsets[number], self._parameters),
                    (contributions, offsets[2 + number], self._contributions),
                ):
                    array: Array = np.frombuffer(memory, np.float32, math.prod(variable.shape), offset)
                    sets[number][variable.name] = array.reshape(variable.shape)

    def _copy_parameters(self, number: int) -> Arrays:
        """Returns the values of a parameter set in memory that the program may write, which nobody else sees.

        No byte is copied before it is written, so the values are valid while the program has the set.
        """
        assert self._link is not None
        if not self._variables:
            return {}
        begins = [offsets[number] for offsets in self._places]
        begin = min(begins) // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        end = max(at + 4 * math.prod(variable.shape) for variable, at in zip(self._variables, begins))
        memory = self._link.map_copy(begin, end)
        result: Arrays = {}
        for variable, at in zip(self._variables, begins):
            array: Array = np.frombuffer(memory, np.float32, math.prod(variable.shape), at - begin)
            result[variable.name] = array.reshape(variable.shape)
        return result

    def _check_table(self, name: object) -> None:
        if name not in self._tables:
            known = ", ".join(self._tables) or "no tables"
            raise ProgramError(
                f"table {name!r} was not declared, but {known}; declare(…, tables=[shoal.Table({name!r}, dim=…)]) does"
            )

    def _pull_rows(self, keys: Mapping[str, Keys], is_training: bool) -> dict[str, tuple[Array, Array]]:
        """Returns the rows of rising keys for each table, and the memory of their gradients."""
        numbers = {name: number for number, name in enumerate(self._tables)}
        wanted = [name for name in keys if len(keys[name])]
        places: dict[str, tuple[int, int]] = {}
        if wanted:
            if self._conversation.state == "working":
                self._send(self._conversation.look_up([(numbers[name], keys[name]) for name in wanted]))
            message = self._wait()
            if not isinstance(message, _protocol.RowPlaces):  # The worker ends this program.
                raise SystemExit(0)
            if len(message.offsets) != len(wanted):
                raise ProtocolError(f"ROWS has {len(message.offsets)} tables, not {len(wanted)}")
            places = dict(zip(wanted, message.offsets))
        return {name: self._rows_at(places.get(name), len(keys[name]), name, is_training) for name in keys}

    def _name_ahead(self, batch: _protocol.Announcement, keys: Mapping[str, Keys]) -> None:
        """Names rising keys for each table that the batch will probably look up."""
        numbers = {name: number for number, name in enumerate(self._tables)}
        wanted = [(numbers[name], keys[name]) for name in keys if len(keys[name])]
        if wanted and self._conversation.state == "working" and self._conversation.knows_look_ahead:
            self._send(self._conversation.look_ahead(batch.epoch, batch.index, wanted))

    def _rows_at(
        self, place: Optional[tuple[int, int]], count: int, table: str, is_training: bool
    ) -> tuple[Array, Array]:
        shape = (count, self._tables[table].dim)
        if place is None:
            return np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        assert self._memory is not None
        values: Array = np.frombuffer(self._memory[0], np.float32, math.prod(shape), place[0]).reshape(shape)
        if not is_training:
            return values, np.zeros((0, shape[1]), np.float32)
        gradient: Array = np.frombuffer(self._memory[1], np.float32, math.prod(shape), place[1]).reshape(shape)
        return values, gradient

    def _wait(self) -> _protocol.Message:
        """Returns the next message; the end of the worker reads as FINISH."""
        while not self._inbox:
            if self._finish is not None:
                return self._finish
            self._read()
        return self._inbox.popleft()

    def _read(self) -> None:
        assert self._link is not None
        data = self._link.receive()
        messages = self._conversation.receive(data) if data else [self._gone()]
        for message in messages:
            if isinstance(message, _protocol.Announcement):
                self._announcements.append(message)
            elif isinstance(message, _protocol.Finish):
                self._finish = message
            else:
                self._inbox.append(message)

    def _gone(self) -> _protocol.Finish:
        self._conversation.state = "finished"
        return _protocol.Finish(_protocol.FAILED, "the worker is gone; this program ends")

    def _send(self, data: bytes) -> None:
        self._check_process()
        assert self._link is not None
        if not self._link.send(data):
            raise SystemExit(0)

    def _send_final(self, names: Sequence[str]) -> None:
        if self._conversation.state == "working":
            self._send(self._conversation.final(self._numbers[name] for name in names))

    def _report_progress(self) -> None:
        now = monotonic()
        if now - self._progress_at < _PROGRESS_PERIOD:
            return
        self._progress_at = now
        if self._conversation.state == "working" and self._conversation.knows_progress:
            self._send(self._conversation.progress())

    def _send_done(self, loss_sum: float, metrics: dict[str, Value]) -> None:
        if self._conversation.state == "working":  # FINISH may have come in between.
            nothing: dict[int, Value] = {_protocol.MEAN: (0.0, 0.0), _protocol.AUC: EMPTY}
            values = [metrics.get(name, nothing[kind]) for name, kind in self._metrics.items()]
            self._send(self._conversation.done(loss_sum, values))

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise ProgramError(
                "a forked process uses the worker; only the process that made shoal.Worker() may compute batches"
            )
        if self._link is None:
            raise ProgramError("the worker is closed")

    # Called by _process.

    def _forget(self) -> None:
        """In a forked child: the connection is the parent's."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def _report(self, error: BaseException) -> None:
        if self._process != os.getpid() or self._link is None or isinstance(error, (SystemExit, KeyboardInterrupt)):
            return
        kind, text, trace = describe(error, self._is_asked, self._conversation.has_begun)
        if self._finish is None:
            self._send_error(kind, text, trace)
        elif self._finish.reason == _protocol.OVER:  # Nobody waits for the program; the console shows what it prints.
            print(f"shoal: the run is over, but the program failed after it: {text}", flush=True)

    def _report_end(self) -> None:
        """At the end of the process, when the worker has not said that the run is over."""
        if self._process != os.getpid() or self._link is None or self._conversation.state == "finished":
            return
        if self._failed_thread is not None:
            self._send_error(*describe(self._failed_thread, self._is_asked, self._conversation.has_begun))
        elif self._has_loop:
            self._report_left_loop()
        else:
            self._report_no_loop()

    def _report_no_loop(self) -> None:
        after = "worker.declare()" if self._has_declared else "shoal.Worker()"
        # A program that has declared before may have ended because something that it needs is away.
        kind = PERMANENT if self._has_declared else SURROUNDINGS
        if self._exit is None:
            text = f"{self._called_at}: after {after} the program ended without asking for work"
        else:
            where, status = self._exit
            text = f"{where}: {_call_of_exit(status)} was called after {after}, before the program asked for work"
            if status:  # It has a reason of its own, which its log has.
                self._send_error(RETRYABLE if self._has_declared else kind, text, "")
                return
        self._send_error(kind, f"{text}; loop over the worker or trainer.batches()", "")

    def _report_left_loop(self) -> None:
        kind = PERMANENT  # It would do so again.
        text = "the program left the loop before the run was over"
        where = self._left_at or place(None)
        if self._exit is not None:
            where, status = self._exit
            text = f"{_call_of_exit(status)} was called before the run was over"
            kind = RETRYABLE if status else PERMANENT
        remedy = (
            "the loop ends by itself: epochs=… and max_steps=… say when, and worker.stop(), trainer.stop() or `shoal "
            "stop DIR` ends a run earlier"
        )
        self._send_error(kind, f"{where}: {text}; {remedy}", "")

    def _report_thread(self, error: BaseException) -> None:
        """A thread of the program has died of an exception."""
        if threading.get_ident() == self._loop_thread:
            self._report(error)
        elif self._failed_thread is None and not isinstance(error, SystemExit):
            self._failed_thread = error  # The program may live without it.

    def _note_exit(self, status: object) -> None:
        if threading.current_thread() is threading.main_thread():
            self._exit = place(sys._getframe(2)), status

    def _send_error(self, kind: int, text: str, trace: str) -> None:
        assert self._link is not None
        with contextlib.suppress(ProgramError):  # There is no connection any more; the worker reads the log.
            self._link.send(self._conversation.error(kind, text, trace))
        self._finish = _protocol.Finish(_protocol.FAILED, "")


def _call_of_exit(status: object) -> str:
    return f"sys.exit({'' if status is None else repr(status)[:400]})"
