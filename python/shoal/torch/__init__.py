"""Shoal for PyTorch: the loop stays yours, the variables live on parameter servers. See docs/python.md."""

from shoal.torch.convert import from_torch
from shoal.torch.files import load
from shoal.torch.trainer import Trainer

__all__ = ["Trainer", "from_torch", "load"]
