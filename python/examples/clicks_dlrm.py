"""Clicks with PyTorch: a DLRM whose embeddings are rows of tables on the parameter servers.

shoal train --program=python/examples/clicks_dlrm.py --num_ps_tasks=2 --num_replicas=2
python python/examples/clicks_dlrm.py                    # one process

The model, its initial values, its optimizers and their rates are those of deploy/runs/clicks_dlrm.textproto: who
changes one of the two files changes the other too. python/tests/torch_real/test_clicks_dlrm.py compares them.

The examples are made up here. They have the columns of the run file's examples but are others, and fewer, because they
are kept in memory. Labels are drawn from probabilities that follow from the numbers and from hidden factors of the ids,
so the best possible AUC is known; it is printed at the start.
"""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

import shoal
import shoal.torch

NUMBERS = 13
# The numbers of ids in the columns of Criteo's clicks.
IDS = (1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194)
IDS += (27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572)
TABLES = [f"c{column + 1}" for column in range(len(IDS))]
DIM = 16


def clicks(count: int, seed: int, scale: float) -> tuple[TensorDataset, float]:
    """Returns examples, and the AUC of the probabilities that their labels were drawn with."""
    hidden = np.random.default_rng(0)  # The same factors for training and test data.
    draw = np.random.default_rng(seed)
    numbers = draw.normal(size=(count, NUMBERS))
    logit = numbers @ hidden.uniform(-0.6, 0.6, NUMBERS) - 1.5
    ids = np.empty((count, len(IDS)), np.int64)
    sums = np.zeros((count, 2))
    for column, most in enumerate(IDS):
        rows = int(max(2, most * scale))
        # The k-th id is about k^-1.1 times as frequent as the first, and rare ids have small factors.
        span = 1 - (rows + 1) ** -0.1
        ids[:, column] = np.minimum((1 - draw.random(count) * span) ** -10, rows) - 1
        small = (6 / (6 + np.arange(rows))) ** 2
        weights = hidden.uniform(-0.8, 0.8, rows) * small
        factors = hidden.uniform(-0.42, 0.42, (rows, 2)) * small[:, None]
        of_examples = factors[ids[:, column]]
        logit += weights[ids[:, column]] - (of_examples**2).sum(1) / 2
        sums += of_examples
    logit += (sums**2).sum(1) / 2  # the products of all pairs of factors
    label = draw.random(count) < 1 / (1 + np.exp(-logit))
    columns = numbers.astype(np.float32), ids, label.astype(np.float32)
    return TensorDataset(*map(torch.from_numpy, columns)), auc(logit, label)


def auc(scores: np.ndarray, labels: np.ndarray) -> float:
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    positives = labels.sum()
    return float((ranks[labels].sum() - positives * (positives + 1) / 2) / (positives * (len(labels) - positives)))


def tower(*sizes: int) -> list[nn.Module]:
    """Returns linear layers of these sizes, each with a ReLU behind it."""
    layers: list[nn.Module] = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return layers


class Dlrm(nn.Module):
    """Embeddings and a bottom network, the products of all pairs of them, and a top network."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(shoal.torch.EmbeddingBag(table=table, dim=DIM, mode="sum") for table in TABLES)
        self.bottom = nn.Sequential(*tower(NUMBERS, 512, 256, 64, DIM))
        vectors = len(TABLES) + 1
        self.top = nn.Sequential(*tower(DIM + vectors * (vectors - 1) // 2, 512, 256), nn.Linear(256, 1))
        self.pairs = torch.tril_indices(vectors, vectors, offset=-1)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, numbers, ids):
        bottom = self.bottom(numbers)
        vectors = torch.stack([bottom] + [bag(ids[:, i, None]) for i, bag in enumerate(self.bags)], 1)
        products = (vectors @ vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([bottom, products], 1)).squeeze(1)


def keys_of(batch: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """The rows that a batch looks up; those of the next batch come together with its parameters."""
    _, ids, _ = batch
    return {table: ids[:, i] for i, table in enumerate(TABLES)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a DLRM on clicks that are made up.")
    parser.add_argument("--examples", type=int, default=500000)
    parser.add_argument("--scale", type=float, default=0.01, help="factor for the numbers of ids in Criteo's columns")
    parser.add_argument("--batch_size", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()

    worker = shoal.Worker()
    train, _ = clicks(args.examples, 1, args.scale)
    test, best = clicks(20000, 2, args.scale)
    print(f"best possible test AUC: {best:.4f}")
    model = Dlrm()
    rule = shoal.Adagrad(0.1, initial_accumulator=1e-4, epsilon=1e-10)
    tables = [shoal.Table(name, DIM, optimizer=rule, initializer=shoal.Uniform(-0.0005, 0.0005)) for name in TABLES]
    optimizer = shoal.Adam(0.002, schedule=shoal.Polynomial())  # All rates fall linearly to 0.
    trainer = shoal.torch.Trainer(worker, model, optimizer, metrics=["auc"], tables=tables)
    batches = trainer.batches(train, batch_size=args.batch_size, epochs=args.epochs, test=test, keys=keys_of)
    for numbers, ids, label in batches:
        logits = model(numbers, ids)
        trainer.step(F.binary_cross_entropy_with_logits(logits, label), auc=(torch.sigmoid(logits), label))


if __name__ == "__main__":
    main()
