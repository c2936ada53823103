"""kill -9 of PyTorch programs, workers and parameter servers at random moments: SHOAL_KILLS of them, 4 by default.

SHOAL_KILLS=50 python/test torch -k random_kills
"""

from live_runs import HOLD, PYTHON, SAME_STEPS, killed_runs, variables

import shoal

# Batch norm and dropout: a repeated batch must find the same buffers and draw the same mask.
PROGRAM = (
    HOLD
    + """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset
import shoal
import shoal.torch

if __name__ == "__main__":
    worker = shoal.Worker()
    draw = torch.Generator().manual_seed(5)
    x = torch.randn(600, 12, generator=draw)
    labels = (x[:, :4].sum(1) > x[:, 4:].square().mean(1)).long()
    model = nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 2))
    trainer = shoal.torch.Trainer(worker, model, torch.optim.Adam(model.parameters(), 1e-3))
    for rows, wanted in trainer.batches(TensorDataset(x, labels), batch_size=10, max_steps=120):
        hold(trainer.work)
        time.sleep(0.02)
        trainer.step(F.cross_entropy(model(rows), wanted))
"""
)


def test_random_kills_change_no_byte_of_a_pytorch_model(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    quiet = shoal.launch(str(program), ps=1, workers=1, out=str(tmp_path / "quiet"), flags=SAME_STEPS)
    assert quiet.wait(300)["steps"] == 120
    for run in killed_runs(str(program), tmp_path, 120, [*SAME_STEPS, "--save_every=7"]):
        assert variables(run) == variables(quiet)
