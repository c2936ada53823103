#!/usr/bin/env python3
"""Does what a user does with data of their own in the first hour: train without a test split, name classes, predict for
image files and tables, use moving averages."""
import contextlib
import json
import math
import pathlib
import struct
import subprocess
import tempfile
import zlib

import cluster

TWO = ("--num_ps_tasks=2", "--num_replicas=2")
SIDE = 4


def shoal(*arguments, code=0):
    done = subprocess.run([cluster.shoal_binary(), *map(str, arguments)], capture_output=True, text=True, timeout=120,
                          check=False)
    assert done.returncode == code, f"{done.returncode}, not {code}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def png(value):
    """A flat grey image."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + bytes([value] * SIDE)) * SIDE
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def npy(kind, shape, data):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + data


def write(directory, content):
    for name, data in content.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())


def table(rows, label=True):
    """A kind of fruit by two numbers that tell it."""
    lines = ["weight,kind,length" if label else "weight,length"]
    for i in range(rows):
        large = i % 2
        cells = [f"{0.1 + 0.8 * large + 0.001 * i:.3f}", "melon" if large else "apple", f"{0.9 - 0.8 * large:.3f}"]
        lines.append(",".join(cells if label else [cells[0], cells[2]]))
    return "\n".join(lines) + "\n"


def idx_images(values):
    return struct.pack(">IIII", 2051, len(values), SIDE, SIDE) + b"".join(bytes([v] * SIDE * SIDE) for v in values)


def idx_labels(values):
    return struct.pack(">II", 2049, len(values)) + bytes(values)


@contextlib.contextmanager
def trained(content, units, *flags, tasks=TWO):
    """A finished run of one dense layer on these files."""
    with tempfile.TemporaryDirectory(prefix="shoal_first_hour_") as directory:
        data = pathlib.Path(directory) / "data"
        write(data, content)
        run_file = pathlib.Path(directory) / "run.textproto"
        run_file.write_text(f"model {{ layer {{ flatten {{}} }} layer {{ dense {{ units: {units} }} }} }}\n"
                            f'data {{ directory: "{data}" }}\n'
                            "optimizer { learning_rate: 0.5 } sync { replicas_to_aggregate: 1 }\n"
                            "batch_size: 8 num_epochs: 20\n")
        with cluster.Run(str(run_file), *tasks, *flags) as run:
            yield run.finish(), data


def folder_of(split, examples):
    return {f"{split}/{name}/{i}.png": png(value + i) for i in range(examples)
            for name, value in (("dark", 10), ("light", 220))}


def an_image_folder_without_a_test_split_trains_and_predicts_by_name():
    with trained(folder_of("train", 32), 2) as (run, data):
        assert "data: there is no test split, so nothing is evaluated" in run.output, run.output
        assert run.summary()["test_loss"] is None, run.summary()
        assert (run.out / "classes.txt").read_text() == "dark\nlight\n"
        said = shoal("eval", f"--out={run.out}", code=78)
        assert "has no test split, which would be test;" in said, said
        write(data.parent / "new", {"a.png": png(5), "b.png": png(250)})
        said = shoal("predict", f"--out={run.out}", f"--input={data.parent}/new/b.png", "--probabilities")
        assert f"{data.parent}/new/b.png: light " in said and "1 example, step" in said, said
        scores = data.parent / "scores.csv"
        said = shoal("predict", f"--out={run.out}", f"--input={data.parent}/new", f"--predictions={scores}")
        assert "a.png: dark" in said and "b.png: light" in said, said
        lines = [line.split(",") for line in scores.read_text().splitlines()]
        assert lines[0] == ["file", "dark", "light", "class"], lines
        assert [line[-1] for line in lines[1:]] == ["dark", "light"], lines


def words_are_classes_of_a_table():
    content = {"train.csv": table(64), "test.csv": table(16)}
    with trained(content, 2, "--set=data.csv.label=kind") as (run, data):
        assert (run.out / "classes.txt").read_text() == "apple\nmelon\n"
        assert run.summary()["test_accuracy"] == 1, run.summary()
        new, scores = data.parent / "new.csv", data.parent / "scores.csv"
        new.write_text(table(4, label=False))
        said = shoal("predict", f"--out={run.out}", f"--input={new}", f"--predictions={scores}")
        assert said.startswith("example 0: apple\nexample 1: melon\n"), said
        lines = [line.split(",") for line in scores.read_text().splitlines()]
        assert lines[0] == ["apple", "melon", "class"], lines
        assert [line[-1] for line in lines[1:]] == ["apple", "melon"] * 2, lines
        new.write_text(table(4))
        said = shoal("predict", f"--out={run.out}", f"--input={new}", code=78)
        assert 'has the column "kind", which is the label' in said, said
        said = shoal("health", run.out)
        assert f"the run in {run.out} is over: it finished" in said, said
        assert f"report:        {run.out}/report.html" in run.output, run.output
        page = (run.out / "report.html").read_text()
        rate = f"{run.summary()['examples_per_second']:.0f}"
        assert f"<dt>examples/s since the last start</dt><dd>{rate}</dd>" in page, (rate, page)
        assert f", {rate} examples/s\n" in run.output, (rate, run.output)


def more_outputs_than_classes_are_noticed():
    with trained({"train.csv": table(64)}, 10, "--set=data.csv.label=kind") as (run, data):
        assert "model.layer[1] (dense): has 10 outputs, but there are 2 classes" in run.output, run.output
        new, scores = data.parent / "new.csv", data.parent / "scores.csv"
        new.write_text(table(2, label=False))
        said = shoal("predict", f"--out={run.out}", f"--input={new}", f"--predictions={scores}")
        assert "classes.txt names 2 classes, but the model has 10 outputs: predictions are numbers" in said, said
        assert scores.read_text().startswith("output_0,output_1,"), scores.read_text()


def classes_txt_names_the_classes_of_arrays():
    labels = [0, 1] * 16
    values = [20 if label == 0 else 220 for label in labels]
    pixels = b"".join(bytes([v] * SIDE * SIDE) for v in values)
    names = {"classes.txt": "night\nday\n"}
    arrays = {"x_train.npy": npy("|u1", (32, SIDE, SIDE), pixels), "y_train.npy": npy("|u1", (32,), bytes(labels))}
    idx = {"train-images-idx3-ubyte": idx_images(values), "train-labels-idx1-ubyte": idx_labels(labels)}
    for content in (arrays, idx):
        with trained({**content, **names}, 2) as (run, data):
            assert (run.out / "classes.txt").read_text() == "night\nday\n"
            new = data.parent / "new.png"
            new.write_bytes(png(215))
            said = shoal("predict", f"--out={run.out}", f"--input={new}")
            assert f"{new}: day\n" in said, said


def averages_are_evaluated_predicted_and_exported():
    content = {"train.csv": table(64), "test.csv": table(16)}
    # An average over all updates is far behind the values.
    flags = ("--set=data.csv.label=kind", "--set=optimizer.moving_average_decay=0.999", "--learning_rate=0.01")
    with trained(content, 2, *flags) as (run, data):
        def read(command, *more):
            file = data.parent / "written"
            said = shoal(command, f"--out={run.out}", *[m.format(file=file) for m in more])
            return said if command == "eval" else next(data.parent.glob("written*")).read_bytes()
        files = {"eval": (), "predict": ("--predictions={file}.npy",), "export": ("--model_file={file}.safetensors",)}
        for command, more in files.items():
            values = read(command, *more)
            averages = read(command, *more, "--use_averages")
            assert values != averages, command
            assert read(command, *more) == values, command
            for written in data.parent.glob("written*"):
                written.unlink()
        loss = json.loads(shoal("eval", f"--out={run.out}", "--use_averages").splitlines()[0])["test_loss"]
        assert not math.isclose(loss, run.summary()["test_loss"], rel_tol=1e-3), loss
        for flags, name, expected in (((), "evaluator", run.summary()["test_loss"]),
                                      (("--use_averages",), "evaluator_averages", loss)):
            shoal("evaluator", f"--run={run.out}/run.textproto", *flags)
            last = json.loads((run.out / f"{name}.jsonl").read_text().splitlines()[-1])
            assert math.isclose(last["loss"], expected, rel_tol=1e-5), (name, last, expected)
            assert list((run.out / "events" / name).glob("*tfevents*")), name
    with trained(content, 2, "--set=data.csv.label=kind") as (run, _):
        said = shoal("evaluator", f"--run={run.out}/run.textproto", "--use_averages", code=64)
        assert "--use_averages: the run keeps no averages; train with" in said, said


if __name__ == "__main__":
    cluster.main([an_image_folder_without_a_test_split_trains_and_predicts_by_name, words_are_classes_of_a_table,
                  more_outputs_than_classes_are_noticed, classes_txt_names_the_classes_of_arrays,
                  averages_are_evaluated_predicted_and_exported])
