"""Misuses of shoal.torch, each with one message that names the file and the line."""

import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fake_worker import play
from test_training import DATA, mlp
from torch import nn

import shoal
import shoal.torch
from shoal.errors import describe

STATE = {
    "half precision": (lambda: mlp().half(), "the parameter 0.weight is torch.float16; parameters are float32"),
    "double": (lambda: mlp().double(), "the parameter 0.weight is torch.float64"),
    "a lazy layer": (lambda: nn.LazyLinear(3), "the parameter weight has no shape yet; compute one batch"),
    "the meta device": (lambda: nn.Linear(2, 2, device="meta"), "the parameter weight is on the device meta"),
    "no parameters": (lambda: nn.ReLU(), "the model has no parameters"),
    "no model": (lambda: [1, 2], "model is a list; it must be an nn.Module"),
    "a function": (lambda: F.relu, "it must be an nn.Module, or a list or dict of them"),
    "all frozen": (lambda: mlp().requires_grad_(False), "none of the variables is trainable"),
    "a value that is not finite": (lambda: _filled(mlp(), float("nan")), "variable 0.weight: the initial value is not"),
    "a long name": (lambda: nn.ParameterDict({"w" * 257: nn.Parameter(torch.ones(2))}), "must have 1 to 256 of"),
}


def _filled(model, value):
    with torch.no_grad():
        model[0].weight.fill_(value)
    return model


@pytest.mark.parametrize("name", list(STATE))
def test_a_model_that_cannot_be_trained_is_refused_at_the_start(name):
    make, message = STATE[name]

    def program(worker):
        for _ in shoal.torch.Trainer(worker, make(), shoal.SGD(0.1)).batches(DATA, batch_size=8):
            pass

    _expect(program, lambda fake: fake.welcome(), message)


