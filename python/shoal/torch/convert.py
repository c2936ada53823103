"""Optimizers of PyTorch as optimizers of the run, where both compute the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from shoal import optimizers
from shoal.errors import ProgramError

# Options that change the results of no optimizer.
_IRRELEVANT = frozenset(("params", "foreach", "fused", "capturable", "differentiable", "param_names", "initial_lr"))
_REMEDIES = {
    "RMSprop": "shoal.RMSProp has epsilon inside the root and starts from 1, as TensorFlow does",
    "NAdam": "use shoal.Adam",
    "RAdam": "use shoal.Adam with schedule=shoal.Cosine(warmup_steps=…)",
    "Adamax": "use shoal.Adam",
}


def from_torch(optimizer: torch.optim.Optimizer) -> optimizers.Optimizer:
    """Returns the optimizer of the run with the formula of PyTorch's; ProgramError where there is none.

    Adam and AdamW add epsilon to the uncorrected second moment, PyTorch to the corrected one: the results differ by
    less than 1e-5 of an update, as long as gradients are large against epsilon.
    """
    name = type(optimizer).__name__
    group = _only_group(optimizer, name)
    learning_rate = float(group["lr"])
    if group.get("maximize"):
        raise ProgramError(f"{name}: maximize is not possible; negate the loss")
    if name == "SGD":
        _refuse(name, group, "weight_decay", "dampening")
        if not group["momentum"]:
            return optimizers.SGD(learning_rate)
        return optimizers.Momentum(learning_rate, momentum=group["momentum"], nesterov=group["nesterov"])
    if name in ("Adam", "AdamW"):
        beta1, beta2 = group["betas"]
        if group.get("amsgrad"):
            raise ProgramError(f"{name}: amsgrad is not possible; use {name} without it")
        if name == "AdamW":
            return optimizers.AdamW(
                learning_rate, beta1=beta1, beta2=beta2, epsilon=group["eps"], weight_decay=group["weight_decay"]
            )
        _refuse(name, group, "weight_decay")
        return optimizers.Adam(learning_rate, beta1=beta1, beta2=beta2, epsilon=group["eps"])
    if name == "Adagrad":
        _refuse(name, group, "weight_decay", "lr_decay")
        return optimizers.Adagrad(
            learning_rate, initial_accumulator=group["initial_accumulator_value"], epsilon=group["eps"]
        )
    if name == "Adadelta":
        _refuse(name, group, "weight_decay")
        return optimizers.Adadelta(learning_rate, rho=group["rho"], epsilon=group["eps"])
    remedy = _REMEDIES.get(name, "use one of shoal.SGD, Momentum, Adagrad, Adadelta, RMSProp, Adam, AdamW, Ftrl")
    raise ProgramError(f"torch.optim.{name} has no optimizer with the same formula in Shoal: {remedy}")


def _only_group(optimizer: torch.optim.Optimizer, name: str) -> Mapping[str, Any]:
    """The options of all parameters. A run file has one optimizer for all variables."""
    first: Mapping[str, Any] = optimizer.param_groups[0]
    for other in optimizer.param_groups[1:]:
        for option in first.keys() - _IRRELEVANT:
            if first[option] != other.get(option):
                raise ProgramError(
                    f"{name}: the parameter groups have {option} {first[option]!r} and {other.get(option)!r}, but a "
                    "run has one optimizer for all variables; a group is frozen by requires_grad_(False)"
                )
    return first


def _refuse(name: str, group: Mapping[str, Any], *options: str) -> None:
    for option in options:
        if group[option]:
            remedy = "use AdamW, whose decay is decoupled" if option == "weight_decay" else "set it to 0"
            if name == "SGD" and option == "weight_decay":
                remedy = "add weight_decay / 2 * sum of squares to the loss"
            raise ProgramError(f"{name}: {option}={group[option]!r} is not possible; {remedy}")
