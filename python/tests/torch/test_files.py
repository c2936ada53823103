import numpy as np
import pytest
import torch
from test_safetensors import write
from test_training import mlp
from torch import nn

import shoal
import shoal.torch
from shoal.torch.files import take_result
from shoal.torch.model import named_models


def model():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))


def arrays_of(module):
    return {n: t.detach().numpy() + 1 for n, t in module.state_dict().items() if "num_batches" not in n}


def test_a_model_gets_the_variables_of_a_run(tmp_path):
    arrays = arrays_of(model())
    (tmp_path / "checkpoints/ckpt-5").mkdir(parents=True)
    path = write(tmp_path / "checkpoints/ckpt-5/model.safetensors", arrays)
    for source in (shoal.Run(str(tmp_path)), str(tmp_path), path):
        loaded = model()
        shoal.torch.load(source, loaded)
        for name, tensor in loaded.state_dict().items():
            if name in arrays:
                np.testing.assert_array_equal(tensor.numpy(), arrays[name])
    pair = {"a": mlp(), "b": mlp()}
    path = write(tmp_path / "pair", {f"{k}.{n}": a for k, m in pair.items() for n, a in arrays_of(m).items()})
    shoal.torch.load(path, pair)
    assert torch.equal(pair["b"][0].weight, mlp()[0].weight + 1)


def test_models_behind_the_loop_have_the_values_of_the_run_or_a_warning_says_that_they_have_not(tmp_path):
    arrays = arrays_of(model())
    checkpoint = tmp_path / "checkpoints/ckpt-5"
    checkpoint.mkdir(parents=True)
    (checkpoint / "MANIFEST").touch()
    result = model()
    models = named_models(result)
    assert "the values of this worker's last batch" in take_result(models, str(tmp_path))
    assert "there is no directory /runs/none" in take_result(models, "/runs/none")
    write(checkpoint / "model.safetensors", arrays)
    assert take_result(models, str(tmp_path)) == ""
    np.testing.assert_array_equal(result[0].weight.detach().numpy(), arrays["0.weight"])


def test_models_behind_the_loop_do_not_take_the_values_of_an_older_checkpoint_or_a_damaged_file(tmp_path):
    result = model()
    models, own = named_models(result), result[0].weight.detach().clone()
    for step in (5, 9):
        (tmp_path / f"checkpoints/ckpt-{step}").mkdir(parents=True)
        (tmp_path / f"checkpoints/ckpt-{step}/MANIFEST").touch()
    write(tmp_path / "checkpoints/ckpt-5/model.safetensors", arrays_of(model()))
    newest = tmp_path / "checkpoints/ckpt-9/model.safetensors"
    warning = take_result(models, str(tmp_path))
    assert f"{newest.parent}, the newest checkpoint, has no model.safetensors" in warning
    assert warning.endswith(f"make it: shoal export {tmp_path} --model_file={newest}")
    newest.write_bytes(b"damaged")
    assert f"{newest} is not a safetensors file that can be read" in take_result(models, str(tmp_path))
    assert torch.equal(result[0].weight, own)


def test_variables_of_another_model_are_refused(tmp_path):
    path = write(tmp_path / "m", arrays_of(model()))
    with pytest.raises(shoal.ProgramError, match="has no 2.weight, 2.bias; is it of another model"):
        shoal.torch.load(path, nn.Sequential(*model(), nn.Linear(4, 2)))
    with pytest.raises(shoal.ProgramError, match="has 1.weight, .* which the model does not have"):
        shoal.torch.load(path, model()[:1])
    with pytest.raises(shoal.ProgramError, match=r"1.weight has the shape \(4,\), not \(5,\)"):
        shoal.torch.load(path, nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(5)))


def test_a_file_that_a_live_run_removes_is_replaced_by_the_next_one(tmp_path, monkeypatch):
    arrays = arrays_of(model())
    path = write(tmp_path / "newer", arrays)
    run = shoal.Run(str(tmp_path))
    names = iter([str(tmp_path / "removed"), path])
    monkeypatch.setattr(run, "model_file", lambda: next(names))
    loaded = model()
    shoal.torch.load(run, loaded)
    np.testing.assert_array_equal(loaded[0].weight.detach().numpy(), arrays["0.weight"])
    monkeypatch.setattr(run, "model_file", lambda: str(tmp_path / "removed"))
    with pytest.raises(shoal.MissingError, match="was removed before it could be read"):
        shoal.torch.load(run, model())
