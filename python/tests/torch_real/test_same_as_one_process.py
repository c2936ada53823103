"""Runs beside one process of PyTorch with all examples of a step: needs $SHOAL, which python/test torch sets."""

import numpy as np
import pytest
import torch.nn.functional as F
from live_runs import PYTHON, SAME_STEPS, variables

import shoal
from shoal import _safetensors

STEPS = 50
BATCH = 8

# Writes the examples of each batch that a worker computes: "STEP INDEX EXAMPLES".
PROGRAM = """\
import sys
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset
import shoal
import shoal.torch

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, 1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-3, weight_decay=0.1),
}


def data():
    draw = torch.Generator().manual_seed(5)
    x = torch.randn(304, 12, generator=draw)
    return x, (x[:, :4].sum(1) > x[:, 4:].square().mean(1)).long()


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 2))


if __name__ == "__main__":
    worker = shoal.Worker()
    model = network()
    trainer = shoal.torch.Trainer(worker, model, OPTIMIZERS[sys.argv[1]](model.parameters()))
    with open(f"{sys.argv[2]}-{worker.index}", "a", buffering=1) as order:
        for x, labels in trainer.batches(TensorDataset(*data()), batch_size=8, max_steps=50):
            work = trainer.work
            print(work.step, work.index, *work.indices.tolist(), file=order)
            trainer.step(F.cross_entropy(model(x), labels))
"""


def steps_of(folder):
    """Returns the examples of each step."""
    steps = {}
    for file in folder.glob("order-*"):
        for line in file.read_text().splitlines():
            step, index, *examples = map(int, line.split())
            steps.setdefault(step, {})[index] = examples
    return [[example for batch in steps[step].values() for example in batch] for step in sorted(steps)]


@pytest.mark.parametrize("rule", ["sgd", "momentum", "adam", "adamw"])
def test_two_workers_are_one_process_with_twice_the_batch(tmp_path, monkeypatch, rule):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    arguments = [rule, str(tmp_path / "order")]
    run = shoal.launch(str(program), ps=2, workers=2, args=arguments, out=str(tmp_path / "run"))
    assert run.wait(300)["steps"] == STEPS
    steps = steps_of(tmp_path)
    assert [len(step) for step in steps] == [2 * BATCH] * STEPS

    names = {"__name__": "program"}
    exec(compile(PROGRAM, "program.py", "exec"), names)
    model, (x, labels) = names["network"](), names["data"]()
    optimizer = names["OPTIMIZERS"][rule](model.parameters())
    for examples in steps:
        optimizer.zero_grad()
        F.cross_entropy(model(x[examples]), labels[examples]).backward()
        optimizer.step()
    # Some gradients are as small as Adam's epsilon, which decides on their updates.
    values = _safetensors.read(run.model_file())
    assert set(values) == {name for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(values[name], parameter.detach().numpy(), rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(("ps", "workers"), [(1, 1), (5, 3)])
def test_the_bytes_do_not_depend_on_the_number_of_tasks(tmp_path, monkeypatch, ps, workers):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    files = []
    for number, (parameter_servers, replicas) in enumerate(((2, 2), (ps, workers))):
        arguments = ["adam", str(tmp_path / f"order-{number}")]
        out = str(tmp_path / f"run-{number}")
        run = shoal.launch(
            str(program), ps=parameter_servers, workers=replicas, args=arguments, out=out, flags=SAME_STEPS
        )
        assert run.wait(300)["steps"] == STEPS
        files.append(variables(run))
    assert files[0] == files[1]
