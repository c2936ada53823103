"""Metrics by name in runs of the real `shoal`: the same for any number of tasks and under kills."""

import json
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from live_runs import HOLD, process_of, programs, wait_for_line, wait_for_step
from test_runs import environment, held  # noqa: F401

import shoal
from shoal import _safetensors

# A logistic regression that reports a mean with weights of its own, and two areas under curves.
PROGRAM = (
    HOLD
    + """\
import numpy as np
import shoal
worker = shoal.Worker()
random = np.random.default_rng(0)
x = random.normal(size=(1600, 5))
y = x @ np.arange(5) + random.normal(size=1600) > 0
worker.declare([shoal.Variable("w", initial=np.zeros(5))], examples=400, test_examples=1200, batch_size=20, epochs=2,
               optimizer=shoal.Adam(0.05), metrics=["accuracy", "margin", "auc", shoal.AUC("auc_even")])
for work in worker:
    hold(work)
    time.sleep(0.02)
    rows = work.indices if work.is_training else work.indices + 400
    p = 1 / (1 + np.exp(-(x[rows] @ work.parameters["w"])))
    if work.is_training:
        work.gradients["w"] = x[rows].T @ (p - y[rows]) / len(rows)
    even = rows % 2 == 0
    work.done(
        -np.log(np.where(y[rows], p, 1 - p)).sum(),
        metrics={
            "accuracy": (p > 0.5) == y[rows],
            "margin": (np.abs(p - 0.5).sum(), y[rows].sum()),
            "auc": (p, y[rows]),
            "auc_even": (p[even], y[rows][even]),
        },
    )
"""
)
NAMES = ("margin", "auc", "auc_even", "eval_margin", "eval_auc", "eval_auc_even", "loss", "accuracy", "eval_loss")


def exact_area(scores, labels):
    above = scores[labels][:, None] - scores[~labels][None, :]
    return (above > 0).mean() + (above == 0).mean() / 2


def test_metrics_do_not_depend_on_the_number_of_tasks_or_on_kills(tmp_path, held):  # noqa: F811
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    flags = ["--replicas_to_aggregate=2", "--save_every=7", "--eval_every=5"]
    calm = shoal.launch(str(program), ps=1, workers=1, out=str(tmp_path / "calm"), flags=flags)
    summary = calm.wait(240)
    release = held(13)
    wild = shoal.launch(str(program), ps=2, workers=3, out=str(tmp_path / "wild"), flags=flags)
    wait_for_step(wild, 4)
    os.kill(next(programs(wild, 0)), signal.SIGKILL)
    wait_for_line(wild, "worker/0 died")
    wait_for_step(wild, 9)
    os.kill(process_of(wild, "ps/1"), signal.SIGKILL)
    release.unlink()
    assert wild.wait(240)["status"] == "finished"
    of_calm, of_wild = calm.metrics(), wild.metrics()
    assert len(of_calm["step"]) == 20
    for name in NAMES:
        np.testing.assert_array_equal(of_calm[name], of_wild[name], err_msg=name)
    assert np.isfinite(of_calm["auc"]).all()
    assert np.isfinite(of_calm["eval_auc"]).sum() == 4

    # The area over the whole test data, by its definition.
    random = np.random.default_rng(0)
    x = random.normal(size=(1600, 5))
    y = x @ np.arange(5) + random.normal(size=1600) > 0
    w = _safetensors.read(calm.model_file())["w"]
    p = (1 / (1 + np.exp(-(x @ w))))[400:].astype(np.float32)
    assert abs(summary["test_auc"] - exact_area(p, y[400:])) < 1e-4
    assert abs(summary["test_auc_even"] - exact_area(p[::2], y[400:][::2])) < 1e-4
    assert summary["test_auc"] == of_calm["eval_auc"][-1]
    output = Path(wild.directory, "launch.log").read_text()
    assert "ps/1 died" in output
    assert ", auc=0." in output
    assert ", test auc 0." in output
    assert json.loads(Path(wild.directory, "summary.json").read_text())["test_margin"] == summary["test_margin"]


# Its accuracy is that of halves of examples, a multiple of no block size, or nothing at all.
COUNTS = """\
import sys
import numpy as np
import shoal
worker = shoal.Worker()
worker.declare([shoal.Variable("w", (4,))], examples=40, test_examples=37, batch_size=10, epochs=2,
               optimizer=shoal.SGD(0.1), metrics=["accuracy", "f1"])
for work in worker:
    rows = work.indices
    metrics = {"f1": np.where(work.is_training & (rows == 7), np.nan, 0.25)}
    if sys.argv[1] == "accuracy":
        metrics["accuracy"] = np.stack([rows % 3 == 0, rows % 7 == 0])
    work.done(len(rows), metrics=metrics)
"""


@pytest.mark.parametrize("block", [5, 16])
def test_the_accuracy_of_a_program_does_not_depend_on_blocks(block, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(COUNTS)
    flags = [f"--set=data.evaluation_block={block}"]
    run = shoal.launch(str(program), ps=1, workers=2, out=str(tmp_path / "run"), flags=flags, args=["accuracy"])
    assert run.wait(240)["test_accuracy"] == (13 + 6) / 74
    metrics = run.metrics()
    assert (metrics["accuracy"] * 20 == (metrics["accuracy"] * 20).round()).all()
    np.testing.assert_allclose(metrics["accuracy"][:4].sum(), (14 + 6) / 20)


def test_an_accuracy_that_is_never_reported_is_absent_and_a_metric_that_is_not_finite_is_null(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(COUNTS)
    run = shoal.launch(str(program), ps=1, workers=1, out=str(tmp_path / "run"), args=["nothing"])
    summary = run.wait(240)
    assert summary["status"] == "finished"
    assert summary["test_accuracy"] is None
    assert summary["test_f1"] == 0.25
    metrics = run.metrics()
    assert np.isnan(metrics["accuracy"]).all()
    assert sorted(metrics["f1"][:4], key=np.isnan)[:3] == [0.25] * 3
    assert np.isnan(metrics["f1"]).sum() == 2  # Once in an epoch.
    console = Path(run.directory, "launch.log").read_text()
    assert "acc=" not in console
    # The run takes less than a second, and is over before its chief is asked for news.
    assert re.fullmatch(r"warning: the metric f1 of step \d is not finite .*", summary["metric_warning"])
    assert console.count(summary["metric_warning"]) == 1
    page = Path(run.directory, "report.html").read_text()
    assert len(re.findall(r"the metric f1 of step \d is not finite and is recorded as null", page)) == 1
    log = Path(run.directory, "logs/worker-0.log").read_text()
    assert re.search(r"program.py: metric f1 is not finite in step \d, batch \d of epoch 1 of worker/0", log)
    assert log.count("metric f1") == 1
