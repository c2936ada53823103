#!/usr/bin/env python3
"""Trains with many worker processes against few ps on this machine, and watches the ps's memory.

usage: tests/benchmark/many_workers.py --shoal=bazel-bin/deploy/shoal [--run=FILE] [--seconds=120] [--workers=64]
           [--ps=2] [FLAG...]

Ends with 1, and says why, if a task fails or is restarted, if the run makes no step for 60 s, or if a ps's memory still
grows: its peak in the last third of the time may be a tenth above that of the second third. FLAGs go to `shoal train`.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

def tasks_of(out, job):
    """Processes of the run's tasks: (pid, task_index)."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if len(arguments) > 1 and arguments[1] == job and any(str(out) in argument for argument in arguments):
            index = [a.split("=")[1] for a in arguments if a.startswith("--task_index=")]
            found.append((int(entry.name), int(index[0]) if index else 0))
    return found


def resident_mebibytes(pid):
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) >> 10
    except OSError:
        pass
    return 0


def step_of(out):
    try:
        with open(out / "metrics.jsonl", "rb") as lines:
            lines.seek(0, os.SEEK_END)
            lines.seek(max(0, lines.tell() - 65536))
            complete = [line for line in lines.read().split(b"\n")[:-1] if line.startswith(b"{")]
        return json.loads(complete[-1])["step"] if complete else 0
    except (OSError, ValueError):
        return 0


class Watch:
    """Records what the run has done, second by second."""

    def __init__(self, out, seconds):
        self.out = out
        self.seconds = seconds
        self.samples = []  # (second since the first step, step, MiB of the largest ps)
        self.pids = {}

    def problem(self):
        now = dict((index, pid) for pid, index in tasks_of(self.out, "ps"))
        for index, pid in now.items():
            if self.pids.setdefault(index, pid) != pid:
                return f"ps/{index} was restarted"
        step = step_of(self.out)
        if step > 0:
            begin = self.samples[0][0] if self.samples else time.monotonic()
            self.samples.append((time.monotonic() if self.samples else begin, step,
                                 max([resident_mebibytes(pid) for pid in now.values()] + [0])))
        recent = [s for at, s, _ in self.samples if at > time.monotonic() - 60]
        if len(recent) > 50 and recent[0] == recent[-1]:
            return "no step for 60 s"
        return None

    def is_over(self):
        return bool(self.samples) and self.samples[-1][0] - self.samples[0][0] >= self.seconds

    def verdict(self):
        third = len(self.samples) // 3
        second = max(mebibytes for _, _, mebibytes in self.samples[third:2 * third])
        last = max(mebibytes for _, _, mebibytes in self.samples[2 * third:])
        first, end = self.samples[0], self.samples[-1]
        print(f"{(end[1] - first[1]) / (end[0] - first[0]):.2f} steps/s; a ps has at most {second} MiB in the second "
              f"third of the time, {last} MiB in the last", flush=True)
        return None if last <= second * 1.1 + 16 else "the memory of a ps grows"


def deaths_in(console):
    """Lines of the launcher about tasks that died."""
    return [line for line in console.read_text(errors="replace").splitlines() if " died (" in line]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shoal", required=True)
    parser.add_argument("--run", default="deploy/runs/benchmark_mlp.textproto", help="a run file")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--ps", type=int, default=2)
    options, flags = parser.parse_known_args()
    directory = tempfile.mkdtemp(prefix="shoal_many_workers_")
    out = pathlib.Path(directory) / "run"
    command = [options.shoal, "train", f"--run={options.run}", f"--out={out}", f"--num_replicas={options.workers}",
               f"--num_ps_tasks={options.ps}", f"--set=sync.replicas_to_aggregate={options.workers}",
               "--batch_size=16", "--num_epochs=1000000", "--max_steps=0", "--eval_every=0", *flags]
    console = pathlib.Path(directory) / "console"
    with open(console, "w") as output:
        run = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    watch = Watch(out, options.seconds)
    started = time.monotonic()
    problem = None
    while problem is None and not watch.is_over():
        time.sleep(1)
        if run.poll() is not None:
            problem = f"the run ended with {run.returncode}"
        elif not watch.samples and time.monotonic() - started > 300:
            problem = "no step in the first 300 s"
        else:
            problem = watch.problem()
    if run.poll() is None:
        run.send_signal(signal.SIGINT)
        try:
            run.wait(120)
        except subprocess.TimeoutExpired:
            problem = problem or "the run does not stop"
            os.killpg(run.pid, signal.SIGKILL)
    problem = problem or watch.verdict() or next(iter(deaths_in(console)), None)
    if problem is None:
        shutil.rmtree(directory)
        return 0
    print(f"FAILED: {problem}; everything is in {directory}", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
