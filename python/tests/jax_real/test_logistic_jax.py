"""The example in JAX as a real run: needs $SHOAL, which python/test jax sets."""

from live_runs import PYTHON, SAME_STEPS, variables

import shoal

EXAMPLE = PYTHON / "examples/logistic_jax.py"


def train(out, ps, workers):
    run = shoal.launch(str(EXAMPLE), ps=ps, workers=workers, out=str(out), flags=SAME_STEPS)
    summary = run.wait(300)
    return summary, variables(run)


def test_a_network_in_jax_learns_and_its_bytes_do_not_depend_on_the_number_of_tasks(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))
    summary, result = train(tmp_path / "two", ps=2, workers=2)
    assert summary["test_accuracy"] > 0.85  # Without a hidden layer that works it is 0.5.
    assert sorted(result) == ["hidden/b", "hidden/w", "out/b", "out/w"]
    assert train(tmp_path / "one", ps=1, workers=1)[1] == result
