"""Follows a program from batch to batch: who runs the backward pass, and what happens to the parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from shoal.errors import ProgramError
from shoal.torch.guard import why_not_run, why_not_trained
from shoal.torch.memory import Memory

# The first batches of a process, and again of each interval, have checks that take long.
_CAREFUL_BATCHES = 3
_INTERVAL = 1000


class Watch:
    """Knows how a program trains, and warns of what it probably does not mean."""

    def __init__(self) -> None:
        self.runs_backward = False  # The program lets the trainer call backward().
        self._has_own_backward = False  # step(loss) has found gradients of the program.
        self._batches = 0
        self._has_evaluated = False
        self._printed: set[str] = set()

    @property
    def is_careful(self) -> bool:
        return self._batches % _INTERVAL < _CAREFUL_BATCHES

    def looks_for_writes(self, is_training: bool) -> bool:
        """Returns whether the program may write parameters in the batch that begins, so that its error has their name.

        So it is in the first training batches of a process and in its first evaluation.
        """
        is_first = self._batches < _CAREFUL_BATCHES if is_training else not self._has_evaluated
        self._has_evaluated = self._has_evaluated or not is_training
        return is_first

    def end_batch(self) -> None:
        """Called after each training batch."""
        self._batches += 1

    def has_run(
        self, losses: Sequence[Any], is_finite: bool, names: Mapping[int, str], left: Optional[Iterator[Any]]
    ) -> bool:
        """Returns whether the program has called backward() for these losses itself, so that it has left gradients.

        names: those of the run's parameters by id(). left: the gradients that are there; None if they are those of
        other parts of the batch. ProgramError if the program calls backward() in some batches only: a loss that is only
        reported there would train nothing. A loss that is not finite says nothing, since its batch is skipped:
        programs leave out its backward().
        """
        first = None if left is None else next(left, None)
        has_run = first is not None
        if has_run and self.runs_backward:
            raise ProgramError(
                "the program has called backward() in this batch, and left it to step(loss) in others, so this loss "
                "would only be reported; give step() all losses of the batch, step([loss, penalty]), or call "
                "trainer.zero_grad() after a backward pass for something else"
            )
        if left is not None and not has_run and self._has_own_backward and is_finite:
            raise ProgramError(
                "the program has called backward() in other batches, where step(loss) only reported the loss, and not "
                "in this one; call backward() for all losses of every batch, or leave them all to step([loss, penalty])"
            )
        self._has_own_backward = self._has_own_backward or has_run
        if self.is_careful:
            self.warn(why_not_trained(losses, names, has_run))
            if left is not None and has_run:
                self.warn(why_not_run(losses, [first, *left]))
        return has_run

    def warn_of_unreached(self, names: Sequence[str]) -> None:
        """Warns once of trained parameters that have no gradient. PyTorch's optimizers leave such a parameter alone."""
        if names:
            several = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
            self.warn(
                f"the loss of a batch gave {several} no gradient, which counts as zero, so momentum and weight decay "
                "still change the values, unlike in PyTorch; freeze what is not used: requires_grad_(False) before "
                "trainer.batches()",
                "unreached",
            )

    def warn(self, why: str, kind: str = "") -> None:
        """Prints a warning once, unless it is empty. kind: of warnings of which only the first counts."""
        if why and (kind or why) not in self._printed:
            self._printed.add(kind or why)
            print(f"shoal: warning: {why}", flush=True)


class ParameterCheck:
    """Finds parameters that the program writes, replaces, freezes or thaws while the run trains."""

    def __init__(self, memory: Memory, parameters: Mapping[str, Any]) -> None:
        self._memory = memory
        self._parameters = parameters
        self._is_trained = {name: parameter.requires_grad for name, parameter in parameters.items()}

    def check_written(self, number: Optional[int] = None, compares: bool = False, when: str = "") -> None:
        """number, compares: those of Memory.written()."""
        written = self._memory.written(number, compares)
        if written is not None:
            raise ProgramError(
                f"the program has written into the parameter {written}{when}, before it came to this line; parameters "
                "belong to the run, which updates them by itself and would not see it: compute with other values in "
                "the forward pass, or let the loss keep them in bounds"
            )

    def check_replaced(self, when: str = "") -> None:
        for name, parameter in self._parameters.items():
            if self._memory.has_moved(name):
                raise ProgramError(
                    f"the parameter {name} was replaced{when}, its shape is {tuple(parameter.shape)}; change models "
                    "before trainer.batches() begins, and leave the values of parameters to the run"
                )

    def check(self, number: int, is_careful: bool) -> None:
        """number: the parameter set of the batch."""
        self.check_replaced()
        for name, parameter in self._parameters.items():
            if parameter.requires_grad != self._is_trained[name]:
                raise ProgramError(
                    f"requires_grad of {name} has changed; freeze parameters before trainer.batches() begins"
                )
        self.check_written(number, is_careful)
