"""Tests errors of programs whose changes would be lost in silence.

They write behind step() or in an evaluation, or clip before backward().
"""

import pytest
import torch
import torch.nn.functional as F
from fake_worker import play
from test_device import SimulatedStreams
from test_guard import WithBuffer, refusal, usual
from test_training import DATA, drive, mlp, program
from torch import nn

import shoal
import shoal.torch


def normed():
    return nn.Sequential(nn.BatchNorm1d(8), *mlp())


LOST = "the buffer 0.running_mean was written after trainer.step(), or in an evaluation, and the run does not see that"


def test_a_statistic_that_is_written_behind_step_is_refused():
    def body(trainer, model, batch):
        usual(trainer, model, batch)
        model[0].running_mean.zero_()

    text = refusal(normed, body)
    assert LOST in text
    assert "write it in a training batch before step()" in text


def test_a_statistic_that_an_evaluation_writes_is_refused():
    def body(trainer, model, batch):
        if not trainer.training:
            model[0].running_mean.zero_()
        usual(trainer, model, batch)

    assert LOST in refusal(normed, body, evaluates=True)


def test_a_model_in_training_mode_behind_step_is_refused_and_in_eval_mode_it_is_not():
    def again(trainer, model, batch):
        usual(trainer, model, batch)
        model(batch[0])

    assert "the buffer 0.num_batches_tracked was written after trainer.step()" in refusal(normed, again)

    def in_eval_mode(trainer, model, batch):
        usual(trainer, model, batch)
        model.eval()(batch[0])

    play(program(normed(), shoal.SGD(0.1), in_eval_mode), drive(3, 1, 8, shoal.SGD(0.1)))


def test_a_statistic_that_is_written_before_step_counts():
    def body(trainer, model, batch):
        if trainer.training:
            model.seen.fill_(3)
        usual(trainer, model, batch)

    def evaluate(fake, ps, step):
        fake.evaluate(ps.values, range(8))

    run = program(WithBuffer(), shoal.SGD(0.1), body, trainer={"statistics": ["seen"]})
    values, _, _ = play(run, drive(3, 1, 8, shoal.SGD(0.1), evaluate))
    assert values["seen"].tolist() == [3, 3]


def test_a_check_of_determinism_takes_statistics():
    def run(worker):
        model = normed()
        trainer = shoal.torch.Trainer(worker, model, shoal.SGD(0.1))
        trainer.check_determinism()
        for batch in trainer.batches(DATA, batch_size=8):
            usual(trainer, model, batch)

    play(run, drive(2, 1, 8, shoal.SGD(0.1)))


@pytest.mark.parametrize("evaluates", [False, True])
def test_a_parameter_on_a_device_that_is_written_where_it_is_lost_is_refused(evaluates):
    def body(trainer, model, batch):
        usual(trainer, model, batch)
        if trainer.training != evaluates:
            with torch.no_grad():
                model[0].weight.mul_(0.5)

    text = refusal(mlp, body, evaluates=evaluates, _streams=SimulatedStreams(0))
    assert "has written into the parameter 0.weight after trainer.step() or in an evaluation, before it came" in text


NOTHING = "there are no gradients to clip before step(loss), which runs the backward pass; call loss.backward() before"


@pytest.mark.parametrize("module", [torch.nn.utils, torch.nn.utils.clip_grad])
@pytest.mark.parametrize("name", ["clip_grad_norm_", "clip_grad_value_"])
@pytest.mark.parametrize("of", [lambda m: m.parameters(), lambda m: [*m.parameters()], lambda m: m[0].weight])
def test_clipping_before_the_backward_pass_is_refused(module, name, of):
    before = getattr(module, name)

    def body(trainer, model, batch):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        getattr(module, name)(of(model), 1.0)
        trainer.step(loss)

    text = refusal(mlp, body)
    assert NOTHING in text
    assert "clip_by_global_norm=… of shoal.Adam or from_torch()" in text
    assert getattr(module, name) is before


def test_clipping_of_other_parameters_and_in_evaluations_works():
    other = nn.Linear(1, 1)

    def body(trainer, model, batch):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        nn.utils.clip_grad_norm_(other.parameters(), 1.0)
        if not trainer.training:
            nn.utils.clip_grad_norm_(parameters=model.parameters(), max_norm=1.0)
        trainer.step(loss)

    def evaluate(fake, ps, step):
        fake.evaluate(ps.values, range(8))

    play(program(mlp(), shoal.SGD(0.1), body), drive(3, 1, 8, shoal.SGD(0.1), evaluate))


def test_clipping_of_a_part_that_a_loss_does_not_reach_works():
    def body(trainer, models, batch):
        loss = models["judge"](batch[0]).mean()
        loss.backward()
        for model in models.values():
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        trainer.step(loss)

    models = {"generator": nn.Linear(8, 8), "judge": nn.Linear(8, 1)}
    play(program(models, shoal.SGD(0.1), body), drive(3, 1, 8, shoal.SGD(0.1)))
