"""Models that torch.compile has compiled, with backends that need no compiler."""

import pytest
import torch
import torch.nn.functional as F
from fake_worker import play
from test_training import DATA, N, assert_equal_models, drive, mlp, plain, program
from torch import nn

import shoal
import shoal.torch

pytestmark = pytest.mark.skipif(not hasattr(torch, "compile"), reason="PyTorch is older")


@pytest.fixture(autouse=True)
def _forget_compiled_code():
    torch._dynamo.reset()


def whole(model, backend):
    return torch.compile(model, backend=backend)


def in_place(model, backend):
    model.compile(backend=backend)
    return model


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("compiled", [whole, in_place])
def test_a_compiled_model_trains_and_evaluates_as_the_model_itself(compiled, backend):
    reference = mlp()
    optimizer = torch.optim.SGD(reference.parameters(), 0.1)
    evaluated = []

    def evaluate(fake, ps, step):
        if step % 3 == 2:  # Training batches come before and after it, with both parameter sets.
            result = fake.evaluate(ps.values, range(8), index=step)
            evaluated.append((result.loss / 8, result.metrics["accuracy"]))

    model = compiled(mlp(), backend)
    converted = shoal.torch.from_torch(torch.optim.SGD(model.parameters(), 0.1), model)
    values, results, declared = play(program(model, converted), drive(12, 1, 8, converted, evaluate))
    assert [name for name, _, _ in declared.variables] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    losses, expected = [], []
    for step in range(12):
        rows = [(step * 8 + i) % N for i in range(8)]
        losses += plain_step(reference, optimizer, rows)
        if step % 3 == 2:
            with torch.no_grad():
                expected.append(F.cross_entropy(reference(DATA.tensors[0][:8]), DATA.tensors[1][:8]).item())
    assert [result.loss / 8 for result in results] == pytest.approx(losses, abs=1e-5)
    assert [loss for loss, _ in evaluated] == pytest.approx(expected, abs=1e-5)
    assert all(weight == 8 for _, (_, weight) in evaluated)
    assert_equal_models(values, reference, 1e-5)


def plain_step(model, optimizer, rows):
    x, labels = (tensor[rows] for tensor in DATA.tensors)
    loss = F.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return [loss.item()]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_models_with_a_loss_each_get_the_gradient_of_their_own_loss(backend):
    def pair():
        torch.manual_seed(4)
        return {"generator": nn.Linear(8, 8), "judge": nn.Linear(8, 1)}

    def losses_of(models, x):
        made = models["generator"](x)
        return {
            "judge": models["judge"](made.detach()).mean() - models["judge"](x).mean(),
            "generator": -models["judge"](made).mean(),
        }

    def body(trainer, models, batch):
        trainer.step(losses_of(models, batch[0]))

    def train(models):
        return play(program(models, shoal.SGD(0.1), body), drive(6, 1, 8, shoal.SGD(0.1)))[0]

    expected = train(pair())
    values = train({name: torch.compile(model, backend=backend) for name, model in pair().items()})
    assert values.keys() == expected.keys()
    for name, value in expected.items():
        assert values[name] == pytest.approx(value, abs=1e-6), name


def test_a_compiled_model_in_parts_of_a_batch_trains_as_the_whole_batch():
    reference = mlp()
    plain(reference, torch.optim.SGD(reference.parameters(), 0.1), 6, 8)

    def body(trainer, model, batch):
        for part in (slice(0, 6), slice(6, 8)):
            trainer.backward(F.cross_entropy(model(batch[0][part]), batch[1][part]), examples=len(batch[0][part]))
        trainer.step()

    model = torch.compile(mlp(), backend="aot_eager")
    values, _, _ = play(program(model, shoal.SGD(0.1), body), drive(6, 1, 8, shoal.SGD(0.1)))
    assert_equal_models(values, reference, 1e-5)
