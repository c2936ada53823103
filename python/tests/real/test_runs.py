"""Runs of the real `shoal` with programs in Python: needs $SHOAL, which python/test real sets."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from live_runs import (
    HOLD,
    PYTHON,
    SAME_STEPS,
    SLICE,
    SMALL_SLICES,
    hold_at,
    kill_program,
    process_of,
    programs,
    variables,
    wait_for_line,
    wait_for_step,
)

import shoal
from shoal import _safetensors

LINEAR = str(PYTHON / "examples/linear_numpy.py")

# A small computation that takes a moment, so that it can be killed in the middle.
SLOW = (
    HOLD
    + """\
import numpy as np
import shoal
worker = shoal.Worker()
x = np.random.default_rng(0).normal(size=(600, 5))
worker.declare([shoal.Variable("w", initial=np.ones(5)), shoal.Variable("mean", (5,), kind="assign")], examples=600,
               test_examples=10, optimizer=shoal.Adam(0.01), batch_size=10, epochs=2, prefetch=4)
for work in worker:
    hold(work)
    time.sleep(0.02)
    worker.announcements()
    rows = x[work.indices] + work.generator.normal(size=(len(work.indices), 5)) * 0.01
    error = rows @ work.parameters["w"] - rows.sum(1) * 2
    if work.is_training:
        work.gradients["w"] = 2 * rows.T @ error / len(rows)
        work.final("w")
        work.gradients["mean"] = rows.mean(0) + 0.9 * work.parameters["mean"]
    work.done(np.sum(error ** 2))
"""
)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))
    assert os.access(os.environ["SHOAL"], os.X_OK), "SHOAL is not the path of the command"


@pytest.fixture
def held(tmp_path, monkeypatch):
    """Runs that are launched after held(STEP) wait at this step until the file that it returns is removed."""
    path = tmp_path / "hold"

    def at(step):
        hold_at(path, step)
        monkeypatch.setenv("HOLD", str(path))
        return path

    yield at
    path.unlink(missing_ok=True)


@pytest.fixture
def slow(tmp_path):
    path = tmp_path / "slow.py"
    path.write_text(SLOW)
    return str(path)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The slow program's variables from a run in which nothing happens."""
    folder = tmp_path_factory.mktemp("reference")
    (folder / "slow.py").write_text(SLOW)
    os.environ["PYTHONPATH"] = str(PYTHON)
    run = shoal.launch(str(folder / "slow.py"), ps=1, workers=1, out=str(folder / "run"), flags=SAME_STEPS)
    assert run.wait(120)["steps"] == 60
    return variables(run)


# Seeds nothing: its initial values, and the noise of its batches, follow from --seed.
UNSEEDED = """\
import random
import numpy as np
import shoal
worker = shoal.Worker()
worker.declare([shoal.Variable("w", initial=np.random.normal(size=5)), shoal.Variable("b", initial=random.random())],
               examples=40, optimizer=shoal.SGD(0.1), batch_size=10, epochs=1)
for work in worker:
    work.gradients["w"] = 1 + work.parameters["w"] * work.indices.mean()
    work.done(0)
print(worker.index, np.random.random(), random.random())
"""


def test_random_numbers_of_a_program_follow_from_the_runs_seed(tmp_path):
    program = tmp_path / "unseeded.py"
    program.write_text(UNSEEDED)
    seen, printed = [], []
    for number, seed in enumerate((3, 3, 4)):
        run = shoal.launch(str(program), workers=2, out=str(tmp_path / str(number)), flags=[f"--seed={seed}"])
        run.wait(120)
        seen.append(variables(run))
        printed.append([Path(run.directory, f"logs/program-{k}.out").read_text().split() for k in (0, 1)])
    assert seen[0] == seen[1]
    assert seen[0]["w"] != seen[2]["w"]
    assert seen[0]["b"] != seen[2]["b"]
    assert printed[0] == printed[1]
    assert printed[0][0][1:] != printed[0][1][1:]  # Each worker has its own.


def test_an_example_in_numpy_learns(tmp_path):
    run = shoal.launch(LINEAR, ps=2, workers=2, out=str(tmp_path / "run"))
    summary = run.wait(120)
    assert summary["status"] == "finished"
    assert summary["test_accuracy"] > 0.9
    metrics = run.metrics()
    assert list(metrics["step"]) == list(range(1, 136))
    assert metrics["loss"][-10:].mean() < 0.5 * metrics["loss"][0]
    assert np.isfinite(metrics["accuracy"]).all()
    assert run.status()["phase"] == "over"


