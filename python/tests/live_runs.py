"""Helpers for tests that launch the real `shoal` with programs: variables and processes of a run, random kills."""

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest

import shoal
from shoal import _safetensors

PYTHON = Path(shoal.__file__).parents[1]
SAME_STEPS = ["--replicas_to_aggregate=2"]
SLICE = 256  # Elements of a slice with SMALL_SLICES.
SMALL_SLICES = "--set=cluster.slice_bytes=1024"

# Processes that each test with random kills ends with SIGKILL.
KILLS = int(os.environ.get("SHOAL_KILLS", "4"))
KILLS_PER_RUN = 5
MANY_RESTARTS = "--set=cluster.max_worker_restarts=100"

# The beginning of programs that wait at the step that hold_at() names: on a busy machine a run would be over before a
# test has found the process that it kills.
HOLD = """\
import os, time
def hold(work):
    while work.is_training and work.step >= held_step():
        time.sleep(0.01)
def held_step():
    try:
        with open(os.environ["HOLD"]) as file:
            return int(file.read())
    except (KeyError, FileNotFoundError):
        return 1 << 40
"""


def hold_at(path, step):
    """Programs that find the path in $HOLD wait at this step until the file names a later one or is removed."""
    new = path.with_suffix(".new")
    new.write_text(str(step))
    new.replace(path)


def variables(run):
    """Returns the bytes of each variable of a run that has finished."""
    return {name: array.tobytes() for name, array in _safetensors.read(run.model_file()).items()}


def wait_for_step(run, step):
    end = time.monotonic() + 300
    while len(run.metrics().get("step", ())) < step:
        assert time.monotonic() < end, Path(run.directory, "launch.log").read_text()
        time.sleep(0.02)


def wait_for_line(run, text, times=1, log="launch.log"):
    """Waits until a log has the text. The launcher judges a task that ends with an error a second later."""
    end = time.monotonic() + 120
    while (output := Path(run.directory, log).read_text()).count(text) < times:
        assert time.monotonic() < end, output
        time.sleep(0.02)


def process_of(run, task):
    return next(entry["process_id"] for entry in run.status()["tasks"] if entry["task"] == task)


def programs(run, worker):
    """The processes whose standard error is the log of a worker's program."""
    log = os.path.join(run.directory, f"logs/program-{worker}.log")
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and os.readlink(entry / "fd/2") == log:
                yield int(entry.name)


def kill_program(run, worker):
    """Kills a worker's program, once it is there."""
    end = time.monotonic() + 120
    while (process := next(programs(run, worker), None)) is None:
        assert time.monotonic() < end, Path(run.directory, "launch.log").read_text()
        time.sleep(0.02)
    os.kill(process, signal.SIGKILL)


def find_process(run, kind, number):
    """Returns the process of a task or of its program; None if it is not there at the moment."""
    with contextlib.suppress(shoal.ShoalError):
        if kind == "program":
            return next(programs(run, number), None)
        task = f"{kind}/{number}"
        return next((e["process_id"] for e in run.status().get("tasks", ()) if e["task"] == task), None)
    return None


def kill_some(run, seed, kills, steps, held):
    """Kills so many processes at random moments of a run with these steps; returns how many of each kind were.

    Each part of the steps waits for the kill in the part before it, so the run cannot end before the last kill.
    """
    draw = random.Random(seed)
    hit, killed = {"program": 0, "worker": 0, "ps": 0}, set()
    end = time.monotonic() + 300
    wait_for_step(run, 2)
    while len(killed) < kills:
        time.sleep(draw.uniform(0.05, 0.8))
        kind = draw.choice(sorted(hit))
        process = find_process(run, kind, draw.randrange(2))
        in_time = run._process.poll() is None and time.monotonic() < end
        assert in_time, f"killed {hit}\n" + Path(run.directory, "launch.log").read_text()
        if process is None or process in killed:  # The second one has not been buried yet.
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
            killed.add(process)
            hit[kind] += 1
            hold_at(held, steps * (len(killed) + 1) // (kills + 1))
    return hit


def killed_runs(program, folder, steps, flags, args=()):
    """Runs a program, which begins with HOLD, until KILLS processes were killed; yields the finished runs."""
    for number, left in enumerate(range(KILLS, 0, -KILLS_PER_RUN)):
        kills, held = min(left, KILLS_PER_RUN), folder / f"held-{number}"
        out = str(folder / f"run-{number}")
        hold_at(held, steps // (kills + 1))
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("HOLD", str(held))
            run = shoal.launch(program, ps=2, workers=2, out=out, args=args, flags=[*flags, MANY_RESTARTS])
        try:
            hit = kill_some(run, number, kills, steps, held)
        finally:
            held.unlink()
        summary = run.wait(300)
        assert summary["status"] == "finished", Path(run.directory, "launch.log").read_text()
        assert summary["steps"] == steps
        print(f"run {number}: killed {hit}")
        yield run
