"""Modules whose rows are on the parameter servers, and the rows of a batch or of a run that was loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from shoal._exported_rows import ExportedTable
from shoal._rows import Array, Keys, Places, Rows, keys_of, unique_of
from shoal._work import Work
from shoal.errors import ProgramError
from shoal.tables import MAX_DIM, Table
from shoal.torch.memory import tensor_of

if TYPE_CHECKING:
    from shoal.torch.data import Source
    from shoal.torch.trainer import Trainer
    from shoal.worker import Worker


@dataclass
class _Part:
    """The rows of one look-up. Autograd adds the gradients to those of `leaf`."""

    rows: Rows
    leaf: Any


class BatchRows:
    """The rows of a trainer's current batch. A key that was looked up before in the batch is not looked up again."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables
        self._device: Any = None
        self._work: Optional[Work] = None
        self._parts: dict[str, list[_Part]] = {}

    def start(self, device: Any) -> None:
        self._device = device

    def begin(self, work: Work) -> None:
        if work is not self._work:
            self._work = work
            self._parts = {name: [] for name in self._tables}

    def zero_grad(self) -> None:
        for parts in self._parts.values():
            for part in parts:
                part.leaf.grad = None

    def gradients(self) -> Iterator[Any]:
        """Yields those that a backward pass has left."""
        return (p.leaf.grad for parts in self._parts.values() for p in parts if p.leaf.grad is not None)

    def end(self) -> None:
        self._work = None
        self._parts = {}

    def check(self, module: str, table: str, dim: int) -> None:
        """Checks that the table is declared with rows of this length."""
        declared = self._tables.get(table)
        if declared is None:
            known = f"it has {', '.join(self._tables)}" if self._tables else "it has none"
            raise ProgramError(
                f"{module}: the trainer has no table {table!r} ({known}); Trainer(…, tables=[shoal.Table({table!r}, "
                f"dim={dim})]) declares it"
            )
        if declared.dim != dim:
            raise ProgramError(
                f"{module}: table {table} has rows of {declared.dim} numbers, not {dim}; give its shoal.Table and its "
                "modules the same dim"
            )

    def look_up(self, wanted: Mapping[str, Any]) -> None:
        """Looks up the rows of all these keys at once, if they are not there yet."""
        self.look_up_different(different(wanted))

    def look_up_different(self, wanted: Mapping[str, tuple[Keys, Places]]) -> None:
        """The same for the result of different()."""
        assert self._work is not None
        missing = {table: keys for table, keys in wanted.items() if self._covering(table, keys[0]) is None}
        if missing:
            for table, rows in self._work._look_up(missing).items():
                self._parts[table].append(_Part(rows, self._leaf_of(rows)))

    def find(self, table: str, keys: Any) -> tuple[Any, Any]:
        """Returns a matrix with the rows of the keys, and the place of each key in it."""
        assert self._work is not None
        unique, inverse = unique_of(_flat(table, keys))
        found = self._covering(table, unique)
        if found is None:
            rows = self._work._look_up({table: (unique, inverse)})[table]
            found = _Part(rows, self._leaf_of(rows)), np.arange(len(unique))
            self._parts[table].append(found[0])
        part, places = found
        return part.leaf, torch.from_numpy(places[inverse]).to(self._device).reshape(keys.shape)

    def summed_gradients(self) -> dict[str, tuple[Keys, Array]]:
        """Returns for each table the keys that have a gradient, rising, and the sum of those of each key."""
        result = {}
        for table, parts in self._parts.items():
            graded = [part for part in parts if part.leaf.grad is not None and len(part.rows)]
            if graded:
                keys, places = unique_of(np.concatenate([part.rows.keys for part in graded]))
                total = np.zeros((len(keys), graded[0].leaf.shape[1]), np.float32)
                np.add.at(total, places, np.concatenate([part.leaf.grad.detach().cpu().numpy() for part in graded]))
                result[table] = keys, total
        return result

    def contribute(self) -> None:
        """Hands the gradients to the worker."""
        for parts in self._parts.values():
            for part in parts:
                if part.leaf.grad is not None and len(part.rows):
                    part.rows.gradient = part.leaf.grad.detach().cpu().numpy()

    def _covering(self, table: str, unique: Keys) -> Optional[tuple[_Part, Places]]:
        """Returns the rows of a look-up that has all these keys, and their places in it."""
        for part in self._parts[table]:
            known = part.rows.keys
            places = np.searchsorted(known, unique)
            if not len(unique) or (places[-1] < len(known) and np.array_equal(known[places], unique)):
                return part, places
        return None

    def _leaf_of(self, rows: Rows) -> Any:
        if not len(rows):  # Operations want a row, which nothing names.
            return torch.zeros(1, rows.values.shape[1], device=self._device, requires_grad=True)
        return tensor_of(rows.values).to(self._device).detach().requires_grad_()


