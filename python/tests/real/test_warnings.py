"""Warnings of the real `shoal` about programs: initial values that differ, edits that a resume does not follow."""

import subprocess
import sys
from pathlib import Path

import pytest
from live_runs import PYTHON

import shoal

# Its initial values follow from what is in the place of SEED. It trains once all workers have registered: so short a
# run would be over before the second one has.
PROGRAM = """\
import os, time
from pathlib import Path
import numpy as np
import shoal
worker = shoal.Worker()
draw = np.random.default_rng(SEED)
worker.declare([shoal.Variable("same", initial=np.ones(3)), shoal.Variable("w", initial=draw.normal(size=5))],
               examples=40, optimizer=shoal.SGD(0.1), batch_size=10, epochs=1)
def all_are_there():
    log = Path(worker.directory, "logs/chief-0.log").read_text()
    return all(log.count(f"worker/{k} registered") >= int(os.environ["STARTS"]) for k in range(worker.count))
for work in worker:
    while not all_are_there():
        time.sleep(0.01)
    for name, value in work.parameters.items():
        work.gradients[name] = value
    work.done(0)
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))
    monkeypatch.setenv("STARTS", "1")


def output(run):
    return Path(run.directory, "launch.log").read_text()


def test_initial_values_that_differ_are_named_once_unless_the_run_resumes(tmp_path, monkeypatch):
    program = tmp_path / "draw.py"
    program.write_text(PROGRAM.replace("SEED", "os.getpid()"))
    out = str(tmp_path / "run")
    run = shoal.launch(str(program), ps=1, workers=2, out=out)
    run.wait(120)
    text = output(run)
    assert text.count("the initial values of worker/") == 1, text
    worker = "0" if "values of worker/0" in text else "1"
    assert (
        f"warning: the initial values of worker/{worker} differ from those in use (w): the program's random numbers "
        "differ between workers; give all workers the same seed\n"
    ) in text
    monkeypatch.setenv("STARTS", "2")
    resumed = shoal.launch(str(program), ps=1, workers=2, out=out, flags=["--num_epochs=2"])
    resumed.wait(120)
    assert "initial values" not in output(resumed)[len(text) :]


def test_equal_seeds_give_no_warning(tmp_path):
    program = tmp_path / "draw.py"
    program.write_text(PROGRAM.replace("SEED", "worker.seed"))
    run = shoal.launch(str(program), ps=1, workers=2, out=str(tmp_path / "run"))
    run.wait(120)
    assert "initial values" not in output(run)


def test_a_resume_by_the_run_file_names_the_edits_that_it_does_not_follow(tmp_path):
    program = tmp_path / "ed.py"
    program.write_text(PROGRAM.replace("SEED", "0"))
    out = str(tmp_path / "run")
    shoal.launch(str(program), ps=1, workers=1, out=out).wait(120)
    command = [shoal._process.find_command(), "train"]
    by_file = [*command, f"--run={out}/run.textproto"]
    before = subprocess.run(by_file, capture_output=True, text=True)
    assert "declares" not in before.stderr
    edited = PROGRAM.replace("SEED", "0").replace("batch_size=10, epochs=1", "batch_size=5, epochs=2")
    program.write_text(edited)
    resumed = subprocess.run(by_file, capture_output=True, text=True)
    assert "This run had already finished" in resumed.stdout
    warning = f"warning: ed.py declares batch_size 5 and epochs 2; {out}/run.textproto says 10 and 1, which are used; "
    assert warning + "to follow the program: " in resumed.stderr
    follows = resumed.stderr.split("to follow the program: ")[1].strip()
    assert follows.endswith(
        f" train --program={program} --python={sys.executable} --num_ps_tasks=1 --num_replicas=1 --out={out}"
    )
    followed = subprocess.run(follows, shell=True, capture_output=True, text=True)
    assert followed.returncode == 0, followed.stderr
    assert "declares" not in followed.stderr
    assert shoal.Run(out).summary()["epochs"] == 2
    assert "declares" not in subprocess.run(by_file, capture_output=True, text=True).stderr
