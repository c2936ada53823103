"""Training with shoal.torch against a fake worker and a ps in NumPy, compared with plain PyTorch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fake_worker import ASSIGN, FROZEN, play
from numpy_ps import NumpyPs
from torch import nn
from torch.utils.data import TensorDataset

import shoal
import shoal.torch
from shoal.torch.model import why_a_table_is_better

torch.manual_seed(0)
N = 64
X = torch.randn(N, 8)
LABELS = (X.sum(1) > 0).long()
DATA = TensorDataset(X, LABELS)


def mlp():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))


def program(model, optimizer, body=None, **options):
    """A program with the usual loop; `body(trainer, model, batch)` replaces what the loop does."""

    def run(worker):
        trainer = shoal.torch.Trainer(worker, model, optimizer, **options.get("trainer", {}))
        for batch in trainer.batches(DATA, batch_size=8, test=DATA, **options.get("batches", {})):
            if body is not None:
                body(trainer, model, batch)
                continue
            logits = model(batch[0])
            loss = F.cross_entropy(logits, batch[1])
            trainer.step(loss, accuracy=logits.argmax(1) == batch[1])

    return run


def drive(steps, replicas, batch, optimizer, between=None):
    """A scenario: SYNC training with a ps in NumPy. Returns the variables and the results of each batch."""

    def scenario(fake):
        values = fake.handshake()
        ps = NumpyPs(optimizer, values, {name: kind for name, kind, _ in fake.declared.variables})
        results = []
        for step in range(steps):
            contributions = []
            for replica in range(replicas):
                index = step * replicas + replica
                rows = [(index * batch + i) % N for i in range(batch)]
                results.append(fake.train(ps.values, rows, step=step, index=index, seed=100 + index))
                contributions.append(results[-1].contributions)
            ps.apply(contributions)
            if between is not None:
                between(fake, ps, step)
        fake.finish()
        return ps.values, results, fake.declared

    return scenario


def plain(model, optimizer, steps, batch, loss_of=None):
    """The same training in one process of PyTorch."""
    losses = []
    for step in range(steps):
        rows = [(step * batch + i) % N for i in range(batch)]
        loss = loss_of(model, rows) if loss_of else F.cross_entropy(model(X[rows]), LABELS[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def assert_equal_models(values, model, tolerance):
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(values[name], parameter.detach().numpy(), rtol=0, atol=tolerance, err_msg=name)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, 1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-3, weight_decay=0.1),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.05, initial_accumulator_value=0.1),
    "adadelta": lambda p: torch.optim.Adadelta(p, 0.5),
}


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_two_replicas_are_one_process_with_twice_the_batch(name):
    reference = mlp()
    plain(reference, OPTIMIZERS[name](reference.parameters()), 50, 16)
    model = mlp()
    optimizer = shoal.torch.from_torch(OPTIMIZERS[name](model.parameters()))
    values, results, declared = play(program(model, optimizer), drive(50, 2, 8, optimizer))
    assert_equal_models(values, reference, 1e-5)
    assert [result.metrics["accuracy"][1] for result in results] == [8] * 100
    assert f" cpu {torch.backends.cpu.get_cpu_capability()} threads " in declared.computation
    assert declared.settings == f"{optimizer.settings()}\nbatch_size: 8"


def test_an_area_under_the_curve_takes_tensors_and_parts_of_a_batch():
    def body(trainer, model, batch):
        for half in (slice(0, 4), slice(4, 8)):
            scores = model(batch[0][half]).softmax(1)[:, 1]
            loss = F.cross_entropy(model(batch[0][half]), batch[1][half])
            trainer.backward(loss, examples=4, auc=(scores, batch[1][half]), sure=scores > 0.5)
        trainer.step()

    model = mlp()
    options = {"trainer": {"metrics": ["auc", "sure"]}}
    _, results, _ = play(program(model, shoal.SGD(0.1), body, **options), drive(3, 1, 8, shoal.SGD(0.1)))
    for step, result in enumerate(results):
        labels = LABELS[[(step * 8 + i) % N for i in range(8)]]
        counts = np.array(result.metrics["auc"])
        assert counts[:, 1].sum() == labels.sum()
        assert counts[:, 2].sum() == 8 - labels.sum()
        assert result.metrics["sure"] == (counts[counts[:, 0] >= 98304, 1:].sum(), 8)


def of_any_size(generator, shape):
    """Gradients from 1e-10 to 1: epsilon counts beside the smallest ones."""
    return (generator.normal(size=shape) * 10.0 ** generator.uniform(-10, 0, size=shape)).astype(np.float32)


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_converted_optimizers_agree_over_100_steps(name):
    reference = mlp()
    optimizer = OPTIMIZERS[name](reference.parameters())
    converted = shoal.torch.from_torch(optimizer)
    values = {n: p.detach().numpy().copy() for n, p in reference.named_parameters()}
    ps = NumpyPs(converted, values, dict.fromkeys(values, 1))
    generator = np.random.default_rng(0)
    for _ in range(100):
        gradients = {n: of_any_size(generator, v.shape) for n, v in values.items()}
        for n, parameter in reference.named_parameters():
            parameter.grad = torch.from_numpy(gradients[n])
        optimizer.step()
        ps.apply([gradients])
    assert_equal_models(ps.values, reference, 1e-5)


def deep(frozen=()):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2))
    for layer in frozen:
        model[layer].requires_grad_(False)
    return model


def three_groups(model, **options):
    """Weights decay, biases do not, and the last layer learns faster."""
    body = [p for layer in (0, 2) for p in (model[layer].weight, model[layer].bias)]
    return [
        {"params": [p for p in body if p.dim() > 1], "weight_decay": 0.1, **options},
        {"params": [p for p in body if p.dim() == 1], "weight_decay": 0.0, **options},
        {"params": model[4].parameters(), "lr": 0.004, "weight_decay": 0.02, **options},
    ]


def two_groups(model):
    return [{"params": model[0].parameters(), "lr": 1e-3}, {"params": [*model[2].parameters(), *model[4].parameters()]}]


def unequal_layers(model):
    """One group decays, the others keep the learning rate of the optimizer."""
    return [
        {"params": model[0].parameters()},
        {"params": model[2].parameters(), "weight_decay": 0.3},
        {"params": [model[4].bias]},
        {"params": [model[4].weight], "lr": 0.0},
    ]


GROUPED = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "nesterov with a decay": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "adam": lambda p: torch.optim.Adam(p, 1e-3),
    "adam with a decay": lambda p: torch.optim.Adam(p, 1e-3, weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-3),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.05, initial_accumulator_value=0.1),
    "adadelta": lambda p: torch.optim.Adadelta(p, 0.5),
}


@pytest.mark.parametrize("name", list(GROUPED))
@pytest.mark.parametrize("split", [two_groups, three_groups, unequal_layers])
@pytest.mark.parametrize("frozen", [(), (2,)])
def test_parameter_groups_agree_over_100_steps(name, split, frozen):
    reference = deep(frozen)
    optimizer = GROUPED[name](split(reference))
    converted = shoal.torch.from_torch(optimizer, reference)
    values = {n: p.detach().numpy().copy() for n, p in reference.named_parameters()}
    ps = NumpyPs(converted, values, {n: 1 if p.requires_grad else 3 for n, p in reference.named_parameters()})
    generator = np.random.default_rng(0)
    for _ in range(100):
        gradients = {n: of_any_size(generator, v.shape) for n, v in values.items()}
        for n, parameter in reference.named_parameters():
            parameter.grad = torch.from_numpy(gradients[n]) if parameter.requires_grad else None
        optimizer.step()
        ps.apply([gradients])
    assert_equal_models(ps.values, reference, 1e-5)
    for layer in frozen:
        assert not (ps.values[f"{layer}.weight"] - values[f"{layer}.weight"]).any()


def test_the_trainer_gives_the_names_of_its_models_to_parameter_groups():
    reference = deep((0,))
    plain(reference, GROUPED["nesterov with a decay"](three_groups(reference)), 50, 16)
    model = deep((0,))
    torch_optimizer = GROUPED["nesterov with a decay"](three_groups(model))
    optimizer = shoal.torch.from_torch(torch_optimizer, model)
    names = ["2[.]bias", "4[.]weight|4[.]bias", ".*"]
    assert [group.variables for group in optimizer.groups] == names
    values, _, declared = play(program(model, torch_optimizer), drive(50, 2, 8, optimizer))
    assert_equal_models(values, reference, 1e-5)
    assert declared.settings == f"{optimizer.settings()}\nbatch_size: 8"
    both = {"judge": deep(), "net": deep()}
    parameters = [{"params": both["judge"].parameters(), "lr": 0.5}, {"params": both["net"].parameters()}]
    (group,) = shoal.torch.from_torch(torch.optim.SGD(parameters, 0.1), both).groups
    assert group.learning_rate == 0.1  # The first of two groups of the same size has the run's own.
    assert group.variables.split("|")[:2] == ["net[.]0[.]weight", "net[.]0[.]bias"]


def test_a_converted_optimizer_has_the_schedule_that_is_given_with_it():
    model = deep()
    optimizer = torch.optim.AdamW(model.parameters())
    converted = shoal.torch.from_torch(optimizer, model, schedule=shoal.Cosine(warmup_steps=5))
    assert "schedule { kind: KIND_COSINE warmup_steps: 5 }" in converted.settings()


def test_groups_with_equal_options_do_not_become_groups_of_the_run():
    model = deep()
    optimizer = torch.optim.AdamW([{"params": model[0].parameters()}, {"params": model[2:].parameters()}])
    assert shoal.torch.from_torch(optimizer, model) == shoal.torch.from_torch(optimizer)
    assert not shoal.torch.from_torch(optimizer).groups
    decayed = torch.optim.SGD(model.parameters(), 0.1, weight_decay=0.01)
    assert shoal.torch.from_torch(decayed).settings() == (
        'optimizer { learning_rate: 0.1 sgd {} group { variables: ".*" weight_decay: 0.01 } }'
    )


def test_parameters_are_views_of_the_shared_memory_and_free_after_the_run():
    model = mlp()
    addresses = set()

    def body(trainer, model, batch):
        if trainer.work.index > 2:  # In the first batches they are copies, so that writes are found.
            addresses.add(model[0].weight.data_ptr())
        trainer.step(F.cross_entropy(model(batch[0]), batch[1]))

    play(program(model, shoal.SGD(0.1), body), drive(6, 1, 8, shoal.SGD(0.1)))
    assert len(addresses) == 2
    assert model[0].weight.data_ptr() not in addresses
    with torch.no_grad():
        model[0].weight.zero_()


def test_large_gradients_are_final_before_the_end_of_the_backward_pass():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 2))
    _, results, _ = play(program(model, shoal.SGD(0.1)), drive(3, 1, 8, shoal.SGD(0.1)))
    assert results[0].finals == []  # It shows how often each gradient arrives.
    for result in results[1:]:
        (names,) = result.finals
        assert "2.weight" in names
        assert "0.weight" not in names
    late = {"trainer": {"overlap": False}}
    _, results, _ = play(program(model, shoal.SGD(0.1), **late), drive(3, 1, 8, shoal.SGD(0.1)))
    assert [result.finals for result in results] == [[], [], []]


class Twice(nn.Module):
    """One layer is used twice, one is not used, one is tied to another."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.shared = nn.Linear(8, 8)
        self.unused = nn.Linear(3, 3)
        self.out = nn.Linear(8, 2)
        self.tied = self.out

    def forward(self, x):
        return self.out(torch.relu(self.shared(torch.relu(self.shared(x))))) + self.tied(x)


