"""The language model as a real run: needs $SHOAL, which python/test torch sets."""

import collections
import math
import runpy
import subprocess
import sys

import torch
import torch.nn.functional as F
from live_runs import PYTHON

import shoal
import shoal.torch

EXAMPLE = PYTHON / "examples/char_transformer.py"


def loss_without_context(learned, text):
    """The loss on `text` of a table that knows how often each character follows each other one in `learned`."""
    first = collections.Counter(learned[:-1])
    pairs = collections.Counter(zip(learned, learned[1:]))
    kinds = len(set(learned + text))
    chances = ((pairs[pair] + 0.1) / (first[pair[0]] + 0.1 * kinds) for pair in zip(text, text[1:]))
    return -sum(map(math.log, chances)) / (len(text) - 1)


def test_the_language_model_learns_from_more_than_one_character_and_writes_text(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))
    run = shoal.launch(str(EXAMPLE), ps=2, workers=2, args=["--steps=200"], out=str(tmp_path / "run"))
    loss = run.wait(550)["test_loss"]
    example = runpy.run_path(str(EXAMPLE))
    split = len(example["TEXT"]) * 9 // 10
    learned, text = example["TEXT"][:split], example["TEXT"][split:]
    assert 1 < loss < loss_without_context(learned, text)  # A model that saw the next character would come below 1.

    model = example["Transformer"]()
    shoal.torch.load(run, model)
    with torch.no_grad():
        characters, following = example["windows"](text).tensors
        alone = F.cross_entropy(model(characters).flatten(0, 1), following.flatten()).item()
    assert abs(alone - loss) < 1e-3

    line = [sys.executable, str(EXAMPLE), f"--sample={run.directory}"]
    written = subprocess.run(line, capture_output=True, text=True, check=True, timeout=300).stdout
    assert written.startswith("The statement")
    assert len(written) == len("The statement") + 300 + 1
