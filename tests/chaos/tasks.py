"""One run whose tasks are started one by one, restarted as a cluster's supervisor would, and disturbed on the way.

    with Tasks(ps=2, workers=2) as run:
        run.start()
        run.wait_for_step(50)
        run.proxy.add("r", kind="error", code=13, method="ReportSteps", count=1)
        run.kill("ps", 1)
        run.finish()

Calls go through the proxy (tests/chaos/proxy), a link for the chief ("chief") and each ps ("ps0", "ps1")."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "real_process"))
import cluster  # noqa: E402  pylint: disable=wrong-import-position

SMALL = str(HERE.parent / "real_process" / "small.textproto")
STEPS_PER_EPOCH = 27  # SYNC, of small.textproto
BATCHES_PER_EPOCH = 81
EXAMPLES_PER_EPOCH = 4030
PERMANENT = {0, 1, 2, 64, 65, 78}  # Exit codes with which a supervisor does not start a task again.
STOPPED = {130, 143}


def program(name):
    """A program of this folder, as Bazel built it; from another directory if CHAOS_PROGRAMS names one."""
    places = (os.environ.get("CHAOS_PROGRAMS", "tests/chaos"), "tests/chaos", "bazel-bin/tests/chaos")
    for path in (pathlib.Path(place) / name for place in places):
        if path.exists():
            return str(path.resolve())
    raise AssertionError(f"there is no {name}: bazel build //tests/chaos:all")


class Proxy:
    def __init__(self, seed=1):
        self.process = subprocess.Popen([program("proxy"), str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, start_new_session=True)
        self.lock = threading.Lock()

    def command(self, line):
        with self.lock:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline().strip()
        assert answer and not answer.startswith("error"), f"proxy, {line}: {answer}"
        return answer

    def add(self, name, **fields):
        fields = {key.rstrip("_"): value for key, value in fields.items()}
        self.command(f"add {name} " + " ".join(f"{key}={value}" for key, value in fields.items()))

    def remove(self, name):
        self.command(f"remove {name}")

    def counts(self):
        return json.loads(self.command("counts"))

    def disturbed(self, name):
        return self.counts()["rules"][name]["disturbed"]

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Task:
    def __init__(self, job, index, command, environment, log):
        self.job, self.index, self.command, self.environment, self.log = job, index, command, environment, log
        self.process = None
        self.codes = []  # Of every process that has ended, as a shell shows them.
        self.starts = 0
        self.wanted = False

    def start(self):
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, start_new_session=True,
                                            env={**os.environ, **self.environment})
        self.starts += 1
        self.wanted = True

    def poll(self):
        """Takes note of an end. True: somebody should start it again."""
        if self.process is None or self.process.poll() is None:
            return False
        code = self.process.returncode
        self.codes.append(code if code >= 0 else 128 - code)
        self.process = None
        self.wanted = self.codes[-1] not in PERMANENT | STOPPED
        return self.wanted

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""


class Tasks:
    """Use as a context: whatever is left of it is killed at the end."""

    def __init__(self, *flags, ps=2, workers=2, run_file=SMALL, restarts=True, proxied=True, seed=1, out=None,
                 preload=None, hosts=None, direct=()):
        # Paths of sockets are short, wherever tests have their files.
        self.directory = tempfile.TemporaryDirectory(prefix="shoal_chaos_", dir="/tmp")
        self.out = pathlib.Path(out) if out else pathlib.Path(self.directory.name) / "run"
        self.restarts = restarts
        self.restart_delay = {}  # Job -> seconds.
        self.hosts = hosts or {}  # (job, index) -> a Host of tests/cluster/network.py
        self.direct = direct  # Jobs that are called without the proxy.
        self.proxy = Proxy(seed) if proxied else None
        self.lock = threading.RLock()
        self.tasks = {}
        self.ending = threading.Event()
        self.supervisor = None
        self.steps = Steps(self.out / "metrics.jsonl")
        self.flags = [f"--run={run_file}", f"--out={self.out}", f"--num_ps_tasks={ps}", f"--num_replicas={workers}",
                      *flags]
        if proxied:
            self.flags.append("--set=cluster.no_shared_memory=true")
        self._make("chief", 0, preload)
        for index in range(ps):
            self._make("ps", index, preload)
        for index in range(workers):
            self._make("worker", index, preload)

    def _make(self, job, index, preload):
        flags = []
        host = self.hosts.get((job, index))
        address = host.address if host else "127.0.0.1"
        if job != "chief":
            flags += [f"--chief_host={self.chief}", f"--task_index={index}"]
        if job != "worker":
            mine = f"{address}:{cluster.free_port()}"
            dialled = mine
            if self.proxy and job not in self.direct:
                dialled = f"127.0.0.1:{cluster.free_port()}"
                self.proxy.command(f"link {'chief' if job == 'chief' else f'ps{index}'} {dialled} {mine}")
            flags += [f"--listen_address={mine}"]
            if host:
                flags += ["--insecure"]
            if job == "chief":
                self.chief = dialled
                self.chief_itself = mine
            else:
                flags += [f"--advertise={dialled}"]
        command = [cluster.shoal_binary(), job, *self.flags, *flags]
        log = pathlib.Path(self.directory.name) / f"{job}-{index}.log"
        environment = (preload or {}).get((job, index), (preload or {}).get(job, {}))
        self.tasks[job, index] = Task(job, index, host.command(command) if host else command, environment, log)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.ending.set()
        if self.supervisor:
            self.supervisor.join()
        for task in self.tasks.values():
            if task.process is not None:
                try:
                    os.killpg(task.process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                task.process.wait()
        if self.proxy:
            self.proxy.end()
        self.steps.end()
        self.directory.cleanup()

    def start(self):
        for task in self.tasks.values():
            task.start()
        self.supervisor = threading.Thread(target=self._supervise, daemon=True)
        self.supervisor.start()
        return self

    def _supervise(self):
        due = {}
        while not self.ending.wait(0.02):
            with self.lock:
                for key, task in self.tasks.items():
                    if task.poll() and self.restarts and not self._over():
                        # A task that ends again and again is not started without a pause.
                        pause = self.restart_delay.get(task.job, 0.1 if task.starts < 5 else 1)
                        due[key] = time.monotonic() + pause
                for key, when in list(due.items()):
                    if time.monotonic() >= when:
                        del due[key]
                        if not self._over():
                            self.tasks[key].start()

    def _over(self):
        chief = self.tasks["chief", 0]
        return bool(chief.codes) and chief.codes[-1] in PERMANENT | STOPPED

    # The faults of tasks.

    def pid(self, job, index):
        task = self.tasks[job, index]
        assert task.alive(), f"{job}/{index} does not run\n{self.logs()}"
        return task.process.pid

    def signal(self, job, index, how):
        with self.lock:
            os.kill(self.pid(job, index), how)

    def kill(self, job, index):
        self.signal(job, index, signal.SIGKILL)

    def codes(self):
        """Task -> the codes of its processes that have ended."""
        return {f"{job}/{index}": task.codes for (job, index), task in self.tasks.items() if task.codes}

    def unexpected(self, *expected):
        """Codes other than these."""
        return {name: codes for name, codes in self.codes().items() if set(codes) - set(expected)}

    def resident_mebibytes(self, job, index):
        try:
            pages = int(pathlib.Path(f"/proc/{self.pid(job, index)}/statm").read_text().split()[1])
        except FileNotFoundError:
            return 0
        return pages * os.sysconf("SC_PAGESIZE") >> 20

    # The conditions that it waits for.

    def wait_until(self, condition, timeout, what):
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout} s: {what}\n{self.logs()}"
            time.sleep(0.02)

    def step(self):
        return self.steps.newest

    def wait_for_step(self, step, timeout=90):
        def there():
            assert not self._over() or self.step() >= step, f"ended early: {self.codes()}\n{self.logs()}"
            return self.step() >= step
        self.wait_until(there, timeout, f"step {step}, it is at {self.step()}")

    def end(self, timeout=180):
        """Waits until the chief has ended for good and nothing is left; returns the chief's code."""
        self.wait_until(self._over, timeout, f"the run ends; step {self.step()}, codes {self.codes()}")
        self.wait_until(lambda: all(task.process is None for task in self.tasks.values()), 60,
                        "all tasks end after the chief")
        return self.tasks["chief", 0].codes[-1]

    def logs(self, lines=12):
        parts = [f"codes: {self.codes()}, step {self.step()}"]
        for (job, index), task in self.tasks.items():
            parts.append(f"--- {job}/{index}\n" + "\n".join(line[:300] for line in task.text().splitlines()[-lines:]))
        return "\n".join(parts)

    # The files that it leaves.

    metrics = cluster.Run.metrics
    summary = cluster.Run.summary
    tensors = cluster.Run.tensors
    digest = cluster.Run.digest

    def checkpoints(self):
        """Steps of the durable ones."""
        return sorted(int(path.parent.name.split("-")[1]) for path in (self.out / "checkpoints").glob("*/MANIFEST"))