def test_a_parameter_used_twice_is_summed_and_one_not_reached_is_zero():
    reference = Twice()
    plain(reference, torch.optim.SGD(reference.parameters(), 0.1), 20, 8)
    values, results, _ = play(program(Twice(), shoal.SGD(0.1)), drive(20, 1, 8, shoal.SGD(0.1)))
    assert_equal_models(values, reference, 1e-6)
    assert not results[0].contributions["unused.weight"].any()
    assert "tied.weight" not in values


def test_nested_backward_passes_of_checkpointing_are_summed():
    from torch.utils.checkpoint import checkpoint

    class Nested(Twice):
        def forward(self, x):
            x = x.requires_grad_()
            for _ in range(2):
                x = checkpoint(lambda v: torch.relu(self.shared(v)), x, use_reentrant=True)
            return self.out(x)

    reference = Nested()
    plain(reference, torch.optim.SGD(reference.parameters(), 0.1), 10, 8)
    values, _, _ = play(program(Nested(), shoal.SGD(0.1)), drive(10, 1, 8, shoal.SGD(0.1)))
    assert_equal_models(values, reference, 1e-6)


def test_batch_norm_contributes_its_statistics_and_counts_steps():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    reference = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    reference.load_state_dict(model.state_dict())
    counts = []

    def body(trainer, model, batch):
        counts.append((trainer.training, model.training, model[1].training, int(model[1].num_batches_tracked)))
        trainer.step(F.cross_entropy(model(batch[0]), batch[1]))

    optimizer = shoal.Momentum(0.1)

    def evaluate(fake, ps, step):
        if step == 4:
            result = fake.evaluate(ps.values, range(N))
            model_loss.append(result.loss / N)

    model_loss = []
    whole = {"test_batch_size": N}
    run = program(model, optimizer, body, batches=whole)
    values, _, declared = play(run, drive(6, 1, 8, optimizer, evaluate))
    plain(reference, torch.optim.SGD(reference.parameters(), 0.1, momentum=0.9), 5, 8)
    reference.eval()
    assert model_loss[0] == pytest.approx(F.cross_entropy(reference(X), LABELS).item(), abs=1e-5)
    reference.train()
    kinds = {name: kind for name, kind, _ in declared.variables}
    assert kinds["1.running_mean"] == kinds["1.running_var"] == ASSIGN
    assert "1.num_batches_tracked" not in kinds
    assert counts == [(True, True, True, step) for step in range(5)] + [(False, False, False, 0), (True, True, True, 5)]
    for name in ("running_mean", "running_var"):
        assert not np.allclose(values[f"1.{name}"], getattr(reference[1], name).numpy(), atol=1e-9)  # 6 steps, not 5


