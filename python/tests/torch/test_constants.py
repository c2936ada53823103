"""Tensors of a model that are not variables: every worker has them from its program."""

import numpy as np
import pytest
import torch
from fake_worker import play
from test_guard import refusal
from test_safetensors import write
from test_training import drive, mlp, program
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
    loaded = With(torch.full((2,), torch.nan))  # As torch.empty() may have it.
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
