#!/usr/bin/env python3
"""Measures the wheel: its size, `import shoal`, and the time from `pip install` to the first trained step in PyTorch.

  tests/benchmark/wheel_times.py dist/shoal-1.0-py3-none-manylinux_2_35_x86_64.whl --beside=SITE_PACKAGES [--rounds=5]

SITE_PACKAGES is a folder with PyTorch and NumPy, such as that of `tests/peers/install torch numpy`; each round makes a virtual
environment that sees it. The program trains a small convolutional network on random images with 1 ps and 2 workers. The
time of the first step is that of the first line of metrics.jsonl. Prints medians; wall time, in brackets CPU time.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset
import shoal
import shoal.torch

worker = shoal.Worker()
torch.manual_seed(worker.seed)
data = TensorDataset(torch.rand(640, 1, 28, 28), torch.randint(10, (640,)))
model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(576, 10))
trainer = shoal.torch.Trainer(worker, model, shoal.Adam(1e-3))
for images, labels in trainer.batches(data, batch_size=64, epochs=1):
    trainer.step(F.cross_entropy(model(images), labels))
"""

IMPORT = """\
import sys, time
start, cpu = time.perf_counter(), time.process_time()
import MODULE
print(time.perf_counter() - start, time.process_time() - cpu)
"""


def measured(line, **options):
    """Runs a command and returns its wall and its CPU time in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    subprocess.run([str(word) for word in line], check=True, stdout=subprocess.DEVNULL, **options)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def first_step(environment, folder):
    """Starts a run and returns the seconds until its first step is in metrics.jsonl."""
    (folder / "train.py").write_text(PROGRAM)
    line = [environment / "bin/shoal", "train", f"--program={folder}/train.py", "--num_ps_tasks=1", "--num_replicas=2"]
    start = time.monotonic()
    process = subprocess.Popen([*map(str, line), f"--out={folder}/run"], stdout=subprocess.DEVNULL)
    metrics = folder / "run/metrics.jsonl"
    while not (metrics.exists() and b"\n" in metrics.read_bytes()):
        if process.poll() is not None:
            sys.exit("the run ended without a step")
        time.sleep(0.01)
    seconds = time.monotonic() - start
    if process.wait() != 0:
        sys.exit("the run failed")
    return seconds


def measure_round(flags, folder, results):
    environment = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    own = next(environment.glob("lib/python*/site-packages"))
    (own / "beside.pth").write_text(f"{flags.beside}\n")
    python = environment / "bin/python3"
    install = measured([python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", flags.wheel])
    subprocess.run([python, "-c", "import torch"], check=True)  # Its files are in the page cache from here on.
    step = first_step(environment, folder)
    results.setdefault("pip install", []).append(install)
    results.setdefault("shoal train to the first step", []).append((step, float("nan")))
    results.setdefault("pip install to the first step", []).append((install[0] + step, float("nan")))
    for module in ("shoal", "numpy", "torch"):
        for _ in range(3):
            times = subprocess.check_output([python, "-c", IMPORT.replace("MODULE", module)], text=True).split()
            results.setdefault(f"import {module}", []).append(tuple(map(float, times)))
    results.setdefault("shoal --version", []).append(measured([environment / "bin/shoal", "--version"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--beside", type=Path, required=True, metavar="SITE_PACKAGES")
    parser.add_argument("--rounds", type=int, default=5)
    flags = parser.parse_args()
    results = {}
    for _ in range(flags.rounds):
        with tempfile.TemporaryDirectory() as folder:
            measure_round(flags, Path(folder), results)
    print(f"{flags.wheel.name}: {flags.wheel.stat().st_size / 1e6:.1f} MB; load average {os.getloadavg()[0]:.1f}")
    for name, values in results.items():
        wall, cpu = (statistics.median(column) for column in zip(*values))
        low, high = min(value[0] for value in values), max(value[0] for value in values)
        in_brackets = f" ({cpu * 1e3:.1f} ms)" if cpu == cpu else ""
        print(f"{name}: {wall * 1e3:.1f} ms{in_brackets}; {low * 1e3:.1f} to {high * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
