"""The parameters and buffers of a model that become variables, by name."""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parallel import DataParallel, DistributedDataParallel

from shoal.errors import ProgramError
from shoal.worker import Variable

Models = Union[nn.Module, Sequence[nn.Module], Mapping[str, nn.Module]]


@dataclass
class Entry:
    """kind: "parameter", "statistic" (a buffer that batches change), "fixed" (a float32 buffer that stays), "counter"
    (num_batches_tracked), "constant" (a buffer that cannot be a variable, as of another type, or a frozen parameter of
    another type)."""

    name: str
    kind: str
    tensor: Any
    owner: nn.Module
    attribute: str

    @property
    def is_parameter(self) -> bool:
        return self.attribute in self.owner._parameters

    @property
    def current(self) -> Any:
        """Returns what the module has in the place of the tensor now."""
        return self.owner._parameters.get(self.attribute, self.owner._buffers.get(self.attribute))


def named_models(model: Models) -> dict[str, nn.Module]:
    """Returns the models with the prefixes of their variables' names."""
    if isinstance(model, nn.Module):
        models = {"": model}
    elif isinstance(model, Mapping):
        models = {f"{name}.": module for name, module in model.items()}
    elif isinstance(model, (list, tuple)):
        models = {f"{i}.": module for i, module in enumerate(model)}
    else:
        models = {}
    if not models or not all(isinstance(module, nn.Module) for module in models.values()):
        raise ProgramError(f"model is a {type(model).__name__}; it must be an nn.Module, or a list or dict of them")
    for prefix, module in models.items():
        for path, part in module.named_modules():
            if isinstance(part, (DataParallel, DistributedDataParallel)):
                name = (prefix + path).rstrip(".") or "model"
                raise ProgramError(
                    f"{name} is a {type(part).__name__}, but the run has workers of its own, each with a model on one "
                    f"device; give what it wraps: {name}.module"
                )
    return models


_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_./-]")


def variable_name(path: str) -> str:
    """Returns the name of the variable for a path of modules and a parameter or buffer, such as "0.weight".

    Names have A-Z a-z 0-9 _ . / - only. Each other character becomes "..3c.", its number in hexadecimal digits; two
    points in a row are in no path, so different paths keep different names. A name stays as it is.
    """
    return _NOT_IN_NAMES.sub(lambda found: f"..{ord(found[0]):x}.", path)


def why_not_synchronized(models: Mapping[str, nn.Module]) -> str:
    """Names a SyncBatchNorm, which has nobody to synchronize with; empty if there is none."""
    for prefix, model in models.items():
        for path, part in model.named_modules():
            if isinstance(part, nn.SyncBatchNorm):
                return (
                    f"{(prefix + path).rstrip('.') or 'the model'} is a SyncBatchNorm, whose statistics are those of "
                    "one worker's batch here, as of BatchNorm; the mean of a step's running statistics counts"
                )
    return ""


def why_a_table_is_better(models: Mapping[str, nn.Module], run_file: str) -> str:
    """Names the largest dense embedding of which each step moves more than 64 MB between a worker and the ps.

    The values go to the worker and the gradients back. Empty if there is none, or no ps.
    """
    if not re.search(r"\bnum_ps_tasks:\s*[1-9]", run_file):
        return ""
    trained = [
        (entry.tensor.numel() * entry.tensor.element_size(), entry.name)
        for entry in tensors_of(models)
        if isinstance(entry.owner, (nn.Embedding, nn.EmbeddingBag)) and entry.tensor.requires_grad
    ]
    size, name = max(trained, default=(0, ""))
    if 2 * size <= 64_000_000:
        return ""
    return (
        f"{name} has {size / 1e6:.0f} MB, which every step sends to each worker, and its gradient back; with "
        "shoal.torch.EmbeddingBag, a table, only the rows of the batch travel"
    )


def warnings_about(models: Mapping[str, nn.Module], run_file: str, device: Any) -> Iterator[str]:
    """Yields warnings about models on a device, some of them empty."""
    yield why_a_table_is_better(models, run_file)
    yield why_not_synchronized(models)
    if device.type == "cpu":  # On other devices parameters keep their memory.
        yield why_stale(models)


