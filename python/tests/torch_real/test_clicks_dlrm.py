"""Tables in PyTorch as real runs: needs $SHOAL, which python/test torch sets."""

import json
import os
import re
import subprocess
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from live_runs import PYTHON, SAME_STEPS
from test_safetensors import write
from torch import nn

import shoal
import shoal.torch
from shoal import _safetensors

EXAMPLE = PYTHON / "examples/clicks_dlrm.py"
RUN_FILE = PYTHON.parent / "deploy/runs/clicks_dlrm.textproto"

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


def rows_of(directory):
    """Returns the keys and the values of each table's rows."""
    out = Path(directory, "tables")
    command = [os.environ["SHOAL"], "export", str(directory), f"--tables={out}"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    tables = [path.name.removesuffix(".keys.npy") for path in out.glob("*.keys.npy")]
    return {table: (np.load(out / f"{table}.keys.npy"), np.load(out / f"{table}.values.npy")) for table in tables}


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
    keys, values = rows_of(run.directory)["item"]
    assert len(keys) > 60
    wanted = plain.weight.detach().numpy()[(keys.view(np.int64) + 40)]
    np.testing.assert_allclose(values, wanted, rtol=1e-5, atol=1e-5)
    model = nn.ModuleList([nn.Identity(), nn.Linear(4, 1)])
    shoal.torch.load(run, model)
    np.testing.assert_allclose(model[1].weight.detach(), top.weight.detach(), rtol=1e-5, atol=1e-5)


def test_the_example_learns_the_same_with_any_number_of_tasks(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))
    import clicks_dlrm

    results = []
    for ps, workers in ((0, 1), (2, 2)):
        run = shoal.launch(
            str(EXAMPLE), ps=ps, workers=workers, args=["--examples=20000", "--batch_size=64"],
            out=str(tmp_path / f"run{ps}"), flags=SAME_STEPS,
        )  # fmt: skip
        summary = run.wait(300)
        rows = rows_of(run.directory)
        assert len(rows) == 26 and len(rows["c1"][0]) == 14
        results.append((summary["test_auc"], {table: values.tobytes() for table, (_, values) in rows.items()}))
        scores, labels = use_as_the_page_says(run.directory)
        loss = F.binary_cross_entropy(scores, labels).item()
        assert loss == pytest.approx(summary["test_loss"], rel=1e-5)
        assert clicks_dlrm.auc(scores.numpy(), labels.numpy() > 0) == pytest.approx(summary["test_auc"], abs=1e-4)
    assert results[0] == results[1]
    assert results[0][0] > 0.8


def use_as_the_page_says(directory):
    """Runs the example of docs/tables.md with a run, and returns the probabilities and the labels that it has."""
    page = (PYTHON.parent / "docs/tables.md").read_text()
    section = page.partition("### Use a PyTorch model with tables after training\n")[2]
    example = re.search(r"\n\n((?:    .*\n|\n)+)", section).group(1)
    assert example.count('"runs/clicks"') == 1
    names = {}
    exec(textwrap.dedent(example).replace("runs/clicks", directory), names)
    return names["probabilities"], names["labels"]


# The names that the zoo's model of deploy/runs/clicks_dlrm.textproto gives the layers of the example.
LAYERS = {
    "bottom.0": "bottom1", "bottom.2": "bottom2", "bottom.4": "bottom3", "bottom.6": "bottom",
    "top.0": "top1", "top.2": "top2", "top.4": "logits",
}  # fmt: skip

# The example with the examples and the initial values of the run file's model.
EQUAL = """\
import sys
sys.path.append({folder!r})
import clicks_dlrm
import torch

class Equal(clicks_dlrm.Dlrm):
    def __init__(self):
        super().__init__()
        self.load_state_dict(torch.load({values!r}))

made = clicks_dlrm.clicks
clicks_dlrm.Dlrm, clicks_dlrm.clicks = Equal, lambda count, seed, scale: made(256, 1, scale)
clicks_dlrm.main()
"""


def in_run_file(name, value):
    """Returns a parameter of the example as the run file's model has it: its name, and weights [inputs, units]."""
    layer = LAYERS[name.rpartition(".")[0]]
    return f"{layer}/{'weights' if value.ndim == 2 else 'biases'}", np.ascontiguousarray(value.T)


def optimizer_of(directory):
    text = Path(directory, "run.textproto").read_text()
    return re.search(r"^optimizer {\n(?:  .*\n)*}\n", text, re.MULTILINE).group()


