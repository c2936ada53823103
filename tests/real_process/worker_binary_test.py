#!/usr/bin/env python3
"""A program with a model of its own, tests/examples/two_scale_network, trained by shoal; and the event files."""
import gzip
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import tempfile

import cluster
import event_files

PROGRAM = os.environ.get("TWO_SCALE", str(pathlib.Path("tests/examples/two_scale_network").resolve()))
FILE = pathlib.Path("tests/real_process/small.textproto")
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
FLAGS = [f"--worker_binary={PROGRAM}", "--replicas_to_aggregate=2", "--optimizer=adam"]
TWO = "--num_epochs=2"
LOCAL = "--num_ps_tasks=0"


def shoal(*arguments, program=None):
    return subprocess.run([program or cluster.shoal_binary(), *arguments], capture_output=True, text=True, timeout=120,
                          check=False)


def test_trains_with_servers_and_without_to_the_same_bytes():
    digests = []
    for tasks in (["--num_ps_tasks=2", "--num_replicas=2"], [LOCAL]):
        with cluster.Run(FILE, *FLAGS, TWO, *tasks) as run:
            run.finish()
            assert "worker/0: GPUs: " in run.output, run.output
            run.assert_nothing_left()
            summary = run.summary()
            assert summary["status"] == "finished", summary
            assert summary["test_accuracy"] > 0.5, summary
            assert "sharpness" in run.tensors(), run.tensors().keys()
            digests.append(run.digest())
            evaluated = shoal("eval", f"--out={run.out}")
            assert evaluated.returncode == 0, evaluated.stderr
            figures = json.loads(evaluated.stdout)
            assert figures["test_accuracy"] == summary["test_accuracy"], (figures, summary)
            assert shoal("eval", f"--out={run.out}", program=PROGRAM).stdout == evaluated.stdout
    assert digests[0] == digests[1], digests


def read_csv(path):
    return [[float(cell) for cell in line.split(",")] for line in path.read_text().splitlines()[1:]]


def labels_of_the_test_split(count):
    content = gzip.decompress((DATA / "t10k-labels-idx1-ubyte.gz").read_bytes())
    return list(content[8:8 + count])


def images_of_the_test_split(path, count):
    """The first ones, as an array of bytes."""
    content = gzip.decompress((DATA / "t10k-images-idx3-ubyte.gz").read_bytes())
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({count}, 1, 28, 28), }}\n".encode()
    path.write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + content[16:16 + count * 784])


def test_predicts_by_the_model_of_the_program():
    with cluster.Run(FILE, *FLAGS, LOCAL, "--num_epochs=1") as run:
        run.finish()
        out = f"--out={run.out}"
        scores, again = run.out / "scores.csv", run.out / "again.csv"
        done = shoal("predict", out, f"--predictions={scores}")
        assert done.returncode == 0 and done.stdout.startswith("1000 examples, step "), done
        rows = read_csv(scores)
        assert len(rows) == 1000 and all(len(row) == 10 for row in rows)
        correct = sum(row.index(max(row)) == label for row, label in zip(rows, labels_of_the_test_split(1000)))
        figures = json.loads(shoal("eval", out).stdout)
        assert abs(figures["test_accuracy"] - correct / 1000) < 1e-6, (figures, correct)

        # The program by itself; on several devices; examples of a file.
        done = shoal("predict", out, f"--predictions={again}", program=PROGRAM)
        assert done.returncode == 0 and again.read_bytes() == scores.read_bytes(), done
        done = shoal("predict", out, f"--predictions={again}", "--devices=/cpu:2,/cpu:0,/cpu:5", "--batch_size=33")
        assert done.returncode == 0, done
        assert all(abs(a - b) < 1e-4 for r, s in zip(read_csv(again), rows) for a, b in zip(r, s))
        images = run.out / "images.npy"
        images_of_the_test_split(images, 7)
        done = shoal("predict", out, f"--input={images}", f"--predictions={again}")
        assert done.returncode == 0 and done.stdout.startswith("7 examples, "), done
        assert all(abs(a - b) < 1e-4 for r, s in zip(read_csv(again), rows[:7]) for a, b in zip(r, s))

        narrow = run.out / "narrow.csv"
        narrow.write_text("a,b\n1,2\n")
        headless = run.out / "headless.csv"
        headless.write_text("1,2\n3,4\n")
        for extra, code, words in [(["--probabilities"], 64, "--probabilities: the loss is the program's own"),
                                   ([f"--input={narrow}"], 78, "is read as [1,2], but the run's examples are [n,1,28,28]"),
                                   ([f"--input={headless}", "--set=data.csv.no_header=true"], 78,
                                    "is read as [2,2], but the run's examples are [n,1,28,28]"),
                                   ([f"--input={images}", "--data_dir=/nowhere"], 78, "/nowhere"),
                                   ([f"--worker_binary={cluster.shoal_binary()}"], 78, "is this program"),
                                   (["--step=12345"], 78, "--step: there is no checkpoint of step 12345"),
                                   (["--worker_binary=/bin/false"], 1, None),
                                   (["--worker_binary=/nowhere"], 78, "shoal predict: worker_binary: there is no /nowhere")]:
            done = shoal("predict", out, *extra)
            lines = [line for line in done.stderr.splitlines() if line.startswith("shoal")]
            assert done.returncode == code, (extra, done)
            assert words is None or (len(lines) == 1 and words in lines[0]), (extra, done)