@pytest.mark.parametrize(("ps", "workers"), [(0, 1), (1, 3), (2, 1), (2, 2), (5, 1), (5, 3)])
def test_the_bytes_do_not_depend_on_the_number_of_tasks(slow, tmp_path, reference, ps, workers):
    run = shoal.launch(slow, ps=ps, workers=workers, out=str(tmp_path / "run"), flags=SAME_STEPS)
    run.wait(120)
    assert variables(run) == reference


def test_a_program_that_is_killed_changes_no_byte(slow, tmp_path, reference, held):
    release = held(35)
    run = shoal.launch(slow, ps=2, workers=2, out=str(tmp_path / "run"), flags=SAME_STEPS)
    for step, worker in ((5, 0), (25, 1)):
        wait_for_step(run, step)
        kill_program(run, worker)
        wait_for_line(run, f"worker/{worker} died")
    release.unlink()
    run.wait(120)
    assert variables(run) == reference


def test_a_worker_and_a_ps_that_are_killed_change_no_byte(slow, tmp_path, reference, held):
    release = held(30)
    run = shoal.launch(slow, ps=2, workers=2, out=str(tmp_path / "run"), flags=[*SAME_STEPS, "--save_every=7"])
    for step, task in ((10, "worker/0"), (20, "ps/1")):
        wait_for_step(run, step)
        os.kill(process_of(run, task), signal.SIGKILL)
    release.unlink()
    run.wait(120)
    output = Path(run.directory, "launch.log").read_text()
    assert "worker/0 died" in output
    assert "ps/1 died" in output
    assert variables(run) == reference
    assert not list(programs(run, 0)) + list(programs(run, 1))


def check_ledger(run, examples):
    """Each example has counted twice, in the slice of its element, and both parameter servers have slices."""
    ledger = _safetensors.read(run.model_file())["ledger"]
    wrong = {}
    for begin in range(0, examples, SLICE):
        part = ledger[begin : begin + SLICE]
        if (part != 2).any():
            wrong[begin // SLICE] = {begin + i: part[i] for i in np.flatnonzero(part != 2)[:5]}
    assert not wrong, f"slice -> {{example: how often it counted}}: {wrong}"
    shards = sorted(Path(run.model_file()).parent.glob("shard-*-of-00002.safetensors"))
    slices = [array.size for shard in shards for array in _safetensors.read(str(shard)).values()]
    assert len(shards) == 2
    assert all(_safetensors.read(str(shard)) for shard in shards), "one parameter server holds everything"
    assert max(slices) <= SLICE


def test_an_asynchronous_run_counts_every_batch_once(tmp_path, held):
    """A ledger: each example adds 1 to an element of its own, while programs are killed."""
    path = tmp_path / "ledger.py"
    path.write_text(
        HOLD
        + """\
import numpy as np
import shoal
worker = shoal.Worker()
worker.declare([shoal.Variable("ledger", (400,))], examples=400, optimizer=shoal.SGD(1.0), batch_size=4, epochs=2)
for work in worker:
    hold(work)
    time.sleep(0.01)
    gradient = np.zeros(400)
    gradient[work.indices] = -1
    work.gradients["ledger"] = gradient
    work.done(0.0)
"""
    )
    release = held(150)
    run = shoal.launch(str(path), ps=2, workers=2, out=str(tmp_path / "run"), flags=["--nosync_replicas", SMALL_SLICES])
    for step, worker, deaths in ((10, 0, 1), (60, 1, 1), (120, 0, 2)):
        wait_for_step(run, step)
        kill_program(run, worker)
        wait_for_line(run, f"worker/{worker} died", deaths)
    release.unlink()
    assert run.wait(120)["steps"] == 200
    check_ledger(run, 400)


def test_a_program_that_is_killed_while_its_worker_waits_is_noticed_at_once(reference, tmp_path, held):
    hold = held(20)
    path = tmp_path / "slow.py"
    # Worker 0 waits for the batch of worker 1, whose program computes until the file is gone.
    path.write_text(SLOW.replace("    hold(work)\n", "    if worker.index == 1:\n        hold(work)\n"))
    run = shoal.launch(str(path), ps=1, workers=2, out=str(tmp_path / "run"), flags=SAME_STEPS)
    wait_for_step(run, 20)
    time.sleep(0.5)
    os.kill(next(programs(run, 0)), signal.SIGKILL)
    log = Path(run.directory, "logs/worker-0.log")
    end = time.monotonic() + 30
    while "ended before the run was over (killed by SIGKILL)" not in log.read_text():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.02)
    hold.unlink()
    assert run.wait(120)["status"] == "finished"
    assert variables(run) == reference


