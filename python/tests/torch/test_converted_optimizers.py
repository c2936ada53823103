"""Loops that keep an optimizer of PyTorch or its clipping: each is refused with its remedy, or trains as before."""

import gc
import weakref

import pytest
import torch
import torch.nn.functional as F
from fake_worker import play
from test_guard import refusal, usual
from test_training import DATA, assert_equal_models, drive, mlp, plain, program
from torch import nn
from torch.nn.utils import clip_grad
from torch.nn.utils import clip_grad_norm_ as clip_norm
from torch.nn.utils import clip_grad_value_ as clip_value
from torch.optim.swa_utils import AveragedModel

import shoal
import shoal.torch
from shoal.torch.convert import is_taken_over

STRANGER = "AdamW was not given to the Trainer, so the run does not use it; give it to the Trainer: "


def with_zero_grad(optimizer_of):
    """The loop of PyTorch in which step() is the only line that was replaced."""
    optimizers = {}

    def body(trainer, model, batch):
        optimizer = optimizers.setdefault(id(model), optimizer_of(model))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        trainer.step(loss)

    return body


def test_an_optimizer_that_was_not_given_to_the_trainer_is_refused():
    before = torch.optim.Optimizer.zero_grad, nn.Module.zero_grad
    text = refusal(mlp, with_zero_grad(lambda model: torch.optim.AdamW(model.parameters())))
    assert STRANGER + "shoal.torch.Trainer(worker, model, optimizer=opt)" in text
    assert "trainer.zero_grad() clears gradients too" in text
    assert (torch.optim.Optimizer.zero_grad, nn.Module.zero_grad) == before


def test_an_optimizer_with_a_zero_grad_of_its_own_is_refused():
    class AdamW(torch.optim.AdamW):
        def zero_grad(self, set_to_none=True):
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.grad = None

    before = AdamW.zero_grad
    assert STRANGER in refusal(mlp, with_zero_grad(lambda model: AdamW(model.parameters())))
    assert AdamW.zero_grad is before


@pytest.mark.parametrize("converts", [True, False])
def test_the_optimizer_of_the_trainer_may_clear_gradients(converts):
    reference = mlp()
    plain(reference, torch.optim.AdamW(reference.parameters(), 0.01), 10, 8)
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    given = shoal.torch.from_torch(optimizer, model) if converts else optimizer
    body = with_zero_grad(lambda _: optimizer)
    values, _, _ = play(program(model, given, body), drive(10, 1, 8, shoal.torch.from_torch(optimizer, model)))
    assert_equal_models(values, reference, 1e-5)


def test_an_optimizer_of_other_parameters_may_clear_gradients():
    other = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(other.parameters(), 0.1)

    def body(trainer, model, batch):
        other(torch.ones(1, 1)).sum().backward()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.zero_grad()
        assert other.weight.grad is None
        trainer.step(loss)
        other.zero_grad()

    play(program(mlp(), shoal.SGD(0.1), body), drive(3, 1, 8, shoal.SGD(0.1)))


def test_a_changed_setting_of_an_optimizer_that_the_program_has_converted_is_refused():
    def run(worker):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        trainer = shoal.torch.Trainer(worker, model, shoal.torch.from_torch(optimizer, model))
        for batch in trainer.batches(DATA, batch_size=8):
            usual(trainer, model, batch)
            for group in optimizer.param_groups:
                group["lr"] = 0.05

    def scenario(fake):
        values = fake.handshake()
        try:
            for index in range(2):
                fake.train(values, range(8), index=index)
        except Exception:  # noqa: BLE001 - the program's error is the one that counts
            return

    with pytest.raises(shoal.ProgramError, match="the learning rate or another setting of SGD changes while the run"):
        play(run, scenario)


def test_a_converted_optimizer_is_remembered_as_long_as_it_lives():
    optimizer = torch.optim.SGD(mlp().parameters(), 0.1)
    assert not is_taken_over(optimizer)
    shoal.torch.from_torch(optimizer)
    assert is_taken_over(optimizer)
    reference = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert reference() is None


