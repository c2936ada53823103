"""A run's variables as a model's parameters, and its rows for the modules that look rows up."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Mapping
from typing import Any, Optional, Union

import torch
from torch import nn

from shoal import _safetensors
from shoal._exported_rows import ExportedRows
from shoal._process import find_command
from shoal.errors import CommandError, MissingError, ProgramError, ShoalError
from shoal.run import Run
from shoal.torch.model import Models, named_models, tensors_of, variable_name
from shoal.torch.tables import LoadedRows, modules_with_rows

_TRIES = 5  # So many newer files are tried if the newest one is removed.
_IN_CHECKPOINT = re.compile(r"(.+)/checkpoints/ckpt-(\d+)-(\d+)-([0-9a-f]+)/[^/]+")


def load(
    run: Union[Run, str, os.PathLike[str]], model: Models, *, tables: Union[str, os.PathLike[str], None] = None
) -> None:
    """Sets a model's parameters and buffers to those of a run, a run's directory, or a safetensors file.

    The modules EmbeddingBag and Embedding of shoal.torch in the model get the rows of the same checkpoint, for reading
    only: the model then computes what an evaluation of the run computes. Copies of the model do not have them.
    tables: the folder of `shoal export DIR --tables=FOLDER`. Without it the command `shoal` writes the rows into a
        folder for temporary files; their disk space is free again when the model is gone.
    """
    if not isinstance(run, Run):
        run = os.fspath(run)
    if isinstance(run, str) and not os.path.isfile(run):
        run = Run(run)
    models = named_models(model)
    modules = modules_with_rows(models)
    if not modules:
        if tables is not None:
            raise ProgramError("tables: the model has no EmbeddingBag or Embedding of shoal.torch; leave it out")
        load_into(models, run)
        return
    path, values, rows = _read_with_rows(run, None if tables is None else os.fspath(tables))
    for _, module in modules:
        rows.check(type(module).__name__, module.table, module.dim)
    _set(models, path, values)
    for model_of, module in modules:
        module._loaded = LoadedRows(rows.tables[module.table], model_of)


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
    """Sets models that named_models() has named to the variables of a run, or of the file with this path."""
    _set(models, *_read(run))


def _set(models: Mapping[str, nn.Module], path: str, values: Mapping[str, Any]) -> None:
    values = {variable_name(name): array for name, array in values.items()}  # The file may be of another program.
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


def _read_with_rows(run: Union[Run, str], folder: Optional[str]) -> tuple[str, dict[str, Any], ExportedRows]:
    """The same with the rows in the folder, or with those of the file's checkpoint, which a run may remove too."""
    for left in range(_TRIES - 1, -1, -1):
        path, values = _read(run)
        try:
            rows = _export(path) if folder is None else ExportedRows(folder)
        except CommandError:
            if left and not isinstance(run, str) and not os.path.exists(path):
                continue
            raise
        break
    found = _IN_CHECKPOINT.fullmatch(os.path.abspath(path))
    step = found[2] if found else _safetensors.metadata(path).get("step", "")
    same = (
        (int(found[2]), int(found[3]), found[4]) == rows.checkpoint if found else step in ("", str(rows.checkpoint[0]))
    )
    if not same:
        raise ProgramError(
            f"{path} is of step {step}, and the rows are of another checkpoint, of step {rows.checkpoint[0]}; export "
            "both from one: shoal export DIR --step=N --model_file=FILE, and shoal export DIR --step=N --tables=FOLDER"
        )
    return path, values, rows


def _export(path: str) -> ExportedRows:
    """Has the command `shoal` write the rows of the checkpoint in which the file is."""
    found = _IN_CHECKPOINT.fullmatch(os.path.abspath(path))
    if found is None:
        raise ProgramError(
            f"{path} has no rows of tables, which the model looks up; give their folder, load(…, tables=FOLDER), which "
            "is made by: shoal export DIR --tables=FOLDER"
        )
    try:
        find_command()
    except CommandError as error:
        raise CommandError(
            f"the rows of the tables cannot be exported: {error}; or give load(…, tables=FOLDER)"
        ) from None
    with tempfile.TemporaryDirectory(prefix="shoal-rows-") as folder:
        Run(found[1])._command("export", f"--step={found[2]}", f"--tables={folder}")
        return ExportedRows(folder)  # Mapped files stay when their names are removed.
