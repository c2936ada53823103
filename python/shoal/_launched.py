"""A run that this process has started: what stops it when this process dies, and a bar while it trains."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Optional, Protocol

_PERIOD = 0.5  # Seconds between two looks at the run.
_PROGRESS = re.compile(r"(?:epoch \d+/\d+, )?step (\d+)/(\d+)")
# Columns of metrics.jsonl that the bar leaves out.
_HIDDEN = ("step", "epoch", "examples", "examples_per_second", "learning_rate")
# The end of standard input without a line before it means that the process on the other side has died.
_GUARD = 'read -r line || kill -TERM "$0"'


_guards: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()


def _leave_guards() -> None:
    """A forked child must not keep the guards' pipes open, which its parent's death closes."""
    for guard in _guards:
        if guard.stdin is not None:
            guard.stdin.close()


os.register_at_fork(after_in_child=_leave_guards)


def start(
    line: Sequence[str], directory: str, detach: bool, progress: Optional[bool]
) -> tuple[subprocess.Popen[bytes], threading.Thread]:
    """Starts the command of a run, whose output goes to launch.log, and a thread that follows it to its end."""
    path = os.path.join(directory, "launch.log")
    # In a session of its own: Ctrl-C and the interrupt of a notebook's cell reach this process only.
    options: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    with open(path, "ab") as log:
        begin = log.tell()
        process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    guard = None
    if not detach:
        guard = subprocess.Popen(["/bin/sh", "-c", _GUARD, str(process.pid)], stdin=subprocess.PIPE, **options)
        _guards.add(guard)
    view = _make_view(progress)
    follower = threading.Thread(target=_follow, args=(process, guard, view, directory, begin), daemon=True)
    follower.start()
    return process, follower


def _follow(
    process: subprocess.Popen[bytes],
    guard: Optional[subprocess.Popen[bytes]],
    view: Optional[View],
    directory: str,
    begin: int,
) -> None:
    while process.poll() is None:
        if view is not None and not _shows(view.show, progress_of, directory, begin):
            view = None
        time.sleep(_PERIOD)
    if guard is not None:
        with contextlib.suppress(OSError):
            guard.communicate(b"over\n")
    if view is not None:
        _shows(view.end, result_of, directory, begin, process.returncode)


def _shows(draw: Callable[[float, str], None], news_of: Callable[..., tuple[float, str]], *where: Any) -> bool:
    """Draws, and returns whether that worked: the run, and the guard that stops it, do not depend on the bar."""
    try:
        draw(*news_of(*where))
    except Exception as error:
        print(f"shoal: the bar cannot be drawn, and the run continues without it: {error!r}", file=sys.stderr)
        return False
    return True


def progress_of(directory: str, begin: int = 0) -> tuple[float, str]:
    """Returns the part of the run that is done, from 0 to 1, and a line about it."""
    lines = _end_of(os.path.join(directory, "launch.log"), begin)
    row = last_row(directory)
    found = [match for match in map(_PROGRESS.match, lines) if match]
    if not row and not found:
        return 0.0, lines[-1] if lines else "the run starts"
    step, total = (int(found[-1][1]), int(found[-1][2])) if found else (0, 0)
    step = max(step, row.get("step") or 0)
    parts = [f"step {step}/{total}" if total else f"step {step}"]
    if row.get("examples_per_second"):
        parts.append(f"{row['examples_per_second']:.0f} examples/s")
    parts += [
        f"{name}={value:.4f}"
        for name, value in row.items()
        if isinstance(value, (int, float)) and name not in _HIDDEN and not name.startswith("eval_")
    ]
    return (min(step / total, 1.0) if total else 0.0), ", ".join(parts)


def last_row(directory: str) -> dict[str, Any]:
    """Returns the last line of a run's metrics; {} if there is none that is whole."""
    row: dict[str, Any] = {}
    with contextlib.suppress(ValueError, IndexError):
        row = json.loads(_end_of(os.path.join(directory, "metrics.jsonl"))[-1])
    return row


