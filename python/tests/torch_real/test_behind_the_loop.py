"""A program in PyTorch has the final model behind its loop. Needs $SHOAL, which python/test torch sets."""

import numpy as np
import torch
from live_runs import PYTHON

import shoal
from shoal import _safetensors

PROGRAM = """\
import shoal
worker = shoal.Worker()
import torch
import shoal.torch
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
data = torch.utils.data.TensorDataset(torch.arange(160.0).reshape(40, 4) / 160)
trainer = shoal.torch.Trainer(worker, model, shoal.SGD(0.1))
for (x,) in trainer.batches(data, batch_size=8, epochs=40):
    trainer.step((model(x) - x.sum(1, keepdim=True)).square().mean())
torch.save(model.state_dict(), f"{worker.directory}/saved-{worker.index}.pt")
"""


def test_the_models_of_all_workers_have_the_final_values_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))
    program = tmp_path / "saves.py"
    program.write_text(PROGRAM)
    run = shoal.launch(str(program), workers=2, out=str(tmp_path / "run"))
    run.wait(300)
    final = _safetensors.read(run.model_file())
    files = sorted((tmp_path / "run").glob("saved-*.pt"))
    assert files  # A worker that is still starting when such a short run ends does not come so far.
    for file in files:
        saved = torch.load(file)
        assert set(saved) == {*final, "1.num_batches_tracked"}
        for name, values in final.items():
            np.testing.assert_array_equal(saved[name].numpy(), values)