# Continues behind the loop for longer than the run's cluster.grace_seconds.
CONTINUES = """\
import sys, time
import numpy as np
import shoal
worker = shoal.Worker()
worker.declare([shoal.Variable("w", (4,))], examples=40, optimizer=shoal.SGD(1.0), batch_size=10, epochs=1)
for work in worker:
    work.gradients["w"] = np.ones(4)
    work.done(0.0)
time.sleep(float(sys.argv[1]))
open(f"{worker.directory}/done-{worker.index}", "w").close()
"""


def test_the_code_behind_the_loop_may_take_longer_than_a_stop(tmp_path):
    path = tmp_path / "continues.py"
    path.write_text(CONTINUES)
    run = shoal.launch(str(path), ps=2, workers=2, args=["5"], out=str(tmp_path / "run"), flags=["--grace_seconds=1"])
    assert run.wait(120)["status"] == "finished"
    output = Path(run.directory, "launch.log").read_text()
    assert Path(run.directory, "done-0").exists(), output
    assert Path(run.directory, "done-1").exists(), output
    assert "continues.py continues after the end of the run" in output
    assert "killed" not in output
    assert not list(programs(run, 0)) + list(programs(run, 1))


# Worker 0 is ready only when worker 1 has finished the run, and then for longer than the launcher's usual patience. The
# launcher's question about the declaration comes before there are logs.
LATE = """\
import os, time
import numpy as np
import shoal
worker = shoal.Worker()
if worker.index == 0 and os.path.isdir(f"{worker.directory}/logs"):
    end = time.monotonic() + 120
    while not os.path.exists(f"{worker.directory}/summary.json") and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(5)
worker.declare([shoal.Variable("w", (4,))], examples=40, optimizer=shoal.SGD(1.0), batch_size=10, epochs=1)
batches = 0
for work in worker:
    batches += 1
    work.gradients["w"] = np.ones(4)
    work.done(0.0)
with open(f"{worker.directory}/done-{worker.index}", "w") as file:
    file.write(str(batches))
"""


def test_the_code_behind_the_loop_runs_in_a_worker_that_is_ready_after_the_run(tmp_path):
    path = tmp_path / "late.py"
    path.write_text(LATE)
    run = shoal.launch(str(path), ps=2, workers=2, out=str(tmp_path / "run"))
    assert run.wait(180)["status"] == "finished"
    output = Path(run.directory, "launch.log").read_text()
    assert Path(run.directory, "done-0").read_text() == "0", output
    assert Path(run.directory, "done-1").read_text() != "0", output
    assert "worker/0: late.py is still starting; it is waited for" in output
    assert "warning" not in output


# A model that takes a while to export.
LARGE = """\
import numpy as np
import shoal
from shoal import _safetensors
worker = shoal.Worker()
shape = (16 << 20,)
worker.declare([shoal.Variable("w", shape, np.ones(shape, np.float32))], examples=60, optimizer=shoal.SGD(1.0),
               batch_size=10, epochs=1)
for work in worker:
    work.gradients["w"] = np.full(shape, 0.5, np.float32)
    work.done(0.0)
run = shoal.Run(worker.directory)
values = _safetensors.read(run.model_file())["w"]
print("exported", values[0], values[-1], run.model_file(), flush=True)
"""


@pytest.mark.parametrize("flags", [[], ["--nosync_replicas"]])
def test_the_final_model_is_there_behind_the_loop(tmp_path, flags):
    path = tmp_path / "large.py"
    path.write_text(LARGE)
    run = shoal.launch(str(path), ps=2, workers=2, out=str(tmp_path / "run"), flags=[*flags, "--save_every=2"])
    steps = run.wait(180)["steps"]
    for number in (0, 1):
        words = Path(run.directory, f"logs/program-{number}.out").read_text().split()
        expected = str(1 - steps * 0.5)
        assert words[:3] == ["exported", expected, expected], Path(run.directory, "launch.log").read_text()
        assert words[3] == run.model_file()


