#!/usr/bin/env python3
"""Tasks under Debian's Open MPI, on one host and, over real sshds, on three: each shape of command line trains, and
whatever becomes of mpirun, no task is left.

With names of tests as arguments: those alone."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/real_process"))
os.environ.setdefault("SHOAL", str(ROOT / "bazel-bin/deploy/shoal"))

import cluster  # noqa: E402
import program_on_hosts  # noqa: E402
from network import Network, run_cases, wait_until  # noqa: E402
from ssh_test import Hosts  # noqa: E402

SMALL = str(ROOT / "tests/real_process/small.textproto")
COUNTS = ("--num_ps_tasks=2", "--num_replicas=2")
ONE_HOST = ("host0:5",)
THREE_HOSTS = ("host0:2", "host1:2", "host2:1")
ENDLESS = ("--num_epochs=100000", "--eval_every=0", "--save_every=1000000")
# The exit code of mpirun when a signal ended it.
MPIRUN_WAS_STOPPED = 1


class Mpirun(cluster.Run):
    """One mpirun, on host0. `parts`: command and number of processes of each part of its command line."""

    def __init__(self, hosts, where, parts, *flags, chief_host=None, out=None, run_file=SMALL):
        super().__init__(SMALL, out=out)
        self.hosts = hosts
        common = [f"--run={run_file}"] if run_file else []
        common.append(f"--out={self.out}")
        if len(where) > 1:
            common.append("--insecure")
        if chief_host:
            common.append(f"--chief_host={chief_host}")
        common += flags
        self.command = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--host", ",".join(where),
                        "--mca", "plm_rsh_agent", f"ssh -F {hosts.config}"]
        for command, count in parts:
            part = ["-n", count, os.environ["SHOAL"], command, *common]
            self.command += [":", *part] if "-n" in self.command else part

    def start(self):
        self.process = self.hosts.network.hosts[0].start(self.command, stdin=subprocess.DEVNULL,
                                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return self

    def logs(self, lines=15):
        """They are in `output`, which mpirun collects."""
        if self.process.poll() is None:
            self.process.kill()
        return getattr(self, "output", None) or self.process.communicate(timeout=30)[0][-6000:]

    def cluster(self):
        """Returns the job and index that every task found: the lines that they log."""
        lines = [json.loads(line.split(" cluster ", 1)[1]) for line in self.output.splitlines() if " cluster {" in line]
        assert {line["source"] for line in lines} == {"mpi"}, lines
        return sorted((line["job"], line["index"]) for line in lines)

    def left(self):
        """Processes on the hosts that are not the hosts' own: tasks, mpirun, its daemons, ssh."""
        there = {pid for host in self.hosts.network.hosts for pid in host.pids()}
        return sorted(there - {daemon.pid for daemon in self.hosts.daemons})

    def assert_nothing_left(self, timeout=20):
        try:
            wait_until(lambda: not self.left(), timeout, "the end of all processes")
        except AssertionError as error:
            subprocess.run(["ps", "-o", "pid,ppid,etime,args", "-p", ",".join(map(str, self.left()))], check=False)
            raise AssertionError(f"{error}\n{self.logs()}") from None

    def checkpoints(self):
        return list((self.out / "checkpoints").glob("*/MANIFEST"))


def flat(hosts, *flags, where=THREE_HOSTS, chief_host="host0", out=None):
    return Mpirun(hosts, where, [("task", "5")], "--num_ps_tasks=2", *flags, chief_host=chief_host, out=out)


def local_digest(*flags):
    """Returns the digest of the same run in one process."""
    with cluster.Run(SMALL, "--num_ps_tasks=0", "--num_replicas=1", *flags) as run:
        return run.finish().digest()


