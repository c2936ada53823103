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
    return repr(float(value)) if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Schedule:
    """How the learning rate changes. All schedules count updates, not epochs; warmup_steps is linear from 0."""

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
    """learning_rate * value[i] from boundary[i] on."""

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
    """(learning_rate - end) * (1 - t / decay_steps) ^ power + end; decay_steps 0 means the run's updates."""

    kind: ClassVar[str] = "polynomial"
    decay_steps: int = 0
    end: float = 0.0
    power: float = 1.0
    warmup_steps: int = 0


@dataclass(frozen=True)
class Cosine(Schedule):
    """end + (learning_rate - end) * (1 + cos(pi * t / decay_steps)) / 2; decay_steps 0 means the run's updates."""

    kind: ClassVar[str] = "cosine"
    decay_steps: int = 0
    end: float = 0.0
    warmup_steps: int = 0


_COMMON = ("learning_rate", "schedule", "clip_by_value", "clip_by_global_norm", "moving_average_decay")


@dataclass(frozen=True)
class Optimizer:
    """Base of all optimizers: their common options."""

    rule: ClassVar[str] = ""
    learning_rate: float = 0.01
    schedule: Optional[Schedule] = None
    clip_by_value: float = 0.0  # 0: off
    clip_by_global_norm: float = 0.0  # 0: off
    moving_average_decay: float = 0.0  # 0: off

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
                continue
            if not isinstance(value, (int, float)) or not math.isfinite(value):
                raise ProgramError(f"{type(self).__name__}: {entry.name} is {value!r}; it must be a finite number")
            if value < 0 and entry.name != "learning_rate_power":
                raise ProgramError(f"{type(self).__name__}: {entry.name} is {value!r}; it must not be negative")
        for name in ("momentum", "rho", "decay", "beta1", "beta2", "moving_average_decay"):
            if getattr(self, name, 0) >= 1:
                raise ProgramError(f"{type(self).__name__}: {name} is {getattr(self, name)!r}; it must be below 1")

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
        parts += [f"{name}: {_text(getattr(self, name))}" for name in _COMMON[2:] if getattr(self, name)]
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
    rule: ClassVar[str] = "rmsprop"
    decay: float = 0.9
    momentum: float = 0.0
    epsilon: float = 1e-10


@dataclass(frozen=True)
class Adam(Optimizer):
    rule: ClassVar[str] = "adam"
    learning_rate: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8


@dataclass(frozen=True)
class AdamW(Optimizer):
    """Adam with decoupled weight decay."""

    rule: ClassVar[str] = "adamw"
    learning_rate: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.01


@dataclass(frozen=True)
class Ftrl(Optimizer):
    rule: ClassVar[str] = "ftrl"
    learning_rate_power: float = -0.5
    initial_accumulator: float = 0.1
    l1: float = 0.0
    l2: float = 0.0
