"""Optimizers of PyTorch as optimizers of the run, where both compute the same."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Optional

import torch
from torch.nn.parameter import UninitializedParameter

from shoal import optimizers
from shoal.errors import ProgramError
from shoal.torch.model import Models, named_models, tensors_of

# Options that change the results of no optimizer.
_IRRELEVANT = frozenset(("params", "foreach", "fused", "capturable", "differentiable", "param_names"))
# Options that a group of the run has, too.
_PER_GROUP = frozenset(("lr", "weight_decay"))
_REMEDIES = {
    "RMSprop": "use shoal.RMSProp (centered, too), which starts from 1 with epsilon inside the root, like TensorFlow",
    "NAdam": "use shoal.Adam",
    "RAdam": "use shoal.Adam with schedule=shoal.Cosine(warmup_steps=…)",
    "Adamax": "use shoal.Adam",
}
_OURS = "use one of shoal.SGD, Momentum, Adagrad, Adadelta, RMSProp, Adam, AdamW, Ftrl"
SCHEDULE = (
    "the parameter servers apply the updates and do not follow it: drop the scheduler and give the run a schedule, "
    "shoal.torch.from_torch(optimizer, model, schedule=shoal.Cosine())"
)

# The attribute of an optimizer of the run with the parameters of the one of PyTorch.
_PARAMETERS = "_parameters_of_torch"
# The settings with which from_torch() has converted an optimizer, that is, the options of its groups.
_settings_of: weakref.WeakKeyDictionary[torch.optim.Optimizer, list[dict[str, Any]]] = weakref.WeakKeyDictionary()


@dataclass
class _Group:
    """A parameter group of PyTorch: the names of its parameters that are trained."""

    options: Mapping[str, Any]
    names: list[str]
    learning_rate: float
    weight_decay: float


def from_torch(
    optimizer: torch.optim.Optimizer,
    model: Optional[Models] = None,
    schedule: Optional[optimizers.Schedule] = None,
    *,
    clip_by_value: float = 0.0,
    clip_by_global_norm: float = 0.0,
    moving_average_decay: float = 0.0,
) -> optimizers.Optimizer:
    """Returns the optimizer of the run with the formula of PyTorch's; ProgramError where there is none.

    model: gives the parameters their names, which groups with another learning rate or weight decay need. Other options
    must not differ between groups.
    schedule: how the learning rate changes. A scheduler of PyTorch is refused, since nobody would follow it.
    clip_by_value, clip_by_global_norm, moving_average_decay: as those of shoal.Adam and the others; 0: off.
    """
    name = type(optimizer).__name__
    if type(optimizer) is not getattr(torch.optim, name, None):
        raise ProgramError(
            f"{type(optimizer).__module__}.{name} is not one of torch.optim, so its formula is not known; {_OURS}"
        )
    if any(isinstance(p, UninitializedParameter) for group in optimizer.param_groups for p in group["params"]):
        raise ProgramError(
            f"{name} has a parameter that has no shape yet; compute one batch before the trainer is made"
        )
    if any(_has_stepped(state) for state in optimizer.state.values()):
        raise ProgramError(
            f"{name} has the state of earlier steps, which the run cannot take over; make a new "
            "optimizer, with the weights as they are"
        )
    if any("initial_lr" in group for group in optimizer.param_groups):
        raise ProgramError(f"{name} has a scheduler of PyTorch; {SCHEDULE}")
    _check_options(optimizer, name)
    groups = _groups_of(optimizer, name, model)
    # The run's own options are those of most weights: --learning_rate changes these.
    base = max((g for g in groups if g.learning_rate > 0), key=_count_weights, default=groups[0])
    converted = _convert(name, base)
    has_own_decay = isinstance(converted, optimizers.AdamW)
    others = [_group(other, base, has_own_decay) for other in groups if other is not base and _differ(other, base)]
    if base.weight_decay and not has_own_decay:
        others.append(optimizers.Group(".*", weight_decay=base.weight_decay))
    result = replace(
        converted, groups=tuple(others), schedule=schedule, clip_by_value=clip_by_value,
        clip_by_global_norm=clip_by_global_norm, moving_average_decay=moving_average_decay,
    )  # fmt: skip
    _settings_of[optimizer] = _now(optimizer)
    # Optimizers are equal if their settings are, so the parameters are kept at this one.
    object.__setattr__(result, _PARAMETERS, [p for group in optimizer.param_groups for p in group["params"]])
    return result


def check_all_are_optimized(optimizer: Optional[optimizers.Optimizer], trained: Mapping[str, Any]) -> None:
    """Raises ProgramError for a parameter that the run trains, and that the optimizer of PyTorch did not have from
    which from_torch() has made this one. trained: all parameters that the run trains, by name."""
    parameters = getattr(optimizer, _PARAMETERS, None)
    if parameters is None:  # It is one of Shoal's.
        return
    known = {id(parameter) for parameter in parameters}
    for name, parameter in trained.items():
        if id(parameter) not in known:
            raise ProgramError(
                f"the optimizer that from_torch() has converted does not have the parameter {name}, but the run would "
                "train it; freeze it by requires_grad_(False) before trainer.batches(), or give the Trainer an "
                "optimizer that has it"
            )


def is_taken_over(optimizer: torch.optim.Optimizer) -> bool:
    """Returns whether from_torch() has converted an optimizer, also for the Trainer."""
    return optimizer in _settings_of


def has_any(optimizer: Any, parameters: Collection[int]) -> bool:
    """Returns whether an optimizer has one of these parameters, by id()."""
    return any(id(p) in parameters for group in optimizer.param_groups for p in group["params"])


def taken_over(parameters: Collection[int]) -> list[TakenOver]:
    """Returns the optimizers of these parameters, by id(), that from_torch() has converted."""
    return [TakenOver(optimizer) for optimizer in list(_settings_of) if has_any(optimizer, parameters)]


class TakenOver:
    """An optimizer of PyTorch whose settings the run has taken over: later changes of them would have no effect."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        self._settings = _settings_of[optimizer]

    def check(self) -> None:
        """Raises ProgramError if a scheduler or the program has changed a setting, that is, an option of a group."""
        if _now(self._optimizer) != self._settings:
            raise ProgramError(
                f"the learning rate or another setting of {type(self._optimizer).__name__} changes while the run "
                f"trains, or it has got a scheduler of PyTorch; {SCHEDULE}"
            )


