"""Errors of the package. Every message begins with the file and the line of the user's program."""

from __future__ import annotations

import contextlib
import os
import re
import site
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Optional

PERMANENT = 1  # Started again, the program would fail in the same way.
RETRYABLE = 2
SURROUNDINGS = 3  # Permanent if the program has never started in this run; otherwise something is away for a while.

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _libraries() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    found = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    found.update(site.getsitepackages() if hasattr(site, "getsitepackages") else [])
    return tuple(os.path.abspath(path) + os.sep for path in found)


_LIBRARIES = _libraries()
# Folders of packages, also of those that other interpreters or PYTHONPATH have.
_LINE_OF_TRACEBACK = re.compile(r'^\s*File "(.+)", line (\d+)', re.MULTILINE)
_PACKAGES = re.compile(r".*[/\\](?:site|dist)-packages[/\\]")
# "[Errno 5]", and "errno = 5" of libraries.
_NUMBER_OF_SYSTEM = re.compile(r"\berrno\W{1,3}\d", re.IGNORECASE)
# "<_io.BytesIO object at 0x7f1c>": another one in each process; and which process of DataLoader it was.
_OF_PROCESS = re.compile(r" at 0x[0-9a-fA-F]+\b|(?<=DataLoader worker process) \d+| \(pid(?:\(s\))? [\d, ]+\)")


def _absolute(filename: str) -> str:
    with contextlib.suppress(OSError):  # The working directory may be gone.
        return os.path.abspath(filename)
    return filename


def _is_users(frame: FrameType) -> bool:
    filename = frame.f_code.co_filename
    if filename.startswith("<"):  # Code without a file; that of dataclasses has the globals of their module.
        return frame.f_globals.get("__name__") == "__main__"
    return _is_users_file(filename)


def _is_users_file(filename: str) -> bool:
    path = _absolute(filename)
    return not path.startswith((_OURS, *_LIBRARIES)) and not _PACKAGES.match(path)


def _name(filename: str) -> str:
    relative = filename
    if not filename.startswith("<"):
        with contextlib.suppress(OSError):
            relative = os.path.relpath(filename)
    return filename if relative.startswith("..") else relative


def _library_name(filename: str) -> str:
    """The name of a library's file below the folder of all libraries: "torch/nn/functional.py"."""
    path = _PACKAGES.sub("", _absolute(filename))
    for folder in sorted(_LIBRARIES, key=len, reverse=True):
        if path.startswith(folder):
            return path[len(folder) :]
    return path


def place(frame: Optional[FrameType] = None) -> str:
    """Returns "FILE:LINE" of the innermost frame that is not part of a library, from `frame` outwards."""
    frame = frame or sys._getframe(1)
    while frame is not None:
        if _is_users(frame):
            return f"{_name(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return os.path.basename(sys.argv[0]) or "the program"


def places_of(trace: Optional[TracebackType]) -> tuple[str, str]:
    """Returns where an exception was raised: "FILE:LINE" of the innermost place in the user's program that it passed,
    and that of the library that raised it, or ""."""
    return _places([(f.f_code.co_filename, line, _is_users(f)) for f, line in traceback.walk_tb(trace)])


def _places(passed: Iterable[tuple[str, int, bool]]) -> tuple[str, str]:
    users = library = ""
    for filename, line, is_users in passed:
        if is_users:
            users, library = f"{_name(filename)}:{line}", ""
        elif not filename.startswith("<") and not _absolute(filename).startswith(_OURS):
            library = f"{_library_name(filename)}:{line}"
    return (users, library) if users else (library or "the program", "")


class ShoalError(Exception):
    """Base of all errors of this package."""


class ProgramError(ShoalError):
    """The program uses the package in a wrong way. Started again it would do the same, so the run ends."""

    def __init__(self, message: str, where: Optional[str] = None) -> None:
        self.place = where or place(sys._getframe(1))
        self.message = message
        super().__init__(f"{self.place}: {message}")


class MissingError(ProgramError):
    """Something that the program names is not there: a run, its model, the files of its data.

    It ends the run only if the program has never started in it. Later a file system is probably away for a while, so
    the worker is started again.
    """


class ProtocolError(ShoalError):
    """The worker sent what the protocol does not allow. Its version and the package's differ."""


class CommandError(ShoalError):
    """The command `shoal` failed or was not found."""


def _is_of_system(error: OSError) -> bool:
    """Returns whether the system, or the network, has caused the error.

    Libraries raise OSError for damaged data too, such as PIL for a truncated image, but without a number of the system.
    An error from a process of DataLoader has that number in its text only.
    """
    cause: Optional[BaseException] = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, (ConnectionError, TimeoutError)) or _NUMBER_OF_SYSTEM.search(str(cause)):
            return True
        if isinstance(cause, OSError) and cause.errno is not None:
            return True
        if cause.__cause__ is None and isinstance(cause.__context__, (FileNotFoundError, FileExistsError)):
            return False  # The program has looked for something first, as in a cache.
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return False


def _class_of(error: BaseException, is_asked: bool, has_begun: bool) -> int:
    if isinstance(error, MissingError):
        return SURROUNDINGS
    if isinstance(error, (ProgramError, SyntaxError)):
        return PERMANENT
    if is_asked and isinstance(error, (NameError, TypeError, AttributeError)):
        return PERMANENT
    away = (ImportError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
    if isinstance(error, away):
        return SURROUNDINGS
    if has_begun and (isinstance(error, MemoryError) or (isinstance(error, OSError) and _is_of_system(error))):
        return SURROUNDINGS
    return RETRYABLE


def describe(error: BaseException, is_asked: bool, has_begun: bool) -> tuple[int, str, str]:
    """Returns the class, the message and the traceback that the worker receives for an exception.

    is_asked: the launcher only asks what the program declares; nothing has started yet.
    has_begun: the worker has already sent work, so the program is able to start.
    """
    kind = _class_of(error, is_asked, has_begun)
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    if isinstance(error, ProgramError):
        return kind, str(error), text
    if isinstance(error, SyntaxError):
        return kind, f"{_name(error.filename or '?')}:{error.lineno}: SyntaxError: {error.msg}", text
    name = type(error).__name__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = _OF_PROCESS.sub("", " … ".join((lines[0], lines[-1])) if len(lines) > 1 else "".join(lines))
    where, library = places_of(error.__traceback__)
    # An exception in a process of DataLoader is "Caught ValueError in …", its traceback as text, "ValueError: what".
    inside = _LINE_OF_TRACEBACK.findall(str(error)) if lines and lines[0].startswith("Caught ") else []
    if inside:
        where, library = _places([(name, int(line), _is_users_file(name)) for name, line in inside])
    return kind, f"{where}: {name}: {message}" + (f" (raised in {library})" if library else ""), text
