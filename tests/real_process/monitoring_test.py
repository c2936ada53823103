#!/usr/bin/env python3
"""Tests what tasks show of themselves over HTTP, read from real runs."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

import cluster

HERE = pathlib.Path(__file__).resolve().parent
SMALL = str(HERE / "small.textproto")
TWO = ("--num_ps_tasks=2", "--num_replicas=2", "--metrics_address=127.0.0.1:0")
LONG = "--num_epochs=2000"
TASKS = ["chief-0", "ps-0", "ps-1", "worker-0", "worker-1"]


def get(address, path):
    """The code and the body of a page."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def targets(run):
    """Task name -> address, from the files that Prometheus finds tasks by."""
    found = {}
    for path in (run.out / "monitoring").glob("*.json"):
        (group,) = json.loads(path.read_text())
        (found[path.stem],) = group["targets"]
        assert "labels" not in group, f"samples have their own: {group}"
    return found


def families(page):
    """Name -> type of all metrics of a page."""
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))


def value(page, sample):
    """The number of a sample that is written with these labels."""
    found = re.search(rf"^{re.escape(sample)} (\S+)$", page, re.MULTILINE)
    assert found, f"no {sample} in:\n{page}"
    return float(found.group(1))


def samples(page):
    """Name and labels of each sample of a page."""
    found = []
    for line in page.splitlines():
        if line and not line.startswith("#"):
            name, labels = re.match(r"([\w:]+)(?:\{(.*)\})? \S+$", line).groups()
            found.append((name, dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""))))
    return found


def check_labels(page, run="small"):
    """Every sample says of what it is; a page has one run, and no sample twice."""
    seen = set()
    for name, labels in samples(page):
        assert labels.get("run") == run and labels.get("role") and labels.get("task", "").isdigit(), (name, labels)
        key = (name, *sorted(labels.items()))
        assert key not in seen, f"twice: {key}"
        seen.add(key)
    assert seen, page


def check_lint(page):
    if shutil.which("promtool") is None:
        return
    lint = subprocess.run(["promtool", "check", "metrics"], input=page, text=True, capture_output=True, check=False)
    assert lint.returncode == 0 and not lint.stderr, lint.stderr


def wait_until(what, check, timeout=120):
    deadline = time.monotonic() + timeout
    while not check():
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
        time.sleep(0.05)


def every_task_has_its_pages():
    with cluster.Run(SMALL, *TWO, LONG) as run:
        run.start()
        run.wait_for_step(60)
        wait_until("every task has a target", lambda: sorted(targets(run)) == TASKS)
        where = targets(run)
        for address in where.values():
            wait_until("all tasks are ready", lambda at=address: get(at, "/readyz")[0] == 200)
        for task, address in where.items():
            role, index = task.split("-")
            step = f'shoal_global_step{{run="small",role="{role}",task="{index}"}}'
            wait_until(f"{task} has had a step", lambda at=address, of=step: value(get(at, "/metrics")[1], of) > 0)
        seen = set()
        for task, address in where.items():
            assert get(address, "/healthz") == (200, "ok\n"), task
            assert get(address, "/readyz") == (200, "ready\n"), task
            assert get(address, "/nothing")[0] == 404, task
            role, index = task.split("-")
            code, page = get(address, "/metrics")
            assert code == 200, task
            check_lint(page)
            kinds = families(page)
            seen |= kinds.keys()
            for name, kind in kinds.items():
                assert (kind == "counter") == name.endswith("_total"), f"{name} is a {kind}"
            check_labels(page)
            labels = f'run="small",role="{role}",task="{index}"'
            assert value(page, f"process_resident_memory_bytes{{{labels}}}") > 1e6
            code, text = get(address, "/statusz?format=json")
            status = json.loads(text)
            assert status["task"] == f"{role}/{index}" and status["roles"][0]["ready"] == 1, text
            assert status["run_directory"] == str(run.out), text
        page = get(where["chief-0"], "/metrics")[1]
        assert value(page, 'shoal_worker_up{run="small",role="chief",task="0",worker="1"}') == 1
        before = value(page, 'shoal_steps_total{run="small",role="chief",task="0"}')
        run.wait_for_step(run.step() + 20)
        assert value(get(where["chief-0"], "/metrics")[1], 'shoal_steps_total{run="small",role="chief",task="0"}') > before
        assert "last checkpoint" in get(where["chief-0"], "/statusz")[1]
        run.process.send_signal(2)
        assert run.wait() == 130, run.output
        assert not targets(run), "a target of a task that has ended"
        assert_documented(seen)


