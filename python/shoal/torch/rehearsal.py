"""The memory of check_determinism(), which computes a batch twice."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from shoal._rows import Array, Keys
from shoal.errors import ProgramError
from shoal.worker import Work


class Rehearsal:
    def __init__(self) -> None:
        self.is_running = True
        self._kept: Optional[tuple[dict[str, Any], dict[str, tuple[Keys, Array]], float]] = None
        self._steps = 0
        self._asked = 0

    def is_incomplete(self) -> bool:
        """Returns whether a batch ended without a step."""
        self._asked += 1
        return self._steps != self._asked

    def keep(self, contributions: dict[str, Any], rows: dict[str, tuple[Keys, Array]], loss_sum: float) -> None:
        """rows: the keys and the gradients of each table."""
        self._steps += 1
        if self._kept is None:
            self._kept = contributions, rows, loss_sum

    def compare(self, work: Work, rows: dict[str, tuple[Keys, Array]], loss_sum: float) -> None:
        assert self._kept is not None
        contributions, rows_before, loss_before = self._kept
        for name, before in contributions.items():
            if before.tobytes() != work.gradients._arrays[name].tobytes():
                raise _differs(work, f"the contributions to {name} differ")
        for table in {**rows_before, **rows}:
            (keys_before, before), (keys, now) = (of.get(table, _NO_ROWS) for of in (rows_before, rows))
            if keys_before.tobytes() != keys.tobytes():
                raise _differs(work, f"the keys of table {table} whose rows have gradients differ")
            if before.tobytes() != now.tobytes():
                raise _differs(work, f"the gradients of rows of table {table} differ")
        if loss_before != loss_sum:
            raise ProgramError(f"{work} was computed twice, with the losses {loss_before!r} and {loss_sum!r}")
        tables = f" and {len(rows)} tables" if rows else ""
        print(f"shoal: check_determinism: {work} had the same bytes twice, in {len(contributions)} variables{tables}")


_NO_ROWS = np.empty(0, np.uint64), np.empty((0, 0), np.float32)


def _differs(work: Work, what: str) -> ProgramError:
    return ProgramError(
        f"{work} was computed twice, and {what}: something remembers batches, or has random numbers of its own (torch, "
        "numpy.random and random are seeded for each batch)"
    )
