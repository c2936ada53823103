"""A program that writes into parameters, in a run of the real `shoal`: needs $SHOAL, which python/test torch sets."""

from pathlib import Path

import pytest
from live_runs import PYTHON

import shoal

PROGRAM = """\
import shoal
import shoal.torch
import torch
worker = shoal.Worker()
model = torch.nn.Sequential(torch.nn.Linear(4, 300), torch.nn.Linear(300, 300), torch.nn.Linear(300, 1))
data = torch.utils.data.TensorDataset(torch.arange(160.0).reshape(40, 4) / 160)
trainer = shoal.torch.Trainer(worker, model, shoal.SGD(0.01))
for (x,) in trainer.batches(data, batch_size=4, epochs=2):
    trainer.step(model(x).square().mean())
    for parameter in model.parameters():
        parameter.data.clamp_(-0.01, 0.01)
"""


def test_a_run_whose_program_clips_the_weights_ends_with_the_name_of_a_parameter(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    run = shoal.launch(str(program), ps=1, workers=2, out=str(tmp_path / "run"))
    with pytest.raises(shoal.CommandError):
        run.wait(300)
    log = Path(run.directory, "launch.log").read_text()
    assert run._process.returncode == 78, log
    assert "train.py:8: the program has written into the parameter 0.weight after trainer.step() or in an" in log
    assert "restarting" not in log
    assert "SIGSEGV" not in log