class Steps:
    """Follows metrics.jsonl: when a line came, and which. A rollback cuts the file back."""

    def __init__(self, path):
        self.path = path
        self.newest = 0
        self.advances = []  # (monotonic seconds, step)
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._follow, daemon=True)
        self.thread.start()

    def _follow(self):
        while not self.ending.wait(0.01):
            step = self._last()
            if step != self.newest:
                self.newest = step
                self.advances.append((time.monotonic(), step))

    def _last(self):
        try:
            with open(self.path, "rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - 4096))
                for line in reversed(file.read().split(b"\n")):
                    if line.startswith(b"{") and line.endswith(b"}"):
                        return json.loads(line)["step"]
        except (OSError, ValueError):
            pass
        return 0

    def recovery(self, fault, healed):
        """Seconds from the end of the fault until steps flow: until the longest standstill since `fault` was over, if
        that is later than `healed`."""
        times = [fault] + [when for when, _ in self.advances if when > fault]
        longest, end = max(((b - a, b) for a, b in zip(times, times[1:])), default=(0, fault))
        return max(0.0, end - healed) if longest > 0 else 0.0

    def end(self):
        self.ending.set()
        self.thread.join()


_references = {}


def reference(*flags):
    """Returns the results of an undisturbed run: the digest of its variables and its exported model."""
    if flags not in _references:
        with cluster.Run(SMALL, "--num_ps_tasks=1", "--num_replicas=1", *flags) as run:
            run.finish(timeout=300)
            _references[flags] = run.digest()
    return _references[flags]


def lost_and_doubled(run, epochs, synchronous):
    """SYNC: steps without a line, and lines too many. ASYNC: in batches, by the examples that were counted."""
    lines = run.metrics()
    doubled = len(lines) - len({line["step"] for line in lines})
    if synchronous:
        return len(set(range(1, epochs * STEPS_PER_EPOCH + 1)) - {line["step"] for line in lines}), doubled
    missing = epochs * EXAMPLES_PER_EPOCH - sum(line["examples"] for line in lines)
    return max(0, -(-missing // 50)), max(doubled, missing // -50)


def judge_sync(run, flags, epochs):
    """0 lost, 0 doubled, the same bytes. Returns how many were lost and doubled."""
    lost, doubled = lost_and_doubled(run, epochs, True)
    steps = [line["step"] for line in run.metrics()]
    assert steps == list(range(1, epochs * STEPS_PER_EPOCH + 1)), f"{lost} steps lost, {doubled} doubled\n{run.logs()}"
    examples = sum(line["examples"] for line in run.metrics())
    assert examples == epochs * EXAMPLES_PER_EPOCH, f"{examples} examples counted"
    assert run.digest() == reference(*flags), f"other bytes than without faults\n{run.logs()}"
    return lost, doubled


def judge_async(run, epochs):
    """Every batch counted once: by the chief's summary, and by the lines of metrics.jsonl."""
    summary = run.summary()
    assert summary["status"] == "finished", f"{summary}\n{run.logs()}"
    assert summary["steps"] == epochs * BATCHES_PER_EPOCH, f"{summary['steps']} updates\n{run.logs()}"
    lost, doubled = lost_and_doubled(run, epochs, False)
    steps = [line["step"] for line in run.metrics()]
    counted = sum(line["examples"] for line in run.metrics())
    assert steps == sorted(set(steps)), f"{doubled} steps doubled"
    assert counted == epochs * EXAMPLES_PER_EPOCH, f"{counted} examples counted, {lost} batches lost\n{run.logs()}"
    return lost, doubled
