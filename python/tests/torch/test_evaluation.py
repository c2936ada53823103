"""Evaluations: a block of the test data comes in pieces, and the results are those of the block."""

import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fake_worker import play
from test_training import DATA, LABELS, X, mlp
from torch import nn
from torch.utils.data import Dataset

import shoal
import shoal.torch

METRICS = ["accuracy", "auc", "mean", "part"]


def usual(trainer, model, batch):
    logits = model(batch[0])
    trainer.step(
        F.cross_entropy(logits, batch[1]),
        accuracy=logits.argmax(1) == batch[1],
        auc=(0.25 + 0.5 * (batch[0][:, 0] > 0), batch[1]),
        mean=float(batch[1].float().mean()),
        part=(float(batch[1].sum()), 2.0),
    )


def evaluate(body, scenario, test=DATA, make=mlp, **options):
    """Runs a program whose run has the batch size 4."""

    def program(worker):
        model = make()
        trainer = shoal.torch.Trainer(worker, model, shoal.SGD(0.1), metrics=METRICS)
        for batch in trainer.batches(DATA, batch_size=8, test=test, **options):
            body(trainer, model, batch)

    def side(fake):
        result = scenario(fake, fake.handshake())
        fake.finish()
        return result

    return play(program, side)


def test_every_piece_but_the_last_is_reported_as_progress(monkeypatch):
    monkeypatch.setattr("shoal.worker._PROGRESS_PERIOD", 0.0)
    assert evaluate(usual, lambda fake, values: fake.evaluate(values, range(10))).reports == 2
    result = evaluate(usual, lambda fake, values: fake.evaluate(values, range(10)), test_batch_size=10)
    assert result.reports == 0


def test_every_part_of_accumulated_gradients_is_reported_as_progress(monkeypatch):
    monkeypatch.setattr("shoal.worker._PROGRESS_PERIOD", 0.0)

    def body(trainer, model, batch):
        for half in (slice(0, 4), slice(4, 8)):
            trainer.backward(F.cross_entropy(model(batch[0][half]), batch[1][half]), examples=4)
        trainer.step()

    result = evaluate(body, lambda fake, values: fake.train(values, range(8)))
    assert result.reports == 2


@pytest.mark.parametrize(
    ("options", "sizes"),
    [({}, [4, 4, 2]), ({"test_batch_size": 3}, [3, 3, 3, 1]), ({"test_batch_size": 500}, [10])],
)
def test_the_results_of_pieces_are_those_of_the_block(options, sizes):
    rows = [*range(20, 30)]
    seen = []

    def body(trainer, model, batch):
        seen.append(trainer.work.indices.tolist())
        assert torch.equal(batch[0], X[seen[-1]])
        usual(trainer, model, batch)

    result = evaluate(body, lambda fake, values: fake.evaluate(values, rows), **options)
    assert [len(piece) for piece in seen] == sizes
    assert sum(seen, []) == rows
    logits, positives = mlp()(X[rows]), int(LABELS[rows].sum())
    assert result.loss == pytest.approx(F.cross_entropy(logits, LABELS[rows], reduction="sum").item(), rel=1e-5)
    assert result.metrics["accuracy"] == (int((logits.argmax(1) == LABELS[rows]).sum()), 10)
    assert result.metrics["mean"] == pytest.approx((positives, 10))
    assert result.metrics["part"] == (positives, 2 * len(sizes))
    is_high = X[rows, 0] > 0
    counts = [[int((LABELS[rows][where] == label).sum()) for label in (1, 0)] for where in (~is_high, is_high)]
    assert [list(counted) for _, *counted in result.metrics["auc"]] == counts


def test_a_batch_after_pieces_is_whole():
    sizes = []

    def body(trainer, model, batch):
        sizes.append((trainer.training, len(batch[1])))
        usual(trainer, model, batch)

    def scenario(fake, values):
        for index in range(2):
            fake.evaluate(values, range(6), index=index)
            assert np.isfinite(fake.train(values, range(8), index=index).contributions["0.weight"]).all()

    evaluate(body, scenario)
    assert sizes == 2 * [(False, 4), (False, 2), (True, 8)]


def test_gradients_that_a_program_computes_in_a_piece_are_gone_in_the_next_one():
    def body(trainer, model, batch):
        assert all(parameter.grad is None for parameter in model.parameters())
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        trainer.step(loss)

    evaluate(body, lambda fake, values: fake.evaluate(values, range(8)))


def test_parts_of_a_piece_add_up():
    def body(trainer, model, batch):
        for rows in (slice(0, 1), slice(1, 4)):
            loss = F.cross_entropy(model(batch[0][rows]), batch[1][rows])
            trainer.backward(loss, examples=len(batch[1][rows]))
        trainer.step()

    result = evaluate(body, lambda fake, values: fake.evaluate(values, range(8)))
    assert result.loss == pytest.approx(F.cross_entropy(mlp()(X[:8]), LABELS[:8], reduction="sum").item(), rel=1e-5)


