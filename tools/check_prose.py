#!/usr/bin/env python3
"""Finds comments of headers that have no subject: they begin with a preposition, a relative pronoun or the like.

usage: tools/check_prose.py [--counts] [FILE...]
Without files: all tracked headers and protos. --counts prints counts per folder only. Exits with 1 if more than MAX_SHARE of
the comments begin so.
"""
import collections
import pathlib
import re
import subprocess
import sys

# The share of such comments that is still allowed. The goal is 1 %; this number only becomes smaller.
MAX_SHARE = 0.02
MIN_WORDS = 5
# A comment that begins with one of these has no subject and verb of its own at the start.
OPENINGS = frozenset("""Of Who Whom Whose Whoever What Whatever Which Whether With Without By As To Until Till Nobody Likewise Nor
    Neither Among Beside Besides Between Behind Beyond Below Above Under Upon Into Onto From Than That Where Whereas Wherever""".split())


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


def bad_openings(path):
    found, total = [], 0
    for number, comment in comments(pathlib.Path(path).read_text()):
        if len(comment.split()) < MIN_WORDS:
            continue
        total += 1
        if opening(comment).capitalize() in OPENINGS:
            found.append((path, number, comment))
    return found, total


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    headers = [f for f in arguments if f.endswith((".h", ".proto"))] if arguments else tracked(["*.h", "*.proto"])
    counts, found, total = collections.Counter(), [], 0
    for path in headers:
        bad, number = bad_openings(path)
        found += bad
        total += number
        counts[str(pathlib.PurePath(path).parent)] += len(bad)
    if "--counts" in sys.argv:
        for folder, number in counts.most_common():
            print(f"{number:5d} {folder}")
        print(f"{len(found)} of {total} comments: {len(found) / max(total, 1):.1%}")
        return 0
    for path, number, comment in found:
        print(f"{path}:{number}: {comment}")
    return 1 if len(found) > MAX_SHARE * total else 0


if __name__ == "__main__":
    sys.exit(main())
