#!/usr/bin/env python3
"""Tests that break.py still fits the program, which broken_builds_test would show only in `tests/run all`.

Bazel makes the broken sources for this test, so a line that break.py does not find fails its build.
"""
import pathlib
import re

FOLDER = pathlib.Path(__file__).parent


def main():
    sources = sorted(FOLDER.glob("broken_*.cc"))
    sources = [source for source in sources if source.name != "broken_builds_test.cc"]
    assert sources, "there are no broken sources"
    broken = set()
    for source in sources:
        promises = re.findall(r'IsBroken\(\s*"([^"]+)"', source.read_text())
        assert promises, f"{source.name} breaks no promise; remove it from broken_program_sources"
        broken.update(promises)
    tested = set(re.findall(r'\{"([^"]+)", (?:true|false)', (FOLDER / "broken_builds_test.cc").read_text()))
    assert tested == broken, f"promises that are only broken or only tested: {sorted(tested ^ broken)}"
    print("PASSED")


main()
