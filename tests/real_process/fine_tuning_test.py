#!/usr/bin/env python3
"""Runs that start from another run's variables, with a new head, and train the head alone."""
import contextlib
import pathlib
import shutil
import signal
import subprocess

import cluster

HERE = pathlib.Path(__file__).resolve().parent
SMALL = str(HERE / "small.textproto")
TUNED = str(HERE / "fine_tuned.textproto")
ONE = ("--num_ps_tasks=1", "--num_replicas=1")
FEW = ("--num_ps_tasks=3", "--num_replicas=2")
FROZEN = ("dense1/weights", "dense1/biases")
HEAD = ("head/weights", "head/biases")


def shoal(*arguments, code=0):
    done = subprocess.run([cluster.shoal_binary(), *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, f"{done.returncode}, not {code}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@contextlib.contextmanager
def trained_model():
    """A finished run of the small network, whose first layer the others take over."""
    with cluster.Run(SMALL, *ONE, "--num_epochs=1") as run:
        run.finish()
        yield run


def tune(source, *tasks, epochs=20, out=None):
    return cluster.Run(TUNED, f"--init_from={source}", f"--num_epochs={epochs}", *tasks, out=out)


def check_tuned(run, base):
    """The frozen layer has the bytes of the base; the head has been trained."""
    tensors, given = run.tensors(), base.tensors()
    assert set(tensors) == {*FROZEN, *HEAD}, sorted(tensors)
    for name in FROZEN:
        assert tensors[name] == given[name], f"{name} is frozen, but its bytes changed"
    for name in HEAD:
        assert any(tensors[name]), f"{name} is all zeros"
    losses = [line["loss"] for line in run.metrics()]
    assert losses[-1] < losses[0] / 2, f"loss {losses[0]} to {losses[-1]}"


def a_run_and_its_export_give_the_same_run_on_any_tasks():
    with trained_model() as base:
        file = base.out / "model.safetensors"
        shoal("export", f"--out={base.out}", f"--model_file={file}")
        digests = {}
        for source in (base.out, file):
            for tasks in (ONE, FEW):
                with tune(source, *tasks) as run:
                    run.finish()
                    assert f"2 of 4 variables start from {source}" in run.output, run.output
                    check_tuned(run, base)
                    digests[source.name, tasks] = run.digest()
        assert len(set(digests.values())) == 1, digests


def a_killed_run_resumes_from_its_own_checkpoint():
    with trained_model() as base:
        moved = pathlib.Path(base.directory.name) / "moved"
        with tune(base.out, *FEW, epochs=1000000) as run:
            run.start()
            run.wait_for_checkpoint()
            run.process.send_signal(signal.SIGKILL)
            run.process.communicate()
            run.assert_nothing_left()
            epochs = run.step() // 27 + 20
            # The run that it started from is no longer needed.
            shutil.move(base.out, moved)
            with tune(base.out, *FEW, epochs=epochs, out=run.out) as again:
                again.finish()
                assert "resumes from step" in again.output, again.output
                shutil.move(moved, base.out)
                check_tuned(again, base)
                with tune(base.out, *ONE, epochs=epochs) as whole:
                    whole.finish()
                    assert again.digest() == whole.digest(), "other bytes after a resume"


def a_killed_ps_loads_frozen_variables_again():
    with trained_model() as base:
        with tune(base.out, *FEW, epochs=60) as whole:
            whole.finish()
            expected = whole.digest()
        with tune(base.out, *FEW, epochs=60) as run:
            run.start()
            run.wait_for_step(20)
            run.kill("ps", 1)
            run.finish()
            check_tuned(run, base)
            assert run.digest() == expected, "other bytes after a ps was killed"


def what_does_not_fit_is_named():
    with trained_model() as base:
        flags = [f"--run={TUNED}", f"--out={base.out}_other", "--num_ps_tasks=0"]
        said = shoal("train", *flags, f"--init_from={base.out}", "--init_map=", code=64)
        assert "--init_map: is empty" in said, said
        said = shoal("train", *flags, f"--init_from={base.out}", "--init_map=dense1/(.*)=dense2/\\1,head/.*=", code=78)
        assert "variable dense1/weights is [784,64]; map it to another" in said, said
        said = shoal("train", *flags, f"--init_from={base.out}", "--trainable=nothing", code=64)
        assert 'trainable: "nothing" matches the whole name of none' in said, said
        said = shoal("train", *flags, f"--init_from={base.out}_none", code=78)
        assert "init_from: there is no" in said, said


if __name__ == "__main__":
    cluster.main([a_run_and_its_export_give_the_same_run_on_any_tasks, a_killed_run_resumes_from_its_own_checkpoint,
                  a_killed_ps_loads_frozen_variables_again, what_does_not_fit_is_named])