def parts_of_a_command_line_are_the_jobs(hosts):
    parts = [("chief", "1"), ("ps", "2"), ("worker", "2")]
    for where, chief_host in ((ONE_HOST, None), (THREE_HOSTS, "host0")):
        with Mpirun(hosts, where, parts, *COUNTS, chief_host=chief_host) as run:
            run.finish()
            assert run.cluster() == [("chief", 0), ("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1)], run.output
            assert run.digest() == local_digest(), "other bytes than in one process"
            run.assert_nothing_left()


def one_program_is_divided_by_rank(hosts):
    for where, chief_host, names in ((ONE_HOST, None, {"host0"}), (THREE_HOSTS, "host0", {"host0", "host1", "host2"})):
        with flat(hosts, where=where, chief_host=chief_host) as run:
            run.finish()
            assert run.cluster() == [("ps", 0), ("ps", 1), *(("worker", i) for i in range(3))], run.output
            registered = [line for line in run.output.splitlines() if " registered, pid " in line]
            assert {line.split(" on ", 1)[1].split(",")[0] for line in registered} == names, run.output
            assert run.digest() == local_digest(), "other bytes than in one process"
            run.assert_nothing_left()


def a_program_of_ones_own_is_started_by_every_worker(hosts):
    program = program_on_hosts.write(hosts.directory / "line.py")
    with Mpirun(hosts, THREE_HOSTS, [("task", 5)], "--num_ps_tasks=2", f"--program={program}",
                "--python=/usr/bin/python3", "--", *program_on_hosts.ARGUMENTS, chief_host="host0", run_file=None) as run:
        run.finish()
        program_on_hosts.check_trained(run.out, 3)
        run.assert_nothing_left()


def on_several_hosts_the_chiefs_must_be_named(hosts):
    with flat(hosts, chief_host=None) as run:
        run.finish(code=64)
        assert "--chief_host: is missing; mpirun does not provide it and the tasks are on several hosts; name the host of " \
            "rank 0" in run.output, run.output
        run.assert_nothing_left()


def mpirun_ends_with_the_code_of_the_task_that_failed(hosts):
    for flags, code, message in ((["--nonsense"], 64, "--nonsense: is not a flag; see --help"),
                                 (["--data_dir=/nowhere"], 78, "/nowhere")):
        with flat(hosts, *flags) as run:
            run.finish(code=code)
            assert message in run.output, run.output
            run.assert_nothing_left()


def ctrl_c_makes_a_checkpoint_and_the_same_command_resumes(hosts):
    flags = ("--max_steps=3000", "--num_epochs=1000", "--eval_every=0", "--save_every=1000000")
    with flat(hosts, *flags) as run:
        run.start()
        run.wait_for_step(100)
        run.process.send_signal(signal.SIGINT)
        assert run.wait() == MPIRUN_WAS_STOPPED, run.output
        run.assert_nothing_left()
        assert run.checkpoints(), run.output
        stopped_at = run.step()
        assert stopped_at < 3000, f"step {stopped_at}: nothing was interrupted"
        with flat(hosts, *flags, out=run.out) as again:
            again.finish()
            assert [line["step"] for line in again.metrics()] == list(range(1, 3001)), "not every step is there once"
            assert again.digest() == local_digest(*flags), "other bytes than uninterrupted"
            again.assert_nothing_left()


def a_killed_mpirun_leaves_a_checkpoint_and_no_process(hosts):
    for where, chief_host in ((ONE_HOST, None), (THREE_HOSTS, "host0")):
        with flat(hosts, *ENDLESS, where=where, chief_host=chief_host) as run:
            run.start()
            run.wait_for_step(50)
            run.process.kill()
            run.process.wait()
            run.assert_nothing_left(timeout=40)
            assert run.checkpoints(), run.logs()


def mpirun_passes_sigusr1_on_as_the_wish_for_a_checkpoint(hosts):
    with flat(hosts, *ENDLESS) as run:
        run.start()
        run.wait_for_step(50)
        run.process.send_signal(signal.SIGUSR1)
        wait_until(run.checkpoints, 30, "a checkpoint")
        run.wait_for_step(run.step() + 50)
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == MPIRUN_WAS_STOPPED, run.output
        run.assert_nothing_left()


def a_killed_worker_ends_the_run_and_the_same_command_resumes(hosts):
    flags = ("--max_steps=3000", "--num_epochs=1000", "--eval_every=0", "--save_every=50")
    with flat(hosts, *flags) as run:
        run.start()
        run.wait_for_step(200)
        elsewhere = hosts.network.hosts[1].pids()
        worker = next(pid for pid in run.pids("task") if pid in elsewhere)
        os.kill(worker, signal.SIGKILL)
        assert run.wait() == 128 + signal.SIGKILL, run.output
        run.assert_nothing_left()
        with flat(hosts, *flags, out=run.out) as again:
            again.finish()
            assert again.digest() == local_digest(*flags), "other bytes than uninterrupted"
            again.assert_nothing_left()


TESTS = [parts_of_a_command_line_are_the_jobs, one_program_is_divided_by_rank,
         a_program_of_ones_own_is_started_by_every_worker,
         on_several_hosts_the_chiefs_must_be_named, mpirun_ends_with_the_code_of_the_task_that_failed,
         ctrl_c_makes_a_checkpoint_and_the_same_command_resumes, a_killed_mpirun_leaves_a_checkpoint_and_no_process,
         mpirun_passes_sigusr1_on_as_the_wish_for_a_checkpoint,
         a_killed_worker_ends_the_run_and_the_same_command_resumes]


def main():
    assert shutil.which("mpirun"), "mpirun is missing; tests/cluster/install_dependencies installs openmpi-bin"
    with Network(hosts=3, own_hostnames=True) as network, tempfile.TemporaryDirectory(prefix="shoal_mpi_") as directory:
        hosts = Hosts(network, directory)
        run_cases(TESTS, hosts)


if __name__ == "__main__":
    main()
