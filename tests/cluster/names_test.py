#!/usr/bin/env python3
"""Tasks on hosts whose names come and go, as those of pods do: a name that is there again is found within seconds, and
a name service that does not answer holds up nobody who is to end."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("SHOAL", str(ROOT / "bazel-bin/deploy/shoal"))

from network import Network, wait_until  # noqa: E402

RUN_FILE = ROOT / "tests/real_process/small.textproto"
# gRPC waits by then some twenty seconds before it looks again by itself.
UNKNOWN_SECONDS = 45
# Takes every question and never answers: a look-up ends after ten seconds.
SILENT_NAME_SERVER = """
import signal, socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
signal.pause()
"""


class Tasks:
    """Tasks of one run on the hosts of a network, with a log each."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.flags = [f"--run={RUN_FILE}", f"--out={self.directory / 'run'}", "--num_ps_tasks=1", "--num_replicas=1",
                      "--insecure"]
        self.metrics = self.directory / "run/metrics.jsonl"
        self.logs = {}

    def start(self, host, job, *flags):
        self.logs[job] = self.directory / f"{job}.log"
        with open(self.logs[job], "w", encoding="utf-8") as log:
            return host.start([os.environ["SHOAL"], job, *self.flags, *flags], stdout=log, stderr=subprocess.STDOUT)

    def wait(self, condition, seconds, what):
        try:
            wait_until(condition, seconds, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.said()}") from None

    def log(self, job):
        return self.logs[job].read_text(errors="replace")

    def said(self):
        return "\n".join(f"--- {job}\n{self.log(job)[-3000:]}" for job in self.logs)


def a_ps_whose_name_was_unknown_is_found_within_seconds(network, directory):
    tasks = Tasks(directory)
    chief_host, ps_host, worker_host = network.hosts
    chief = f"--chief_host={chief_host.address}:2222"
    started = [tasks.start(chief_host, "chief", "--listen_address=0.0.0.0:2222"),
               tasks.start(ps_host, "ps", "--task_index=0", chief, "--listen_address=0.0.0.0:0", "--advertise=ps0"),
               tasks.start(worker_host, "worker", "--task_index=0", chief)]
    tasks.wait(lambda: all(f"{task} registered" in tasks.log("chief") for task in ("ps/0", "worker/0")), 30,
               "ps and worker register")
    time.sleep(UNKNOWN_SECONDS)  # The case tests a wait.
    assert not tasks.metrics.exists() or not tasks.metrics.read_text(), "trained with a ps that nobody knows"
    network.set_names({"ps0": ps_host.address})
    start = time.monotonic()
    tasks.wait(lambda: tasks.metrics.exists() and tasks.metrics.read_text(), 20, "the first step")
    print(f"           found after {time.monotonic() - start:.1f} s", flush=True)
    codes = [process.wait(timeout=120) for process in started]
    assert codes == [0, 0, 0], f"{codes}\n{tasks.said()}"


def a_name_service_that_does_not_answer_keeps_no_task_from_ending(network, directory):
    tasks = Tasks(directory)
    host = network.hosts[0]
    host.start([sys.executable, "-c", SILENT_NAME_SERVER])
    worker = tasks.start(host, "worker", "--task_index=0", "--chief_host=nobody.example:2222")
    tasks.wait(lambda: "waiting for the chief's name" in tasks.log("worker"), 5, "the worker says what it waits for")
    worker.terminate()
    code = worker.wait(timeout=5)
    assert code == 143 and 'cannot look up "nobody.example"' in tasks.log("worker"), f"{code}\n{tasks.said()}"


def main():
    tests = [a_ps_whose_name_was_unknown_is_found_within_seconds,
             a_name_service_that_does_not_answer_keeps_no_task_from_ending]
    for test in tests:
        if sys.argv[1:] and test.__name__ not in sys.argv[1:]:
            continue
        start = time.monotonic()
        with Network(hosts=3) as network, tempfile.TemporaryDirectory(prefix="shoal_names_") as directory:
            try:
                test(network, directory)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                sys.exit(f"[ FAILED ] {test.__name__} ({time.monotonic() - start:.1f} s)\n{error}")
        print(f"[ OK     ] {test.__name__} ({time.monotonic() - start:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
