"""Tasks that know each other from host lists or from a launcher's variables: who hosts the chief, who is whom, how
all of them end."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from cluster import free_port, main, shoal_binary

RUN_FILE = str(pathlib.Path(__file__).parent / "small.textproto")


class Tasks:
    """Processes of one run. Use as a context: what is left is killed at the end."""

    def __init__(self, *flags):
        self.directory = tempfile.TemporaryDirectory(prefix="shoal_test_")
        self.out = pathlib.Path(self.directory.name) / "run"
        self.flags = [f"--run={RUN_FILE}", f"--out={self.out}", *flags]
        self.tasks = {}

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for task in self.tasks.values():
            if task.poll() is None:
                task.kill()
            task.wait()
        self.directory.cleanup()

    def start(self, job, index=0, *flags):
        command = [shoal_binary(), job, f"--task_index={index}", *self.flags, *flags]
        log = open(self.log(job, index), "w")
        self.tasks[job, index] = subprocess.Popen(command, stdout=log, stderr=log)

    def start_by(self, environment, name, index):
        """A task whose job and index are in the environment; `name` and `index` are what we call it."""
        log = open(self.log(name, index), "w")
        self.tasks[name, index] = subprocess.Popen([shoal_binary(), "task", *self.flags], stdout=log, stderr=log,
                                                   env={**os.environ, **environment})

    def all_finish(self):
        for job, index in self.tasks:
            code = self.wait(job, index)
            assert code == 0, f"{job}/{index} ends with {code}\n{self.all_said()}"
        assert '"finished"' in (self.out / "summary.json").read_text()

    def log(self, job, index=0):
        return pathlib.Path(self.directory.name) / f"{job}-{index}.txt"

    def said(self, job, index=0):
        return self.log(job, index).read_text(errors="replace")

    def all_said(self):
        return "\n".join(f"--- {job}/{index}\n{self.said(job, index)[-2000:]}" for job, index in self.tasks)

    def wait(self, job, index=0, timeout=240):
        try:
            return self.tasks[job, index].wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{job}/{index} still runs after {timeout} s\n{self.all_said()}") from None

    def wait_until(self, condition, what, timeout=180):
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, f"no {what} after {timeout} s\n{self.all_said()}"
            time.sleep(0.05)

    def steps(self):
        path = self.out / "metrics.jsonl"
        return path.read_text().count("\n") if path.exists() else 0


def worker_0_hosts_the_chief():
    hosts = [f"--ps_hosts=127.0.0.1:{free_port()}", f"--worker_hosts=127.0.0.1:{free_port()},127.0.0.1:1"]
    with Tasks(*hosts) as tasks:
        tasks.start("ps", 0)
        tasks.start("worker", 1)
        tasks.start("worker", 0)
        for job, index in tasks.tasks:
            code = tasks.wait(job, index)
            assert code == 0, f"{job}/{index} ends with {code}\n{tasks.all_said()}"
        assert '"finished"' in (tasks.out / "summary.json").read_text()
        asked = subprocess.run([shoal_binary(), "status", str(tasks.out)], capture_output=True, text=True,
                               timeout=60, check=False)
        assert asked.returncode == 0 and "is over: it finished" in asked.stdout, asked


def two_ps_with_one_port():
    """Addresses that differ in the host alone are two servers, through shared memory too."""
    port = free_port()
    hosts = [f"--ps_hosts=127.0.0.1:{port},127.0.0.2:{port}", "--worker_hosts=127.0.0.1:1",
             f"--chief_host=127.0.0.1:{free_port()}"]
    with Tasks(*hosts) as tasks:
        for job, index in [("chief", 0), ("ps", 0), ("ps", 1), ("worker", 0)]:
            tasks.start(job, index)
        for job, index in tasks.tasks:
            code = tasks.wait(job, index)
            assert code == 0, f"{job}/{index} ends with {code}\n{tasks.all_said()}"


def a_launchers_numbers_are_enough():
    """torchrun: a task knows only its rank and the address of rank 0."""
    port = str(free_port())
    with Tasks("--num_ps_tasks=2") as tasks:
        for rank in (4, 3, 2, 1, 0):
            tasks.start_by({"RANK": str(rank), "WORLD_SIZE": "5", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port},
                           "rank", rank)
        tasks.all_finish()
        said = tasks.said("rank", 4)
        assert '"source": "torchrun", "job": "ps", "index": 1' in said, said


def tf_config_identifies_a_task():
    cluster = {"ps": [f"127.0.0.1:{free_port()}"], "worker": [f"127.0.0.1:{free_port()}", "127.0.0.1:1"]}
    with Tasks() as tasks:
        for job, index in [("worker", 1), ("ps", 0), ("worker", 0)]:
            config = {"cluster": cluster, "task": {"type": job, "index": index}}
            tasks.start_by({"TF_CONFIG": json.dumps(config)}, job, index)
        tasks.all_finish()


def all_tasks_end_with_the_runs_error():
    """A ps that is gone for good: everybody asks to be started again, nobody says that all is well."""
    hosts = [f"--ps_hosts=127.0.0.1:{free_port()},127.0.0.1:{free_port()}", "--worker_hosts=127.0.0.1:1",
             f"--chief_host=127.0.0.1:{free_port()}", "--num_epochs=1000", "--set", "cluster.lease_seconds=2"]
    with Tasks(*hosts) as tasks:
        for job, index in [("chief", 0), ("ps", 0), ("ps", 1), ("worker", 0)]:
            tasks.start(job, index)
        tasks.wait_until(lambda: tasks.steps() > 5, "steps")
        tasks.tasks["ps", 1].kill()
        for job, index in [("chief", 0), ("ps", 0), ("worker", 0)]:
            code = tasks.wait(job, index)
            assert code == 138, f"{job}/{index} ends with {code}, not 138\n{tasks.all_said()}"
        assert "ps/1" in tasks.said("worker", 0), tasks.all_said()


def a_ps_that_cannot_listen_names_the_address():
    with Tasks("--num_ps_tasks=1", "--chief_host=127.0.0.1:1", "--listen_address=192.0.2.1:7000") as tasks:
        tasks.start("ps", 0)
        code = tasks.wait("ps", 0)
        assert code == 78, f"{code}\n{tasks.all_said()}"
        assert "--insecure" in tasks.said("ps", 0), tasks.all_said()


def a_task_without_a_chief_logs_what_it_waits_for_and_can_be_stopped():
    with Tasks(f"--chief_host=127.0.0.1:{free_port()}", "--num_ps_tasks=1") as tasks:
        tasks.start("ps", 0, "--listen_address=127.0.0.1:0")
        tasks.start("worker", 0)
        for job, index in tasks.tasks:
            tasks.wait_until(lambda: "waiting for the chief" in tasks.said(job, index), "word of waiting")
            tasks.tasks[job, index].send_signal(signal.SIGINT)
            code = tasks.wait(job, index)
            assert code == 130, f"{job}/{index} ends with {code}\n{tasks.all_said()}"
            assert "did not end in time" not in tasks.said(job, index), "it took the hard end"


if __name__ == "__main__":
    main([worker_0_hosts_the_chief, a_launchers_numbers_are_enough, tf_config_identifies_a_task,
          two_ps_with_one_port, all_tasks_end_with_the_runs_error, a_ps_that_cannot_listen_names_the_address,
          a_task_without_a_chief_logs_what_it_waits_for_and_can_be_stopped])
