"""Converts what a program reports about a batch, tensors or numbers, to one form."""

from __future__ import annotations

from typing import Any

import torch

from shoal.errors import ProgramError


def array_of(value: Any) -> Any:
    """A tensor as an array; any other value as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    return (value.float() if value.is_floating_point() else value).numpy()


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
