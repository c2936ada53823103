"""Runs that their own programs stop early, and runs in one process that are controlled from Python."""

import json
import os
import time
from pathlib import Path

import pytest
from live_runs import PYTHON, wait_for_step

import shoal

# The loss of the test data does not improve after the first evaluation.
EARLY = """\
import math
import numpy as np
import shoal
worker = shoal.Worker()
worker.declare([shoal.Variable("w", (4,))], examples=40, test_examples=10, optimizer=shoal.SGD(0.1), batch_size=4,
               epochs=10000)
best, since, step = math.inf, 0, 0
try:
    for work in worker:
        work.done(len(work.indices))
        result = worker.last_evaluation()
        if result is not None and result["step"] > step:
            step = result["step"]
            since = 0 if result["loss"] < best else since + 1
            best = min(best, result["loss"])
        if since >= 3:
            worker.stop()
except SystemExit:
    print("stopped", best)
    raise
print("finished")
"""
SLOW = """\
import time
import numpy as np
import shoal
worker = shoal.Worker()
worker.declare([shoal.Variable("w", (4,))], examples=40, optimizer=shoal.SGD(1.0), batch_size=4, epochs=1000)
for work in worker:
    time.sleep(0.02)
    work.gradients["w"] = -np.ones(4)
    work.done(0.0)
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))


def metrics_of(run):
    return [json.loads(line) for line in Path(run.directory, "metrics.jsonl").read_text().splitlines()]


def start(tmp_path, code, **options):
    path = tmp_path / "train.py"
    path.write_text(code)
    return shoal.launch(str(path), out=str(tmp_path / "run"), **options)


@pytest.mark.parametrize(("ps", "workers"), [(0, 1), (1, 2)])
@pytest.mark.parametrize("flags", [[], ["--nosync_replicas"]])
def test_a_program_ends_its_run_early(tmp_path, ps, workers, flags):
    run = start(tmp_path, EARLY, ps=ps, workers=workers, flags=flags)
    summary = run.wait(300)
    output = Path(run.directory, "launch.log").read_text()
    assert summary["status"] == "stopped", output
    assert run._process.returncode == 143, output
    assert 10 <= summary["steps"] < 40000
    evaluated = [row for row in metrics_of(run) if "eval_loss" in row][-1]
    assert (summary["test_step"], summary["test_loss"]) == (evaluated["step"], evaluated["eval_loss"]), output
    assert os.path.exists(run.model_file())
    texts = [Path(run.directory, f"logs/program-{worker}.out").read_text() for worker in range(workers)]
    assert "stopped 1.0\n" in texts
    assert set(texts) <= {"stopped 1.0\n", "stopped inf\n"}  # Another worker may stop the run first.


def test_a_program_finds_the_command_of_its_worker(tmp_path):
    without = "import math, os\nos.environ.pop('SHOAL')\nos.environ['PATH'] = ''"
    run = start(tmp_path, EARLY.replace("import math", without))
    assert run.wait(300)["status"] == "stopped", Path(run.directory, "launch.log").read_text()


def test_a_run_in_one_process_is_watched_saved_and_stopped(tmp_path):
    run = start(tmp_path, SLOW, ps=0)
    seen = set()
    while not run.metrics():
        seen.add(run.status()["phase"])
        time.sleep(0.02)
    assert seen <= {"starting", "training"}
    wait_for_step(run, 10)
    status = run.status()
    assert status["phase"] == "training"
    assert status["step"] >= 10
    path = run.checkpoint()
    assert os.path.exists(os.path.join(path, "MANIFEST"))
    run.stop()
    assert run._process.returncode == 143
    assert run.wait(10)["status"] == "stopped"
    assert run.status()["phase"] == "over"
    assert 10 <= run.summary()["steps"] < 10000
    again = start(tmp_path, SLOW.replace("epochs=1000", "epochs=10").replace("0.02", "0"), ps=0)
    assert again.wait(120)["status"] == "finished"


def test_a_run_in_one_process_that_was_killed_is_gone_and_trains_again_behind_its_checkpoint(tmp_path):
    run = start(tmp_path, SLOW, ps=0)
    wait_for_step(run, 10)
    saved = int(Path(run.checkpoint()).name.split("-")[1])
    wait_for_step(run, saved + 5)
    run._process.kill()
    run._process.wait()
    with pytest.raises(shoal.CommandError, match="is not running: the last process .* has ended without a summary"):
        run.status()
    again = start(tmp_path, SLOW, ps=0)
    while (status := again.status())["phase"] == "starting":
        time.sleep(0.02)
    assert status["phase"] == "training"
    assert status["step"] > saved
    again.stop()


def test_a_run_in_one_process_that_was_found_is_stopped(tmp_path):
    launched = start(tmp_path, SLOW, ps=0)
    wait_for_step(launched, 10)
    shoal.Run(launched.directory).stop()
    assert launched.wait(60)["status"] == "stopped"
