"""Optimizers and learning-rate schedules. The parameter servers apply them; a program only names them.

Names and defaults are those of the run file (proto/v1/optimizer_config.proto). Formulas: ml/optim/optimizer_options.h.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Optional

from shoal.errors import ProgramError


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return repr(float(value)) if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Schedule:
    """Changes the learning rate. It counts updates, not epochs; in the first warmup_steps the rate rises linearly."""

    kind: ClassVar[str] = ""

    def settings(self) -> str:
        parts = [f"kind: KIND_{self.kind.upper()}"]
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, (list, tuple)):
                parts += [f"{entry.name}: {_text(item)}" for item in value]
            elif value:
                parts.append(f"{entry.name}: {_text(value)}")
        return "schedule { " + " ".join(parts) + " }"


@dataclass(frozen=True)
class Constant(Schedule):
    kind: ClassVar[str] = "constant"
    warmup_steps: int = 0


@dataclass(frozen=True)
class Step(Schedule):
    """The learning rate is learning_rate * value[i] from update boundary[i] on."""

    kind: ClassVar[str] = "step"
    boundary: Sequence[int] = ()
    value: Sequence[float] = ()
    warmup_steps: int = 0


@dataclass(frozen=True)
class Exponential(Schedule):
    """learning_rate * rate ^ (t / decay_steps), whole numbers of decay_steps if staircase."""

    kind: ClassVar[str] = "exponential"
    rate: float = 0.0
    decay_steps: int = 0
    staircase: bool = False
    warmup_steps: int = 0


@dataclass(frozen=True)
class Polynomial(Schedule):
    """(learning_rate - end) * (1 - t / decay_steps) ^ power + end; decay_steps 0 means the run's updates.

    cycle: decay_steps counts as its next multiple that is not below t, so the rate rises again, each time to less.
    """

    kind: ClassVar[str] = "polynomial"
    decay_steps: int = 0
    end: float = 0.0
    power: float = 1.0
    warmup_steps: int = 0
    cycle: bool = False


@dataclass(frozen=True)
class Cosine(Schedule):
    """end + (learning_rate - end) * (1 + cos(pi * t / decay_steps)) / 2; decay_steps 0 means the run's updates."""

    kind: ClassVar[str] = "cosine"
    decay_steps: int = 0
    end: float = 0.0
    warmup_steps: int = 0


def _check_number(where: str, name: str, value: object) -> None:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ProgramError(f"{where}: {name} is {value!r}; it must be a finite number")
    if value < 0 and name != "learning_rate_power":
        raise ProgramError(f"{where}: {name} is {value!r}; it must not be negative")


@dataclass(frozen=True)
class Group:
    """Settings of some parameters: of those whose whole names match `variables`, unless an earlier group has them.

    variables: a regular expression in RE2's syntax, such as ".*[.]bias".
    learning_rate: its own; the schedule is scaled by the ratio to the one of the optimizer.
    learning_rate_multiplier: that ratio.
    weight_decay: for AdamW decoupled, in the place of AdamW's; for the others, without Ftrl, added to the gradient.
    frozen: not trained. requires_grad_(False) does the same and saves the computation of gradients. Tables cannot be
        frozen; learning_rate_multiplier=0 keeps the values of their rows.
    """

    variables: str
    learning_rate: Optional[float] = None
    learning_rate_multiplier: Optional[float] = None
    weight_decay: Optional[float] = None
    frozen: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.variables, str) or not self.variables:
            raise ProgramError(f"Group: variables is {self.variables!r}; it must be an expression for names")
        if not isinstance(self.frozen, bool):
            raise ProgramError(f"Group: frozen is {self.frozen!r}; it must be True or False")
        given = [name for name in _GROUP_NUMBERS if getattr(self, name) is not None]
        for name in given:
            _check_number(f"Group {self.variables!r}", name, getattr(self, name))
        if self.frozen and given:
            raise ProgramError(f"Group {self.variables!r}: frozen parameters have no {given[0]}; drop one of them")
        if self.learning_rate is not None and self.learning_rate_multiplier is not None:
            raise ProgramError(f"Group {self.variables!r}: give learning_rate or learning_rate_multiplier, not both")

    def settings(self) -> str:
        parts = [f"variables: {_text(self.variables)}"]
        parts += [f"{n}: {_text(float(getattr(self, n)))}" for n in _GROUP_NUMBERS if getattr(self, n) is not None]
        parts += ["frozen: true"] if self.frozen else []
        return "group { " + " ".join(parts) + " }"