def test_the_example_trains_the_model_of_the_run_file(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))
    import clicks_dlrm

    # All examples are one step, so their order does not matter, and three epochs are three steps.
    data, _ = clicks_dlrm.clicks(256, 1, 0.01)
    numbers, ids, labels = (tensor.numpy() for tensor in data.tensors)
    for split in ("train", "test"):
        np.save(tmp_path / f"x_{split}.npy", numbers)
        np.save(tmp_path / f"y_{split}.npy", labels.astype(np.int64))
        for column, table in enumerate(clicks_dlrm.TABLES):
            np.save(tmp_path / f"{table}_{split}.npy", ids[:, column])
    columns = " ".join(f'ids {{ column: "{table}" }}' for table in clicks_dlrm.TABLES)
    text = RUN_FILE.read_text()
    text, count = re.subn(
        r"^data {\n(?:  .*\n)*}\n",
        f'data {{ format: npy directory: "{tmp_path}" {columns} }}\n',
        text,
        flags=re.MULTILINE,
    )
    assert count == 1
    file = tmp_path / "run.textproto"
    file.write_text(text)

    model = clicks_dlrm.Dlrm()
    torch.save(model.state_dict(), tmp_path / "initial.pt")
    initial = dict(in_run_file(name, value.detach().numpy()) for name, value in model.named_parameters())
    write(tmp_path / "initial.safetensors", initial)
    command = [
        os.environ["SHOAL"], "train", f"--run={file}", f"--init_from={tmp_path / 'initial.safetensors'}",
        "--init_map=c[0-9]+=", "--num_ps_tasks=0", "--num_replicas=1", "--batch_size=256", "--num_epochs=3",
        "--replicas_to_aggregate=1",
        f"--out={tmp_path / 'file'}",
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)

    program = tmp_path / "equal.py"
    program.write_text(EQUAL.format(folder=str(EXAMPLE.parent), values=str(tmp_path / "initial.pt")))
    arguments = ["--batch_size=256", "--epochs=3"]
    run = shoal.launch(str(program), ps=0, workers=1, args=arguments, out=str(tmp_path / "program"))
    assert run.wait(120)["steps"] == 3

    assert optimizer_of(tmp_path / "program") == optimizer_of(tmp_path / "file")
    losses = [json.loads((tmp_path / out / "summary.json").read_text())["test_loss"] for out in ("file", "program")]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    of_file = _safetensors.read(next((tmp_path / "file/checkpoints").glob("*/model.safetensors")))
    of_program = dict(in_run_file(*item) for item in _safetensors.read(run.model_file()).items())
    assert of_file.keys() == of_program.keys() == initial.keys()
    for name, value in of_file.items():
        np.testing.assert_allclose(of_program[name], value, rtol=0, atol=1e-5, err_msg=name)
    file_rows, program_rows = rows_of(tmp_path / "file"), rows_of(run.directory)
    assert len(file_rows) == 26 and file_rows.keys() == program_rows.keys()
    for table, (keys, values) in file_rows.items():
        np.testing.assert_array_equal(program_rows[table][0], keys)
        np.testing.assert_allclose(program_rows[table][1], values, rtol=0, atol=1e-7, err_msg=table)


FACTORS = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset
import shoal
import shoal.torch

worker = shoal.Worker()
torch.manual_seed(0)
USERS, ITEMS = torch.randint(0, 20, (400,)), torch.randint(0, 30, (400,))
CLICKS = ((USERS * 7 + ITEMS * 3) % 5 < 2).float()


class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = shoal.torch.Embedding(table="user", dim=4)
        self.item = shoal.torch.Embedding(table="item", dim=4)

    def forward(self, user, item):
        return (self.user(user) * self.item(item)).sum(1)


model = Factors()
tables = [shoal.Table(name, 4, optimizer=shoal.Adagrad(0.3)) for name in ("user", "item")]
trainer = shoal.torch.Trainer(worker, model, metrics=["auc"], tables=tables)
data = TensorDataset(USERS, ITEMS, CLICKS)
for user, item, click in trainer.batches(data, batch_size=40, epochs=20, test=data):
    score = model(user, item)
    trainer.step(F.binary_cross_entropy_with_logits(score, click), auc=(torch.sigmoid(score.detach()), click))
