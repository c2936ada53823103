"""Writes of a program into parameters on the CPU, which are views of memory that belongs to the worker."""

import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fake_worker import play
from test_guard import refusal, usual
from test_training import drive, mlp, program
from torch import nn

import shoal
import shoal.torch
from shoal.torch import watch


def in_place(model):
    with torch.no_grad():
        model[0].weight.clamp_(-0.01, 0.01)


def in_place_without_another_value(model):
    with torch.no_grad():
        model[0].weight.clamp_(-100, 100)


def through_data(model):
    model[0].weight.data.clamp_(-0.01, 0.01)


def through_an_array(model):
    model[0].weight.detach().numpy()[0, 0] += 1


def by_a_state(model):
    model.load_state_dict({name: torch.zeros_like(value) for name, value in model.state_dict().items()})


def by_an_update(model):
    with torch.no_grad():
        torch._foreach_add_([model[0].weight], [torch.ones(16, 8)])


WRITES = [in_place, in_place_without_another_value, through_data, through_an_array, by_a_state, by_an_update]
WRITTEN = "the program has written into the parameter 0.weight"
BEFORE = ", before it came to this line; parameters belong to the run, which updates them by itself"
BEHIND = f"{WRITTEN} after trainer.step() or in an evaluation{BEFORE}"


@pytest.mark.parametrize("write", WRITES)
def test_a_write_behind_step_is_refused(write):
    def body(trainer, model, batch):
        usual(trainer, model, batch)
        write(model)

    assert BEHIND in refusal(mlp, body)


@pytest.mark.parametrize("write", WRITES)
def test_a_write_before_step_is_refused(write):
    def body(trainer, model, batch):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        if trainer.work.index == 2:  # The third batch.
            write(model)
        trainer.step(loss)

    text = refusal(mlp, body, batches=3)
    assert f"{WRITTEN}{BEFORE}" in text


@pytest.mark.parametrize("write", WRITES)
def test_a_write_in_the_first_evaluation_is_refused(write):
    def body(trainer, model, batch):
        usual(trainer, model, batch)
        if not trainer.training:
            write(model)

    text = refusal(mlp, body, evaluates=True)
    assert BEHIND in text

    def later(fake):
        values = fake.handshake()
        for index in range(5):
            fake.train(values, range(8), index=index)
        fake.evaluate(values, range(8))

    with pytest.raises(shoal.ProgramError) as raised:
        play(program(mlp(), shoal.SGD(0.1), body), later)
    assert BEHIND in str(raised.value)


def test_a_write_into_a_frozen_parameter_is_refused():
    def body(trainer, model, batch):
        usual(trainer, model, batch)
        through_data(model)

    def frozen():
        model = mlp()
        model[0].requires_grad_(False)
        return model

    assert BEHIND in refusal(frozen, body)


@pytest.mark.parametrize("batch_of_it", [0, 5])
def test_a_parameter_that_gets_other_memory_behind_step_is_refused(batch_of_it):
    def body(trainer, model, batch):
        index = trainer.work.index
        usual(trainer, model, batch)
        if index == batch_of_it:
            model[0].weight.data = model[0].weight.data.clamp(-0.01, 0.01)

    text = refusal(mlp, body, batches=7)
    assert "the parameter 0.weight was replaced after trainer.step() or in an evaluation" in text
    assert text.endswith("and leave the values of parameters to the run")


def evaluate(fake, ps, step):
    fake.evaluate(ps.values, range(8))


def test_a_program_that_writes_nothing_trains_with_the_same_bytes(monkeypatch):
    values = []
    for careful in (3, 0):
        monkeypatch.setattr(watch, "_CAREFUL_BATCHES", careful)
        values.append(play(program(mlp(), shoal.SGD(0.1)), drive(6, 1, 8, shoal.SGD(0.1), evaluate))[0])
    assert {n: v.tobytes() for n, v in values[0].items()} == {n: v.tobytes() for n, v in values[1].items()}


def test_without_room_for_copies_a_program_trains(monkeypatch):
    def fail(worker, number):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(shoal.Worker, "_copy_parameters", fail)
    play(program(mlp(), shoal.SGD(0.1)), drive(4, 1, 8, shoal.SGD(0.1), evaluate))