_GROUP_NUMBERS = ("learning_rate", "learning_rate_multiplier", "weight_decay")
_COMMON = ("learning_rate", "schedule", "clip_by_value", "clip_by_global_norm", "moving_average_decay", "groups")


@dataclass(frozen=True)
class Optimizer:
    """Base of all optimizers: their common options."""

    rule: ClassVar[str] = ""
    learning_rate: float = 0.01
    schedule: Optional[Schedule] = None
    clip_by_value: float = 0.0  # 0: off
    clip_by_global_norm: float = 0.0  # 0: off
    moving_average_decay: float = 0.0  # 0: off
    groups: Sequence[Group] = ()  # The first one that matches counts.

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name == "schedule":
                if value is not None and not isinstance(value, Schedule):
                    raise ProgramError(
                        f"{type(self).__name__}: schedule is a {type(value).__name__}; use shoal.Cosine(), … "
                        "A scheduler of PyTorch counts steps of its own, which a restart loses. Options other than "
                        "the learning rate are given by name."
                    )
            elif entry.name == "groups":
                self._check_groups()
            elif isinstance(entry.default, bool):
                if not isinstance(value, bool):
                    raise ProgramError(f"{type(self).__name__}: {entry.name} is {value!r}; it must be True or False")
            else:
                _check_number(type(self).__name__, entry.name, value)
        for name in ("momentum", "rho", "decay", "beta1", "beta2", "moving_average_decay"):
            if getattr(self, name, 0) >= 1:
                raise ProgramError(f"{type(self).__name__}: {name} is {getattr(self, name)!r}; it must be below 1")

    def _check_groups(self) -> None:
        name = type(self).__name__
        if not isinstance(self.groups, (list, tuple)):
            raise ProgramError(f"{name}: groups is a {type(self.groups).__name__}; it must be a list of shoal.Group")
        for group in self.groups:
            if not isinstance(group, Group):
                raise ProgramError(f"{name}: a group is a {type(group).__name__}; it must be a shoal.Group")
            if self.rule == "ftrl" and group.weight_decay is not None:
                raise ProgramError(f"{name}: the group {group.variables!r} has weight_decay; use Ftrl's l2")

    def settings(self) -> str:
        """Returns the optimizer as text of a run file."""
        parts = [f"learning_rate: {_text(float(self.learning_rate))}"]
        inner = [
            f"{entry.name}: {_text(value)}"
            for entry in fields(self)
            if entry.name not in _COMMON and (value := getattr(self, entry.name)) is not False
        ]
        parts.append(f"{self.rule} {{ {' '.join(inner)} }}" if inner else f"{self.rule} {{}}")
        if self.schedule is not None:
            parts.append(self.schedule.settings())
        parts += [f"{name}: {_text(getattr(self, name))}" for name in _COMMON[2:5] if getattr(self, name)]
        parts += [group.settings() for group in self.groups]
        return "optimizer { " + " ".join(parts) + " }"


@dataclass(frozen=True)
class SGD(Optimizer):
    rule: ClassVar[str] = "sgd"


@dataclass(frozen=True)
class Momentum(Optimizer):
    rule: ClassVar[str] = "momentum"
    momentum: float = 0.9
    nesterov: bool = False


@dataclass(frozen=True)
class Adagrad(Optimizer):
    rule: ClassVar[str] = "adagrad"
    initial_accumulator: float = 0.1
    epsilon: float = 0.0


@dataclass(frozen=True)
class Adadelta(Optimizer):
    rule: ClassVar[str] = "adadelta"
    rho: float = 0.95
    epsilon: float = 1e-8


@dataclass(frozen=True)
class RMSProp(Optimizer):
    """RMSProp.

    centered: the step is divided by the root of the gradient's variance, and not by that of its mean square.
    """

    rule: ClassVar[str] = "rmsprop"
    decay: float = 0.9
    momentum: float = 0.0
    epsilon: float = 1e-10
    centered: bool = False


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam.

    corrected_epsilon: epsilon is added to the root of the corrected second moment, as PyTorch does, and not to that of
    the uncorrected one, as TensorFlow and Keras do.
    """

    rule: ClassVar[str] = "adam"
    learning_rate: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    corrected_epsilon: bool = False


@dataclass(frozen=True)
class AdamW(Optimizer):
    """Adam with decoupled weight decay."""

    rule: ClassVar[str] = "adamw"
    learning_rate: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.01
    corrected_epsilon: bool = False


@dataclass(frozen=True)
class Ftrl(Optimizer):
    rule: ClassVar[str] = "ftrl"
    learning_rate_power: float = -0.5
    initial_accumulator: float = 0.1
    l1: float = 0.0
    l2: float = 0.0
