"""The evaluations of a run, from its metrics.jsonl: runtime/observability/metrics_file.h documents the fields."""

from __future__ import annotations

import json
import math
import os
from typing import Any, BinaryIO, Optional

_PREFIX = "eval_"


class Evaluations:
    """Finds the newest evaluation in a file that grows, and of which a run that goes back removes the end."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, "metrics.jsonl")
        self._end = 0  # Whole lines before it were read.
        self._last_line = b""  # The one that ends there.
        self._newest: Optional[dict[str, Any]] = None

    def newest(self) -> Optional[dict[str, Any]]:
        """Returns step, epoch and the values of the newest evaluation; None if there is none yet."""
        try:
            with open(self._path, "rb") as file:
                self._read(file)
        except FileNotFoundError:
            self._end, self._last_line, self._newest = 0, b"", None
        return None if self._newest is None else dict(self._newest)

    def _read(self, file: BinaryIO) -> None:
        size = file.seek(0, os.SEEK_END)
        if not self._is_continued(file, size):
            self._end, self._last_line, self._newest = 0, b"", None
        if size == self._end:
            return
        file.seek(self._end)
        text = file.read(size - self._end)
        whole = text.rfind(b"\n") + 1
        if whole == 0:
            return
        lines = text[: whole - 1].split(b"\n")
        self._end += whole
        self._last_line = lines[-1] + b"\n"
        for line in reversed(lines):
            found = _evaluation_in(line)
            if found is not None:
                self._newest = found
                return

    def _is_continued(self, file: BinaryIO, size: int) -> bool:
        """Returns whether the file still has what was read of it, so that only its end is new."""
        if size < self._end:
            return False
        file.seek(self._end - len(self._last_line))
        return file.read(len(self._last_line)) == self._last_line


def _evaluation_in(line: bytes) -> Optional[dict[str, Any]]:
    if b'"eval_loss"' not in line:
        return None
    row = json.loads(line)
    values = {name[len(_PREFIX) :]: value for name, value in row.items() if name.startswith(_PREFIX)}
    examples = values.pop("examples", 0)
    numbers = {name: math.nan if value is None else float(value) for name, value in values.items()}
    return {"step": row["step"], "epoch": row["epoch"], **numbers, "examples": examples}
