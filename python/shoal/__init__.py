"""Shoal from Python: your program computes the batches, parameter servers hold the variables. See docs/python.md.

Names are imported when they are used first, so `import shoal` and the command `shoal` do not wait for NumPy.
"""

from __future__ import annotations

import importlib
import sys

from shoal._version import VERSION as __version__

TYPE_CHECKING = False  # Known to type checkers by its name; the module typing takes milliseconds.
if TYPE_CHECKING:
    from shoal import errors as errors
    from shoal import optimizers as optimizers
    from shoal import run as run
    from shoal import tables as tables
    from shoal import torch as torch
    from shoal import worker as worker
    from shoal._metrics import AUC
    from shoal.errors import CommandError, MissingError, ProgramError, ProtocolError, ShoalError
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
        Group,
        Momentum,
        Optimizer,
        Polynomial,
        RMSProp,
        Schedule,
        Step,
    )
    from shoal.run import Run, launch
    from shoal.tables import Normal, RowwiseAdagrad, Table, TruncatedNormal, Uniform
    from shoal.worker import Rows, Variable, Work, Worker

__all__ = [
    "AUC", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "CommandError", "Constant", "Cosine", "Exponential", "Ftrl",
    "Group", "MissingError", "Momentum", "Normal", "Optimizer", "Polynomial", "ProgramError", "ProtocolError",
    "RMSProp", "Rows", "RowwiseAdagrad", "Run", "Schedule", "ShoalError", "Step", "Table", "TruncatedNormal",
    "Uniform", "Variable", "Work", "Worker", "__version__", "launch",
]  # fmt: skip

_MODULES = ("errors", "optimizers", "run", "tables", "torch", "worker")
_MODULE_OF = {
    **dict.fromkeys(("CommandError", "MissingError", "ProgramError", "ProtocolError", "ShoalError"), "errors"),
    **dict.fromkeys(("Run", "launch"), "run"),
    **dict.fromkeys(("Normal", "RowwiseAdagrad", "Table", "TruncatedNormal", "Uniform"), "tables"),
    **dict.fromkeys(("Rows", "Variable", "Work", "Worker"), "worker"),
    "AUC": "_metrics",
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"shoal.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'shoal' has no attribute {name!r}")
    try:
        module = importlib.import_module(f"shoal.{_MODULE_OF.get(name, 'optimizers')}")
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        text = f"shoal.{name} needs NumPy: {sys.executable} -m pip install numpy"
        raise ModuleNotFoundError(text, name="numpy") from None
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
