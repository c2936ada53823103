"""Modules whose names have characters that names of variables have not, as those of PyTorch Geometric."""

import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fake_worker import play
from test_safetensors import write
from test_training import DATA, mlp
from torch import nn

import shoal
import shoal.torch
from shoal.torch.model import named_models, tensors_of, variable_name

RELATION = "<author___writes#paper>"


class Relations(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.convs = nn.ModuleDict({RELATION: nn.Linear(8, 2), "with-a-dash/3c": nn.BatchNorm1d(8)})
        self.register_buffer("of größe", torch.ones(2))

    def forward(self, x):
        self.get_buffer("of größe").add_(1)
        return self.convs[RELATION](self.convs["with-a-dash/3c"](x))


NAMES = [
    "of..20.gr..f6...df.e",
    "convs...3c.author___writes..23.paper..3e..weight",
    "convs...3c.author___writes..23.paper..3e..bias",
    "convs.with-a-dash/3c.weight",
    "convs.with-a-dash/3c.bias",
    "convs.with-a-dash/3c.running_mean",
    "convs.with-a-dash/3c.running_var",
    "convs.with-a-dash/3c.num_batches_tracked",
]


def test_other_characters_become_numbers_and_the_names_that_were_possible_stay():
    assert [entry.name for entry in tensors_of(named_models(Relations()))] == NAMES
    for name in ("0.weight", "a/b-c_d.0.weight", "..3c."):
        assert variable_name(name) == name
    paths = ["a<b", "a.<b", "a<.b", "a<<b", "a-3c-b", "a.3c.b", "a\u0130b", "a i b"]
    assert len({variable_name(path) for path in paths}) == len(paths)
    assert all(shoal.Variable(variable_name(path)).name for path in paths)


def test_a_model_with_such_names_trains_and_gets_the_variables_of_its_run(tmp_path):
    model = Relations()

    def program(worker):
        optimizer = torch.optim.AdamW(model.parameters(), 0.1)
        converted = shoal.torch.from_torch(optimizer, model)
        trainer = shoal.torch.Trainer(worker, model, converted, statistics=["of größe"])
        for batch in trainer.batches(DATA, batch_size=8):
            trainer.step(F.cross_entropy(model(batch[0]), batch[1]))

    def scenario(fake):
        values = fake.handshake()
        result = fake.train(values, range(8))
        fake.finish()
        return values, result.contributions

    values, contributions = play(program, scenario)
    assert sorted(values) == sorted(name for name in NAMES if not name.endswith("tracked"))
    np.testing.assert_array_equal(contributions[NAMES[0]], [2, 2])
    assert contributions[NAMES[1]].any()
    own = {name: tensor.numpy() for name, tensor in model.state_dict().items() if tensor.dtype == torch.float32}
    for arrays in (values, {name: array + 1 for name, array in own.items()}):  # A file of the run, and one of PyTorch.
        loaded = Relations()
        shoal.torch.load(write(tmp_path / "m", arrays), loaded)
        for name, tensor in loaded.state_dict().items():
            if tensor.dtype == torch.float32:
                np.testing.assert_array_equal(tensor, arrays.get(name, arrays.get(variable_name(name))))


def test_groups_find_parameters_with_such_names():
    model = Relations()
    groups = [
        {"params": model.convs[RELATION].parameters(), "lr": 0.5},
        {"params": model.convs["with-a-dash/3c"].parameters()},
    ]
    (group,) = shoal.torch.from_torch(torch.optim.SGD(groups, 0.1), model).groups
    found = [name for name in NAMES if re.fullmatch(group.variables, name)]
    assert found in (NAMES[1:3], NAMES[3:5])


@pytest.mark.parametrize("name", ["seen <", "my weight"])
def test_a_buffer_that_a_batch_changes_is_named_as_the_run_names_it(name):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = mlp()
            self.register_buffer(name, torch.zeros(2))

        def forward(self, x):
            self.get_buffer(name).add_(1)
            return self.layer(x)

    def program(worker, statistics=()):
        model = Counting()
        trainer = shoal.torch.Trainer(worker, model, shoal.SGD(0.1), statistics=statistics)
        for batch in trainer.batches(DATA, batch_size=8):
            trainer.step(F.cross_entropy(model(batch[0]), batch[1]))

    def scenario(fake):
        try:
            fake.train(fake.handshake(), range(8))
            fake.finish()
        except Exception:  # noqa: BLE001 - the program's error is the one that counts
            return

    with pytest.raises(shoal.ProgramError) as raised:
        play(program, scenario)
    assert f"statistics=[{variable_name(name)!r}]" in str(raised.value)
    play(lambda worker: program(worker, [variable_name(name)]), scenario)
