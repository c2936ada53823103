"""Asks a run to stop: through its chief, or, if it is one process, by the signal that stops that process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import threading
from collections.abc import Sequence
from typing import Optional

from shoal import _process, errors

# The text of the file LOCK in the directory of a run, whose process holds the lock.
_HOLDER = re.compile(r"pid (\d+) on (.*)")


def process_of(directory: str) -> Optional[int]:
    """Returns the process of a run in one process, if it is on this machine; such a run has no chief to ask."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        with open(os.path.join(directory, "cluster.textproto"), encoding="utf-8") as file:
            if any(line.strip() and not line.startswith("#") for line in file):
                return None
        with open(os.path.join(directory, "LOCK"), encoding="utf-8") as file:
            found = _HOLDER.fullmatch(file.read().strip())
            if found and found[2] == os.uname().nodename and _is_held(file.fileno()):
                return int(found[1]) if _has_open(int(found[1]), os.fstat(file.fileno())) else None
    return None


def _has_open(process: int, info: os.stat_result) -> bool:
    """Returns whether the process has the file open. A container may have another process with the same number."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{process}/fd"):
            with contextlib.suppress(OSError):
                found = os.stat(entry.path)
                if (found.st_dev, found.st_ino) == (info.st_dev, info.st_ino):
                    return True
    return False


def _is_held(file: int) -> bool:
    """Returns whether another process holds the lock. A process that takes it waits until this look at it is over."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


class StopRequest:
    """The wish of a program that its run stops. It is sent once, and again only if that has failed."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._is_sent = False

    def send(self, flags: Sequence[str] = ()) -> None:
        """Sends it without waiting for an answer. Raises CommandError if the command is not found."""
        with self._lock:
            if self._is_sent:  # A second signal would end a run in one process without its checkpoint.
                return
            self._is_sent = True
        try:
            process = process_of(self._directory)
            if process is not None:
                with contextlib.suppress(ProcessLookupError):  # The run has just ended.
                    os.kill(process, signal.SIGTERM)
                return
            line = [_command(), "stop", self._directory, *flags]
            threading.Thread(target=self._run, args=(line,), daemon=True).start()
        except BaseException:
            self._is_sent = False
            raise

    def _run(self, line: Sequence[str]) -> None:
        try:
            done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            reason = "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"
        except OSError as error:
            reason = str(error)
        if reason:
            print(f"shoal: warning: the run could not be asked to stop: {reason}", flush=True)
            self._is_sent = False


def _command() -> str:
    """Returns the path of the command `shoal`; without one, that of the worker, which is the same program."""
    try:
        return _process.find_command()
    except errors.CommandError:
        with contextlib.suppress(OSError):
            worker = os.readlink(f"/proc/{os.getppid()}/exe")
            if os.path.basename(worker) == "shoal":
                return worker
        raise
