"""Programs that would train other than they mean, without an error of their own: each is refused with a remedy."""

import copy
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fake_worker import play
from test_device import SimulatedStreams
from test_training import DATA, drive, mlp, program
from torch import nn
from torch.utils.data import Subset

import shoal
import shoal.torch
from shoal.torch.data import fingerprint
from shoal.torch.model import describe_constants, named_models, tensors_of


def usual(trainer, model, batch):
    trainer.step(F.cross_entropy(model(batch[0]), batch[1]))


def refusal(make, body=usual, evaluates=False, optimizer=None, batches=2, **options):
    """Returns the error of a program that trains with some batches, after an evaluation if that is asked for."""

    def run(worker):
        model = make()
        trainer = shoal.torch.Trainer(worker, model, optimizer or shoal.SGD(0.1), **options)
        for batch in trainer.batches(DATA, batch_size=8, test=DATA if evaluates else None):
            body(trainer, model, batch)

    def scenario(fake):
        values = fake.handshake()
        try:
            if evaluates:
                fake.evaluate(values, range(8))
            for index in range(batches):
                fake.train(values, range(8), index=index)
            fake.finish()
        except Exception:  # noqa: BLE001 - the program's error is the one that counts
            return

    with pytest.raises(shoal.ProgramError) as raised:
        play(run, scenario)
    assert re.match(r"\S*test_\w+\.py:\d+: ", str(raised.value))
    return str(raised.value)


class WithBuffer(nn.Module):
    """Has a buffer, which `change` gets after each forward pass."""

    def __init__(self, change=lambda module: None, dtype=torch.float32):
        super().__init__()
        self.layer = mlp()
        self.change = change
        self.register_buffer("seen", torch.ones(2, dtype=dtype))

    def forward(self, x):
        self.change(self)
        return self.layer(x)


def test_a_buffer_that_is_changed_through_data_is_found():
    text = refusal(lambda: WithBuffer(lambda module: module.seen.data.mul_(0.5)))
    assert "the buffer seen changes with a batch; name it: Trainer(…, statistics=['seen'])" in text


def test_a_buffer_that_is_changed_behind_step_is_found():
    def body(trainer, model, batch):
        usual(trainer, model, batch)
        model.seen.mul_(0.99)

    assert "the buffer seen changes with a batch" in refusal(WithBuffer, body)


def test_a_buffer_that_an_evaluation_changes_is_found():
    def change(module):
        if not module.training:
            module.seen.copy_(torch.zeros(2))

    assert "the buffer seen changes with a batch" in refusal(lambda: WithBuffer(change), evaluates=True)


def test_buffers_of_other_types_are_part_of_what_workers_must_share():
    def text(value):
        model = WithBuffer(dtype=torch.int64)
        model.seen.fill_(value)
        return describe_constants(list(tensors_of(named_models(model))))

    assert text(1).startswith(" buffers seen ")
    assert text(1) == text(1)
    assert text(1) != text(2)
    assert not describe_constants(list(tensors_of(named_models(mlp()))))


def test_a_model_in_eval_mode_is_refused_at_the_start():
    assert "the model is in eval mode" in refusal(lambda: mlp().eval())

    def frozen_teacher(trainer, models, batch):
        target = models["teacher"](batch[0])
        trainer.step(F.mse_loss(models["student"](batch[0]), target))

    def pair():
        return {"student": mlp(), "teacher": mlp().eval().requires_grad_(False)}

    play(program(pair(), shoal.SGD(0.1), frozen_teacher), drive(2, 1, 8, shoal.SGD(0.1)))

    head_only = mlp().eval()
    head_only[0].requires_grad_(False)
    head_only[2].train()
    play(program(head_only, shoal.SGD(0.1)), drive(2, 1, 8, shoal.SGD(0.1)))


def test_zero_grad_clears_what_a_backward_pass_of_the_program_has_left():
    def adversarial(trainer, model, batch):
        F.cross_entropy(model(batch[0]), batch[1]).backward()
        trainer.zero_grad()
        usual(trainer, model, (batch[0] + 0.1, batch[1]))

    def moved(trainer, model, batch):
        usual(trainer, model, (batch[0] + 0.1, batch[1]))

    values = [
        play(program(mlp(), shoal.SGD(0.1), body), drive(4, 1, 8, shoal.SGD(0.1)))[0] for body in (adversarial, moved)
    ]
    for name, value in values[0].items():
        assert value.tobytes() == values[1][name].tobytes()


