#!/usr/bin/env python3
"""Finds folders that include each other in a cycle. Tests may include anything and are left out.

usage: tools/include_cycles.py [ROOT]
Prints, for each cycle, the folders and the includes that close it. Exits with 1 if there is a cycle.
"""
import collections
import pathlib
import re
import subprocess
import sys

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
# Tests, and helpers of tests that stand beside the sources.
TEST = re.compile(r"(^tests/|_test\.|_testing\.|/fake_|_test_|_benchmark\.)")


def sources(root):
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.h", "*.cc", "*.cu", "*.inc"],
                            cwd=root, capture_output=True, text=True, check=True).stdout.split()
    return [path for path in listed if not TEST.search(path) and (root / path).is_file()]


def folder_graph(root):
    """Maps each folder to the folders that it includes, each with one example of an include."""
    graph = collections.defaultdict(dict)
    for path in sources(root):
        folder = str(pathlib.PurePath(path).parent)
        for included in INCLUDE.findall((root / path).read_text()):
            other = str(pathlib.PurePath(included).parent)
            if other != folder and (root / other).is_dir():
                graph[folder].setdefault(other, f"{path} includes {included}")
    return graph


def reachable(graph, start):
    seen, todo = set(), [start]
    while todo:
        for other in graph.get(todo.pop(), {}):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def cycles(graph):
    """Groups of folders of which each reaches every other."""
    reach = {folder: reachable(graph, folder) for folder in list(graph)}
    groups, grouped = [], set()
    for folder in sorted(graph):
        if folder in grouped or folder not in reach[folder]:
            continue
        group = sorted({folder} | {other for other in reach[folder] if folder in reach.get(other, ())})
        grouped.update(group)
        groups.append(group)
    return groups


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    graph = folder_graph(root)
    found = cycles(graph)
    for group in found:
        print("include cycle: " + ", ".join(group))
        for folder in group:
            for other in group:
                if other in graph[folder]:
                    print(f"  {folder} -> {other}: {graph[folder][other]}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
