"""Batches of map-style data sets: Shoal says which examples, DataLoader's processes read ahead."""

from __future__ import annotations

import atexit
import collections
import contextlib
import difflib
import hashlib
import inspect
import multiprocessing
import os
import random
import signal
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Optional

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset, default_collate, get_worker_info

from shoal._process import IMPORTED
from shoal._protocol import Announcement, Indices
from shoal.errors import MissingError, ProgramError
from shoal.torch.loaders import remedy_of
from shoal.torch.model import crc32_of
from shoal.worker import Work, Worker

Key = tuple[int, int]


def seed_all(seed: int) -> None:
    """Seeds every generator that a model or an augmentation may use."""
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    # torch.manual_seed would also queue the seed for every device that is not in use yet, for ever, with a traceback.
    torch.default_generator.manual_seed(seed % (1 << 63))
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed % (1 << 63))


def data_seed(run_seed: int, kind: str, epoch: int, index: int) -> int:
    """The seed of a batch's augmentation. It is known before the batch comes, so that it can be read ahead."""
    data = struct.pack("<QQQ", run_seed, epoch, index) + kind.encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def check_data_set(data: Any, what: str) -> None:
    if isinstance(data, DataLoader) and not isinstance(data.dataset, IterableDataset):
        raise ProgramError(f"{what} is a DataLoader; {remedy_of(data)}")
    if isinstance(data, IterableDataset) or not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        raise ProgramError(
            f"{what} is a {type(data).__name__}, which has no examples by number; Shoal chooses the examples, so it "
            "needs a data set with __len__ and __getitem__"
        )
    if len(data) == 0:
        raise MissingError(f"{what} is empty; are the files there from which it is made?")


