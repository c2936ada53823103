#!/usr/bin/python3
"""deploy/kubernetes/render runs without `shoal`, so it repeats defaults, limits and times of the C++ sources. They are the same.

usage: repeated_numbers_test.py deploy/kubernetes/render runtime/config/defaults.h
"""
import pathlib
import re
import subprocess
import sys
import time

import yaml

RENDER = pathlib.Path(sys.argv[1]).absolute()
CONFIG = pathlib.Path(sys.argv[2]).absolute().parent
RUN = RENDER.parent.parent / "runs" / "fashion_mlp.textproto"


def call(*flags):
    command = [str(RENDER), f"--run={RUN}", "--image=registry.example:5000/team/shoal:1.0", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def render(*flags):
    done = call(*flags)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def numbers_in(file, pattern):
    """Returns the numbers that the pattern finds in a source of runtime/config."""
    found = re.search(pattern, (CONFIG / file).read_text())
    assert found, f"runtime/config/{file} has nothing like {pattern}"
    return [int(number) for number in found.groups()]


def without_flags_there_are_as_many_tasks_as_shoal_train_starts():
    assert re.search(r"num_replicas = \d+;\s+uint32_t num_ps_tasks", (CONFIG / "defaults.h").read_text()), "another order"
    replicas, ps = numbers_in("defaults.h", r"kTrainTaskCounts\{(\d+), (\d+)\};")
    maps = [d for d in render() if d["kind"] == "ConfigMap" and d["metadata"]["name"].startswith("shoal-cluster-")]
    assert [m["data"] for m in maps] == [{"NUM_PS_TASKS": str(ps), "NUM_REPLICAS": str(replicas)}], maps
    text = call("--help").stdout
    assert f"parameter servers; default {ps}\n" in text and f" workers; default {replicas}\n" in text, text


def what_a_task_would_refuse_is_refused():
    for flag, file, pattern, others in (
            ("num_ps_tasks", "validate.h", r"kMaxPsTasks = (\d+);", []),
            ("num_replicas", "validate.h", r"kMaxReplicas = (\d+);", []),
            ("gpus", "validate.h", r"kMaxClones = (\d+);", ["--overlay=gpu"]),
            ("grace_seconds", "validate.cc", r"cluster\.grace_seconds\(\), 1, (\d+)\)", [])):
        [most] = numbers_in(file, pattern)
        done = call(*others, f"--{flag}={most + 1}")
        expected = f"--{flag}: is {most + 1}; at most {most}"
        assert done.returncode == 64 and expected in done.stderr, f"{expected}: {done}"


def pods_are_not_killed_before_their_tasks_give_up():
    [default] = numbers_in("defaults.cc", r'"cluster\.grace_seconds", "(\d+)"')
    [task_exit] = numbers_in("stop_times.cc", r"times\.task_exit = grace \+ absl::Seconds\((\d+)\);")
    [chief_exit] = numbers_in("stop_times.cc", r"times\.chief_exit = grace \+ absl::Seconds\((\d+)\);")
    for flags, grace in (([], default), (["--grace_seconds=300"], 300)):
        seen = []
        for document in render(*flags):
            job = document["metadata"].get("labels", {}).get("app.kubernetes.io/component")
            if document["kind"] not in ("StatefulSet", "Job") or job == "evaluator":
                continue
            seen.append(job)
            pod = document["spec"]["template"]["spec"]
            before = pod["containers"][0].get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
            end = before + grace + (chief_exit if job == "chief" else task_exit)
            period = pod["terminationGracePeriodSeconds"]
            assert period > end, f"{job}: is killed after {period} s, and may take {end} s"
        assert sorted(seen) == ["chief", "ps", "worker"], seen


def main():
    failed = 0
    for test in (without_flags_there_are_as_many_tasks_as_shoal_train_starts, what_a_task_would_refuse_is_refused,
                 pods_are_not_killed_before_their_tasks_give_up):
        start = time.monotonic()
        try:
            test()
            print(f"[ OK     ] {test.__name__} ({time.monotonic() - start:.1f} s)")
        except AssertionError as error:
            failed += 1
            print(f"[ FAILED ] {test.__name__}: {error}")
    sys.exit(1 if failed else 0)


main()
