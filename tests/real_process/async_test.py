"""ASYNC over real processes: trains, counts every batch once, survives killed workers and ps, stops and resumes."""
import pathlib
import signal

import cluster

SMALL = str(pathlib.Path(__file__).resolve().parent / "small.textproto")
FLAGS = ("--nosync_replicas", "--num_ps_tasks=2")
EXAMPLES = 4030
BATCHES = 81  # of 50 examples, in an epoch
EPOCHS = 3  # as in the run file
LONG = "--num_epochs=9"  # long enough to be killed in the middle
LONG_EPOCHS = 9


def check(run, epochs=EPOCHS):
    run.assert_nothing_left()
    summary = run.summary()
    assert summary["status"] == "finished", summary
    assert summary["steps"] == epochs * BATCHES, f"{summary['steps']} updates, not {epochs * BATCHES}"
    assert summary["examples"] == epochs * EXAMPLES, f"{summary['examples']} examples"
    assert summary["test_accuracy"] > 0.6, summary
    check_lines(run, epochs)


def check_lines(run, epochs=EPOCHS):
    lines = run.metrics()
    steps = [line["step"] for line in lines]
    assert steps == sorted(set(steps)), "steps do not rise strictly"
    assert sum(line["examples"] for line in lines) == epochs * EXAMPLES, "not every batch has its line"
    assert "eval_accuracy" in lines[-1], lines[-1]


def trains():
    with cluster.Run(SMALL, *FLAGS, "--num_replicas=2") as run:
        run.finish()
        check(run)


def bounded_staleness():
    with cluster.Run(SMALL, *FLAGS, "--num_replicas=3", "--max_staleness=1") as run:
        run.finish()
        check(run)


def killed_worker():
    with cluster.Run(SMALL, *FLAGS, "--num_replicas=2", LONG) as run:
        run.start()
        run.wait_for_step(40)
        run.kill("worker", 1)
        run.finish()
        check(run, LONG_EPOCHS)


def killed_ps():
    for index in (0, 1):  # one of them counts the steps
        with cluster.Run(SMALL, *FLAGS, "--num_replicas=2", LONG) as run:
            run.start()
            run.wait_for_step(60)
            survivors = {task: run.pids(*task) for task in (("ps", 1 - index), ("worker", 0), ("worker", 1))}
            run.kill("ps", index)
            run.wait_for_step(3 * BATCHES)
            for task, pids in survivors.items():
                assert run.pids(*task) == pids or run.process.poll() is not None, f"{task} did not live on"
            run.finish()
            check(run, LONG_EPOCHS)


def killed_ps_after_cuts():
    """Updates that a durable cut contains keep their lines, although the ps that counts them dies right after it."""
    with cluster.Run(SMALL, *FLAGS, "--num_replicas=2", LONG, "--set", "checkpoint.save_every=7") as run:
        run.start()
        for step, index in ((60, 0), (180, 1), (300, 0)):
            run.wait_for_step(step)
            run.kill("ps", index)
        run.finish()
        check(run, LONG_EPOCHS)
        steps = [line["step"] for line in run.metrics()]
        assert steps == list(range(1, len(steps) + 1)), "a step has no line"


def killed_ps_without_checkpoint():
    with cluster.Run(SMALL, *FLAGS, "--num_replicas=2", LONG, "--set", "checkpoint.save_every=1000000") as run:
        run.start()
        run.wait_for_step(100)
        run.kill("ps", 1)
        run.finish()
        check(run, LONG_EPOCHS)


def all_at_once():
    with cluster.Run(SMALL, *FLAGS, "--num_replicas=2", LONG) as run:
        run.start()
        run.wait_for_step(50)
        for task in (("ps", 0), ("ps", 1), ("worker", 0)):
            run.kill(*task)
        run.finish()
        check(run, LONG_EPOCHS)


def ps_without_slices():
    with cluster.Run(SMALL, "--nosync_replicas", "--num_ps_tasks=6", "--num_replicas=2", "--set",
                     "cluster.slice_bytes=262144") as run:
        run.finish()
        check(run)


def one_process():
    with cluster.Run(SMALL, "--nosync_replicas", "--num_ps_tasks=0", "--num_replicas=1") as run:
        run.finish()
        check(run)


def stops_and_resumes():
    with cluster.Run(SMALL, *FLAGS, "--num_replicas=2", LONG) as run:
        run.start()
        run.wait_for_step(70)
        run.process.send_signal(signal.SIGINT)
        code = run.wait()
        assert code == 130, f"exit code {code} after Ctrl-C\n{run.output}\n{run.logs()}"
        run.assert_nothing_left()
        other = ("--nosync_replicas", "--num_ps_tasks=3", "--num_replicas=1", LONG)
        with cluster.Run(SMALL, *other, out=run.out) as again:
            again.finish()
            assert again.summary()["steps"] == LONG_EPOCHS * BATCHES, again.summary()
            check_lines(again, LONG_EPOCHS)
        with cluster.Run(SMALL, *FLAGS, "--num_replicas=2", LONG, out=run.out) as over:
            over.finish()
            assert over.summary()["steps"] == LONG_EPOCHS * BATCHES, "a finished run was trained on"


def skipped_batches_are_reported():
    # One worker: so short a run may be over before a second one has registered.
    diverges = ("--num_replicas=1", "--num_ps_tasks=2", "--learning_rate=1e30", "--batch_size=300")
    for mode in (("--sync_replicas", "--max_steps=6"), ("--nosync_replicas", "--num_epochs=1")):
        with cluster.Run(SMALL, *diverges, *mode) as run:
            run.finish()
            skipped = run.summary()["skipped_batches"]
            assert 0 < skipped < 20, run.summary()
            assert f"skipped:       {skipped} batch" in run.output, run.output


def divergence_ends_the_run():
    with cluster.Run(SMALL, *FLAGS, "--num_replicas=2", "--learning_rate=1e30") as run:
        run.finish(code=78)
        assert "in a row that are not finite" in run.output and "learning_rate" in run.output, run.output
        assert "checkpoint:    none from before the training diverged" in run.output, run.output
        assert f"--out={run.out}-lower --learning_rate=1e+29   # a tenth of the rate" in run.output, run.output
        assert run.summary()["status"] == "failed", run.summary()
        run.assert_nothing_left()


if __name__ == "__main__":
    cluster.main([trains, bounded_staleness, killed_worker, killed_ps, killed_ps_after_cuts,
                  killed_ps_without_checkpoint, all_at_once,
                  ps_without_slices, one_process, stops_and_resumes, skipped_batches_are_reported,
                  divergence_ends_the_run])
