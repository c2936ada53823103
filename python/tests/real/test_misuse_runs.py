"""Misuses that a run of the real `shoal` finds: one message each, with the file and the line where there is one."""

import os
from pathlib import Path

import numpy as np
import pytest
from live_runs import PYTHON

import shoal
from shoal import _safetensors

NO_RESTART = ("--set", "cluster.max_worker_restarts=0")

# Line 5 is the first one after shoal.Worker(); DECLARE is one line.
HEAD = """\
import ctypes, os, sys, time
import numpy as np
import shoal
worker = shoal.Worker()
"""
DECLARE = 'worker.declare([shoal.Variable("w", (4,))], examples=40, batch_size=4, epochs=1, optimizer=shoal.SGD(0.1))\n'
OTHERS = DECLARE.replace('"w"', 'f"w{worker.index}"').replace("epochs=1", "epochs=50")
# Name -> the program, flags, exit code, what launch.log says, what the log of the program says.
MISUSE = {
    "no work is asked for in time": (
        HEAD + "time.sleep(600)\n",
        ("--set", "cluster.wait_seconds=12"),
        138,
        ["train.py did not declare its variables (DECLARE) within 9.6s of its start", 'train.py", line 5 in'],
        [],
    ),
    "no work is asked for after the declaration": (
        HEAD + DECLARE + "print('ready')\n",
        (),
        78,
        ["train.py:5: after worker.declare() the program ended without asking for work; loop over the worker"],
        ["ready"],
    ),
    "the loop is left": (
        HEAD + DECLARE + "for work in worker:\n    work.done(1)\n    if work.index == 2:\n        break\n",
        (),
        78,
        ["train.py:9: the program left the loop before the run was over; the loop ends by itself"],
        [],
    ),
    "an exit in the loop": (
        HEAD + DECLARE + "for work in worker:\n    sys.exit('no data')\n",
        NO_RESTART,
        1,
        ["train.py:7: sys.exit('no data') was called before the run was over"],
        ["no data"],
    ),
    "no worker": (
        "print('hello')\n",
        (),
        78,
        ["train.py ended without asking for work (exit code 0); a compute program makes shoal.Worker() and loops over"],
        [],
    ),
    "an exception when the launcher asks": (
        HEAD + "data = {}['x']\n",
        (),
        1,
        ["train.py:5: KeyError: 'x'"],
        [],
    ),
    "a second worker": (
        HEAD + DECLARE + "for work in worker:\n    worker = shoal.Worker()\n",
        NO_RESTART,
        78,
        ["a program has one shoal.Worker(); train everything in one loop over it"],
        [],
    ),
    "the workers declare different variables": (
        HEAD + OTHERS + "for work in worker:\n    time.sleep(0.5)\n    work.done(1)\n",
        (),
        78,
        ["train.py:5: the run refuses this declaration: variable 0 is w", "in the first worker and w", "give both"],
        [],
    ),
    "a write outside the contributions": (
        HEAD + DECLARE + "for work in worker:\n    ctypes.memset(work.gradients['w'].ctypes.data, 1, 1 << 40)\n",
        NO_RESTART,
        1,
        ["killed by SIGSEGV", "Fatal Python error: Segmentation fault, File ", 'train.py", line 7 in <module>'],
        [],
    ),
    "the connection is closed": (
        HEAD + DECLARE + "for work in worker:\n    os.closerange(3, 10000)\n    work.done(1)\n",
        NO_RESTART,
        1,
        ["train.py:8: the connection with the worker is closed (Bad file descriptor): has the program closed all"],
        [],
    ),
    "a syntax error": (
        HEAD + "def f(:\n",
        (),
        78,
        ['train.py", line 5', "SyntaxError: invalid syntax", "train.py ended before it was ready"],
        [],
    ),
    "an exception in a batch": (
        HEAD + DECLARE + "for work in worker:\n    work.done(1 / (work.index - 2))\n",
        NO_RESTART,
        1,
        ["train.py:7: ZeroDivisionError: division by zero"],
        ["Traceback (most recent call last):"],
    ),
}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))
    assert os.access(os.environ["SHOAL"], os.X_OK), "SHOAL is not the path of the command"


def start(tmp_path, code, workers, flags=(), ps=1):
    (tmp_path / "train.py").write_text(code)
    return shoal.launch(str(tmp_path / "train.py"), ps=ps, workers=workers, out=str(tmp_path / "run"), flags=flags)


