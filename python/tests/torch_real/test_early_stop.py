"""The recipe for early stopping in docs/porting_pytorch.md. Needs $SHOAL, which python/test torch sets."""

import re
import textwrap
from pathlib import Path

import torch
from live_runs import PYTHON

import shoal
import shoal.torch

PAGE = PYTHON.parent / "docs/porting_pytorch.md"
# The test data are as large as the training data and have other labels, so the loss soon rises.
HEAD = """\
import math
import torch
import torch.nn.functional as F
from torch.utils.data import TensorDataset
import shoal
import shoal.torch
worker = shoal.Worker()
model = torch.nn.Linear(4, 2)
draw = torch.Generator().manual_seed(3)
x = torch.randn(64, 4, generator=draw)
train_set = TensorDataset(x, (x[:, 0] > 0).long())
test_set = TensorDataset(x, (x[:, 0] < 0).long())
trainer = shoal.torch.Trainer(worker, model, shoal.Adam(0.05))
"""


def recipe():
    section = PAGE.read_text().split("## Stop early")[1].split("\n## ")[0]
    return textwrap.dedent(re.search(r"\n\n((?: {4}.*\n|\n)+)", section)[1])


def test_the_recipe_for_early_stopping_ends_a_run_before_its_epochs(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))
    program = tmp_path / "train.py"
    program.write_text(HEAD + recipe())
    run = shoal.launch(str(program), ps=1, workers=2, out=str(tmp_path / "run"))
    summary = run.wait(300)
    output = Path(run.directory, "launch.log").read_text()
    assert summary["status"] == "stopped", output
    assert run._process.returncode == 143, output
    assert 0 < summary["steps"] < 100 * 64 // (2 * 8)
    losses = run.metrics()["eval_loss"]
    assert (losses == losses).sum() >= 4
    shoal.torch.load(run, torch.nn.Linear(4, 2))
