"""ASYNC over real processes: trains, counts every batch once, survives a killed worker and a killed ps."""
import pathlib

import cluster

SMALL = str(pathlib.Path(__file__).resolve().parent / "small.textproto")
FLAGS = ("--nosync_replicas", "--num_ps_tasks=2")
BATCHES = 3 * 81  # 4,030 examples in batches of 50, three epochs


def check(run):
    run.assert_nothing_left()
    summary = run.summary()
    assert summary["status"] == "finished", summary
    assert summary["steps"] == BATCHES, f"{summary['steps']} updates, not {BATCHES}"
    assert summary["examples"] == 3 * 4030, f"{summary['examples']} examples"
    assert summary["test_accuracy"] > 0.7, summary


def trains():
    with cluster.Run(SMALL, *FLAGS, "--num_replicas=2") as run:
        run.finish()
        check(run)


def bounded_staleness():
    with cluster.Run(SMALL, *FLAGS, "--num_replicas=3", "--max_staleness=1") as run:
        run.finish()
        check(run)


def killed_worker():
    with cluster.Run(SMALL, *FLAGS, "--num_replicas=2") as run:
        run.start()
        run.wait_for_step(40)
        run.kill("worker", 1)
        run.finish()
        check(run)


def killed_ps():
    with cluster.Run(SMALL, *FLAGS, "--num_replicas=2") as run:
        run.start()
        run.wait_for_step(60)
        run.kill("ps", 1)
        run.finish()
        check(run)


if __name__ == "__main__":
    cluster.main([trains, bounded_staleness, killed_worker, killed_ps])
