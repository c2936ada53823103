"""Converts what a program reports about a batch, tensors or numbers, to one form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from shoal.errors import ProgramError


def array_of(value: Any) -> Any:
    """A tensor as an array; any other value as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    return (value.float() if value.is_floating_point() else value).numpy()


def losses_of(
    loss: Any, models: Mapping[str, nn.Module], has_tables: bool, is_training: bool
) -> tuple[list[Any], list[Any]]:
    """Returns the losses, and for each one the parameters that get its gradient, or None for all.

    In training each model has one, since a run updates all variables in each step.
    """
    if not isinstance(loss, Mapping):
        losses = list(loss) if isinstance(loss, (list, tuple)) else [loss]
        return losses, [None] * len(losses)
    for name in loss:
        if f"{name}." not in models:
            known = ", ".join(prefix[:-1] for prefix in models if prefix) or "one, without a name"
            raise ProgramError(f"step() has got a loss for the model {name!r}; the trainer's models are {known}")
    if has_tables:
        raise ProgramError(
            "step() has got a loss for each model, but the rows of tables belong to none of them; give it the sum "
            "of losses that are detached from the other models, as step([loss_a, loss_b])"
        )
    inputs = [[p for p in models[f"{name}."].parameters() if p.requires_grad] for name in loss]
    for name, trained in zip(loss, inputs):
        if not trained:
            raise ProgramError(f"step() has got a loss for the model {name!r}, of which no parameter is trained")
    given = {id(parameter) for trained in inputs for parameter in trained}
    for prefix, model in models.items():
        if is_training and any(p.requires_grad and id(p) not in given for p in model.parameters()):
            raise ProgramError(
                f"step() has got no loss for the model {prefix[:-1]!r}, but a run updates all variables in each step, "
                "so momentum and weight decay would change it; give each model a loss in every training batch, or "
                "freeze it by requires_grad_(False) before trainer.batches()"
            )
    return list(loss.values()), inputs


def mean_of(loss: Any, examples: int) -> Any:
    """The mean over the examples, as a tensor without dimensions."""
    if isinstance(loss, (int, float)):
        return torch.tensor(float(loss))
    if not isinstance(loss, torch.Tensor):
        raise ProgramError(f"the loss is a {type(loss).__name__}; it must be a tensor")
    if loss.dim() == 0:
        return loss
    if tuple(loss.shape) == (examples,):
        return loss.mean()
    raise ProgramError(
        f"the loss has the shape {tuple(loss.shape)}; it must be the mean over the batch, or one value for each of its "
        f"{examples} examples"
    )
