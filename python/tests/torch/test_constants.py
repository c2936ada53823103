"""Tensors of a model that are not variables: every worker has them from its program."""

import numpy as np
import pytest
import torch
from fake_worker import play
from test_guard import refusal
from test_safetensors import write
from test_training import drive, mlp, plain, program
from torch import nn

import shoal
import shoal.torch
from shoal.torch.model import describe_constants, named_models, tensors_of

BUFFERS = {
    "a mask with minus infinity": lambda: torch.full((4, 4), -torch.inf).triu(1),
    "a sparse one": lambda: torch.eye(3).to_sparse(),
    "sparse rows": lambda: torch.eye(3).to_sparse_csr(),
    "an empty one": lambda: torch.zeros(0, 3),
    "an expanded one": lambda: torch.ones(1, 3).expand(2, 3),
    "one without values": lambda: torch.zeros(3, device="meta"),
}


class With(nn.Module):
    """A model with a tensor, which `change` gets in each forward pass."""

    def __init__(self, tensor, change=lambda module: None):
        super().__init__()
        self.layer = mlp()
        self.change = change
        if isinstance(tensor, nn.Parameter):
            self.extra = tensor
        else:
            self.register_buffer("extra", tensor)

    def forward(self, x):
        self.change(self)
        return self.layer(x)


@pytest.mark.parametrize("name", list(BUFFERS))
def test_a_float32_buffer_that_cannot_be_a_variable_stays_with_the_program(name, tmp_path):
    model = With(BUFFERS[name]())
    values, _, declared = play(program(model, shoal.SGD(0.1)), drive(3, 1, 8, shoal.SGD(0.1)))
    assert "extra" not in {variable for variable, _, _ in declared.variables}
    assert str(model.extra) == str(BUFFERS[name]())
    loaded = With(BUFFERS[name]())
    shoal.torch.load(write(tmp_path / "model.safetensors", values), loaded)
    np.testing.assert_array_equal(loaded.layer[0].weight.detach().numpy(), values["layer.0.weight"])
    assert str(loaded.extra) == str(BUFFERS[name]())


def test_a_buffer_is_loaded_whatever_it_holds_before(tmp_path):
    values = {name: tensor.numpy() for name, tensor in With(torch.ones(2)).state_dict().items()}
    loaded = With(torch.full((2,), torch.nan))  # torch.empty() may have such values.
    shoal.torch.load(write(tmp_path / "model.safetensors", values), loaded)
    assert loaded.extra.tolist() == [1, 1]


def test_workers_with_another_mask_are_other_programs():
    def text(diagonal):
        model = With(torch.full((4, 4), -torch.inf).triu(diagonal))
        return describe_constants(list(tensors_of(named_models(model))))

    assert text(1).startswith(" buffers extra ")
    assert text(1) != text(2)


def test_a_buffer_that_is_not_finite_and_changes_is_refused():
    def fill(module):
        module.extra.fill_(0)

    text = refusal(lambda: With(torch.full((2,), torch.inf), fill))
    assert "the buffer extra changes with a batch, but it is sparse, empty, expanded or not finite" in text
    text = refusal(lambda: With(torch.eye(3).to_sparse()), statistics=["extra"])
    assert "statistics names extra, a statistic of torch.float32; it must be float32, dense and finite" in text


def frozen(dtype):
    return nn.Parameter(torch.ones(3, 2).to(dtype), requires_grad=False)


class Adapted(nn.Module):
    """A frozen base in bfloat16 beside a part that is trained, as of LoRA."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.base = nn.Linear(8, 8).bfloat16().requires_grad_(False)
        self.part = nn.Linear(8, 8)
        self.top = nn.Linear(8, 2)

    def forward(self, x):
        return self.top(self.base(x.bfloat16()).float() + self.part(x))


def test_a_frozen_base_in_bfloat16_is_not_a_variable(tmp_path):
    reference = Adapted()
    plain(reference, torch.optim.SGD([*reference.part.parameters(), *reference.top.parameters()], 0.1), 10, 8)
    model = Adapted()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    values, _, declared = play(program(model, optimizer), drive(10, 1, 8, shoal.SGD(0.1)))
    assert set(values) == {"part.weight", "part.bias", "top.weight", "top.bias"}
    for name, value in values.items():
        np.testing.assert_allclose(value, reference.get_parameter(name).detach().numpy(), atol=1e-6)
    assert " frozen base.weight, base.bias " in declared.computation
    assert model.base.weight.dtype == torch.bfloat16
    loaded = Adapted()
    shoal.torch.load(write(tmp_path / "model.safetensors", values), loaded)
    assert torch.equal(loaded.base.weight, model.base.weight)
    assert torch.equal(loaded.top.weight, torch.from_numpy(values["top.weight"]))


def test_another_base_is_another_program():
    def text(value):
        return describe_constants(
            list(tensors_of(named_models(With(nn.Parameter(value * frozen(torch.bfloat16), requires_grad=False)))))
        )

    assert text(1) != text(2)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int64, torch.float64, torch.complex64, torch.bool])
def test_a_frozen_parameter_of_any_type_stays_with_the_program(dtype):
    model = With(frozen(dtype))
    _, _, declared = play(program(model, shoal.SGD(0.1)), drive(2, 1, 8, shoal.SGD(0.1)))
    assert "extra" not in {variable for variable, _, _ in declared.variables}
    assert torch.equal(model.extra, frozen(dtype))


def test_the_values_of_a_run_are_those_of_a_base_that_is_frozen_in_bfloat16_later(tmp_path):
    values = {n: t.detach().float().numpy() + 1 for n, t in Adapted().state_dict().items()}
    loaded = Adapted()
    shoal.torch.load(write(tmp_path / "model.safetensors", values), loaded)
    assert torch.equal(loaded.base.weight, torch.from_numpy(values["base.weight"]).bfloat16())


def add(module):
    with torch.no_grad():
        module.extra.add_(1)


def add_to_data(module):
    module.extra.data.add_(1)


def thaw(module):
    module.extra.requires_grad_()


def replace(module):
    module.extra = frozen(torch.bfloat16)


CHANGED = "the parameter extra (torch.bfloat16) is frozen and has changed, or it is frozen no more"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (add, CHANGED),
        (add_to_data, CHANGED),
        (thaw, CHANGED),
        (replace, "the parameter extra was replaced; change models before trainer.batches() begins"),
    ],
)
def test_a_frozen_parameter_that_changes_is_refused(change, message):
    assert message in refusal(lambda: With(frozen(torch.bfloat16), change))


def test_a_trained_parameter_of_another_type_is_refused_with_its_remedy():
    text = refusal(lambda: With(nn.Parameter(torch.ones(2, dtype=torch.complex64))))
    assert (
        "the parameter extra is torch.complex64; parameters that are trained are float32: make torch.view_as_" in text
    )
    text = refusal(lambda: With(nn.Parameter(torch.ones(2).bfloat16())))
    assert "the parameter extra is torch.bfloat16; parameters are float32 if they are trained" in text
    assert "or requires_grad_(False)" in text
    assert "none of the variables is trainable" in refusal(lambda: mlp().bfloat16().requires_grad_(False))
