"""Shoal from Python: your program computes the batches, parameter servers hold the variables. See docs/python.md."""

from __future__ import annotations

import importlib
from typing import Any

from shoal._version import VERSION as __version__
from shoal.errors import CommandError, ProgramError, ProtocolError, ShoalError
from shoal.optimizers import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    AdamW,
    Constant,
    Cosine,
    Exponential,
    Ftrl,
    Momentum,
    Optimizer,
    Polynomial,
    RMSProp,
    Schedule,
    Step,
)
from shoal.run import Run, launch
from shoal.worker import Variable, Work, Worker

__all__ = [
    "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "CommandError", "Constant", "Cosine", "Exponential", "Ftrl",
    "Momentum", "Optimizer", "Polynomial", "ProgramError", "ProtocolError", "RMSProp", "Run", "Schedule",
    "ShoalError", "Step", "Variable", "Work", "Worker", "__version__", "launch",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Imports shoal.torch when it is used first: `import shoal` needs no PyTorch."""
    if name == "torch":
        return importlib.import_module("shoal.torch")
    raise AttributeError(f"module 'shoal' has no attribute {name!r}")