def test_a_converted_optimizer_of_another_model_may_change():
    other = torch.optim.SGD(mlp().parameters(), 0.1)
    shoal.torch.from_torch(other)

    def body(trainer, model, batch):
        other.param_groups[0]["lr"] *= 0.5
        usual(trainer, model, batch)

    play(program(mlp(), shoal.SGD(0.1), body), drive(3, 1, 8, shoal.SGD(0.1)))


def test_an_average_of_the_batches_of_one_worker_is_refused():
    averages = []

    def make():
        model = mlp()
        averages.append(AveragedModel(model))
        return model

    def body(trainer, model, batch):
        usual(trainer, model, batch)
        averages[-1].update_parameters(model)

    text = refusal(make, body)
    assert "update_parameters() of an AveragedModel would average the batches of one worker only" in text
    assert "shoal.Adam(…, moving_average_decay=0.999)" in text
    averages[-1].update_parameters(mlp())  # It works again when the run is over.


# Two models with an optimizer each.


def pair():
    torch.manual_seed(4)
    return {"generator": nn.Linear(8, 8), "judge": nn.Linear(8, 1)}


def losses_of(models, x):
    fake = models["generator"](x)
    loss_d = models["judge"](fake.detach()).mean() - models["judge"](x).mean()
    return loss_d, -models["judge"](fake).mean()


def of_modules(models):
    return models


def of_converted_optimizers(models):
    optimizers = {name: torch.optim.SGD(model.parameters(), 0.1) for name, model in models.items()}
    for optimizer in optimizers.values():
        shoal.torch.from_torch(optimizer)
    return optimizers


@pytest.mark.parametrize("clearing", [of_modules, of_converted_optimizers])
def test_gradients_of_one_of_two_models_that_are_cleared_are_refused(clearing):
    def body(trainer, models, batch):
        owners = clearing(models)
        loss_d, loss_g = losses_of(models, batch[0])
        owners["judge"].zero_grad()
        loss_d.backward()
        owners["generator"].zero_grad()
        loss_g.backward()
        trainer.step([loss_d, loss_g])

    text = refusal(pair, body)
    assert "zero_grad() would clear the gradients of some parameters and leave those of others" in text
    assert 'step({"judge": loss_d, "generator": loss_g})' in text


def test_two_optimizers_that_were_not_given_to_the_trainer_become_one_with_groups():
    text = refusal(pair, lambda _, models, batch: torch.optim.AdamW(models["judge"].parameters()).zero_grad())
    assert STRANGER in text
    assert "one with a parameter group for each model if there are several" in text


def test_gradients_that_are_all_cleared_may_be_those_of_one_model():
    def body(trainer, models, batch):
        x = batch[0].clone().requires_grad_()
        models["judge"](x).mean().backward()
        models["judge"].zero_grad()
        loss_d, loss_g = losses_of(models, batch[0])
        trainer.step({"judge": loss_d, "generator": loss_g})

    play(program(pair(), shoal.SGD(0.1), body), drive(3, 1, 8, shoal.SGD(0.1)))


# Clipping.

NOTHING = "there are no gradients to clip before step(loss), which runs the backward pass; call loss.backward() before"


def clipped_by(clip):
    def body(trainer, model, batch):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        clip(model.parameters(), 1.0)
        trainer.step(loss)

    return body


@pytest.mark.parametrize("clip", [lambda p, m: clip_norm(p, m), lambda p, m: clip_value(p, m)])
@pytest.mark.parametrize("is_old", [False, True])
def test_clipping_by_a_name_that_the_program_has_imported_is_refused(clip, is_old, monkeypatch):
    if is_old:
        monkeypatch.delattr(clip_grad, "_clip_grads_with_norm_", raising=False)
    before = clip_norm, clip_value
    assert NOTHING in refusal(mlp, clipped_by(clip))
    assert (clip_norm, clip_value) == before


@pytest.mark.skipif(not hasattr(clip_grad, "_clip_grads_with_norm_"), reason="PyTorch is older")
def test_clipping_by_a_function_that_is_in_no_module_is_refused():
    kept = [clip_norm]
    assert NOTHING in refusal(mlp, clipped_by(lambda parameters, limit: kept[0](parameters, limit)))
