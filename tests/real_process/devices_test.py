#!/usr/bin/env python3
"""One process on several devices: training, the table of times, and predictions."""
import array
import json
import os
import pathlib
import subprocess
import tempfile

import cluster

ROOT = pathlib.Path(__file__).resolve().parents[2]
CSV_RUN = """
model { layer { dense { units: 8 activation: ACTIVATION_KIND_RELU } } layer { dense { units: 3 } } }
data { format: FORMAT_CSV classes: 3 }
optimizer { learning_rate: 0.05 adam {} }
replica_batch_size: 7
num_epochs: 3
"""


def shoal(*arguments):
    done = subprocess.run([cluster.shoal_binary(), *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def write_table(path, rows, with_label):
    """Points around three corners."""
    lines = ["x,y,z" + (",label" if with_label else "")]
    for i in range(rows):
        label = i % 3
        point = [0.1 * ((i * 7 + d * 3) % 5) + (1.0 if d == label else 0.0) for d in range(3)]
        lines.append(",".join(f"{v:.3f}" for v in point) + (f",{label}" if with_label else ""))
    path.write_text("\n".join(lines) + "\n")


def read_npy(path):
    """Rows of a float32 matrix."""
    content = path.read_bytes()
    begin = 10 + int.from_bytes(content[8:10], "little")
    shape = eval(content[10:begin].decode())["shape"]
    numbers = array.array("f", content[begin:])
    assert len(numbers) == shape[0] * shape[1], shape
    return [list(numbers[i * shape[1]:(i + 1) * shape[1]]) for i in range(shape[0])]


def read_csv(path):
    return [[float(cell) for cell in line.split(",")] for line in path.read_text().splitlines()[1:]]


def near(a, b, tolerance=1e-5):
    return len(a) == len(b) and all(abs(x - y) <= tolerance * max(1, abs(y)) for r, s in zip(a, b) for x, y in zip(r, s))


def train(directory, out, *flags):
    said = shoal("train", f"--run={directory / 'run.textproto'}", f"--data_dir={directory}", f"--out={directory / out}",
                 "--num_ps_tasks=0", *flags)
    return json.loads((directory / out / "summary.json").read_text()), said


def devices_do_not_change_the_run(directory):
    one, _ = train(directory, "one")
    several, said = train(directory, "several", "--devices=/cpu:4,/cpu:0,/cpu:2")
    mirrored, listed = train(directory, "mirrored", "--devices=/cpu:4,/cpu:0,/cpu:2", "--variables=mirrored")
    assert one["steps"] == several["steps"] == mirrored["steps"] == 15, one
    assert abs(one["final_loss"] - several["final_loss"]) < 1e-5, (one, several)
    assert several["final_loss"] == mirrored["final_loss"], (several, mirrored)
    assert "clone 0 on /job:worker/task:0/device:CPU:4" in said, said
    assert "[3,8] on /job:worker/task:0/device:CPU:0\n" in said, said
    both = ", ".join(f"/job:worker/task:0/device:CPU:{i}" for i in (4, 0, 2))
    assert f"[3,8] on {both}\n" in listed, listed


def predictions_are_those_of_the_checkpoint(directory):
    out = f"--out={directory / 'several'}"
    said = shoal("predict", out)
    assert said.startswith("example 0: class ") and "\n32 examples, step 15: " in said, said
    whole = read_npy(directory / "several" / "predictions.npy")
    assert len(whole) == 32 and len(whole[0]) == 3
    labels = [int(row[-1]) for row in read_csv(directory / "test.csv")]
    correct = sum(row.index(max(row)) == label for row, label in zip(whole, labels))
    evaluated = shoal("eval", out)
    evaluation = json.loads(evaluated.splitlines()[0])
    for output in (said, evaluated):
        assert output.splitlines()[-1].startswith("GPUs: "), output
    assert abs(evaluation["test_accuracy"] - correct / 32) < 1e-6, (evaluation, correct)

    # This run has no data of its own. Its last batch is smaller, and the indices of its devices do not follow each other.
    (directory / "test.csv").rename(directory / "hidden.csv")
    table, scores = directory / "table.csv", directory / "scores.csv"
    write_table(table, 32, with_label=False)
    for flags in (["--devices=/cpu:1,/cpu:6,/cpu:3", "--batch_size=3"], ["--devices=/cpu:5"]):
        shoal("predict", out, f"--input={table}", f"--predictions={scores}", *flags)
        assert near(read_csv(scores), whole), flags
    shoal("predict", out, f"--input={table}", f"--predictions={scores}", "--probabilities")
    assert all(abs(sum(row) - 1) < 1e-5 and min(row) >= 0 for row in read_csv(scores))
    soft = shoal("predict", out, f"--input={table}", "--devices=/gpu:0,/gpu:2")
    assert "there is no /gpu:2; a CPU is used instead" in soft, soft
    assert near(read_npy(directory / "several" / "predictions.npy"), whole), soft


def a_table_shows_the_time_for_each_number_of_devices(directory):
    (directory / "hidden.csv").rename(directory / "test.csv")
    command = [str(ROOT / "deploy/local/time_devices"), "--devices=1,/cpu:0+/cpu:3", "--steps=10", "--split",
               f"--run={directory / 'run.textproto'}", f"--data_dir={directory}", "--batch_size=8"]
    environment = dict(os.environ, SHOAL=cluster.shoal_binary())
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "one input of 8 examples, split" in lines[0], lines
    assert [line.split()[0] for line in lines[2:4]] == ["1", "2"], lines
    assert lines[3].endswith("/cpu:0,/cpu:3") and lines[4].startswith("fastest: "), lines
    done = subprocess.run(command + ["--variables=none"], capture_output=True, text=True, timeout=120, check=False,
                          env=environment)
    assert done.returncode == 64 and "variables:" in done.stderr, done.stderr


def main():
    with tempfile.TemporaryDirectory(prefix="shoal_devices_") as name:
        directory = pathlib.Path(name)
        (directory / "run.textproto").write_text(CSV_RUN)
        write_table(directory / "train.csv", 35, with_label=True)
        write_table(directory / "test.csv", 32, with_label=True)
        for test in (devices_do_not_change_the_run, predictions_are_those_of_the_checkpoint,
                     a_table_shows_the_time_for_each_number_of_devices):
            test(directory)
            print("ok", test.__name__, flush=True)


if __name__ == "__main__":
    main()
