"""Rows of tables that `shoal export DIR --tables=FOLDER` has written: docs/checkpoint_format.md."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from shoal._initial_rows import initial_rows
from shoal._rows import Array, Keys
from shoal.errors import ProgramError


class ExportedTable:
    """The rows of one table. The values stay in their file, and only those that are read come into memory."""

    def __init__(self, folder: str, described: dict[str, Any]) -> None:
        self.name: str = described["name"]
        self.dim: int = described["dim"]
        self._initializer = described["initializer"]
        path = os.path.join(folder, self.name.replace("/", "."))
        keys: Keys = np.load(f"{path}.keys.npy", mmap_mode="r")
        self._values: Array = np.load(f"{path}.values.npy", mmap_mode="r")
        if self._values.shape != (len(keys), self.dim) or len(keys) != described["rows"]:
            raise ValueError(f"{path}.values.npy has the shape {self._values.shape} for {len(keys)} keys")
        self._order = np.argsort(keys)
        self._keys = np.asarray(keys)[self._order]

    def rows(self, keys: Keys) -> Array:
        """Returns a row for each key; of a key without one the row with which it would begin."""
        places = np.searchsorted(self._keys, keys)
        is_there = np.zeros(len(keys), bool)
        inside = places < len(self._keys)
        is_there[inside] = self._keys[places[inside]] == keys[inside]
        result = np.empty((len(keys), self.dim), np.float32)
        result[is_there] = self._values[self._order[places[is_there]]]
        result[~is_there] = initial_rows(self._initializer, self.name, keys[~is_there], self.dim)
        return result


class ExportedRows:
    """The tables of an export. checkpoint: the step, the term and the lineage of its checkpoint."""

    def __init__(self, folder: str) -> None:
        path = os.path.join(folder, "export.json")
        try:
            with open(path, encoding="utf-8") as file:
                described = json.load(file)
            if described["since"] is not None:
                raise ProgramError(
                    f"{folder} has only the rows that have changed since step {described['since']['step']}; export "
                    "all rows, without --since"
                )
            self.checkpoint = int(described["step"]), int(described["term"]), str(described["lineage"])
            self.tables = {table["name"]: ExportedTable(folder, table) for table in described["tables"]}
        except FileNotFoundError as error:
            raise ProgramError(
                f"{folder} has no {os.path.basename(error.filename)}; name the folder of an export that has ended: "
                "shoal export DIR --tables=FOLDER"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ProgramError(f"{folder} is not an export of tables that can be read: {error}") from None

    def check(self, module: str, table: str, dim: int) -> None:
        """Checks that there is a table of this name with rows of this length."""
        found = self.tables.get(table)
        if found is None:
            raise ProgramError(
                f"{module}: the run has no table {table!r} (it has {', '.join(self.tables)}); is it of another model?"
            )
        if found.dim != dim:
            raise ProgramError(f"{module}: table {table} of the run has rows of {found.dim} numbers, not {dim}")
