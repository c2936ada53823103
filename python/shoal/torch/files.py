"""A run's variables as a model's parameters."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any, Union

import torch
from torch import nn

from shoal import _safetensors
from shoal.errors import MissingError, ProgramError, ShoalError
from shoal.run import Run
from shoal.torch.model import Models, named_models, tensors_of, variable_name

_TRIES = 5  # So many newer files are tried if the newest one is removed.


def load(run: Union[Run, str, os.PathLike[str]], model: Models) -> None:
    """Sets a model's parameters and buffers to those of a run, a run's directory, or a safetensors file."""
    if not isinstance(run, Run):
        run = os.fspath(run)
    if isinstance(run, str) and not os.path.isfile(run):
        run = Run(run)
    load_into(named_models(model), run)


def take_result(models: Mapping[str, nn.Module], directory: str) -> str:
    """Gives the models the final values of the run that is over, where its last checkpoint has been exported.

    They keep counters and constants of their own. Returns why they do not have the values, or nothing.
    """
    try:
        load_into(models, Run(directory).last_model_file())
    except (ShoalError, OSError) as error:
        return f"the models have the values of this worker's last batch; those of the run could not be read: {error}"
    return ""


def load_into(models: Mapping[str, nn.Module], run: Union[Run, str]) -> None:
    """The same with models that named_models() has named, and a run or the path of a safetensors file."""
    path, arrays = _read(run)
    values = {variable_name(name): array for name, array in arrays.items()}  # The file may be of another program.
    wanted = {
        entry.name: entry.tensor
        for entry in tensors_of(models)
        if entry.kind not in ("constant", "counter") or entry.name in values
    }
    missing = [name for name in wanted if name not in values]
    unknown = [name for name in values if name not in wanted]
    if missing or unknown:
        names = ", ".join((missing or unknown)[:5])
        problem = f"has no {names}" if missing else f"has {names}, which the model does not have"
        raise ProgramError(f"{path} {problem}; is it of another model?")
    with torch.no_grad():
        for name, tensor in wanted.items():
            if tuple(tensor.shape) != values[name].shape:
                raise ProgramError(f"{path}: {name} has the shape {values[name].shape}, not {tuple(tensor.shape)}")
            tensor.copy_(torch.from_numpy(values[name].copy()))


def _read(run: Union[Run, str]) -> tuple[str, dict[str, Any]]:
    """Returns the path of the file and its arrays. A run that trains may remove the file before it is opened."""
    if isinstance(run, str):
        return run, _safetensors.read(run)
    for _ in range(_TRIES):
        path = run.model_file()
        with contextlib.suppress(FileNotFoundError):
            return path, _safetensors.read(path)
    raise MissingError(
        f"{path} was removed before it could be read, as the {_TRIES - 1} before it; keep more checkpoints: "
        "--set=checkpoint.keep=N"
    )