def check_count(name: str, value: Any, low: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise ProgramError(f"{name} is {value!r}; it must be a whole number from {low}")


def fingerprint(data: Any) -> int:
    """Tells data sets apart as far as that is cheap: the length and the type; of tensors the content.

    The numbers of a Subset's examples count too, so all workers must have split the data alike.
    """
    size = len(data) if hasattr(data, "__len__") else ""
    value = zlib.crc32(f"{type(data).__name__} {size}".encode())
    if isinstance(data, Subset):
        numbers = np.asarray(data.indices)
        text = numbers.astype(np.int64).tobytes() if numbers.dtype.kind in "iu" else repr([*data.indices]).encode()
        value = zlib.crc32(text, value) ^ fingerprint(data.dataset)
    if isinstance(data, TensorDataset):
        for tensor in data.tensors:
            value = crc32_of(tensor, value)
    return value or 1


# The options of DataLoader that have no meaning where the run chooses the examples.
_ORDER = ("shuffle", "sampler", "batch_sampler", "drop_last", "generator", "in_order")
_REMEDIES = {
    "drop_last": "give it a number of examples that batch_size divides: Subset(train, range(len(train) // b * b))",
    "sampler": "give it the examples to train with: Subset(train, indices)",
}


def check_loader_options(options: dict[str, Any], num_workers: int, own: Iterable[str]) -> None:
    """Refuses what DataLoader does not know or what has no effect. own: the options that are not passed on to it."""
    for option in _ORDER:
        if option in options:
            remedy = _REMEDIES.get(option, "leave it out")
            raise ProgramError(
                f"{option} has no place here: Shoal chooses the order of the examples, by the run's seed; {remedy}"
            )
    known = set(inspect.signature(DataLoader).parameters) - {*_ORDER, *own, "dataset", "self"}
    for option, value in options.items():
        if option not in known:
            near = difflib.get_close_matches(option, [*own, *known], 1)
            meant = f"; did you mean {near[0]}?" if near else ": neither it nor DataLoader has one"
            raise ProgramError(f"batches() has no option {option!r}{meant}")
        if num_workers == 0 and value:
            raise ProgramError(
                f"{option} is for the processes that read ahead, and num_workers is 0; give num_workers=…, or leave "
                f"{option} out"
            )


class Request(list[int]):
    """The examples of one batch, as a batch sampler yields them; an empty one asks for nothing."""

    def __init__(self, indices: Sequence[int] = (), key: Optional[Key] = None, seed: int = 0) -> None:
        super().__init__(indices)
        self.key = key
        self.seed = seed


class Reader:
    """Reads and collates one batch; runs in this process or in those of DataLoader."""

    def __init__(self, data: Any, collate: Optional[Callable[[Any], Any]]) -> None:
        self.data = data
        self._has_tensors = type(data) is TensorDataset and collate is None
        self._collate = collate or default_collate

    def __len__(self) -> int:
        return len(self.data)

    def __getitems__(self, request: Request) -> tuple[Optional[Key], Any]:
        return request.key, self.read(request) if request else None

    def __getitem__(self, index: int) -> Any:  # Only DataLoader's checks need it.
        return self.data[index]

    def read(self, request: Request) -> Any:
        if self._has_tensors:
            return self.rows(np.array(request))
        seed_all(request.seed)
        several = getattr(self.data, "__getitems__", None)
        return self._collate(several(list(request)) if callable(several) else [self.data[i] for i in request])

    def read_now(self, indices: Indices, seed: int) -> Any:
        """The same in this process, without a request."""
        return self.rows(indices.copy()) if self._has_tensors else self.read(Request(indices.tolist(), None, seed))

    def rows(self, indices: Indices) -> list[Any]:
        """The examples of a TensorDataset, which needs no random numbers."""
        rows = torch.from_numpy(indices)
        return [
            # Twice as fast as tensor[rows], but it loses memory formats such as channels_last.
            tensor.index_select(0, rows.to(tensor.device))
            if tensor.layout != torch.strided or tensor.is_contiguous()
            else tensor[rows]
            for tensor in self.data.tensors
        ]


# Forked readers need no guard in the program; since Python 3.14 other ones are the default.
_START = {"multiprocessing_context": "fork"} if "fork" in multiprocessing.get_all_start_methods() else {}


def _as_read(result: Any) -> Any:
    """The collate function of DataLoader: Reader has collated."""
    return result


class ReaderStart:
    """Begins a process of DataLoader. It outlives the signals with which schedulers stop a run, as its parent does: the
    run makes a last checkpoint, and the parent ends it. get_worker_info() names the program's data set there."""

    def __init__(self, then: Optional[Callable[[int], None]]) -> None:
        self._then = then

    def __call__(self, number: int) -> None:
        for stop in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(stop, signal.SIG_IGN)
        info: Any = get_worker_info()
        object.__setattr__(info, "dataset", info.dataset.data)  # It refuses a plain assignment.
        if self._then is not None:
            self._then(number)


def _end_readers(parent: int, readers: list[Any]) -> None:
    """Ends the processes of DataLoader that are left at the program's end.

    `multiprocessing` would ask them by a signal that they ignore, and wait for ever.
    """
    if os.getpid() != parent:
        return
    with contextlib.suppress(ValueError):  # Only the main thread may.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # DataLoader's handler takes the end of a reader for an error.
    for reader in readers:
        if reader.is_alive():
            reader.kill()


class Pipeline:
    """DataLoader as a pipe of a fixed length: what goes in comes out in the same order.

    DataLoader asks its sampler for a batch whenever it gives one away. So that it never waits for an announcement, it
    gets empty requests when there are none; their results are dropped.
    """

    def __init__(self, reader: Reader, num_workers: int, prefetch_factor: int, options: dict[str, Any]) -> None:
        self._waiting: collections.deque[Request] = collections.deque()
        self._inside: collections.deque[Optional[Key]] = collections.deque()
        self._ready: collections.OrderedDict[Key, Any] = collections.OrderedDict()
        self._limit = 2 * num_workers * prefetch_factor
        loader: DataLoader[Any] = DataLoader(
            reader,  # type: ignore[arg-type,unused-ignore]
            batch_sampler=self,  # type: ignore[arg-type,unused-ignore]
            collate_fn=_as_read,
            num_workers=num_workers,
            prefetch_factor=prefetch_factor,
            **{**_START, **options, "worker_init_fn": ReaderStart(options.get("worker_init_fn"))},
        )
        others = multiprocessing.active_children()
        self._results = iter(loader)
        self._readers = [process for process in multiprocessing.active_children() if process not in others]
        atexit.register(_end_readers, os.getpid(), self._readers)

    def __iter__(self) -> Iterator[Request]:
        """The batch sampler."""
        while True:
            request = self._waiting.popleft() if self._waiting else Request()
            self._inside.append(request.key)
            yield request

    def stop(self) -> None:
        """Ends the processes.

        Left to the garbage collector, the queues may be gone before them, and it would wait 10 seconds for each.
        """
        del self._results

    def announce(self, request: Request) -> None:
        """Reads a batch ahead. Moves the pipe if its next result is empty."""
        if not self._knows(request.key):
            self._waiting.append(request)
        while self._waiting and self._inside and self._inside[0] is None:
            self._move()

    def get(self, request: Request) -> Any:
        assert request.key is not None
        if not self._knows(request.key):
            self._waiting.appendleft(request)
        while request.key not in self._ready:
            self._move()
        return self._ready.pop(request.key)

    def _knows(self, key: Optional[Key]) -> bool:
        return key in self._ready or key in self._inside or any(request.key == key for request in self._waiting)

    def _move(self) -> None:
        try:
            key, batch = next(self._results)
        except RuntimeError as error:
            self._explain(error)
            raise
        self._inside.popleft()
        if key is not None:
            self._ready[tuple(key)] = batch  # With pin_memory, older versions of PyTorch make lists of tuples.
            while len(self._ready) > self._limit:  # Announced, and never asked for.
                self._ready.popitem(last=False)

    def _explain(self, error: RuntimeError) -> None:
        """Raises ProgramError if a process of DataLoader has run the program, which it only was to import."""
        if "exited unexpectedly" in str(error) and any(r.exitcode == IMPORTED for r in self._readers):
            raise ProgramError(
                "a process of DataLoader ended before it read anything, and its error is in the log of the program; "
                'such a process imports the program again unless it is forked (multiprocessing_context="fork"), so put '
                'what the program does under if __name__ == "__main__":'
            ) from error


class Source:
    """The batches of the training and the test data."""

    def __init__(
        self,
        data: Any,
        test: Any,
        num_workers: int,
        prefetch_factor: int,
        collate: Optional[Callable[[Any], Any]],
        options: dict[str, Any],
        reads_ahead: bool = False,
    ) -> None:
        """reads_ahead: read_ahead() will be called."""
        check_count("num_workers", num_workers, 0)
        check_count("prefetch_factor", prefetch_factor, 1)
        self._train = Reader(data, collate)
        self._test = Reader(test, collate) if test is not None else None
        self._num_workers = num_workers
        self._prefetch_factor = prefetch_factor
        self._options = options
        self._pipeline: Optional[Pipeline] = None
        self._reads_ahead = reads_ahead
        self._announced: collections.OrderedDict[Key, Announcement] = collections.OrderedDict()
        self._next: Optional[tuple[Key, Any]] = None  # The batch that was read ahead.

    @property
    def ahead(self) -> int:
        return max(min(64, self._num_workers * self._prefetch_factor), int(self._reads_ahead))

    def start(self) -> None:
        if self._num_workers:
            self._pipeline = Pipeline(self._train, self._num_workers, self._prefetch_factor, self._options)

    def stop(self) -> None:
        if self._pipeline is not None:
            self._pipeline.stop()
        self._pipeline = None

    def peek(self, worker: Worker, work: Work, indices: Any) -> Any:
        """Other examples in place of a training batch's, read at once."""
        return self._train.read_now(indices, data_seed(worker.seed, "train", work.epoch, work.index))

    def get_test(self, worker: Worker, work: Work, at: int) -> Any:
        """Returns the examples of a batch of the test data that begins there in its block."""
        assert self._test is not None
        seed = data_seed(worker.seed, work.kind, 0, work.index) + at
        return self._test.read_now(work.indices, seed % (1 << 64))

    def get(self, worker: Worker, work: Work) -> Any:
        """The examples of a training batch."""
        self._take_announcements(worker)
        key = work.epoch, work.index
        while key in self._announced:  # Those that were announced before it come no more.
            self._announced.popitem(last=False)
        if self._next is not None and self._next[0] == key:
            batch, self._next = self._next[1], None
            return batch
        return self._read(worker, key, work.indices)

    def read_ahead(self, worker: Worker) -> Optional[tuple[Announcement, Any]]:
        """The training batch that probably comes next, if it is known; it is read if it was not yet."""
        self._take_announcements(worker)
        if not self._announced:
            return None
        key, item = next(iter(self._announced.items()))
        if self._next is None or self._next[0] != key:
            self._next = key, self._read(worker, key, item.indices)
        return item, self._next[1]

    def _take_announcements(self, worker: Worker) -> None:
        if not self.ahead:
            return
        for item in worker.announcements():
            key = item.epoch, item.index
            self._announced[key] = item
            self._announced.move_to_end(key)
            if self._pipeline is not None:
                seed = data_seed(worker.seed, "train", item.epoch, item.index)
                self._pipeline.announce(Request(item.indices.tolist(), key, seed))
        while len(self._announced) > self.ahead:  # They are void.
            self._announced.popitem(last=False)

    def _read(self, worker: Worker, key: Key, indices: Indices) -> Any:
        seed = data_seed(worker.seed, "train", *key)
        if self._pipeline is None:
            return self._train.read_now(indices, seed)
        return self._pipeline.get(Request(indices.tolist(), key, seed))