def test_resumes_where_it_stopped():
    with cluster.Run(FILE, *FLAGS, TWO, LOCAL) as whole, cluster.Run(FILE, *FLAGS, LOCAL, "--num_epochs=1") as part:
        whole.finish()
        part.finish()
        done = shoal("train", f"--run={part.out}/run.textproto", "--num_epochs=2")
        assert done.returncode == 0, done.stderr
        assert part.digest() == whole.digest()


def test_a_worker_that_is_killed_changes_nothing():
    tasks = ["--num_ps_tasks=2", "--num_replicas=2"]
    with cluster.Run(FILE, *FLAGS, TWO, LOCAL) as whole, cluster.Run(FILE, *FLAGS, TWO, *tasks) as run:
        whole.finish()
        run.start()
        run.wait_for_step(10)
        run.kill("worker", 1)
        run.finish()
        assert run.digest() == whole.digest()


def test_summaries_are_written_as_event_files():
    with cluster.Run(FILE, *FLAGS, TWO, "--num_ps_tasks=1", "--num_replicas=2", "--scalars_every=5",
                     "--summarize_every=20") as run:
        run.finish()
        lines = {line["step"]: line for line in run.metrics()}
        train = event_files.read(run.out / "events/train")
        assert {step for _, step in train} == {1, *range(5, max(lines) + 1, 5)}, train.keys()
        for (tag, step), value in train.items():
            assert abs(value - lines[step][tag]) <= 1e-6 * abs(value), (tag, step, value, lines[step])
        test = event_files.read(run.out / "events/test")
        for step, line in lines.items():
            if "eval_accuracy" in line:
                assert abs(test["accuracy", step] - line["eval_accuracy"]) < 1e-6, step
        model = event_files.read(run.out / "events/worker-0")
        # Worker 0 may come to the run after worker 1 has begun alone.
        steps = {step for _, step in model}
        assert steps and steps == set(range(min(steps), max(lines) + 1, 20)) and min(steps) % 20 == 0, model.keys()
        first = min(steps)
        for tag in ("clone_loss", "total_loss", "sharpness", "sharpness/gradient", "sharpness/gradient_norm"):
            assert (tag, first) in model, model.keys()
        for (tag, step), value in model.items():
            if tag.endswith("/gradient"):
                assert sum(value["counts"]) == value["num"] > 0, (tag, value)
                norm = model[tag + "_norm", step]
                assert abs(norm - value["sum_squares"]**0.5) <= 1e-6 * norm, (tag, norm, value)
        # The loss of one batch beside the mean over the step's two.
        assert 0.5 < model["total_loss", first] / lines[first]["loss"] < 2, (model["total_loss", first], lines[first])


def test_summaries_do_not_change_what_is_trained():
    with cluster.Run(FILE, *FLAGS, TWO, LOCAL) as plain, cluster.Run(FILE, *FLAGS, TWO, LOCAL, "--summarize_every=1") as watched:
        assert plain.finish().digest() == watched.finish().digest()
        assert not (plain.out / "events/worker-0").exists()


