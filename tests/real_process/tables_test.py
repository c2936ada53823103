#!/usr/bin/env python3
"""Models with tables: the same rows for any number of ps and workers, killed or not, and after a resume."""
import hashlib
import json
import pathlib
import re
import subprocess
import time

import cluster

GROWING = str(pathlib.Path(__file__).resolve().parent / "growing.textproto")
CLICKS = str(pathlib.Path(__file__).resolve().parent / "clicks.textproto")
STEPS = 200
reference = []


def rows_of(run):
    """Exports the tables of the newest checkpoint; a digest of the keys and rows of each."""
    tables = run.out / "tables"
    done = subprocess.run([cluster.shoal_binary(), "export", str(run.out), f"--tables={tables}"], capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    files = sorted(tables.glob("*.npy"))
    assert len(files) == 2 * 52, f"{len(files)} files of 52 tables"
    export = json.loads((tables / "export.json").read_text())
    sizes = {file["name"]: file["bytes"] for table in export["tables"] for file in table["files"]}
    assert sizes == {file.name: file.stat().st_size for file in files}, export
    step = json.loads((run.out / "summary.json").read_text())["steps"]
    assert export["step"] == step and export["since"] is None, export
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def check_figures(run):
    """The summary has the figures of every exported table, and some line of metrics.jsonl has them."""
    summary = json.loads((run.out / "summary.json").read_text())
    suffix = ".keys.npy"
    names = [file.name[:-len(suffix)] for file in (run.out / "tables").glob("*" + suffix)]
    missing = sorted(name for name in names if not summary.get(f"table:{name}:rows"))
    assert not missing, f"no rows in summary.json of {', '.join(missing)}"
    assert all(summary[f"table:{name}:rows_found"] <= summary[f"table:{name}:keys_read"] for name in names), summary
    figure = f"table:{names[0]}:rows_per_second"
    assert any(figure in line for line in run.metrics()), f"metrics.jsonl has no {figure}"


def check(run, expected=None):
    lines = [line["step"] for line in run.metrics()]
    assert lines == list(range(1, STEPS + 1)), f"steps {lines[:3]}..{lines[-3:]}"
    rows, digest = rows_of(run), run.digest()
    check_figures(run)
    if expected is not None:
        other = sorted(name for name in rows if rows[name] != expected[0][name])
        assert not other, f"other rows: {', '.join(other)}"
        assert digest == expected[1], "other dense variables"
    return rows, digest


def expected():
    if not reference:
        with cluster.Run(CLICKS, "--num_ps_tasks=1", "--num_replicas=1") as run:
            run.finish()
            reference.append(check(run))
    return reference[0]


def any_number_of_ps_and_workers():
    expected()  # one ps and one worker
    for ps, workers in ((0, 1), (1, 3), (2, 2), (5, 1), (5, 3)):
        with cluster.Run(CLICKS, f"--num_ps_tasks={ps}", f"--num_replicas={workers}") as run:
            run.finish()
            check(run, expected())


def killed_worker_and_ps():
    with cluster.Run(CLICKS, "--num_ps_tasks=2", "--num_replicas=2") as run:
        run.start()
        run.wait_for_step(30)
        run.kill("worker", 1)
        run.wait_for_step(70)
        run.kill("ps", 0)
        run.wait_for_step(120)
        run.kill("ps", 1)
        assert run.wait() == 0, run.logs()
        run.assert_nothing_left()
        check(run, expected())


def resume_on_other_tasks():
    with cluster.Run(CLICKS, "--num_ps_tasks=3", "--num_replicas=2", "--num_epochs=1") as run:
        run.finish()
        with cluster.Run(CLICKS, "--num_ps_tasks=5", "--num_replicas=1", "--max_steps=150", out=run.out) as more:
            more.finish()
        with cluster.Run(CLICKS, "--num_ps_tasks=1", "--num_replicas=2", out=run.out) as resumed:
            resumed.finish()
            check(resumed, expected())


def a_run_that_continues_another_with_its_state():
    """The same bytes on any tasks, also after a resume; a row that it has not trained knows when that was."""
    with cluster.Run(CLICKS, "--num_ps_tasks=2", "--num_replicas=1", "--num_epochs=1") as first:
        first.finish()
        more = (f"--init_from={first.out}", "--init_state")
        results = []
        for tasks in (("--num_ps_tasks=1", "--num_replicas=1"), ("--num_ps_tasks=3", "--num_replicas=2")):
            with cluster.Run(CLICKS, *more, *tasks, "--num_epochs=1") as run:
                run.finish()
                assert "start from" in run.output and "with their state" in run.output, run.output
                results.append((rows_of(run), run.digest()))
        with cluster.Run(CLICKS, *more, "--num_ps_tasks=2", "--num_replicas=1", "--max_steps=60") as run:
            run.finish()
            with cluster.Run(CLICKS, "--num_ps_tasks=3", "--num_replicas=1", "--num_epochs=1", out=run.out) as resumed:
                resumed.finish()
                results.append((rows_of(resumed), resumed.digest()))
        with cluster.Run(CLICKS, more[0], "--num_ps_tasks=1", "--num_replicas=1", "--num_epochs=1") as run:
            run.finish()
            values_alone = rows_of(run), run.digest()
    assert results[0] == results[1] == results[2], "other bytes on other tasks"
    assert results[0][0] != values_alone[0] and results[0][1] != values_alone[1], "the state has no effect"


def an_export_of_rows_and_variables_starts_a_run_as_the_run_itself_does():
    with cluster.Run(CLICKS, "--num_ps_tasks=1", "--num_replicas=1", "--max_steps=20") as first:
        first.finish()
        both = first.out / "both"
        subprocess.run([cluster.shoal_binary(), "export", str(first.out), f"--tables={both}",
                        f"--model_file={both}/model.safetensors"], timeout=120, check=True, capture_output=True)
        results = []
        for given, tasks in ((first.out, 1), (both, 3)):
            with cluster.Run(CLICKS, f"--init_from={given}", f"--num_ps_tasks={tasks}", "--num_replicas=1",
                             "--max_steps=20") as run:
                run.finish()
                assert (found := re.search(r"(\d+) of (\d+) variables start from", run.output)), run.output
                assert found.group(1) == found.group(2), found.group(0)
                results.append((rows_of(run), run.digest()))
    assert results[0] == results[1], "other bytes from the exported files"


def peak_of_the_worker(run):
    """Trains to the end; the most resident memory that the worker had, in MiB."""
    run.start()
    peak = 0
    while run.process.poll() is None:
        for pid in run.pids("worker", 0):
            try:
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            found = re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE)
            peak = max(peak, int(found.group(1)) / 1024 if found else 0)
        time.sleep(0.02)
    run.finish()
    assert peak > 0, "the worker was never seen"
    return peak


