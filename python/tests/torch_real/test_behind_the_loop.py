"""A program in PyTorch has the final model behind its loop. Needs $SHOAL, which python/test torch sets."""

import numpy as np
import pytest
import torch
from live_runs import PYTHON

import shoal
from shoal import _safetensors

PROGRAM = """\
import os, sys, time
import shoal
worker = shoal.Worker()
# Worker 0 is late: it is ready only when worker 1 has finished the run. The launcher's question has no logs yet.
while "late" in sys.argv and worker.index == 0 and os.path.isdir(f"{worker.directory}/logs"):
    time.sleep(0.1)
    if os.path.exists(f"{worker.directory}/summary.json"):
        break
import torch
import shoal.torch
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
data = torch.utils.data.TensorDataset(torch.arange(160.0).reshape(40, 4) / 160)
trainer = shoal.torch.Trainer(worker, model, shoal.SGD(0.1))
for (x,) in trainer.batches(data, batch_size=8, epochs=40):
    trainer.step((model(x) - x.sum(1, keepdim=True)).square().mean())
torch.save(model.state_dict(), f"{worker.directory}/saved-{worker.index}.pt")
"""


@pytest.mark.parametrize("args", [[], ["late"]])
def test_the_models_of_all_workers_have_the_final_values_of_the_run(args, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))
    program = tmp_path / "saves.py"
    program.write_text(PROGRAM)
    run = shoal.launch(str(program), workers=2, args=args, out=str(tmp_path / "run"))
    run.wait(300)
    final = _safetensors.read(run.model_file())
    files = sorted((tmp_path / "run").glob("saved-*.pt"))
    assert len(files) == 2, (tmp_path / "run/launch.log").read_text()
    for file in files:
        saved = torch.load(file)
        assert set(saved) == {*final, "1.num_batches_tracked"}
        for name, values in final.items():
            np.testing.assert_array_equal(saved[name].numpy(), values)
