#!/usr/bin/env python3
"""Finds classes with too many methods: such a class has several tasks, and one of them can become a class of its own.

usage: tools/class_sizes.py [ROOT]
Counts constructors, destructors, operators and overloads as well, but neither friends nor what is deleted, nor the methods of a
class within the class. Prints each class with its place. Exits with 1 if there is one.
"""
import pathlib
import re
import subprocess
import sys

MAX_METHODS = 40
COMMENT_OR_TEXT = re.compile(r"""//[^\n]*|/\*.*?\*/|R"\(.*?\)"|"(?:\\.|[^"\\\n])*\"|'(?:\\.|[^'\\\n])'|^#(?:[^\n]*\\\n)*[^\n]*""",
                             re.DOTALL | re.MULTILINE)
CLASS = re.compile(r"\b(?<!enum )(?:class|struct)\s+(?:[A-Z_]+(?:\([^()]*\))?\s+)*(\w+(?:::\w+)*)"
                   r"(?:<[^;{}]*>)?\s*(?:final\s*)?(?::(?!:)[^;{}()]*)?\{")
TEMPLATE_ARGUMENTS = re.compile(r"<[^<>]*>")
MACRO = re.compile(r"\b(?:[A-Z][A-Z0-9_]+|alignas|decltype)\([^()]*\)")
# The second: what follows a brace within a declaration, such as the next member that a constructor initializes.
NO_METHOD = re.compile(r"(?:using|typedef|friend|static_assert)\b|[^\w~\[]")
METHOD = re.compile(r"(?:\boperator\s*(?:\(\s*\)|[^\s\w(]+|[\w:*&\s]+)|[\w~])\s*\((?!\s*\*)")


def sources(root):
    """Maps each source to its text without comments, literals and directives."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.h", "*.cc", "*.cu"],
                            cwd=root, capture_output=True, text=True, check=True).stdout.split()
    return {path: COMMENT_OR_TEXT.sub(lambda match: "\n" * match.group(0).count("\n"), (root / path).read_text())
            for path in listed if (root / path).is_file()}


def closing(text, position):
    """The position of the brace that closes the one before the position."""
    depth = 1
    for match in re.compile(r"[{}]").finditer(text, position):
        depth += 1 if match.group(0) == "{" else -1
        if depth == 0:
            return match.start()
    return len(text)


def statements(body):
    """The declarations of a class, without the bodies of functions and of classes within it."""
    flat, position = [], 0
    while (opening := body.find("{", position)) >= 0:
        flat.append(body[position:opening] + ";")
        position = closing(body, opening + 1) + 1
    flat.append(body[position:])
    return "".join(flat).split(";")


def is_method(statement):
    statement = re.sub(r"^(?:\s*(?:public|protected|private):)*\s*", "", statement)
    if NO_METHOD.match(statement):
        return False
    statement = re.sub(r"\boperator(?:<<|>>|<=|>=|<|>)", "operator_", statement)
    while (shorter := MACRO.sub("", TEMPLATE_ARGUMENTS.sub("", statement))) != statement:
        statement = shorter
    if re.search(r"=\s*delete\s*$", statement):
        return False
    found = METHOD.search(statement)
    # A call behind "=" computes the first value of a member.
    return found is not None and "=" not in statement[:found.start()]


def classes(text):
    """Yields (position, name, number of methods) of each class."""
    for match in CLASS.finditer(text):
        body = text[match.end():closing(text, match.end())]
        yield match.start(), match.group(1), sum(map(is_method, statements(body)))


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = 0
    for path, text in sources(root).items():
        for position, name, methods in classes(text):
            if methods > MAX_METHODS:
                print(f"{path}:{text.count(chr(10), 0, position) + 1}: {name} has {methods} methods; at most {MAX_METHODS}: split it")
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
