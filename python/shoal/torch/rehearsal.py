"""The memory of check_determinism(), which computes a batch twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

import numpy as np
import torch

from shoal._protocol import Indices
from shoal._rows import Array, Keys
from shoal.errors import ProgramError
from shoal.torch.memory import values_of
from shoal.torch.model import Entry
from shoal.worker import Work

Gradients = dict[str, tuple[Keys, Array]]  # The keys and the gradients of each table.


class Rehearsal:
    def __init__(self) -> None:
        self.is_running = True
        self.rows: Gradients = {}  # Those of the real batch.
        self._kept: Optional[tuple[dict[str, Any], Gradients, float]] = None
        self._steps = 0
        self._asked = 0

    def batches(self, work: Work) -> Iterator[Indices]:
        """Gives the work the examples of the batch, and then those in reverse order as another batch; yields them.

        Afterwards the work has its own again, and the real batch follows.
        """
        real = work.indices, work.seed
        for indices, seed in (real, (real[0][::-1], work.seed ^ 1)):
            work.indices, work.seed = np.ascontiguousarray(indices), seed
            yield work.indices
        work.indices, work.seed = real
        self.is_running = False

    def is_incomplete(self) -> bool:
        """Returns whether a batch ended without a step."""
        self._asked += 1
        return self._steps != self._asked

    def keep(self, contributions: dict[str, Any], rows: Gradients, loss_sum: float) -> None:
        self._steps += 1
        if self._kept is None:
            self._kept = contributions, rows, loss_sum

    def compare(self, work: Work, loss_sum: float) -> None:
        assert self._kept is not None
        contributions, rows_before, loss_before = self._kept
        for name, before in contributions.items():
            if before.tobytes() != work.gradients._arrays[name].tobytes():
                raise _differs(work, f"the contributions to {name} differ")
        for table in {**rows_before, **self.rows}:
            (keys_before, before), (keys, now) = (of.get(table, _NO_ROWS) for of in (rows_before, self.rows))
            if keys_before.tobytes() != keys.tobytes():
                raise _differs(work, f"the keys of table {table} whose rows have gradients differ")
            if before.tobytes() != now.tobytes():
                raise _differs(work, f"the gradients of rows of table {table} differ")
        if loss_before != loss_sum:
            raise ProgramError(f"{work} was computed twice, with the losses {loss_before!r} and {loss_sum!r}")
        tables = f" and {len(self.rows)} tables" if self.rows else ""
        print(f"shoal: check_determinism: {work} had the same bytes twice, in {len(contributions)} variables{tables}")


_NO_ROWS = np.empty(0, np.uint64), np.empty((0, 0), np.float32)


def _differs(work: Work, what: str) -> ProgramError:
    return ProgramError(
        f"{work} was computed twice, and {what}: something remembers batches, or has random numbers of its own (torch, "
        "numpy.random and random are seeded for each batch)"
    )


def contributions_of(trained: Mapping[str, Any], buffers: Sequence[Entry]) -> dict[str, Any]:
    """Returns copies of what a batch contributes: the gradients of trained parameters, and statistics."""
    result = {name: torch.zeros_like(p) if p.grad is None else values_of(p.grad).clone() for name, p in trained.items()}
    result.update({e.name: e.tensor.clone() for e in buffers if e.kind == "statistic"})
    return {name: tensor.cpu().numpy() for name, tensor in result.items()}
