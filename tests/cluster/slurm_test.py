#!/usr/bin/env python3
"""deploy/slurm/train.sbatch on a real Slurm of three nodes: every shape trains, interrupted runs resume."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import program_on_hosts  # noqa: E402
from network import Network, wait_until  # noqa: E402
from slurm_cluster import SlurmCluster  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy/slurm/train.sbatch"
SHOAL = ROOT / "bazel-bin/deploy/shoal"
RUN_FILE = ROOT / "tests/real_process/small.textproto"


class Job:
    """One sbatch of the script."""

    def __init__(self, slurm, directory, *sbatch, flags=(), run_file=RUN_FILE, **environment):
        self.slurm = slurm
        self.out = directory / "run"
        self.output = directory / "output"
        directory.mkdir(exist_ok=True)
        run = [f"--run={run_file}"] if run_file else []
        self.id = slurm.submit(*sbatch, SCRIPT, *run, f"--out={self.out}", "--insecure", *flags,
                               **{"SHOAL": str(SHOAL), "SBATCH_OUTPUT": str(self.output), **environment})

    def state(self):
        return self.slurm.job(self.id)["JobState"]

    def said(self):
        text = self.output.read_text(errors="replace")[-6000:] if self.output.exists() else "(no output)"
        return f"{self.slurm.job(self.id)}\n{text}"

    def steps(self):
        path = self.out / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line)["step"] for line in lines if line.endswith("}")]

    def step(self):
        return max(self.steps(), default=0)

    def checkpoints(self):
        """The steps of those that are whole."""
        return sorted(int(path.parent.name.split("-")[1]) for path in self.out.glob("checkpoints/ckpt-*/MANIFEST"))

    def processes(self, job_name=""):
        """Returns the processes of its tasks on all hosts: those of `worker` or `ps`, say, where each program
        has its job in the command."""
        found = []
        for host in self.slurm.network.hosts:
            for pid in host.pids():
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                    if f"--out={self.out}" in words and words[0] == str(SHOAL) and job_name in ("", words[1]):
                        found.append(pid)
        return found

    def wait_for_new_steps(self):
        before = self.step()
        self.wait_for(lambda: self.step() > before + 30, "steps")

    def wait_for(self, condition, what, seconds=120):
        try:
            wait_until(condition, seconds, what)
        except AssertionError:
            raise AssertionError(f"not within {seconds} s: {what}\n{self.said()}") from None

    def run_at_once(self):
        """A requeued job would wait two minutes."""
        self.wait_for(lambda: self.state() in ("PENDING", "REQUEUED"), "the job is requeued")
        def again():
            if self.state() in ("RUNNING", "COMPLETED"):
                return True
            self.slurm.call("scontrol", "update", f"jobid={self.id}", "StartTime=now")
            return False
        self.wait_for(again, "the job runs again")

    def end(self, state, seconds=150):
        """Waits for the job's end, in `state` and with nothing left."""
        over = ("COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT", "BOOT_FAIL", "PREEMPTED")
        self.wait_for(lambda: self.state() in over, "the end of the job", seconds)
        assert self.state() == state, self.said()
        # Slurm reports the end of a cancelled job while its script still removes its files.
        self.wait_for(lambda: not self.processes() and not list(self.out.glob("slurm_task.*")),
                      f"the end of {self.processes()} and the removal of slurm_task.* in {self.out}", 30)

    def finish(self, seconds=150):
        self.end("COMPLETED", seconds)
        summary = json.loads((self.out / "summary.json").read_text())
        assert summary["status"] == "finished", f"{summary}\n{self.said()}"
        assert summary["test_accuracy"] > 0.6, summary

    def cluster(self):
        """Returns the job and index that every task found: the lines that they log."""
        return [json.loads(line.split(" cluster ", 1)[1]) for line in self.output.read_text().splitlines()
                if " cluster {" in line]


LONG = ("--num_epochs=2000", "--set=checkpoint.save_every=500", "--set=cluster.lease_seconds=3")