def test_a_loss_whose_backward_pass_was_forgotten_has_one_warning(capsys):
    def forgets_generator(trainer, models, batch):
        fake = models["generator"](batch[0])
        models["judge"](fake.detach()).mean().backward()
        trainer.step(-models["judge"](fake).mean())

    models = {"generator": nn.Linear(8, 8), "judge": nn.Linear(8, 1)}
    play(program(models, shoal.SGD(0.1), forgets_generator), drive(3, 1, 8, shoal.SGD(0.1)))
    text = capsys.readouterr().out
    assert text.count("this loss depends on generator.") == 1
    assert "call backward() for each loss, or leave it to step([loss_a, loss_b])" in text


def attack(trainer, model, batch, clears):
    """FGSM: the first backward pass is only for the gradient of the inputs."""
    x = batch[0].clone().requires_grad_()
    F.cross_entropy(model(x), batch[1]).backward()
    clears(trainer, model)
    trainer.step(F.cross_entropy(model(batch[0] + 0.1 * x.grad.sign()), batch[1]))


def test_gradients_of_another_loss_have_one_warning(capsys):
    def body(trainer, model, batch):
        attack(trainer, model, batch, lambda trainer, model: None)

    play(program(mlp(), shoal.SGD(0.1), body), drive(4, 1, 8, shoal.SGD(0.1)))
    text = capsys.readouterr().out
    assert text.count("shoal: warning: ") == text.count("so the gradients are probably those of another loss") == 1
    assert "call trainer.zero_grad() before step(loss)" in text


def test_one_of_two_losses_that_was_not_run_backward_has_a_warning(capsys):
    def body(trainer, model, batch):
        losses = [F.cross_entropy(model(batch[0]), batch[1]), model(batch[0]).square().mean()]
        losses[0].backward()
        trainer.step(losses)

    play(program(mlp(), shoal.SGD(0.1), body), drive(4, 1, 8, shoal.SGD(0.1)))
    assert capsys.readouterr().out.count("so the gradients are probably those of another loss") == 1


def test_gradients_that_are_all_zero_are_refused():
    def body(trainer, model, batch):
        attack(trainer, model, batch, lambda trainer, model: model.zero_grad(set_to_none=False))

    text = refusal(mlp, body)
    assert "all gradients are zero, as zero_grad(set_to_none=False) leaves them" in text
    assert "call trainer.zero_grad(), which removes them" in text


def of_parts(trainer, model, batch):
    parts = [F.cross_entropy(model(x), y) / 2 for x, y in zip(batch[0].split(4), batch[1].split(4))]
    for part in parts:
        part.backward()
    trainer.step(sum(parts))


def of_two_losses(trainer, model, batch):
    logits = model(batch[0])
    losses = [F.cross_entropy(logits, batch[1]), logits.square().mean()]
    losses[0].backward(retain_graph=True)
    losses[1].backward()
    trainer.step(losses)


def with_a_penalty(trainer, model, batch):
    loss = F.cross_entropy(model(batch[0]), batch[1])
    (loss + 0.1 * sum(p.square().sum() for p in model.parameters())).backward()
    trainer.step(loss)


def without_a_graph(trainer, model, batch):
    loss = F.cross_entropy(model(batch[0]), batch[1])
    loss.backward(retain_graph=True)
    trainer.step(loss.detach())


def with_gradients_that_are_zero(trainer, model, batch):
    loss = F.relu(model(batch[0]) - 1000).mean()
    loss.backward()
    trainer.step(loss)


def through_a_function(trainer, model, batch):
    loss = F.cross_entropy(model(batch[0]), batch[1])
    for parameter, gradient in zip(model.parameters(), torch.autograd.grad(loss, list(model.parameters()))):
        parameter.grad = gradient
    trainer.step(loss)


@pytest.mark.parametrize(
    "body",
    [of_parts, of_two_losses, with_a_penalty, without_a_graph, with_gradients_that_are_zero, through_a_function],
)
def test_losses_that_a_program_runs_backward_itself_have_no_warning(body, capsys):
    play(program(mlp(), shoal.SGD(0.1), body), drive(4, 1, 8, shoal.SGD(0.1)))
    assert "warning" not in capsys.readouterr().out


def test_programs_that_clear_a_gradient_train(capsys):
    def without_first(trainer, model, batch):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        model[0].weight.grad = None
        trainer.step(loss)

    model = mlp()
    before = model[0].weight.detach().clone()
    values, _, _ = play(program(model, shoal.SGD(0.1), without_first), drive(3, 1, 8, shoal.SGD(0.1)))
    np.testing.assert_array_equal(values["0.weight"], before.numpy())
    assert "shoal: warning: step() only reports a loss" in capsys.readouterr().out


