"""Losses and gradients of loops of PyTorch: parts of a batch, penalties of some batches, losses by model."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fake_worker import play
from test_converted_optimizers import losses_of, pair
from test_device import wide
from test_guard import refusal
from test_training import LABELS, N, Twice, X, assert_equal_models, drive, mlp, plain, program
from torch import nn
from torch.nn.utils import clip_grad_norm_ as clip_norm

import shoal


@pytest.mark.parametrize("model_of", [mlp, wide])
def test_accumulated_gradients_may_be_clipped_before_step(model_of):
    norms = []

    def body(trainer, model, batch):
        for rows in (slice(0, 4), slice(4, 8)):
            trainer.backward(F.cross_entropy(model(batch[0][rows]), batch[1][rows]), examples=4)
        norms.append(float(clip_norm(model.parameters(), 0.1)))
        trainer.step()

    reference = model_of()
    optimizer = torch.optim.SGD(reference.parameters(), 0.1)
    for step in range(4):
        rows = [(step * 8 + i) % N for i in range(8)]
        optimizer.zero_grad()
        F.cross_entropy(reference(X[rows]), LABELS[rows]).backward()
        clip_norm(reference.parameters(), 0.1)
        optimizer.step()
    values, results, _ = play(program(model_of(), shoal.SGD(0.1), body), drive(4, 1, 8, shoal.SGD(0.1)))
    assert min(norms) > 0.1
    assert_equal_models(values, reference, 1e-5)
    assert [result.finals for result in results] == [[], [], [], []]


def test_the_last_part_of_a_batch_that_step_gets_leaves_early():
    def body(trainer, model, batch):
        trainer.backward(F.cross_entropy(model(batch[0][:4]), batch[1][:4]), examples=4)
        trainer.step(F.cross_entropy(model(batch[0][4:]), batch[1][4:]))

    _, results, _ = play(program(wide(), shoal.SGD(0.1), body), drive(3, 1, 8, shoal.SGD(0.1)))
    assert [len(result.finals) for result in results] == [0, 1, 1]


def with_penalty(has_penalty, joins=False):
    """Lazy regularization: some batches have a penalty, whose backward pass the program runs itself, or step() does."""

    def body(trainer, model, batch):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        penalty = 0.1 * model[0].weight.square().sum()
        if joins and has_penalty(trainer.work.index):
            trainer.step([loss, penalty])
            return
        if has_penalty(trainer.work.index):
            penalty.backward()
        trainer.step(loss)

    return body


@pytest.mark.parametrize("first", [1, 5])
def test_a_backward_pass_of_some_batches_is_refused(first):
    text = refusal(mlp, with_penalty(lambda index: index % 8 == first), batches=7)
    assert "the program has called backward() in this batch, and left it to step(loss) in others" in text
    assert "step([loss, penalty]), or call trainer.zero_grad()" in text


def test_a_backward_pass_of_the_first_batch_only_is_refused_in_the_second():
    text = refusal(mlp, with_penalty(lambda index: index % 16 == 0))
    assert "the program has called backward() in other batches, where step(loss) only reported the loss" in text
    assert "leave them all to step([loss, penalty])" in text


def test_a_penalty_of_some_batches_that_step_gets_counts():
    def loss_of(model, rows):
        loss = F.cross_entropy(model(X[rows]), LABELS[rows])
        return loss + 0.1 * model[0].weight.square().sum() if rows[0] % 32 == 0 else loss

    reference = mlp()
    plain(reference, torch.optim.SGD(reference.parameters(), 0.1), 6, 8, loss_of)
    body = with_penalty(lambda index: index % 4 == 0, joins=True)
    values, _, _ = play(program(mlp(), shoal.SGD(0.1), body), drive(6, 1, 8, shoal.SGD(0.1)))
    assert_equal_models(values, reference, 1e-6)


def test_a_loop_that_leaves_out_backward_of_a_loss_that_is_not_finite_continues():
    def body(trainer, model, batch):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        if trainer.work.index == 2:
            loss = loss * float("nan")
        if torch.isfinite(loss):
            loss.backward()
        trainer.step(loss)

    def scenario(fake):
        values = fake.handshake()
        losses = [fake.train(values, range(8), index=index).loss for index in range(5)]
        fake.finish()
        return losses

    losses = play(program(mlp(), shoal.SGD(0.1), body), scenario)
    assert np.isnan(losses).tolist() == [False, False, True, False, False]


def test_the_error_of_a_second_step_names_both_forms_of_several_losses():
    def body(trainer, models, batch):
        for loss in losses_of(models, batch[0]):
            trainer.step(loss)

    text = refusal(pair, body)
    assert "after step(); one step() has all losses: step([loss_a, loss_b]), or step({" in text


def test_losses_by_model_that_lack_a_model_are_refused_in_training_only():
    def body(trainer, models, batch):
        trainer.step({"judge": losses_of(models, batch[0])[0]})

    text = refusal(pair, body)
    assert "step() has got no loss for the model 'generator', but a run updates all variables in each step" in text

    def evaluates(trainer, models, batch):
        loss_d, loss_g = losses_of(models, batch[0])
        trainer.step({"judge": loss_d, "generator": loss_g} if trainer.training else {"judge": loss_d})

    def scenario(fake):
        values = fake.handshake()
        fake.train(values, range(8))
        fake.evaluate(values, range(8))
        fake.finish()

    play(program(pair(), shoal.SGD(0.1), evaluates), scenario)


def test_losses_by_model_may_lack_models_of_which_nothing_is_trained():
    def with_teacher():
        models = {**pair(), "teacher": nn.Linear(8, 8).requires_grad_(False)}
        models["tied"] = models["judge"]
        return models

    def body(trainer, models, batch):
        loss_d, loss_g = losses_of(models, models["teacher"](batch[0]))
        trainer.step({"judge": loss_d, "generator": loss_g})

    play(program(with_teacher(), shoal.SGD(0.1), body), drive(2, 1, 8, shoal.SGD(0.1)))


def test_trained_parameters_without_a_gradient_have_one_warning(capsys):
    for overlap in (True, False):
        play(program(Twice(), shoal.SGD(0.1), trainer={"overlap": overlap}), drive(5, 1, 8, shoal.SGD(0.1)))
        text = capsys.readouterr().out
        assert text.count("the loss of a batch gave unused.weight, unused.bias no gradient, which counts as zero") == 1
        assert "requires_grad_(False) before trainer.batches()" in text
    play(program(wide(), shoal.SGD(0.1)), drive(4, 1, 8, shoal.SGD(0.1)))
    assert "no gradient" not in capsys.readouterr().out