def test_a_copy_of_the_parameters_is_the_programs_own_and_has_the_alignment_of_the_shared_memory():
    seen = []

    def run(worker):
        worker.declare([shoal.Variable("a", (3,)), shoal.Variable("b", (2, 2))], examples=4, batch_size=4)
        for work in worker:
            copy = worker._copy_parameters(work.parameter_set)
            seen.append({name: value.copy() for name, value in copy.items()})
            for name, value in copy.items():
                value += 1
                assert not np.array_equal(work.parameters[name], value)
                assert (value.ctypes.data - work.parameters[name].ctypes.data) % 4096 == 0
            work.done(0)

    def scenario(fake):
        fake.handshake()
        for number in range(1, 4):
            fake.train({"a": np.full(3, number, np.float32), "b": np.full((2, 2), -number, np.float32)}, range(4))
            for name, sign in (("a", 1), ("b", -1)):
                assert (fake.parameters[number % 2][name] == sign * number).all()
        fake.finish()

    play(run, scenario)
    assert [(values["a"].tolist(), values["b"].tolist()) for values in seen] == [
        ([n] * 3, [[-n] * 2] * 2) for n in (1, 2, 3)
    ]


def test_the_result_of_an_early_batch_waits_for_the_end_of_the_loops_body():
    has_ended = threading.Event()

    def body(trainer, model, batch):
        usual(trainer, model, batch)
        if trainer.work.index == 0:
            with pytest.raises(shoal.ProgramError, match="is called for batch 0 of epoch 1 after done"):
                trainer.work.progress()
            has_ended.set()

    def scenario(fake):
        values = fake.handshake()
        fake.train(values, range(8))
        assert has_ended.is_set()
        for index in range(1, 5):
            fake.train(values, range(8), index=index)
        fake.finish()

    play(program(mlp(), shoal.SGD(0.1), body), scenario)


# Parameters that are not those of the start.


class Lazy(nn.Module):
    """Makes its last layer in the first forward pass, as a program does that learns the size from the data."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 4)
        self.last = None

    def forward(self, x):
        x = self.first(x)
        if self.last is None:
            self.last = nn.Linear(x.shape[1], 2)
        return self.last(x)


def test_a_layer_that_the_first_batch_makes_is_refused():
    assert "the parameter last.weight is another one than at the start, or is new" in refusal(Lazy)


def test_a_layer_that_is_replaced_later_is_refused(monkeypatch):
    monkeypatch.setattr(watch, "_INTERVAL", 8)

    def body(trainer, model, batch):
        if trainer.work.index == 5:
            model[2] = nn.Linear(16, 2)
        usual(trainer, model, batch)

    text = refusal(mlp, body, batches=10)
    assert "the parameter 2.weight is another one than at the start, or is new, and the run does not train it" in text


class Viewing(nn.Module):
    def __init__(self, view):
        super().__init__()
        self.embedding = nn.Linear(8, 2, bias=False)
        view(self)

    def forward(self, x):
        return self.embedding(x)


def as_an_attribute(module):
    module.transposed = module.embedding.weight.t()


def as_an_item(module):
    module.views = [module.embedding.weight, module.embedding.weight.data]


def as_a_buffer(module):
    module.register_buffer("rows", module.embedding.weight.detach()[:1], persistent=False)


@pytest.mark.parametrize(
    ("view", "name"), [(as_an_attribute, "transposed"), (as_an_item, "views"), (as_a_buffer, "rows")]
)
def test_a_view_of_a_parameter_that_a_module_keeps_has_a_warning(view, name, capsys):
    play(program(nn.Sequential(Viewing(view)), shoal.SGD(0.1)), drive(3, 1, 8, shoal.SGD(0.1)))
    warning = f"shoal: warning: 0.{name} is a view of the parameter 0.embedding.weight from before the loop"
    assert capsys.readouterr().out.count(warning) == 1


def test_modules_without_views_have_no_warning(capsys):
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(8, 4, batch_first=True)
            self.out = torch.nn.utils.spectral_norm(nn.Linear(4, 2))
            self.mask = torch.ones(3)

        def forward(self, x):
            return self.out(self.lstm(x.unsqueeze(1))[0][:, -1])

    options = {"trainer": {"statistics": ["out.weight_u", "out.weight_v"]}}
    play(program(Recurrent(), shoal.SGD(0.1), **options), drive(3, 1, 8, shoal.SGD(0.1)))
    assert "view" not in capsys.readouterr().out


@pytest.mark.parametrize("view", [lambda weight: weight.t(), lambda weight: weight.permute(1, 0)])
def test_a_parameter_that_is_a_transposed_view_of_another_is_refused(view):
    def tied():
        model = nn.Sequential(nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False), nn.Linear(8, 2))
        model[1].weight = nn.Parameter(view(model[0].weight))
        return model

    text = refusal(tied)
    assert "0.weight and 1.weight share memory" in text or "1.weight and 0.weight share memory" in text


def test_columns_of_one_matrix_may_be_parameters():
    base = torch.randn(2, 16)
    model = nn.Sequential(nn.Linear(8, 2, bias=False))
    model[0].weight = nn.Parameter(base[:, ::2])
    model.register_parameter("other", nn.Parameter(base[:, 1::2]))
    play(program(model, shoal.SGD(0.1)), drive(2, 1, 8, shoal.SGD(0.1)))
