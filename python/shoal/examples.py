"""Writes the examples of the wheel into a folder: python3 -m shoal.examples DIR

They are programs in PyTorch, JAX and NumPy for `shoal train --program=FILE.py`, and run files for
`shoal train --run=FILE.textproto`.
"""

from __future__ import annotations

import os
import shutil
import sys


def write_examples(folder: str) -> list[str]:
    """Copies the examples into a folder, which it makes, and returns their paths. A file that is there stays."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_examples")
    if not os.path.isdir(source):
        raise FileNotFoundError("only the wheel has examples; in the sources they are in python/examples")
    os.makedirs(folder, exist_ok=True)
    paths = []
    for name in sorted(os.listdir(source)):
        if name == "__pycache__":  # pip compiles what it installs.
            continue
        path = os.path.join(folder, name)
        paths.append(path)
        if not os.path.exists(path):
            shutil.copyfile(os.path.join(source, name), path)
    return paths


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python3 -m shoal.examples DIR")
    try:
        paths = write_examples(sys.argv[1])
    except OSError as error:
        sys.exit(f"shoal.examples: {error}")
    print("\n".join(paths))


if __name__ == "__main__":
    main()
