#!/usr/bin/env python3
"""Columns of ids in tables, arrays and records of a user train, evaluate and predict through tables of the ps."""
import gzip
import json
import os
import pathlib
import random
import struct
import subprocess
import sys

import cluster

MAKE_CLICKS = pathlib.Path("tools/make_clicks.py").resolve()
CONVERT = pathlib.Path("tools/criteo_to_tfrecord.py").resolve()
RUN = pathlib.Path("deploy/runs/own_clicks.textproto").resolve()
SCRATCH = pathlib.Path(os.environ.get("TEST_TMPDIR", "/tmp")) / f"ids_{os.getpid()}"
TEST_EXAMPLES = 300
# The data of the run file in the other formats.
DATA = {
    "csv": None,
    "csv.gz": None,
    "npy": """ids { column: "user" missing: -1 } ids { column: "item" } ids { column: "seen" weights: "seconds" }
              ids { column: "query" missing: -1 }""",
    "tfrecord": """tfrecord { label: "click" } numbers: "time" ids { column: "user" } ids { column: "item" }
                   ids { column: "seen" weights: "seconds" } ids { column: "query" words: true }""",
}


def shoal(*arguments):
    done = subprocess.run([cluster.shoal_binary(), *map(str, arguments)], capture_output=True, text=True, timeout=120,
                          check=False)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def make(kind):
    """Returns the directory of the data and the run file."""
    directory = SCRATCH / kind
    subprocess.run([sys.executable, MAKE_CLICKS, f"--out={directory}", f"--format={kind}", "--train_examples=4000",
                    f"--test_examples={TEST_EXAMPLES}"], check=True, stdout=subprocess.DEVNULL)
    text = RUN.read_text()
    if DATA[kind] is not None:
        begin = text.index("  csv { label")
        text = text[:begin] + DATA[kind] + text[text.index("\n}\n", begin):]
        text = text.replace("format: csv", f"format: {kind}")
    file = directory / "run.textproto"
    file.write_text(text.replace('"/tmp/clicks"', f'"{directory}"'))
    return directory, file


def predictions(path):
    content = path.read_bytes()
    values = content[10 + struct.unpack("<H", content[8:10])[0]:]
    return struct.unpack(f"<{len(values) // 4}f", values)


def rows_of(run):
    shoal("export", run.out, f"--tables={run.out / 'rows'}")
    files = sorted((run.out / "rows").glob("*.npy"))
    assert len(files) == 2 * 3, files
    return [file.read_bytes() for file in files]


def trains_the_same(file):
    """Trains with one worker and with two, and returns the second run, still open."""
    flags = ["--replicas_to_aggregate=2", "--num_epochs=3"]
    with cluster.Run(file, *flags, "--num_ps_tasks=1", "--num_replicas=1") as run:
        run.finish()
        expected = rows_of(run), run.digest()
        losses = [line["loss"] for line in run.metrics()]
        assert sum(losses[-10:]) < 0.9 * sum(losses[:10]), (losses[:10], losses[-10:])
    with cluster.Run(file, *flags, "--num_ps_tasks=2", "--num_replicas=2") as run:
        run.finish()
        assert (rows_of(run), run.digest()) == expected, f"{file}: other bytes with two workers"
        check_commands(run, file.parent)


def without_label(directory):
    """Returns a file for --input with the examples of the test split."""
    table = directory / "test.csv"
    compressed = directory / "test.csv.gz"
    if compressed.exists():
        lines = gzip.decompress(compressed.read_bytes()).decode().splitlines()
        path = directory / "new.csv.gz"
        path.write_bytes(gzip.compress("\n".join(line.split(",", 1)[1] for line in lines).encode()))
    elif table.exists():
        path = directory / "new.csv"
        path.write_text("\n".join(line.split(",", 1)[1] for line in table.read_text().splitlines()))
    elif (directory / "test.tfrecord").exists():
        path = directory / "test.tfrecord"
    else:
        path = directory / "seen_test.npy"
    return path


