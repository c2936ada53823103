#!/usr/bin/env python3
"""The launcher over real processes: how it stops, whom it restarts, what it says, that nothing is left."""
import pathlib
import re
import signal

import cluster

SMALL = str(pathlib.Path(__file__).resolve().parent / "small.textproto")
TWO = ("--num_ps_tasks=2", "--num_replicas=2")
TROUBLE = re.compile(r"died|was killed|ended with|did not end")


def all_end_by_themselves():
    with cluster.Run(SMALL, *TWO) as run:
        run.finish()
        run.assert_nothing_left()
        assert not TROUBLE.search(run.output), run.output
        for words in ("test accuracy:", "checkpoint:", "resume:", "loss="):
            assert words in run.output, f"no {words!r} in:\n{run.output}"
        for name in ("run.textproto", "cluster.textproto", "summary.json", "metrics.jsonl"):
            assert (run.out / name).stat().st_size > 0, name
        logs = sorted(path.name for path in (run.out / "logs").glob("*.log"))
        assert logs == ["chief-0.log", "ps-0.log", "ps-1.log", "worker-0.log", "worker-1.log"], logs


def a_finished_run_is_reported():
    with cluster.Run(SMALL, *TWO) as run:
        run.finish()
        digest = run.digest()
        with cluster.Run(SMALL, *TWO, out=run.out) as again:
            again.finish()
            assert "already finished" in again.output, again.output
            assert again.digest() == digest


def the_run_file_that_is_left_can_be_run_again():
    with cluster.Run(SMALL, *TWO) as run:
        run.finish()
        assert "resumes from" not in run.output and "begins at" not in run.output, run.output
        newest = pathlib.Path(run.summary()["checkpoint"]).name
        with cluster.Run(str(run.out / "run.textproto"), "--num_epochs=4", out=run.out) as again:
            again.finish()
            assert f"resumes from step {run.summary()['first_step']} ({newest})" in again.output, again.output
            assert again.summary()["steps"] == 4 * 27, again.summary()


def a_second_ctrl_c_stops_at_once():
    # No checkpoint is due before the workers stand.
    with cluster.Run(SMALL, *TWO, "--num_epochs=1000", "--save_every=1000000", "--eval_every=1000000") as run:
        run.start()
        run.wait_for_step(5)
        run.kill("worker", 0, signal.SIGSTOP)  # So that the first one cannot end the run.
        run.kill("worker", 1, signal.SIGSTOP)
        run.process.send_signal(signal.SIGINT)
        run.wait_for_output("stopping: making a checkpoint first")
        run.process.send_signal(signal.SIGINT)
        assert run.wait() == 130, run.output
        assert "stopped at once" in run.output, run.output
        run.assert_nothing_left()
        *_, stands, command = run.output.splitlines()
        assert stands == "checkpoint:    none was made; the run begins again at step 0", run.output
        assert command.startswith("start again:   ") and command.endswith(f"--run={run.out}/run.textproto"), run.output


def step_of(checkpoint):
    return int(checkpoint.name.split("-")[1])


def newest_checkpoint(run):
    return max((path.parent for path in (run.out / "checkpoints").glob("*/MANIFEST")), key=step_of)


def a_second_ctrl_c_names_the_checkpoint_that_stands():
    with cluster.Run(SMALL, *TWO, "--num_epochs=1000", "--save_every=5", "--eval_every=1000000") as run:
        run.start()
        run.wait_for_checkpoint()
        for worker in (0, 1):
            run.kill("worker", worker, signal.SIGSTOP)
        run.process.send_signal(signal.SIGINT)
        run.wait_for_output("stopping: making a checkpoint first")
        before = newest_checkpoint(run)
        run.process.send_signal(signal.SIGINT)
        assert run.wait() == 130, run.output
        run.assert_nothing_left()
        *_, stands, command = run.output.splitlines()
        # The chief may complete another checkpoint after `before`, also after the launcher has looked for the newest.
        named = pathlib.Path(stands.removeprefix("checkpoint:    "))
        after = newest_checkpoint(run)
        assert (named / "MANIFEST").is_file(), (named, run.output)
        assert step_of(before) <= step_of(named) <= step_of(after), (before, named, after, run.output)
        assert command.startswith("resume:        ") and command.endswith(f"--run={run.out}/run.textproto"), run.output


