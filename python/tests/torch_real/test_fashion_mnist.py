"""The worked example in PyTorch as a real run: needs $SHOAL, which python/test torch sets."""

import contextlib
import os
import signal
import time
from pathlib import Path

import torch

import shoal
import shoal.torch
from shoal import _safetensors

PYTHON = Path(shoal.__file__).parents[1]
EXAMPLE = PYTHON / "examples/fashion_mnist.py"


def kill_program(run, worker, step):
    end = time.monotonic() + 300
    while len(run.metrics().get("step", ())) < step:
        assert time.monotonic() < end, Path(run.directory, "launch.log").read_text()
        time.sleep(0.05)
    log = os.path.join(run.directory, f"logs/program-{worker}.log")
    killed = 0
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and os.readlink(entry / "fd/2") == log:
                os.kill(int(entry.name), signal.SIGKILL)
                killed += 1
    assert killed


def test_the_example_trains_and_reading_ahead_and_a_killed_program_change_no_byte(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))
    flags = ["--max_steps=60"]
    calm = shoal.launch(str(EXAMPLE), ps=2, workers=2, out=str(tmp_path / "calm"), flags=flags)
    assert calm.wait(300)["test_accuracy"] > 0.6
    ahead = ["--num_workers=2"]
    run = shoal.launch(str(EXAMPLE), ps=2, workers=2, args=ahead, out=str(tmp_path / "killed"), flags=flags)
    kill_program(run, 1, 15)
    run.wait(300)
    assert "worker/1 died" in Path(run.directory, "launch.log").read_text()
    files = [_safetensors.read(one.model_file()) for one in (calm, run)]
    assert {n: a.tobytes() for n, a in files[0].items()} == {n: a.tobytes() for n, a in files[1].items()}

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
