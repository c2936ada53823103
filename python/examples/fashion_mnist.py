"""An image classifier in PyTorch on Fashion-MNIST (Debian's package dataset-fashion-mnist).

shoal train --program=python/examples/fashion_mnist.py --num_ps_tasks=2 --num_replicas=2 -- --epochs=2
python python/examples/fashion_mnist.py --epochs=2       # one process
"""

import argparse
import gzip
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

import shoal
import shoal.torch


def read(folder: Path, split: str) -> TensorDataset:
    def idx(kind: str, dimensions: int) -> np.ndarray:
        data = gzip.decompress((folder / f"{split}-{kind}-idx{dimensions}-ubyte.gz").read_bytes())
        shape = np.frombuffer(data, ">u4", dimensions, 4)
        return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)

    images = torch.from_numpy(idx("images", 3).astype(np.float32) / 255).unsqueeze(1)
    return TensorDataset(images, torch.from_numpy(idx("labels", 1).astype(np.int64)))


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 128),
        nn.ReLU(),
        nn.Dropout(0.25),
        nn.Linear(128, 10),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains an image classifier on Fashion-MNIST.")
    parser.add_argument("--data", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--num_workers", type=int, default=0, help="processes that read ahead")
    parser.add_argument("--device", default="cpu", help="where the model is, such as cuda")
    args = parser.parse_args()
    if not args.data.is_dir():
        parser.error(f"--data: there is no folder {args.data}; name the one with the four .gz files of Fashion-MNIST")

    worker = shoal.Worker()
    torch.manual_seed(worker.seed)
    train, test = read(args.data, "train"), read(args.data, "t10k")
    model = network().to(args.device)
    trainer = shoal.torch.Trainer(worker, model, shoal.Adam(1e-3, schedule=shoal.Cosine()))
    batches = trainer.batches(train, batch_size=64, epochs=args.epochs, test=test, num_workers=args.num_workers)
    for batch in batches:
        images, labels = (part.to(args.device) for part in batch)
        logits = model(images)
        trainer.step(F.cross_entropy(logits, labels), accuracy=logits.argmax(1) == labels)
    print("The run is over; shoal.torch.load(directory, model) reads its model from", worker.directory)


if __name__ == "__main__":
    main()