def test_an_interrupt_ends_the_code_behind_the_loop_and_says_so(tmp_path):
    path = tmp_path / "continues.py"
    path.write_text(CONTINUES)
    run = shoal.launch(
        str(path), ps=1, workers=2, args=["3000"], out=str(tmp_path / "run"), flags=["--grace_seconds=1"]
    )
    end = time.monotonic() + 120
    log = Path(run.directory, "launch.log")
    while log.read_text().count("continues after the end of the run") < 1:
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.05)
    run._process.terminate()
    assert run.wait(60)["status"] == "finished"
    assert "continues.py was killed" in log.read_text(), log.read_text()
    assert not Path(run.directory, "done-0").exists()
    assert not list(programs(run, 0)) + list(programs(run, 1))


def release_when_stopping(run, held):
    """Lets a run that was asked to stop end its step, and not more."""
    wait_for_line(run, "stopping: ", log="logs/chief-0.log")
    held.unlink()


def test_a_run_is_stopped_and_continues(slow, tmp_path, reference, held):
    release = held(12)
    out = str(tmp_path / "run")
    run = shoal.launch(slow, ps=1, workers=2, out=out, flags=SAME_STEPS)
    wait_for_step(run, 10)
    with ThreadPoolExecutor() as threads:
        saved = threads.submit(run.checkpoint)
        for step in range(13, 55):  # A checkpoint is made between steps.
            if saved.done():
                break
            hold_at(release, step)
            time.sleep(0.5)
        assert os.path.isdir(saved.result())
        stopped = threads.submit(run.stop)
        release_when_stopping(run, release)
        stopped.result()
    assert run.wait(60)["status"] == "stopped"
    assert 10 <= run.summary()["steps"] < 60
    assert not list(programs(run, 0)) + list(programs(run, 1))
    again = shoal.launch(slow, ps=2, workers=1, out=out, flags=SAME_STEPS)
    assert again.wait(120)["steps"] == 60
    assert variables(again) == reference


def launcher(slow, out, options=""):
    """A Python process that starts a run and waits for it."""
    code = f"import shoal; shoal.launch({slow!r}, workers=2, out={out!r}{options}).wait()"
    os.makedirs(out)
    # A shell starts commands in the background with SIGINT ignored, and Python keeps that.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); " + code
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    run = shoal.Run(out)
    wait_for_step(run, 5)
    return process, run


def wait_for_summary(run):
    end = time.monotonic() + 120
    while run.summary() is None:
        assert time.monotonic() < end, Path(run.directory, "launch.log").read_text()
        time.sleep(0.05)
    return run.summary()


def test_a_run_stops_with_a_checkpoint_when_the_process_that_launched_it_is_killed(slow, tmp_path, held):
    release = held(30)
    process, run = launcher(slow, str(tmp_path / "run"))
    process.kill()
    process.communicate()
    release_when_stopping(run, release)
    assert wait_for_summary(run)["status"] == "stopped"
    assert os.path.exists(run.model_file())


def test_a_detached_run_outlives_the_process_that_launched_it(slow, tmp_path, held):
    release = held(30)
    process, run = launcher(slow, str(tmp_path / "run"), ", detach=True")
    process.kill()
    process.communicate()
    release.unlink()
    assert wait_for_summary(run)["status"] == "finished"


def test_an_interrupt_makes_a_checkpoint_and_stops(slow, tmp_path, held):
    release = held(30)
    process, run = launcher(slow, str(tmp_path / "run"))
    process.send_signal(signal.SIGINT)
    release_when_stopping(run, release)
    assert b"KeyboardInterrupt" in process.communicate(timeout=120)[1]
    assert run.summary()["status"] == "stopped"
    assert os.path.exists(run.model_file())


def test_a_program_started_by_hand_is_a_run_in_one_process(tmp_path):
    done = subprocess.run(
        [sys.executable, LINEAR], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    (directory,) = (tmp_path / "runs").iterdir()
    assert shoal.Run(str(directory)).summary()["steps"] == 270


def test_a_misuse_ends_the_run_with_the_line_of_the_program(tmp_path):
    path = tmp_path / "train.py"
    wrong = SLOW.replace("2 * rows.T @ error / len(rows)", "error")
    line = wrong[: wrong.index('gradients["w"]')].count("\n") + 1
    path.write_text(wrong)
    run = shoal.launch(str(path), ps=1, workers=1, out=str(tmp_path / "run"))
    with pytest.raises(shoal.CommandError, match=rf"train.py:{line}: the contribution to w has the shape \(10,\)"):
        run.wait(120)
    assert run._process.returncode == 78
