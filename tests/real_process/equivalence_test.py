"""SYNC: the same bytes for any number of ps and workers, with slices of any size, killed or not."""
import pathlib
import signal
import time

import cluster

SMALL = str(pathlib.Path(__file__).resolve().parent / "small.textproto")
LONG = ("--num_epochs=30",)  # Long enough for something to happen in the middle.
reference = {}


def check_metrics(run, epochs):
    """Every example of every epoch once, every step once, in order."""
    examples = sum(line["examples"] for line in run.metrics())
    assert examples == epochs * 4030, f"{examples} examples counted, not {epochs * 4030}"
    steps = [line["step"] for line in run.metrics()]
    assert steps == list(range(1, epochs * 27 + 1)), f"steps {steps[:3]}..{steps[-3:]}"


def digest_of(*flags):
    with cluster.Run(SMALL, *flags) as run:
        run.finish()
        run.assert_nothing_left()
        check_metrics(run, 30 if "--num_epochs=30" in flags else 3)
        return run.digest()


def expected(*flags):
    if flags not in reference:
        reference[flags] = digest_of("--num_ps_tasks=1", "--num_replicas=1", *flags)
    return reference[flags]


def any_number_of_ps_and_workers():
    for ps, workers in ((2, 2), (5, 3), (3, 4)):
        got = digest_of(f"--num_ps_tasks={ps}", f"--num_replicas={workers}")
        assert got == expected(), f"{ps} ps, {workers} workers: other bytes"


def local_is_the_same():
    assert digest_of("--num_ps_tasks=0", "--num_replicas=1") == expected()


def tasks_of_one_host_share_memory():
    for flags, shares in (((), True), (("--set", "cluster.no_shared_memory=true"), False)):
        with cluster.Run(SMALL, "--num_ps_tasks=2", "--num_replicas=1", "--num_epochs=20", *flags) as run:
            run.start()
            run.wait_for_step(20)
            maps = "".join(pathlib.Path(f"/proc/{pid}/maps").read_text() for pid in run.pids("worker", 0))
            assert ("memfd:shoal-bulk" in maps) == shares, f"shared memory with {flags}: {not shares}"


def default_slices():
    flags = ("--set", "cluster.slice_bytes=262144")
    assert digest_of("--num_ps_tasks=2", "--num_replicas=2", *flags) == expected(*flags)


def adam_and_global_norm():
    flags = ("--optimizer=adam", "--learning_rate=0.001", "--set", "optimizer.clip_by_global_norm=0.5")
    assert digest_of("--num_ps_tasks=2", "--num_replicas=2", *flags) == expected(*flags)


def groups_of_the_optimizer():
    groups = (
        'group { variables: "dense1/weights" frozen: true }'
        'group { variables: ".*/biases" learning_rate_multiplier: 0.5 }'
        'group { variables: "dense2/.*" weight_decay: 0.01 learning_rate: 0.02 }'
    )
    flags = ("--set", f"optimizer={groups}", "--set", "optimizer.clip_by_global_norm=0.5")
    for ps, workers in ((2, 2), (5, 3)):
        assert digest_of(f"--num_ps_tasks={ps}", f"--num_replicas={workers}", *flags) == expected(*flags)
    assert expected(*flags) != expected()


def killed_worker():
    with cluster.Run(SMALL, "--num_ps_tasks=2", "--num_replicas=3", *LONG) as run:
        run.start()
        run.wait_for_step(25)
        run.kill("worker", 1)
        run.finish()
        run.assert_nothing_left()
        check_metrics(run, 30)
        assert run.digest() == expected(*LONG), "other bytes after a worker was killed"


def killed_ps():
    with cluster.Run(SMALL, "--num_ps_tasks=2", "--num_replicas=2", *LONG) as run:
        run.start()
        run.wait_for_step(30)
        survivors = {task: run.pids(*task) for task in (("ps", 0), ("worker", 0), ("worker", 1), ("chief", 0))}
        run.kill("ps", 1)
        time.sleep(0.2)
        for task, pids in survivors.items():
            assert run.pids(*task) == pids, f"{task} did not live on"
        run.finish()
        run.assert_nothing_left()
        check_metrics(run, 30)
        assert run.digest() == expected(*LONG), "other bytes after a ps was killed"


def resume_is_uninterrupted():
    with cluster.Run(SMALL, "--num_ps_tasks=2", "--num_replicas=2", *LONG) as run:
        run.start()
        run.wait_for_step(33)
        run.process.send_signal(signal.SIGINT)
        code = run.wait()
        assert code == 130, f"exit code {code} after Ctrl-C\n{run.output}\n{run.logs()}"
        run.assert_nothing_left()
        # Another number of ps and workers; R was fixed at the first start.
        with cluster.Run(SMALL, "--num_ps_tasks=3", "--num_replicas=1", *LONG, out=run.out) as again:
            again.finish()
            check_metrics(again, 30)
            assert again.digest() == expected(*LONG), "other bytes after a resume"


def resume_keeps_what_the_first_start_decided():
    """R and slice_bytes follow from the first start, whatever the number of tasks later."""
    flags = ("--num_epochs=30", "--replicas_to_aggregate=0", "--slice_bytes=0")
    steps_per_epoch = 41  # 81 batches, 2 replicas at the first start

    def check(run):
        steps = [line["step"] for line in run.metrics()]
        assert steps == list(range(1, 30 * steps_per_epoch + 1)), f"steps {steps[:3]}..{steps[-3:]}"

    with cluster.Run(SMALL, "--num_ps_tasks=2", "--num_replicas=2", *flags) as run:
        run.finish()
        check(run)
        whole = run.digest()
        assert run.largest_slice() > 8192, run.largest_slice()
    first = ("--num_epochs=30", "--replicas_to_aggregate=0", "--slice_bytes=8192")
    with cluster.Run(SMALL, "--num_ps_tasks=2", "--num_replicas=2", *first) as run:
        run.start()
        run.wait_for_step(50)
        run.process.send_signal(signal.SIGINT)
        assert run.wait() == 130, f"{run.output}\n{run.logs()}"
        stopped_at = run.step()
        assert stopped_at < 30 * steps_per_epoch, stopped_at
        with cluster.Run(SMALL, "--num_ps_tasks=1", "--num_replicas=3", *flags, out=run.out) as again:
            again.finish()
            check(again)
            assert again.digest() == whole, "other bytes after a resume"
            assert again.largest_slice() == 8192, again.largest_slice()


def killed_launcher_leaves_nothing():
    with cluster.Run(SMALL, "--num_ps_tasks=2", "--num_replicas=2", *LONG) as run:
        run.start()
        run.wait_for_step(10)
        run.process.send_signal(signal.SIGKILL)
        run.assert_nothing_left()


if __name__ == "__main__":
    cluster.main([any_number_of_ps_and_workers, local_is_the_same, tasks_of_one_host_share_memory, default_slices,
                  adam_and_global_norm, groups_of_the_optimizer, killed_worker, killed_ps, resume_is_uninterrupted,
                  resume_keeps_what_the_first_start_decided, killed_launcher_leaves_nothing])
