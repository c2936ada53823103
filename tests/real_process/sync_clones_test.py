#!/usr/bin/env python3
"""Batch norm over the clones of a replica: the same bytes for any number of ps, and clones that share a batch compute
what one clone of the whole batch does."""
import pathlib
import struct
import tempfile

import cluster

RUN = pathlib.Path("tests/real_process/sync_clones.textproto")
TWO, ONE = "--num_clones=2", "--num_clones=1"
STEPS = 20


def train(*flags, run_file=RUN):
    """Trains to the end; returns the digest of the model, its tensors as numbers, and the losses of the steps."""
    with cluster.Run(run_file, *flags) as run:
        run.finish()
        run.assert_nothing_left()
        tensors = {name: struct.unpack(f"<{len(data) // 4}f", data) for name, data in run.tensors().items()}
        losses = [line["loss"] for line in run.metrics()]
        assert len(losses) == STEPS, losses
        return run.digest(), tensors, losses


def distance(a, b):
    """The largest difference of two models' numbers."""
    assert a.keys() == b.keys(), (a.keys(), b.keys())
    return max(abs(x - y) for name in a for x, y in zip(a[name], b[name]))


def any_number_of_ps():
    expected, tensors, losses = train("--num_ps_tasks=1", "--num_replicas=1", TWO)
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5]), f"not learned: {losses}"
    assert all(v != 1 for v in tensors["batch_norm2/moving_variance"]), tensors
    for tasks in (["--num_ps_tasks=2", "--num_replicas=1"], ["--num_ps_tasks=2", "--num_replicas=2"],
                  ["--num_ps_tasks=0"]):
        assert train(*tasks, TWO)[0] == expected, f"{tasks}: other bytes"


def half_batches_are_the_whole_one():
    with tempfile.TemporaryDirectory(prefix="shoal_sync_clones_") as directory:
        plain = pathlib.Path(directory) / "plain.textproto"
        plain.write_text(RUN.read_text().replace(" sync_clones: true", ""))
        for ps in (1, 2):
            tasks = [f"--num_ps_tasks={ps}", "--num_replicas=1"]
            _, whole, of_whole = train(*tasks, ONE)
            _, halves, of_halves = train(*tasks, TWO)
            assert distance(whole, halves) <= 1e-5, (ps, distance(whole, halves))
            assert max(abs(a - b) for a, b in zip(of_whole, of_halves)) <= 1e-5, (of_whole, of_halves)
        # Else it is not: each clone's own moments are others.
        _, apart, _ = train(*tasks, TWO, run_file=plain)
        assert distance(whole, apart) > 1e-3, distance(whole, apart)


if __name__ == "__main__":
    cluster.main([any_number_of_ps, half_batches_are_the_whole_one])
