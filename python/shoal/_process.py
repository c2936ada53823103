"""The own process of a compute program: reports of errors and of a premature end, output, forks."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import multiprocessing
import os
import re
import shlex
import shutil
import signal
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, NoReturn, Optional

from shoal import errors

if TYPE_CHECKING:
    from shoal.worker import Worker

STARTED_AGAIN = "SHOAL_STARTED_BY_HAND"
IMPORTED = 78  # The exit code of a process of multiprocessing that has imported the program, which then ran.
OLDEST_GLIBC = (2, 35)  # Equal to the version in the wheel's tag; deploy/python/build verifies it.


def install(worker: Worker) -> None:
    """Makes uncaught exceptions, an early end and crashes of this process visible to the worker and in its log."""
    previous = sys.excepthook

    def report(kind: type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        worker._report(error)
        previous(kind, error, trace)

    sys.excepthook = report
    previous_of_threads = threading.excepthook

    def report_of_thread(arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None:
            worker._report_thread(arguments.exc_value)
        previous_of_threads(arguments)

    threading.excepthook = report_of_thread
    original_exit = sys.exit

    def exit_and_note(status: object = None) -> NoReturn:
        worker._note_exit(status)
        original_exit(status)  # type: ignore[arg-type]

    sys.exit = exit_and_note
    if sys.breakpointhook is sys.__breakpointhook__ and "PYTHONBREAKPOINT" not in os.environ:
        sys.breakpointhook = _refuse_breakpoint
    atexit.register(worker._report_end)
    os.register_at_fork(after_in_child=worker._forget)
    _outlive_stops()
    # A write to the parameters is a SIGSEGV: this prints the line that did it.
    with contextlib.suppress(Exception):
        faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True)


def _refuse_breakpoint(*_: object, **__: object) -> NoReturn:
    raise errors.ProgramError(
        "breakpoint() finds no terminal, because standard input of a program of Shoal is empty; print() appears on the "
        "console, and debuggers that listen on a port, such as debugpy, can be attached"
    )


def explain_silence(run_file: str) -> None:
    """Prints where the program is, if it has not declared its variables shortly before the worker gives it up.

    `run_file` is the resolved run, which has all its defaults.
    """
    found = re.search(r"^\s*wait_seconds:\s*(\d+)", run_file, re.MULTILINE)
    if found:  # Seconds. The worker waits for 0.8 of it, counted from the start of this process.
        faulthandler.dump_traceback_later(max(0.1, 2 / 3 * int(found[1]) - _age()))


def _age() -> float:
    """The seconds since this process was started, also those before Python ran; 0 if the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/self/stat", "rb") as file:
            start = int(file.read().rpartition(b")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - start)
    return 0.0


# Schedulers send these to all processes of a run. It makes a last checkpoint then, for which it needs the programs, and
# ends them itself.
_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def _nothing(_number: int, _frame: Optional[FrameType]) -> None:
    """A handler that does nothing. Unlike SIG_IGN, programs that this one starts do not inherit it."""


def _outlive_stops() -> None:
    """Replaces the worker's SIG_IGN, unless the program has handlers of its own. Forked processes get the defaults."""
    with contextlib.suppress(ValueError):  # Only the main thread may; the others leave SIG_IGN.
        for number in _STOPS:
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, _nothing)
    os.register_at_fork(after_in_child=_forget_stops)


def _forget_stops() -> None:
    for number in _STOPS:
        if signal.getsignal(number) is _nothing:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def packaged_command() -> Optional[str]:
    """Returns the path of the program that the wheel has; None if this package is not from a wheel."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bin", "shoal")
    if not os.path.exists(path):
        return None
    if not os.access(path, os.X_OK):
        raise errors.CommandError(f"{path} may not be executed; install the wheel with pip, which sets its mode")
    reason = _why_not_here()
    if reason:
        raise errors.CommandError(
            f"the program of this wheel {reason}; build shoal from its sources and set SHOAL to its path"
        )
    return path


def _why_not_here() -> str:
    """Says why this machine cannot run the program of the wheel, or returns ""."""
    system = os.uname()
    if (system.sysname, system.machine) != ("Linux", "x86_64"):
        return f"is for Linux on x86_64, and this is {system.sysname} on {system.machine}"
    try:
        library = os.confstr("CS_GNU_LIBC_VERSION") or "none"  # "glibc 2.36"
    except ValueError:
        library = "none"
    number = library.split(" ")[-1].split(".")
    if library == "none" or (int(number[0]), int(number[1])) < OLDEST_GLIBC:
        return f"needs glibc {OLDEST_GLIBC[0]}.{OLDEST_GLIBC[1]} or later, and this system has {library}"
    return ""


def find_command() -> str:
    """Returns the path of the command `shoal`: $SHOAL, the one of this package, or the one in PATH."""
    named = os.environ.get("SHOAL")
    if named:
        if not os.access(named, os.X_OK) or os.path.isdir(named):
            raise errors.CommandError(f"SHOAL is {named}, which is not a program; set it to the path of `shoal`")
        return named
    packaged = packaged_command()
    if packaged is not None:
        return packaged
    found = shutil.which("shoal")
    if found is None:
        raise errors.CommandError(
            "the command `shoal` was not found: install the wheel, put shoal into PATH, or set SHOAL to its path"
        )
    return found


# The variables in which launchers number the processes that they start, and how they start `shoal task` instead.
LAUNCHERS = (
    ("torchrun", "RANK", "WORLD_SIZE", "torchrun --no-python --nproc-per-node={size} -- {task}"),
    ("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun -n {size} --bind-to none {task}"),
    ("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun --ntasks={size} {task}"),
)


def refuse_launchers(program: Sequence[str]) -> None:
    """Raises an error with the right command if a launcher has started this program several times."""
    for name, rank, size, command in LAUNCHERS:
        processes = os.environ.get(size, "")
        if rank not in os.environ or not processes.isdigit() or int(processes) < 2:
            continue
        given = list(program) if program[-1] != "--" else list(program[:-1])
        task = shlex.join(["shoal", "task", "--out=DIR", "--num_ps_tasks=1", *given])
        raise errors.ProgramError(
            f"{name} has started {processes} processes of this program; Shoal's tasks start their programs themselves: "
            + command.format(size=processes, task=task)
        )


def _tell_parent_of_import() -> None:
    """Lets an uncaught exception end this process with the exit code IMPORTED."""
    previous = sys.excepthook

    def end(kind: type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        previous(kind, error, trace)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(IMPORTED)

    sys.excepthook = end


def start_by_hand() -> None:
    """Replaces this process by a run in one process whose program is this one again."""
    is_imported = getattr(multiprocessing.current_process(), "_inheriting", False)  # It has no parent_process() yet.
    if is_imported or multiprocessing.parent_process() is not None:
        if is_imported:
            _tell_parent_of_import()
        raise errors.ProgramError(
            "a process of multiprocessing, such as one of DataLoader, has imported the program and runs it: put what "
            'the program does under if __name__ == "__main__":'
        )
    program = own_command()
    refuse_launchers(program)
    if os.environ.get(STARTED_AGAIN):
        raise errors.ShoalError("the run has started this program without a socket; does it start itself again?")
    command = find_command()
    sys.stdout.flush()
    sys.stderr.flush()
    os.environ[STARTED_AGAIN] = "1"
    os.execv(command, [command, "train", "--num_ps_tasks=0", *program])


def program_flags(file: str, arguments: Sequence[str]) -> list[str]:
    """Returns the flags of `shoal train` that make a file its program; Python files run with this interpreter."""
    python = [f"--python={sys.executable}"] if file.endswith(".py") else []
    return [f"--program={os.path.abspath(file)}", *python, "--", *arguments]


def own_command() -> list[str]:
    """Returns the flags of `shoal train` that start this program again."""
    main = sys.modules.get("__main__")
    python = sys.modules.get("IPython")
    in_notebook = python is not None and python.get_ipython() is not None  # As by %run, which has a file.
    file = getattr(main, "__file__", None)
    if in_notebook or not file:
        raise errors.ProgramError(
            'shoal.Worker() needs a program in a file; in a notebook use shoal.launch("train.py", ps=2, workers=2)'
        )
    spec = getattr(main, "__spec__", None)
    if spec is not None:  # python -m package.module
        return [f"--program={sys.executable}", "--", "-m", spec.name.replace(".__main__", ""), *sys.argv[1:]]
    # The file's path is absolute, and sys.argv[0] may be relative to a folder that the program has left since.
    return program_flags(file, sys.argv[1:])
