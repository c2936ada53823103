#!/usr/bin/env python3
"""Tests what tasks that are started one by one do on signals, and their exit codes."""
import json
import pathlib
import re
import signal
import subprocess
import time

import by_hand_test
import cluster

LONG = ("--num_epochs=100000", "--save_every=1000000")


def wait_until(what, run, check, timeout=180):
    deadline = time.monotonic() + timeout
    while not check():
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}\n{run.logs()}"
        time.sleep(0.05)


def checkpoints(run):
    """Steps of the durable ones."""
    return sorted(int(path.parent.name.split("-")[1]) for path in (run.out / "checkpoints").glob("*/MANIFEST"))


def steps(run):
    """Counts the lines of metrics.jsonl."""
    metrics = run.out / "metrics.jsonl"
    return len(metrics.read_text().splitlines()) if metrics.exists() else 0


def training(*flags):
    """A run of one chief, ps and worker that trains."""
    run = by_hand_test.ByHand(*LONG, *flags)
    address = run.start_chief("--listen_address=127.0.0.1:0")
    run.start("ps", f"--chief_host={address}", "--task_index=0", "--listen_address=127.0.0.1:0")
    run.start("worker", f"--chief_host={address}", "--task_index=0")
    wait_until("it trains", run, lambda: steps(run) > 20)
    return run


def stop_the_worker(run):
    """Stops the worker, and waits until the chief knows the last step that it has helped to make: it asks for a
    checkpoint of a step that the worker lacks then."""
    run.tasks["worker"].send_signal(signal.SIGSTOP)

    def is_silent():
        status = json.loads(subprocess.run([cluster.shoal_binary(), "status", str(run.out), "--json"], check=True,
                                           capture_output=True, text=True, timeout=120).stdout)
        ages = {task["task"]: task["seconds_since_heartbeat"] for task in status["tasks"]}
        # A ps reports its steps in heartbeats, and the chief has had some since the worker stopped.
        return status["waits_for"].startswith("worker/0 (silent for") and ages["ps/0"] < ages["worker/0"] - 2

    wait_until("the chief has noticed that the worker does nothing", run, is_silent)


def sigterm_to_all_at_once_makes_a_checkpoint():
    with training() as run:
        for how in ("ps", "worker", "chief"):
            run.tasks[how].send_signal(signal.SIGTERM)
        codes = {job: run.end(job) for job in run.tasks}
        assert codes == {"chief": 143, "ps": 143, "worker": 143}, f"{codes}\n{run.logs()}"
        assert checkpoints(run) and checkpoints(run)[-1] > 20, checkpoints(run)


def sigterm_to_a_ps_makes_a_checkpoint_first():
    with training() as run:
        run.tasks["ps"].send_signal(signal.SIGTERM)
        assert run.end("ps") == 143, run.logs()
        assert checkpoints(run) and checkpoints(run)[-1] > 20, checkpoints(run)
        assert run.tasks["chief"].poll() is None, run.logs()  # It waits for the ps to come back.


def a_stop_may_take_as_long_as_the_run_allows():
    """A worker that computes nothing for a while keeps the checkpoint back, as a shard that takes long would."""
    with training("--grace_seconds=120", "--lease_seconds=240") as run:
        stop_the_worker(run)
        for how in ("ps", "worker", "chief"):
            run.tasks[how].send_signal(signal.SIGTERM)
        time.sleep(22)  # A ps is by default ended after 15 s, and the chief does without after 20 s.
        assert [task.poll() for task in run.tasks.values()] == [None] * 3, run.logs()
        run.tasks["worker"].send_signal(signal.SIGCONT)
        codes = {job: run.end(job) for job in run.tasks}
        assert codes == {"chief": 143, "ps": 143, "worker": 143}, f"{codes}\n{run.logs()}"
        assert checkpoints(run) and checkpoints(run)[-1] > 20, f"{checkpoints(run)}\n{run.logs()}"


