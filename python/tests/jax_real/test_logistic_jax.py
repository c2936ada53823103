"""The example in JAX as a real run: needs $SHOAL, which python/test jax sets."""

from pathlib import Path

import shoal
from shoal import _safetensors

PYTHON = Path(shoal.__file__).parents[1]
EXAMPLE = PYTHON / "examples/logistic_jax.py"


def train(out, ps, workers):
    run = shoal.launch(str(EXAMPLE), ps=ps, workers=workers, out=str(out), flags=["--replicas_to_aggregate=2"])
    summary = run.wait(300)
    return summary, {name: array.tobytes() for name, array in _safetensors.read(run.model_file()).items()}


def test_a_network_in_jax_learns_and_its_bytes_do_not_depend_on_the_number_of_tasks(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))
    summary, variables = train(tmp_path / "two", ps=2, workers=2)
    assert summary["test_accuracy"] > 0.85  # Without a hidden layer that works it is 0.5.
    assert sorted(variables) == ["hidden/b", "hidden/w", "out/b", "out/w"]
    assert train(tmp_path / "one", ps=1, workers=1)[1] == variables
