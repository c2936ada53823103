#!/usr/bin/env python3
"""The short part of tests/chaos: real processes behind the proxy, a few faults each, judged as the long runs are."""
import random_faults
import tasks
from tasks import Tasks, cluster, judge_async, judge_sync

EPOCHS = 15
LENGTH = (f"--num_epochs={EPOCHS}",)


def the_proxy_alone_changes_nothing():
    with Tasks(*LENGTH) as run:
        run.start()
        assert run.end() == 0, run.logs()
        assert run.codes() == {name: [0] for name in ("chief/0", "ps/0", "ps/1", "worker/0", "worker/1")}, run.logs()
        judge_sync(run, LENGTH, EPOCHS)
        calls = run.proxy.counts()["calls"]
        for method in ("chief RegisterTask", "chief ReportSteps", "ps0 Exchange", "ps1 LoadSlices"):
            assert calls[method]["calls"] > 0, calls


def wrong_answers_cost_nothing():
    """INTERNAL before and after the call took effect: it is sent again, and counts once."""
    for kind in ("error", "replace"):
        for flags, judge in (((), lambda run: judge_sync(run, LENGTH, EPOCHS)),
                             (("--nosync_replicas",), lambda run: judge_async(run, EPOCHS))):
            with Tasks(*LENGTH, *flags) as run:
                run.proxy.add("wrong", kind=kind, code=13, after=30, chance=0.05, count=40)
                run.start()
                assert run.end() == 0, run.logs()
                judge(run)
                assert run.proxy.disturbed("wrong") > 10, run.proxy.counts()


def random_faults_lose_and_double_nothing():
    # The fast part leaves out pauses above the lease, and a disk of its own, which root must mount.
    failed = random_faults.go(faults=8, seed=7, jobs=2, in_a_run=4, epochs=30, only=("worker", "ps", "chief"),
                              fault_names=("kill", "delay", "cut", "loss", "code", "slow_disk"))
    assert failed == 0, f"{failed} runs failed"


if __name__ == "__main__":
    cluster.main([the_proxy_alone_changes_nothing, wrong_answers_cost_nothing, random_faults_lose_and_double_nothing])
