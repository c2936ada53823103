#!/usr/bin/env python3
"""Finds comments without a subject, and words of a dialect where the field has its own.

usage: tools/check_prose.py [--counts] [FILE...]
Checks the openings of comments in C++ sources, protos and Python (with docstrings), and the phrases in all C++ comments, in
texts of C++ files (logs, errors, help) and in pages. Without files it checks all tracked ones. --counts prints counts per folder only. Exits with 1 if more than MAX_SHARE of
the comments have a bad opening, or if a phrase is found; in all files of a folder KNOWN_PHRASES are still allowed.
"""
import ast
import collections
import pathlib
import re
import subprocess
import sys

# The share of such comments that is allowed; leveldb, reverb, gloo and TF Serving have 0.2 to 1.1 %.
MAX_SHARE = 0.01
MIN_WORDS = 5
# A comment that begins with one of these has no subject and verb of its own at the start.
OPENINGS = frozenset("""Of Who Whom Whose Whoever What Whatever Which Whether With Without By As To Until Till Nobody Likewise Nor
    Neither Among Beside Besides Between Behind Beyond Below Above Under Upon Into Onto From Than That Where Whereas Wherever""".split())

# Phrase -> what to write instead.
PHRASES = {
    r"\b(?:go|goes|going|went|gone) on\b": "resume or continue",
    r"\b(?:is|are|was|were|be|been|being|not|has|have) told\b|\btold (?:to|of|that|it|them|so)\b": "notify, ask, send or report",
    r"\b(?:hear|hears|heard)\b": "receive, or be notified",
    r"\bin hand\b": "current, or held",
    r"(?<!\bthere )\b(?:is|are) no (?!longer\b|more\b|such\b)": "is not a",
    r"\bwhoever\b": "name the actor",
    r", which is said\b": "log or print, with a subject",
    r"\bas things stand\b": "now, or at present",
}
# The number of phrases left, by top folder. These numbers only become smaller.
KNOWN_PHRASES = {}
# Pages that are not rewritten: decisions and measurements of their time.
RECORDS = ("docs/decisions/", "tests/benchmark/RESULTS.md")


def tracked(patterns):
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
                            capture_output=True, text=True, check=True).stdout.split()
    return [path for path in listed if pathlib.Path(path).is_file()]


def comments(text, marker="//"):
    """Yields (line number, text) of each comment: lines of comment alone join, a comment behind code is its own."""
    block, start = [], 0
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith(marker):
            content = stripped[len(marker):].strip()
            if not content:
                if block:
                    yield start, " ".join(block)
                block = []
                continue
            if not block:
                start = number
            block.append(content)
            continue
        if block:
            yield start, " ".join(block)
            block = []
        behind = re.search(r'[;,{)]\s+' + marker + r'\s*(.*)$', line)
        if behind:
            yield number, behind.group(1)
    if block:
        yield start, " ".join(block)


def opening(comment):
    """The word that the comment begins with, without a name and colon before it."""
    comment = re.sub(r"^(`[^`]*`|[A-Za-z_]+)\s*:\s+", "", comment)
    word = re.match(r"[A-Za-z]+", comment)
    return word.group(0) if word else ""


def python_comments(source):
    """Yields (line number, text) of each comment and docstring."""
    yield from comments(source, "#")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            yield node.body[0].lineno, ast.get_docstring(node)


def bad_openings(path):
    source = pathlib.Path(path).read_text()
    found, total = [], 0
    for number, comment in python_comments(source) if path.endswith(".py") else comments(source):
        if len(comment.split()) < MIN_WORDS:
            continue
        total += 1
        if opening(comment).capitalize() in OPENINGS:
            found.append((path, number, comment))
    return found, total


def texts(source):
    """Yields (line number, text) of each literal with more than one word; adjacent literals join."""
    token = re.compile(r"""//[^\n]*|#include[^\n]*|'(?:\\.|[^'\\\n])+'|"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*""")
    for match in token.finditer(source):
        if match.group(0).startswith('"'):
            text = "".join(part[1:-1] for part in re.findall(r'"(?:\\.|[^"\\\n])*"', match.group(0)))
            if " " in text.strip():
                yield source.count("\n", 0, match.start()) + 1, text


def paragraphs(source):
    """Yields (line number, text) of each paragraph of a page."""
    for match in re.finditer(r"(?:[^\n]+\n?)+", source):
        yield source.count("\n", 0, match.start()) + 1, " ".join(match.group(0).split())


def bad_phrases(path):
    source = pathlib.Path(path).read_text()
    if path.endswith(".md"):
        places = list(paragraphs(source))
    else:
        places = list(comments(source)) + ([] if path.endswith(".proto") else list(texts(source)))
    return [(path, number, f"\"{match.group(0).strip()}\": write {remedy}: … {text[max(0, match.start() - 60):match.end() + 60]} …")
            for number, text in places for phrase, remedy in PHRASES.items()
            for match in re.finditer(phrase, text, re.IGNORECASE)]


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    sources = arguments or [path for path in tracked(["*.h", "*.proto", "*.cc", "*.inc", "*.cu", "*.md", "*.py"]) if not path.startswith(RECORDS)]
    counts, found, total = collections.Counter(), [], 0
    phrases = collections.defaultdict(list)
    for path in sources:
        if not path.endswith(".md"):
            bad, number = bad_openings(path)
            found += bad
            total += number
            counts[str(pathlib.PurePath(path).parent)] += len(bad)
        if not path.endswith(".py"):
            phrases[pathlib.PurePath(path).parts[0]] += bad_phrases(path)
    if "--counts" in sys.argv:
        for folder, number in counts.most_common():
            print(f"{number:5d} {folder}")
        print(f"{len(found)} of {total} comments: {len(found) / max(total, 1):.1%}")
        print("phrases:", {folder: len(bad) for folder, bad in phrases.items() if bad})
        return 0
    failed = len(found) > MAX_SHARE * total
    for folder, bad in phrases.items():
        if len(bad) > (0 if arguments else KNOWN_PHRASES.get(folder, 0)):
            found += bad
            failed = True
    for path, number, comment in found:
        print(f"{path}:{number}: {comment}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
