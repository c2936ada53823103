"""Programs in PyTorch that seed nothing: needs $SHOAL, which python/test torch sets."""

from live_runs import PYTHON, variables

import shoal

# PyTorch is imported after the worker is made, and the trainer's part of the package after that.
PROGRAM = """\
import shoal
worker = shoal.Worker()
import torch
import shoal.torch
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
data = torch.utils.data.TensorDataset(torch.arange(160.0).reshape(40, 4) / 160)
trainer = shoal.torch.Trainer(worker, model, shoal.SGD(0.1))
for (x,) in trainer.batches(data, batch_size=8, epochs=1):
    trainer.step(model(x).square().mean())
"""


def test_initial_values_follow_from_the_runs_seed(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))
    program = tmp_path / "unseeded.py"
    program.write_text(PROGRAM)
    seen = []
    for number, seed in enumerate((3, 3, 4)):
        run = shoal.launch(str(program), workers=2, out=str(tmp_path / str(number)), flags=[f"--seed={seed}"])
        run.wait(300)
        seen.append(variables(run))
    assert seen[0] == seen[1]
    assert all(seen[0][name] != seen[2][name] for name in seen[0])