def log_of(run, name):
    path = Path(run.directory, name)
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize("name", list(MISUSE))
def test_a_misuse_ends_the_run_with_a_message(name, tmp_path):
    code, flags, exit_code, messages, lines = MISUSE[name]
    run = start(tmp_path, code, 2 if "different" in name else 1, flags)
    with pytest.raises(shoal.CommandError):
        run.wait(240)
    assert run._process.returncode == exit_code, log_of(run, "launch.log")
    for message in messages:
        assert message in log_of(run, "launch.log")
    assert "internal error" not in log_of(run, "launch.log")
    assert log_of(run, "launch.log").count("Traceback") <= 1
    if "different" in name:  # The worker that is refused has written nothing.
        assert len(list(Path(run.directory, "initial").glob("*"))) <= 1
    for line in lines:
        assert line in log_of(run, "logs/program-0.out") + log_of(run, "logs/program-0.log")


@pytest.mark.parametrize("ps", [0, 1])
def test_an_exception_behind_the_loop_is_shown_and_the_run_has_finished(ps, tmp_path):
    run = start(tmp_path, HEAD + DECLARE + "for work in worker: work.done(1)\nopen('/nowhere/model')\n", 1, ps=ps)
    assert run.wait(240)["status"] == "finished"
    assert "shoal: the run is over, but the program failed after it: " in log_of(run, "launch.log")
    assert "train.py:7: FileNotFoundError: [Errno 2] No such file" in log_of(run, "launch.log")
    assert "Traceback (most recent call last):" in log_of(run, "logs/program-0.log")


def test_a_run_continues_with_its_own_variables_only(tmp_path):
    code = HEAD + DECLARE + "for work in worker: work.done(1)\n"
    assert start(tmp_path, code, 1).wait(240)["steps"] == 10
    run = start(tmp_path, code.replace('"w", (4,)', '"v", (4,)').replace("epochs=1", "epochs=2"), 1)
    with pytest.raises(shoal.CommandError, match="variable 0 is w in the checkpoint and v in the model") as raised:
        run.wait(240)
    assert run._process.returncode == 78, str(raised.value)


@pytest.mark.parametrize("ps", [0, 1])
def test_a_loss_that_is_not_finite_skips_its_batch_and_output_and_forks_change_nothing(ps, tmp_path):
    code = (
        HEAD
        + DECLARE
        + """
for work in worker:
    print("batch", work.index)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    work.gradients["w"] = np.full(4, -1)
    work.done(float("nan") if work.index == 3 else 1.0)
"""
    )
    run = start(tmp_path, code, 1, ps=ps)
    summary = run.wait(240)
    assert (summary["status"], summary["skipped_batches"]) == ("finished", 1)
    # The launcher of a run with ps asks the chief for news a few times a second, and this run may take less.
    if ps == 0:
        assert "warning: batch 3 of epoch 1 is skipped: " in log_of(run, "launch.log")
    assert log_of(run, "logs/program-0.out").splitlines() == [f"batch {i}" for i in range(10)]


@pytest.mark.parametrize("ps", [0, 1])
def test_an_update_that_is_not_finite_ends_the_run_without_a_checkpoint_of_it(ps, tmp_path):
    code = (
        HEAD
        + DECLARE.replace("SGD(0.1)", "SGD(100.0)")
        + """
for work in worker:
    time.sleep(0.05)
    work.gradients["w"] = np.full(4, 3e38 if work.step == 7 else 1e-3)
    work.done(1)
"""
    )
    run = start(tmp_path, code, 1, ("--save_every=2",), ps)
    message = "variable w is not finite after the update of step 8: training diverges; lower --learning_rate"
    with pytest.raises(shoal.CommandError, match=message):
        run.wait(240)
    assert run._process.returncode == 78
    assert run.summary()["status"] == "failed"
    again = f"--run={run.directory}/run.textproto --learning_rate=10   # a tenth of the rate\n"
    assert again in log_of(run, "launch.log")
    for path in Path(run.directory, "checkpoints").glob("ckpt-*/model.safetensors"):
        step = int(path.parent.name.split("-")[1])
        assert step < 8
        np.testing.assert_allclose(_safetensors.read(str(path))["w"], np.full(4, -0.1 * step), rtol=1e-5)
