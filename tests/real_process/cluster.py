"""Starts `shoal train` as a user would, finds its processes, kills them, reads what a run leaves behind."""
import hashlib
import json
import os
import pathlib
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback


_ports = set()


def free_port():
    """A port that nobody has, below those that systems give to clients: a connection of another process does not take it
    before the task that has to serve there."""
    while True:
        port = random.randrange(20000, 32000)
        if port in _ports:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _ports.add(port)
        return port


def shoal_binary():
    return os.environ.get("SHOAL", str(pathlib.Path("deploy/shoal").resolve()))


class Run:
    """One `shoal train`. Use as a context: whatever is left of it is killed at the end."""

    def __init__(self, run_file, *flags, out=None):
        self.directory = tempfile.TemporaryDirectory(prefix="shoal_test_")
        self.out = pathlib.Path(out) if out else pathlib.Path(self.directory.name) / "run"
        self.command = [shoal_binary(), "train", f"--run={run_file}", f"--out={self.out}", *flags]
        self.process = None
        self.seen = ""  # Of the console, before `wait` reads the rest.

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.directory.cleanup()

    def start(self):
        self.seen = ""
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        start_new_session=True)
        return self

    def wait(self, timeout=300):
        """Returns the exit code; fails with what the tasks wrote when it takes too long."""
        try:
            rest, _ = self.process.communicate(timeout=timeout)
            self.output = self.seen + rest
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout} s\n{self.logs()}") from None
        return self.process.returncode

    def finish(self, timeout=300, code=0):
        if self.process is None:
            self.start()
        got = self.wait(timeout)
        assert got == code, f"exit code {got}, not {code}\n{self.output}\n{self.logs()}"
        return self

    def logs(self, lines=15):
        parts = []
        for path in sorted((self.out / "logs").glob("*.log")):
            parts.append(f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-lines:]))
        return "\n".join(parts)

    def pids(self, job=None, index=None):
        """Live processes of this run: all, or those of one task."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                arguments = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except (FileNotFoundError, ProcessLookupError, PermissionError, IndexError):
                continue
            if state == "Z" or not any(str(self.out) in a for a in arguments):
                continue
            if job is not None and (len(arguments) < 2 or arguments[1] != job):
                continue
            if index is not None and f"--task_index={index}" not in arguments:
                continue
            found.append(int(entry.name))
        return found

    def kill(self, job, index, how=signal.SIGKILL):
        pids = self.pids(job, index)
        assert len(pids) == 1, f"{job}/{index} is {pids}\n{self.logs()}"
        os.kill(pids[0], how)
        return pids[0]

    def metrics(self):
        path = self.out / "metrics.jsonl"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]

    def step(self):
        lines = self.metrics()
        return lines[-1]["step"] if lines else 0

    def wait_for_step(self, step, timeout=180):
        deadline = time.monotonic() + timeout
        while self.step() < step:
            assert self.process.poll() is None, f"ended early with {self.process.returncode}\n{self.logs()}"
            assert time.monotonic() < deadline, f"step {self.step()}, not {step}, after {timeout} s\n{self.logs()}"
            time.sleep(0.02)

    def wait_for_all(self, timeout=180):
        """Waits until every task has registered and the run waits for nobody: it trains with one worker, too."""
        deadline = time.monotonic() + timeout
        while True:
            asked = subprocess.run([shoal_binary(), "status", str(self.out), "--json"], capture_output=True, text=True,
                                   timeout=90, check=False)
            if asked.returncode == 0:
                status = json.loads(asked.stdout)
                if status.get("phase") == "training" and status["missing"] == [] and status["waits_for"] == "":
                    return
            assert self.process.poll() is None, f"ended early with {self.process.returncode}\n{self.logs()}"
            assert time.monotonic() < deadline, f"not all are there: {asked.stdout}{asked.stderr}\n{self.logs()}"
            time.sleep(0.1)

    def wait_for_checkpoint(self, timeout=120):
        deadline = time.monotonic() + timeout
        while not list(self.out.glob("checkpoints/*/MANIFEST")):
            assert self.process.poll() is None and time.monotonic() < deadline, self.logs()
            time.sleep(0.02)

    def wait_for_output(self, words, timeout=180):
        """Waits until the console has said so."""
        deadline = time.monotonic() + timeout
        console = self.process.stdout.fileno()
        while words not in self.seen:
            ready, _, _ = select.select([console], [], [], max(0, deadline - time.monotonic()))
            read = os.read(console, 1 << 16).decode(errors="replace") if ready else ""
            assert read, f"the console did not say {words!r}:\n{self.seen}\n{self.logs()}"
            self.seen += read

    def summary(self):
        return json.loads((self.out / "summary.json").read_text())

    def tensors(self):
        """Name -> bytes of the exported model."""
        path = self.out / "checkpoints"
        exported = sorted(path.glob("*/model.safetensors"), key=lambda p: p.stat().st_mtime)
        assert exported, f"no exported model under {path}\n{self.logs()}"
        data = exported[-1].read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + length])
        header.pop("__metadata__", None)
        return {name: data[8 + length + t["data_offsets"][0]:8 + length + t["data_offsets"][1]]
                for name, t in header.items()}

    def largest_slice(self):
        """Bytes of the largest tensor in the shards of the newest checkpoint."""
        manifests = sorted((self.out / "checkpoints").glob("*/MANIFEST"), key=lambda p: p.stat().st_mtime)
        largest = 0
        for shard in manifests[-1].parent.glob("shard-*.safetensors"):
            data = shard.read_bytes()
            (length,) = struct.unpack("<Q", data[:8])
            header = json.loads(data[8:8 + length])
            header.pop("__metadata__", None)
            for tensor in header.values():
                begin, end = tensor["data_offsets"]
                largest = max(largest, end - begin)
        return largest

    def digest(self):
        tensors = self.tensors()
        digest = hashlib.sha256()
        for name in sorted(tensors):
            digest.update(name.encode() + b"\0" + tensors[name])
        return digest.hexdigest()

    def assert_nothing_left(self, timeout=180):
        deadline = time.monotonic() + timeout
        while self.pids():
            assert time.monotonic() < deadline, f"still there: {self.pids()}\n{self.logs()}"
            time.sleep(0.05)


def main(tests):
    """Runs the functions given on the command line by name, or all. Exits with 1 if one failed, and with 2 for an unknown name."""
    known = {test.__name__: test for test in tests}
    wanted = sys.argv[1:] or list(known)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"no such test: {', '.join(unknown)}; the tests are {', '.join(known)}", file=sys.stderr)
        sys.exit(2)
    names = [name for name in known if name in wanted]
    failed = 0
    for name in names:
        start = time.monotonic()
        try:
            known[name]()
            print(f"[ OK     ] {name} ({time.monotonic() - start:.1f} s)", flush=True)
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            if not isinstance(error, AssertionError):
                traceback.print_exc()
            print(f"[ FAILED ] {name} ({time.monotonic() - start:.1f} s)\n{error}", flush=True)
    print(f"ran {len(names)} tests, {failed} failed", flush=True)
    sys.exit(1 if failed else 0)
