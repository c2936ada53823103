"""The modes of a model's modules, training and eval, in which batches are computed."""

from __future__ import annotations

from collections.abc import Mapping

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


class Modes:
    """Remembers the modes that the modules have now: training batches use these, and evaluations use eval mode."""

    def __init__(self, models: Mapping[str, nn.Module]) -> None:
        self._modules = [(p + n, m, m.training) for p, model in models.items() for n, m in model.named_modules()]

    def set(self, is_training: bool) -> None:
        for _, module, mode in self._modules:
            wanted = mode and is_training
            if module.training != wanted:  # To set an attribute of a module takes long.
                module.training = wanted

    def restore(self) -> None:
        for _, module, mode in self._modules:
            module.training = mode

    def check_evaluation(self) -> None:
        """Raises ProgramError if a module other than dropout trains; dropout may, for estimates of uncertainty."""
        for path, module, _ in self._modules:
            if module.training and not isinstance(module, _DropoutNd):
                name = f"the module {path}" if path else "the model"
                raise ProgramError(
                    f"{name} is in training mode in an evaluation, which it would spoil; call no train() in the loop: "
                    "trainer.batches() sets the mode for each batch"
                )