def test_a_loss_for_each_model_names_models_of_the_trainer():
    def body(trainer, models, batch):
        trainer.step({"judg": models["judge"](batch[0]).mean()})

    assert "a loss for the model 'judg'; the trainer's models are judge" in refusal(lambda: {"judge": mlp()}, body)

    def single(trainer, model, batch):
        trainer.step({"judge": model(batch[0]).mean()})

    assert "the trainer's models are one, without a name" in refusal(mlp, single)

    def frozen(trainer, models, batch):
        trainer.step({"teacher": models["student"](batch[0]).mean()})

    models = {"student": mlp(), "teacher": mlp().requires_grad_(False)}
    assert "the model 'teacher', of which no parameter is trained" in refusal(lambda: models, frozen)


def test_a_loss_after_the_whole_batch_is_refused():
    def body(trainer, model, batch):
        trainer.backward(F.cross_entropy(model(batch[0]), batch[1]), examples=8)
        trainer.step(100 * model[0].weight.square().sum())

    assert "backward() was called for all examples of the batch, so this loss would not count" in refusal(mlp, body)


def test_a_parameter_outside_of_the_trainer_has_a_warning(capsys):
    head = nn.Linear(2, 2)

    def through_head(trainer, model, batch):
        trainer.step(F.cross_entropy(head(model(batch[0])), batch[1]))

    def own_backward(trainer, model, batch):
        loss = F.cross_entropy(head(model(batch[0])), batch[1])
        loss.backward()
        trainer.step(loss)

    for body in (through_head, own_backward):
        play(program(mlp(), shoal.SGD(0.1), body), drive(3, 1, 8, shoal.SGD(0.1)))
        text = capsys.readouterr().out
        assert "the loss depends on a parameter of shape (2, 2)" in text or "of shape (2,)" in text
        assert "Trainer(worker, [model, head], …)" in text


@pytest.mark.parametrize(
    "make",
    [
        lambda o: torch.optim.lr_scheduler.StepLR(o, 1),
        lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 4),
        lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, 10),
        torch.optim.lr_scheduler.ReduceLROnPlateau,
    ],
)
def test_a_scheduler_beside_the_trainer_is_refused(make):
    schedulers = []

    def with_scheduler():
        model = mlp()
        schedulers.append(make(torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)))
        return model

    def body(trainer, model, batch):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        trainer.step(loss)
        plateau = isinstance(schedulers[-1], torch.optim.lr_scheduler.ReduceLROnPlateau)
        schedulers[-1].step(*([loss.item()] if plateau else []))

    text = refusal(with_scheduler, body)
    assert f"{type(schedulers[-1]).__name__}.step() would have no effect: the parameter servers apply" in text
    schedulers[-1].step(*([1.0] if "Plateau" in text else []))  # It works again when the run is over.


def test_a_scheduler_outside_of_pytorchs_class_of_schedulers_is_refused(monkeypatch):
    class Plateau:  # As ReduceLROnPlateau of PyTorch 2.1.
        def __init__(self, optimizer):
            self.optimizer = optimizer

        def step(self, metrics):
            pass

    monkeypatch.setattr(torch.optim.lr_scheduler, "ReduceLROnPlateau", Plateau)

    def body(trainer, model, batch):
        usual(trainer, model, batch)
        Plateau(torch.optim.SGD(model.parameters(), 0.1)).step(1.0)

    assert "Plateau.step() would have no effect: the parameter servers apply" in refusal(mlp, body)


def test_a_scheduler_of_other_parameters_works():
    other = torch.optim.SGD(nn.Linear(1, 1).parameters(), 1.0)
    schedule = torch.optim.lr_scheduler.ExponentialLR(other, 0.5)

    def body(trainer, model, batch):
        usual(trainer, model, batch)
        other.step()
        schedule.step()

    play(program(mlp(), shoal.SGD(0.1), body), drive(3, 1, 8, shoal.SGD(0.1)))
    assert other.param_groups[0]["lr"] == 0.125


