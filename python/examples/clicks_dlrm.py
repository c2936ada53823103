"""Clicks with PyTorch: a DLRM whose embeddings are rows of tables on the parameter servers.

shoal train --program=python/examples/clicks_dlrm.py --num_ps_tasks=2 --num_replicas=2
python python/examples/clicks_dlrm.py                    # one process

The data are made up here: users click on items with a probability that follows from hidden factors of both and from a
number, so the best possible AUC is known; it is printed at the start.
"""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

import shoal
import shoal.torch

LAST = 3  # The items that a user has seen last: both features of items share a table.


def clicks(count: int, seed: int, num_users: int, num_items: int) -> tuple[TensorDataset, float]:
    """Returns examples, and the AUC of the probabilities that their labels were drawn with."""
    hidden = np.random.default_rng(0)  # The same factors for training and test data.
    users, items = (hidden.normal(size=(n, 4)) for n in (num_users, num_items))
    draw = np.random.default_rng(seed)
    user, item = draw.integers(num_users, size=count), draw.zipf(1.3, size=count) % num_items
    last = draw.integers(num_items, size=(count, LAST))
    number = draw.normal(size=count)
    logit = (users[user] * items[item]).sum(1) + (items[last].mean(1) * items[item]).sum(1) + number - 1
    label = draw.random(count) < 1 / (1 + np.exp(-logit))
    # Any 64-bit number is a key: nothing has to count the users.
    user_key = (user.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)
    columns = user_key, item, last, number.astype(np.float32), label.astype(np.float32)
    return TensorDataset(*map(torch.from_numpy, columns)), auc(logit, label)


def auc(scores: np.ndarray, labels: np.ndarray) -> float:
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    positives = labels.sum()
    return float((ranks[labels].sum() - positives * (positives + 1) / 2) / (positives * (len(labels) - positives)))


class Dlrm(nn.Module):
    """Embeddings and a bottom network, the products of all pairs of them, and a top network."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.user = shoal.torch.EmbeddingBag(table="user", dim=dim)
        self.item = shoal.torch.EmbeddingBag(table="item", dim=dim)
        self.last = shoal.torch.EmbeddingBag(table="item", dim=dim, mode="mean")
        self.bottom = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, dim))
        self.top = nn.Sequential(nn.Linear(dim + 6, 64), nn.ReLU(), nn.Linear(64, 1))
        self.pairs = torch.triu_indices(4, 4, offset=1)

    def forward(self, user, item, last, number):
        bottom = self.bottom(number[:, None])
        parts = torch.stack([bottom, self.user(user[:, None]), self.item(item[:, None]), self.last(last)], 1)
        products = (parts @ parts.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([bottom, products], 1)).squeeze(1)


def keys_of(batch: list[torch.Tensor]) -> dict[str, list[torch.Tensor]]:
    """The rows that a batch looks up; those of the next batch come together with its parameters."""
    user, item, last, _, _ = batch
    return {"user": [user], "item": [item, last]}


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a DLRM on clicks that are made up.")
    parser.add_argument("--examples", type=int, default=200000)
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--dim", type=int, default=8, help="numbers of an embedding")
    args = parser.parse_args()

    worker = shoal.Worker()
    train, _ = clicks(args.examples, 1, args.users, args.items)
    test, best = clicks(20000, 2, args.users, args.items)
    print(f"best possible test AUC: {best:.4f}")
    model = Dlrm(args.dim)
    rule = shoal.Adagrad(0.1, initial_accumulator=0.0, epsilon=1e-10)
    tables = [
        shoal.Table(name, args.dim, optimizer=rule, initializer=shoal.Normal(stddev=0.1)) for name in ("user", "item")
    ]
    trainer = shoal.torch.Trainer(worker, model, shoal.Adam(2e-3), metrics=["auc"], tables=tables)
    batches = trainer.batches(train, batch_size=256, epochs=args.epochs, test=test, keys=keys_of)
    for user, item, last, number, label in batches:
        logits = model(user, item, last, number)
        trainer.step(F.binary_cross_entropy_with_logits(logits, label), auc=(torch.sigmoid(logits), label))


if __name__ == "__main__":
    main()