def test_frozen_parameters_and_constant_buffers_stay():
    model = mlp()
    model[0].requires_grad_(False)
    model.register_buffer("scale", torch.full((2,), 3.0))
    model.register_buffer("mask", torch.tensor([True, False]))
    values, results, declared = play(program(model, shoal.SGD(0.5)), drive(3, 1, 8, shoal.SGD(0.5)))
    kinds = {name: kind for name, kind, _ in declared.variables}
    assert kinds["0.weight"] == kinds["scale"] == FROZEN
    assert "mask" not in kinds
    np.testing.assert_array_equal(values["0.weight"], mlp()[0].weight.detach().numpy())
    assert set(results[0].contributions) == {"2.weight", "2.bias"}


def test_gradient_accumulation_is_the_whole_batch():
    def parts(trainer, model, batch):
        for rows in (slice(0, 3), slice(3, 6)):
            loss = F.cross_entropy(model(batch[0][rows]), batch[1][rows])
            trainer.backward(loss, examples=3)
        trainer.step(F.cross_entropy(model(batch[0][6:]), batch[1][6:]))

    whole = play(program(mlp(), shoal.Adam()), drive(10, 1, 8, shoal.Adam()))
    values, results, _ = play(program(mlp(), shoal.Adam(), parts), drive(10, 1, 8, shoal.Adam()))
    for name, value in whole[0].items():
        np.testing.assert_allclose(values[name], value, atol=1e-5)
    assert results[0].loss == pytest.approx(whole[1][0].loss, rel=1e-5)


