#!/usr/bin/env python3
"""A run whose tables outgrow a ps: it ends after a checkpoint, says what to do, and continues with more ps."""
import hashlib
import json
import pathlib
import re
import subprocess
import time

import cluster
import monitoring_test

GROWING = str(pathlib.Path(__file__).resolve().parent / "growing.textproto")
STEPS = 400
MEMORY = "--ps_memory=100663296"  # 96 MiB: one ps needs 120 MiB at the end of the run, each of three needs 65 MiB.


def rows_of(run):
    """Exports the tables of the newest checkpoint; a digest of each file."""
    tables = run.out / "tables"
    done = subprocess.run([cluster.shoal_binary(), "export", str(run.out), f"--tables={tables}"], capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(tables.glob("*.npy"))}


def check_steps(run):
    lines = [line["step"] for line in run.metrics()]
    assert lines == list(range(1, STEPS + 1)), f"steps {lines[:3]}..{lines[-3:]}"


def status(run):
    asked = subprocess.run([cluster.shoal_binary(), "status", str(run.out), "--json"], capture_output=True, text=True,
                           timeout=90, check=False)
    assert asked.returncode == 0, asked.stdout + asked.stderr
    return json.loads(asked.stdout)


def full_ps_ends_the_run_which_continues_with_more():
    with cluster.Run(GROWING, "--num_ps_tasks=2", "--num_replicas=2",
                     "--metrics_address=127.0.0.1:0") as unbounded:
        unbounded.start()
        unbounded.wait_for_step(20)
        tables = {}
        deadline = time.monotonic() + 180
        while sum(table["rows"] for table in tables.values()) <= 1000:  # A ps reports rows every second.
            assert time.monotonic() < deadline, tables
            tables = {table["table"]: table for table in status(unbounded)["tables"]}
        assert len(tables) == 52, sorted(tables)
        assert all(0 <= t["rows_found"] <= t["keys_read"] for t in tables.values()), tables
        page = monitoring_test.get(monitoring_test.targets(unbounded)["ps-0"], "/metrics")[1]
        assert set(monitoring_test.OF_TABLES) <= monitoring_test.families(page).keys(), page
        assert unbounded.wait() == 0, unbounded.logs()
        assert "warning: ps/" not in unbounded.output, unbounded.output
        check_steps(unbounded)
        expected = rows_of(unbounded), unbounded.digest()
    with cluster.Run(GROWING, "--num_ps_tasks=1", "--num_replicas=2", MEMORY) as run:
        run.finish(code=78)
        end = re.search(r"ps/0 is full, with (\d+) MiB of the 96 MiB that cluster\.ps_memory allows.*", run.output)
        assert end, run.output
        for words in ("use more ps (--num_ps_tasks), raise --ps_memory", "The last checkpoint is that of step"):
            assert words in end.group(0), end.group(0)
        run.assert_nothing_left()
        last = run.step()
        assert 0 < last < STEPS, last
        with cluster.Run(GROWING, "--num_ps_tasks=3", "--num_replicas=1", MEMORY, out=run.out) as continued:
            continued.finish()
            check_steps(continued)
            rows, digest = rows_of(continued), continued.digest()
            other = sorted(name for name in rows if rows[name] != expected[0][name])
            assert not other, f"other rows: {', '.join(other)}"
            assert digest == expected[1], "other dense variables"


if __name__ == "__main__":
    cluster.main([full_ps_ends_the_run_which_continues_with_more])
