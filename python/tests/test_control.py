"""Programs that stop their run and read its evaluations, and runs in one process that are controlled by signals."""

import json
import math
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from fake_worker import play

import shoal
from shoal import _control
from shoal._evaluations import Evaluations

# A run in one process as others see it: it holds the lock, makes a checkpoint at SIGUSR1, and ends at SIGTERM.
ONE_PROCESS = """\
import fcntl, os, signal, sys, time
def save(*_):
    os.makedirs(f"{sys.argv[1]}/checkpoints/ckpt-7-1-0000000000000001")
    open(f"{sys.argv[1]}/checkpoints/ckpt-7-1-0000000000000001/MANIFEST", "w").close()
def stop(*_):
    with open(f"{sys.argv[1]}/stops", "a") as file:
        file.write("x")
    if "stays" not in sys.argv:
        sys.exit(143)
signal.signal(signal.SIGUSR1, save)
signal.signal(signal.SIGTERM, stop)
with open(f"{sys.argv[1]}/LOCK", "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    lock.write(f"pid {os.getpid()} on {os.uname().nodename}\\n")
    lock.flush()
    print("ready", flush=True)
    while True:
        time.sleep(0.01)
"""


@pytest.fixture
def one_process(tmp_path, monkeypatch):
    """Starts such a process for a directory."""
    monkeypatch.setenv("SHOAL", "/bin/false")  # No command is asked.
    started = []

    def start(*words):
        (tmp_path / "cluster.textproto").write_text("# One process: there is no cluster.\n")
        line = [sys.executable, "-c", ONE_PROCESS, str(tmp_path), *words]
        started.append(subprocess.Popen(line, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout.readline() == "ready\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_the_process_of_a_run_in_one_process_is_found_while_it_holds_its_lock(one_process, tmp_path):
    assert _control.process_of(str(tmp_path)) is None
    process = one_process()
    assert _control.process_of(str(tmp_path)) == process.pid
    (tmp_path / "cluster.textproto").write_text('chief: "127.0.0.1:2220"\n')
    assert _control.process_of(str(tmp_path)) is None
    (tmp_path / "cluster.textproto").write_text("# One process: there is no cluster.\n")
    process.kill()
    process.wait()
    assert _control.process_of(str(tmp_path)) is None
    (tmp_path / "LOCK").write_text("pid 1 on another-host\n")
    assert _control.process_of(str(tmp_path)) is None


def test_a_run_in_one_process_is_controlled_by_signals(one_process, tmp_path):
    process = one_process()
    run = shoal.Run(tmp_path)
    starting = {"run_directory": str(tmp_path), "phase": "starting", "tasks": []}
    assert run.status() == starting
    with pytest.raises(shoal.CommandError, match="has nothing to save yet; ask again when it trains"):
        run.checkpoint()
    (tmp_path / "metrics.jsonl").write_text('{"step": 6, "loss": 1}\n{"step": 7, "loss": 1}\n')
    os.utime(tmp_path / "metrics.jsonl", (1, 1))  # They are of an earlier start.
    assert run.status() == starting
    os.utime(tmp_path / "metrics.jsonl")
    assert run.status() == {**starting, "phase": "training", "step": 7}
    assert run.checkpoint() == str(tmp_path / "checkpoints/ckpt-7-1-0000000000000001")
    run.stop()
    assert process.wait(60) == 143


def test_a_run_in_one_process_that_resumes_trains_when_it_has_passed_its_checkpoint(one_process, tmp_path):
    for name in ("ckpt-2-1-0000000000000001", "ckpt-5-1-0000000000000001"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
        (tmp_path / "checkpoints" / name / "MANIFEST").touch()
        os.utime(tmp_path / "checkpoints" / name / "MANIFEST", (1, 1))
    (tmp_path / "checkpoints" / "ckpt-9-1-0000000000000001").mkdir()  # It was not complete.
    (tmp_path / "checkpoints" / "TOKEN").touch()
    process = one_process()
    run = shoal.Run(tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"step": 4}\n{"step": 5}\n')  # The lines behind it were removed.
    assert run.status()["phase"] == "starting"
    (tmp_path / "metrics.jsonl").write_text('{"step": 5}\n{"step": 6}\n')
    assert run.status() == {"run_directory": str(tmp_path), "phase": "training", "step": 6, "tasks": []}
    os.utime(tmp_path / "checkpoints" / "ckpt-5-1-0000000000000001" / "MANIFEST")  # It is of this start.
    assert run.status()["phase"] == "training"
    process.kill()
    process.wait()
    with pytest.raises(shoal.CommandError, match="shoal status"):
        run.status()  # Nothing runs: it is the command that says so.


def test_a_run_in_one_process_that_ends_makes_no_checkpoint(one_process, tmp_path, monkeypatch):
    process = one_process()
    (tmp_path / "metrics.jsonl").write_text('{"step": 7}\n')

    def kill_instead(*_):
        process.kill()
        process.wait()

    monkeypatch.setattr("shoal.run._signal", kill_instead)
    with pytest.raises(shoal.CommandError, match="ended before the checkpoint was made"):
        shoal.Run(tmp_path).checkpoint()


def stopping(directory, body, batches=3):
    """Trains with some batches, and calls body(worker) in each one."""

    def program(worker):
        worker.declare([shoal.Variable("w", (4,))], examples=10)
        for work in worker:
            body(worker)
            work.done(0)

    def scenario(fake):
        values = fake.handshake(directory=str(directory))
        for index in range(batches):
            fake.train(values, [0], index=index)
        fake.finish()

    play(program, scenario)


@pytest.fixture
def command(tmp_path, monkeypatch):
    """A command that records its arguments, and fails until there is the file `serves`."""
    path = tmp_path / "shoal"
    path.write_text(
        f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n[ -e {tmp_path}/serves ] || {{ echo no chief >&2; exit 1; }}\n'
    )
    path.chmod(0o755)
    monkeypatch.setenv("SHOAL", str(path))
    return tmp_path


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_program_asks_its_run_once_to_stop(command):
    (command / "serves").touch()
    line = f"stop {command} --tls_ca=ca.crt\n"

    def body(worker):
        worker.stop(["--tls_ca=ca.crt"])
        wait_until(lambda: (command / "asked").exists() and (command / "asked").read_text() == line)
        worker.stop()

    stopping(command, body)
    assert (command / "asked").read_text() == line


def test_a_request_to_stop_that_fails_is_shown_and_may_be_repeated(command, capsys):
    calls = []

    def body(worker):
        if len(calls) < 2:
            worker.stop()
            calls.append(worker)
            wait_until(lambda: not worker._stop_request._is_sent)

    stopping(command, body)
    assert (command / "asked").read_text() == 2 * f"stop {command}\n"
    assert capsys.readouterr().out.count("shoal: warning: the run could not be asked to stop: no chief\n") == 2


def test_a_program_stops_a_run_in_one_process_with_one_signal(one_process, tmp_path):
    process = one_process("stays")
    stopping(tmp_path, lambda worker: worker.stop())
    wait_until(lambda: (tmp_path / "stops").exists() and (tmp_path / "stops").read_text())
    time.sleep(0.1)
    assert (tmp_path / "stops").read_text() == "x"
    assert process.poll() is None


def test_a_run_cannot_be_stopped_by_a_program_that_has_no_batch_yet(command):
    def program(worker):
        worker.stop()

    with pytest.raises(shoal.ProgramError, match=r"worker.stop\(\) is called before the first batch; call it in the"):
        play(program, lambda fake: fake.welcome(directory=str(command)))
    assert not (command / "asked").exists()


def test_without_the_command_a_program_cannot_stop_its_run(tmp_path, monkeypatch):
    monkeypatch.delenv("SHOAL", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(shoal.CommandError, match="the command `shoal` was not found"):
        stopping(tmp_path, lambda worker: worker.stop())


def line_of(step, **values):
    return json.dumps({"step": step, "epoch": step // 3, "loss": 1.0, "accuracy": None, **values}) + "\n"


def evaluated(step, loss, **values):
    return line_of(step, eval_loss=loss, eval_examples=9, **values)


def test_the_newest_evaluation_is_that_of_the_last_line_with_one(tmp_path):
    file = tmp_path / "metrics.jsonl"
    evaluations = Evaluations(str(tmp_path))
    assert evaluations.newest() is None
    file.write_text(line_of(1))
    assert evaluations.newest() is None
    begin = line_of(1) + line_of(2) + evaluated(3, 0.5, eval_f1=0.25) + line_of(4)
    file.write_text(begin + evaluated(5, 0.1)[:-9])
    assert evaluations.newest() == {"step": 3, "epoch": 1, "loss": 0.5, "f1": 0.25, "examples": 9}
    assert Evaluations(str(tmp_path)).newest() == evaluations.newest()
    file.write_text(begin + evaluated(5, None) + line_of(6))
    newest = evaluations.newest()
    assert newest["step"] == 5
    assert math.isnan(newest["loss"])


def test_an_evaluation_of_steps_that_the_run_has_taken_back_does_not_count(tmp_path):
    file = tmp_path / "metrics.jsonl"
    evaluations = Evaluations(str(tmp_path))
    begin = evaluated(1, 0.9) + line_of(2)
    file.write_text(begin + evaluated(3, 0.1))
    assert evaluations.newest()["step"] == 3
    file.write_text(begin)
    assert evaluations.newest()["step"] == 1
    file.write_text(begin + evaluated(3, 0.2))
    assert evaluations.newest()["loss"] == 0.2
    file.write_text(begin + line_of(3) + line_of(4) + line_of(5) + line_of(6))  # It is longer than before.
    assert evaluations.newest()["step"] == 1
    file.unlink()
    assert evaluations.newest() is None


def test_a_program_reads_the_evaluations_of_its_run(tmp_path):
    seen = []

    def body(worker):
        seen.append(worker.last_evaluation())
        with open(tmp_path / "metrics.jsonl", "a") as file:
            file.write(evaluated(len(seen), 1 / len(seen)))

    stopping(tmp_path, body)
    assert [row and row["loss"] for row in seen] == [None, 1.0, 0.5]
    np.testing.assert_array_equal(shoal.Run(tmp_path).metrics()["eval_loss"], [1, 1 / 2, 1 / 3])