def sigterm_makes_a_checkpoint():
    with cluster.Run(SMALL, *TWO, "--num_epochs=1000") as run:
        run.start()
        run.wait_for_step(30)
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 143, f"{run.output}\n{run.logs()}"
        run.assert_nothing_left()
        summary = run.summary()
        assert summary["status"] == "stopped", summary
        assert pathlib.Path(summary["checkpoint"]).is_dir(), summary


def the_two_sigterms_of_timeout_make_a_checkpoint():
    """GNU timeout sends its signal to its child, then to the process group of both."""
    with cluster.Run(SMALL, *TWO, "--num_epochs=1000") as run:
        run.command = ["timeout", "3600", *run.command]
        run.start()
        run.wait_for_step(30)
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 143, f"{run.output}\n{run.logs()}"
        run.assert_nothing_left()
        assert "stopped at once" not in run.output, run.output
        summary = run.summary()
        assert summary["status"] == "stopped", summary
        assert pathlib.Path(summary["checkpoint"]).is_dir(), summary


def a_killed_chief_ends_the_run_and_is_named():
    with cluster.Run(SMALL, *TWO, "--num_epochs=1000") as run:
        run.start()
        run.wait_for_step(25)
        run.kill("chief", 0)
        code = run.wait()
        assert code == 138 and "chief/0 ended the run: killed by SIGKILL" in run.output, f"{code}\n{run.output}"
        run.assert_nothing_left()
        with cluster.Run(SMALL, *TWO, out=run.out) as again:
            again.finish()


def a_killed_chief_of_a_resumed_run_is_described_by_that_start():
    with cluster.Run(SMALL, *TWO, "--num_epochs=1000") as run:
        run.start()
        run.wait_for_step(5)
        run.process.send_signal(signal.SIGINT)
        assert run.wait() == 130, run.output
        before = run.summary()
        with cluster.Run(SMALL, *TWO, "--num_epochs=1000", out=run.out) as again:
            again.start()
            again.wait_for_step(before["steps"] + 20)
            again.kill("worker", 0)
            again.wait_for_step(again.step() + 20)
            again.kill("chief", 0)
            assert again.wait() == 138, again.output
            assert "chief/0 ended the run: killed by SIGKILL; see" in again.output, again.output
            assert "had no part" not in again.output, again.output
            summary = again.summary()
            assert summary["status"] == "failed" and "SIGKILL" in summary["exit_reason"], summary
            assert summary["steps"] > before["steps"], (before, summary)
            assert (pathlib.Path(summary["checkpoint"]) / "MANIFEST").is_file(), summary


def a_chief_that_is_killed_before_a_checkpoint_leaves_the_command_that_begins_again():
    with cluster.Run(SMALL, *TWO, "--num_epochs=1000", "--save_every=1000000") as run:
        run.start()
        run.wait_for_step(5)
        run.kill("chief", 0)
        assert run.wait() == 138, run.output
        assert "none was made; the run begins again at step 0" in run.output, run.output
        assert re.search(f"start again: .* train --run={run.out}/run.textproto", run.output), run.output


def one_crash_does_not_blame_the_batch():
    with cluster.Run(SMALL, *TWO) as run:
        run.start()
        run.wait_for_step(20)
        run.kill("worker", 1, signal.SIGSEGV)
        run.finish()
        assert "worker/1 died (killed by SIGSEGV); restarting it, 1 of 3" in run.output, run.output
        assert run.summary()["examples"] == 3 * 4030, run.summary()


def a_parent_that_ignores_sigchld_changes_nothing():
    with cluster.Run(SMALL, *TWO) as run:
        run.command[:0] = ["/bin/sh", "-c", "trap '' CHLD; exec \"$@\"", "sh"]
        run.start()
        run.wait_for_step(20)
        run.kill("worker", 1)
        run.finish()
        run.assert_nothing_left()
        assert "worker/1 died (killed by SIGKILL); restarting it, 1 of 3" in run.output, run.output


def a_stopped_worker_is_replaced_by_the_others():
    # Long enough not to be over before the worker is stopped.
    with cluster.Run(SMALL, *TWO, "--num_epochs=30", "--set", "cluster.lease_seconds=3") as run:
        run.start()
        run.wait_for_step(20)
        run.kill("worker", 1, signal.SIGSTOP)
        run.finish()  # The others finished it.
        run.assert_nothing_left()
        assert "worker/1 was still starting, or had left the run, when the run ended, and was killed" in run.output, run.output
        assert run.summary()["status"] == "finished", run.summary()
        assert run.summary()["examples"] == 30 * 4030, run.summary()


