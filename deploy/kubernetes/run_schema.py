"""The fields of a run file and what values they take, read from proto/v1.

This is a second parser of these files on purpose: `render` runs where an operator works, which may have Python and
nothing else. Neither protobuf's text_format for Python, nor protoc, nor the program shoal can be expected there. A
mistake here costs little: the tasks read the run file with protobuf, and refuse what they cannot read.
"""
import dataclasses
import difflib
import pathlib
import re

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto" / "v1"
FILES = ("run_config", "data_config", "model_config", "optimizer_config", "table_config")

COMMENT = re.compile(r"//[^\n]*")
BLOCK = re.compile(r"(?P<kind>message|enum|oneof)\s+(?P<name>\w+)\s*\{|\}|"
                   r"(?:(?P<label>optional|repeated)\s+)?(?P<type>[A-Za-z][\w.]*)\s+(?P<field>\w+)\s*=\s*\d+|"
                   r"(?P<value>\w+)\s*=\s*\d+")

# Type -> (bits, signed).
WHOLE = {"uint32": (32, False), "uint64": (64, False), "int32": (32, True), "int64": (64, True)}
NUMBER = re.compile(r"[-+]?(\d+\.?\d*([eE][-+]?\d+)?|\.\d+([eE][-+]?\d+)?|inf|infinity|nan|"
                    r"0x([0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(p[-+]?\d+)?)", re.IGNORECASE)


class RunFileError(Exception):
    """Says in one line what is wrong with a run file or a path."""


@dataclasses.dataclass(frozen=True)
class Field:
    """`message` is the name of its message, `values` the known values of its enum; None for other types."""
    name: str
    type: str
    repeated: bool = False
    oneof: str = ""
    message: str = None
    values: tuple = None


def read_schema():
    """Message -> {name of a field: Field}; None where the sources are not beside this file."""
    messages, enums = {}, {}
    for name in FILES:
        try:
            text = (PROTO / f"{name}.proto").read_text(encoding="utf-8")
        except OSError:
            return None
        read_file(COMMENT.sub("", text), messages, enums)
    return {message: {field.name: resolve(field, message, messages, enums) for field in fields}
            for message, fields in messages.items()}


def read_file(text, messages, enums):
    scopes = []  # of (kind, name), the innermost last
    for found in BLOCK.finditer(text):
        message = next((name for kind, name in reversed(scopes) if kind == "message"), "")
        if found["kind"]:
            scopes.append((found["kind"], found["name"]))
            if found["kind"] == "message":
                messages[found["name"]] = []
            elif found["kind"] == "enum":
                enums[(message, found["name"])] = []
        elif found[0] == "}":
            scopes.pop()
        elif found["value"] and scopes and scopes[-1][0] == "enum":
            enums[(message, scopes[-1][1])].append(found["value"])
        elif found["field"] and message:
            oneof = scopes[-1][1] if scopes[-1][0] == "oneof" else ""
            messages[message].append(Field(found["field"], found["type"], found["label"] == "repeated", oneof))


def resolve(field, message, messages, enums):
    if field.type in messages:
        return dataclasses.replace(field, message=field.type)
    values = enums.get((message, field.type)) or enums.get(("", field.type))
    return dataclasses.replace(field, values=tuple(values)) if values else field


def find_field(schema, message, name, where=""):
    if name not in schema[message]:
        near = difflib.get_close_matches(name, schema[message], 1)
        raise RunFileError(f"{where}{message} has no field \"{name}\"" + (f"; did you mean {near[0]}?" if near else ""))
    return schema[message][name]


def short_names(field):
    """Returns the names of runtime/config/enum_name.h, without the value that stands for "not given"."""
    prefix = field.values[0].removesuffix("UNSPECIFIED")
    return [value.removeprefix(prefix).lower() for value in field.values[1:]]


def wanted(field):
    """Describes the values of the field in words."""
    if field.values:
        return f"one of {', '.join(short_names(field))}"
    if field.type in WHOLE:
        bits, signed = WHOLE[field.type]
        return f"a whole number{'' if signed else ' >= 0'} of at most {bits} bits"
    return {"double": "a number", "float": "a number", "bool": "true or false", "string": "text in quotes"}.get(field.type, "")


def is_value(field, text):
    """Returns whether an argument is a value of the field, which is not a message, as in runtime/config/field_path.cc."""
    if field.values:
        return text in field.values[1:] or text.lower() in short_names(field)
    if field.type == "bool":
        return text.lower() in ("true", "t", "yes", "y", "1", "false", "f", "no", "n", "0")
    if field.type in WHOLE:
        form = r"[-+]?[0-9]+" if WHOLE[field.type][1] else r"\+?[0-9]+"
        return bool(re.fullmatch(form, text.strip())) and in_range(field, int(text))
    return field.type not in ("double", "float") or bool(NUMBER.fullmatch(text.strip()))


def is_token(field, token):
    """The same of a token of a run file, where texts have quotes."""
    if token[:1] in ("\"", "'") or field.type == "string":
        return token[:1] in ("\"", "'") and field.type == "string"
    token = re.sub(r"\s", "", token)
    if field.values:
        return is_value(field, token) or bool(re.fullmatch(r"-?[0-9]+", token))
    if field.type == "bool":
        return token in ("true", "True", "t", "false", "False", "f", "0", "1")
    if field.type in WHOLE:
        sign = "-?" if WHOLE[field.type][1] else ""
        found = re.fullmatch(rf"({sign})(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)", token)
        base = 16 if found and found[2][1:2] in ("x", "X") else 8 if found and found[2][0] == "0" else 10
        return bool(found) and in_range(field, int(found[1] + found[2], base))
    return field.type not in ("double", "float") or bool(NUMBER.fullmatch(re.sub(r"(?<=[0-9.])[fF]$", "", token)))


def in_range(field, number):
    bits, signed = WHOLE[field.type]
    least, end = (-2**(bits - 1), 2**(bits - 1)) if signed else (0, 2**bits)
    return least <= number < end
