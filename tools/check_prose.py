#!/usr/bin/env python3
"""Finds comments without a subject, and words of a dialect where the field has its own.

usage: tools/check_prose.py [--counts] [FILE...]
Checks the openings of all sentences: of comments in C++ sources, protos, Python (with docstrings), shell scripts, BUILD files, yaml
and text protos, of texts in C++ and Python that is not a test (logs, errors, help), of pages, and of names of tests. It checks the
phrases in all these. In C++ it also finds a comment behind the last part of a statement that the comment has broken into two lines.
If no files are named, it checks all tracked ones. --counts prints counts per folder only. Exits with 1 if anything is found.
"""
import ast
import collections
import pathlib
import re
import subprocess
import sys

# A comment that begins with one of these has no subject and verb of its own at the start.
OPENINGS = frozenset("""Of Who Whom Whose Whoever What Whatever Which Whether With Without By As To Until Till Nobody Likewise Nor
    Neither Among Beside Besides Between Behind Beyond Below Above Under Upon Into Onto From Than That Where Whereas Wherever
    How Why""".split())
# These begin good sentences too ("In training, sets ..."). A first sentence of so few words has no verb.
PREPOSITIONS = frozenset("In On For At After Before Since During Over Per Within Against About Through Via".split())
PHRASE_WORDS = 6
# A sentence after the first one may begin with a condition ("Without a GPU, it ...") or a question that is its subject ("Which
# rows are stored depends on ..."), but not with a clause in the place of its subject.
CLAUSES = re.compile(r"(?:Of|Who|Whom|Whose|Whoever|What|Than|Only (?:what|who|whose))\b")
# Texts and names of tests do not begin with these either.
QUESTIONS = re.compile(CLAUSES.pattern + r"|(?:Whatever|Which|Whether|How|Why)\b")
# Errors and logs begin in lower case. "of the rows", "which is not a number" and the like are parts of a text there.
LOWER_CLAUSES = re.compile(r"(?:what|who|whom|whose|whoever|whatever|only (?:what|who|whose))\b")
# Sentences of pages. In them a question may be a subject ("How k is chosen is in ..."), and it may be a title.
PAGE_CLAUSES = re.compile(CLAUSES.pattern + r"|(?:Whatever|Which|That which|Those who)\b")
# Names of tests: letters are lost there, so words that stand for something else are hard to understand.
NAMES = re.compile(r"(?:test )?(?:" + QUESTIONS.pattern + r"|(?:That|Those) Of\b)"
                   r"|.*\b(?:is none|is (?:his|its|the machines|the workers)|are its\b.*|stands?)$", re.IGNORECASE)
# A comment of fewer words has no verb. If its first letter is not a capital, it is a label.
SHORT_WORDS = 5
MAX_COLUMNS = 100
LABEL_OPENINGS = frozenset("Nobody By For Per".split())

# Phrase -> what to write instead.
PHRASES = {
    r"\b(?:go|goes|going|went|gone) on\b": "resume or continue",
    r"\b(?:is|are|was|were|be|been|being|not|has|have) told\b|\btold (?:to|of|that|it|them|so)\b": "notify, ask, send or report",
    r"\b(?:hear|hears|heard)\b": "receive, or be notified",
    r"\bin hand\b": "current, or held",
    r"(?<!\bthere )\b(?:is|are) no (?!longer\b|more\b|such\b)": "is not a",
    r"\bwhoever\b": "name the actor",
    r"\b(?:is|are|was|were) said\b": "log or print, with a subject",
    r"\bas things stand\b": "now, or at present",
}
# Pages that are not rewritten: decisions and measurements of their time.
RECORDS = ("docs/decisions/", "tests/benchmark/RESULTS.md", "tests/chaos/RESULTS.md")
# They have the phrases themselves.
THESE = ("tools/check_prose.py", "tools/check_prose_test.py")


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


def sentences_of(text):
    return re.split(r"(?<=[.;!?])\s+|\\n", text.strip())


def is_headless(sentence, openings=CLAUSES):
    """Returns whether the sentence has a clause in the place of its subject."""
    return openings.match(sentence) is not None and len(sentence.split()) >= 3 and not sentence.endswith("?")


