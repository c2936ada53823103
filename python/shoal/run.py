"""Runs from the outside: start one, watch it, stop it, read its results. They use the command `shoal`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from shoal import _control, _launched
from shoal._process import find_command, program_flags
from shoal.errors import CommandError, MissingError, ProgramError


def launch(
    program: Union[str, os.PathLike[str]],
    ps: int = 1,
    workers: int = 1,
    args: Sequence[str] = (),
    out: Union[str, os.PathLike[str], None] = None,
    flags: Sequence[str] = (),
    detach: bool = False,
    progress: Optional[bool] = None,
) -> Run:
    """Starts `shoal train` with a program and returns the run. Its output goes to `launch.log` in the run's directory.

    ps, workers: how many parameter servers and workers run. Without them, `launch` starts the smallest cluster, one of
    each, while `shoal train` by itself starts two of each.
    args: the program's arguments. out: the run's directory. flags: more flags of shoal train ("--learning_rate=0.1").
    detach: the run continues when this process ends. Otherwise it makes a checkpoint then and stops, also if this
    process is killed, and the same launch with the same `out` continues it.
    progress: show a bar while the run trains; None: in a notebook only.
    """
    _check_is_path("program", os.fspath(program))
    if not os.path.isfile(program):
        raise ProgramError(f"there is no program {program}")
    for name, value, low in (("ps", ps, 0), ("workers", workers, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            raise ProgramError(f"launch: {name} is {value!r}; it must be a whole number from {low}")
    if isinstance(args, str) or isinstance(flags, str):
        raise ProgramError('launch: args and flags must be lists of strings, such as ["--size=10"]')
    command = find_command()
    program = os.fspath(program)
    if out:
        _check_is_path("out", os.fspath(out))
    directory = os.fspath(out) if out else tempfile.mkdtemp(prefix="shoal-")
    os.makedirs(directory, exist_ok=True)
    line = [command, "train", f"--num_ps_tasks={ps}", f"--num_replicas={workers}", f"--out={directory}", *flags]
    line += program_flags(program, args)
    run = Run(directory)
    run._process, run._follower = _launched.start(line, run.directory, detach, progress)
    return run


def _check_is_path(name: str, path: str) -> None:
    """Refuses "s3://bucket/run", "~/run" and the like, as the command `shoal` does (runtime/config/path_check.cc)."""
    if path == "~" or path.startswith("~/"):
        raise ProgramError(
            f'{name}: "{path}" begins with ~, which only a shell replaces; give the whole path: '
            f'os.path.expanduser("{path}")'
        )
    scheme, found, _ = path.partition("://")
    if found and "/" not in scheme:
        raise ProgramError(
            f'{name}: "{path}" is not a path of this machine; mount the storage that {scheme}:// names, and give the '
            "directory where it is mounted"
        )


_PATIENCE = 60.0  # Seconds for a checkpoint of a run in one process, as `shoal checkpoint` has.


def _signal(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # It has just ended.
        os.kill(process, number)


# The name of a checkpoint has its step, the number of its chief, and its lineage in hexadecimal digits.
_CHECKPOINT = re.compile(r"ckpt-(\d+)(?:-(\d+)-([0-9a-f]+))?")


def _age_of(name: str) -> tuple[int, int, int]:
    """Orders the names of older checkpoints first; those of a later chief are newer, whatever their step."""
    found = _CHECKPOINT.fullmatch(name)
    return (int(found[2] or 0), int(found[1]), int(found[3] or "0", 16)) if found else (-1, 0, 0)


class Run:
    """The run in a directory, under way or over."""

    def __init__(self, directory: Union[str, os.PathLike[str]]) -> None:
        path = os.fspath(directory)
        _check_is_path("directory", path)
        if not os.path.isdir(path):
            what = f"{path} is not a directory" if os.path.exists(path) else f"there is no directory {path}"
            raise MissingError(f"{what}; name a run's directory")
        self.directory = os.path.abspath(path)
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._follower: Optional[threading.Thread] = None
        self._was_seen = False  # `shoal status` has found the run.
        self._stopped: Optional[int] = None  # The process that has got the signal of stop().

    def metrics(self) -> dict[str, npt.NDArray[np.float64]]:
        """Returns the columns of metrics.jsonl: one value per step, NaN where a step has none."""
        rows = []
        try:
            with open(os.path.join(self.directory, "metrics.jsonl"), encoding="utf-8") as file:
                for line in file:
                    if line.endswith("\n"):  # The last line may be incomplete.
                        rows.append(json.loads(line))
        except FileNotFoundError:
            pass
        names = dict.fromkeys(name for row in rows for name in row)
        return {
            name: np.array([np.nan if row.get(name) is None else row[name] for row in rows], dtype=np.float64)
            for name in names
        }

    def summary(self) -> Optional[dict[str, Any]]:
        """Returns the result of the run (summary.json), or None while there is none."""
        try:
            with open(os.path.join(self.directory, "summary.json"), encoding="utf-8") as file:
                result: dict[str, Any] = json.load(file)
                return result
        except FileNotFoundError:
            return None

    def status(self) -> dict[str, Any]:
        """Returns what `shoal status --json` prints: docs/observability.md.

        Until the run that this process has launched can be asked, that is {"phase": "starting", "tasks": []}. A run in
        one process (ps=0) cannot be asked: then the phase is "starting" or "training", with the step, and no tasks.
        """
        if _control.process_of(self.directory) is not None:
            return self._status_of_one_process()
        try:
            result: dict[str, Any] = json.loads(self._command("status", "--json"))
        except CommandError:
            if self._was_seen or self._process is None or self._process.poll() is not None:
                raise
            return {"phase": "starting", "tasks": []}
        self._was_seen = True
        return result

    def checkpoint(self) -> str:
        """Makes a checkpoint and returns its path."""
        process = _control.process_of(self.directory)
        return self._command("checkpoint").strip() if process is None else self._checkpoint_of_one_process(process)

    def stop(self) -> None:
        """Makes a checkpoint, stops the run and waits for its end. The same launch continues it."""
        process = _control.process_of(self.directory)
        if process is None:
            self._command("stop")
        else:
            if process != self._stopped:  # A second signal would end it without its checkpoint.
                self._stopped = process
                _signal(process, signal.SIGTERM)
        if self._process is not None:
            self._process.wait()
        while process is not None and _control.process_of(self.directory) == process:
            time.sleep(0.1)

    def _status_of_one_process(self) -> dict[str, Any]:
        """Returns what its files say.

        When it trains, its metrics are newer than its lock. A start that resumes also writes them: it removes the lines
        of the steps behind its checkpoint, which is older than the lock.
        """
        self._was_seen = True
        status: dict[str, Any] = {"run_directory": self.directory, "phase": "starting", "tasks": []}
        metrics, lock = (os.path.join(self.directory, name) for name in ("metrics.jsonl", "LOCK"))
        with contextlib.suppress(FileNotFoundError):
            row = _launched.last_row(self.directory)
            begun = os.stat(lock).st_mtime_ns
            if row and os.stat(metrics).st_mtime_ns >= begun and row["step"] > self._last_step_before(begun):
                status.update(phase="training", step=row["step"])
        return status

    def _last_step_before(self, time_ns: int) -> int:
        """Returns the step of the newest checkpoint that was complete at this time, or 0 if there is none."""
        for name in reversed(self._checkpoints()):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # It is none, or is incomplete.
                manifest = os.path.join(self.directory, "checkpoints", name, "MANIFEST")
                if os.stat(manifest).st_mtime_ns < time_ns:
                    return _age_of(name)[1]
        return 0

    def _checkpoint_of_one_process(self, process: int) -> str:
        status = self._status_of_one_process()
        if status["phase"] != "training":
            raise CommandError(f"the run in {self.directory} has nothing to save yet; ask again when it trains")
        _signal(process, signal.SIGUSR1)
        end = time.monotonic() + _PATIENCE
        # One that was begun before the request may be written first.
        while _age_of(name := self._last_checkpoint())[1] < status["step"]:
            if _control.process_of(self.directory) != process:
                raise CommandError(f"the run in {self.directory} ended before the checkpoint was made")
            if time.monotonic() > end:
                raise CommandError(
                    f"the run in {self.directory} has made no checkpoint within {_PATIENCE:.0f} s; see its "
                    "logs/worker-0.log"
                )
            time.sleep(0.1)
        return os.path.join(self.directory, "checkpoints", name)

    def wait(self, timeout: Optional[float] = None) -> dict[str, Any]:
        """Waits until the run is over and returns its summary. An interrupt (Ctrl-C) stops the run first.

        Raises CommandError if the run failed, with the last lines of its output, and TimeoutError.
        """
        try:
            self._wait(timeout)
        except KeyboardInterrupt:
            self._interrupt()
            raise
        summary = self.summary()
        if summary is None or summary.get("status") == "failed" or self._exit_code() not in (None, 0, 130, 143):
            raise CommandError(f"the run in {self.directory} failed{self._last_lines()}")
        return summary

    def model_file(self) -> str:
        """Returns the path of the newest model.safetensors of the run.

        A run that trains removes it when newer checkpoints have one. Raises MissingError if there is none, or if the
        run has finished or was stopped and its last checkpoint has none: an older one has other values.
        """
        summary, last = self.summary() or {}, self._last_checkpoint()
        if summary.get("status") in ("finished", "stopped") and _age_of(last)[1] == summary.get("steps"):
            return self.last_model_file()
        names = [name for name in self._checkpoints() if os.path.exists(self._model_file_of(name))]
        if not names:
            self._check_holds_a_run()
            reason = "a checkpoint makes one: run.checkpoint()"
            if summary and summary.get("checkpoint") is None:
                reason = "summary.json says that the run ended without a checkpoint, and why"
            raise MissingError(f"the run in {self.directory} has no model.safetensors; {reason}")
        return self._model_file_of(names[-1])

    def last_model_file(self) -> str:
        """Returns the path of the model.safetensors of the newest checkpoint. Raises MissingError if it has none."""
        name = self._last_checkpoint()
        if not name:
            self._check_holds_a_run()
            raise MissingError(f"the run in {self.directory} has no checkpoint")
        path = self._model_file_of(name)
        if not os.path.exists(path):
            raise MissingError(
                f"{os.path.dirname(path)}, the newest checkpoint, has no model.safetensors (the log of the chief says "
                f"why); make it: shoal export {shlex.quote(self.directory)} --model_file={shlex.quote(path)}"
            )
        return path

    def _check_holds_a_run(self) -> None:
        """Raises MissingError in the words of the command `shoal` if no run was ever started in the directory."""
        if self._process is None and not os.path.exists(os.path.join(self.directory, "run.textproto")):
            raise MissingError(f"{self.directory} holds no run: it has no run.textproto; name a run's directory")

    def _checkpoints(self) -> list[str]:
        """Returns the names of the directories of checkpoints, also of incomplete ones, older ones first."""
        folder = os.path.join(self.directory, "checkpoints")
        return sorted(os.listdir(folder), key=_age_of) if os.path.isdir(folder) else []

    def _last_checkpoint(self) -> str:
        """Returns the name of the newest complete checkpoint, or "" if there is none."""
        for name in reversed(self._checkpoints()):
            if os.path.exists(os.path.join(self.directory, "checkpoints", name, "MANIFEST")):
                return name
        return ""

    def _model_file_of(self, name: str) -> str:
        return os.path.join(self.directory, "checkpoints", name, "model.safetensors")

    def _wait(self, timeout: Optional[float]) -> None:
        if self._process is not None:
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                raise TimeoutError(f"the run in {self.directory} is not over after {timeout} s") from None
            if self._follower is not None:
                self._follower.join()  # The bar shows the end.
            return
        end = None if timeout is None else time.monotonic() + timeout
        while self.status().get("phase") != "over":
            if end is not None and time.monotonic() > end:
                raise TimeoutError(f"the run in {self.directory} is not over after {timeout} s")
            time.sleep(0.5)

    def _interrupt(self) -> None:
        if self._process is None:
            self.stop()
            return
        self._process.terminate()  # Does the same as stop(), and works before there is a chief to ask.
        self._process.wait()

    def _exit_code(self) -> Optional[int]:
        return None if self._process is None else self._process.poll()

    def _last_lines(self) -> str:
        try:
            with open(os.path.join(self.directory, "launch.log"), encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()[-10:]
        except FileNotFoundError:
            return ""
        return ":\n" + "\n".join(lines)

    def _command(self, name: str, *flags: str) -> str:
        line = [find_command(), name, self.directory, *flags]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            reason = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
            begin = f"shoal {name}: "  # The command begins its own errors with it.
            reason = reason[len(begin) :] if reason.startswith(begin) else reason
            raise CommandError(f"shoal {name} {self.directory}: {reason}")
        return done.stdout

    def __repr__(self) -> str:
        return f"shoal.Run({self.directory!r})"
