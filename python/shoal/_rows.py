"""Rows of tables that a batch looks up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from shoal.errors import ProgramError
from shoal.tables import Table

if TYPE_CHECKING:
    from shoal._work import Work

Array = npt.NDArray[np.float32]
Keys = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]

MAX_BYTES = 64 << 20  # The bytes of one LOOK_UP.


class Rows:
    """The rows of the different keys of one look-up.

    keys: these keys, rising, as uint64.
    values: the rows, an array [len(keys), dim] that cannot be written.
    inverse: the place of each key that was looked up among `keys`, in the shape of what was looked up, so
        values[inverse] has a row for each of them.
    gradient: the gradient of the batch's mean loss with respect to `values`; assign it in a training batch, or write
        into the array. Elements that a batch does not write are zero. The rows count as touched all the same.
    """

    def __init__(self, work: Work, table: str, keys: Keys, values: Array, gradient: Array, inverse: Places) -> None:
        self._work = work
        self._table = table
        self._gradient = gradient
        self.is_written = False
        self.keys = keys
        self.values = values
        self.inverse = inverse

    @property
    def gradient(self) -> Array:
        self._check()
        if not self.is_written:
            self._gradient.fill(0)
        self.is_written = True
        return self._gradient

    @gradient.setter
    def gradient(self, value: npt.ArrayLike) -> None:
        self._check()
        if value is not self._gradient:
            shape = np.shape(value)
            if shape != self._gradient.shape:
                raise ProgramError(
                    f"the gradient of the rows of table {self._table} has the shape {shape}; the rows have "
                    f"{self._gradient.shape}, one for each different key: add up the gradients of equal keys, as by "
                    "np.add.at(rows.gradient, rows.inverse, …)"
                )
            self._gradient[...] = value
        self.is_written = True

    def _finish(self) -> None:
        """Called at the end of the batch."""
        if not self.is_written:
            self._gradient.fill(0)

    def _check(self) -> None:
        if not self._work.is_training:
            raise ProgramError("an evaluation has no gradients; look at work.kind")
        if self._work.is_done:
            raise ProgramError(f"the gradient of rows is written after {self._work} is done")

    def __len__(self) -> int:
        return len(self.keys)


def keys_of(table: str, keys: Any) -> Keys:
    """Returns the keys as uint64, in their shape; ProgramError if they are not whole numbers."""
    try:
        array = np.asarray(keys)
    except (TypeError, ValueError) as error:
        raise ProgramError(f"the keys of table {table} are not an array of whole numbers ({error})") from None
    if array.size == 0:
        return np.zeros(array.shape, np.uint64)
    if array.dtype.kind == "u":
        return array.astype(np.uint64)
    if array.dtype.kind == "i":
        return np.ascontiguousarray(array, np.int64).view(np.uint64)
    raise ProgramError(
        f"the keys of table {table} are {array.dtype}; they must be whole numbers of 64 bits, such as int64 "
        "(a negative one is the key with the same bits)"
    )


def unique_of(keys: Keys) -> tuple[Keys, Places]:
    """Returns the different keys, rising, and the place of each key among them."""
    unique, inverse = np.unique(keys.reshape(-1), return_inverse=True)
    return unique, inverse.reshape(keys.shape).astype(np.int64, copy=False)


def check_tables(tables: Any, variables: Mapping[str, object]) -> dict[str, Table]:
    """Returns the declared tables by name."""
    if isinstance(tables, Table) or not isinstance(tables, Sequence):
        raise ProgramError(f"tables is a {type(tables).__name__}; it must be a list of shoal.Table")
    found: dict[str, Table] = {}
    for table in tables:
        if not isinstance(table, Table):
            raise ProgramError(f"tables needs shoal.Table, not {type(table).__name__}")
        if table.name in found:
            other = found[table.name].dim
            dims = "" if other == table.dim else f", with {other} and {table.dim} numbers in a row"
            raise ProgramError(f"two tables have the name {table.name}{dims}; keep one of them, or rename one")
        if table.name in variables:
            raise ProgramError(f"{table.name} is a table and a variable; rename one of them")
        found[table.name] = table
    return found


def check_size(keys: Mapping[str, Keys]) -> None:
    size = sum(16 + 8 * len(array) for array in keys.values())
    if size + 28 > MAX_BYTES:  # The fields before the tables.
        raise ProgramError(
            f"a batch looks up {sum(map(len, keys.values()))} different keys at once; about {MAX_BYTES // 8} are "
            "possible: make batch_size or data.evaluation_block smaller"
        )
