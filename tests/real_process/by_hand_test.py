#!/usr/bin/env python3
"""Tasks that are started one by one, as on a cluster: who listens where, who waits for whom."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time

import cluster

SMALL = str(pathlib.Path(__file__).resolve().parent / "small.textproto")


class ByHand:
    """Tasks of one run, each with a log. Use as a context: whatever is left of them is killed at the end."""

    def __init__(self, *flags):
        self.directory = tempfile.TemporaryDirectory(prefix="shoal_test_")
        self.out = pathlib.Path(self.directory.name) / "run"
        self.flags = [f"--run={SMALL}", f"--out={self.out}", "--num_ps_tasks=1", "--num_replicas=1", *flags]
        self.tasks = {}

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for process in self.tasks.values():
            process.kill()
            process.wait()
        self.directory.cleanup()

    def start(self, job, *flags, **options):
        log = open(pathlib.Path(self.directory.name) / f"{job}.log", "w", encoding="utf-8")
        self.tasks[job] = subprocess.Popen([cluster.shoal_binary(), job, *self.flags, *flags], stderr=log, stdout=log,
                                           **options)
        log.close()

    def start_chief(self, *flags):
        """Returns the address that the chief reports."""
        read, write = os.pipe()
        self.start("chief", f"--report_fd={write}", *flags, pass_fds=[write])
        os.close(write)
        with os.fdopen(read) as reported:
            return reported.readline().strip()

    def end(self, job, timeout=240):
        try:
            return self.tasks[job].wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{job} does not end\n{self.logs()}") from None

    def wait_for_lines(self, lines, timeout=180):
        """Waits until metrics.jsonl, of a run that began here, has so many."""
        metrics = self.out / "metrics.jsonl"
        deadline = time.monotonic() + timeout
        while not metrics.exists() or metrics.read_text().count("\n") < lines:
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.05)

    def log(self, job):
        return (pathlib.Path(self.directory.name) / f"{job}.log").read_text(errors="replace")

    def logs(self):
        return "\n".join(f"--- {job}\n{self.log(job)[-3000:]}" for job in self.tasks)


def a_chief_serves_on_all_addresses():
    with ByHand() as run:
        address = run.start_chief("--listen_address=0.0.0.0:0", "--insecure")
        host, port = address.rsplit(":", 1)
        assert host == "0.0.0.0" and int(port) > 0, address
        chief = f"--chief_host=127.0.0.1:{port}"
        run.start("ps", chief, "--task_index=0", "--listen_address=127.0.0.1:0")
        run.start("worker", chief, "--task_index=0")
        codes = {job: run.end(job) for job in run.tasks}
        assert codes == {"chief": 0, "ps": 0, "worker": 0}, f"{codes}\n{run.logs()}"


def a_chief_waits_for_the_one_before_it_to_let_go_of_the_directory():
    """This happens after `kubectl delete job`, which returns while the old pod still writes its last checkpoint."""
    def another(*flags):
        log = pathlib.Path(run.directory.name) / "chief.log"
        run.start("chief", "--listen_address=127.0.0.1:0", *flags)
        deadline = time.monotonic() + 180
        while "is held by another chief" not in log.read_text() and run.tasks["chief"].poll() is None:
            assert time.monotonic() < deadline, run.logs()
            time.sleep(0.05)
        return run.tasks["chief"]

    with ByHand() as run:
        run.start_chief("--listen_address=127.0.0.1:0")
        first = run.tasks["first"] = run.tasks.pop("chief")
        (pathlib.Path(run.directory.name) / "chief.log").rename(pathlib.Path(run.directory.name) / "first.log")
        # Launchers are notified at once, like users who watch.
        assert run.start_chief("--listen_address=127.0.0.1:0") == ""
        assert run.end("chief") == 78, run.logs()
        assert f"another run is using {run.out} (pid {first.pid} on " in run.log("chief"), run.logs()
        # A task that nobody launched waits, says for whom, and gives up.
        another("--wait_seconds=3")
        assert run.end("chief") == 138, run.logs()
        assert f"is held by another chief, pid {first.pid} on " in run.log("chief").splitlines()[-1], run.logs()
        # It can be asked to end.
        for how, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            another().send_signal(how)
            assert run.end("chief") == code, run.logs()
        assert first.poll() is None, run.logs()
        # It takes over.
        second = another()
        first.send_signal(signal.SIGTERM)
        assert first.wait(240) == 143, run.logs()
        deadline = time.monotonic() + 180
        while "chief of" not in run.log("chief"):
            assert time.monotonic() < deadline and second.poll() is None, run.logs()
            time.sleep(0.05)
        assert (run.out / "TERM").read_text() == "2\n", "those that waited changed nothing"


def a_chief_that_is_killed_before_its_first_checkpoint_has_its_tasks_start_again():
    """A pod of the chief dies early: the tasks that are alive belong to the same run and are worth another try."""
    def start_tasks():
        for job in ("ps", "worker"):
            run.start(job, f"--chief_host={address}", "--task_index=0",
                      *(["--listen_address=127.0.0.1:0"] if job == "ps" else []))

    with ByHand("--num_epochs=1000", "--save_every=1000000") as run:
        address = f"127.0.0.1:{cluster.free_port()}"
        run.start_chief(f"--listen_address={address}")
        start_tasks()
        run.wait_for_lines(5)
        run.tasks["chief"].kill()
        run.tasks["chief"].wait()
        assert not list((run.out / "checkpoints").glob("*/MANIFEST*")), "the run had no checkpoint yet"
        identity = (run.out / "RUN_ID").read_text()
        run.start_chief(f"--listen_address={address}")
        codes = {job: run.end(job) for job in ("ps", "worker")}
        assert codes == {"ps": 138, "worker": 138}, f"{codes}\n{run.logs()}"
        assert (run.out / "RUN_ID").read_text() == identity and (run.out / "TERM").read_text() == "2\n"
        start_tasks()
        run.wait_for_lines(5)
        run.tasks["chief"].send_signal(signal.SIGTERM)
        assert run.end("chief") == 143, run.logs()


def a_chief_that_was_stopped_loses_no_task():
    """For longer than a lease, and for several: who is alive keeps its place, and nothing is done again."""
    with ByHand("--num_epochs=100000", "--save_every=1000000", "--lease_seconds=5") as run:
        address = run.start_chief("--listen_address=127.0.0.1:0")
        run.start("ps", f"--chief_host={address}", "--task_index=0", "--listen_address=127.0.0.1:0")
        run.start("worker", f"--chief_host={address}", "--task_index=0")
        run.wait_for_lines(5)
        for seconds in (8, 16):
            run.tasks["chief"].send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            run.tasks["chief"].send_signal(signal.SIGCONT)
            run.wait_for_lines(5 + (run.out / "metrics.jsonl").read_text().count("\n"))
        log = run.log("chief")
        assert log.count("stood still for") == 2 and log.count(" registered, pid ") == 2, run.logs()
        assert "lineage 2" not in log and " is lost" not in log, run.logs()
        run.tasks["chief"].send_signal(signal.SIGTERM)
        codes = {job: run.end(job) for job in run.tasks}
        assert codes == {"chief": 143, "ps": 143, "worker": 143}, f"{codes}\n{run.logs()}"


def all_addresses_without_plaintext_are_refused():
    with ByHand() as run:
        assert run.start_chief("--listen_address=0.0.0.0:0") == ""
        assert run.end("chief") == 78, run.logs()
        assert "--insecure" in run.log("chief"), run.logs()


def a_chief_whose_tasks_stay_away_ends_and_names_them():
    with ByHand("--wait_seconds=2") as run:
        address = run.start_chief("--listen_address=127.0.0.1:0")
        run.start("ps", f"--chief_host={address}", "--task_index=0", "--listen_address=127.0.0.1:0")
        assert run.end("chief") == 138, run.logs()
        lines = [line for line in run.log("chief").splitlines() if line.startswith("shoal chief: ")]
        assert len(lines) == 1 and re.search("for .*worker/0 to register; start", lines[0]), run.logs()
        run.end("ps")


def a_task_whose_chief_stays_away_ends():
    with ByHand("--wait_seconds=2") as run:
        run.start("ps", "--chief_host=127.0.0.1:1", "--task_index=0", "--listen_address=127.0.0.1:0")
        assert run.end("ps") == 138, run.logs()
        lines = [line for line in run.log("ps").splitlines() if line.startswith("shoal ps: ")]
        assert len(lines) == 1, run.logs()


def training_without_workers_ends():
    with ByHand("--wait_seconds=30", "--num_epochs=1000", "--lease_seconds=4") as run:
        address = run.start_chief("--listen_address=127.0.0.1:0")
        run.start("ps", f"--chief_host={address}", "--task_index=0", "--listen_address=127.0.0.1:0")
        run.start("worker", f"--chief_host={address}", "--task_index=0")
        run.wait_for_lines(5)
        run.tasks["worker"].send_signal(signal.SIGKILL)
        assert run.end("chief") == 138, run.logs()
        assert "for worker/0 to come back" in run.log("chief"), run.logs()
        run.end("ps")


def the_example_of_the_help_runs():
    """Copied out of `shoal chief --help`, with a port that is free here."""
    text = subprocess.run([cluster.shoal_binary(), "chief", "--help"], capture_output=True, text=True, check=True).stdout
    lines = text.split("on this machine:")[1].split("The same on")[0].strip().splitlines()
    assert sum(line.strip().startswith("shoal ") for line in lines) == 5, lines
    with tempfile.TemporaryDirectory(prefix="shoal_test_") as directory:
        port = cluster.free_port()
        out = pathlib.Path(directory) / "run"
        script = "\n".join(lines).replace("FILE", SMALL).replace("DIR", str(out)).replace(":2220", f":{port}")
        script = f"shoal() {{ {cluster.shoal_binary()} \"$@\"; }}\n" + script
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        for name in ("run.textproto", "summary.json", "metrics.jsonl"):
            assert (out / name).exists(), f"no {name}\n{done.stderr[-3000:]}"
        assert "num_ps_tasks: 2" in (out / "run.textproto").read_text()
        # The run in the directory can be resumed by one command.
        more = subprocess.run([cluster.shoal_binary(), "train", f"--run={out / 'run.textproto'}", "--num_epochs=4",
                               "--num_ps_tasks=0", "--num_replicas=1"],
                              capture_output=True, text=True, timeout=120, check=False)
        assert more.returncode == 0, more.stderr


def a_worker_with_an_address_serves_its_health():
    def health(*arguments):
        return subprocess.run([cluster.shoal_binary(), "health", *arguments], capture_output=True, text=True,
                              timeout=60, check=False)

    with ByHand("--num_epochs=1000") as run:
        mine = f"127.0.0.1:{cluster.free_port()}"
        address = run.start_chief("--listen_address=127.0.0.1:0")
        run.start("worker", f"--chief_host={address}", "--task_index=0", f"--listen_address={mine}")
        deadline = time.monotonic() + 180
        while health(mine).returncode != 0:  # It lives, but has no plan before there is a ps.
            assert time.monotonic() < deadline, run.logs()
            time.sleep(0.1)
        unready = health(mine, "--service=worker")
        assert unready.returncode == 138 and "does not serve" in unready.stderr, unready
        run.start("ps", f"--chief_host={address}", "--task_index=0", "--listen_address=127.0.0.1:0")
        while health(mine, "--service=worker").returncode != 0:
            assert time.monotonic() < deadline, run.logs()
            time.sleep(0.1)
        # A port that is taken costs the worker only that.
        run.tasks["worker"].kill()
        run.tasks["worker"].wait()
        run.start("worker", f"--chief_host={address}", "--task_index=0", f"--listen_address={address}")
        while "registered as worker/0" not in run.log("worker"):
            assert time.monotonic() < deadline and run.tasks["worker"].poll() is None, run.logs()
            time.sleep(0.1)
        assert "no health service" in run.log("worker"), run.logs()


def a_task_that_starts_after_the_end_is_notified():
    with ByHand("--max_steps=3", "--num_epochs=1", "--lease_seconds=2") as run:
        run.flags = [flag.replace("--num_replicas=1", "--num_replicas=2") for flag in run.flags]
        address = f"127.0.0.1:{cluster.free_port()}"
        # A chief that has no launcher's pipe stays a while for those that come late. A task that comes even later reads
        # in the run's directory that nothing is left to do.
        run.start("chief", f"--listen_address={address}")
        run.start("ps", f"--chief_host={address}", "--task_index=0", "--listen_address=127.0.0.1:0")
        run.start("worker", f"--chief_host={address}", "--task_index=0")
        for job in ("worker", "ps"):
            assert run.end(job) == 0, run.logs()
        run.start("worker", f"--chief_host={address}", "--task_index=1")
        run.start("ps", f"--chief_host={address}", "--task_index=0", "--listen_address=127.0.0.1:0")
        for job in ("worker", "ps", "chief"):
            assert run.end(job) == 0, run.logs()


def a_task_that_comes_after_the_chief_has_gone_ends_unless_there_is_more_to_do():
    with ByHand("--max_steps=3", "--num_epochs=1", "--lease_seconds=2") as run:
        train = subprocess.run([cluster.shoal_binary(), "train", *run.flags], capture_output=True, text=True,
                               timeout=120, check=False)
        assert train.returncode == 0, train.stderr
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            chief = f"--chief_host=127.0.0.1:{nobody.getsockname()[1]}"
            for job in ("worker", "ps"):
                run.start(job, chief, "--task_index=0", "--listen_address=127.0.0.1:0")
            for job in ("worker", "ps"):
                assert run.end(job) == 0, run.logs()
                assert f"the run has ended without this {job}" in run.log(job), run.logs()
            # Longer than it takes to find a finished run's chief gone.
            run.flags = [flag.replace("--max_steps=3", "--max_steps=6") for flag in run.flags]
            for job in ("worker", "ps"):
                run.start(job, chief, "--task_index=0", "--listen_address=127.0.0.1:0", "--wait_seconds=9")
            for job in ("worker", "ps"):
                assert run.end(job) == 138, run.logs()


def a_task_whose_run_ends_while_it_waits_ends_with_it():
    with ByHand("--max_steps=3", "--num_epochs=1") as run, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # They look for the chief there, in vain.
        for job in ("worker", "ps"):
            run.start(job, f"--chief_host=127.0.0.1:{nobody.getsockname()[1]}", "--task_index=0",
                      "--listen_address=127.0.0.1:0")
        deadline = time.monotonic() + 180
        while not all("waiting for the chief" in run.log(job) for job in run.tasks):
            assert time.monotonic() < deadline, run.logs()
            time.sleep(0.05)
        train = subprocess.run([cluster.shoal_binary(), "train", *run.flags], capture_output=True, text=True,
                               timeout=120, check=False)
        assert train.returncode == 0, train.stderr
        for job in ("worker", "ps"):
            assert run.end(job) == 0, run.logs()
            assert f"the run has ended without this {job}" in run.log(job), run.logs()


def a_worker_of_another_run_is_refused():
    with ByHand() as run:
        address = run.start_chief("--listen_address=127.0.0.1:0")
        run.flags = [flag for flag in run.flags if not flag.startswith("--num_")]
        run.start("worker", f"--chief_host={address}", "--num_replicas=9", "--task_index=0")
        assert run.end("worker") == 78, run.logs()
        assert "num_replicas: worker/0 was started with 9, but the chief's run has 1" in run.log("worker"), run.logs()
        run.start("worker", f"--chief_host={address}", "--task_index=1")
        assert run.end("worker") == 78, run.logs()
        assert "worker/1: this run has num_replicas=1; use a --task_index below it" in run.log("worker"), run.logs()


def the_chief_logs_a_task_with_another_directory():
    with ByHand() as run:
        address = run.start_chief("--listen_address=127.0.0.1:0")
        other = f"{run.out}_of_mine"
        run.start("ps", f"--chief_host={address}", "--task_index=0", "--listen_address=127.0.0.1:0")
        run.flags = [flag.replace(str(run.out), other) for flag in run.flags]
        run.start("worker", f"--chief_host={address}", "--task_index=0")
        codes = {job: run.end(job) for job in run.tasks}
        assert codes == {"chief": 0, "ps": 0, "worker": 0}, f"{codes}\n{run.logs()}"
        said = [line for line in run.log("chief").splitlines() if "--out: " in line]
        assert len(said) == 1 and f"--out: {other} at worker/0, but {run.out} at the chief" in said[0], run.logs()


def a_run_by_hand_can_be_asked_by_its_directory():
    with ByHand() as run:
        address = run.start_chief("--listen_address=0.0.0.0:0", "--insecure", "--num_epochs=1000")
        asked = subprocess.run([cluster.shoal_binary(), "status", str(run.out)], capture_output=True, text=True,
                               timeout=60, check=False)
        assert asked.returncode == 0, f"{asked.stderr}\n{run.logs()}"
        assert "waiting" in asked.stdout, asked.stdout
        port = address[address.rfind(":"):]
        assert port in (run.out / "cluster.textproto").read_text(), f"not {port}"


def a_run_that_is_stopped_ends_all_tasks_as_stopped():
    with ByHand() as run:
        address = run.start_chief("--listen_address=127.0.0.1:0", "--num_epochs=100000")
        run.start("ps", f"--chief_host={address}", "--task_index=0", "--listen_address=127.0.0.1:0")
        run.start("worker", f"--chief_host={address}", "--task_index=0")
        deadline = time.monotonic() + 180
        metrics = run.out / "metrics.jsonl"
        while not metrics.exists() or metrics.stat().st_size == 0:
            assert time.monotonic() < deadline, run.logs()
            time.sleep(0.05)
        stopped = subprocess.run([cluster.shoal_binary(), "stop", str(run.out)], capture_output=True, text=True,
                                 timeout=90, check=False)
        assert stopped.returncode == 0, f"{stopped.stderr}\n{run.logs()}"
        codes = {job: run.end(job) for job in run.tasks}
        assert codes == {"chief": 143, "ps": 143, "worker": 143}, f"{codes}\n{run.logs()}"
        assert run.log("worker").splitlines()[-1] == "shoal worker: stopped on request", run.logs()


if __name__ == "__main__":
    cluster.main([the_example_of_the_help_runs, a_worker_of_another_run_is_refused, a_chief_serves_on_all_addresses,
                  a_worker_with_an_address_serves_its_health,
                  a_task_that_starts_after_the_end_is_notified,
                  a_task_that_comes_after_the_chief_has_gone_ends_unless_there_is_more_to_do,
                  a_task_whose_run_ends_while_it_waits_ends_with_it,
                  the_chief_logs_a_task_with_another_directory,
                  a_run_that_is_stopped_ends_all_tasks_as_stopped,
                  a_run_by_hand_can_be_asked_by_its_directory, all_addresses_without_plaintext_are_refused,
                  a_chief_waits_for_the_one_before_it_to_let_go_of_the_directory,
                  a_chief_that_is_killed_before_its_first_checkpoint_has_its_tasks_start_again,
                  a_chief_that_was_stopped_loses_no_task,
                  a_chief_whose_tasks_stay_away_ends_and_names_them, a_task_whose_chief_stays_away_ends,
                  training_without_workers_ends])
