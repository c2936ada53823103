#!/usr/bin/env python3
"""Tasks under PyTorch's torchrun, on one host and on two: they train, a killed one is started again as torchrun's flags
say, and whatever becomes of torchrun, no task is left. tests/peers/install installs PyTorch and NumPy, outside the clone.

With names of tests as arguments: those alone."""
import json
import os
import pathlib
import re
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

SMALL = str(ROOT / "tests/real_process/small.textproto")
ENDLESS = ("--num_epochs=100000", "--eval_every=0", "--save_every=1000000")
# Every node's torchrun may choose who waits for whom: only "static" knows which is the first node beforehand.
STATIC = ("--master-addr=host0", "--master-port=29500")
ELASTIC = ("--rdzv-backend=c10d", "--rdzv-endpoint=host0:29400", "--rdzv-id=test")
# The exit code of torchrun, whatever its tasks end with.
TORCHRUN_FAILED = 1


class Torchruns(cluster.Run):
    """A torchrun on each of the first hosts of the network with so many tasks; the last `num_ps` are ps."""

    def __init__(self, torchrun, network, tasks, *flags, launch=(), num_ps=2, out=None, run_file=SMALL):
        super().__init__(SMALL, out=out)
        self.hosts = network.hosts[:len(tasks)]
        task = [os.environ["SHOAL"], "task", f"--out={self.out}", f"--num_ps_tasks={num_ps}", *flags]
        if run_file:
            task.insert(2, f"--run={run_file}")
        if len(tasks) > 1:
            task.insert(2, "--insecure")
            launch = [f"--nnodes={len(tasks)}", *launch]
        self.commands = []
        for node, count in enumerate(tasks):
            rank = [f"--node-rank={node}"] if STATIC[0] in launch else []
            self.commands.append([torchrun, "--no-python", f"--nproc-per-node={count}", *rank, *launch, "--", *task])
        self.log = pathlib.Path(self.directory.name) / "log"
        self.processes = []

    def start(self):
        with open(self.log, "ab") as log:
            self.processes = [host.start(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
                              for host, command in zip(self.hosts, self.commands)]
        self.process = self.processes[0]
        return self

    def logs(self, lines=600):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def wait(self, timeout=150):
        """The codes of all."""
        try:
            wait_until(lambda: all(p.poll() is not None for p in self.processes), timeout, "the end of every torchrun")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None
        return [process.returncode for process in self.processes]

    def finish(self, timeout=150, code=0):
        if not self.processes:
            self.start()
        codes = self.wait(timeout)
        assert codes == [code] * len(codes), f"{codes}\n{self.logs()}"
        return self

    def assert_nothing_left(self, timeout=40):
        """Expects that no process of the run, nor another one, is left on its hosts."""
        try:
            wait_until(lambda: not self.pids() and not any(host.pids() for host in self.hosts), timeout,
                       "the end of all processes")
        except AssertionError as error:
            raise AssertionError(f"{error}: {[host.pids() for host in self.hosts]}\n{self.logs()}") from None

    def cluster(self):
        """Returns the job and index that every task found, in order, each as often as it was started."""
        lines = [json.loads(line.split(" cluster ", 1)[1]) for line in self.log.read_text().splitlines()
                 if " cluster {" in line]
        assert {line["source"] for line in lines} == {"torchrun"}, lines
        return sorted((line["job"], line["index"]) for line in lines)

    def tasks_on(self, host):
        there = set(host.pids())
        return [pid for pid in self.pids("task") if pid in there]

    def checkpoints(self):
        return list((self.out / "checkpoints").glob("*/MANIFEST"))


def local_digest(*flags):
    """Returns the digest of the same run in one process."""
    with cluster.Run(SMALL, "--num_ps_tasks=0", "--num_replicas=1", *flags) as run:
        return run.finish().digest()


def ranks_are_divided_into_workers_and_ps(torchrun, network):
    for tasks, launch in (([5], ()), ([3, 2], STATIC)):
        with Torchruns(torchrun, network, tasks, launch=launch) as run:
            run.finish()
            assert run.cluster() == [("ps", 0), ("ps", 1), *(("worker", i) for i in range(3))], run.logs()
            assert run.digest() == local_digest(), "other bytes than in one process"
            run.assert_nothing_left()


def killed_worker_comes_back(torchrun, network, rendezvous, started):
    """`started` are the tasks of the cluster's lines in the end."""
    flags = ("--max_steps=3000", "--num_epochs=1000", "--eval_every=0", "--save_every=20")
    with Torchruns(torchrun, network, [2, 2], *flags, launch=(*rendezvous, "--max-restarts=2"), num_ps=1) as run:
        run.start()
        run.wait_for_step(100)
        # Every task has logged who it is by that time.
        worker = next(pid for host in run.hosts for pid in run.tasks_on(host) if is_worker(pid, 2))
        os.kill(worker, signal.SIGKILL)
        run.finish()
        assert run.cluster() == started, run.logs()
        assert [line["step"] for line in run.metrics()] == list(range(1, 3001)), "not every step is there once"
        assert run.digest() == local_digest(*flags), "other bytes than uninterrupted"
        run.assert_nothing_left()


def is_worker(pid, rank):
    environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return f"RANK={rank}".encode() in environment


def a_killed_worker_and_its_hosts_others_are_started_again(torchrun, network):
    killed_worker_comes_back(torchrun, network, STATIC,
                             [("ps", 0), ("ps", 0), ("worker", 0), ("worker", 1), ("worker", 2), ("worker", 2)])


def an_elastic_rendezvous_starts_all_hosts_again(torchrun, network):
    killed_worker_comes_back(torchrun, network, ELASTIC,
                             sorted([("ps", 0), *(("worker", i) for i in range(3))] * 2))


def without_restarts_a_task_that_fails_ends_the_run(torchrun, network):
    with Torchruns(torchrun, network, [3], "--data_dir=/nowhere", num_ps=1) as run:
        run.finish(code=TORCHRUN_FAILED)
        # torchrun lists every task that ended; a ps that the chief has notified of the end may be first, with 143.
        said = run.log.read_text()
        assert "/nowhere" in said and re.search(r"exitcode *: 78\b", said), run.logs()
        run.assert_nothing_left()


def the_end_of_the_first_torchrun_is_a_checkpoint_and_the_end_of_all(torchrun, network):
    for how, code in ((signal.SIGINT, TORCHRUN_FAILED), (signal.SIGKILL, -signal.SIGKILL)):
        with Torchruns(torchrun, network, [3, 2], *ENDLESS, launch=STATIC) as run:
            run.start()
            run.wait_for_step(50)
            run.process.send_signal(how)
            codes = run.wait()
            assert codes[0] == code, f"{codes}\n{run.logs()}"
            assert run.checkpoints(), run.logs()
            run.assert_nothing_left()


def a_program_of_ones_own_is_started_by_every_worker(torchrun, network):
    with tempfile.TemporaryDirectory() as directory:
        program = program_on_hosts.write(pathlib.Path(directory) / "line.py")
        for tasks, launch in (([5], ()), ([3, 2], STATIC)):
            with Torchruns(torchrun, network, tasks, f"--program={program}", "--python=/usr/bin/python3", "--",
                           *program_on_hosts.ARGUMENTS, launch=launch, run_file=None) as run:
                os.environ["CUDA_VISIBLE_DEVICES"] = "GPU-a,GPU-b"
                try:
                    run.finish()
                finally:
                    del os.environ["CUDA_VISIBLE_DEVICES"]
                found = program_on_hosts.check_trained(run.out, 3)
                # The third worker of one host shares a GPU with the first. On two hosts all workers are on the first.
                assert [start["gpus"] for start in found.values()] == ["GPU-a", "GPU-b", "GPU-a"], found
                run.assert_nothing_left()


def a_program_that_torchrun_starts_itself_names_the_right_command(torchrun, network):
    with tempfile.TemporaryDirectory() as directory:
        program = pathlib.Path(directory) / "train.py"
        program.write_text("import shoal\nshoal.Worker()\n")
        done = subprocess.run([torchrun, "--nproc-per-node=2", program, "--depth=3"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "python")}, check=False, timeout=120)
        assert done.returncode == TORCHRUN_FAILED, done
        assert "torchrun has started 2 processes of this program" in done.stderr, done.stderr
        assert "torchrun --no-python --nproc-per-node=2 -- shoal task --out=DIR" in done.stderr, done.stderr
        assert re.search(rf"--program={program} --python=\S+ -- --depth=3\n", done.stderr), done.stderr


TESTS = [ranks_are_divided_into_workers_and_ps, a_killed_worker_and_its_hosts_others_are_started_again,
         an_elastic_rendezvous_starts_all_hosts_again, without_restarts_a_task_that_fails_ends_the_run,
         the_end_of_the_first_torchrun_is_a_checkpoint_and_the_end_of_all,
         a_program_of_ones_own_is_started_by_every_worker,
         a_program_that_torchrun_starts_itself_names_the_right_command]


def main():
    installed = subprocess.run([ROOT / "tests/peers/install", "torch", "numpy"], check=True, stdout=subprocess.PIPE, text=True)
    torchrun = f"{installed.stdout.strip()}/bin/torchrun"
    with Network(hosts=2, own_hostnames=True) as network:
        run_cases(TESTS, torchrun, network)


if __name__ == "__main__":
    main()
