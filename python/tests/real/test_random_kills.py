"""kill -9 of programs, workers and parameter servers at random moments: SHOAL_KILLS of them, 4 by default.

SHOAL_KILLS=50 python/test real -k random_kills
"""

import pytest
from live_runs import HOLD, PYTHON, SAME_STEPS, SMALL_SLICES, killed_runs, variables
from test_runs import SLOW, check_ledger

import shoal

LEDGER = (
    HOLD
    + """\
import numpy as np
import shoal
worker = shoal.Worker()
worker.declare([shoal.Variable("ledger", (2000,))], examples=2000, optimizer=shoal.SGD(1.0), batch_size=4, epochs=2)
for work in worker:
    hold(work)
    time.sleep(0.01)
    gradient = np.zeros(2000)
    gradient[work.indices] = -1
    work.gradients["ledger"] = gradient
    work.done(0.0)
"""
)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))


def test_random_kills_change_no_byte(tmp_path):
    program = tmp_path / "slow.py"
    program.write_text(SLOW)
    quiet = shoal.launch(str(program), ps=1, workers=1, out=str(tmp_path / "quiet"), flags=SAME_STEPS)
    quiet.wait(120)
    for run in killed_runs(str(program), tmp_path, 60, [*SAME_STEPS, "--save_every=7"]):
        assert variables(run) == variables(quiet)


def test_random_kills_lose_and_double_nothing_in_an_asynchronous_run(tmp_path):
    program = tmp_path / "ledger.py"
    program.write_text(LEDGER)
    for run in killed_runs(str(program), tmp_path, 1000, ["--nosync_replicas", "--save_every=50", SMALL_SLICES]):
        check_ledger(run, 2000)
