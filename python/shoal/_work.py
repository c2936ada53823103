"""One batch, as the program sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np
import numpy.typing as npt

from shoal import _protocol
from shoal._metrics import checked, value_of
from shoal._rows import Keys, Places, Rows, check_size, keys_of, unique_of
from shoal.errors import ProgramError

if TYPE_CHECKING:
    from shoal.worker import Worker

Array = npt.NDArray[np.float32]
Arrays = dict[str, Array]

# A FINAL message covers at least so many bytes, unless it is the last one of a batch.
FINAL_BYTES = 1 << 20


class Contributions(MutableMapping[str, Array]):
    """The contributions of a batch, by variable. `contributions[name] = value` copies into the shared memory.

    contributions[name] is the array itself, to be added to, written by slices or given as `out=`. It begins with zeros,
    so what a batch does not write contributes zeros.
    """

    def __init__(self, arrays: Arrays, names: Mapping[str, None]) -> None:
        self._arrays = arrays
        self._names = names
        self.written: set[str] = set()
        self.final: set[str] = set()

    def __getitem__(self, name: str) -> Array:
        is_new = name not in self.written
        array = self._whole(name)
        if is_new:
            array.fill(0)  # It holds the values of an earlier batch.
        return array

    def _whole(self, name: str) -> Array:
        """Returns the array with whatever it holds, for somebody who writes all of it."""
        self._check(name)
        self.written.add(name)
        return self._arrays[name]

    def __contains__(self, name: object) -> bool:
        return bool(self._arrays) and name in self._names

    def __setitem__(self, name: str, value: npt.ArrayLike) -> None:
        self._check(name)
        array = self._arrays[name]
        if value is not array:
            shape = np.shape(value)
            if shape != array.shape:
                raise ProgramError(f"the contribution to {name} has the shape {shape}; the variable has {array.shape}")
            array[...] = value
        self.written.add(name)

    def __delitem__(self, name: str) -> None:
        raise ProgramError(f"the contribution to {name} cannot be removed; write zeros")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names if self._arrays else ())

    def __len__(self) -> int:
        return len(self._names) if self._arrays else 0

    def _check(self, name: str) -> None:
        if not self._arrays:
            raise ProgramError("an evaluation has no contributions; look at work.kind")
        if name not in self._arrays:
            raise ProgramError(f"{name!r} is not a variable; the run has {_some(self._arrays)}")
        if name not in self._names:
            raise ProgramError(f"{name} is frozen, so nothing is contributed to it")
        if name in self.final:
            raise ProgramError(f"{name} is written after work.final({name!r}); it may already be on its way")


class Work:
    """One batch to train with, or one block of test examples to evaluate.

    kind: "train" or "evaluate".
    indices: the numbers of the batch's examples, in the training or in the test data.
    parameters: the variables' values, by name; they cannot be written.
    gradients: where the contributions go (training only), by name.
    step, epoch, index, seed: see docs/compute_program.md. Random numbers should depend on the seed only. An evaluation
        has no step and no epoch.
    """

    def __init__(
        self, worker: Worker, assignment: _protocol.Assignment, parameters: Arrays, contributions: Contributions
    ) -> None:
        self._worker = worker
        self._pending: list[str] = []
        self._pending_bytes = 0
        self._rows: list[Rows] = []
        self.kind = "train" if assignment.is_training else "evaluate"
        self.is_training = assignment.is_training
        self.indices = assignment.indices
        self.parameters: Mapping[str, Array] = parameters
        self.gradients = contributions
        self.parameter_set = assignment.parameter_set
        self.contribution_set = assignment.contribution_set
        self._step = assignment.step
        self._epoch = assignment.epoch
        self.index = assignment.index
        self.seed = assignment.seed
        self.is_done = False

    @property
    def step(self) -> int:
        """The number of updates that the parameters had before this batch."""
        self._check_training("step")
        return self._step

    @property
    def epoch(self) -> int:
        """The epoch of this batch, from 0."""
        self._check_training("epoch")
        return self._epoch

    def _check_training(self, what: str) -> None:
        if not self.is_training:
            raise ProgramError(
                f"{self} has no {what}, because the worker names it for training batches only; read it only if "
                "is_training (PyTorch: trainer.training), and give an evaluation a fixed value for what follows from it"
            )

    @property
    def generator(self) -> np.random.Generator:
        """A new generator of random numbers that starts from the batch's seed."""
        return np.random.default_rng(self.seed)

    def look_up(self, table: Union[str, Mapping[str, Any]], keys: Any = None) -> Any:
        """Returns the rows of these keys of a table, which declare(tables=…) names, as shoal.Rows.

        keys: any array of whole numbers; a negative int64 is the key with the same 64 bits.
        look_up({name: keys, …}) looks up several tables at once and returns a dict of Rows: a look-up waits for the
        parameter servers, so a batch should make few. All look-ups of a batch come before its first final().
        """
        self._check_open("look_up()")
        if not isinstance(table, Mapping):
            if keys is None:
                raise ProgramError(f"look_up({table!r}) needs the keys of the rows")
            return self.look_up({table: keys})[table]
        if keys is not None:
            raise ProgramError("look_up({name: keys, …}) has the keys in the dict; a second argument has no meaning")
        for name in table:
            self._worker._check_table(name)
        found = {name: unique_of(keys_of(name, wanted)) for name, wanted in table.items()}
        return self._look_up(found)

    def _look_up(self, wanted: Mapping[str, tuple[Keys, Places]]) -> dict[str, Rows]:
        """wanted: for each table different rising keys, and the inverse of the result."""
        if self.gradients.final:
            raise ProgramError(f"rows are looked up after final() in {self}; look up all rows of a batch first")
        keys = {name: unique for name, (unique, _) in wanted.items()}
        check_size(keys)
        arrays = self._worker._pull_rows(keys, self.is_training)
        result = {name: Rows(self, name, keys[name], *arrays[name], wanted[name][1]) for name in wanted}
        self._rows += result.values()
        return result

    def look_ahead(self, batch: _protocol.Announcement, keys: Mapping[str, Any]) -> None:
        """Names the keys that an announced batch will probably look up, as {name of a table: keys}.

        batch: one of worker.announcements(). Its rows then come with its parameters, and a look_up() of these keys, or
        of some of them, does not wait for the parameter servers; one with any other key waits as before. Nothing else
        depends on it. The newest call counts, and evaluations ignore it.
        """
        self._check_open("look_ahead()")
        for name in keys:
            self._worker._check_table(name)
        self._look_ahead(batch, {name: unique_of(keys_of(name, wanted))[0] for name, wanted in keys.items()})

    def _look_ahead(self, batch: _protocol.Announcement, keys: Mapping[str, Keys]) -> None:
        """Names the keys: for each table, different keys in rising order."""
        check_size(keys)
        if self.is_training:
            self._worker._name_ahead(batch, keys)

    def final(self, *names: str) -> None:
        """Says that these contributions are complete, so that they travel while the program computes the others.

        Optional: done() makes the rest final.
        """
        self._check_open("final()")
        for name in names:
            array = self.gradients[name]  # Checks the name, and that it is not final yet; what is not written is zero.
            self.gradients.final.add(name)
            self._pending.append(name)
            self._pending_bytes += array.nbytes
        if self._pending_bytes >= FINAL_BYTES:
            self._worker._send_final(self._pending)
            self._pending, self._pending_bytes = [], 0

    def progress(self) -> None:
        """Says that a part of a long batch or evaluation has been computed.

        A worker that computes one of them for cluster.stall_seconds (120) counts as hung; a report begins that time
        anew, and one in an eighth of it counts. A call sends at most one message per second, so it may be called after
        every part, however short.
        """
        self._check_open("progress()")
        self._worker._report_progress()

    def done(
        self, loss_sum: float, examples: Optional[int] = None, metrics: Optional[Mapping[str, Any]] = None
    ) -> None:
        """Ends the work.

        loss_sum: the sum of the loss over the batch's examples. If it is not finite, the batch is skipped.
        examples: how many were computed, if the program wants that checked.
        metrics: for each name (sum, weight), an array with a value per example, or the mean over the batch; of an AUC
            (scores, labels).
        """
        self._check_open("done()")
        try:
            loss = float(loss_sum)
        except (TypeError, ValueError):
            raise ProgramError(f"the loss is {loss_sum!r}; it must be one number, the sum over the examples") from None
        if examples is not None and examples != len(self.indices):
            raise ProgramError(f"{examples} examples were computed, but {self} has {len(self.indices)}")
        size = len(self.indices)
        values = {n: value_of(self._worker._metrics, n, value, size) for n, value in (metrics or {}).items()}
        values = checked(values, loss)
        if self.is_training:
            for name in self.gradients:
                if name not in self.gradients.written:
                    self.gradients._arrays[name].fill(0)
            for rows in self._rows:
                rows._finish()
        self.is_done = True
        self._worker._send_done(loss, values)

    def _check_open(self, what: str) -> None:
        if self.is_done:
            raise ProgramError(f"{what} is called for {self} after done()")

    def __str__(self) -> str:
        if self.is_training:
            return f"batch {self.index} of epoch {self._epoch + 1}"  # As the progress bar counts epochs.
        return f"test block {self.index}"


def _some(names: Mapping[str, Any]) -> str:
    shown = ", ".join(list(names)[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
