"""Shoal for PyTorch: the loop stays yours, the variables live on parameter servers. See docs/python.md."""

import torch as _torch

from shoal import _seeds
from shoal.torch.convert import from_torch
from shoal.torch.files import load
from shoal.torch.tables import Embedding, EmbeddingBag
from shoal.torch.trainer import Trainer

_seeds.seed_torch(_torch)

__all__ = ["Embedding", "EmbeddingBag", "Trainer", "from_torch", "load"]
