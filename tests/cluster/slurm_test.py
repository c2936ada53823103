#!/usr/bin/env python3
"""deploy/slurm/train.sbatch on a real Slurm of three nodes: every shape trains, what is interrupted goes on."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from network import Network, wait_until  # noqa: E402
from slurm_cluster import SlurmCluster  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy/slurm/train.sbatch"
SHOAL = ROOT / "bazel-bin/deploy/shoal"
RUN_FILE = ROOT / "tests/real_process/small.textproto"


class Job:
    """One sbatch of the script."""

    def __init__(self, slurm, directory, *sbatch, flags=(), **environment):
        self.slurm = slurm
        self.out = directory / "run"
        self.output = directory / "output"
        directory.mkdir()
        self.id = slurm.submit(*sbatch, SCRIPT, f"--run={RUN_FILE}", f"--out={self.out}", "--insecure", *flags,
                               SHOAL=str(SHOAL), SBATCH_OUTPUT=str(self.output), **environment)

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

    def finish(self, seconds=150):
        over = ("COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT", "BOOT_FAIL")
        self.wait_for(lambda: self.state() in over, "the end of the job", seconds)
        assert self.state() == "COMPLETED", self.said()
        summary = json.loads((self.out / "summary.json").read_text())
        assert summary["status"] == "finished", f"{summary}\n{self.said()}"
        assert summary["test_accuracy"] > 0.6, summary

    def cluster(self):
        """Who every task found itself to be: the lines that they log."""
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


def a_job_that_is_stopped_before_its_limit_is_requeued_and_resumes(slurm, directory):
    job = Job(slurm, directory, "--nodes=3", "--ntasks=4", flags=["--num_ps_tasks=2", *LONG, "--max_steps=9000"])
    job.wait_for(lambda: job.step() > 60, "steps")
    slurm.call("scancel", "--batch", "--signal=TERM", job.id)
    job.run_at_once()
    job.finish()
    assert slurm.job(job.id)["Restarts"] == "1", job.said()
    assert "stopped before the time limit; requeued" in job.output.read_text(), job.said()
    assert job.steps() == list(range(1, 9001)), "not every step is there once"


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
                         a_job_that_is_stopped_before_its_limit_is_requeued_and_resumes,
                         a_node_that_dies_ends_in_recovery):
                if wanted and test.__name__ not in wanted:
                    continue
                start = time.monotonic()
                test(slurm, pathlib.Path(directory) / test.__name__)
                print(f"[ OK     ] {test.__name__} ({time.monotonic() - start:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
