"""Batches that a program leaves out."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fake_worker import play
from test_guard import refusal
from test_training import DATA, N, X, drive, mlp, program
from torch import nn

import shoal
import shoal.torch


def normed():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def skipping(chooses):
    """Leaves out the batches of these indices, after a forward pass and a backward pass of its own."""

    def body(trainer, model, batch):
        logits = model(batch[0])
        loss = F.cross_entropy(logits, batch[1])
        if trainer.training and chooses(trainer.work.index):
            loss.backward()
            trainer.skip()
        else:
            trainer.step(loss, accuracy=logits.argmax(1) == batch[1])

    return body


@pytest.mark.parametrize("overlap", [True, False])
def test_a_batch_that_is_left_out_contributes_zeros_and_the_statistics_that_it_got(overlap):
    optimizer = shoal.SGD(0.1)
    seen = []

    def remember(fake, ps, step):
        seen.append({name: value.copy() for name, value in ps.values.items()})

    body = skipping(lambda index: index % 2 == 1)
    options = {"trainer": {"overlap": overlap}}
    _, results, declared = play(program(normed(), optimizer, body, **options), drive(6, 1, 8, optimizer, remember))
    for index in (1, 3, 5):
        result = results[index]
        assert result.loss == 0
        assert result.metrics["accuracy"] == (0, 0)
        for name, *_ in declared.variables:
            expected = seen[index - 1][name] if "running" in name else np.zeros_like(seen[0][name])
            np.testing.assert_array_equal(result.contributions[name], expected, err_msg=name)
    for index in (0, 2, 4):
        assert results[index].loss > 0
        assert results[index].contributions["0.weight"].any()


def test_the_batches_around_one_that_is_left_out_are_computed_as_without_it():
    optimizer = shoal.SGD(0.1)
    body = skipping(lambda index: index == 1)
    _, results, _ = play(program(normed(), optimizer, body), drive(3, 1, 8, optimizer))

    def scenario(fake):
        values = fake.handshake()
        first = fake.train(values, range(8))
        values = {
            name: first.contributions[name]
            if "running" in name
            else value - np.float32(0.1) * first.contributions[name]
            for name, value in values.items()
        }
        third = fake.train(values, [(16 + i) % N for i in range(8)], step=2, index=2)
        fake.finish()
        return third

    third = play(program(normed(), optimizer), scenario)
    for name, value in third.contributions.items():
        np.testing.assert_allclose(results[2].contributions[name], value, atol=1e-7, err_msg=name)


def test_a_collate_function_may_return_nothing_in_training_and_in_an_evaluation():
    def collate(examples):
        kept = [example for example in examples if example[0][0] > 0]
        return torch.utils.data.default_collate(kept) if kept else None

    def body(trainer, model, batch):
        if batch is None:
            trainer.skip()
        else:
            trainer.step(F.cross_entropy(model(batch[0]), batch[1]))

    positive, negative = (torch.nonzero(chosen)[:4, 0].tolist() for chosen in (X[:, 0] > 0, X[:, 0] <= 0))

    def scenario(fake):
        values = fake.handshake(run_file="batch_size: 4")
        results = [fake.train(values, rows, index=i).loss for i, rows in enumerate((positive, negative))]
        blocks = (positive, positive + negative, negative + positive, negative)
        results += [fake.evaluate(values, rows).loss for rows in blocks]
        fake.finish()
        return results

    run = program(mlp(), shoal.SGD(0.1), body, batches={"collate_fn": collate})
    trained, nothing, first, second, third, none = play(run, scenario)
    assert trained > 0
    assert first == second == third == pytest.approx(trained)
    assert nothing == none == 0


def test_rows_of_a_batch_that_is_left_out_get_zeros():
    table = shoal.Table("item", dim=3)
    module = nn.ModuleDict({"item": shoal.torch.EmbeddingBag(table="item", dim=3), "top": nn.Linear(3, 1)})

    def body(trainer, model, batch):
        loss = model["top"](model["item"](torch.tensor([[1, 2]]))).mean()
        loss.backward()
        trainer.skip()

    def scenario(fake):
        result = fake.train(fake.handshake(), range(8))
        fake.finish()
        return result

    result = play(program(module, shoal.SGD(0.1), body, trainer={"tables": [table]}), scenario)
    assert sorted(result.rows["item"]) == [1, 2]
    assert not any(row.any() for row in result.rows["item"].values())


def twice(trainer, model, batch):
    trainer.skip()
    trainer.step(F.cross_entropy(model(batch[0]), batch[1]))


def behind_a_part(trainer, model, batch):
    trainer.backward(F.cross_entropy(model(batch[0][:4]), batch[1][:4]), examples=4)
    trainer.skip()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (twice, "trainer.step() is called for batch 0 of epoch 1 after step()"),
        (behind_a_part, "trainer.skip() is called after backward(); call one of them for a batch"),
        (lambda trainer, model, batch: None, "or trainer.skip() for one that has nothing to learn from"),
        (
            lambda trainer, model, batch: trainer.step(torch.tensor(torch.nan)),
            "ends with trainer.skip() in the place of step()",
        ),
    ],
)
def test_a_wrong_end_of_a_batch_names_the_remedy(body, message):
    assert message in refusal(mlp, body)


def test_a_batch_that_is_left_out_is_computed_twice_for_check_determinism(capsys):
    def run(worker):
        model = normed()
        trainer = shoal.torch.Trainer(worker, model, shoal.SGD(0.1))
        trainer.check_determinism()
        for _ in trainer.batches(DATA, batch_size=8):
            model(torch.randn(8, 8))
            trainer.skip()

    play(run, drive(2, 1, 8, shoal.SGD(0.1)))
    assert "had the same bytes twice" in capsys.readouterr().out