def test_several_losses_and_losses_per_example():
    def several(trainer, model, batch):
        logits = model(batch[0])
        each = F.cross_entropy(logits, batch[1], reduction="none")
        trainer.step([each, 0.1 * logits.square().mean()])

    def loss_of(model, rows):
        logits = model(X[rows])
        return F.cross_entropy(logits, LABELS[rows]) + 0.1 * logits.square().mean()

    reference = mlp()
    losses = plain(reference, torch.optim.SGD(reference.parameters(), 0.1), 10, 8, loss_of)
    values, results, _ = play(program(mlp(), shoal.SGD(0.1), several), drive(10, 1, 8, shoal.SGD(0.1)))
    assert_equal_models(values, reference, 1e-6)
    np.testing.assert_allclose([result.loss / 8 for result in results], losses, rtol=1e-5)


def test_step_replaces_the_step_of_an_optimizer_in_a_loop_of_the_user():
    def own_loop(trainer, model, batch):
        trainer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        trainer.step(loss)

    reference = mlp()
    optimizer = torch.optim.SGD(reference.parameters(), 0.1)
    for step in range(10):
        rows = [(step * 8 + i) % N for i in range(8)]
        optimizer.zero_grad()
        F.cross_entropy(reference(X[rows]), LABELS[rows]).backward()
        torch.nn.utils.clip_grad_norm_(reference.parameters(), 0.1)
        optimizer.step()

    def evaluate(fake, ps, step):
        fake.evaluate(ps.values, range(4))

    values, _, _ = play(program(mlp(), shoal.SGD(0.1), own_loop), drive(10, 1, 8, shoal.SGD(0.1), evaluate))
    assert_equal_models(values, reference, 1e-6)


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("runs_backward", [True, False])
def test_two_models_with_losses_of_their_own(runs_backward, overlap):
    def adversaries(trainer, models, batch):
        x, _ = batch
        fake = models["generator"](x)
        loss_d = models["judge"](fake.detach()).mean() - models["judge"](x).mean()
        loss_g = -models["judge"](fake).mean()
        if runs_backward:
            torch.autograd.backward(loss_d, inputs=list(models["judge"].parameters()))
            torch.autograd.backward(loss_g, inputs=list(models["generator"].parameters()))
            trainer.step([loss_d, loss_g])
        else:
            trainer.step({"judge": loss_d, "generator": loss_g})

    def models():
        torch.manual_seed(4)
        return {"generator": nn.Linear(8, 8), "judge": nn.Linear(8, 1)}

    values, _, _ = play(
        program(models(), shoal.SGD(0.1), adversaries, trainer={"overlap": overlap}), drive(5, 1, 8, shoal.SGD(0.1))
    )
    pair = models()
    optimizers = {name: torch.optim.SGD(model.parameters(), 0.1) for name, model in pair.items()}
    for step in range(5):
        x = X[[(step * 8 + i) % N for i in range(8)]]
        fake = pair["generator"](x)
        loss_d = pair["judge"](fake.detach()).mean() - pair["judge"](x).mean()
        gradients_d = torch.autograd.grad(loss_d, list(pair["judge"].parameters()))
        gradients_g = torch.autograd.grad(-pair["judge"](fake).mean(), list(pair["generator"].parameters()))
        for model, gradients in (("judge", gradients_d), ("generator", gradients_g)):
            for parameter, gradient in zip(pair[model].parameters(), gradients):
                parameter.grad = gradient
            optimizers[model].step()
    for name, model in pair.items():
        for key, parameter in model.named_parameters():
            np.testing.assert_allclose(values[f"{name}.{key}"], parameter.detach().numpy(), atol=1e-6)