class Counting(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layer = mlp()
        self.kind = kind
        self.register_buffer("seen", torch.zeros(2, dtype=torch.int64 if kind == "integer" else torch.float32))

    def forward(self, x):
        if self.kind == "replaced":
            self.seen = self.seen + 1
        else:
            self.seen += 1
        return self.layer(x)


def usual(trainer, model, batch):
    trainer.step(F.cross_entropy(model(batch[0]), batch[1]))


def without_step(trainer, model, batch):
    pass


def replaced(trainer, model, batch):
    loss = F.cross_entropy(model(batch[0]), batch[1])
    model[0].weight.data = torch.zeros(16, 8)
    trainer.step(loss)


def frozen_later(trainer, model, batch):
    loss = F.cross_entropy(model(batch[0]), batch[1])
    model[0].requires_grad_(False)
    trainer.step(loss)


def with_optimizer(trainer, model, batch):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    F.cross_entropy(model(batch[0]), batch[1]).backward()
    optimizer.step()


def with_scheduler(optimizer):
    torch.optim.lr_scheduler.StepLR(optimizer, 1)


def with_other_rate(optimizer):
    optimizer.param_groups[0]["lr"] *= 0.5


def with_another_group(optimizer):
    optimizer.add_param_group({"params": _weights()})


def twice(trainer, model, batch):
    usual(trainer, model, batch)
    trainer.step(torch.tensor(1.0))


BODIES = {
    "no step": (mlp, without_step, "batch 0 of epoch 1 ended without trainer.step(loss)"),
    "two steps": (mlp, twice, "trainer.step() is called for batch 0 of epoch 1 after step()"),
    "no loss": (mlp, lambda t, m, b: t.step(), "step() needs the loss of the batch"),
    "a loss without gradients": (mlp, lambda t, m, b: t.step(torch.tensor(1.0)), "does not depend on the parameters"),
    "a loss of another shape": (mlp, lambda t, m, b: t.step(m(b[0])), "the loss has the shape (8, 2); it must be"),
    "a loss that is a text": (mlp, lambda t, m, b: t.step("low"), "the loss is a str; it must be a tensor"),
    "an unknown metric": (mlp, lambda t, m, b: t.step(m(b[0]).mean(), f1=0.5), "the metric 'f1' was not declared"),
    "too many examples": (mlp, lambda t, m, b: t.backward(m(b[0]).mean(), 9), "backward() of 9 examples: 0 of 8"),
    "a part of the batch": (
        mlp,
        lambda t, m, b: (t.backward(m(b[0]).mean(), 4), t.step()),
        "step() needs the loss of the batch",
    ),
    "a replaced parameter": (mlp, replaced, "the parameter 0.weight was replaced, its shape is (16, 8)"),
    "a parameter that is frozen later": (mlp, frozen_later, "requires_grad of 0.weight has changed"),
    "an optimizer's step": (mlp, with_optimizer, "SGD.step() would change parameters that belong to the run"),
    "a buffer that changes": (lambda: Counting("float"), usual, "name it: Trainer(…, statistics=['seen'])"),
    "a counter": (lambda: Counting("integer"), usual, "the buffer seen (torch.int64) changes with a batch"),
    "a replaced buffer": (lambda: Counting("replaced"), usual, "the buffer seen was replaced by another tensor"),
}


@pytest.mark.parametrize("name", list(BODIES))
def test_a_misuse_in_the_loop_has_one_message_with_file_and_line(name):
    make, body, message = BODIES[name]

    def program(worker):
        model = make()
        trainer = shoal.torch.Trainer(worker, model, shoal.SGD(0.1))
        for batch in trainer.batches(DATA, batch_size=8):
            body(trainer, model, batch)

    _expect(program, _one_batch, message)


def whole_model(model):
    model.train()


def a_part(model):
    model[0].train()


def its_dropout(model):
    model[3].train()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (whole_model, "the model is in training mode in an evaluation, which it would spoil"),
        (a_part, "the module 0 is in training mode in an evaluation"),
        (its_dropout, None),  # An estimate of uncertainty.
    ],
)
def test_an_evaluation_in_training_mode_is_refused(change, message):
    def program(worker):
        model = nn.Sequential(*mlp(), nn.Dropout(0.5))
        trainer = shoal.torch.Trainer(worker, model, shoal.SGD(0.1))
        for batch in trainer.batches(DATA, batch_size=8, test=DATA):
            change(model)
            usual(trainer, model, batch)

    def scenario(fake):
        values = fake.handshake()
        fake.train(values, range(8))
        try:
            fake.evaluate(values, range(8))
        except Exception:  # noqa: BLE001 - the program's error is the one that counts
            return
        fake.finish()

    if message is None:
        play(program, scenario)
    else:
        _expect(program, scenario, message)


def test_a_buffer_that_is_named_becomes_a_variable():
    def program(worker):
        model = Counting("float")
        trainer = shoal.torch.Trainer(worker, model, shoal.SGD(0.1), statistics=["seen"])
        for batch in trainer.batches(DATA, batch_size=8):
            usual(trainer, model, batch)

    def scenario(fake):
        values = fake.handshake()
        result = fake.train({**values, "seen": np.full(2, 5, np.float32)}, range(8))
        fake.finish()
        return result.contributions["seen"].tolist()

    assert play(program, scenario) == [6, 6]


@pytest.mark.parametrize("change", [with_scheduler, with_other_rate, with_another_group])
def test_changes_of_an_optimizer_that_the_run_would_not_follow_are_refused(change):
    def program(worker):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        trainer = shoal.torch.Trainer(worker, model, optimizer)
        for batch in trainer.batches(DATA, batch_size=8):
            change(optimizer)
            usual(trainer, model, batch)

    _expect(program, _one_batch, "shoal.torch.from_torch(optimizer, model, schedule=shoal.Cosine())")