def has_bad_opening(comment):
    """Returns whether the comment, after a name and colon, begins with a word that leaves the subject out, or one of its sentences does."""
    comment = re.sub(r"^(`[^`]*`|[A-Za-z_]+)\s*:\s+", "", comment)
    if any(is_headless(sentence) for sentence in sentences_of(comment)[1:]):
        return True
    words = comment.split()
    match = re.match(r"[A-Za-z]+", comment)
    if match is None or len(words) < 2:
        return False
    word = match.group(0)
    if len(words) < SHORT_WORDS:
        return word in (OPENINGS | PREPOSITIONS) - LABEL_OPENINGS and not comment.endswith("?")
    if word.capitalize() in OPENINGS:
        return True
    sentence = re.split(r"[.;](?:\s|$)", comment)[0]
    return (word.capitalize() in PREPOSITIONS and not re.search("[,:]", sentence)
            and len(sentence.split()) <= PHRASE_WORDS)


def is_headless_text(text):
    """Returns whether a sentence of an error, a log or a help is headless. A text after a blank continues a sentence."""
    sentences = sentences_of(text)
    return (any(is_headless(sentence, QUESTIONS) for sentence in sentences)
            or any(is_headless(sentence, LOWER_CLAUSES) for sentence in sentences[text[:1].isspace():]))


def broken_by_comments(source):
    """Yields (line number, text) of each line with the end of a statement and a comment, without which one line would hold the statement.

    clang-format breaks a member in this way if the comment behind it is too long; the comment belongs above the member.
    """
    lines = source.splitlines()
    for number in range(1, len(lines)):
        before, end = lines[number - 1], re.match(r"\s{4,}([^/\"]*\S;)\s+//(?! NOLINT)", lines[number])
        if (end and re.search(r"[=>\w(]$", before) and "//" not in before and not re.match(r"\s*#|.*\b(?:else|do)$", before)
                and len(before) + 1 + len(end.group(1)) <= MAX_COLUMNS):
            yield number + 1, "the comment breaks the statement; put it above: " + lines[number].strip()


def page_sentences(source):
    """Yields (line number, text) of each sentence of a page: in paragraphs, items of lists and cells of tables, not in titles or code."""
    source = re.sub(r"^ *```.*?^ *```|^    [^\n]*", lambda code: "\n" * code.group(0).count("\n"), source, flags=re.DOTALL | re.MULTILINE)
    for block in re.finditer(r"(?:[^\n]+\n?)+", source):
        number = source.count("\n", 0, block.start()) + 1
        for part in re.split(r"\n(?=\s*(?:[*|#-]|\d+\.)(?:\s|$))", block.group(0).rstrip("\n")):
            text = re.sub(r"^\s*(?:[*-]|\d+\.)\s+", "", part)
            for cell in [] if text.startswith("#") else text.split("|") if text.lstrip().startswith("|") else [text]:
                for sentence in sentences_of(" ".join(cell.split())):
                    yield number, sentence
            number += part.count("\n") + 1


def bad_page_openings(path):
    return [(path, number, sentence) for number, sentence in page_sentences(pathlib.Path(path).read_text())
            if is_headless(sentence, PAGE_CLAUSES)]


def python_comments(source):
    """Yields (line number, text) of each comment and docstring."""
    yield from comments(source, "#")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            yield node.body[0].lineno, ast.get_docstring(node)


def comments_of(path, source):
    """Yields (line number, text) of each comment, by the kind of the file."""
    if path.endswith(".py"):
        return python_comments(source)
    if is_script(path):
        return script_comments(source)
    return comments(source)


def bad_openings(path):
    source = pathlib.Path(path).read_text()
    found, total = [], 0
    for number, comment in comments_of(path, source):
        total += 1
        if has_bad_opening(comment):
            found.append((path, number, comment))
    if not re.search("_test|tests?/", path):
        found += [(path, number, text) for number, text in texts_of(path, source) if is_headless_text(text)]
    found += [(path, number, name) for number, name in test_names(path, source) if NAMES.match(name)]
    if path.endswith((".h", ".cc", ".inc", ".cu")):
        found += [(path, number, text) for number, text in broken_by_comments(source)]
    return found, total


