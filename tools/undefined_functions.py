#!/usr/bin/env python3
"""Finds functions that a header declares and no source defines: a user of the header would meet a link error.

usage: tools/undefined_functions.py [ROOT]
Compares by name and by whether the function is a member of a class. Only names in CamelCase are checked. Prints each
function with its place. Exits with 1 if there is one.
"""
import pathlib
import re
import subprocess
import sys

COMMENT_OR_TEXT = re.compile(r"""//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*\"""", re.DOTALL)
ARGUMENTS = r"\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)"
# What may stand between the arguments and the end of a declaration: qualifiers, and macros for locks.
TAIL = rf"(?:\s*(?:const|noexcept|override|final|&&?|->[\w:<>*&, ]+|[A-Z][A-Z_]+(?:{ARGUMENTS})?))*"
DECLARATION = re.compile(rf"(\w+|[>*&])\s+[*&]*([A-Z]\w*){ARGUMENTS}{TAIL}\s*;")
DEFINITION = re.compile(rf"\b(?:(\w+)(?:<[\w, ]*>)?::)?([A-Z]\w*){ARGUMENTS}{TAIL}\s*(?:\{{|:(?!:)|= default)")
NO_TYPE = ("return", "else", "new", "throw", "case")


def sources(root):
    """Maps each source to its text without comments and literals."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.h", "*.cc", "*.cu", "*.inc"],
                            cwd=root, capture_output=True, text=True, check=True).stdout.split()
    return {path: COMMENT_OR_TEXT.sub(lambda match: "\n" * match.group(0).count("\n"), (root / path).read_text())
            for path in listed if (root / path).is_file()}


def is_member(text, position):
    """Whether the declaration at the position is indented: that of a function in a namespace is not."""
    statement = re.split(r"[;{}]|\n\n", "\n" + text[:position])[-1]
    return not re.match(r"\s*\n\S|\S", statement)


def declarations(text):
    """Yields (position, name, whether it is a member) of each declared function."""
    for match in DECLARATION.finditer(text):
        if match.group(1) not in NO_TYPE:
            yield match.start(2), match.group(2), is_member(text, match.start(2))


def definitions(text):
    """Yields (name, whether it is a member) of each defined function; one inside a class counts as both."""
    for match in DEFINITION.finditer(text):
        scope, name = match.groups()
        if scope is None or scope[0].isupper():
            yield name, True
        if scope is None or not scope[0].isupper():
            yield name, False


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    texts = sources(root)
    defined = {definition for text in texts.values() for definition in definitions(text)}
    missing = 0
    for path, text in texts.items():
        for position, name, member in declarations(text) if path.endswith(".h") else ():
            if (name, member) not in defined:
                print(f"{path}:{text.count(chr(10), 0, position) + 1}: {name} has no definition")
                missing += 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