def a_stopped_ps_is_replaced_and_the_result_has_the_same_bytes():
    with cluster.Run(SMALL, *TWO, "--num_epochs=20") as run:
        undisturbed = run.finish().digest()
    with cluster.Run(SMALL, *TWO, "--num_epochs=20", "--lease_seconds=4") as run:
        run.start()
        run.wait_for_step(25)
        run.kill("ps", 1, signal.SIGSTOP)
        run.finish()
        run.assert_nothing_left()
        assert "ps/1 was silent until its lease ended, although its process is alive; the launcher kills it" in run.output, run.output
        assert "ps/1 died (killed by SIGKILL); restarting it" in run.output, run.output
        assert run.digest() == undisturbed


def without_workers_the_run_ends_with_the_checkpoint_that_is_named():
    for more in ("--nosync_replicas", "--sync_replicas"):
        with cluster.Run(SMALL, "--num_ps_tasks=2", "--num_replicas=1", "--num_epochs=1000", more,
                         "--set", "cluster.max_worker_restarts=1") as run:
            run.start()
            first = None
            for _ in range(2):
                run.wait_for_step(run.step() + 100)  # Not all of them can be the killed one's.
                assert run.pids("worker", 0) != [first], run.logs()
                first = run.kill("worker", 0)
            assert run.wait(60) == 138, run.output
            run.assert_nothing_left()
            summary = run.summary()
            said = [line for line in run.output.splitlines() if "worker/0 ended the run" in line]
            assert len(said) == 1 and "killed by SIGKILL" in said[0], run.output
            assert f"; resume from {summary['checkpoint']}" in said[0], run.output
            assert (pathlib.Path(summary["checkpoint"]) / "MANIFEST").is_file(), summary
            assert summary["status"] == "failed" and "worker/0" in summary["exit_reason"], summary
            assert "resume:" in run.output, run.output
            if more == "--nosync_replicas":  # What was trained needs no worker to be kept.
                kept = int(re.search(r"/ckpt-(\d+)-", summary["checkpoint"]).group(1))
                assert kept >= summary["steps"], summary


def a_last_worker_that_others_stop_is_no_stop_of_the_run():
    with cluster.Run(SMALL, "--num_ps_tasks=1", "--num_replicas=1", "--num_epochs=1000",
                     "--set", "cluster.max_worker_restarts=0") as run:
        run.start()
        run.wait_for_step(20)
        run.kill("worker", 0, signal.SIGTERM)
        assert run.wait(60) == 138, run.output
        run.assert_nothing_left()
        assert "worker/0 ended the run: " in run.output, run.output
        assert run.summary()["status"] == "failed", run.summary()


def two_runs_do_not_share_a_directory():
    with cluster.Run(SMALL, *TWO, "--num_epochs=1000") as run:
        run.start()
        run.wait_for_step(5)
        other = cluster.Run(SMALL, *TWO, out=run.out).start()  # No context: it would end both.
        assert other.wait() == 78, other.output
        assert "another run is using" in other.output, other.output
        run.process.send_signal(signal.SIGINT)
        assert run.wait() == 130, run.output


if __name__ == "__main__":
    cluster.main([all_end_by_themselves, a_finished_run_is_reported, the_run_file_that_is_left_can_be_run_again,
                  a_second_ctrl_c_stops_at_once, a_second_ctrl_c_names_the_checkpoint_that_stands,
                  sigterm_makes_a_checkpoint, the_two_sigterms_of_timeout_make_a_checkpoint,
                  a_killed_chief_ends_the_run_and_is_named,
                  a_killed_chief_of_a_resumed_run_is_described_by_that_start,
                  a_chief_that_is_killed_before_a_checkpoint_leaves_the_command_that_begins_again,
                  one_crash_does_not_blame_the_batch, a_parent_that_ignores_sigchld_changes_nothing,
                  a_stopped_worker_is_replaced_by_the_others,
                  a_stopped_ps_is_replaced_and_the_result_has_the_same_bytes,
                  without_workers_the_run_ends_with_the_checkpoint_that_is_named,
                  a_last_worker_that_others_stop_is_no_stop_of_the_run,
                  two_runs_do_not_share_a_directory])