def script_comments(source):
    """Yields (line number, text) of each comment behind '#'; the first line of a script and notes to its linter are none."""
    source = re.sub(r"\A#!.*|# shellcheck .*", "#", source)
    yield from comments(source, "#")
    for number, line in enumerate(source.splitlines(), 1):
        behind = re.search(r"\S\s{2,}#\s+(.*)$", line)
        if behind and not re.search(r"[;,{)]\s+#\s*(.*)$", line):  # comments() yields those
            yield number, behind.group(1)


def is_script(path):
    """Returns whether comments in the file begin with '#': shell scripts, with or without ending, BUILD files, yaml and text protos."""
    name = pathlib.PurePath(path).name
    if name.endswith((".sh", ".yaml", ".textproto", ".bzl", ".bazelrc", ".sbatch")) or name in ("BUILD", "WORKSPACE"):
        return True
    if "." in name:
        return False
    with open(path, "rb") as file:
        return re.match(rb"#!.*(bash|/sh)", file.readline()) is not None


def texts(source):
    """Yields (line number, text) of each literal with more than one word; adjacent literals join."""
    token = re.compile(r"""//[^\n]*|#include[^\n]*|'(?:\\.|[^'\\\n])+'|"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*""")
    for match in token.finditer(source):
        if match.group(0).startswith('"'):
            text = "".join(part[1:-1] for part in re.findall(r'"(?:\\.|[^"\\\n])*"', match.group(0)))
            if " " in text.strip():
                yield source.count("\n", 0, match.start()) + 1, text


def python_texts(source):
    """Yields (line number, text) of each string with more than one word that is not a docstring, and of the parts of f-strings."""
    tree = ast.parse(source)
    docstrings = {id(node.body[0].value) for node in ast.walk(tree)
                  if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings and " " in node.value.strip():
            yield node.lineno, node.value


def texts_of(path, source):
    """Yields (line number, text) of each text in the file that a user may read."""
    if path.endswith((".h", ".cc", ".inc", ".cu")):
        return texts(source)
    return python_texts(source) if path.endswith(".py") and path not in THESE else ()


def test_names(path, source):
    """Yields (line number, words) of the name of each test, which is a sentence in CamelCase or with underscores."""
    pattern = r"^\s*def (test_\w+)" if path.endswith(".py") else r"^TEST(?:_[FP])?\(\s*\w+,\s*(\w+)\)"
    for match in re.finditer(pattern, source, re.MULTILINE):
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_", " ", match.group(1))
        yield source.count("\n", 0, match.start(1)) + 1, words


def paragraphs(source):
    """Yields (line number, text) of each paragraph of a page."""
    for match in re.finditer(r"(?:[^\n]+\n?)+", source):
        yield source.count("\n", 0, match.start()) + 1, " ".join(match.group(0).split())


def bad_phrases(path):
    source = pathlib.Path(path).read_text()
    if path.endswith(".md"):
        places = list(paragraphs(source))
    else:
        places = [*comments_of(path, source), *test_names(path, source), *texts_of(path, source)]
    return [(path, number, f"\"{match.group(0).strip()}\": write {remedy}: … {text[max(0, match.start() - 60):match.end() + 60]} …")
            for number, text in places for phrase, remedy in PHRASES.items()
            for match in re.finditer(phrase, text, re.IGNORECASE)]


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    kinds = (".h", ".proto", ".cc", ".inc", ".cu", ".md", ".py")
    sources = arguments or [path for path in tracked([]) if not path.startswith(RECORDS) and (path.endswith(kinds) or is_script(path))]
    counts, found, total = collections.Counter(), [], 0
    phrases = collections.defaultdict(list)
    for path in sources:
        if path.endswith(".md"):
            found += bad_page_openings(path)
        else:
            bad, number = bad_openings(path)
            found += bad
            total += number
            counts[str(pathlib.PurePath(path).parent)] += len(bad)
        if path not in THESE:
            phrases[pathlib.PurePath(path).parts[0]] += bad_phrases(path)
    if "--counts" in sys.argv:
        for folder, number in counts.most_common():
            print(f"{number:5d} {folder}")
        print(f"{len(found)} of {total} comments: {len(found) / max(total, 1):.1%}")
        print("phrases:", {folder: len(bad) for folder, bad in phrases.items() if bad})
        return 0
    found += [place for bad in phrases.values() for place in bad]
    for path, number, comment in found:
        print(f"{path}:{number}: {comment}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