def result_of(directory: str, begin: int, exit_code: int) -> tuple[float, str]:
    """Returns the same as progress_of for a run that is over."""
    part, text = progress_of(directory, begin)
    summary: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError), open(os.path.join(directory, "summary.json"), encoding="utf-8") as f:
        summary = json.load(f)
    if exit_code not in (0, 130, 143) or "status" not in summary:
        return part, f"failed with exit code {exit_code}: see {directory}/launch.log"
    parts = [f"{summary['status']}: step {summary.get('steps')}"]
    parts += [
        f"test {name[5:]} {value:.4f}"
        for name, value in summary.items()
        if name.startswith("test_") and isinstance(value, float)
    ]
    if len(parts) > 1 and summary.get("test_step", summary.get("steps")) != summary.get("steps"):
        parts[-1] += f" (of step {summary['test_step']})"
    return (1.0 if summary["status"] == "finished" else part), ", ".join(parts)


def _end_of(path: str, begin: int = 0) -> list[str]:
    """Returns the last complete lines of a file."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = max(begin, size - 8192)
            file.seek(start)
            lines = file.read().decode("utf-8", "replace").split("\n")[:-1]
    except OSError:
        return []
    return lines[1:] if start > begin else lines


class View(Protocol):
    """The place where the progress of a run is shown."""

    def show(self, part: float, text: str) -> None: ...

    def end(self, part: float, text: str) -> None: ...


def _make_view(progress: Optional[bool]) -> Optional[View]:
    """progress: None shows the run in a notebook only."""
    python = sys.modules.get("IPython")
    shell = python.get_ipython() if python is not None else None
    in_notebook = shell is not None and hasattr(shell, "kernel")
    if progress is False or (progress is None and not in_notebook):
        return None
    if not in_notebook:
        return _Lines()
    try:
        return _Widgets()
    except ImportError:
        return _Cell()


class _Widgets:
    """A bar of ipywidgets."""

    def __init__(self) -> None:
        import ipywidgets
        from IPython.display import display

        self._bar = ipywidgets.FloatProgress(value=0.0, min=0.0, max=1.0)
        self._label = ipywidgets.Label()
        display(ipywidgets.HBox([self._bar, self._label]))

    def show(self, part: float, text: str) -> None:
        self._bar.value = part
        self._label.value = text

    def end(self, part: float, text: str) -> None:
        self.show(part, text)
        self._bar.bar_style = "" if part < 1 else "success"


class _Cell:
    """Text in the output of a cell, written again when it changes."""

    def __init__(self) -> None:
        from IPython.display import display

        self._text = drawn(0.0, "")
        self._handle = display({"text/plain": self._text}, raw=True, display_id=True)

    def show(self, part: float, text: str) -> None:
        text = drawn(part, text)
        if text != self._text:
            self._text = text
            self._handle.update({"text/plain": text}, raw=True)

    end = show


class _Lines:
    """A line on standard error that is written again; without a terminal, each tenth has a line of its own."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._tenth = -1

    def show(self, part: float, text: str) -> None:
        if self._is_terminal:
            print(f"\r\033[K{drawn(part, text)}", end="", file=sys.stderr, flush=True)
        elif int(10 * part) > self._tenth:
            self._tenth = int(10 * part)
            print(drawn(part, text), file=sys.stderr, flush=True)

    def end(self, part: float, text: str) -> None:
        print(("\r\033[K" if self._is_terminal else "") + drawn(part, text), file=sys.stderr, flush=True)


def drawn(part: float, text: str) -> str:
    """Returns the bar as text: "[#####     ]  50% step 10/20"."""
    full = int(30 * part)
    return f"[{'#' * full}{' ' * (30 - full)}] {int(100 * part):3d}% {text}".rstrip()
