#!/usr/bin/python3
"""Tests what the rendered manifests make of exit codes, by workloads.py.

usage: workloads_test.py deploy/kubernetes/render"""
import pathlib
import subprocess
import sys
import time

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from workloads import COMPLETE, workloads_of  # noqa: E402

RENDER = pathlib.Path(sys.argv[1]).absolute()
RUN = RENDER.parent.parent / "runs" / "fashion_mlp.textproto"


class Run:
    """The workloads of a rendered run, by their task's job."""

    def __init__(self, wanted, change=lambda documents: None):
        command = [RENDER, f"--run={RUN}", "--image=registry.example/shoal:1", f"--format={wanted}", "--num_replicas=3"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        documents = list(yaml.safe_load_all(text))
        change(documents)
        groups, workloads = workloads_of(documents)
        self.group = groups[0] if groups else None
        jobs = ("chief", "ps", "worker", "evaluator")
        self.of = {next(job for job in jobs if job in w.name.split("-")): w for w in workloads}

    def end(self, job, index, code):
        return self.of[job].ended(index, code)

    def over(self):
        """The jobs whose pods are deleted."""
        return {job for job, workload in self.of.items() if workload.is_over()}


def group_of(documents, kind):
    return next(d for d in documents if d["kind"] == kind)["spec"]


def a_refused_worker_is_given_up_alone():
    run = Run("kubernetes")
    assert not run.end("worker", 1, 78) and run.over() == set()
    assert run.end("worker", 0, 138), "the others are started again"
    assert not run.end("worker", 0, 0) and not run.end("worker", 2, 0)
    assert run.of["worker"].outcome == "FailedIndexes" and not run.end("chief", 0, 0)
    assert run.of["chief"].outcome == COMPLETE and "chief" not in run.over()


def a_rule_that_fails_the_job_takes_the_other_workers_along():
    """A refused worker did this when 78 failed the Job."""
    def fail_job(documents):
        job = next(d for d in documents if d["metadata"]["name"] == "shoal-worker")
        job["spec"]["podFailurePolicy"]["rules"] = [
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2, 64, 65, 78]}}]
    run = Run("kubernetes", fail_job)
    assert not run.end("worker", 1, 78) and run.over() == {"worker"}
    # Codes that no worker can do better about still do so.
    run = Run("kubernetes")
    assert not run.end("worker", 1, 64) and run.over() == {"worker"}


def a_refused_worker_of_a_jobset_neither_fails_nor_restarts_it():
    run = Run("jobset")
    for _ in range(500):
        assert run.end("worker", 1, 78)
    assert not run.end("worker", 0, 0) and not run.end("worker", 2, 0)
    assert run.group.outcome is None and run.group.restarts == 0 and run.over() == set()
    assert not run.end("chief", 0, 0)
    assert run.group.outcome == COMPLETE and run.over() == {"chief", "ps", "worker"}


def an_index_given_up_in_a_jobset_would_start_it_again():
    """No index is given up in a JobSet: with FailIndex the Job of the workers fails just before the chief is done."""
    def fail_index(documents):
        job = next(j for j in group_of(documents, "JobSet")["replicatedJobs"] if j["name"] == "worker")
        job["template"]["spec"]["podFailurePolicy"]["rules"].append(
            {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [78]}})
    run = Run("jobset", fail_index)
    run.end("worker", 1, 78)
    run.end("worker", 0, 0)
    run.end("worker", 2, 0)
    assert run.group.restarts == 1


def workers_outlast_the_ends_of_their_chief():
    for wanted in ("kubernetes", "jobset"):
        run = Run(wanted)
        for _ in range(50):  # as often as the chief may
            assert run.end("chief", 0, 138)
            assert all(run.end("worker", index, 138) for index in range(3))
            assert all(run.end("ps", index, 138) for index in range(2))
        assert not run.end("chief", 0, 138) and run.of["chief"].outcome == "BackoffLimitExceeded"
    # And do not try for ever where nobody ends them.
    run, tries = Run("kubernetes"), 1
    while run.end("worker", 0, 138):
        tries += 1
    assert 50 < tries <= 200, tries