def check_commands(run, directory):
    summary = run.summary()
    assert summary["test_auc"] > 0.55, summary
    evaluated = json.loads(shoal("eval", f"--out={run.out}"))
    for figure in ("test_loss", "test_auc"):
        assert abs(evaluated[figure] - summary[figure]) < 1e-6, (evaluated, summary)
    of_test, of_input = run.out / "test.npy", run.out / "input.npy"
    shoal("predict", f"--out={run.out}", "--probabilities", f"--predictions={of_test}")
    shoal("predict", f"--out={run.out}", "--probabilities", f"--input={without_label(directory)}", f"--predictions={of_input}")
    said = predictions(of_test)
    assert len(said) == TEST_EXAMPLES and all(0 < p < 1 for p in said), said[:8]
    assert predictions(of_input) == said, "other predictions from --input"


def a_table():
    trains_the_same(make("csv")[1])


def a_compressed_table():
    directory, file = make("csv.gz")
    with cluster.Run(file, "--num_ps_tasks=0", "--num_replicas=1", "--num_clones=2", "--batch_size=64") as run:
        run.finish()
        check_commands(run, directory)


def arrays():
    trains_the_same(make("npy")[1])


def records():
    trains_the_same(make("tfrecord")[1])


CRITEO = """
    table { name: "*" dim: 4 optimizer { adagrad { learning_rate: 0.1 } } }
    model { feature { column: "c*" table: "*" } layer { dense { units: 4 } } layer { interaction { dot {} } }
            layer { dense { units: 1 } } loss: "sigmoid_cross_entropy" }
    optimizer { learning_rate: 0.1 sgd {} } batch_size: 20 num_epochs: 1
"""


def criteo_line(draw):
    """One of Criteo's lines: some numbers and texts are missing, some numbers are negative, and a space belongs to its text."""
    numbers = ["" if draw.random() < 0.2 else str(draw.randrange(-2, 1000)) for _ in range(13)]
    texts = [draw.choice(["", "68fd1e64", " b", "b", "\u00e9"]) for _ in range(26)]
    return "\t".join([str(draw.randrange(2)), *numbers, *texts]) + "\n"


def logs_of_criteo_and_records_made_of_them():
    logs, records = SCRATCH / "criteo", SCRATCH / "of_criteo"
    draw = random.Random(3)
    for directory in (logs, records):
        directory.mkdir(parents=True)
    for split, count in (("train", 400), ("test", 60)):
        content = "".join(criteo_line(draw) for _ in range(count)).encode()
        path = logs / f"{split}.tsv{'.gz' if split == 'train' else ''}"
        path.write_bytes(gzip.compress(content, mtime=0) if split == "train" else content)
        data = subprocess.run([sys.executable, CONVERT, path, records / f"{split}.tfrecord"], check=True, stdout=subprocess.PIPE,
                              text=True).stdout
    results = []
    for directory, text in ((logs, f'data {{ format: criteo directory: "{logs}" }}'), (records, data)):
        file = directory / "run.textproto"
        file.write_text(text + CRITEO)
        with cluster.Run(file, "--num_ps_tasks=1", "--num_replicas=1") as run:
            run.finish()
            shoal("export", run.out, f"--tables={run.out / 'rows'}")
            rows = [path.read_bytes() for path in sorted((run.out / "rows").glob("*.npy"))]
            assert len(rows) == 2 * 26 and len(rows[0]) == 128 + 8 * 4, (len(rows), len(rows[0]))
            results.append((rows, run.digest(), run.summary()["test_loss"]))
    assert results[0] == results[1], "the records have other keys or numbers than the logs"
    done = subprocess.run([sys.executable, CONVERT, records / "train.tfrecord", records / "again.tfrecord"], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 1 and "train.tfrecord: line 1: has " in done.stderr, done.stderr
    assert sorted(path.name for path in records.iterdir() if ".tfrecord" in path.name) == ["test.tfrecord", "train.tfrecord"]


def the_evaluator_reads_ids():
    _, file = make("csv")
    with cluster.Run(file, "--num_ps_tasks=1", "--num_replicas=1", "--num_epochs=1") as run:
        run.finish()
        shoal("evaluator", f"--run={file}", f"--out={run.out}", "--num_epochs=1")
        lines = [json.loads(line) for line in (run.out / "evaluator.jsonl").read_text().splitlines()]
        assert len(lines) == 1 and abs(lines[0]["loss"] - run.summary()["test_loss"]) < 1e-6, (lines, run.summary())
        assert abs(lines[0]["eval_auc"] - run.summary()["test_auc"]) < 1e-6, (lines, run.summary())


if __name__ == "__main__":
    cluster.main([a_table, a_compressed_table, arrays, records, logs_of_criteo_and_records_made_of_them, the_evaluator_reads_ids])
