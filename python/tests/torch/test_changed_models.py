"""Models that a program brings along or changes in the loop in a way that the run does not follow."""

import re

import pytest
import torch
from fake_worker import play
from test_device import SimulatedStreams
from test_guard import WithBuffer, refusal, usual
from test_training import drive, mlp, program
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import shoal
import shoal.torch
from shoal.torch import watch

# Modes.


def normed():
    return nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))


def in_eval_before(trainer, model, batch):
    if trainer.work.index == 1:
        model[1].eval()
    usual(trainer, model, batch)


def in_eval_behind(trainer, model, batch):
    usual(trainer, model, batch)
    model[1].eval()


@pytest.mark.parametrize("body", [in_eval_before, in_eval_behind])
def test_a_part_that_is_put_into_eval_mode_in_the_loop_is_refused(body):
    text = refusal(normed, body, batches=3)
    assert "the module 1 was put into eval mode in the loop, which ends with the batch" in text
    assert "call eval() of it before trainer.batches(), where parts that are in eval mode stay in it" in text


def test_a_whole_model_that_trains_in_eval_mode_is_refused():
    def body(trainer, model, batch):
        model.eval()
        usual(trainer, model, batch)

    assert "the model was put into eval mode in the loop" in refusal(normed, body)


def test_parts_in_eval_mode_that_train_again_are_refused():
    def frozen_norm():
        model = normed()
        model[1].eval()
        return model

    def body(trainer, model, batch):
        model.train()
        usual(trainer, model, batch)

    assert "the module 1 was put into training mode in the loop" in refusal(frozen_norm, body)

    def behind(trainer, model, batch):
        usual(trainer, model, batch)
        model.eval()(batch[0])
        model.train()

    play(program(frozen_norm(), shoal.SGD(0.1), behind), drive(3, 1, 8, shoal.SGD(0.1)))


def test_modes_that_are_set_back_before_step_and_dropout_in_evaluations_are_possible():
    def body(trainer, model, batch):
        if trainer.training:
            model.eval()(batch[0])
            model.train()
        else:
            model[2].train()
        usual(trainer, model, batch)

    def evaluate(fake, ps, step):
        fake.evaluate(ps.values, range(8))

    play(program(normed(), shoal.SGD(0.1), body), drive(3, 1, 8, shoal.SGD(0.1), evaluate))


# Models.


def distributed(model):
    wrapper = DistributedDataParallel.__new__(DistributedDataParallel)
    nn.Module.__init__(wrapper)
    wrapper.module = model
    return wrapper


@pytest.mark.parametrize("wrap", [nn.DataParallel, distributed])
def test_a_model_that_spreads_batches_itself_is_refused(wrap):
    name = "DataParallel" if wrap is nn.DataParallel else "DistributedDataParallel"
    text = refusal(lambda: wrap(mlp()))
    assert f"model is a {name}, but the run has workers of its own" in text
    assert text.endswith("give what it wraps: model.module")
    text = refusal(lambda: {"net": nn.Sequential(wrap(mlp()))})
    assert f"net.0 is a {name}" in text
    assert text.endswith("give what it wraps: net.0.module")


def test_a_synchronized_batch_norm_has_a_warning(capsys):
    model = nn.Sequential(nn.SyncBatchNorm(8), *mlp())
    play(program(model, shoal.SGD(0.1)), drive(3, 1, 8, shoal.SGD(0.1)))
    text = capsys.readouterr().out
    assert text.count("shoal: warning: 0 is a SyncBatchNorm, whose statistics are those of one worker's batch") == 1


# Writes that only values show.


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_a_buffer_that_is_changed_through_data_later_is_found(dtype, monkeypatch):
    monkeypatch.setattr(watch, "_INTERVAL", 8)
    calls = []

    def change(module):
        calls.append(0)
        if len(calls) == 5:
            module.seen.data.mul_(2)

    text = refusal(lambda: WithBuffer(change, dtype), batches=10)
    assert re.search(r"the buffer seen( \(torch.int64\))? changes with a batch", text)
    assert len(calls) == 9


def test_a_parameter_that_is_written_through_data_later_is_found(monkeypatch):
    monkeypatch.setattr(watch, "_INTERVAL", 8)

    def body(trainer, model, batch):
        if trainer.work.index > 4:
            model[0].weight.data.clamp_(-0.01, 0.01)
        usual(trainer, model, batch)

    text = refusal(mlp, body, batches=10, _streams=SimulatedStreams(0))
    assert "the program has written into the parameter 0.weight" in text


def test_checks_that_take_long_come_in_the_first_batches_of_each_interval():
    seen = watch.Watch()
    careful = []
    for batch in range(2005):
        if seen.is_careful:
            careful.append(batch)
        seen.end_batch()
    assert careful == [0, 1, 2, 1000, 1001, 1002, 2000, 2001, 2002]