def tensors_of(models: Mapping[str, nn.Module], statistics: Sequence[str] = ()) -> Iterator[Entry]:
    """Yields parameters and persistent buffers; each tensor once, by its first name."""
    seen: set[int] = set()
    for prefix, model in models.items():
        for path, module in model.named_modules():
            base = (prefix + path + "." if path else prefix).replace("_orig_mod.", "")  # torch.compile wraps
            for attribute, parameter in module._parameters.items():
                if parameter is not None and id(parameter) not in seen:
                    seen.add(id(parameter))
                    kind = "parameter" if parameter.requires_grad or parameter.dtype == torch.float32 else "constant"
                    yield Entry(variable_name(base + attribute), kind, parameter, module, attribute)
            for attribute, buffer in module._buffers.items():
                if buffer is None or id(buffer) in seen or attribute in module._non_persistent_buffers_set:
                    continue
                seen.add(id(buffer))
                name = variable_name(base + attribute)
                yield Entry(
                    name, _kind_of_buffer(module, attribute, buffer, name in statistics), buffer, module, attribute
                )


_KINDS = {"statistic": "assign", "fixed": "frozen"}


def variables_of(entries: Sequence[Entry]) -> list[Variable]:
    """Returns the variables of a run whose initial values are those of the tensors."""
    variables = []
    for entry in entries:
        if entry.kind not in ("counter", "constant"):
            kind = _KINDS.get(entry.kind) or ("trainable" if entry.tensor.requires_grad else "frozen")
            variables.append(Variable(entry.name, initial=entry.tensor.detach().cpu().numpy(), kind=kind))
    return variables


def _kind_of_buffer(module: nn.Module, attribute: str, buffer: Any, is_statistic: bool) -> str:
    is_norm = isinstance(module, _NormBase)
    if is_norm and attribute == "num_batches_tracked":
        return "counter"
    if buffer.dtype != torch.float32:
        return "constant"
    if is_statistic or (is_norm and attribute.startswith("running_")):
        return "statistic"
    return "fixed" if _can_be_variable(buffer) else "constant"


def _can_be_variable(buffer: Any) -> bool:
    """A variable is dense and finite, and each of its elements has a place of its own."""
    if not _has_plain_values(buffer) or not buffer.numel():
        return False
    is_expanded = any(size > 1 and stride == 0 for size, stride in zip(buffer.shape, buffer.stride()))
    return not is_expanded and bool(torch.isfinite(buffer).all())


def check_entries(entries: Sequence[Entry], statistics: Sequence[str], has_tables: bool = False) -> Any:
    """Checks that the tensors can be variables; returns the device of the parameters, or the CPU if there are none."""
    parameters = [entry for entry in entries if entry.is_parameter]
    if not parameters and not has_tables:
        raise ProgramError("the model has no parameters")
    for entry in parameters:
        tensor = entry.tensor
        if isinstance(tensor, nn.parameter.UninitializedParameter):
            raise ProgramError(
                f"the parameter {entry.name} has no shape yet; compute one batch before trainer.batches()"
            )
        if tensor.is_meta:
            raise ProgramError(f"the parameter {entry.name} is on the device meta; give it values: model.to_empty(…)")
        if entry.kind == "parameter" and tensor.is_complex():
            raise ProgramError(
                f"the parameter {entry.name} is {tensor.dtype}; parameters that are trained are float32: make "
                "torch.view_as_real(…) of it the parameter, and use torch.view_as_complex(…) in forward()"
            )
        if entry.kind == "parameter" and tensor.dtype != torch.float32:
            raise ProgramError(
                f"the parameter {entry.name} is {tensor.dtype}; parameters are float32 if they are trained: "
                "model.float(), and torch.autocast for computation in half precision, or requires_grad_(False)"
            )
        if isinstance(entry.owner, (nn.Embedding, nn.EmbeddingBag)) and entry.owner.max_norm is not None:
            raise ProgramError(
                f"{entry.name} has max_norm={entry.owner.max_norm:g}, so the forward pass would change the parameter, "
                "which belongs to the run; leave max_norm out and scale the rows that it returns"
            )
    _check_memory([entry for entry in parameters if entry.kind == "parameter"])
    devices = {entry.tensor.device for entry in parameters} or {torch.device("cpu")}
    if len(devices) > 1:
        several = ", ".join(sorted(map(str, devices)))
        raise ProgramError(f"the parameters are on {several}; a program has one device, several workers have several")
    names = {entry.name for entry in entries}
    for name in statistics:
        if name not in names:
            raise ProgramError(f"statistics names {name!r}, which is not a buffer of the model")
    for entry in entries:
        if entry.name in statistics and (entry.kind != "statistic" or not _can_be_variable(entry.tensor)):
            raise ProgramError(
                f"statistics names {entry.name}, a {entry.kind} of {entry.tensor.dtype}; it must be float32, dense and "
                "finite, with memory of its own"
            )
    return devices.pop()


