"""The parts that the peers of deploy/runs/clicks_dlrm.textproto share: its settings, its examples, the AUC of scores.

The examples are files of tests/benchmark/clicks_examples. The environment variable CLICKS_RUN names another run file.
"""
import os
import pathlib
import re

import numpy as np

RUN = pathlib.Path(os.environ.get("CLICKS_RUN", pathlib.Path(__file__).parents[2] / "deploy/runs/clicks_dlrm.textproto"))
NUMBERS, COLUMNS, DIM = 13, 26, 16
# The numbers of ids of Criteo's columns, as in ml/data/clicks_dataset.cc.
CARDINALITIES = [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10,
                 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572]
BOTTOM, TOP = [NUMBERS, 512, 256, 64, DIM], [DIM + (COLUMNS + 1) * COLUMNS // 2, 512, 256, 1]
EXAMPLE = np.dtype([("numbers", "<f4", NUMBERS), ("ids", "<i4", COLUMNS), ("click", "<i4")])


def setting(block, name):
    """Returns the number `name` in the first braces that follow `block`, a regular expression, in the run file."""
    text = re.sub(r"#.*", "", RUN.read_text())
    found = re.search(rf"{block}\s*{{(?:[^{{}}]|{{[^{{}}]*}})*?\b{name}:\s*([-+.\deE]+)", text, re.MULTILINE)
    if found is None:
        raise SystemExit(f"{RUN}: no {name} in {block}; the peers need it")
    return float(found.group(1))


def rows():
    """Returns the number of rows of each table."""
    scale = setting("clicks", "scale")
    return [int(max(2.0, n * scale)) for n in CARDINALITIES]


def read(path):
    """Returns the examples of a file, which are read when they are used."""
    return np.memmap(path, EXAMPLE, "r")


def auc(scores, clicks):
    """Returns the share of the pairs of a click and another example in which the click has the higher score."""
    order = np.argsort(scores, kind="stable")
    scores, clicks = np.asarray(scores)[order], np.asarray(clicks)[order].astype(np.float64)
    _, first, count = np.unique(scores, return_index=True, return_counts=True)
    ranks = np.repeat(first + (count + 1) / 2, count)
    positives = clicks.sum()
    return (ranks @ clicks - positives * (positives + 1) / 2) / (positives * (len(clicks) - positives))
