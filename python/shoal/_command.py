"""The command `shoal` of the wheel: it becomes the program that the wheel has."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # See __init__.py.
if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_CONFIGURATION = 78  # As in runtime/process/exit_code.h: not to be tried again.


def with_interpreter(arguments: Sequence[str]) -> list[str]:
    """Returns the arguments of `shoal`, with this interpreter for a program FILE.py, if they name no other one."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    flags = [flag.lstrip("-") if flag.startswith("-") else "" for flag in arguments[:end]]
    values = [flag[len("program=") :] for flag in flags if flag.startswith("program=")]
    values += [value for flag, value in zip(flags, arguments[1:end]) if flag == "program"]
    named = any(flag == "python" or flag.startswith("python=") for flag in flags)
    if named or not values or not values[-1].endswith(".py"):
        return list(arguments)
    return [*arguments[:end], f"--python={sys.executable}", *arguments[end:]]


def main() -> None:
    from shoal import _process, errors

    try:
        program = _process.packaged_command()
        if program is None:
            raise errors.CommandError("this package has no program; it was not installed from a wheel")
        sys.stdout.flush()
        os.execv(program, [sys.argv[0], *with_interpreter(sys.argv[1:])])
    except (errors.CommandError, OSError) as error:
        print(f"shoal: {error}", file=sys.stderr)
        sys.exit(EXIT_CONFIGURATION)
