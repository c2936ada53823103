"""Metrics by name in runs of the real `shoal`: the same for any number of tasks and under kills."""

import json
import os
import signal
from pathlib import Path

import numpy as np
from test_runs import environment, programs, wait_for_step  # noqa: F401

import shoal
from shoal import _safetensors

# A logistic regression that reports a mean with weights of its own, and two areas under curves.
PROGRAM = """\
import time
import numpy as np
import shoal
worker = shoal.Worker()
random = np.random.default_rng(0)
x = random.normal(size=(1600, 5))
y = x @ np.arange(5) + random.normal(size=1600) > 0
worker.declare([shoal.Variable("w", initial=np.zeros(5))], examples=400, test_examples=1200, batch_size=20, epochs=2,
               optimizer=shoal.Adam(0.05), metrics=["accuracy", "margin", "auc", shoal.AUC("auc_even")])
for work in worker:
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
NAMES = ("margin", "auc", "auc_even", "eval_margin", "eval_auc", "eval_auc_even", "loss", "accuracy", "eval_loss")


def exact_area(scores, labels):
    above = scores[labels][:, None] - scores[~labels][None, :]
    return (above > 0).mean() + (above == 0).mean() / 2


def test_metrics_do_not_depend_on_the_number_of_tasks_or_on_kills(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    flags = ["--replicas_to_aggregate=2", "--save_every=7", "--eval_every=5"]
    calm = shoal.launch(str(program), ps=1, workers=1, out=str(tmp_path / "calm"), flags=flags)
    summary = calm.wait(240)
    wild = shoal.launch(str(program), ps=2, workers=3, out=str(tmp_path / "wild"), flags=flags)
    wait_for_step(wild, 4)
    os.kill(next(programs(wild, 0)), signal.SIGKILL)
    wait_for_step(wild, 9)
    (process,) = (entry["process_id"] for entry in wild.status()["tasks"] if entry["task"] == "ps/1")
    os.kill(process, signal.SIGKILL)
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
    assert "worker/0 died" in output
    assert "ps/1 died" in output
    assert ", auc=0." in output
    assert ", test auc 0." in output
    assert json.loads(Path(wild.directory, "summary.json").read_text())["test_margin"] == summary["test_margin"]