def flat_job_trains(slurm, directory):
    job = Job(slurm, directory, "--nodes=3", "--ntasks=5", flags=["--num_ps_tasks=2"])
    job.finish()
    tasks = sorted((task["job"], task["index"]) for task in job.cluster())
    assert tasks == [("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1), ("worker", 2)], tasks
    assert {task["source"] for task in job.cluster()} == {"slurm"}


def multi_program_job_trains(slurm, directory):
    job = Job(slurm, directory, "--nodes=3", "--ntasks=5", flags=["--num_ps_tasks=2"], SHAPE="multi-prog")
    job.finish()
    tasks = sorted((task["job"], task["index"]) for task in job.cluster())
    assert tasks == [("chief", 0), ("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1)], tasks


def heterogeneous_job_trains(slurm, directory):
    job = Job(slurm, directory, "--ntasks=2", ":", "--ntasks=2", "--nodes=2")
    job.finish()
    tasks = sorted((task["job"], task["index"]) for task in job.cluster())
    assert tasks == [("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1)], tasks


def a_program_of_ones_own_trains_in_every_shape(slurm, directory):
    directory.mkdir()
    program = program_on_hosts.write(directory / "line.py")
    # The flags behind -- are the program's, whatever they are called.
    arguments = ["--out=/nowhere", "--num_ps_tasks=7", "--tls_cert=none", *program_on_hosts.ARGUMENTS]
    plain = ["--out=/nowhere", "--num_ps_tasks=7"]  # A file for srun --multi-prog knows no quotes.
    shapes = [("flat", ["--nodes=3", "--ntasks=5"], ["--num_ps_tasks=2"], arguments, 3),
              ("multi-prog", ["--nodes=3", "--ntasks=5"], ["--num_ps_tasks=2"], plain, 2),
              ("het", ["--ntasks=2", ":", "--ntasks=2", "--nodes=2"], [], arguments, 2)]
    for shape, sbatch, flags, given, workers in shapes:
        job = Job(slurm, directory / shape, *sbatch, run_file=None, SHAPE="flat" if shape == "het" else shape,
                  flags=[*flags, f"--program={program}", "--python=/usr/bin/python3", "--", *given])
        job.end("COMPLETED")
        found = program_on_hosts.check_trained(job.out, workers, given)
        assert sorted(found) == list(range(workers)), found
    # The reason of a failure is in the job's output.
    broken = program_on_hosts.write(directory / "broken.py", "import shoal_needs_this\n")
    job = Job(slurm, directory / "broken", "--ntasks=3", run_file=None,
              flags=["--num_ps_tasks=1", f"--program={broken}", "--python=/usr/bin/python3"])
    job.end("FAILED")
    assert slurm.job(job.id)["ExitCode"] == "78:0", job.said()
    assert re.search("broken.py ended before it was ready .*No module named 'shoal_needs_this'",
                     job.output.read_text()), job.said()


def heterogeneous_job_gives_each_kind_its_processors(slurm, directory):
    job = Job(slurm, directory, "--ntasks=2", "--cpus-per-task=3", ":", "--ntasks=1", "--cpus-per-task=2",
              flags=LONG)
    job.wait_for(lambda: job.step() > 0, "steps")
    steps = slurm.call("scontrol", "show", "step", "--oneliner").stdout
    given = re.findall(r"StepId=\d+\.0 .* CPUs=(\d+) Tasks=(\d+)", steps)
    assert sorted(given) == [("2", "1"), ("6", "2")], steps
    slurm.cancel(job.id)
    job.end("CANCELLED")


# Checkpoints only where somebody asks for one.
ON_REQUEST = ("--num_ps_tasks=1", "--num_epochs=2000", "--set=checkpoint.save_every=1000000")


def a_cancelled_job_makes_a_checkpoint_and_stays_cancelled(slurm, directory):
    flags = [*ON_REQUEST, "--max_steps=3000"]
    job = Job(slurm, directory, "--nodes=3", "--ntasks=3", flags=flags)
    job.wait_for_new_steps()
    slurm.cancel(job.id)
    job.end("CANCELLED")
    saved = job.checkpoints()
    assert len(saved) == 1 and saved[0] == job.step(), f"{saved}, {job.step()} steps\n{job.said()}"
    assert slurm.job(job.id)["Restarts"] == "0" and "requeued" not in job.output.read_text(), job.said()
    again = Job(slurm, directory, "--nodes=3", "--ntasks=3", flags=flags)
    again.finish()
    assert slurm.job(job.id)["JobState"] == "CANCELLED", job.said()
    assert again.steps() == list(range(1, 3001)), "not every step is there once"


def signals_act_as_documented(slurm, directory):
    directory.mkdir()
    jobs = {name: Job(slurm, directory / name, "--ntasks=2", flags=ON_REQUEST) for name in ("TERM", "INT", "tasks")}
    for job in jobs.values():
        job.wait_for_new_steps()
    slurm.cancel(jobs["TERM"].id, "--batch", "--signal=USR1")
    jobs["TERM"].wait_for(jobs["TERM"].checkpoints, "a checkpoint on request")
    jobs["TERM"].wait_for_new_steps()
    slurm.cancel(jobs["TERM"].id, "--batch", "--signal=TERM")
    slurm.cancel(jobs["INT"].id, "--batch", "--signal=INT")
    slurm.cancel(jobs["tasks"].id, "--signal=INT")
    for name, job in jobs.items():
        job.end("FAILED")
        assert slurm.job(job.id)["ExitCode"] == ("130:0" if name == "tasks" else "143:0"), job.said()
        assert slurm.job(job.id)["Restarts"] == "0" and job.checkpoints()[-1] == job.step(), job.said()


def a_job_that_gets_on_is_requeued_at_its_limit_without_end(slurm, directory):
    job = Job(slurm, directory, "--nodes=3", "--ntasks=3", "--time=2", MAX_RESTARTS="0", flags=ON_REQUEST)
    job.wait_for_new_steps()
    # Slurm's own signal: two minutes before the end, so with its next look at the time, every 30 s.
    job.wait_for(lambda: job.state() != "RUNNING", "the end before the limit")
    slurm.call("scontrol", "update", f"jobid={job.id}", "TimeLimit=60")
    job.run_at_once()
    job.wait_for_new_steps()
    slurm.cancel(job.id, "--batch", "--signal=USR2")
    job.run_at_once()
    job.wait_for_new_steps()
    assert slurm.job(job.id)["Restarts"] == "2", job.said()
    assert job.output.read_text().count("stopped before the time limit; requeued") == 2, job.said()
    slurm.cancel(job.id)
    job.end("CANCELLED")
    assert job.steps() == list(range(1, job.step() + 1)), "not every step is there once"


def a_job_that_does_not_get_on_is_requeued_so_often(slurm, directory):
    job = Job(slurm, directory, "--ntasks=3", SHAPE="multi-prog", MAX_RESTARTS="1", flags=ON_REQUEST)
    for restart in range(2):
        job.wait_for_new_steps() if restart == 0 else job.wait_for(lambda: len(job.processes("ps")) == 1, "a ps")
        os.kill(job.processes("ps")[0], signal.SIGKILL)
        if restart == 0:
            job.run_at_once()
    job.end("FAILED")
    assert slurm.job(job.id)["ExitCode"] in ("137:0", "138:0", "143:0"), job.said()
    assert slurm.job(job.id)["Restarts"] == "1", job.said()
    assert "restarted 1 times without a checkpoint after step 0; ends with" in job.output.read_text(), job.said()


def preempted_jobs_follow_their_partition(slurm, directory):
    directory.mkdir()
    flags = [*ON_REQUEST, "--max_steps=4000"]
    kept = Job(slurm, directory / "kept", "--ntasks=2", flags=flags)
    dropped = Job(slurm, directory / "dropped", "--ntasks=2", "--partition=spare", flags=flags)
    for job in (kept, dropped):
        job.wait_for_new_steps()
    urgent = slurm.submit("--partition=urgent", "--nodes=3", "--exclusive", "--output=/dev/null", "--wrap=true")
    kept.wait_for(lambda: slurm.job(urgent)["JobState"] == "COMPLETED", "the urgent job's end")
    dropped.end("PREEMPTED")
    kept.run_at_once()
    kept.wait_for_new_steps()
    slurm.call("scontrol", "requeue", kept.id)
    kept.run_at_once()
    kept.finish()
    assert slurm.job(kept.id)["Restarts"] == "2" and "requeued" not in kept.output.read_text(), kept.said()
    assert kept.steps() == list(range(1, 4001)), "not every step is there once"
    assert slurm.job(dropped.id)["Restarts"] == "0", dropped.said()


def a_refused_worker_ends_the_job_with_the_reason(slurm, directory):
    directory.mkdir()
    program = directory / "program"
    program.write_text("#!/bin/bash\n# The last worker is on a machine of another kind.\n"
                       '[[ ${SLURM_PROCID:-0} != 2 ]] || { sleep 3; export DNNL_MAX_CPU_ISA=SSE41; }\n'
                       f'exec {SHOAL} "$@"\n')
    program.chmod(0o755)
    job = Job(slurm, directory, "--nodes=3", "--ntasks=4", SHOAL=str(program), flags=ON_REQUEST)
    job.end("FAILED")
    assert slurm.job(job.id)["ExitCode"] == "78:0" and slurm.job(job.id)["Restarts"] == "0", job.said()
    assert "--allow_mixed_compute" in job.output.read_text(), job.said()


def a_node_that_dies_ends_in_recovery(slurm, directory):
    job = Job(slurm, directory, "--nodes=3", "--ntasks=5", flags=["--num_ps_tasks=2", *LONG, "--max_steps=9000"])
    job.wait_for(lambda: job.step() > 60, "steps")
    node = slurm.network.hosts[2]
    node.disconnect()
    for pid in node.pids():
        subprocess.run(["kill", "-KILL", str(pid)], check=False)
    job.wait_for(lambda: job.state() != "RUNNING" or slurm.job(job.id).get("Restarts") == "1", "the loss is seen", 120)
    node.reconnect()
    slurm.start_node(node)
    slurm.call("scontrol", "update", f"nodename={node.name}", "state=resume")
    job.run_at_once()
    job.finish()
    assert slurm.job(job.id)["Restarts"] != "0", job.said()
    assert job.steps() == list(range(1, 9001)), "not every step is there once"


def main():
    for package, command in [("slurm-wlm", "slurmctld"), ("munge", "munged")]:
        assert shutil.which(command), f"{command} is missing; tests/cluster/install_dependencies installs {package}"
    wanted = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(143))  # Cleans up, as any exit does.
    with tempfile.TemporaryDirectory(prefix="shoal_slurm_test_") as directory:
        os.chmod(directory, 0o755)
        with Network(hosts=3) as network, SlurmCluster(network) as slurm:
            for test in (flat_job_trains, multi_program_job_trains, heterogeneous_job_trains,
                         a_program_of_ones_own_trains_in_every_shape,
                         heterogeneous_job_gives_each_kind_its_processors,
                         a_cancelled_job_makes_a_checkpoint_and_stays_cancelled, signals_act_as_documented,
                         a_job_that_gets_on_is_requeued_at_its_limit_without_end,
                         a_job_that_does_not_get_on_is_requeued_so_often,
                         preempted_jobs_follow_their_partition, a_refused_worker_ends_the_job_with_the_reason,
                         a_node_that_dies_ends_in_recovery):
                if wanted and test.__name__ not in wanted:
                    continue
                start = time.monotonic()
                test(slurm, pathlib.Path(directory) / test.__name__)
                print(f"[ OK     ] {test.__name__} ({time.monotonic() - start:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
