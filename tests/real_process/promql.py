"""Finds what an expression of Prometheus reads: enough of its language for the rules and the dashboard of
deploy/monitoring."""
import re

TOKEN = re.compile(r"""\s+|(?P<string>"(?:[^"\\]|\\.)*")|(?P<name>[A-Za-z_:][\w:]*)|(?P<range>\[[^\]]*\])"""
                   r"""|(?P<number>\d[\w.]*)|(?P<sign>=~|!~|==|!=|<=|>=|[-+*/%^<>=(){},])""")
GROUPING = ("by", "without", "on", "ignoring", "group_left", "group_right")
WORDS = ("and", "or", "unless", "offset", "bool")
MATCHES = {"=": lambda value, wanted: value == wanted,
           "!=": lambda value, wanted: value != wanted,
           "=~": lambda value, wanted: re.fullmatch(wanted, value) is not None,
           "!~": lambda value, wanted: re.fullmatch(wanted, value) is None}


def tokens(expression):
    found, at = [], 0
    while at < len(expression):
        token = TOKEN.match(expression, at)
        assert token, f"cannot read {expression[at:]!r} of {expression!r}"
        at = token.end()
        if token.lastgroup:
            found.append((token.lastgroup, token.group()))
    return found


class Selector:
    """A metric's name and the matchers on its labels."""

    def __init__(self, name, matchers):
        self.name, self.matchers = name, matchers

    def __str__(self):
        return self.name + "{" + ", ".join(f'{label}{how}"{value}"' for label, how, value in self.matchers) + "}"

    def of(self, samples):
        """The labels of those samples that it selects."""
        return [labels for name, labels in samples
                if name == self.name and all(MATCHES[how](labels.get(label, ""), value)
                                             for label, how, value in self.matchers)]


def _matchers(read, at):
    """Returns the matchers of the tokens after a {, and where the } is."""
    found = []
    while read[at] != ("sign", "}"):
        (label_kind, label), (_, how), (value_kind, value) = read[at:at + 3]
        assert label_kind == "name" and how in MATCHES and value_kind == "string", read[at:at + 3]
        found.append((label, how, value[1:-1].replace('\\"', '"').replace("\\\\", "\\")))
        at += 3
        if read[at] == ("sign", ","):
            at += 1
    return found, at


def parse(expression):
    """Its selectors, and the lists of labels by which it groups: [("by", {"run", "le"})]."""
    read = tokens(expression) + [("end", "")]
    selectors, groupings = [], []
    at = 0
    while at < len(read):
        kind, text = read[at]
        following = read[at + 1] if at + 1 < len(read) else ("end", "")
        if kind == "name" and text in GROUPING and following == ("sign", "("):
            end = read.index(("sign", ")"), at)
            groupings.append((text, {name for of, name in read[at + 2:end] if of == "name"}))
            at = end
        elif kind == "name" and text not in WORDS + GROUPING and following[1] not in ("(", "by", "without"):
            matchers = []
            if following == ("sign", "{"):
                matchers, at = _matchers(read, at + 2)
            selectors.append(Selector(text, matchers))
        at += 1
    return selectors, groupings