# Only runs with tables have these; full_ps_test looks at them.
OF_TABLES = ("shoal_table_bytes", "shoal_table_keys_read_total", "shoal_table_rows",
             "shoal_ps_memory_limit_bytes", "shoal_ps_memory_used_bytes")


def assert_documented(seen, not_here=("shoal_push_staleness_steps", "shoal_evaluations_total", "shoal_evaluation_step",
                                      "shoal_evaluation_duration_seconds", "shoal_metric", "shoal_evaluation_metric",
                                      *OF_TABLES)):
    """docs/observability.md has a table of all metrics, and no others."""
    text = (HERE.parent.parent / "docs" / "observability.md").read_text()
    documented = set(re.findall(r"^\| `((?:shoal|process)_\w+)`", text, re.MULTILINE))
    assert documented - set(not_here) == seen, sorted(documented.symmetric_difference(seen))


def one_process_shows_all_its_roles():
    with cluster.Run(SMALL, "--num_ps_tasks=0", "--metrics_address=localhost:0", "--nosync_replicas", LONG) as run:
        run.start()
        run.wait_for_step(20)
        where = targets(run)
        assert list(where) == ["chief-0"], where
        wait_until("all roles are ready", lambda: get(where["chief-0"], "/readyz")[0] == 200)
        page = get(where["chief-0"], "/metrics")[1]
        check_lint(page)
        check_labels(page)
        assert families(page)["shoal_push_staleness_steps"] == "histogram", page
        for role in ("chief", "ps", "worker"):
            assert value(page, f'shoal_ready{{run="small",role="{role}",task="0"}}') == 1
        run.process.send_signal(2)
        assert run.wait() == 130, run.output


def a_chief_without_workers_lives_but_is_not_ready():
    with cluster.Run(SMALL, *TWO, LONG, "--set", "cluster.max_worker_restarts=0") as run:
        run.start()
        run.wait_for_step(20)
        chief = targets(run)["chief-0"]
        wait_until("all are there", lambda: get(chief, "/readyz")[0] == 200)
        run.kill("worker", 1)
        wait_until("readyz says who is missing", lambda: get(chief, "/readyz") == (
            503, "chief/0: trains without worker/1\n"))
        assert get(chief, "/healthz")[0] == 200
        page = get(chief, "/metrics")[1]
        assert value(page, 'shoal_worker_up{run="small",role="chief",task="0",worker="1"}') == 0
        assert value(page, 'shoal_worker_lost{run="small",role="chief",task="0",worker="1"}') == 1
        assert value(page, 'shoal_worker_lost{run="small",role="chief",task="0",worker="0"}') == 0
        assert value(page, 'shoal_ps_lost{run="small",role="chief",task="0",ps="0"}') == 0


def a_worker_that_is_asked_to_leave_is_not_lost():
    with cluster.Run(SMALL, *TWO, LONG, "--set", "cluster.max_worker_restarts=0") as run:
        run.start()
        run.wait_for_step(20)
        chief = targets(run)["chief-0"]
        wait_until("all are there", lambda: get(chief, "/readyz")[0] == 200)
        run.kill("worker", 1, signal.SIGTERM)
        labels = '{run="small",role="chief",task="0",worker="1"}'
        wait_until("it has left", lambda: value(get(chief, "/metrics")[1], f"shoal_worker_up{labels}") == 0)
        step = run.step()
        run.wait_for_step(step + 20)
        page = get(chief, "/metrics")[1]
        assert value(page, f"shoal_worker_up{labels}") == 0, run.logs()
        assert value(page, f"shoal_worker_lost{labels}") == 0, run.logs()
        assert value(page, 'shoal_training{run="small",role="chief",task="0"}') == 1, run.logs()


def a_ps_that_is_gone_is_lost():
    with cluster.Run(SMALL, *TWO, LONG) as run:
        run.start()
        run.wait_for_step(20)
        chief = targets(run)["chief-0"]
        os.kill(run.pids("ps", 1)[0], signal.SIGSTOP)  # The launcher sees nothing of it.
        labels = '{run="small",role="chief",task="0",ps="1"}'
        wait_until("it is lost", lambda: value(get(chief, "/metrics")[1], f"shoal_ps_lost{labels}") == 1)
        assert value(get(chief, "/metrics")[1], f"shoal_ps_up{labels}") == 0


if __name__ == "__main__":
    cluster.main([every_task_has_its_pages, one_process_shows_all_its_roles,
                  a_chief_without_workers_lives_but_is_not_ready, a_worker_that_is_asked_to_leave_is_not_lost,
                  a_ps_that_is_gone_is_lost])