class LoadedRows:
    """Rows of a run for one module, without a trainer. They have no gradients."""

    def __init__(self, table: ExportedTable, model: nn.Module) -> None:
        self._table = table
        self._model = model  # The rows go to its device.

    def find(self, table: str, keys: Any) -> tuple[Any, Any]:
        """Returns a matrix with the rows of the keys, and the place of each key in it."""
        parameter = next(self._model.parameters(), None)
        device = keys.device if parameter is None else parameter.device
        unique, inverse = unique_of(_flat(table, keys))
        rows = torch.from_numpy(self._table.rows(unique)) if len(unique) else torch.zeros(1, self._table.dim)
        return rows.to(device), torch.from_numpy(inverse).to(device).reshape(keys.shape)


def modules_with_rows(models: Mapping[str, nn.Module]) -> list[tuple[nn.Module, _TableModule]]:
    """Returns the modules that look rows up, each behind its model."""
    return [(model, part) for model in models.values() for part in model.modules() if isinstance(part, _TableModule)]


def different(wanted: Mapping[str, Any]) -> dict[str, tuple[Keys, Places]]:
    """For each table the different keys, rising, and the place of each key among them."""
    return {table: unique_of(_joined(table, keys)) for table, keys in wanted.items()}


def _flat(table: str, keys: Any) -> Keys:
    return keys_of(table, keys.detach().cpu().numpy() if isinstance(keys, torch.Tensor) else keys).reshape(-1)


def _joined(table: str, keys: Any) -> Keys:
    """The keys of one tensor, or of several in a list or tuple."""
    if isinstance(keys, (list, tuple)) and any(isinstance(part, (torch.Tensor, np.ndarray)) for part in keys):
        return np.concatenate([_flat(table, part) for part in keys])
    return _flat(table, keys)


class NamedKeys:
    """The keys that the program's function returns for a batch, and those of the batch that comes next.

    keys_of: the function; None: the program has none, and the methods do nothing.
    """

    def __init__(self, worker: Worker, rows: BatchRows, keys_of: Optional[Callable[[Any], Mapping[str, Any]]]) -> None:
        if keys_of is not None and not callable(keys_of):
            raise ProgramError(
                f"keys is a {type(keys_of).__name__}; it must be a function that returns the keys of a batch, "
                "{table: keys}"
            )
        self._worker = worker
        self._rows = rows
        self._keys_of = keys_of
        self._next: Optional[tuple[tuple[int, int], dict[str, tuple[Keys, Places]]]] = None

    def look_up(self, work: Work, batch: Any) -> None:
        """Looks up the rows of the batch's keys."""
        if self._keys_of is None:
            return
        named = self._next
        if named is not None and work.is_training and named[0] == (work.epoch, work.index):
            self._next = None
            self._rows.look_up_different(named[1])
        else:
            self._rows.look_up_different(self._keys_in(batch))

    def name_next(self, work: Work, source: Source) -> None:
        """Names the keys of the batch that probably comes next."""
        found = None if self._keys_of is None else source.read_ahead(self._worker)
        if found is None:
            return
        item, batch = found
        keys = self._keys_in(batch)
        self._next = (item.epoch, item.index), keys
        work._look_ahead(item, {table: unique for table, (unique, _) in keys.items()})

    def forget_next(self) -> None:
        self._next = None

    def _keys_in(self, batch: Any) -> dict[str, tuple[Keys, Places]]:
        """Returns the different keys of a batch for each table."""
        assert self._keys_of is not None
        keys = self._keys_of(batch)
        if not isinstance(keys, Mapping):
            raise ProgramError(
                f"the function keys returned a {type(keys).__name__} for a batch; it returns {{table: keys}}"
            )
        for table in keys:
            self._worker._check_table(table)
        return different(keys)