def test_autocast_works_over_float32_parameters():
    def mixed(trainer, model, batch):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(batch[0]), batch[1])
        trainer.step(loss)

    def loss_of(model, rows):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return F.cross_entropy(model(X[rows]), LABELS[rows])

    reference = mlp()
    plain(reference, torch.optim.SGD(reference.parameters(), 0.1), 5, 8, loss_of)
    values, _, _ = play(program(mlp(), shoal.SGD(0.1), mixed), drive(5, 1, 8, shoal.SGD(0.1)))
    assert_equal_models(values, reference, 1e-6)


def test_a_repeated_batch_has_the_same_bytes_with_dropout():
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.5), nn.Linear(32, 2))

    def scenario(fake):
        values = fake.handshake()
        first = fake.train(values, range(8), index=3, seed=11, sets=(0, 0))
        other = fake.train(values, range(8), index=4, seed=12, sets=(0, 1))
        again = fake.train(values, range(8), index=3, seed=11, sets=(1, 1))
        fake.finish()
        return first, other, again

    first, other, again = play(program(model, shoal.SGD(0.1)), scenario)
    for name, value in first.contributions.items():
        assert value.tobytes() == again.contributions[name].tobytes()
    assert first.loss != other.loss


def test_an_evaluation_has_no_gradients_once_the_trainer_runs_the_backward_pass():
    seen = []

    def body(trainer, model, batch):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        seen.append((trainer.training, loss.requires_grad))
        trainer.step(loss)

    def scenario(fake):
        values = fake.handshake()
        fake.evaluate(values, range(4))
        fake.train(values, range(4))
        fake.evaluate(values, range(4))
        fake.finish()

    play(program(mlp(), None, body), scenario)
    assert seen == [(False, True), (True, True), (False, False)]
    assert torch.is_grad_enabled()