def test_the_error_of_a_loop_for_each_epoch_says_to_write_one_loop():
    def program(worker):
        model = mlp()
        trainer = shoal.torch.Trainer(worker, model, shoal.SGD(0.1))
        for _ in range(3):
            for batch in trainer.batches(DATA, batch_size=8, epochs=1):
                usual(trainer, model, batch)

    def scenario(fake):
        fake.train(fake.handshake(), range(8))
        fake.finish()

    _expect(program, scenario, "trainer.batches() was called a second time; one loop over it gets the batches of all")


@pytest.mark.parametrize(
    ("statistics", "message"),
    [(["sen"], "statistics names 'sen', which is not a buffer"), (["seen"], "it must be float32")],
)
def test_statistics_that_cannot_be_are_refused(statistics, message):
    def program(worker):
        trainer = shoal.torch.Trainer(worker, Counting("integer"), statistics=statistics)
        for _ in trainer.batches(DATA, batch_size=8):
            pass

    _expect(program, lambda fake: fake.welcome(), message)


def test_the_trainer_is_used_in_its_loop_only():
    def program(worker):
        shoal.torch.Trainer(worker, mlp()).step(torch.tensor(1.0))

    _expect(program, lambda fake: fake.welcome(), "trainer.step() is for the body of")
    with pytest.raises(shoal.ProgramError, match="worker is a Sequential; make it first"):
        shoal.torch.Trainer(mlp(), mlp())


def test_an_error_inside_pytorch_names_the_users_line_and_then_that_of_pytorch():
    def program(worker):
        trainer = shoal.torch.Trainer(worker, mlp())
        for batch in trainer.batches(DATA, batch_size=8):
            F.cross_entropy(batch[0], "no labels")

    with pytest.raises(TypeError) as raised:
        play(program, _one_batch)
    message = describe(raised.value, False, True)[1]
    assert re.match(r"\S*test_misuse\.py:\d+: TypeError: ", message)
    assert re.search(r" \(raised in torch/nn/functional\.py:\d+\)$", message)


@pytest.mark.parametrize("options", [{"num_workers": -1}, {"num_workers": 2.0}, {"prefetch_factor": 0}])
def test_readers_are_a_whole_number(options):
    def program(worker):
        for _ in shoal.torch.Trainer(worker, mlp()).batches(DATA, batch_size=8, **options):
            pass

    (name, value) = next(iter(options.items()))
    _expect(program, lambda fake: fake.welcome(), f"{name} is {value!r}; it must be a whole number from")


def _weights():
    return [torch.nn.Parameter(torch.ones(2))]


def _scheduled(optimizer):
    torch.optim.lr_scheduler.LinearLR(optimizer)  # Changes the learning rate at once.
    return optimizer


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.optim.SGD(_weights(), 0.1, momentum=0.9, dampening=0.1), "dampening=0.1 is not possible"),
        (lambda: torch.optim.SGD(_weights(), 0.1, maximize=True), "maximize is not possible; negate the loss"),
        (lambda: torch.optim.Adam(_weights(), amsgrad=True), "amsgrad is not possible"),
        (lambda: torch.optim.Adagrad(_weights(), lr_decay=0.1), "lr_decay=0.1 is not possible; set it to 0"),
        (lambda: torch.optim.RMSprop(_weights()), "torch.optim.RMSprop has no optimizer with the same formula"),
        (lambda: torch.optim.LBFGS(_weights()), "torch.optim.LBFGS has no optimizer with the same formula"),
        (
            lambda: torch.optim.AdamW([{"params": _weights()}, {"params": _weights(), "lr": 0.5}]),
            "AdamW: the parameter groups differ in lr or weight_decay, and the names of their parameters are not "
            "known; give the model too: from_torch(optimizer, model)",
        ),
        (
            lambda: torch.optim.AdamW([{"params": _weights()}, {"params": _weights(), "betas": (0.5, 0.9)}]),
            "the parameter groups have betas (0.9, 0.999) and (0.5, 0.9), but only lr and weight_decay may differ",
        ),
        (lambda: _scheduled(torch.optim.SGD(_weights(), 0.1)), "SGD has a scheduler of PyTorch; the parameter servers"),
        (
            lambda: torch.optim.Adam(nn.LazyLinear(3).parameters()),
            "Adam has a parameter that has no shape yet; compute",
        ),
        (lambda: torch.optim.Adagrad(_weights(), eps=0.0), None),
    ],
)
def test_optimizers_with_other_formulas_are_refused(make, message):
    if message is None:
        assert shoal.torch.from_torch(make()).settings()
        return
    with pytest.raises(shoal.ProgramError) as raised:
        shoal.torch.from_torch(make())
    assert message in str(raised.value)
    assert "test_misuse.py:" in str(raised.value)


