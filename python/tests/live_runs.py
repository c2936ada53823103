"""Helpers for tests that launch the real `shoal` with programs: variables and processes of a run, random kills."""

import contextlib
import os
import random
import signal
import time
from pathlib import Path

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


def variables(run):
    """Returns the bytes of each variable of a run that has finished."""
    return {name: array.tobytes() for name, array in _safetensors.read(run.model_file()).items()}


def wait_for_step(run, step):
    end = time.monotonic() + 300
    while len(run.metrics().get("step", ())) < step:
        assert time.monotonic() < end, Path(run.directory, "launch.log").read_text()
        time.sleep(0.02)


def wait_for_line(run, text):
    """Waits until the launcher has printed the text. It judges a task that ends with an error a second later."""
    end = time.monotonic() + 120
    while text not in (output := Path(run.directory, "launch.log").read_text()):
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


def find_process(run, kind, number):
    """Returns the process of a task or of its program; None if it is not there at the moment."""
    with contextlib.suppress(shoal.ShoalError):
        if kind == "program":
            return next(programs(run, number), None)
        task = f"{kind}/{number}"
        # A run that is over has no tasks.
        return next((e["process_id"] for e in run.status().get("tasks", ()) if e["task"] == task), None)
    return None


def kill_some(run, seed, kills):
    """Kills until so many processes were hit or the run is over; returns how many of each kind were."""
    draw = random.Random(seed)
    hit = {"program": 0, "worker": 0, "ps": 0}
    wait_for_step(run, 2)
    while sum(hit.values()) < kills and run.summary() is None:
        time.sleep(draw.uniform(0.05, 0.8))
        kind = draw.choice(sorted(hit))
        process = find_process(run, kind, draw.randrange(2))
        if process:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
                hit[kind] += 1
    return hit


def killed_runs(program, folder, flags, args=()):
    """Runs until KILLS processes were killed; yields the finished runs."""
    left, number = KILLS, 0
    while left > 0:
        out = str(folder / f"run-{number}")
        run = shoal.launch(program, ps=2, workers=2, out=out, args=args, flags=[*flags, MANY_RESTARTS])
        hit = kill_some(run, number, min(left, KILLS_PER_RUN))
        summary = run.wait(300)
        assert summary["status"] == "finished", Path(run.directory, "launch.log").read_text()
        print(f"run {number}: killed {hit}")
        left, number = left - sum(hit.values()), number + 1
        yield run
