"""The declaration of a program, and its checks: the table "What the worker checks" of docs/compute_program.md."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from shoal import _protocol
from shoal._metrics import Metric, kinds_of
from shoal._rows import check_tables
from shoal.errors import MissingError, ProgramError
from shoal.optimizers import Optimizer
from shoal.tables import MAX_TABLES, MAX_TEXT_BYTES, RowwiseAdagrad, Table

KINDS = {"trainable": _protocol.TRAINABLE, "assign": _protocol.ASSIGN, "frozen": _protocol.FROZEN}
MAX_DIMENSIONS = 8
MAX_VARIABLES = 65536
MAX_SETTINGS_BYTES = 64 << 10
MAX_ANNOUNCEMENTS = 64
MAX_EXAMPLES = 1 << 40
_NAME = re.compile(r"[A-Za-z0-9_./-]+")


class Variable:
    """One float32 array that the parameter servers hold.

    kind: "trainable": each batch contributes the gradient of the batch's mean loss. "assign": each batch contributes
    the new value, and the mean of a step's contributions counts. "frozen": the value stays.
    shape follows from `initial` unless it is given; a number fills the shape.
    """

    def __init__(
        self,
        name: str,
        shape: Optional[Sequence[int]] = None,
        initial: npt.ArrayLike = 0.0,
        kind: str = "trainable",
    ) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > 256:
            raise ProgramError(f"the variable name {name!r} must have 1 to 256 of A-Z a-z 0-9 _ . / -")
        if kind not in KINDS:
            raise ProgramError(f"variable {name}: kind is {kind!r}; it must be one of {', '.join(KINDS)}")
        try:
            values = np.asarray(initial)
            if np.iscomplexobj(values):
                raise TypeError("it is complex")
            values = values.astype(np.float32)
        except (TypeError, ValueError) as error:
            raise ProgramError(
                f"variable {name}: the initial value is not an array of real numbers ({error})"
            ) from None
        self.name = name
        self.kind = kind
        self.shape = tuple(int(n) for n in shape) if shape is not None else values.shape
        if len(self.shape) > MAX_DIMENSIONS or any(n < 1 for n in self.shape):
            raise ProgramError(
                f"variable {name}: the shape {self.shape} must have up to {MAX_DIMENSIONS} dimensions, each at least 1"
            )
        if values.shape and values.shape != self.shape:
            raise ProgramError(f"variable {name}: the initial value has the shape {values.shape}, not {self.shape}")
        if not np.isfinite(values).all():
            raise ProgramError(f"variable {name}: the initial value is not finite")
        self.initial = values

    @property
    def contributes(self) -> bool:
        return self.kind != "frozen"

    def without_values(self) -> Variable:
        """Returns the variable with 0 as its initial value, which takes no memory."""
        return Variable(self.name, self.shape, kind=self.kind)

    def __repr__(self) -> str:
        return f"Variable({self.name!r}, {self.shape}, kind={self.kind!r})"


def _count(name: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not low <= value <= high:
        raise ProgramError(f"{name} is {value!r}; it must be a whole number from {low} to {high}")
    return int(value)


def _check_not_empty(examples: Any) -> None:
    """A program that finds no files has no examples, and the files may be there when it is started again."""
    if isinstance(examples, (int, np.integer)) and not isinstance(examples, bool) and examples == 0:
        raise MissingError(
            "examples is 0; it must be a whole number from 1: are the files there from which the data are made?"
        )


def make_declaration(
    variables: Sequence[Variable],
    tables: Sequence[Table],
    examples: int,
    test_examples: int,
    optimizer: Optional[Optimizer],
    batch_size: Optional[int],
    epochs: Optional[int],
    max_steps: Optional[int],
    metrics: Sequence[Metric],
    prefetch: int,
    data_fingerprint: int,
    computation: str,
) -> _protocol.Declaration:
    """Checks everything; ProgramError names the place in the user's program."""
    names: dict[str, Variable] = {}
    for variable in variables:
        if not isinstance(variable, Variable):
            raise ProgramError(f"declare() needs shoal.Variable, not {type(variable).__name__}")
        if variable.name in names:
            raise ProgramError(f"two variables have the name {variable.name}")
        names[variable.name] = variable
    if not tables and not any(variable.kind == "trainable" for variable in variables):
        raise ProgramError("none of the variables is trainable, so there is nothing to train")
    if len(variables) > MAX_VARIABLES:
        raise ProgramError(f"there are {len(variables)} variables; at most {MAX_VARIABLES} are possible")
    if sum(math.prod(variable.shape) for variable in variables) > 1 << 42:
        raise ProgramError("the variables have more than 2^42 elements")
    tables_text = "\n".join(table.settings() for table in check_tables(tables, names).values())
    if len(tables) > MAX_TABLES or len(tables_text) > MAX_TEXT_BYTES:
        raise ProgramError(f"there are {len(tables)} tables; at most {MAX_TABLES} are possible")
    kinds = kinds_of(metrics)
    if optimizer is not None and not isinstance(optimizer, Optimizer):
        raise ProgramError(
            f"optimizer is a {type(optimizer).__module__}.{type(optimizer).__name__}; use shoal.SGD, shoal.Adam, … "
            "or shoal.torch.from_torch(optimizer): the parameter servers apply the updates"
        )
    if isinstance(optimizer, RowwiseAdagrad):
        raise ProgramError("RowwiseAdagrad is for tables: shoal.Table(…, optimizer=…); use shoal.Adagrad here")
    settings = [optimizer.settings()] if optimizer is not None else []
    for name, field, value in (
        ("batch_size", "batch_size", batch_size),
        ("epochs", "num_epochs", epochs),
        ("max_steps", "max_steps", max_steps),
    ):
        if value is not None:
            settings.append(f"{field}: {_count(name, value, 1, (1 << 31) - 1)}")
    text = "\n".join(settings)
    if len(text.encode()) > MAX_SETTINGS_BYTES:
        raise ProgramError(
            f"the settings of the optimizer have {len(text.encode())} bytes; at most {MAX_SETTINGS_BYTES} are "
            "possible: give its groups by expressions, such as shoal.Group('.*bias')"
        )
    _check_not_empty(examples)
    return _protocol.Declaration(
        _count("examples", examples, 1, MAX_EXAMPLES),
        _count("test_examples", test_examples, 0, MAX_EXAMPLES),
        data_fingerprint & ((1 << 64) - 1),
        _count("prefetch", prefetch, 0, MAX_ANNOUNCEMENTS),
        computation[:1024],
        text,
        list(kinds.items()),
        [(variable.name, KINDS[variable.kind], variable.shape) for variable in variables],
        tables_text,
    )
