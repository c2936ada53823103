#!/usr/bin/env python3
"""The evaluator beside real runs."""
import json
import math
import pathlib
import signal
import subprocess

import cluster
import monitoring_test

HERE = pathlib.Path(__file__).resolve().parent
SMALL = str(HERE / "small.textproto")
TWO = ("--num_ps_tasks=2", "--num_replicas=2")


class Evaluator:
    """`shoal evaluator` of a run. Use as a context: it is killed at the end."""

    def __init__(self, run, *flags):
        self.out = run.out
        self.command = [cluster.shoal_binary(), "evaluator", f"--run={SMALL}", f"--out={run.out}", *flags]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.communicate()

    def end(self, code, timeout=60):
        _, errors = self.process.communicate(timeout=timeout)
        assert self.process.returncode == code, f"{self.process.returncode}, not {code}\n{errors}"
        return errors

    def lines(self):
        path = self.out / "evaluator.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def files(directory):
    return {str(path.relative_to(directory)): (path.stat().st_mtime_ns, path.stat().st_size)
            for path in directory.rglob("*") if path.is_file()}


def it_evaluates_until_the_run_has_finished():
    with cluster.Run(SMALL, *TWO, "--num_epochs=40") as run, Evaluator(run, "--num_epochs=40") as evaluator:
        run.finish()
        assert evaluator.end(0).count("] GPUs: ") == 1
        lines, summary = evaluator.lines(), run.summary()
        assert [line["step"] for line in lines] == sorted({line["step"] for line in lines}), lines
        last = lines[-1]
        assert last["step"] == summary["steps"] == 40 * 27, last
        assert math.isclose(last["loss"], summary["test_loss"], rel_tol=1e-5), (last, summary)
        assert math.isclose(last["accuracy"], summary["test_accuracy"]), (last, summary)
        assert list(last) == ["step", "checkpoint", "loss", "accuracy", "examples", "seconds", "unix_seconds"], last
        assert list((run.out / "events" / "evaluator").glob("*tfevents*"))


def it_changes_nothing_of_the_run():
    with cluster.Run(SMALL, *TWO) as run:
        run.finish()
        before = files(run.out)
        for _ in range(2):  # The second one finds everything done.
            with Evaluator(run) as evaluator:
                evaluator.end(0)
                assert len(evaluator.lines()) == 1, evaluator.lines()
        after = files(run.out)
        assert {name: after.get(name) for name in before} == before
        new = sorted(set(after) - set(before))
        assert new[0] == "evaluator.jsonl" and len(new) == 2 and new[1].startswith("events/evaluator/"), new


def it_waits_for_a_run_and_ends_on_sigterm():
    with cluster.Run(SMALL, *TWO) as run:
        with Evaluator(run, "--metrics_address=127.0.0.1:0") as evaluator:
            monitoring_test.wait_until("it serves", lambda: "evaluator-0" in monitoring_test.targets(run))
            where = monitoring_test.targets(run)["evaluator-0"]
            waits = (503, "evaluator/0: waits for the run's first checkpoint\n")
            monitoring_test.wait_until("it waits", lambda: monitoring_test.get(where, "/readyz") == waits)
            assert monitoring_test.get(where, "/healthz")[0] == 200
            assert not (run.out / "checkpoints").exists()
            evaluator.process.send_signal(signal.SIGTERM)
            evaluator.end(143)
        assert not monitoring_test.targets(run)


def it_ends_without_a_sign_of_a_run():
    with cluster.Run(SMALL, *TWO) as run, Evaluator(run, "--wait_seconds=1") as evaluator:
        _, said = evaluator.process.communicate(timeout=60)
        assert evaluator.process.returncode == 138, said
        assert f"waits for a run to begin in {run.out}, where there is none; ends when there is no sign" in said, said
        assert f"shoal evaluator: waited for a run to begin in {run.out}" in said, said
        assert not run.out.exists()


if __name__ == "__main__":
    cluster.main([it_evaluates_until_the_run_has_finished, it_changes_nothing_of_the_run,
                  it_waits_for_a_run_and_ends_on_sigterm, it_ends_without_a_sign_of_a_run])
