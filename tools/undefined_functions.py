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

COMMENT_OR_TEXT = re.compile(r"""//[^\n]*|/\*.*?\*/|R"\(.*?\)"|"(?:\\.|[^"\\\n])*\"|'(?:\\.|[^'\\\n])'""", re.DOTALL)
# A name with what stands before it: a type, or the class of a member that is defined.
FUNCTION = re.compile(r"(?:(\w+)(?:<[\w, ]*>)?::|(\w+|[>*&])\s+[*&]*|)\b([A-Z]+[a-z]\w*)(?:<\w+>)?\(")
# The text that may stand between the arguments and the end of a declaration: qualifiers, and macros for locks.
QUALIFIER = re.compile(r"\s*(const\b|noexcept\b|override\b|final\b|&&?|->[\w:<>*&, ]+|[A-Z][A-Z_]+\b)")
DEFINED = re.compile(r"\s*(?:\{|:(?!:)|= default)")
# A source defines their functions by a macro, and is compiled once for each name.
DEFINED_BY_MACRO = ("ml/optim/update_loops.h",)
NO_TYPE = ("return", "else", "new", "throw", "case")


def sources(root):
    """Maps each source to its text without comments and literals."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.h", "*.cc", "*.cu", "*.inc"],
                            cwd=root, capture_output=True, text=True, check=True).stdout.split()
    return {path: COMMENT_OR_TEXT.sub(lambda match: "\n" * match.group(0).count("\n"), (root / path).read_text())
            for path in listed if (root / path).is_file()}


def closing(text, position):
    """The position behind the parenthesis that closes the one at the position."""
    depth = 0
    for match in re.compile(r"[()]").finditer(text, position):
        depth += 1 if match.group(0) == "(" else -1
        if depth == 0:
            return match.end()
    return len(text)


def end_of(text, position):
    """The position behind the arguments, which begin at the position, and behind the qualifiers."""
    end = closing(text, position)
    while match := QUALIFIER.match(text, end):
        end = closing(text, match.end()) if text.startswith("(", match.end()) else match.end()
    return end


def is_member(text, position):
    """Returns whether the declaration at the position is indented: that of a function in a namespace is not."""
    start = max(text.rfind(mark, 0, position) for mark in (";", "{", "}", "\n\n"))
    return not re.match(r"\s*\n\S|\S", text[start + 1:position])


def functions(text):
    """Yields (class or None, type or None, name, position, position behind the qualifiers) of each use of a name in CamelCase."""
    for match in FUNCTION.finditer(text):
        yield *match.groups(), match.start(3), end_of(text, match.end() - 1)


def declarations(text):
    """Yields (position, name, whether it is a member) of each declared function."""
    for scope, kind, name, position, end in functions(text):
        if scope is None and kind is not None and kind not in NO_TYPE and re.match(r"\s*;", text[end:end + 20]):
            yield position, name, is_member(text, position)


def definitions(text):
    """Yields (name, whether it is a member) of each defined function; one without a scope counts as both."""
    for scope, _, name, _, end in functions(text):
        if DEFINED.match(text, end):
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
        for position, name, member in declarations(text) if path.endswith(".h") and path not in DEFINED_BY_MACRO else ():
            if (name, member) not in defined:
                print(f"{path}:{text.count(chr(10), 0, position) + 1}: {name} has no definition")
                missing += 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
