"""Says what a program with a DataLoader gives the run in its place."""

from __future__ import annotations

from typing import Any

from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
    default_collate,
    default_convert,
)


def remedy_of(loader: DataLoader[Any]) -> str:
    """Says what to pass, so that the run has the examples of the loader. Its sampler may leave some of them out."""
    sampler = _chooser_of(loader)
    name = type(sampler).__name__
    if isinstance(sampler, WeightedRandomSampler):
        remedy = (
            f"its {name} has no place here, since Shoal takes every example once in an epoch: pass loader.dataset, and "
            "weight the loss of each example instead"
        )
    elif sampler is not None:
        remedy = (
            f"its {name} chooses examples, and Shoal takes all that it gets: pass those that the sampler has, "
            "trainer.batches(Subset(loader.dataset, indices), batch_size=…); examples with weights are not possible"
        )
    else:
        remedy = "pass its data set: trainer.batches(loader.dataset, batch_size=…)"
    if loader.collate_fn not in (default_collate, default_convert):
        remedy += "; pass collate_fn=loader.collate_fn too"
    return remedy


def _chooser_of(loader: DataLoader[Any]) -> Any:
    """Returns the sampler that may leave examples out or repeat them; None if there are only those of PyTorch that take
    every example once."""
    batches: Any = loader.batch_sampler
    if type(batches) not in (BatchSampler, type(None)):
        return batches
    sampler: Any = loader.sampler if batches is None else batches.sampler
    if type(sampler) is DistributedSampler and sampler.dataset is loader.dataset:
        return None
    is_plain = type(sampler) in (SequentialSampler, RandomSampler) and sampler.data_source is loader.dataset
    draws = getattr(sampler, "replacement", False) or getattr(sampler, "_num_samples", None) is not None
    return None if is_plain and not draws else sampler