def a_stop_without_a_checkpoint_ends_at_the_runs_limit():
    with training("--grace_seconds=2", "--lease_seconds=240") as run:
        stop_the_worker(run)
        started = time.monotonic()
        for how in ("ps", "chief"):
            run.tasks[how].send_signal(signal.SIGTERM)
        assert run.end("ps") == 143, run.logs()
        assert time.monotonic() - started >= 2, run.logs()
        assert "no checkpoint became durable within 2s (cluster.grace_seconds)" in run.log("ps"), run.logs()
        assert run.end("chief") == 143, run.logs()
        assert time.monotonic() - started >= 11, run.logs()
        assert "could not make a checkpoint in time, and the run has none" in run.log("chief"), run.logs()
        assert not checkpoints(run), checkpoints(run)


def sigusr1_makes_a_checkpoint_and_goes_on():
    with training() as run:
        def another_checkpoint(count):
            """A request while a checkpoint is being made is for that one, so it is repeated."""
            run.tasks["chief"].send_signal(signal.SIGUSR1)
            return len(checkpoints(run)) >= count

        for count in (1, 2):
            wait_until("a checkpoint", run, lambda want=count: another_checkpoint(want))
        for job in ("ps", "worker"):  # They make none, and live.
            run.tasks[job].send_signal(signal.SIGUSR1)
        before = steps(run)
        wait_until("training continues", run, lambda: steps(run) > before + 20)
        assert [task.poll() for task in run.tasks.values()] == [None] * 3, run.logs()


def sigusr2_says_in_the_log_what_the_task_does():
    with training() as run:
        for job, words in (("chief", "activity +trains"), ("ps", "activity +serves"), ("worker", "activity +at step")):
            def says(job=job, words=words):
                run.tasks[job].send_signal(signal.SIGUSR2)
                return re.search(words, run.log(job))

            wait_until(f"{job} says what it does", run, says)
            assert run.tasks[job].poll() is None, run.logs()


def sighup_opens_the_log_file_again():
    with by_hand_test.ByHand(*LONG) as run:
        log = pathlib.Path(run.directory.name) / "rotated.log"
        run.start_chief("--listen_address=127.0.0.1:0", f"--log_file={log}")
        wait_until("a log", run, lambda: log.exists() and log.stat().st_size > 0)
        log.rename(log.with_suffix(".1"))
        run.tasks["chief"].send_signal(signal.SIGHUP)
        wait_until("a new log", run, lambda: log.exists() and "reopened the log" in log.read_text())
        assert run.tasks["chief"].poll() is None, run.logs()
        run.tasks["chief"].send_signal(signal.SIGTERM)
        assert run.end("chief") == 143, run.logs()


def a_killed_task_ends_with_the_signals_code():
    with training() as run:
        run.tasks["worker"].send_signal(signal.SIGKILL)
        assert run.end("worker") == -signal.SIGKILL  # A shell and a container say 137.
        run.tasks["ps"].send_signal(signal.SIGABRT)
        assert run.end("ps") == -signal.SIGABRT  # 134


def a_worker_whose_chief_is_gone_asks_to_be_started_again():
    with training() as run:
        run.tasks["chief"].send_signal(signal.SIGKILL)
        run.end("chief")
        assert run.end("worker") == 138, run.logs()
        assert run.end("ps") == 138, run.logs()


if __name__ == "__main__":
    cluster.main([sigterm_to_all_at_once_makes_a_checkpoint, sigterm_to_a_ps_makes_a_checkpoint_first,
                  a_stop_may_take_as_long_as_the_run_allows, a_stop_without_a_checkpoint_ends_at_the_runs_limit,
                  sigusr1_makes_a_checkpoint_and_goes_on, sigusr2_says_in_the_log_what_the_task_does,
                  sighup_opens_the_log_file_again, a_killed_task_ends_with_the_signals_code,
                  a_worker_whose_chief_is_gone_asks_to_be_started_again])
