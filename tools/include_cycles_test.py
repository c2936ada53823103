#!/usr/bin/env python3
"""Tests which folders include_cycles.py reports, and which it accepts."""
import pathlib
import subprocess
import sys
import tempfile

TOOL = pathlib.Path(__file__).parent / "include_cycles.py"


def run_on(includes):
    """Runs the tool on a repository with these files, each of which includes some others."""
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        subprocess.run(["git", "init", "-q", name], check=True)
        for path, others in includes.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(f'#include "{other}"\n' for other in others))
        return subprocess.run([sys.executable, TOOL, name], capture_output=True, text=True, check=False)


def main():
    accepted = run_on({"a/a.h": ["b/b.h"], "a/other.h": ["a/a.h"], "b/b.h": ["c/c.h"], "c/c.h": []})
    assert accepted.returncode == 0 and not accepted.stdout, accepted

    refused = run_on({"a/a.h": ["b/b.h"], "b/b.h": ["b/d/d.h"], "b/d/d.cc": ["a/other.h"], "b/d/d.h": [], "a/other.h": [],
                      "e/e.h": ["a/a.h"]})
    assert refused.returncode == 1, refused
    assert "include cycle: a, b, b/d\n" in refused.stdout, refused.stdout
    assert "b/d -> a: b/d/d.cc includes a/other.h" in refused.stdout, refused.stdout
    assert "e" not in refused.stdout.splitlines()[0].split(": ")[1].split(", "), refused.stdout

    tests_may = run_on({"a/a.h": [], "a/a_test.cc": ["b/b.h"], "b/b.h": ["a/a.h"], "tests/t.cc": ["a/a.h"]})
    assert tests_may.returncode == 0, tests_may


if __name__ == "__main__":
    main()
