"""The worked example in PyTorch as a real run: needs $SHOAL, which python/test torch sets."""

import os
import signal
from pathlib import Path

import torch
from live_runs import PYTHON, programs, variables, wait_for_step

import shoal
import shoal.torch

EXAMPLE = PYTHON / "examples/fashion_mnist.py"


def test_the_example_trains_and_reading_ahead_and_a_killed_program_change_no_byte(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))
    flags = ["--max_steps=60"]
    calm = shoal.launch(str(EXAMPLE), ps=2, workers=2, out=str(tmp_path / "calm"), flags=flags)
    assert calm.wait(300)["test_accuracy"] > 0.6
    ahead = ["--num_workers=2"]
    run = shoal.launch(str(EXAMPLE), ps=2, workers=2, args=ahead, out=str(tmp_path / "killed"), flags=flags)
    wait_for_step(run, 15)
    processes = list(programs(run, 1))
    assert processes
    for process in processes:
        os.kill(process, signal.SIGKILL)
    run.wait(300)
    assert "worker/1 died" in Path(run.directory, "launch.log").read_text()
    assert variables(run) == variables(calm)

    names: dict = {"__name__": "example"}
    exec(compile(EXAMPLE.read_text(), str(EXAMPLE), "exec"), names)
    model = names["network"]()
    shoal.torch.load(run, model)
    model.eval()
    test = names["read"](Path("/usr/share/datasets/fashion-mnist"), "t10k")
    images, labels = test.tensors
    with torch.no_grad():
        accuracy = (model(images).argmax(1) == labels).float().mean().item()
    assert abs(accuracy - run.summary()["test_accuracy"]) < 1e-3
