#!/usr/bin/env python3
"""`shoal eval` and `shoal predict` read the rows of tables from the checkpoint, also for a program's own lists of ids, and all
inputs of a program's examples."""
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import textwrap

import cluster

CLICKS = pathlib.Path(__file__).resolve().parent / "clicks.textproto"
PROGRAM = os.environ.get("OWN_IDS", str(pathlib.Path("tests/examples/own_ids").resolve()))
TWO_INPUTS = os.environ.get("OWN_DATA", str(pathlib.Path("tests/examples/own_data").resolve()))


def run_shoal(*arguments):
    return subprocess.run([cluster.shoal_binary(), *map(str, arguments)], capture_output=True, text=True, timeout=120,
                          check=False)


def shoal(*arguments):
    done = run_shoal(*arguments)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def predictions(path):
    content = path.read_bytes()
    assert content[:6] == b"\x93NUMPY", content[:10]
    values = content[10 + struct.unpack("<H", content[8:10])[0]:]
    return struct.unpack(f"<{len(values) // 4}f", values)


def synthetic_clicks_are_evaluated_and_predicted():
    # Only who trains needs the decay_steps of the schedule, which follow from the number of examples.
    with cluster.Run(str(CLICKS), "--num_ps_tasks=2", "--num_replicas=1", "--num_epochs=1",
                     "--set=optimizer.schedule.kind=polynomial") as run:
        run.finish()
        summary = run.summary()
        evaluated = json.loads(shoal("eval", f"--out={run.out}"))
        assert abs(evaluated["test_loss"] - summary["test_loss"]) < 1e-6, (evaluated, summary)
        to = run.out / "said.npy"
        shoal("predict", f"--out={run.out}", "--probabilities", f"--predictions={to}")
        assert len(predictions(to)) == 2000
        assert all(0 < p < 1 for p in predictions(to))
        assert "(version " in shoal("lookup", f"--out={run.out}", "--table=wide_c1", "0")
        table = run.out / "new.tsv"
        cells = ["0.5"] * 13 + ["1"] * 26
        cells[16] = "1,2"
        table.write_text("\t".join(cells) + "\n" + "\t".join(["0.5"] * 13 + [""] * 26) + "\n")
        shoal("predict", f"--out={run.out}", "--probabilities", f"--input={table}", f"--predictions={to}")
        first, second = predictions(to)
        assert 0 < first < 1 and 0 < second < 1 and first != second, (first, second)


def the_run_file_of_the_documentation_trains():
    text = pathlib.Path("docs/tables.md").read_text().split("## In a run file\n\n")[1].split("\n\n")[0]
    file = pathlib.Path(os.environ.get("TEST_TMPDIR", "/tmp")) / f"documented_{os.getpid()}.textproto"
    file.write_text(textwrap.dedent(text))
    with cluster.Run(file, "--num_ps_tasks=1", "--num_replicas=1", "--num_epochs=1", "--set=data.train_examples=300000",
                     "--set=data.test_examples=1000") as run:
        run.finish()
        assert run.summary()["test_auc"] > 0.6, run.summary()


def a_program_of_ones_own_reads_lists_of_ids_with_weights():
    with tempfile.TemporaryDirectory(prefix="shoal_fields_") as directory:
        file = pathlib.Path(directory) / "run.textproto"
        file.write_text('table { name: "film" dim: 4 optimizer { adagrad { learning_rate: 0.1 initial_accumulator: 0 epsilon: 1e-10 } } }\n'
                        'optimizer { learning_rate: 0.05 adam {} } batch_size: 50 num_epochs: 4\n')
        rows = []
        for tasks in (["--num_ps_tasks=2", "--num_replicas=2"], ["--num_ps_tasks=0", "--num_replicas=1"]):
            with cluster.Run(file, f"--worker_binary={PROGRAM}", "--replicas_to_aggregate=2", *tasks) as run:
                run.finish()
                summary = run.summary()
                assert summary["test_loss"] < 0.4, summary
                evaluated = subprocess.run([PROGRAM, "eval", f"--out={run.out}"], capture_output=True, text=True, timeout=60,
                                           check=False)
                assert evaluated.returncode == 0, evaluated.stderr
                assert abs(json.loads(evaluated.stdout)["test_loss"] - summary["test_loss"]) < 1e-6, evaluated.stdout
                to = run.out / "said.npy"
                shoal("predict", f"--out={run.out}", f"--predictions={to}")
                logits = predictions(to)
                assert len(logits) == 500 and logits[4] != logits[5], logits[:8]
                shoal("export", run.out, f"--tables={run.out / 'rows'}")
                rows.append([path.read_bytes() for path in sorted((run.out / "rows").glob("*.npy"))])
        assert len(rows[0]) == 2 and rows[0] == rows[1], "other rows without ps"


def floats(path, columns, values):
    """Writes an array of float32 with so many columns."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(values) // columns}, {columns}), }}\n".encode()
    path.write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}f", *values))


def a_program_of_ones_own_reads_two_inputs():
    run_file = pathlib.Path(os.environ.get("TEST_TMPDIR", "/tmp")) / f"two_inputs_{os.getpid()}.textproto"
    run_file.write_text("optimizer { learning_rate: 0.01 adam {} } batch_size: 50 num_epochs: 3\n")
    with cluster.Run(run_file, f"--worker_binary={TWO_INPUTS}", "--num_ps_tasks=1", "--num_replicas=1") as run:
        run.finish()
        summary = run.summary()
        evaluated = json.loads(shoal("eval", f"--out={run.out}"))
        assert abs(evaluated["test_loss"] - summary["test_loss"]) < 1e-6, (evaluated, summary)
        to, again = run.out / "said.npy", run.out / "again.npy"
        shoal("predict", f"--out={run.out}", f"--predictions={to}")
        # The ratings of the program's test split follow from both inputs.
        said = predictions(to)
        ratings = [1 + i % 7 / 7 - i % 31 / 31 * (i % 89 / 89) for i in range(4000, 4500)]
        assert len(said) == 500
        loss = sum((one - rating) ** 2 for one, rating in zip(said, ratings)) / 500
        assert loss < 0.03 and abs(loss - evaluated["test_loss"]) < 1e-5, (loss, evaluated)
        shoal("predict", f"--out={run.out}", f"--predictions={again}", "--devices=/cpu:0,/cpu:1", "--batch_size=33")
        assert all(abs(a - b) < 1e-5 for a, b in zip(predictions(again), said))

        # A file of --input has one input.
        people, both, table = run.out / "people.npy", run.out / "both.npy", run.out / "people.csv"
        floats(people, 2, [0.5] * 6)
        floats(both, 3, [0.5] * 6)
        table.write_text("age,visits\n0.5,0.5\n")
        for file, words in [(people, "gives the model input [n,2], but it lacks place [n,1]: "),
                            (table, "gives the model input [n,2], but it lacks place [n,1]: "),
                            (both, "gives the model input [n,3], but it lacks person [n,2], place [n,1]: ")]:
            done = run_shoal("predict", f"--out={run.out}", f"--input={file}")
            expected = (f"shoal predict: --input: {file} {words}the examples of the program have person [n,2], place [n,1]; "
                        "leave --input out, and the program's data set gives examples\n")
            assert done.returncode == 78 and done.stderr == expected, done


if __name__ == "__main__":
    cluster.main([
        synthetic_clicks_are_evaluated_and_predicted,
        the_run_file_of_the_documentation_trains,
        a_program_of_ones_own_reads_lists_of_ids_with_weights,
        a_program_of_ones_own_reads_two_inputs,
    ])
