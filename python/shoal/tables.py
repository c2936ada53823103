"""Tables of embedding rows, which the parameter servers hold. See docs/tables.md.

Names and defaults are those of `table` in a run file (proto/v1/table_config.proto).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields
from typing import ClassVar, Optional, Union

from shoal import optimizers
from shoal.errors import ProgramError

__all__ = ["Normal", "RowwiseAdagrad", "Table", "TruncatedNormal", "Uniform"]

MAX_DIM = 4096
MAX_BUCKETS = 65536
MAX_TABLES = 4096
MAX_TEXT_BYTES = 1 << 20
_NAME = re.compile(r"(?![.])[A-Za-z0-9_.-]+")
# The rules that update single rows, and their options beside the learning rate.
_RULES = {
    "sgd": (),
    "adagrad": ("initial_accumulator", "epsilon"),
    "rowwise_adagrad": ("initial_accumulator", "epsilon"),
    "adam": ("beta1", "beta2", "epsilon"),
    "ftrl": ("learning_rate_power", "initial_accumulator", "l1", "l2"),
}


@dataclass(frozen=True)
class RowwiseAdagrad(optimizers.Adagrad):
    """Adagrad with one accumulator for a row, to which the mean of the squared gradient is added. For tables only."""

    rule: ClassVar[str] = "rowwise_adagrad"


@dataclass(frozen=True)
class _Distribution:
    rule: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise ProgramError(f"{type(self).__name__}: {entry.name} is {value!r}; it must be a finite number")

    def settings(self) -> str:
        parts = [f"{entry.name}: {float(getattr(self, entry.name))!r}" for entry in fields(self)]
        return f"{self.rule} {{ {' '.join(parts)} }}"


@dataclass(frozen=True)
class Uniform(_Distribution):
    """The numbers of a new row are uniform in [low, high)."""

    rule: ClassVar[str] = "uniform"
    low: float = -0.05
    high: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low > self.high:
            raise ProgramError(f"Uniform: low is {self.low!r}, which is above high, {self.high!r}")


@dataclass(frozen=True)
class Normal(_Distribution):
    """The numbers of a new row have this mean and this standard deviation."""

    rule: ClassVar[str] = "normal"
    mean: float = 0.0
    stddev: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stddev < 0:
            raise ProgramError(f"{type(self).__name__}: stddev is {self.stddev!r}; it must not be negative")


@dataclass(frozen=True)
class TruncatedNormal(Normal):
    """Like Normal, but values beyond two standard deviations are drawn again."""

    rule: ClassVar[str] = "truncated_normal"


class Table:
    """One row of `dim` float32 numbers for each 64-bit key, on the parameter servers.

    name: 1 to 128 of A-Z a-z 0-9 _ . -, different from the names of all variables.
    dim: the numbers of a row, 1 to 4096.
    optimizer: SGD, Adagrad, RowwiseAdagrad, Adam or Ftrl with their own options; the run's schedule scales its learning
        rate. None: Adagrad with the learning rate of the run.
    initializer: of rows that were never trained: Uniform, Normal, TruncatedNormal, or a number. None: Uniform().
    admission: a row is stored from the n-th step that touches its key; until then it keeps its initial value.
    expiry: a row that more than this many updates of its bucket did not touch counts as never trained, and a key that
        is not admitted yet as never touched; 0: rows and counts stay.
    l2: adds l2 * value to the gradient of a touched row.
    buckets: the parts of the table that are assigned to parameter servers; 0: about 1024 for all tables together.

    A run file's entry `table` of this name replaces what it sets. Its optimizer replaces both optimizer and l2.
    """

    def __init__(
        self,
        name: str,
        dim: int,
        *,
        optimizer: Optional[optimizers.Optimizer] = None,
        initializer: Union[Uniform, Normal, float, None] = None,
        admission: int = 1,
        expiry: int = 0,
        l2: float = 0.0,
        buckets: int = 0,
    ) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > 128:
            raise ProgramError(f"the table name {name!r} must have 1 to 128 of A-Z a-z 0-9 _ . -, not '.' first")
        for what, value, low, high in (
            ("dim", dim, 1, MAX_DIM),
            ("admission", admission, 1, 1 << 30),
            ("expiry", expiry, 0, (1 << 32) - 1),
            ("buckets", buckets, 0, MAX_BUCKETS),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ProgramError(f"table {name}: {what} is {value!r}; it must be a whole number from {low} to {high}")
        if isinstance(l2, bool) or not isinstance(l2, (int, float)) or not math.isfinite(l2) or l2 < 0:
            raise ProgramError(f"table {name}: l2 is {l2!r}; it must be a finite number that is not negative")
        self.name = name
        self.dim = dim
        self._parts = [f'name: "{name}" dim: {dim}']
        rule = _rule_of(name, optimizer) + ([f"l2: {float(l2)!r}"] if l2 else [])
        if rule:
            self._parts.append(f"optimizer {{ {' '.join(rule)} }}")
        if initializer is not None:
            self._parts.append(f"initializer {{ {_initializer_of(name, initializer)} }}")
        if admission > 1:
            self._parts.append(f"admission {{ min_count: {admission} }}")
        if expiry:
            self._parts.append(f"expiry {{ idle_updates: {expiry} }}")
        if buckets:
            self._parts.append(f"buckets: {buckets}")

    def settings(self) -> str:
        """Returns the table as text of a run file."""
        return f"table {{ {' '.join(self._parts)} }}"

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {self.dim})"


def _rule_of(name: str, optimizer: Optional[optimizers.Optimizer]) -> list[str]:
    if optimizer is None:
        return []
    if not isinstance(optimizer, optimizers.Optimizer) or optimizer.rule not in _RULES:
        raise ProgramError(
            f"table {name}: the optimizer is {_article(type(optimizer).__name__)}; rows are updated by shoal.SGD, "
            "Adagrad, RowwiseAdagrad, Adam or Ftrl"
        )
    options = ("learning_rate", *_RULES[optimizer.rule])
    for entry in fields(optimizer):
        if entry.name not in options and getattr(optimizer, entry.name) != entry.default:
            raise ProgramError(
                f"table {name}: {type(optimizer).__name__} has {entry.name}, which tables do not have; give it to the "
                "optimizer of the run"
            )
    numbers = [f"{option}: {float(getattr(optimizer, option))!r}" for option in options]
    return [f"{optimizer.rule} {{ {' '.join(numbers)} }}"]


def _initializer_of(name: str, initializer: object) -> str:
    if isinstance(initializer, _Distribution):
        return initializer.settings()
    if not isinstance(initializer, bool) and isinstance(initializer, (int, float)) and math.isfinite(initializer):
        return f"constant {{ value: {float(initializer)!r} }}"
    raise ProgramError(
        f"table {name}: the initializer is {initializer!r}; it must be Uniform, Normal, TruncatedNormal or a number"
    )


def _article(word: str) -> str:
    return ("an " if word[:1] in "AEIOU" else "a ") + word