def test_points_of_a_resumed_run_stand_once():
    with cluster.Run(FILE, *FLAGS, LOCAL, "--num_epochs=8", "--scalars_every=1") as run:
        run.start()
        run.wait_for_step(45)
        run.process.kill()
        run.process.wait()
        run.assert_nothing_left()
        run.start()
        run.finish()
        lines = run.metrics()
        train = event_files.read(run.out / "events/train")
        losses = {step: value for (tag, step), value in train.items() if tag == "loss"}
        missing = [line["step"] for line in lines if line["step"] not in losses]
        assert len(missing) <= 1, missing  # its line was written, and then the kill came
        for step, value in losses.items():
            assert abs(value - lines[step - 1]["loss"]) <= 1e-5 * abs(value), (step, value)


def test_tasks_by_hand_need_no_model_but_the_workers():
    with tempfile.TemporaryDirectory(prefix="shoal_by_hand_") as directory:
        out = pathlib.Path(directory) / "run"
        run_file = pathlib.Path(directory) / "without_model.textproto"
        run_file.write_text("data { train_examples: 500 test_examples: 100 } batch_size: 50 num_epochs: 1\n")
        flags = [f"--run={run_file}", f"--out={out}"]

        def start(program, *arguments, **options):
            return subprocess.Popen([program, *arguments, *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True, **options)

        read, write = os.pipe()
        tasks = [start(cluster.shoal_binary(), "chief", "--num_ps_tasks=1", "--num_replicas=1",
                       "--listen_address=127.0.0.1:0", f"--report_fd={write}", pass_fds=[write])]
        os.close(write)
        with os.fdopen(read) as reported:
            chief = f"--chief_host={reported.readline().strip()}"
        tasks.append(start(cluster.shoal_binary(), "ps", chief, "--task_index=0", "--listen_address=127.0.0.1:0"))
        tasks.append(start(PROGRAM, "worker", chief, "--task_index=0"))
        ended = [(task.communicate(timeout=90)[0], task.returncode) for task in tasks]
        assert [code for _, code in ended] == [0, 0, 0], ended
        assert json.loads((out / "summary.json").read_text())["status"] == "finished"
        done = shoal("eval", f"--out={out}", program=PROGRAM)
        assert done.returncode == 0, done.stderr
        done = shoal("worker", chief, "--task_index=0", *flags)
        assert done.returncode == 64 and "model: is not given" in done.stderr, done
        done = shoal("worker", "--worker_hosts=127.0.0.1:1", "--ps_hosts=127.0.0.1:2", *flags, program=PROGRAM)
        assert done.returncode == 64 and "this program has no chief in it" in done.stderr, done


def test_programs_that_are_none_end_in_one_line():
    with tempfile.TemporaryDirectory(prefix="shoal_program_") as directory:
        scratch = pathlib.Path(directory)

        def script(name, body, mode=0o755):
            path = scratch / name
            path.write_text("#!/bin/sh\n" + body + "\n")
            path.chmod(mode)
            return str(path)

        answer = 'for a in "$@"; do case $a in --answer=*) f=${a#--answer=} ;; esac; done; '
        cases = [
            ("/nowhere/program", 78, "worker_binary: there is no /nowhere/program"),
            (directory, 78, "is not a file"),
            (script("not_executable", "", 0o644), 78, "may not be executed"),
            ("/bin/true", 78, "gave no answer, so it is not a worker program"),
            ("/bin/false", 78, "ended when it was asked for its model: exit code 1"),
            (script("dies", "kill -SEGV $$"), 78, "killed by SIGSEGV"),
            (script("other", answer + "echo 'protocol: 9' >$f"), 78, "speaks protocol 9, this shoal 3"),
        ]
        for path, code, words in cases:
            out = scratch / "out"
            done = shoal("train", f"--run={FILE}", f"--worker_binary={path}", f"--out={out}", TWO)
            lines = [line for line in done.stderr.splitlines() if line.startswith("shoal")]
            assert done.returncode == code and len(lines) == 1 and words in lines[0], (path, done)
            assert not out.exists(), path
        # The run has one model; the program says what it does not fit.
        for extra, code, words in [(["--model=mlp"], 64, "worker_binary: is "),
                                   (["--data_dir=/nowhere"], 78, "/nowhere"),
                                   (["--set=data.format=synthetic_regression"], 64, "two_scale_network: wants images"),
                                   (["--batch_size=5000"], 64, "batch_size: 5000")]:
            done = shoal("train", f"--run={FILE}", f"--worker_binary={PROGRAM}", f"--out={scratch / 'out'}", TWO, *extra)
            lines = [line for line in done.stderr.splitlines() if line.startswith("shoal")]
            assert done.returncode == code and len(lines) == 1 and words in lines[0], (extra, done)
        check_a_finished_run(scratch)


def test_ctrl_c_works_while_the_program_is_asked():
    with tempfile.TemporaryDirectory(prefix="shoal_program_") as directory:
        scratch = pathlib.Path(directory)
        program = scratch / "slow"
        asked = scratch / "asked"
        os.mkfifo(asked)
        program.write_text(f"#!/bin/sh\necho $$ >{asked}\nsleep 600\n")
        program.chmod(0o755)
        for number in (signal.SIGINT, signal.SIGTERM):
            command = [cluster.shoal_binary(), "train", f"--run={FILE}", f"--worker_binary={program}",
                       f"--out={scratch / 'out'}", TWO]
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as train:
                pid = int(asked.read_text())  # once it is asked
                train.send_signal(number)
                said = train.communicate(timeout=60)[1]
            assert train.returncode == 128 + number and "stopped before the run had started" in said, (train, said)
            assert not pathlib.Path(f"/proc/{pid}").exists(), pid
            assert not (scratch / "out").exists()


def check_a_finished_run(scratch):
    """Its directory refuses these: a program that has gone, or has another model."""
    moved = scratch / "program"
    shutil.copy(PROGRAM, moved)
    train = ["train", f"--run={FILE}", f"--out={scratch / 'run'}", LOCAL, "--set=data.train_examples=500"]
    done = shoal(*train, f"--worker_binary={moved}", "--num_epochs=1")
    assert done.returncode == 0, done.stderr
    moved.unlink()
    for command in (["train", f"--run={scratch / 'run'}/run.textproto", "--num_epochs=2"],
                    ["eval", f"--out={scratch / 'run'}"], ["predict", f"--out={scratch / 'run'}"]):
        done = shoal(*command)
        assert done.returncode == 78 and f"worker_binary: there is no {moved}" in done.stderr, done
    done = shoal("eval", f"--out={scratch / 'run'}", f"--worker_binary={PROGRAM}")
    assert done.returncode == 0, done.stderr
    done = shoal("train", f"--out={scratch / 'run'}", "--model=mlp", "--num_epochs=2")
    assert done.returncode == 78, done


def test_the_program_prints_its_commands():
    for arguments, code in (([], 2), (["--help"], 0), (["trian"], 2)):
        done = shoal(*arguments, program=PROGRAM)
        assert done.returncode == code and "worker" in done.stdout + done.stderr, done
    done = shoal("declare", "--help", program=PROGRAM)
    assert done.returncode == 0 and done.stdout.startswith("usage: PROGRAM declare"), done
    done = shoal("declare", f"--run={FILE}", program=PROGRAM)
    assert done.returncode == 0 and done.stdout.startswith("protocol: 3\n"), done


if __name__ == "__main__":
    cluster.main([test_trains_with_servers_and_without_to_the_same_bytes,
                  test_predicts_by_the_model_of_the_program,
                  test_resumes_where_it_stopped,
                  test_a_worker_that_is_killed_changes_nothing,
                  test_summaries_are_written_as_event_files,
                  test_summaries_do_not_change_what_is_trained,
                  test_points_of_a_resumed_run_stand_once,
                  test_tasks_by_hand_need_no_model_but_the_workers,
                  test_programs_that_are_none_end_in_one_line,
                  test_ctrl_c_works_while_the_program_is_asked,
                  test_the_program_prints_its_commands])