def the_evaluator_neither_fails_a_run_nor_ends_with_it():
    for wanted in ("kubernetes", "jobset", "tfjob"):
        run = Run(wanted)
        assert not run.end("evaluator", 0, 65), "trying again is of no use"
        assert run.over() == {"evaluator"}, f"{wanted}: {run.over()}"
        run = Run(wanted)
        run.end("chief", 0, 0)
        assert "evaluator" not in run.over() and run.of["evaluator"].outcome is None, wanted
        run.end("evaluator", 0, 0)
        assert run.of["evaluator"].outcome == COMPLETE, wanted


def an_evaluator_inside_would_fail_a_run_and_end_with_it():
    """The form in which render once placed the evaluator."""
    def into_jobset(documents):
        job = next(d for d in documents if d["metadata"]["name"] == "shoal-evaluator")
        documents.remove(job)
        group_of(documents, "JobSet")["replicatedJobs"].append(
            {"name": "evaluator", "replicas": 1, "template": {"spec": job["spec"]}})

    def into_tfjob(documents):
        job = next(d for d in documents if d["metadata"]["name"] == "shoal-evaluator")
        documents.remove(job)
        job["spec"]["template"]["spec"]["containers"][0]["name"] = "tensorflow"
        group_of(documents, "TFJob")["tfReplicaSpecs"]["Evaluator"] = {
            "replicas": 1, "restartPolicy": "ExitCode", "template": job["spec"]["template"]}

    for wanted, change in (("jobset", into_jobset), ("tfjob", into_tfjob)):
        run = Run(wanted, change)
        run.end("evaluator", 0, 65)
        assert "chief" in run.over(), wanted
        run = Run(wanted, change)
        run.end("chief", 0, 0)
        assert "evaluator" in run.over(), wanted


def the_chiefs_end_is_the_end_of_a_group():
    for wanted in ("jobset", "tfjob"):
        run = Run(wanted)
        run.end("chief", 0, 0)
        assert run.group.outcome == COMPLETE and run.over() == {"chief", "ps", "worker"}, wanted
        run = Run(wanted)
        assert not run.end("chief", 0, 64)
        assert run.group.outcome != COMPLETE and run.over() == {"chief", "ps", "worker"}, wanted


def a_tfjob_fails_with_any_permanent_exit_code():
    run = Run("tfjob")
    assert run.end("worker", 1, 138) and run.end("ps", 0, 137) and run.group.outcome is None
    assert not run.end("worker", 1, 1) and run.over() == {"chief", "ps", "worker"}


def a_jobset_starts_again_three_times():
    run = Run("jobset")
    for restart in (1, 2, 3):
        run.group.judge(failed(run.of["chief"]))
        assert run.group.restarts == restart and run.group.outcome is None
    run.group.judge(failed(run.of["chief"]))
    assert run.group.outcome == "chief: BackoffLimitExceeded", run.group.outcome


def failed(workload):
    workload.outcome = "BackoffLimitExceeded"
    return workload


def main():
    tests = [a_refused_worker_is_given_up_alone, a_rule_that_fails_the_job_takes_the_other_workers_along,
             a_refused_worker_of_a_jobset_neither_fails_nor_restarts_it,
             an_index_given_up_in_a_jobset_would_start_it_again, workers_outlast_the_ends_of_their_chief,
             the_evaluator_neither_fails_a_run_nor_ends_with_it, an_evaluator_inside_would_fail_a_run_and_end_with_it,
             the_chiefs_end_is_the_end_of_a_group, a_tfjob_fails_with_any_permanent_exit_code,
             a_jobset_starts_again_three_times]
    failures = 0
    for test in tests:
        start = time.monotonic()
        try:
            test()
            print(f"[ OK     ] {test.__name__} ({time.monotonic() - start:.1f} s)")
        except AssertionError as error:
            failures += 1
            print(f"[ FAILED ] {test.__name__}: line {error.__traceback__.tb_next.tb_lineno}: {error}")
    sys.exit(1 if failures else 0)


main()
