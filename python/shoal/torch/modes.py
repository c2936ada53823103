"""The modes of a model's modules, training and eval, in which batches are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from shoal.errors import ProgramError


def check_training_modes(models: Mapping[str, nn.Module]) -> None:
    """Raises ProgramError if a model is in eval mode: it would train without dropout and with fixed batch norm."""
    for prefix, model in models.items():
        owners = [m for m in model.modules() if any(p.requires_grad for p in m.parameters(recurse=False))]
        if owners and not any(module.training for module in [model, *owners]):
            name = f"the model {prefix[:-1]}" if prefix else "the model"
            raise ProgramError(
                f"{name} is in eval mode, as models of libraries often are at first, and would train in it; call "
                "model.train() before trainer.batches(), and then eval() of the parts that must stay in it"
            )


Part = tuple[str, nn.Module, bool]  # A module's path, and whether it is in training mode in training batches.


class Modes:
    """Remembers the modes that the modules have now: training batches use these, and evaluations use eval mode."""

    def __init__(self, models: Mapping[str, nn.Module]) -> None:
        self._models = [[(p + n, m, m.training) for n, m in model.named_modules()] for p, model in models.items()]
        self._modules = [part for parts in self._models for part in parts]
        self._is_training: Optional[bool] = None  # What set() has set last.

    def set(self, is_training: bool) -> None:
        """Sets the modes of a batch. Raises ProgramError if it would undo what the program has set behind step()."""
        for parts in self._models:
            self._check_kept(parts)
        self._is_training = is_training
        for _, module, mode in self._modules:
            wanted = mode and is_training
            if module.training != wanted:  # To set an attribute of a module takes long.
                module.training = wanted

    def restore(self) -> None:
        for _, module, mode in self._modules:
            module.training = mode

    def _changed(self, parts: Sequence[Part]) -> list[Part]:
        if self._is_training is None:
            return []
        return [part for part in parts if part[1].training != (part[2] and self._is_training)]

    def _check_kept(self, parts: Sequence[Part]) -> None:
        """Raises ProgramError for a module in another mode than set() has set.

        A whole model may be, which was evaluated behind step(), and so may dropout that trains in an evaluation.
        """
        for path, module, _ in self._changed(parts):
            is_whole = len({part.training for _, part, _ in parts}) == 1
            if not is_whole and (self._is_training or not isinstance(module, _DropoutNd)):
                raise ProgramError(_why_not_kept(path, module))

    def check_training(self) -> None:
        """Raises ProgramError if a training batch was computed in other modes than set() has set."""
        for path, module, _ in self._changed(self._modules):
            raise ProgramError(_why_not_kept(path, module))

    def check_evaluation(self) -> None:
        """Raises ProgramError if a module other than dropout trains; dropout may, for estimates of uncertainty."""
        for path, module, _ in self._modules:
            if module.training and not isinstance(module, _DropoutNd):
                name = f"the module {path}" if path else "the model"
                raise ProgramError(
                    f"{name} is in training mode in an evaluation, which it would spoil; call no train() in the loop: "
                    "trainer.batches() sets the mode for each batch"
                )


def _why_not_kept(path: str, module: nn.Module) -> str:
    name = f"the module {path}" if path else "the model"
    mode, call = ("training", "train()") if module.training else ("eval", "eval()")
    return (
        f"{name} was put into {mode} mode in the loop, which ends with the batch, since trainer.batches() sets the "
        f"modes of each one; call {call} of it before trainer.batches(), where parts that are in eval mode stay in it. "
        "After a use in between, set it back"
    )
