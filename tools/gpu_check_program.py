"""A program in PyTorch for gpu_check: it trains a small network with convolutions, batch norm and dropout on a GPU.

shoal train --program=gpu_check_program.py --num_ps_tasks=2 --num_replicas=2 -- NAME
NAME is any text by which gpu_check finds the processes of this run.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

import shoal
import shoal.torch


def examples(count: int) -> TensorDataset:
    """Returns images of noise, whose class says which half is lighter."""
    draw = torch.Generator().manual_seed(5)
    images = torch.randn(count, 1, 16, 16, generator=draw)
    return TensorDataset(images, (images[:, 0, :8].sum((1, 2)) > images[:, 0, 8:].sum((1, 2))).long())


def main() -> None:
    torch.use_deterministic_algorithms(True)
    worker = shoal.Worker()
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2048, 256),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(256, 2),
    ).to("cuda")
    trainer = shoal.torch.Trainer(worker, model, shoal.Adam(1e-3))
    for images, labels in trainer.batches(examples(2048), batch_size=32, max_steps=600, test=examples(512)):
        images, labels = images.to("cuda"), labels.to("cuda")
        logits = model(images)
        trainer.step(F.cross_entropy(logits, labels), accuracy=logits.argmax(1) == labels)


if __name__ == "__main__":
    main()
