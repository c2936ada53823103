"""Checks --run and --set for render without Shoal's program, by proto/v1.

Names of fields, values by the types of their fields, and that braces and quotes are closed. Not which values go
together and with the data: that the tasks judge when they start, and end with 64 and one line.
"""
import re

from run_schema import RunFileError, find_field, is_token, is_value, wanted

TOKEN = re.compile(r"""\s+|\#[^\n]*|(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(?P<mark>[{}<>:;,\[\]])|"""
                   r"""(?P<word>-?\s*[+.\w][-+.\w]*)""")


def check_setting(schema, path, value):
    """Returns the field of --set=PATH=VALUE: names joined by dots, elements of lists by their index."""
    message, steps = "RunConfig", path.split(".")
    for index, step in enumerate(steps):
        found = re.fullmatch(r"(\w+)(\[[0-9]+\])?", step)
        if not found:
            raise RunFileError(f"\"{step}\" is not the name of a field")
        field, last = find_field(schema, message, found[1]), index + 1 == len(steps)
        if last and not found[2]:
            check_value(schema, field, value)
        elif field.message is None:
            raise RunFileError(f"\"{found[1]}\" has no fields of its own")
        elif bool(found[2]) != field.repeated:
            raise RunFileError(f"{field.name} is a list; choose one as {field.name}[0]" if field.repeated else
                               f"{field.name} is not a list")
        elif last:
            raise RunFileError("ends in an element; name one of its fields")
        message = field.message


def check_value(schema, field, value):
    if field.message:
        if field.repeated:
            raise RunFileError(f"is a list of messages; choose one as {field.name}[0]")
        RunFile(schema, value).check(field.message)
        return
    items = [value]
    if field.repeated:
        items = [item.strip() for item in value.split(",")] if value else []
    for item in items:
        if not is_value(field, item):
            raise RunFileError(f"{wanted(field)} is wanted, not \"{item}\"")


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


def grace_seconds(text):
    """cluster.grace_seconds of a run file that was checked, or None: pods must be given more than that to end."""
    tokens = [token for _, token in tokens_of(text)]
    if "grace_seconds" not in tokens:
        return None
    number = tokens[tokens.index("grace_seconds") + 2].lower()
    base = 16 if number.startswith("0x") else 8 if number.startswith("0") else 10
    return int(number, base) or None


def top_fields(text):
    """The names of the fields of a run file that was checked, without those of its messages."""
    names, depth, before = set(), 0, ""
    for _, token in tokens_of(text):
        if depth == 0 and token in ("{", "<", ":") and re.fullmatch(r"[A-Za-z_]\w*", before):
            names.add(before)
        depth += (token in ("{", "<", "[")) - (token in ("}", ">", "]"))
        if not (token == ":" and depth == 0):
            before = token
    return names


def program_text(file, arguments, python):
    """A compute program as a field of a run file."""
    def quoted(text):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
        return f'"{escaped}"'
    lines = [f"  file: {quoted(file)}"] + [f"  args: {quoted(argument)}" for argument in arguments]
    lines += [f"  python: {quoted(python)}"] if python else []
    return "\n".join(["program {", *lines, "}", ""])


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

    def check(self, message="RunConfig"):
        self.fields(message, "")

    def fields(self, message, end):
        given = {}  # name of a field, or of the oneof that it is in -> the field given
        while True:
            line, token = self.next()
            if token == end:
                return
            if token in (",", ";"):
                continue
            if not re.fullmatch(r"[A-Za-z_]\w*", token):
                what = "the file ends within a message" if not token else f"\"{token}\" is not expected"
                raise RunFileError(f"line {line}: {what}")
            field = find_field(self.schema, message, token, f"line {line}: ")
            self.check_once(line, field, given)
            colon = self.peek() == ":"
            if colon:
                self.next()
            self.values(line, field, colon)

    @staticmethod
    def check_once(line, field, given):
        if field.repeated:
            return
        key = field.oneof or field.name
        if key in given:
            what = "is given twice; give it once" if given[key] is field else (
                f"contradicts {given[key].name}; drop one of them")
            raise RunFileError(f"line {line}: {field.name}: {what}")
        given[key] = field

    def values(self, line, field, colon):
        if self.peek() != "[":
            self.value(line, field, colon)
            return
        if not field.repeated:
            raise RunFileError(f"line {line}: {field.name}: is not a list")
        self.next()
        token = "," if self.peek() != "]" else self.next()[1]
        while token == ",":
            self.value(line, field, colon)
            line, token = self.next()
        if token != "]":
            raise RunFileError(f"line {line}: {field.name}: wanted is \",\" or \"]\"" + (f", not {token}" if token else ""))

    def value(self, line, field, colon):
        token = self.next()[1]
        if field.message is None:
            if not colon or not token or token in "{}<>:;,[]":
                raise RunFileError(f"line {line}: {field.name}: wanted is \": VALUE\"")
            while token[0] in "\"'" and self.peek()[:1] in ("\"", "'"):  # texts in pieces
                self.next()
            if not is_token(field, token):
                kind = "a text in quotes" if field.type == "string" else wanted(field)
                raise RunFileError(f"line {line}: {field.name}: {kind} is wanted, not {token}")
        elif token in ("{", "<"):
            self.fields(field.message, "}" if token == "{" else ">")
        else:
            raise RunFileError(f"line {line}: {field.name}: is a message; wanted is \"{{ ... }}\"")
