"""Converts what a program reports about a batch, tensors or numbers, to one form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from shoal.errors import ProgramError


def array_of(value: Any) -> Any:
    """A tensor as an array; any other value as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    return (value.float() if value.is_floating_point() else value).numpy()


def arrays_of(value: Any, is_auc: bool) -> Any:
    """Returns a metric's value with arrays in the place of tensors."""
    if isinstance(value, list) and not is_auc:
        return np.array([float(item) for item in value])  # A value per example; (sum, weight) is a tuple.
    return tuple(map(array_of, value)) if isinstance(value, (tuple, list)) else array_of(value)


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


def run_backward(means: Sequence[Any], inputs: Sequence[Any], share: float) -> None:
    """Runs the backward pass of losses, each times `share`. inputs: those of losses_of()."""
    roots = [(mean if share == 1 else mean * share, of) for mean, of in zip(means, inputs) if mean.requires_grad]
    if inputs[0] is None:
        torch.autograd.backward([root for root, _ in roots])
        return
    for number, (root, of) in enumerate(roots):
        torch.autograd.backward(root, retain_graph=number + 1 < len(roots), inputs=of)