def test_a_gradient_scaler_is_refused():
    def body(trainer, model, batch):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        torch.amp.GradScaler("cpu").scale(loss).backward()
        trainer.step(loss)

    assert "drop the scaler, since torch.autocast with bfloat16 needs none" in refusal(mlp, body)

    def unscaled(trainer, model, batch):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        scaler = torch.amp.GradScaler("cpu")
        loss = F.cross_entropy(model(batch[0]), batch[1])
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        trainer.step(loss)

    values, _, _ = play(program(mlp(), shoal.SGD(0.1), unscaled), drive(3, 1, 8, shoal.SGD(0.1)))
    reference, _, _ = play(program(mlp(), shoal.SGD(0.1)), drive(3, 1, 8, shoal.SGD(0.1)))
    for name, value in reference.items():
        np.testing.assert_allclose(values[name], value, atol=1e-5)


class SGD(torch.optim.SGD):
    """Another formula under the name of one of PyTorch's."""


def test_an_optimizer_of_another_library_with_a_name_of_pytorchs_is_refused():
    with pytest.raises(shoal.ProgramError, match=r"test_guard.SGD is not one of torch.optim, so its formula is not"):
        shoal.torch.from_torch(SGD(mlp().parameters(), 0.1))


def test_a_converted_optimizer_may_clip_and_average():
    converted = shoal.torch.from_torch(
        torch.optim.AdamW(mlp().parameters(), 0.1), clip_by_value=3, clip_by_global_norm=2, moving_average_decay=0.9
    )
    assert converted == shoal.AdamW(
        0.1, corrected_epsilon=True, clip_by_value=3, clip_by_global_norm=2, moving_average_decay=0.9
    )


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad", "Adadelta"])
def test_an_optimizer_that_has_trained_is_refused(name):
    model = mlp()
    optimizer = getattr(torch.optim, name)(model.parameters(), 0.1, **({"momentum": 0.9} if name == "SGD" else {}))
    shoal.torch.from_torch(optimizer)
    F.cross_entropy(model(DATA[:8][0]), DATA[:8][1]).backward()
    optimizer.step()
    with pytest.raises(shoal.ProgramError, match="has the state of earlier steps, which the run cannot take over"):
        shoal.torch.from_torch(optimizer)


def test_another_option_of_an_optimizer_that_changes_is_refused():
    def run(worker):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.5)
        trainer = shoal.torch.Trainer(worker, model, optimizer)
        for batch in trainer.batches(DATA, batch_size=8):
            optimizer.param_groups[0]["momentum"] = 0.9
            usual(trainer, model, batch)

    def scenario(fake):
        try:
            fake.train(fake.handshake(), range(8))
        except Exception:  # noqa: BLE001 - the program's error is the one that counts
            return

    with pytest.raises(shoal.ProgramError, match="another setting of SGD changes while the run trains"):
        play(run, scenario)


def tied(by_data):
    model = nn.ModuleDict({"encoder": nn.Linear(8, 8, bias=False), "decoder": nn.Linear(8, 8, bias=False)})
    if by_data:
        model["decoder"].weight.data = model["encoder"].weight.data
    else:
        model["decoder"].weight = model["encoder"].weight
    return model


class WithOddBuffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = mlp()
        self.register_buffer("quantized", torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8))
        self.register_buffer("sparse", torch.eye(3, dtype=torch.float64).to_sparse())
        self.register_buffer("rows", torch.eye(3, dtype=torch.float64).to_sparse_csr())
        self.register_buffer("conjugate", torch.polar(torch.ones(3), torch.ones(3)).conj())
        self.register_buffer("nowhere", torch.zeros(3, dtype=torch.int64, device="meta"))
        self.register_buffer("nothing", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("strided", torch.ones(4, 4, dtype=torch.bfloat16)[:, ::2])

    def forward(self, x):
        return self.layer(x)


def test_buffers_of_any_kind_may_stay_as_they_are():
    play(program(WithOddBuffers(), shoal.SGD(0.1)), drive(2, 1, 8, shoal.SGD(0.1)))


def test_frozen_parameters_may_share_memory():
    words = torch.randn(8, 8)
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False), nn.Linear(8, 2))
    for part in model[:2]:
        part.weight.data = words
        part.requires_grad_(False)
    play(program(model, shoal.SGD(0.1)), drive(2, 1, 8, shoal.SGD(0.1)))


def test_weights_that_share_memory_are_tied_as_one_parameter():
    text = refusal(lambda: tied(by_data=True))
    assert "encoder.weight and decoder.weight share memory" in text or "decoder.weight and encoder.weight" in text
    assert "without .data" in text
    assert [entry.name for entry in tensors_of(named_models(tied(by_data=False)))] == ["encoder.weight"]