class _TableModule(nn.Module):
    """A module that looks up rows of a table. It has no parameters of its own."""

    _loaded: Optional[LoadedRows] = None

    def __init__(self, trainer: Optional[Trainer], table: str, dim: int, padding_idx: Optional[int]) -> None:
        super().__init__()
        name = type(self).__name__
        if trainer is not None and not hasattr(trainer, "_rows"):
            raise ProgramError(
                f"{name}: trainer is a {type(trainer).__name__}; it must be a shoal.torch.Trainer, or left out for a "
                "module inside of the trainer's model"
            )
        if not isinstance(table, str) or not table:
            raise ProgramError(f"{name}: table is {table!r}; it must be the name of a shoal.Table")
        if isinstance(dim, bool) or not isinstance(dim, int) or not 1 <= dim <= MAX_DIM:
            raise ProgramError(f"{name}: dim is {dim!r}; it must be a whole number from 1 to {MAX_DIM}")
        is_key = isinstance(padding_idx, int) and not isinstance(padding_idx, bool)
        if padding_idx is not None and not (is_key and -(1 << 63) <= padding_idx < 1 << 64):
            raise ProgramError(f"{name}: padding_idx is {padding_idx!r}; it must be a key, a whole number of 64 bits")
        self.table = table
        self.dim = dim
        self.padding_idx = padding_idx
        self._trainer: Optional[Trainer] = None
        if trainer is not None:
            self._bind(trainer)

    def _bind(self, trainer: Trainer) -> None:
        trainer._rows.check(type(self).__name__, self.table, self.dim)
        self._trainer = trainer

    def _rows_for(self, keys: Any) -> Union[BatchRows, LoadedRows]:
        """Checks the keys, and returns what finds rows of the current batch, or of the run that was loaded."""
        name = type(self).__name__
        is_in_loop = self._trainer is not None and self._trainer._work is not None
        if is_in_loop and self._loaded is not None and self._trainer is not None:
            self._loaded = None  # Behind the loop they would be the rows of another run.
            self._trainer._watch.warn(
                f"the rows of table {self.table} that shoal.torch.load() gave the model are not used in training; "
                "--init_from=DIR begins a run with the rows and the parameters of another one",
                "loaded rows",
            )
        if not is_in_loop and self._loaded is None:
            where = "belongs to no trainer" if self._trainer is None else "is outside of the loop of its trainer"
            raise ProgramError(
                f"{name} of table {self.table} {where} and has no rows of a run. To compute with a trained model: "
                "shoal.torch.load(DIR, model). To train: put it into the model that the Trainer gets, or make it with "
                f"the trainer, {name}(trainer, {self.extra_repr()})"
            )
        if not isinstance(keys, torch.Tensor):
            raise ProgramError(f"{name} of table {self.table}: the keys are a {type(keys).__name__}, not a tensor")
        if keys.is_floating_point() or keys.is_complex() or keys.dtype == torch.bool:
            raise ProgramError(f"{name} of table {self.table}: the keys are {keys.dtype}; they must be int64")
        if self._loaded is not None:
            return self._loaded
        assert self._trainer is not None
        self._trainer._open(f"look_up() by {name} of table {self.table}")
        return self._trainer._rows

    def _is_padding(self, keys: Any) -> Any:
        """Returns a mask of the keys that have no row."""
        assert self.padding_idx is not None
        return keys.to(torch.int64) == (self.padding_idx + (1 << 63)) % (1 << 64) - (1 << 63)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_trainer": None, "_loaded": None}  # Copies of a module have no trainer and no rows.

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"table={self.table!r}, dim={self.dim}{padding}"


class Embedding(_TableModule):
    """Like nn.Embedding, with the rows of a table: forward(keys) has the shape of the keys with `dim` behind it.

    keys: int64, any number; a negative one is the key with the same 64 bits.
    padding_idx: a key that has no row; the result is 0 there.
    trainer: may be left out if the module is part of the trainer's model.
    """

    def __init__(
        self, trainer: Optional[Trainer] = None, *, table: str, dim: int, padding_idx: Optional[int] = None
    ) -> None:
        super().__init__(trainer, table, dim, padding_idx)

    def forward(self, keys: Any) -> Any:
        found = self._rows_for(keys)
        if self.padding_idx is None:
            rows, places = found.find(self.table, keys)
            return F.embedding(places, rows)
        has_row = ~self._is_padding(keys)
        rows, places = found.find(self.table, keys[has_row])
        result = torch.zeros(*keys.shape, self.dim, device=rows.device)
        return result.masked_scatter(has_row.to(rows.device).unsqueeze(-1), F.embedding(places, rows))