"""


def test_a_model_may_have_tables_only(tmp_path):
    program = tmp_path / "factors.py"
    program.write_text(FACTORS)
    rows = []
    for ps in (0, 2):
        run = shoal.launch(program, ps=ps, workers=1, out=tmp_path / f"run{ps}")
        run.wait(180)
        assert json.loads(Path(run.directory, "summary.json").read_text())["test_auc"] > 0.7
        rows.append(rows_of(run.directory))
    model = nn.ModuleDict({table: shoal.torch.Embedding(table=table, dim=4) for table in ("user", "item")})
    shoal.torch.load(run, model)
    for table, (keys, values) in rows[0].items():
        assert len(keys) == {"user": 20, "item": 30}[table]
        assert model[table](torch.from_numpy(keys.view(np.int64))).numpy().tobytes() == values.tobytes()
        assert keys.tobytes() == rows[1][table][0].tobytes()
        assert values.tobytes() == rows[1][table][1].tobytes()


# It scores the test data in an evaluation of the run, and behind the loop with rows that were loaded. Some keys of the
# test data are in no training batch, and others are in too few of them to be stored.
SCORES = """\
import sys
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset
import shoal
import shoal.torch

torch.manual_seed(0)
USERS, ITEMS = torch.randint(-2000, 2000, (900,)), torch.randint(-20, 20, (900, 3))
CLICKS = ((USERS + ITEMS.sum(1)) % 3 == 0).float()


class Clicks(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = shoal.torch.Embedding(table="user", dim=7)
        self.item = shoal.torch.EmbeddingBag(table="item", dim=7, mode="mean")
        self.scale = nn.Parameter(torch.ones(7))

    def forward(self, users, items):
        return (self.user(users) * self.item(items) * self.scale).sum(1)


def main():
    worker = shoal.Worker()
    normal = shoal.TruncatedNormal(0.5, 0.3)
    user = shoal.Table("user", 7, optimizer=shoal.Adagrad(0.1), initializer=normal, admission=2)
    item = shoal.Table("item", 7, optimizer=shoal.Adam(0.01), initializer=shoal.Uniform(-0.1, 0.3))
    model = Clicks()
    trainer = shoal.torch.Trainer(worker, model, shoal.Adam(0.01), tables=[user, item], metrics=())
    data = TensorDataset(USERS, ITEMS, CLICKS)
    test = torch.utils.data.Subset(data, range(600, 900))
    for users, items, clicks in trainer.batches(torch.utils.data.Subset(data, range(600)), 20, epochs=2, test=test):
        scores = model(users, items)
        if not trainer.training:
            np.save(f"{sys.argv[1]}/evaluation-{trainer.work.indices[0]}.npy", scores.numpy())
        trainer.step(F.binary_cross_entropy_with_logits(scores, clicks))
    shoal.torch.load(worker.directory, model)
    with torch.no_grad():
        np.save(f"{sys.argv[1]}/behind-{worker.index}.npy", model(USERS[600:], ITEMS[600:]).numpy())


if __name__ == "__main__":
    main()
"""


def test_a_model_that_is_loaded_computes_the_scores_of_the_last_evaluation_of_the_run(tmp_path):
    program = tmp_path / "clicks.py"
    program.write_text(SCORES)
    flags = ["--set=data.evaluation_block=20", "--seed=12345678901234567890"]
    run = shoal.launch(program, ps=1, workers=2, args=[str(tmp_path)], out=tmp_path / "run", flags=flags)
    summary = run.wait(180)
    parts = {int(path.stem.rpartition("-")[2]): np.load(path) for path in tmp_path.glob("evaluation-*.npy")}
    evaluated = np.concatenate([parts[first] for first in sorted(parts)])
    assert len(evaluated) == 300

    names = {"__name__": "clicks"}
    exec(compile(SCORES, "clicks.py", "exec"), names)
    users, items, clicks = (names[name][600:] for name in ("USERS", "ITEMS", "CLICKS"))
    stored = rows_of(run.directory)["user"][0].view(np.int64)
    assert 0 < np.isin(users.numpy(), stored).sum() < 250
    model = names["Clicks"]()
    shoal.torch.load(run, model)
    with torch.no_grad():
        scores = model(users, items)
    assert scores.numpy().tobytes() == evaluated.tobytes()
    loss = F.binary_cross_entropy_with_logits(scores, clicks).item()
    assert loss == pytest.approx(summary["test_loss"], rel=1e-6)
    for worker in (0, 1):
        assert np.load(tmp_path / f"behind-{worker}.npy").tobytes() == evaluated.tobytes()

    again = names["Clicks"]()
    for flag in (f"--model_file={tmp_path / 'model.safetensors'}", f"--tables={tmp_path / 'rows'}"):
        subprocess.run(
            [os.environ["SHOAL"], "export", run.directory, flag], check=True, capture_output=True, timeout=60
        )
    shoal.torch.load(tmp_path / "model.safetensors", again, tables=tmp_path / "rows")
    assert torch.equal(again.train()(users, items), scores)
