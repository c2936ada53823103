"""The examples of the wheel: programs for `shoal train --program=FILE.py`, run files for `shoal train --run=FILE`.

python3 -m shoal.examples        lists them
python3 -m shoal.examples DIR    copies them into a folder
"""

from __future__ import annotations

import ast
import itertools
import os
import re
import shutil
import sys
import textwrap

USAGE = "usage: python3 -m shoal.examples (lists the examples), python3 -m shoal.examples DIR (copies them into DIR)"


def _source() -> str:
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_examples")
    if not os.path.isdir(source):
        raise FileNotFoundError("only the wheel has examples; in the sources they are in python/examples")
    return source


def _names() -> list[str]:
    return sorted(name for name in os.listdir(_source()) if name != "__pycache__")  # pip compiles what it installs.


def list_examples() -> list[tuple[str, str]]:
    """Returns the examples, each with the beginning of what it says of itself."""
    result = []
    for name in _names():
        with open(os.path.join(_source(), name), encoding="utf-8") as file:
            text = file.read()
        if name.endswith(".py"):
            about = ast.get_docstring(ast.parse(text)) or ""
        else:
            comment = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
            about = " ".join(line.strip("# ") for line in comment)
        result.append((name, textwrap.shorten(re.split(r"[.:;](?:\s|$)", about)[0], 80, placeholder=" …")))
    return result


def write_examples(folder: str) -> list[str]:
    """Copies the examples into a folder, which it makes, and returns their paths. A file that is there stays."""
    names = _names()
    os.makedirs(folder, exist_ok=True)
    paths = []
    for name in names:
        path = os.path.join(folder, name)
        paths.append(path)
        if not os.path.exists(path):
            shutil.copyfile(os.path.join(_source(), name), path)
    return paths


def main() -> None:
    arguments = sys.argv[1:]
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        sys.exit(USAGE)
    try:
        if arguments:
            print("\n".join(write_examples(arguments[0])))
            return
        examples = list_examples()
    except OSError as error:
        sys.exit(f"shoal.examples: {error}")
    width = max(len(name) for name, _ in examples)
    for name, about in examples:
        print(f"{name:{width}}  {about}")
    print("\npython3 -m shoal.examples DIR copies them into DIR")


if __name__ == "__main__":
    main()
