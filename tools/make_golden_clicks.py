#!/usr/bin/env python3
"""Makes ml/nn/golden/click_models.txt: gradients of the zoo's models of clicks, for ml/nn/click_models_test.cc.

usage, with the environment that tests/peers/run installs: ~/.cache/shoal/peers/bin/python3 tools/make_golden_clicks.py

The models are written here a second time, in PyTorch and float64. Weights, rows and inputs are functions of their names, as in
make_golden_gradients.py, which also explains the sketches of the gradients.
"""
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

from make_golden_gradients import bits_of, sketch, value

ROOT = pathlib.Path(__file__).resolve().parent.parent
BATCH, NUMBERS, DIM = 6, 5, 4
# Rows of the compact matrix, row numbers, offsets.
COLUMNS = {"a": (7, [0, 3, 6, 2, 2, 1, 5], [0, 1, 3, 3, 4, 6, 7]), "b": (4, [3, 0, 1, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6])}


class Model:
    def __init__(self, seed):
        self.seed, self.variables, self.nearest = seed, {}, float("inf")

    def variable(self, name, shape, radius):
        values = torch.from_numpy(value(name, self.seed, shape, 0, radius)).double().requires_grad_()
        return self.variables.setdefault(name, values)

    def table(self, prefix, dim):
        """The vectors of all columns."""
        vectors = []
        for column, (rows, indices, offsets) in COLUMNS.items():
            matrix = self.variable(f"tables/{prefix}{column}", (rows, dim), 0.5)
            vectors.append(F.embedding_bag(torch.tensor(indices), matrix, torch.tensor(offsets[:-1]), mode="sum"))
        return vectors

    def linear(self, name, x, units):
        w = self.variable(f"{name}/weights", (x.shape[1], units), (6 / x.shape[1]) ** 0.5)
        return x @ w + self.variable(f"{name}/biases", (units,), 0.1)

    def dense(self, name, x, units):
        x = self.linear(name, x, units)
        self.nearest = min(self.nearest, x.abs().min().item())
        return F.relu(x)

    def wide_deep(self, x):
        wide = sum(self.table("wide_", 1))
        deep = torch.cat([x] + self.table("deep_", DIM), 1)
        for i, units in enumerate([1024, 512, 256]):
            deep = self.dense(f"deep{i + 1}", deep, units)
        return wide + self.linear("deep", deep, 1)

    def deepfm(self, x):
        vectors = self.table("deep_", DIM)
        second = sum((a * b).sum(1, keepdim=True) for i, a in enumerate(vectors) for b in vectors[:i])
        deep = torch.cat([x] + vectors, 1)
        for i in range(3):
            deep = self.dense(f"deep{i + 1}", deep, 400)
        return sum(self.table("wide_", 1)) + self.linear("linear", x, 1) + second + self.linear("deep", deep, 1)

    def dlrm(self, x):
        for name, units in [("bottom1", 512), ("bottom2", 256), ("bottom3", 64), ("bottom", DIM)]:
            x = self.dense(name, x, units)
        vectors = torch.stack([x] + self.table("", DIM), 1)
        products = vectors @ vectors.transpose(1, 2)
        rows, columns = torch.tril_indices(3, 3, -1)
        x = torch.cat([x, products[:, rows, columns]], 1)
        return self.linear("logits", self.dense("top2", self.dense("top1", x, 512), 256), 1)

    def dcn_v2(self, x):
        x0 = x = torch.cat([x] + self.table("", DIM), 1)
        for i in range(3):
            x = x0 * self.linear(f"cross/cross{i + 1}/dense", x, x0.shape[1]) + x
        return self.linear("logits", self.dense("deep2", self.dense("deep1", x, 512), 256), 1)


def compute(name, seed):
    model = Model(seed)
    x = torch.from_numpy(value("input", seed, (BATCH, NUMBERS), 0, 1)).double()
    labels = torch.from_numpy((bits_of("label", seed, BATCH) % np.uint64(2)).astype(np.float64))
    loss = F.binary_cross_entropy_with_logits(getattr(model, name)(x)[:, 0], labels)
    loss.backward()
    return model, loss.item()


def main():
    lines = [f"# tools/make_golden_clicks.py with torch {torch.__version__}", "# model, seed, loss; for each variable: name, "
             "norm of the gradient, up to 16 numbers of its sketch"]
    for name in ["wide_deep", "deepfm", "dlrm", "dcn_v2"]:
        # A gradient jumps where the input of a ReLU is 0.
        seed = max(range(1, 41), key=lambda s: compute(name, s)[0].nearest)
        model, loss = compute(name, seed)
        print(f"{name}: seed {seed}, {model.nearest} from the nearest kink")
        lines.append(f"model {name} {seed} {loss!r}")
        for variable, values in model.variables.items():
            sums = " ".join(repr(float(s)) for s in sketch(variable, values.grad))
            lines.append(f"{variable} {values.grad.norm().item()!r} {sums}")
    (ROOT / "ml/nn/golden/click_models.txt").write_text("\n".join(lines) + "\n")


main()