class EmbeddingBag(_TableModule):
    """Like nn.EmbeddingBag, with the rows of a table: forward(keys, offsets, per_sample_weights) is [bags, dim].

    keys: int64, any number; a negative one is the key with the same 64 bits. One dimension: bag b has the keys from
        offsets[b] to offsets[b + 1], the last one all that follow. Two dimensions: each row is a bag.
    per_sample_weights: in the mode "sum" a factor for each key.
    mode: "mean" or "sum". An empty bag is 0.
    padding_idx: a key that has no row and counts in no bag.
    include_last_offset: the offsets end with the number of keys.
    trainer: may be left out if the module is part of the trainer's model.
    """

    def __init__(
        self,
        trainer: Optional[Trainer] = None,
        *,
        table: str,
        dim: int,
        mode: str = "mean",
        padding_idx: Optional[int] = None,
        include_last_offset: bool = False,
    ) -> None:
        super().__init__(trainer, table, dim, padding_idx)
        if mode not in ("sum", "mean"):
            raise ProgramError(f'EmbeddingBag of table {table}: mode is {mode!r}; it must be "mean" or "sum"')
        self.mode = mode
        self.include_last_offset = include_last_offset

    def forward(self, keys: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        found = self._rows_for(keys)
        self._check_offsets(keys, offsets)
        if per_sample_weights is not None:
            self._check_weights(keys, per_sample_weights)
        if offsets is not None and self.include_last_offset:
            offsets = offsets[:-1]
        if self.padding_idx is not None and keys.numel():
            keys, offsets, per_sample_weights = self._without_padding(keys, offsets, per_sample_weights)
        rows, places = found.find(self.table, keys)
        if keys.dim() == 2 and keys.numel() == 0:  # Bags without keys.
            return rows.sum() * 0 + torch.zeros(keys.shape[0], self.dim, device=rows.device)
        if offsets is not None:
            offsets = offsets.to(places.device, torch.int64)
        return F.embedding_bag(places, rows, offsets, mode=self.mode, per_sample_weights=per_sample_weights)

    def _without_padding(self, keys: Any, offsets: Any, weights: Any) -> tuple[Any, Any, Any]:
        """Returns the bags without keys that have no row, in one dimension."""
        has_row = ~self._is_padding(keys)
        if offsets is None:
            offsets = torch.arange(len(keys), device=keys.device) * keys.shape[1]
        kept_before = F.pad(has_row.reshape(-1).cumsum(0), (1, 0))
        offsets = kept_before[offsets.to(keys.device, torch.int64)]
        return keys[has_row], offsets, None if weights is None else weights[has_row.to(weights.device)]

    def _check_offsets(self, keys: Any, offsets: Any) -> None:
        where = f"EmbeddingBag of table {self.table}"
        if keys.dim() not in (1, 2):
            raise ProgramError(f"{where}: the keys have {keys.dim()} dimensions; 1 with offsets, or 2, are possible")
        if keys.dim() == 2:
            if offsets is not None:
                raise ProgramError(f"{where}: keys of 2 dimensions are bags by row and have no offsets; leave them out")
            return
        if offsets is None:
            raise ProgramError(f"{where}: keys of 1 dimension need offsets, which say where each bag begins")
        good = isinstance(offsets, torch.Tensor) and offsets.dim() == 1 and offsets.dtype in (torch.int32, torch.int64)
        if not good or len(offsets) < 1 + self.include_last_offset:
            raise ProgramError(f"{where}: offsets must be an int64 tensor of 1 dimension with at least one bag")
        if self.include_last_offset and int(offsets[-1]) != len(keys):
            raise ProgramError(
                f"{where}: include_last_offset says that the offsets end with the number of keys, {len(keys)}, but the "
                f"last one is {int(offsets[-1])}"
            )
        if int(offsets[0]) != 0 or bool((offsets[1:] < offsets[:-1]).any()) or int(offsets[-1]) > len(keys):
            raise ProgramError(
                f"{where}: the offsets do not fit the {len(keys)} keys; they begin with 0, never fall, and are at most "
                f"{len(keys)}"
            )

    def _check_weights(self, keys: Any, weights: Any) -> None:
        where = f"EmbeddingBag of table {self.table}"
        if self.mode != "sum":
            raise ProgramError(f'{where}: per_sample_weights need mode="sum", not {self.mode!r}')
        if not isinstance(weights, torch.Tensor) or weights.shape != keys.shape or weights.dtype != torch.float32:
            raise ProgramError(f"{where}: per_sample_weights must be a float32 tensor of the keys' shape")

    def extra_repr(self) -> str:
        last = ", include_last_offset=True" if self.include_last_offset else ""
        return f"{super().extra_repr()}, mode={self.mode!r}{last}"