class Noise(Dataset):
    """Examples with a random number."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return X[index], LABELS[index], torch.rand(())


def test_random_numbers_follow_from_the_piece():
    drawn = []

    def body(trainer, model, batch):
        dropped = F.dropout(torch.ones(16)).tolist()
        drawn.append((dropped, batch[2].tolist(), trainer.work.seed))
        usual(trainer, model, batch)

    def scenario(fake, values):
        for index in (0, 1, 0):
            fake.evaluate(values, range(8), index=index, seed=2**64 - 3 + index)

    evaluate(body, scenario, test=Noise())
    assert drawn[:2] == drawn[4:]
    assert [seed for _, _, seed in drawn[:2]] == [2**64 - 3, 1]
    for kind in (0, 1):
        assert len({str(piece[kind]) for piece in drawn[:4]}) == 4


def test_rows_of_a_piece_are_looked_up_with_it():
    table = shoal.Table("item", 2)
    keys = torch.arange(64).reshape(64, 1)
    data = torch.utils.data.TensorDataset(keys, LABELS)

    def program(worker):
        model = nn.ModuleDict({"bag": shoal.torch.EmbeddingBag(table="item", dim=2), "top": nn.Linear(2, 2)})
        trainer = shoal.torch.Trainer(worker, model, shoal.SGD(0.1), tables=[table], metrics=[])
        batches = trainer.batches(data, batch_size=8, test=data, keys=lambda batch: {"item": batch[0]})
        for batch in batches:
            trainer.step(F.cross_entropy(model["top"](model["bag"](batch[0])), batch[1]))

    def scenario(fake):
        result = fake.evaluate(fake.handshake(), range(6))
        fake.finish()
        return result.look_ups

    assert play(program, scenario) == [{"item": [0, 1, 2, 3]}, {"item": [4, 5]}]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda trainer, step: None, "test block 5 ended without trainer.step(loss)"),
        (lambda trainer, step: (step(), step()), "trainer.step() is called for test block 5 after step()"),
    ],
)
def test_every_piece_has_one_step(body, message):
    pieces = []

    def second(trainer, model, batch):
        pieces.append(batch)
        if len(pieces) == 2:
            body(trainer, lambda: usual(trainer, model, batch))
        else:
            usual(trainer, model, batch)

    def scenario(fake, values):
        try:
            fake.evaluate(values, range(12), index=5)
        except Exception:  # noqa: BLE001 - the program's error is the one that counts
            return

    with pytest.raises(shoal.ProgramError, match=re.escape(message)):
        evaluate(second, scenario)
    assert len(pieces) == 2


@pytest.mark.parametrize("size", [0, True, 2.5])
def test_a_size_of_pieces_is_a_whole_number(size):
    with pytest.raises(shoal.ProgramError, match=f"test_batch_size is {size}; it must be a whole number from 1"):
        evaluate(usual, lambda fake, values: None, test_batch_size=size)


def test_a_batch_is_known_behind_its_step_and_in_the_loop_only():
    seen, trainers = [], []

    def body(trainer, model, batch):
        usual(trainer, model, batch)
        seen.append((trainer.training, trainer.work.index, len(trainer.work.indices)))
        trainers[:] = [trainer]

    def scenario(fake, values):
        fake.train(values, range(8), index=3)
        fake.evaluate(values, range(6), index=4)

    evaluate(body, scenario)
    assert seen == [(True, 3, 8), (False, 4, 4), (False, 4, 2)]
    for name in ("training", "work"):
        with pytest.raises(shoal.ProgramError, match=f"trainer.{name} is for the body of"):
            getattr(trainers[0], name)


def force(trainer, model, batch):
    """The loss of a program that differentiates in its forward pass, as for forces."""
    x = batch[0].clone().requires_grad_()
    (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=trainer.training)
    trainer.step((slope - 1).square().mean())


def force_in_a_part(trainer, model, batch):
    with torch.enable_grad():
        force(trainer, model, batch)


@pytest.mark.parametrize(
    ("body", "options", "works"),
    [(force, {}, False), (force, {"evaluation_gradients": True}, True), (force_in_a_part, {}, True)],
)
def test_an_evaluation_may_differentiate_if_the_program_says_so(body, options, works):
    def scenario(fake, values):
        fake.train(values, range(8))
        try:
            return fake.evaluate(values, range(4)).loss
        except Exception:  # noqa: BLE001 - the program's error is the one that counts
            assert not works

    if not works:
        with pytest.raises(RuntimeError, match="does not require grad"):
            evaluate(body, scenario, **options)
        return
    x = X[:4].clone().requires_grad_()
    (slope,) = torch.autograd.grad(mlp()(x).sum(), x)
    assert evaluate(body, scenario, **options) == pytest.approx(4 * (slope - 1).square().mean().item(), rel=1e-5)