def the_memory_of_a_worker_does_not_grow_with_the_tables():
    peaks, rows = [], []
    for scale in (0.0002, 0.02):
        with cluster.Run(GROWING, "--num_ps_tasks=1", "--num_replicas=1", "--max_steps=100",
                         f"--set=data.clicks.scale={scale}") as run:
            peaks.append(peak_of_the_worker(run))
            rows.append(sum(value for name, value in run.summary().items() if re.fullmatch("table:.*:rows", name)))
    assert rows[1] > 5 * rows[0], f"rows of the tables: {rows}"
    assert peaks[1] < peaks[0] + 16, f"the worker's peak is {peaks} MiB with {rows} rows"


def asynchronous_batches_count_once():
    with cluster.Run(CLICKS, "--num_ps_tasks=2", "--num_replicas=2", "--nosync_replicas") as run:
        run.start()
        run.wait_for_step(100)
        run.kill("worker", 0)
        run.wait_for_step(300)
        run.kill("ps", 1)
        assert run.wait() == 0, run.logs()
        run.assert_nothing_left()
        examples = sum(line["examples"] for line in run.metrics())
        assert examples == 2 * 40000, f"{examples} examples counted, not {2 * 40000}"
        rows_of(run)


if __name__ == "__main__":
    cluster.main([
        any_number_of_ps_and_workers,
        killed_worker_and_ps,
        resume_on_other_tasks,
        a_run_that_continues_another_with_its_state,
        an_export_of_rows_and_variables_starts_a_run_as_the_run_itself_does,
        the_memory_of_a_worker_does_not_grow_with_the_tables,
        asynchronous_batches_count_once,
    ])
