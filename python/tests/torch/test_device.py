"""The copy path of devices with memory of their own, with a device whose copies end late."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fake_worker import play
from test_training import DATA, LABELS, N, X, assert_equal_models, mlp, plain
from torch import nn

import shoal
import shoal.torch
from shoal.torch.memory import CudaStreams


class LateCopy:
    """A copy that ends after a number of questions, or when somebody waits."""

    def __init__(self, target, source, questions):
        self.target, self.source, self.questions, self.is_over = target, source, questions, False

    def query(self):
        self.questions -= 1
        if self.questions < 0:
            self.synchronize()
        return self.is_over

    def synchronize(self):
        if not self.is_over:
            self.target.copy_(self.source)
            self.is_over = True


class SimulatedStreams:
    def __init__(self, questions):
        self.questions = questions
        self.uploads = 0
        self.registered = []
        self.copies = []

    def upload(self, pairs):
        self.uploads += 1
        for target, source in pairs:
            target.copy_(source)

    def download(self, target, source):
        self.copies.append(LateCopy(target, source, self.questions))
        return self.copies[-1]

    def register(self, tensors, is_read_only):
        self.registered.append((len(tensors), is_read_only))


def wide():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 2))


@pytest.mark.parametrize("questions", [0, 1, 3, 1000])
def test_a_gradient_is_final_only_when_its_copy_has_ended(questions):
    streams = SimulatedStreams(questions)
    model = wide()
    before = model[2].weight.data_ptr()

    def program(worker):
        trainer = shoal.torch.Trainer(worker, model, shoal.SGD(0.1), _streams=streams)
        for batch in trainer.batches(DATA, batch_size=8):
            trainer.step(F.cross_entropy(model(batch[0]), batch[1]))

    def scenario(fake):
        values = fake.handshake()
        finals = 0
        for step in range(4):
            # train() verifies that what is final does not change afterwards, and that nothing stays NaN
            result = fake.train(values, [(8 * step + i) % N for i in range(8)], step=step)
            assert all(np.isfinite(value).all() for value in result.contributions.values())
            finals += len(result.finals)
            for name in values:
                values[name] = values[name] - np.float32(0.1) * result.contributions[name]
        fake.finish()
        return values, finals

    values, finals = play(program, scenario)
    reference = wide()
    plain(reference, torch.optim.SGD(reference.parameters(), 0.1), 4, 8)
    assert_equal_models(values, reference, 1e-5)
    assert streams.uploads == 4
    assert streams.registered == [(12, True), (12, False)]
    assert len(streams.copies) == 4 * 6
    assert model[2].weight.data_ptr() == before  # The model keeps its own memory.
    assert (finals > 0) == (questions <= 1)


def test_statistics_travel_too():
    model = nn.Sequential(mlp(), nn.BatchNorm1d(2))
    streams = SimulatedStreams(5)

    def program(worker):
        trainer = shoal.torch.Trainer(worker, model, shoal.SGD(0.1), _streams=streams)
        for batch in trainer.batches(DATA, batch_size=8):
            trainer.step(F.cross_entropy(model(batch[0]), batch[1]))

    def scenario(fake):
        result = fake.train(fake.handshake(), range(8))
        fake.finish()
        return result

    result = play(program, scenario)
    statistics = nn.BatchNorm1d(2)
    statistics(mlp()(X[:8]))
    assert len(LABELS) == N
    np.testing.assert_allclose(result.contributions["1.running_mean"], statistics.running_mean.numpy(), atol=1e-6)


class Moving(nn.Module):
    """Gives a parameter another memory in each forward pass, as flatten_parameters() of an RNN does on CUDA."""

    def __init__(self, value_of=lambda weight: weight.clone()):
        super().__init__()
        self.layers = mlp()
        self.value_of = value_of

    def forward(self, x):
        self.layers[0].weight.data = self.value_of(self.layers[0].weight.data)
        return self.layers(x)


def trained(model, batches=6):
    """Trains on the simulated device, beyond the first batches, in which values are compared."""

    def program(worker):
        trainer = shoal.torch.Trainer(worker, model, shoal.SGD(0.1), _streams=SimulatedStreams(1))
        for batch in trainer.batches(DATA, batch_size=8, test=DATA):
            trainer.step(F.cross_entropy(model(batch[0]), batch[1]))

    def scenario(fake):
        values = fake.handshake()
        try:
            for step in range(batches):
                result = fake.train(values, [(8 * step + i) % N for i in range(8)], step=step)
                for name in values:
                    values[name] = values[name] - np.float32(0.1) * result.contributions[name]
                fake.evaluate(values, range(8))
            fake.finish()
        except Exception:  # noqa: BLE001 - the program's error is the one that counts
            return None
        return values

    return play(program, scenario)


def test_a_parameter_may_move_on_a_device():
    reference = mlp()
    plain(reference, torch.optim.SGD(reference.parameters(), 0.1), 6, 8)
    values = trained(Moving())
    assert_equal_models({name[len("layers.") :]: value for name, value in values.items()}, reference, 1e-5)


class Later:
    """Changes the parameter in the fourth batch; each batch has an evaluation in two parts."""

    def __init__(self, change):
        self.calls, self.change = 0, change

    def __call__(self, weight):
        self.calls += 1
        return self.change(weight) if self.calls > 9 else weight


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weight: weight * 0.5, "the program has written into the parameter layers.0.weight"),
        (lambda weight: torch.ones(2, 8), "the parameter layers.0.weight was replaced, its shape is (2, 8)"),
        (lambda weight: weight.double(), "the parameter layers.0.weight was replaced, its shape is (16, 8)"),
    ],
)
def test_a_parameter_that_gets_other_values_or_another_form_on_a_device_is_refused(change, message):
    class Replacing(Moving):
        def forward(self, x):
            result = self.layers(x)
            self.layers[0].weight.data = self.value_of(self.layers[0].weight.data)
            return result.detach() + 0 * sum(p.sum() for p in self.layers[2].parameters())

    with pytest.raises(shoal.ProgramError) as raised:
        trained(Replacing(Later(change)))
    assert message in str(raised.value)


@pytest.mark.parametrize("result", [0, 801])
def test_memory_that_cuda_cannot_register_leaves_no_error_behind(result, monkeypatch):
    registered, kernels = [], []

    class Runtime:
        def cudaHostRegister(self, begin, size, flags):  # noqa: N802 - the name of CUDA's
            registered.append((size, flags))
            return result

    def failing_kernel(*_, **options):
        kernels.append(options)
        raise RuntimeError("CUDA error: operation not supported")

    streams = object.__new__(CudaStreams)
    streams._device = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "cudart", Runtime)
    monkeypatch.setattr(torch, "ones", failing_kernel)
    streams.register([torch.zeros(4)], True)
    streams.register([torch.zeros(4)], False)
    assert registered == [(16, 8), (16, 0)]
    assert len(kernels) == (2 if result else 0)
