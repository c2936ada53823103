"""kill -9 of programs, workers and parameter servers at random moments: SHOAL_KILLS of them, 4 by default.

SHOAL_KILLS=50 python/test real -k random_kills
"""

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest
from test_runs import PYTHON, SAME_STEPS, SLOW, SMALL_SLICES, check_ledger, programs, variables, wait_for_step

import shoal

KILLS = int(os.environ.get("SHOAL_KILLS", "4"))
KILLS_PER_RUN = 5
MANY_RESTARTS = "--set=cluster.max_worker_restarts=100"

LEDGER = """\
import time
import numpy as np
import shoal
worker = shoal.Worker()
worker.declare([shoal.Variable("ledger", (2000,))], examples=2000, optimizer=shoal.SGD(1.0), batch_size=4, epochs=2)
for work in worker:
    time.sleep(0.01)
    gradient = np.zeros(2000)
    gradient[work.indices] = -1
    work.gradients["ledger"] = gradient
    work.done(0.0)
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))


def process_of(run, kind, number):
    """The process of a task or of its program; None if it is not there at the moment."""
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
        process = process_of(run, kind, draw.randrange(2))
        if process:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
                hit[kind] += 1
    return hit


def killed_runs(program, folder, flags):
    """Runs until KILLS processes were killed; yields the finished runs."""
    left, number = KILLS, 0
    while left > 0:
        run = shoal.launch(program, ps=2, workers=2, out=str(folder / f"run-{number}"), flags=[*flags, MANY_RESTARTS])
        hit = kill_some(run, number, min(left, KILLS_PER_RUN))
        summary = run.wait(300)
        assert summary["status"] == "finished", Path(run.directory, "launch.log").read_text()
        print(f"run {number}: killed {hit}")
        left, number = left - sum(hit.values()), number + 1
        yield run


def test_random_kills_change_no_byte(tmp_path):
    program = tmp_path / "slow.py"
    program.write_text(SLOW)
    quiet = shoal.launch(str(program), ps=1, workers=1, out=str(tmp_path / "quiet"), flags=SAME_STEPS)
    quiet.wait(120)
    for run in killed_runs(str(program), tmp_path, [*SAME_STEPS, "--save_every=7"]):
        assert variables(run) == variables(quiet)


def test_random_kills_lose_and_double_nothing_in_an_asynchronous_run(tmp_path):
    program = tmp_path / "ledger.py"
    program.write_text(LEDGER)
    for run in killed_runs(str(program), tmp_path, ["--nosync_replicas", "--save_every=50", SMALL_SLICES]):
        check_ledger(run, 2000)
