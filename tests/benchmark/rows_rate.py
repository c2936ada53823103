#!/usr/bin/env python3
"""Trains the DLRM of deploy/runs/clicks_dlrm.textproto with few and with many rows, and compares the examples per second.

usage: tests/benchmark/rows_rate.py --shoal=bazel-bin/deploy/shoal [--rows=100000000] [--fewer=100000] [--rounds=2]
           [--keep=DIRECTORY] [FLAG...]

Needs NumPy. A column of ids is a permutation of its table's keys, so the first epoch touches all rows, and the rate of the
second one is that of training with all rows present. Ids of the smaller tables are those of the larger ones modulo their size,
so both runs read the same number of ids. Every round trains with each size once. FLAGs go to `shoal train`. The arrays take 250
bytes for each example, of which there are as many as a column has keys, on disk and in each worker.
"""
import argparse
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

COLUMNS = 26
NUMBERS = 13
BATCH = 1024  # Examples of a worker.

RUN = """
name: "rows_rate"
model {{ name: "dlrm" loss: "sigmoid_cross_entropy" }}
data {{ format: npy directory: "{directory}" {ids} }}
table {{ name: "*" dim: 16 optimizer {{ rowwise_adagrad {{ learning_rate: 0.1 }} }} }}
optimizer {{ learning_rate: 0.002 adam {{}} }}
batch_size: {batch}
num_epochs: 2
checkpoint {{ save_every: 1000000000 save_seconds: 0 }}
deployment {{ num_replicas: 2 num_ps_tasks: 1 }}
"""


def write_arrays(directory, examples, keys):
    """Writes the arrays of `examples` examples whose columns have `keys` keys each."""
    directory.mkdir(parents=True)
    random = numpy.random.default_rng(0)
    numpy.save(directory / "x_train.npy", random.standard_normal((examples, NUMBERS), dtype="float32"))
    numpy.save(directory / "y_train.npy", random.integers(0, 2, examples).astype("float32"))
    for column in range(1, COLUMNS + 1):
        numpy.save(directory / f"c{column}_train.npy", (random.permutation(examples) % keys).astype("int32"))


def last_step(out):
    """Returns the newest complete step in the metrics of the run; 0 if there is none."""
    try:
        with open(out / "metrics.jsonl", "rb") as lines:
            lines.seek(0, 2)
            lines.seek(max(0, lines.tell() - 8192))
            complete = [line for line in lines.read().split(b"\n")[:-1] if line.startswith(b"{")]
        return json.loads(complete[-1])["step"] if complete else 0
    except (OSError, ValueError, KeyError):
        return 0


def rate(options, data, examples):
    """Trains, and returns the examples per second of the second epoch."""
    with tempfile.TemporaryDirectory(prefix="shoal_rows_rate_") as name:
        root = pathlib.Path(name)
        run = root / "run.textproto"
        ids = " ".join(f'ids {{ column: "c{column}" }}' for column in range(1, COLUMNS + 1))
        run.write_text(RUN.format(directory=data, ids=ids, batch=BATCH))
        out = root / "out"
        command = [options.shoal, "train", f"--run={run}", f"--out={out}", "--log_every=100", *options.flags]
        with open(root / "log", "w") as log:
            train = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
            samples = []  # (seconds, step) in the second epoch
            first = examples // (2 * BATCH) + 1
            while train.poll() is None:
                time.sleep(0.1)
                step = last_step(out)
                if step >= first and (not samples or step > samples[-1][1]):
                    samples.append((time.monotonic(), step))
        if train.returncode != 0 or len(samples) < 3:
            sys.exit((root / "log").read_text()[-4000:])
        (begin, begin_step), (end, end_step) = samples[0], samples[-1]
        summary = json.loads((out / "summary.json").read_text())
        rows = sum(int(value) for key, value in summary.items() if re.fullmatch("table:.*:rows", key))
        return (end_step - begin_step) * 2 * BATCH / (end - begin), rows


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--shoal", required=True)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--fewer", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--keep", help="the directory of the arrays; they are read if they are there")
    options, options.flags = parser.parse_known_args()
    examples = -(-options.rows // COLUMNS)
    kept = options.keep is not None
    root = pathlib.Path(options.keep if kept else tempfile.mkdtemp(prefix="shoal_rows_rate_"))
    try:
        sizes = {"many": examples, "few": -(-options.fewer // COLUMNS)}
        for name, keys in sizes.items():
            if not (root / name).exists():
                write_arrays(root / name, examples, keys)
        rates = {name: [] for name in sizes}
        for _ in range(options.rounds):
            for name in sizes:
                examples_per_second, rows = rate(options, root / name, examples)
                rates[name].append(examples_per_second)
                print(f"{name:5} {rows:>12,} rows  {examples_per_second:>10,.0f} examples/s", flush=True)
        many, few = (statistics.median(rates[name]) for name in ("many", "few"))
        print(f"many / few: {many / few:.3f}")
    finally:
        if not kept:
            shutil.rmtree(root)


main()
