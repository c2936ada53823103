"""Finds calls in the loop of a run that would silently train something else than the program means."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import torch
from torch.nn.utils import clip_grad
from torch.optim import lr_scheduler, swa_utils
from torch.optim.optimizer import register_optimizer_step_pre_hook

from shoal.errors import ProgramError
from shoal.torch.convert import SCHEDULE, has_any, is_taken_over
from shoal.torch.memory import values_of

# PyTorch 2.1 and 2.2 have it for CUDA only.
_SCALER = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler


class Scaling:
    """Knows whether GradScaler has scaled the loss of the last gradients."""

    def __init__(self) -> None:
        self.is_scaled = False

    def check(self) -> None:
        if self.is_scaled:
            raise ProgramError(
                "GradScaler.scale() has made the gradients too large for the run, which applies them as they are; drop "
                "the scaler, since torch.autocast with bfloat16 needs none, or call scaler.unscale_(optimizer) before"
            )


@contextlib.contextmanager
def refused(
    owned: Collection[int],
    waits_for_backward: Callable[[], bool],
    leaves_gradients: Callable[[Collection[int]], bool],
) -> Iterator[Scaling]:
    """Refuses what has no effect on these parameters, by id(), until it ends: optimizers, schedulers and averages of
    PyTorch, and clipping while waits_for_backward().

    leaves_gradients: returns whether zero_grad() of some parameters leaves gradients of others in a training batch.
    """
    scaling = Scaling()

    def refuse_step(optimizer: Any, *_: Any) -> None:
        if has_any(optimizer, owned):
            raise ProgramError(
                f"{type(optimizer).__name__}.step() would change parameters that belong to the run; replace it by "
                "trainer.step(loss)"
            )

    def refuse_clearing_some(parameters: Iterable[Any]) -> None:
        """The next backward pass would add to the gradients that are left, which are of another loss."""
        cleared = {id(p) for p in parameters}
        if not cleared.isdisjoint(owned) and leaves_gradients(cleared):
            raise ProgramError(
                "zero_grad() would clear the gradients of some parameters and leave those of others, to which the next "
                "backward pass would add; give each model the gradient of its own loss: Trainer(worker, "
                '{"judge": d, "generator": g}) and one step({"judge": loss_d, "generator": loss_g})'
            )

    def refuse_stranger(optimizer: Any, *_: Any, **__: Any) -> None:
        if not has_any(optimizer, owned):
            return
        refuse_clearing_some(p for group in optimizer.param_groups for p in group["params"])
        if not is_taken_over(optimizer):
            raise ProgramError(
                f"{type(optimizer).__name__} was not given to the Trainer, so the run does not use it; give it to the "
                "Trainer: shoal.torch.Trainer(worker, model, optimizer=opt), one with a parameter group for each model "
                "if there are several, or drop it: trainer.zero_grad() clears gradients too"
            )

    def refuse_clearing_module(module: Any, *_: Any, **__: Any) -> None:
        refuse_clearing_some(module.parameters())

    def refuse_average(_: Any, model: Any, *__: Any, **___: Any) -> None:
        if any(id(p) in owned for p in model.parameters()):
            raise ProgramError(
                "update_parameters() of an AveragedModel would average the batches of one worker only, and a restart "
                "would lose the average; let the run average: shoal.Adam(…, moving_average_decay=0.999), and shoal "
                "export --use_averages after it"
            )

    def refuse_scheduler(scheduler: Any, *_: Any, **__: Any) -> None:
        optimizer = getattr(scheduler, "optimizer", None)
        if optimizer is not None and has_any(optimizer, owned):
            raise ProgramError(f"{type(scheduler).__name__}.step() would have no effect: {SCHEDULE}")

    def refuse_clipping(parameters: Iterable[Any]) -> None:
        if any(id(p) in owned for p in parameters) and waits_for_backward():
            raise ProgramError(
                "there are no gradients to clip before step(loss), which runs the backward pass; call loss.backward() "
                "before, or let the run clip: clip_by_global_norm=… of shoal.Adam or from_torch()"
            )

    def note_scale(scaler: Any, *_: Any, **__: Any) -> None:
        scaling.is_scaled = bool(scaler.is_enabled())

    def note_unscale(*_: Any, **__: Any) -> None:
        scaling.is_scaled = False

    # Before PyTorch 2.2 ReduceLROnPlateau is not an LRScheduler.
    parents = (lr_scheduler.LRScheduler, lr_scheduler.ReduceLROnPlateau)
    schedulers = {c for parent in parents for c in _with_subclasses(parent) if "step" in vars(c)}
    stepping = {c for c in _with_subclasses(torch.optim.Optimizer) if "zero_grad" in vars(c)}
    # clip_grad_norm_ calls the last one by its name in the module, so it is found however a program has got the first.
    clipping = [getattr(clip_grad, n, None) for n in ("clip_grad_norm_", "clip_grad_value_", "_clip_grads_with_norm_")]
    with contextlib.ExitStack() as stack:
        stack.callback(register_optimizer_step_pre_hook(refuse_step).remove)
        for scheduler in schedulers:
            stack.callback(_replace(scheduler, "step", refuse_scheduler))
        stack.callback(_replace(_SCALER, "scale", note_scale))
        stack.callback(_replace(_SCALER, "unscale_", note_unscale))
        for optimizer in stepping:
            stack.callback(_replace(optimizer, "zero_grad", refuse_stranger))
        stack.callback(_replace(torch.nn.Module, "zero_grad", refuse_clearing_module))
        stack.callback(_replace(swa_utils.AveragedModel, "update_parameters", refuse_average))
        stack.callback(_replace_functions([f for f in clipping if f is not None], refuse_clipping))
        yield scaling


def _with_subclasses(parent: type[Any]) -> list[type[Any]]:
    children: list[type[Any]] = parent.__subclasses__()
    return [parent, *(c for child in children for c in _with_subclasses(child))]


def _replace(owner: Any, name: str, check: Callable[..., None]) -> Callable[[], None]:
    """Lets a method call check() with its arguments first; returns what undoes it."""
    before = vars(owner).get(name)
    method = getattr(owner, name)

    @functools.wraps(method)
    def checked(self: Any, *arguments: Any, **options: Any) -> Any:
        check(self, *arguments, **options)
        return method(self, *arguments, **options)

    setattr(owner, name, checked)
    return lambda: delattr(owner, name) if before is None else setattr(owner, name, before)


def _replace_functions(functions: Sequence[Any], check: Callable[[list[Any]], None]) -> Callable[[], None]:
    """Lets functions of parameters call check(parameters) first, in every module that has imported them, by whatever
    name; returns what undoes it."""
    others = {id(function): _checked(function, check) for function in functions}
    replaced: list[tuple[dict[str, Any], str, Any]] = []
    for module in list(sys.modules.values()):
        if not issubclass(type(module), ModuleType):
            continue
        names = object.__getattribute__(module, "__dict__")  # vars() would load a module that is loaded on first use.
        for name, value in list(names.items()):
            if id(value) in others:
                names[name] = others[id(value)]
                replaced.append((names, name, value))

    def undo() -> None:
        for names, name, value in replaced:
            if names.get(name) is others[id(value)]:
                names[name] = value

    return undo


def _checked(function: Callable[..., Any], check: Callable[[list[Any]], None]) -> Callable[..., Any]:
    @functools.wraps(function)
    def checked(parameters: Any, *arguments: Any, **options: Any) -> Any:
        every = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        check(every)
        return function(every, *arguments, **options)

    return checked


def why_not_trained(losses: Iterable[Any], names: Mapping[int, str], has_run: bool) -> str:
    """Returns a warning about parameters that losses depend on but that may not be trained as the program means.

    names: those of the run's parameters by id(). has_run: the program has called backward(), so parameters that the
    losses reach should have gradients. Empty if nothing is strange. A program may have reasons for both.
    """
    for leaf in _leaves(losses):
        name = names.get(id(leaf))
        if name is None and isinstance(leaf, torch.nn.Parameter):
            return (
                f"the loss depends on a parameter of shape {tuple(leaf.shape)} that the trainer does not have, so the "
                "run does not train it; give the trainer its module too: Trainer(worker, [model, head], …)"
            )
        if has_run and name is not None and leaf.grad is None:
            return (
                "step() only reports a loss once the program has called backward(), and this loss depends on "
                f"{name}, which has no gradient; call backward() for each loss, or leave it to step([loss_a, loss_b])"
            )
    return ""


def why_not_run(losses: Iterable[Any], gradients: Sequence[Any]) -> str:
    """Returns a warning if some of the losses were probably not run backward, although there are gradients.

    Those are then of another loss, as of an attack on the inputs. A backward pass frees the graph, unless the program
    keeps it on purpose. Gradients that are all zero belong to no loss, which is an error.
    """
    if any(gradient.requires_grad for gradient in gradients):  # backward(create_graph=True) keeps the graph.
        return ""
    if not any(loss.requires_grad and _has_graph(loss) for loss in losses):
        return ""
    if not any(bool(values_of(gradient).any()) for gradient in gradients):
        raise ProgramError(
            "all gradients are zero, as zero_grad(set_to_none=False) leaves them, so step(loss) would only report the "
            "loss and train nothing; call trainer.zero_grad(), which removes them"
        )
    return (
        "step() only reports a loss once the program has called backward(), and the graph of this loss is still there, "
        "so the gradients are probably those of another loss; call trainer.zero_grad() before step(loss), or "
        "backward() of this loss without retain_graph=True"
    )


def _has_graph(loss: Any) -> bool:
    """Returns whether a backward pass through the graph of a loss is possible."""
    leaves = [leaf for leaf in _leaves([loss]) if leaf.requires_grad]
    try:
        return bool(leaves and torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True))
    except RuntimeError:
        return False


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