def _check_memory(parameters: Sequence[Entry]) -> None:
    """Parameters that share memory would become independent variables, which matters if one of them is trained."""
    spans = sorted(
        (
            e.tensor.device.type,
            e.tensor.data_ptr(),
            e.tensor.data_ptr() + e.tensor.nbytes,
            e.name,
            e.tensor.requires_grad,
        )
        for e in parameters
        if e.tensor.numel() and _is_dense(e.tensor)
    )
    for before, after in zip(spans, spans[1:]):
        if before[0] == after[0] and after[1] < before[2] and (before[4] or after[4]):
            raise ProgramError(
                f"the parameters {before[3]} and {after[3]} share memory; tie them as one parameter: "
                "decoder.weight = encoder.weight, without .data"
            )


def _is_dense(tensor: Any) -> bool:
    """Returns whether the elements fill their memory without gaps, in any order of the dimensions."""
    expected = 1
    for stride, size in sorted(pair for pair in zip(tensor.stride(), tensor.shape) if pair[1] > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def why_stale(models: Mapping[str, nn.Module]) -> str:
    """Names an attribute or buffer of a module that is a view of a trained parameter; empty if there is none.

    A batch gives the parameter other memory, so that such a view keeps the values of the start.
    """
    entries = [entry for entry in tensors_of(models) if entry.is_parameter]
    known = {id(entry.tensor) for entry in entries}
    trained = {_storage_of(entry.tensor): entry.name for entry in entries if entry.tensor.requires_grad}
    trained.pop(0, None)
    for prefix, model in models.items():
        for path, module in model.named_modules():
            for attribute, value in [*vars(module).items(), *module._buffers.items()]:
                if f"{attribute}_orig" in module._parameters:  # spectral_norm() makes it again in each forward pass.
                    continue
                for tensor in value[:_LISTED] if isinstance(value, (list, tuple)) else (value,):
                    if isinstance(tensor, torch.Tensor) and id(tensor) not in known and _storage_of(tensor) in trained:
                        name = f"{prefix}{path}.{attribute}" if path else prefix + attribute
                        return (
                            f"{name} is a view of the parameter {trained[_storage_of(tensor)]} from before the loop, "
                            "where each batch gives the parameter other memory; the view keeps the values that it has "
                            "now, so make it in forward()"
                        )
    return ""


_LISTED = 64  # Longer lists of a module are no views of parameters.


def _storage_of(tensor: Any) -> int:
    """Returns the address of the memory of which the tensor is a view; 0 if it has none."""
    if not _has_plain_values(tensor):
        return 0
    with contextlib.suppress(RuntimeError, NotImplementedError):  # Some kinds of tensors have no memory of their own.
        return int(tensor.untyped_storage().data_ptr())
    return 0


def why_not_the_same(models: Mapping[str, nn.Module], trained: Mapping[str, Any]) -> str:
    """Names a parameter that models have got since the run began, and that it does not train; empty if there is none.

    trained: the parameters that the run trains, by name.
    """
    known = {id(parameter) for parameter in trained.values()}
    for prefix, model in models.items():
        for path, parameter in model.named_parameters():
            if parameter.requires_grad and id(parameter) not in known:
                name = variable_name((prefix + path).replace("_orig_mod.", ""))
                return (
                    f"the parameter {name} is another one than at the start, or is new, and "
                    "the run does not train it; make all parameters before trainer.batches() begins"
                )
    return ""


def describe_constants(entries: Sequence[Entry]) -> str:
    """Returns a hash of the constants, with names of them; all workers must have the same."""
    constants = [entry for entry in entries if entry.kind == "constant" and _has_plain_values(entry.tensor)]
    if not constants:
        return ""
    value = 0
    for entry in constants:
        value = crc32_of(entry.tensor, zlib.crc32(entry.name.encode(), value))
    names = ", ".join(entry.name for entry in constants[:3]) + (", …" if len(constants) > 3 else "")
    kind = "frozen" if any(entry.is_parameter for entry in constants) else "buffers"
    return f" {kind} {names} {value:08x}"


_COMPARED_BYTES = 256 << 20  # Larger buffers are not copied to be compared.


class BufferCheck:
    """Finds buffers and constants that change although they are not variables that batches change.

    Writes through buffer.data leave no trace but the values, which are compared until forget_values(), and later where
    that is asked for, by their checksums.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = [entry for entry in entries if entry.kind != "parameter"]
        self._fixed = [entry for entry in self._entries if entry.kind in ("fixed", "constant")]
        # PyTorch counts no write of a batch norm into its statistics, but that into its counter.
        self._statistics = [entry for entry in self._entries if entry.kind in ("statistic", "counter")]
        self._versions: dict[str, int] = {}
        self._values: dict[str, Any] = {}
        self._sums: dict[str, int] = {}

    def remember_statistics(self) -> None:
        """Takes the present values of statistics as the last ones that count, until other ones are loaded."""
        self._versions.update({entry.name: entry.tensor._version for entry in self._statistics})

    def check_statistics(self) -> None:
        """Raises ProgramError for a statistic that was written since then."""
        for entry in self._statistics:
            if entry.tensor._version != self._versions[entry.name]:
                raise ProgramError(
                    f"the buffer {entry.name} was written after trainer.step(), or in an evaluation, and the run does "
                    "not see that; write it in a training batch before step(), and call a model behind step() in eval "
                    "mode only"
                )

    def remember(self) -> None:
        """Takes the present values as those that must stay."""
        self._versions.update({entry.name: entry.tensor._version for entry in self._fixed})
        room = _COMPARED_BYTES
        for entry in self._fixed:
            if _has_plain_values(entry.tensor) and entry.tensor.nbytes <= room:
                room -= entry.tensor.nbytes
                self._values[entry.name] = entry.tensor.detach().clone()

    def forget_values(self) -> None:
        """Keeps checksums of the values only."""
        self._sums.update({name: crc32_of(value, 0) for name, value in self._values.items()})
        self._values = {}

    def check(self, compares_sums: bool = False) -> None:
        """Raises ProgramError for one that was replaced or has changed.

        compares_sums: compare the checksums too, which takes long.
        """
        for entry in self._entries:
            if entry.current is not entry.tensor:
                raise ProgramError(
                    f"the buffer {entry.name} was replaced by another tensor; write into it: buffer.copy_(…)"
                    if not entry.is_parameter
                    else f"the parameter {entry.name} was replaced; change models before trainer.batches() begins"
                )
        for entry in self._fixed:
            before = self._values.get(entry.name)
            has_changed = before is not None and not _is_equal(entry.tensor, before)
            if compares_sums and entry.name in self._sums:
                has_changed = has_changed or crc32_of(entry.tensor, 0) != self._sums[entry.name]
            is_thawed = entry.tensor.requires_grad and entry.is_parameter
            if has_changed or is_thawed or entry.tensor._version != self._versions[entry.name]:
                raise ProgramError(why_not_changed(entry))


def _is_equal(a: Any, b: Any) -> bool:
    """Compares bytes, so that NaN equals itself."""
    return bool(torch.equal(_bytes_of(a), _bytes_of(b)))


def crc32_of(tensor: Any, value: int) -> int:
    """Continues a checksum with the values of a tensor; of one that is not plain, as a sparse one, with its form."""
    if not _has_plain_values(tensor):
        return zlib.crc32(f"{tensor.layout} {tensor.dtype} {tuple(tensor.shape)}".encode(), value)
    return zlib.crc32(_bytes_of(tensor.cpu()).numpy(), value)


def _has_plain_values(tensor: Any) -> bool:
    return bool(tensor.layout == torch.strided and not tensor.is_meta and not tensor.is_quantized)


def _bytes_of(tensor: Any) -> Any:
    plain = tensor.detach().resolve_conj().resolve_neg()
    return plain.contiguous().reshape(-1).view(torch.uint8)


def load_buffers(buffers: Sequence[Entry], values: Mapping[str, Any], step: int, is_first: bool) -> None:
    """Gives the buffers their values of a batch; fixed ones only need them once."""
    if not buffers:
        return
    with torch.no_grad():
        for entry in buffers:
            if entry.kind == "statistic" or (entry.kind == "fixed" and is_first):
                entry.tensor.copy_(values[entry.name])
            elif entry.kind == "counter":
                entry.tensor.fill_(step)


def why_not_changed(entry: Entry) -> str:
    """Returns the error of a batch that changes a buffer which is not a statistic."""
    if entry.kind == "fixed":
        return f"the buffer {entry.name} changes with a batch; name it: Trainer(…, statistics=[{entry.name!r}])"
    if entry.is_parameter:
        return (
            f"the parameter {entry.name} ({entry.tensor.dtype}) is frozen and has changed, or it is frozen no more, "
            "which the run does not see; leave it as it is while trainer.batches() runs"
        )
    if entry.tensor.dtype == torch.float32:
        return (
            f"the buffer {entry.name} changes with a batch, but it is sparse, empty, expanded or not finite, so it is "
            "not a variable; give it dense and finite values of its own at first, and name it: "
            f"Trainer(…, statistics=[{entry.name!r}])"
        )
    return (
        f"the buffer {entry.name} ({entry.tensor.dtype}) changes with a batch; only float32 buffers can, as "
        "variables; derive it from trainer.work.step in training instead"
    )
