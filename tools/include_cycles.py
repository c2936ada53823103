#!/usr/bin/env python3
"""Finds folders that include each other in a circle. Tests may include anything and are left out.

usage: tools/include_cycles.py [ROOT]
Prints, for each circle, the folders and the includes that close it. Exits with 1 if there is a circle that is not in
KNOWN_CIRCLES, or if one of those is gone and should leave the list.
"""
import collections
import pathlib
import re
import subprocess
import sys

# Circles that are still there. The list only becomes shorter.
KNOWN_CIRCLES = [
    ["deploy", "deploy/hosts"],
    ["runtime/cluster", "runtime/config"],
    ["runtime/process", "runtime/rpc"],
    ["worker", "worker/evaluator", "worker/prediction"],
]

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


def circles(graph):
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
    found = circles(graph)
    unknown = [group for group in found if group not in KNOWN_CIRCLES]
    gone = [group for group in KNOWN_CIRCLES if group not in found]
    for group in gone:
        print("take it out of KNOWN_CIRCLES, it is gone: " + ", ".join(group))
    for group in unknown:
        print("circle of includes: " + ", ".join(group))
        for folder in group:
            for other in group:
                if other in graph[folder]:
                    print(f"  {folder} -> {other}: {graph[folder][other]}")
    return 1 if unknown or gone else 0


if __name__ == "__main__":
    sys.exit(main())