def test_an_embedding_that_bounds_its_rows_is_refused():
    model = nn.Sequential(nn.Embedding(10, 2, max_norm=1.0), nn.Flatten(), nn.Linear(2, 2))
    assert "0.weight has max_norm=1" in refusal(lambda: model)


@pytest.mark.parametrize("through_data", [True, False])
def test_a_write_into_a_parameter_on_a_device_is_found(through_data):
    def clipped(trainer, model, batch):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        with torch.no_grad():
            (model[0].weight.data if through_data else model[0].weight).clamp_(-0.01, 0.01)
        trainer.step(loss)

    text = refusal(mlp, clipped, _streams=SimulatedStreams(0))
    assert "the program has written into the parameter 0.weight" in text


def test_a_write_into_a_frozen_parameter_between_batches_is_found_on_a_device():
    def frozen_first():
        model = mlp()
        model[0].requires_grad_(False)
        return model

    def body(trainer, model, batch):
        index = trainer.work.index
        usual(trainer, model, batch)
        if index == 4:
            with torch.no_grad():
                model[0].weight.fill_(5)

    text = refusal(frozen_first, body, _streams=SimulatedStreams(0), batches=6)
    assert "the program has written into the parameter 0.weight" in text


def test_frozen_parameters_are_copied_to_a_device_once():
    copied = []

    class Counting(SimulatedStreams):
        def upload(self, pairs):
            copied.append(len(pairs))
            super().upload(pairs)

    model = mlp()
    model[0].requires_grad_(False)
    play(program(model, shoal.SGD(0.1), trainer={"_streams": Counting(0)}), drive(3, 1, 8, shoal.SGD(0.1)))
    assert copied == [4, 2, 2]


def test_a_gradient_with_a_history_is_contributed_without_it():
    targets = []

    def penalized(trainer, model, batch):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward(create_graph=True)
        trainer.step(loss)
        targets.extend(t for both in trainer._targets for t in both.values())

    values, _, _ = play(program(mlp(), shoal.SGD(0.1), penalized), drive(3, 1, 8, shoal.SGD(0.1)))
    reference, _, _ = play(program(mlp(), shoal.SGD(0.1)), drive(3, 1, 8, shoal.SGD(0.1)))
    for name, value in reference.items():
        np.testing.assert_allclose(values[name], value, atol=1e-6)
    assert not any(target.requires_grad for target in targets)


def test_a_check_of_determinism_takes_sparse_gradients():
    ids = torch.utils.data.TensorDataset(torch.arange(64) % 10, torch.arange(64) % 2)

    def run(worker):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Linear(4, 2))
        trainer = shoal.torch.Trainer(worker, model, shoal.SGD(0.1))
        trainer.check_determinism()
        for batch in trainer.batches(ids, batch_size=8):
            usual(trainer, model, batch)

    def scenario(fake):
        result = fake.train(fake.handshake(), range(8))
        fake.finish()
        return result.contributions["0.weight"].shape

    assert play(run, scenario) == (10, 4)


def test_a_metric_may_be_a_list_of_values():
    def body(trainer, model, batch):
        logits = model(batch[0])
        trainer.step(F.cross_entropy(logits, batch[1]), accuracy=[0.5, 1.0])

    def scenario(fake):
        result = fake.train(fake.handshake(), range(2))
        fake.finish()
        return result.metrics

    assert play(program(mlp(), shoal.SGD(0.1), body), scenario) == {"accuracy": (1.5, 2.0)}


def test_other_examples_of_a_subset_are_other_data():
    one, two = Subset(DATA, [0, 1, 2]), Subset(DATA, [0, 1, 3])
    assert fingerprint(one) == fingerprint(Subset(copy.copy(DATA), [0, 1, 2]))
    assert fingerprint(one) != fingerprint(two)
    assert fingerprint(Subset(DATA, torch.tensor([0, 1, 2]))) == fingerprint(one)

    class Numbers:
        def __getitem__(self, index):
            return index

    assert fingerprint(Subset(Numbers(), range(3)))


@pytest.mark.parametrize(("option", "remedy"), [("drop_last", "range(len(train) // b * b)"), ("sampler", "Subset(")])
def test_the_error_of_an_option_of_the_order_has_its_remedy(option, remedy):
    def run(worker):
        trainer = shoal.torch.Trainer(worker, mlp(), shoal.SGD(0.1))
        for _ in trainer.batches(DATA, batch_size=8, **{option: True}):
            pass

    with pytest.raises(shoal.ProgramError) as raised:
        play(run, lambda fake: fake.welcome())
    assert remedy in str(raised.value)
