"""Compares the accuracy of python/examples/fashion_mnist.py on Shoal with that of the same loop in plain PyTorch.

Shoal: 2 ps, 2 workers, synchronous, batch 64 per worker. PyTorch: one process, batch 128, torch.optim.Adam.
Both begin with the same weights, train on the same images in orders of their own with a learning rate that falls along
half a cosine to 0, and are evaluated on all test images.

    SHOAL=bazel-bin/deploy/shoal PYTHONPATH=python $(tests/peers/install torch numpy)/bin/python3 \
        tests/peers/accuracy_parity.py --seeds 1 2 3 --epochs=3

An environment that has the wheel, PyTorch and NumPy needs neither variable.

Prints one row of a Markdown table per seed, and the difference of the means in points (hundredths of the accuracy).
"""

import argparse
import runpy
import statistics
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F

import shoal

EXAMPLE = Path(__file__).parents[2] / "python/examples/fashion_mnist.py"
DATA = Path("/usr/share/datasets/fashion-mnist")


def plain(seed: int, epochs: int) -> float:
    """Returns the accuracy of the loop in PyTorch, without Shoal."""
    example = runpy.run_path(str(EXAMPLE))
    (images, labels), (test_images, test_labels) = (example["read"](DATA, part).tensors for part in ("train", "t10k"))
    torch.manual_seed(seed)
    model = example["network"]()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    batches = [rows for _ in range(epochs) for rows in torch.randperm(len(images)).split(128)]
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, len(batches))
    for rows in batches:
        optimizer.zero_grad()
        F.cross_entropy(model(images[rows]), labels[rows]).backward()
        optimizer.step()
        schedule.step()
    model.eval()
    with torch.no_grad():
        right = sum(
            (model(xs).argmax(1) == ys).sum().item() for xs, ys in zip(test_images.split(500), test_labels.split(500))
        )
    return right / len(test_labels)


def on_shoal(seed: int, epochs: int) -> float:
    """Returns the accuracy of the example with 2 ps and 2 workers."""
    with tempfile.TemporaryDirectory(prefix="shoal-parity-") as folder:
        run = shoal.launch(
            str(EXAMPLE), ps=2, workers=2, args=[f"--epochs={epochs}"], out=folder, flags=[f"--seed={seed}"]
        )
        return float(run.wait()["test_accuracy"])


def main() -> None:
    parser = argparse.ArgumentParser(description="Compares Shoal's accuracy with that of plain PyTorch.")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print("| seed | PyTorch | Shoal |\n|---|---|---|", flush=True)
    pairs = []
    for seed in args.seeds:
        pairs.append((100 * plain(seed, args.epochs), 100 * on_shoal(seed, args.epochs)))
        print(f"| {seed} | {pairs[-1][0]:.2f} | {pairs[-1][1]:.2f} |", flush=True)
    means = [statistics.mean(column) for column in zip(*pairs)]
    print(f"| mean | {means[0]:.2f} | {means[1]:.2f} |\n\nShoal - PyTorch: {means[1] - means[0]:+.2f} points")


main()
