"""Tables in PyTorch as real runs: needs $SHOAL, which python/test torch sets."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import shoal
import shoal.torch

PYTHON = Path(shoal.__file__).parents[1]
EXAMPLE = PYTHON / "examples/clicks_dlrm.py"

PARITY = """\
import sys
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset
import shoal
import shoal.torch

torch.manual_seed(0)
KEYS = torch.randint(-40, 40, (400, 3))
LABELS = (KEYS.sum(1) % 3 == 0).float()

if __name__ == "__main__":
    worker = shoal.Worker()
    rule = {"sgd": shoal.SGD(0.5), "adagrad": shoal.Adagrad(0.1, initial_accumulator=0.0, epsilon=1e-10)}[sys.argv[1]]
    torch.manual_seed(1)
    bag, top = shoal.torch.EmbeddingBag(table="item", dim=4, mode="sum"), nn.Linear(4, 1)
    model = nn.ModuleList([bag, top])
    table = shoal.Table("item", 4, optimizer=rule, initializer=0.25)
    trainer = shoal.torch.Trainer(worker, model, shoal.SGD(0.1), tables=[table], metrics=())
    with open(sys.argv[2], "w") as order:
        for keys, labels in trainer.batches(TensorDataset(KEYS, LABELS), batch_size=8, max_steps=50):
            print(*trainer.work.indices.tolist(), file=order)
            loss = F.binary_cross_entropy_with_logits(top(bag(keys)).squeeze(1), labels)
            trainer.step(loss)
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))


def rows_of(run, table):
    out = Path(run.directory, "tables")
    command = [os.environ["SHOAL"], "export", run.directory, f"--tables={out}"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return np.load(out / f"{table}.keys.npy"), np.load(out / f"{table}.values.npy")


@pytest.mark.parametrize("rule", ["sgd", "adagrad"])
def test_fifty_steps_are_those_of_a_sparse_embedding_bag_of_pytorch(tmp_path, rule):
    program, order = tmp_path / "parity.py", tmp_path / "order"
    program.write_text(PARITY)
    run = shoal.launch(str(program), ps=1, workers=1, args=[rule, str(order)], out=str(tmp_path / "run"))
    run.wait(180)

    names = {"__name__": "parity"}
    exec(compile(PARITY, "parity.py", "exec"), names)
    torch.manual_seed(1)
    top = nn.Linear(4, 1)
    plain = nn.EmbeddingBag(80, 4, mode="sum", sparse=True)
    with torch.no_grad():
        plain.weight.fill_(0.25)
    rows = {"sgd": torch.optim.SGD([plain.weight], 0.5), "adagrad": torch.optim.Adagrad([plain.weight], 0.1)}[rule]
    dense = torch.optim.SGD(top.parameters(), 0.1)
    for line in order.read_text().splitlines():
        indices = torch.tensor([int(word) for word in line.split()])
        loss = F.binary_cross_entropy_with_logits(
            top(plain(names["KEYS"][indices] + 40)).squeeze(1), names["LABELS"][indices]
        )
        rows.zero_grad()
        dense.zero_grad()
        loss.backward()
        rows.step()
        dense.step()
    keys, values = rows_of(run, "item")
    assert len(keys) > 60
    wanted = plain.weight.detach().numpy()[(keys.view(np.int64) + 40)]
    np.testing.assert_allclose(values, wanted, rtol=1e-5, atol=1e-5)
    model = nn.ModuleList([nn.Identity(), nn.Linear(4, 1)])
    shoal.torch.load(run, model)
    np.testing.assert_allclose(model[1].weight.detach(), top.weight.detach(), rtol=1e-5, atol=1e-5)


def test_the_example_learns_the_same_with_any_number_of_tasks(tmp_path):
    results = []
    for ps, workers in ((0, 1), (2, 2)):
        run = shoal.launch(
            str(EXAMPLE), ps=ps, workers=workers, args=["--examples=20000", "--users=200", "--items=100", "--epochs=1"],
            out=str(tmp_path / f"run{ps}"), flags=["--replicas_to_aggregate=2"],
        )  # fmt: skip
        summary = run.wait(300)
        keys, values = rows_of(run, "user")
        results.append((summary["test_auc"], keys.tobytes(), values.tobytes()))
        assert len(keys) == 200
    assert results[0] == results[1]
    assert results[0][0] > 0.65