def _now(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    return [
        {key: _plain(value) for key, value in group.items() if key not in _IRRELEVANT}
        for group in optimizer.param_groups
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(map(_plain, value))
    return float(value) if isinstance(value, torch.Tensor) else value


def _has_stepped(state: Mapping[str, Any]) -> bool:
    """Returns whether the state of a parameter is that of earlier steps. Adagrad's exists from the start."""
    return bool(float(state["step"])) if "step" in state else any(value is not None for value in state.values())


def _convert(name: str, base: _Group) -> optimizers.Optimizer:
    group = base.options
    learning_rate = base.learning_rate
    if group.get("maximize"):
        raise ProgramError(f"{name}: maximize is not possible; negate the loss")
    if name == "SGD":
        _refuse(name, group, "dampening")
        if not group["momentum"]:
            return optimizers.SGD(learning_rate)
        return optimizers.Momentum(learning_rate, momentum=group["momentum"], nesterov=group["nesterov"])
    if name in ("Adam", "AdamW"):
        beta1, beta2 = group["betas"]
        if group.get("amsgrad"):
            raise ProgramError(f"{name}: amsgrad is not possible; use {name} without it")
        moments: dict[str, Any] = dict(beta1=beta1, beta2=beta2, epsilon=group["eps"], corrected_epsilon=True)
        if name == "AdamW" or group.get("decoupled_weight_decay"):
            return optimizers.AdamW(learning_rate, weight_decay=base.weight_decay, **moments)
        return optimizers.Adam(learning_rate, **moments)
    if name == "Adagrad":
        _refuse(name, group, "lr_decay")
        return optimizers.Adagrad(
            learning_rate, initial_accumulator=group["initial_accumulator_value"], epsilon=group["eps"]
        )
    if name == "Adadelta":
        return optimizers.Adadelta(learning_rate, rho=group["rho"], epsilon=group["eps"])
    remedy = _REMEDIES.get(name, _OURS)
    raise ProgramError(f"torch.optim.{name} has no optimizer with the same formula in Shoal: {remedy}")


def _check_options(optimizer: torch.optim.Optimizer, name: str) -> None:
    """The options that a run has once for all variables must be the same in all groups."""
    first: Mapping[str, Any] = optimizer.param_groups[0]
    for other in optimizer.param_groups[1:]:
        for option in sorted(first.keys() - _IRRELEVANT - _PER_GROUP):
            if first[option] != other.get(option):
                raise ProgramError(
                    f"{name}: the parameter groups have {option} {first[option]!r} and {other.get(option)!r}, but only "
                    "lr and weight_decay may differ between the groups of a run"
                )


def _groups_of(optimizer: torch.optim.Optimizer, name: str, model: Optional[Models]) -> list[_Group]:
    """Returns the groups that have something to train, by names; a single one without names if they do not differ."""
    every = [
        _Group(group, [], float(group["lr"]), float(group.get("weight_decay", 0))) for group in optimizer.param_groups
    ]
    if model is None:
        trained = [g for g in every if any(p.requires_grad for p in g.options["params"])] or every[:1]
        if any(_differ(other, trained[0]) for other in trained):
            raise ProgramError(
                f"{name}: the parameter groups differ in lr or weight_decay, and the names of their parameters are "
                "not known; give the model too: from_torch(optimizer, model)"
            )
        return trained[:1]
    entries = [entry for entry in tensors_of(named_models(model)) if entry.is_parameter]
    names = {id(entry.tensor): entry.name for entry in entries}
    for number, group in enumerate(every):
        for parameter in group.options["params"]:
            if id(parameter) not in names:
                raise ProgramError(
                    f"{name}: parameter group {number} has a tensor of shape {tuple(parameter.shape)} that is not "
                    "a parameter of the model; make the optimizer from the parameters of the model itself"
                )
            if parameter.requires_grad:
                group.names.append(names[id(parameter)])
    _check_all_have_a_group(name, entries, [name for group in every for name in group.names])
    return [group for group in every if group.names] or every[:1]


def _check_all_have_a_group(optimizer: str, entries: Sequence[Any], names: Sequence[str]) -> None:
    """PyTorch leaves parameters alone that no group has; a run would train them."""
    grouped = set(names)
    for entry in entries:
        if entry.tensor.requires_grad and entry.name not in grouped:
            raise ProgramError(
                f"{optimizer}: the parameter {entry.name} is in none of its groups; add it, or freeze it by "
                "requires_grad_(False) before the trainer is made"
            )


def _count_weights(group: _Group) -> int:
    return sum(parameter.numel() for parameter in group.options["params"] if parameter.requires_grad)


def _differ(group: _Group, base: _Group) -> bool:
    return (group.learning_rate, group.weight_decay) != (base.learning_rate, base.weight_decay)


def _group(group: _Group, base: _Group, has_own_decay: bool) -> optimizers.Group:
    # Names have letters, digits and _ . / - only, of which the point alone means something in an expression.
    expression = "|".join(name.replace(".", "[.]") for name in group.names)
    is_decay_given = group.weight_decay != base.weight_decay if has_own_decay else bool(group.weight_decay)
    return optimizers.Group(
        expression,
        learning_rate=group.learning_rate if group.learning_rate != base.learning_rate else None,
        weight_decay=group.weight_decay if is_decay_given else None,
    )


def _refuse(name: str, group: Mapping[str, Any], *options: str) -> None:
    for option in options:
        if group[option]:
            raise ProgramError(f"{name}: {option}={group[option]!r} is not possible; set it to 0")
