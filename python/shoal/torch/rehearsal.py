"""The memory of check_determinism(), which computes a batch twice."""

from __future__ import annotations

from typing import Any, Optional

from shoal.errors import ProgramError
from shoal.worker import Work


class Rehearsal:
    def __init__(self) -> None:
        self.is_running = True
        self._kept: Optional[tuple[dict[str, Any], float]] = None
        self._steps = 0
        self._asked = 0

    def is_incomplete(self) -> bool:
        """Returns whether a batch ended without a step."""
        self._asked += 1
        return self._steps != self._asked

    def keep(self, contributions: dict[str, Any], loss_sum: float) -> None:
        self._steps += 1
        if self._kept is None:
            self._kept = contributions, loss_sum

    def compare(self, work: Work, loss_sum: float) -> None:
        assert self._kept is not None
        contributions, loss_before = self._kept
        for name, before in contributions.items():
            if before.tobytes() != work.gradients._arrays[name].tobytes():
                raise ProgramError(
                    f"{work} was computed twice, and the contributions to {name} differ: something remembers batches, "
                    "or has random numbers of its own (torch, numpy.random and random are seeded for each batch)"
                )
        if loss_before != loss_sum:
            raise ProgramError(f"{work} was computed twice, with the losses {loss_before!r} and {loss_sum!r}")
        print(f"shoal: check_determinism: {work} had the same bytes twice, in {len(contributions)} variables")
