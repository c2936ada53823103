"""The fields of a run file, as proto/v1 says: what render checks of --run and --set without Shoal's program.

Names of fields, that messages have braces and other fields values, and that braces and quotes are closed. Not the
values: those the tasks judge when they start, and end with 64 and one line.
"""
import difflib
import pathlib
import re

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto" / "v1"
FILES = ("run_config", "data_config", "model_config", "optimizer_config")

COMMENT = re.compile(r"//[^\n]*")
BLOCK = re.compile(r"(message|enum|oneof)\s+(\w+)\s*\{|\}|(?:(?:optional|repeated)\s+)?([A-Za-z]\w*)\s+(\w+)\s*=\s*\d+")
TOKEN = re.compile(r"""\s+|\#[^\n]*|(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(?P<mark>[{}<>:;,\[\]])|"""
                   r"""(?P<word>-?\s*[+.\w][-+.\w]*)""")


class RunFileError(Exception):
    """What is wrong with a run file or a path; one line."""


def read_schema():
    """Message -> {field: its type}; None where the sources are not beside this file."""
    messages = {}
    for name in FILES:
        try:
            text = (PROTO / f"{name}.proto").read_text(encoding="utf-8")
        except OSError:
            return None
        scopes = []  # of ("message", name), ...
        for found in BLOCK.finditer(COMMENT.sub("", text)):
            if found[1]:
                scopes.append((found[1], found[2]))
                if found[1] == "message":
                    messages[found[2]] = {}
            elif found[0] == "}":
                scopes.pop()
            elif scopes[-1][0] != "enum":
                message = next(name for kind, name in reversed(scopes) if kind == "message")
                messages[message][found[4]] = found[3]
    return messages


def type_of(schema, message, field, where):
    """The message's name, or None for a field of another type."""
    if field not in schema[message]:
        near = difflib.get_close_matches(field, schema[message], 1)
        raise RunFileError(f"{where}{message} has no field \"{field}\"" + (f"; did you mean {near[0]}?" if near else ""))
    kind = schema[message][field]
    return kind if kind in schema else None


def check_path(schema, path):
    """Of --set=PATH=VALUE: names joined by dots, elements of lists by their index."""
    message, steps = "RunConfig", path.split(".")
    for index, step in enumerate(steps):
        found = re.fullmatch(r"(\w+)(\[[0-9]+\])?", step)
        if not found:
            raise RunFileError(f"\"{step}\" is no name of a field")
        inner = type_of(schema, message, found[1], "")
        if inner is None and index + 1 < len(steps):
            raise RunFileError(f"\"{found[1]}\" has no fields of its own")
        message = inner


def tokens_of(text):
    """(line, token) of everything but space and comments."""
    at = 0
    while at < len(text):
        found = TOKEN.match(text, at)
        line = text.count("\n", 0, at) + 1
        if not found:
            what = "a text is not closed" if text[at] in "\"'" else f"\"{text[at]}\" is not expected"
            raise RunFileError(f"line {line}: {what}")
        if found.lastgroup:
            yield line, found[0]
        at = found.end()


class RunFile:
    """Reads text proto, which needs no separators between fields."""

    def __init__(self, schema, text):
        self.schema = schema
        self.tokens = [*tokens_of(text), (text.count("\n") + 1, "")]
        self.at = 0

    def peek(self):
        return self.tokens[self.at][1]

    def next(self):
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def check(self):
        self.fields("RunConfig", "")

    def fields(self, message, end):
        while True:
            line, token = self.next()
            if token == end:
                return
            if token in (",", ";"):
                continue
            if not re.fullmatch(r"[A-Za-z_]\w*", token):
                what = "the file ends within a message" if not token else f"\"{token}\" is not expected"
                raise RunFileError(f"line {line}: {what}")
            inner = type_of(self.schema, message, token, f"line {line}: ")
            colon = self.peek() == ":"
            if colon:
                self.next()
            self.values(line, token, inner, colon)

    def values(self, line, field, inner, colon):
        if self.peek() != "[":
            self.value(line, field, inner, colon)
            return
        self.next()
        while self.peek() != "]":
            self.value(line, field, inner, colon)
            if self.peek() == ",":
                self.next()
        self.next()

    def value(self, line, field, inner, colon):
        token = self.next()[1]
        if inner is None:
            if not colon or not token or token in "{}<>:;,[]":
                raise RunFileError(f"line {line}: {field}: wanted is \": VALUE\"")
            while token[0] in "\"'" and self.peek()[:1] in ("\"", "'"):  # texts in pieces
                self.next()
        elif token in ("{", "<"):
            self.fields(inner, "}" if token == "{" else ">")
        else:
            raise RunFileError(f"line {line}: {field}: is a message; wanted is \"{{ ... }}\"")