def test_a_check_of_determinism_finds_what_remembers_batches():
    calls = []

    def check(body):
        def run(worker):
            trainer = shoal.torch.Trainer(worker, mlp(), shoal.SGD(0.1))
            trainer.check_determinism()
            for batch in trainer.batches(DATA, batch_size=8):
                body(trainer, batch)

        return run

    def careful(trainer, batch):
        calls.append(batch[1].tolist())
        loss = F.cross_entropy(trainer._models[""](batch[0]), batch[1])
        trainer.step(loss)

    def forgetful(trainer, batch):
        calls.append(1)
        trainer.step(F.cross_entropy(trainer._models[""](batch[0]) * (1 + len(calls)), batch[1]))

    reference, _, _ = play(program(mlp(), shoal.SGD(0.1)), drive(2, 1, 8, shoal.SGD(0.1)))
    values, _, _ = play(check(careful), drive(2, 1, 8, shoal.SGD(0.1)))
    assert len(calls) == 4
    assert calls[0] == calls[1][::-1] == calls[2]
    for name, value in reference.items():
        assert value.tobytes() == values[name].tobytes()
    with pytest.raises(shoal.ProgramError, match=r"the contributions to 0.weight differ"):
        play(check(forgetful), lambda fake: _ignore_end(fake))


def _ignore_end(fake):
    values = fake.handshake()
    try:
        fake.train(values, range(8))
    except Exception:  # noqa: BLE001 - the program's error is the one that counts
        return


@pytest.mark.parametrize(
    ("rows", "run_file", "warns"),
    [
        (500_001, "deployment {\n  num_ps_tasks: 2\n}", True),
        (500_000, "num_ps_tasks: 2", False),
        (500_001, "num_ps_tasks: 0", False),
    ],
)
def test_a_dense_embedding_that_a_table_should_hold_is_named(rows, run_file, warns):
    model = nn.ModuleDict({"words": nn.EmbeddingBag(rows, 16, device="meta"), "out": nn.Linear(16, 1)})
    why = why_a_table_is_better({"": model}, run_file)
    assert bool(why) == warns
    if warns:
        assert why.startswith("words.weight has 32 MB, which every step sends")
        assert "shoal.torch.EmbeddingBag" in why
    model["words"].weight.requires_grad_(False)
    assert why_a_table_is_better({"": model}, run_file) == ""


def test_the_warning_of_a_large_embedding_is_printed_once(capsys, monkeypatch):
    monkeypatch.setattr("shoal.torch.model.why_a_table_is_better", lambda models, run_file: "it is large")
    play(program(mlp(), shoal.SGD(0.1)), drive(3, 2, 8, shoal.SGD(0.1)))
    assert capsys.readouterr().out.count("shoal: warning: it is large") == 1