def test_parameter_groups_must_fit_the_model():
    def refused(optimizer, model):
        with pytest.raises(shoal.ProgramError) as raised:
            shoal.torch.from_torch(optimizer, model)
        return str(raised.value)

    model = mlp()
    foreign = torch.optim.SGD([*model.parameters(), *_weights()], 0.1)
    assert "SGD: parameter group 0 has a tensor of shape (2,) that is not a parameter of the model" in refused(
        foreign, model
    )
    partial = torch.optim.SGD(model[0].parameters(), 0.1)
    assert "SGD: the parameter 2.weight is in none of its groups; add it, or freeze it" in refused(partial, model)
    model[2].requires_grad_(False)
    assert not shoal.torch.from_torch(partial, model).groups


def of_the_head(models):
    return shoal.torch.from_torch(torch.optim.Adam(models["net"][2].parameters()))


def of_the_first_model(models):
    return shoal.torch.from_torch(torch.optim.Adam(models["net"].parameters()), models["net"])


def of_another_model(models):
    return shoal.torch.from_torch(torch.optim.Adam(mlp().parameters()))


@pytest.mark.parametrize(
    ("convert", "name"),
    [(of_the_head, "net.0.weight"), (of_the_first_model, "judge.0.weight"), (of_another_model, "net.0.weight")],
)
def test_a_trained_parameter_that_the_converted_optimizer_does_not_have_is_refused(convert, name):
    def program(worker, freezes=()):
        models = {"net": mlp(), "judge": mlp()}
        trainer = shoal.torch.Trainer(worker, models, convert(models))
        for part in freezes:
            part(models).requires_grad_(False)
        for batch in trainer.batches(DATA, batch_size=8):
            trainer.step([F.cross_entropy(model(batch[0]), batch[1]) for model in models.values()])

    _expect(
        program,
        lambda fake: fake.welcome(),
        f"the optimizer that from_torch() has converted does not have the parameter {name}, but the run would train it",
    )
    if convert is of_another_model:
        return
    rest = [lambda models: models["judge"]] + ([lambda models: models["net"][0]] if convert is of_the_head else [])
    play(lambda worker: program(worker, rest), _whole_run)


def test_equal_settings_of_two_converted_optimizers_do_not_mix_their_parameters():
    first, second = mlp(), mlp()
    converted = [shoal.torch.from_torch(torch.optim.Adam(model.parameters())) for model in (first, second)]
    assert converted[0] == converted[1]

    def program(worker):
        for _ in shoal.torch.Trainer(worker, first, converted[1]).batches(DATA, batch_size=8):
            pass

    _expect(program, lambda fake: fake.welcome(), "does not have the parameter 0.weight")


def _whole_run(fake):
    fake.train(fake.handshake(), range(8))
    fake.finish()


def _one_batch(fake):
    values = fake.handshake()
    try:
        fake.train(values, range(8))
    except Exception:  # noqa: BLE001 - the program's error is the one that counts
        return


def _expect(program, scenario, message):
    with pytest.raises(shoal.ProgramError) as raised:
        play(program, scenario)
    assert message in str(raised.value)
    assert re.match(r"\S*test_misuse\.py:\d+: ", str(raised.value))
