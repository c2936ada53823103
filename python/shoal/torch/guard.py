"""Refuses what programs do in the loop of a run that would train other than they mean, without an error."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import torch
from torch.optim import lr_scheduler
from torch.optim.optimizer import register_optimizer_step_pre_hook

from shoal.errors import ProgramError
from shoal.torch.convert import SCHEDULE


@contextlib.contextmanager
def refused(owned: Collection[int]) -> Iterator[None]:
    """Refuses optimizers and schedulers of PyTorch for these parameters, by id(), and GradScaler, until it ends."""

    def has_owned(optimizer: Any) -> bool:
        return any(id(p) in owned for group in optimizer.param_groups for p in group["params"])

    def refuse_step(optimizer: Any, *_: Any) -> None:
        if has_owned(optimizer):
            raise ProgramError(
                f"{type(optimizer).__name__}.step() would change parameters that belong to the run; replace it by "
                "trainer.step(loss)"
            )

    def refuse_scheduler(scheduler: Any) -> None:
        optimizer = getattr(scheduler, "optimizer", None)
        if optimizer is not None and has_owned(optimizer):
            raise ProgramError(f"{type(scheduler).__name__}.step() would have no effect: {SCHEDULE}")

    def refuse_scale(scaler: Any) -> None:
        if scaler.is_enabled():
            raise ProgramError(
                "GradScaler.scale() would make the gradients that the run applies too large; drop the scaler: "
                "torch.autocast with bfloat16 needs none"
            )

    schedulers = [c for c in _with_subclasses(lr_scheduler.LRScheduler) if "step" in vars(c)]
    with contextlib.ExitStack() as stack:
        stack.callback(register_optimizer_step_pre_hook(refuse_step).remove)
        for scheduler in schedulers:
            stack.callback(_replace(scheduler, "step", refuse_scheduler))
        stack.callback(_replace(torch.amp.GradScaler, "scale", refuse_scale))
        yield


def _with_subclasses(parent: type[Any]) -> list[type[Any]]:
    children: list[type[Any]] = parent.__subclasses__()
    return [parent, *(c for child in children for c in _with_subclasses(child))]


def _replace(owner: Any, name: str, check: Callable[[Any], None]) -> Callable[[], None]:
    """Lets a method call check(self) first; returns what undoes it."""
    method = vars(owner)[name]

    @functools.wraps(method)
    def checked(self: Any, *arguments: Any, **options: Any) -> Any:
        check(self)
        return method(self, *arguments, **options)

    setattr(owner, name, checked)
    return lambda: setattr(owner, name, method)


def check_leaves(losses: Iterable[Any], trained: dict[int, str], has_run: bool) -> None:
    """Checks the parameters that losses depend on. trained: the names of the run's parameters by id().

    has_run: the program has called backward(), so each parameter that the losses reach must have a gradient.
    """
    for leaf in _leaves(losses):
        name = trained.get(id(leaf))
        if name is None and isinstance(leaf, torch.nn.Parameter):
            raise ProgramError(
                f"the loss depends on a parameter of shape {tuple(leaf.shape)} that the trainer does not have, so "
                "nothing would train it; give the trainer its module too: Trainer(worker, [model, head], …), or freeze "
                "it by requires_grad_(False)"
            )
        if has_run and name is not None and leaf.grad is None:
            raise ProgramError(
                f"step() only reports a loss once the program has called backward(), but {name}, on which this loss "
                "depends, has no gradient; call backward() for each loss, or leave it to step([loss_a, loss_b])"
            )


def _leaves(losses: Iterable[Any]) -> Iterator[Any]:
    """Yields the tensors without a history that the losses depend on and that require a gradient."""
    nodes = [loss.grad_fn for loss in losses if loss.grad_fn is not None]
    seen = set(nodes)
    while nodes:
        node = nodes.pop()
        variable = getattr(node, "variable", None)
        if variable is not None:
            yield variable
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                nodes.append(following)
