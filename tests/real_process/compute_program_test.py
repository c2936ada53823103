"""`shoal train --program`: a compute program (tests/compute_program/toy_program) of each worker, alive and killed."""
import os
import pathlib
import signal
import struct
import subprocess
import tempfile
import time

import cluster

TOY = str(pathlib.Path("tests/compute_program/toy_program").resolve())
COMMON = ["--optimizer=momentum", "--learning_rate=0.01", "--replicas_to_aggregate=2", "--save_every=50"]
LONG = "--num_epochs=100"
reference = {}


class ProgramRun(cluster.Run):
    """A run without a run file."""

    def __init__(self, *flags, mode=None, program=TOY):
        super().__init__("", *COMMON, f"--program={program}", *flags, *(["--", mode] if mode else []))
        self.command.remove("--run=")

    def programs(self):
        """Process -> worker of the programs that live."""
        workers = self.pids("worker")
        return {pid: parent for pid, (parent, _, is_guard) in processes().items() if parent in workers and not is_guard}


def processes():
    """Process -> (parent, process group, whether it is the guard of a program), of all that live."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, parent, group = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:3]
            is_guard = (entry / "cmdline").read_bytes().startswith(b"shoal-guard\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z":
            found[int(entry.name)] = (int(parent), int(group), is_guard)
    return found


def digest_of(*flags):
    with ProgramRun(*flags) as run:
        run.finish()
        run.assert_nothing_left()
        return run.digest()


def expected():
    if "digest" not in reference:
        reference["digest"] = digest_of("--num_ps_tasks=1", "--num_replicas=1", LONG)
    return reference["digest"]


def trains_with_its_own_settings():
    with ProgramRun("--num_ps_tasks=2", "--num_replicas=2") as run:
        run.finish()
        text = (run.out / "run.textproto").read_text()
        assert "num_epochs: 2" in text and "batch_size: 24" in text, text
        summary = run.summary()
        assert summary["status"] == "finished" and summary["steps"] == 10, summary
        tensors = run.tensors()
        assert set(tensors) == {"linear.weight", "linear.bias", "input_mean", "constant"}, tensors.keys()
        assert not list((run.out / "initial").iterdir())  # A checkpoint takes their place.
        assert tensors["constant"] == b"\0\0\x80\x3f\0\0\0\x40", tensors["constant"]
        for command in ("predict", "eval"):
            done = subprocess.run([cluster.shoal_binary(), command, str(run.out)], capture_output=True, text=True,
                                  timeout=60, check=False)
            assert done.returncode == 78 and f'shoal.torch.load("{run.out}", model)' in done.stderr, done.stderr
            assert f"for rows of tables, `shoal export {run.out} --tables=FOLDER` write" in done.stderr, done.stderr


def learns():
    with ProgramRun("--num_ps_tasks=1", "--num_replicas=2", LONG) as run:
        run.finish()
        summary = run.summary()
        assert summary["test_accuracy"] == 1, summary


def any_number_of_tasks_gives_the_same_bytes():
    for tasks in (("--num_ps_tasks=2", "--num_replicas=2"), ("--num_ps_tasks=3", "--num_replicas=3"), ("--num_ps_tasks=0",)):
        assert digest_of(*tasks, LONG) == expected(), tasks


def a_killed_program_changes_nothing():
    with ProgramRun("--num_ps_tasks=2", "--num_replicas=2", LONG, mode="is_slow") as run:
        run.start()
        for step in (40, 200):
            run.wait_for_step(step)
            os.kill(max(run.programs()), signal.SIGKILL)
        run.finish()
        run.assert_nothing_left()
        assert run.digest() == expected()
        assert "killed by SIGKILL" in run.logs(200), run.logs(200)


def a_long_evaluation_that_reports_progress_does_not_count_as_hung():
    with ProgramRun("--num_ps_tasks=1", "--num_replicas=1", "--num_epochs=1", "--set=cluster.stall_seconds=3",
                    mode="evaluates_slowly") as run:
        run.finish()
        assert " hangs" not in run.logs(200) and " died " not in run.output, (run.logs(200), run.output)
        assert "test_loss" in run.summary(), run.summary()


def rows_of(run):
    """The exported table of the newest checkpoint."""
    tables = run.out / "tables"
    subprocess.run([cluster.shoal_binary(), "export", str(run.out), f"--tables={tables}"], capture_output=True, timeout=60,
                   check=True)
    return {file.name: file.read_bytes() for file in tables.glob("*.npy")}


def a_program_with_a_table_has_the_same_rows_with_any_tasks_and_kills():
    results = []
    for tasks, kills in ((("--num_ps_tasks=1", "--num_replicas=1"), ()), (("--num_ps_tasks=0",), ()),
                         (("--num_ps_tasks=2", "--num_replicas=2"), (100, 300))):
        with ProgramRun(*tasks, LONG, mode="tables_slow" if kills else "tables") as run:
            run.start()
            for step in kills:
                run.wait_for_step(step)
                os.kill(max(run.programs()), signal.SIGKILL)
            assert run.wait() == 0, run.logs()
            results.append((run.digest(), rows_of(run)))
            assert set(results[-1][1]) == {"item.keys.npy", "item.values.npy"}, results[-1][1].keys()
            assert results[-1] == results[0], tasks
    assert len(results[0][1]["item.keys.npy"]) == 128 + 7 * 8


def row_values(run):
    """Key -> the bytes of its row."""
    rows = rows_of(run)
    keys = struct.unpack("<7Q", rows["item.keys.npy"][128:])
    values = rows["item.values.npy"][128:]
    return {key: values[8 * i : 8 * i + 8] for i, key in enumerate(keys)}


def a_table_of_a_program_continues_in_other_buckets():
    for mode in ("tables", "tables_only"):
        with ProgramRun("--num_ps_tasks=2", "--num_replicas=2", mode=mode) as first, \
                tempfile.TemporaryDirectory() as directory:
            first.finish()
            expected_rows = row_values(first)
            file = pathlib.Path(directory) / "run.textproto"
            file.write_text("table { name: 'item' dim: 2 buckets: 3 optimizer { sgd { learning_rate: 1e-30 } } }\n")
            # Exported rows have no values for the other variables of a program.
            for source in [first.out] + ([first.out / "tables"] if mode == "tables_only" else []):
                with ProgramRun(f"--run={file}", "--num_ps_tasks=3", "--num_replicas=1", f"--init_from={source}",
                                mode=mode) as second:
                    second.finish()
                    assert row_values(second) == expected_rows, f"{mode} from {source}"


def no_process_of_a_program_outlives_its_worker():
    with ProgramRun("--num_ps_tasks=2", "--num_replicas=2", LONG, mode="forks") as run:
        run.start()
        run.wait_for_step(40)
        program, worker = next(iter(run.programs().items()))
        group = processes()[program][1]
        alive = [pid for pid, (_, of, _) in processes().items() if of == group]
        assert len(alive) == 3, f"the guard, the program and the process that it forked: {alive}"
        os.kill(worker, signal.SIGKILL)
        deadline = time.monotonic() + 180
        while any(pid in processes() for pid in alive):
            assert time.monotonic() < deadline, "a process of the program outlived its worker"
            time.sleep(0.05)
        run.finish()
        assert run.digest() == expected()
        assert not any(of == group for _, of, _ in processes().values())


def a_stop_of_all_processes_makes_a_checkpoint():
    """The signals are those that systemd, Slurm and Kubernetes send."""
    with ProgramRun("--num_ps_tasks=2", "--num_replicas=2", LONG, mode="is_slow") as run:
        run.start()
        run.wait_for_step(40)
        for pid in run.pids() + list(run.programs()):
            os.kill(pid, signal.SIGTERM)
        assert run.wait() == 143, run.output
        summary = run.summary()
        assert summary["status"] == "stopped" and summary["checkpoint"] and summary["steps"] >= 40, summary
        assert " died" not in run.output, run.output
        run.assert_nothing_left()
        run.start()
        run.finish()
        assert run.digest() == expected()


def asynchronous():
    with ProgramRun("--num_ps_tasks=2", "--num_replicas=2", "--num_epochs=50", "--nosync_replicas") as run:
        run.command.remove("--replicas_to_aggregate=2")
        run.finish()
        assert run.summary()["steps"] == 500, run.summary()


def asynchronous_with_kills():
    with ProgramRun("--num_ps_tasks=2", "--num_replicas=2", LONG, "--nosync_replicas", mode="is_slow") as run:
        run.command.remove("--replicas_to_aggregate=2")
        run.start()
        for step, kill in ((60, lambda: run.kill("worker", 1)), (200, lambda: run.kill("ps", 1)),
                           (400, lambda: os.kill(max(run.programs()), signal.SIGKILL)), (500, lambda: run.kill("ps", 0))):
            run.wait_for_step(step)
            kill()
        run.finish()
        run.assert_nothing_left()
        assert run.output.count(" died ") == 4, run.output
        assert run.summary()["steps"] == 1000, run.summary()  # Every batch counts once.


def is_refused_before_anything_starts():
    for mode, why in (("ends_at_once", "ended before it was ready (exit code 3"),
                      ("fails_before_ready", "toy.cc:1: there is no data"),
                      ("unknown_kind", "has kind 9")):
        with ProgramRun("--num_ps_tasks=1", "--num_replicas=1", mode=mode) as run:
            run.finish(code=78)
            assert why in run.output, run.output
            assert not (run.out / "checkpoints").exists()


def ends_with_a_checkpoint_of_its_last_step(*flags, mode, workers, code):
    """Its last worker fails long before a checkpoint is due. Once the program is mended, the run continues there."""
    with ProgramRun("--num_ps_tasks=2", f"--num_replicas={workers}", LONG, *flags, mode=mode) as run:
        run.command[run.command.index("--save_every=50")] = "--save_every=100000"
        if "--nosync_replicas" in flags:
            run.command.remove("--replicas_to_aggregate=2")
        run.finish(code=code)
        summary = run.summary()
        assert summary["status"] == "failed" and summary["steps"] == run.step() >= 1, (summary, run.output)
        assert f"/ckpt-{summary['steps']}-" in summary["checkpoint"], (summary, run.output)
        assert (pathlib.Path(summary["checkpoint"]) / "MANIFEST").is_file(), summary
        assert f"; resume from {summary['checkpoint']}" in run.output, run.output
        run.assert_nothing_left()
        if "--nosync_replicas" not in flags:
            del run.command[run.command.index("--"):]
            run.start()
            run.finish()
            assert run.digest() == expected()
        return run.output + run.logs(200)


def fails_after_the_usual_restarts():
    said = ends_with_a_checkpoint_of_its_last_step(mode="raises", workers=1, code=1)
    assert "division by zero" in said and "line 7" in said, said
    ends_with_a_checkpoint_of_its_last_step("--nosync_replicas", mode="raises", workers=1, code=1)


def ends_with_the_code_of_an_error_that_a_restart_does_not_mend():
    for workers in (1, 2):
        said = ends_with_a_checkpoint_of_its_last_step(mode="fails_for_good", workers=workers, code=78)
        assert "toy.cc:8: the data file is damaged" in said and "restarting it" not in said, said


def a_bug_is_shown_with_its_place_and_ends_the_run_after_one_restart():
    with ProgramRun("--num_ps_tasks=1", "--num_replicas=1", mode="raises_at_once") as run:
        run.finish(code=1)
        log = run.out / "logs/program-0.log"
        assert f"\ntoy.cc:7: division by zero\nworker/0 died of this; restarting it, 1 of 3; log: {log}\n" in run.output, run.output
        assert run.output.count(" died ") == 2, run.output
        assert "shoal train: toy.cc:7: division by zero; the program of every worker fails here" in run.output, run.output


def a_batch_that_crashes_programs_is_skipped():
    for flags in ((), ("--nosync_replicas",)):
        with ProgramRun("--num_ps_tasks=2", "--num_replicas=2", *flags, mode="crashes_on_a_batch") as run:
            if flags:
                run.command.remove("--replicas_to_aggregate=2")
            run.finish()
            summary = run.summary()
            assert summary["status"] == "finished" and summary["skipped_batches"] == 1, (summary, run.output)
            assert "killed by SIGSEGV" in run.output, run.output


def a_python_program_is_started_with_python():
    with tempfile.TemporaryDirectory() as directory:
        program = pathlib.Path(directory) / "train.py"
        program.write_text("import no_such_module\n")
        with ProgramRun("--num_ps_tasks=1", "--num_replicas=1", program=str(program)) as run:
            run.finish(code=78)
            assert "No module named 'no_such_module'" in run.output, run.output
            assert "name an interpreter that has it with --python=PROGRAM" in run.output, run.output
        with ProgramRun("--num_ps_tasks=1", "--num_replicas=1", program=f"{directory}/missing.py") as run:
            run.finish(code=78)
            assert f"program: cannot read {directory}/missing.py: No such file or directory; --program=FILE" in run.output, \
                run.output
        # The example of the documentation.
        page = pathlib.Path("docs/compute_program.md").read_text().split("\n## A small program\n")[1].split("\n## ")[0]
        lines = [line[4:] for line in page.splitlines() if line.startswith("    ") or not line]
        program.write_text("\n".join([*lines, "print('the program ends')"]))
        with ProgramRun("--num_ps_tasks=1", "--num_replicas=2", "--num_epochs=3", program=str(program)) as run:
            run.finish()
            assert set(run.tensors()) == {"w", "b"}, run.tensors().keys()
            assert run.output.count("\nthe program ends\n") == 1, run.output  # Of worker 0.
            assert (run.out / "logs/program-1.out").read_text() == "the program ends\n"


def programs_are_validated_with_the_run():
    for flag, why in (("--model=mlp", "has a model of its own"), ("--data_dir=/tmp", "reads the data itself"),
                      ("--num_clones=2", "chooses its devices"), ("--python=python3", "is not a FILE.py")):
        done = subprocess.run([cluster.shoal_binary(), "train", f"--program={TOY}", "--num_epochs=1", flag],
                              capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 64 and why in done.stderr, done.stderr


if __name__ == "__main__":
    cluster.main([trains_with_its_own_settings, learns, any_number_of_tasks_gives_the_same_bytes,
                  a_killed_program_changes_nothing, a_long_evaluation_that_reports_progress_does_not_count_as_hung,
                  a_program_with_a_table_has_the_same_rows_with_any_tasks_and_kills,
                  a_table_of_a_program_continues_in_other_buckets, no_process_of_a_program_outlives_its_worker,
                  a_stop_of_all_processes_makes_a_checkpoint, asynchronous, asynchronous_with_kills,
                  is_refused_before_anything_starts, fails_after_the_usual_restarts,
                  ends_with_the_code_of_an_error_that_a_restart_does_not_mend,
                  a_bug_is_shown_with_its_place_and_ends_the_run_after_one_restart, a_batch_that_crashes_programs_is_skipped,
                  a_python_program_is_started_with_python, programs_are_validated_with_the_run])
