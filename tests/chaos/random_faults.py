"""Faults drawn at random over small runs, one after the other, SYNC and ASYNC in turn: what was injected, lost and
doubled, and how long it took until steps flowed again."""
import collections
import concurrent.futures
import contextlib
import multiprocessing
import os
import random
import signal
import statistics
import time

import recipes
import tasks
from tasks import Tasks, judge_async, judge_sync

# The codes that libraries, quotas and middleboxes answer on their own.
CODES = (1, 2, 4, 7, 8, 12, 13, 14, 16)
METHODS = {"chief": ("ReportSteps", "ReportShard", "ReportEvaluation", "Heartbeat", "LeaseBatches"),
           "ps": ("Exchange", "RequestCut")}
QUIET_STEPS = 12  # So many steps after a fault count as: they flow again.


class Row:
    def __init__(self):
        self.injected, self.lost, self.doubled, self.recoveries = 0, 0, 0, []


class Table:
    """Fault x task x mode."""

    def __init__(self):
        self.rows = collections.defaultdict(Row)

    def injected(self):
        return sum(row.injected for row in self.rows.values())

    def add(self, rows):
        for key, row in rows.items():
            mine = self.rows[key]
            mine.injected += row.injected
            mine.lost += row.lost
            mine.doubled += row.doubled
            mine.recoveries += row.recoveries

    def print(self):
        print(f"| {'fault':26} | {'task':6} | {'mode':5} | injected | lost | doubled | recovery, median | max |")
        print("|---|---|---|---|---|---|---|---|")
        for (fault, task, mode), row in sorted(self.rows.items()):
            middle = statistics.median(row.recoveries) if row.recoveries else 0
            largest = max(row.recoveries, default=0)
            print(f"| {fault:26} | {task:6} | {mode:5} | {row.injected} | {row.lost} | {row.doubled} | {middle:.2f} s "
                  f"| {largest:.2f} s |", flush=True)


def kill(run, draw, job, index):
    del draw
    run.kill(job, index)
    return "kill -9", 0


def stop(run, draw, job, index):
    """Shorter than a lease, or longer: then the task is replaced, or, as the chief, pardoned."""
    seconds = draw.choice((0.5, 2, 6))
    run.signal(job, index, signal.SIGSTOP)
    time.sleep(seconds)
    run.signal(job, index, signal.SIGCONT)
    return f"SIGSTOP {'above' if seconds > run.lease else 'below'} the lease", seconds


def link_of(job, index):
    return "chief" if job == "chief" else f"ps{index}"


def through_proxy(run, draw, name, job, index, seconds, **rule):
    """Disturbs what reaches the task, or for a worker what it sends."""
    where = {"from_": f"worker/{index}"} if job == "worker" else {"link": link_of(job, index)}
    run.proxy.add(name, **where, **rule)
    time.sleep(seconds)
    run.proxy.remove(name)


def delay(run, draw, job, index):
    through_proxy(run, draw, "fault", job, index, 2, kind="delay", ms=draw.choice((50, 300)))
    return "calls 50 or 300 ms late", 2


def loss(run, draw, job, index):
    through_proxy(run, draw, "fault", job, index, 2, kind=draw.choice(("drop", "lose")), chance=0.1)
    return "loss of 10 % of calls", 2


def one_way(run, draw, job, index):
    through_proxy(run, draw, "fault", job, index, 2, kind=draw.choice(("drop", "lose")))
    return "one way lost for 2 s", 2


def link(run, draw, job, index):
    """A worker and one ps do not reach each other, all others do: below or above the lease."""
    seconds = draw.choice((2, 7))
    run.proxy.add("fault", kind=draw.choice(("drop", "lose")), link=link_of("ps", draw.randrange(2)),
                  from_=f"{job}/{index}")
    time.sleep(seconds)
    run.proxy.remove("fault")
    return f"one ps out of reach {'above' if seconds > run.lease else 'below'} the lease", seconds


def code(run, draw, job, index):
    """A few wrong answers of one method, or of any."""
    methods = METHODS["chief" if job == "chief" else "ps"] if job != "worker" else METHODS["chief"] + METHODS["ps"]
    where = {"from_": f"worker/{index}"} if job == "worker" else {"link": link_of(job, index)}
    run.proxy.add("fault", kind=draw.choice(("error", "replace")), code=draw.choice(CODES), count=draw.choice((1, 5)),
                  method=draw.choice(methods), **where)
    time.sleep(1)
    run.proxy.remove("fault")
    return "wrong codes", 1


def cut(run, draw, job, index):
    del draw
    run.proxy.command(f"cut {link_of(job, index)}")
    return "connections cut", 0


def slow_disk(run, draw, job, index):
    del job, index
    run.system.set(sync_milliseconds=draw.choice((200, 1000)))
    time.sleep(2)
    run.system.set()
    return "disk 0.2 or 1 s slower", 2


def clock_jump(run, draw, job, index):
    del draw, job, index
    # Ahead of what waits in the kernel know: as if the time were set forward. Set back, it stops the timers of gRPC.
    run.system.set(realtime_seconds=-3600)
    time.sleep(1)
    run.system.set()
    return "time of day jumps an hour", 1


def full_disk(run, draw, job, index):
    del job, index
    with recipes.full(run.disk):
        time.sleep(draw.choice((1, 3)))
    return "disk full", 1


# Fault -> the jobs that it strikes.
FAULTS = ((kill, ("worker", "ps", "chief")), (stop, ("worker", "ps", "chief")), (delay, ("worker", "ps", "chief")),
          (loss, ("worker", "ps", "chief")), (one_way, ("worker", "ps", "chief")), (code, ("worker", "ps", "chief")),
          (cut, ("ps", "chief")), (slow_disk, ("ps",)), (clock_jump, ("worker",)), (link, ("worker",)), (full_disk, ("all",)))
# Every second pair of a SYNC and an ASYNC run clips gradients: then a step also exchanges norms and a scale.
CLIPPED = "--set=optimizer.clip_by_global_norm=1"
PAIRS = [(fault, job) for fault, jobs in FAULTS for job in jobs]


class RandomRun:
    """Faults over one run of `epochs`."""

    def __init__(self, table, draw, synchronous, clipped, epochs, lease, only=None, fault_names=None):
        self.table, self.draw, self.synchronous, self.epochs = table, draw, synchronous, epochs
        self.lease = lease
        self.pairs = [(fault, job) for fault, job in PAIRS
                      if (only is None or job in only) and (fault_names is None or fault.__name__ in fault_names)]
        self.length = (f"--num_epochs={epochs}", *([CLIPPED] if clipped else []))
        self.struck = []
        if os.geteuid() != 0:  # A disk of its own is mounted.
            self.pairs = [pair for pair in self.pairs if pair[0] is not full_disk]

    def go(self, faults):
        with contextlib.ExitStack() as stack:
            system = stack.enter_context(recipes.disturbed_system())
            disk = None
            if any(fault is full_disk for fault, _ in self.pairs):
                disk = stack.enter_context(recipes.small_disk(64))
            flags = [*self.length, f"--lease_seconds={self.lease}", "--wait_seconds=120"]
            flags += [] if self.synchronous else ["--nosync_replicas"]
            preload = {job: system.environment() for job in ("chief", "ps", "worker")}
            with Tasks(*flags, seed=self.draw.randrange(1 << 30), preload=preload,
                       out=disk / "run" if disk else None) as run:
                run.system, run.lease, run.disk = system, self.lease, disk
                run.start()
                # The run goes slowly as long as faults come, so that all of them find it in its middle.
                run.proxy.add("slow", kind="delay", ms=15, method="Exchange", link="ps0")
                run.wait_for_step(10)
                while len(self.struck) < faults and run.step() < self.last() * 3 // 4:
                    self._strike(run)
                run.proxy.remove("slow")
                ended = run.end(300)
                assert ended == 0, f"the chief ended with {ended}\n{run.logs()}"
                self._judge(run)
        return len(self.struck)

    def last(self):
        return self.epochs * (tasks.STEPS_PER_EPOCH if self.synchronous else tasks.BATCHES_PER_EPOCH)

    def _strike(self, run):
        fault, job = self.draw.choice(self.pairs)
        index = self.draw.randrange(2) if job in ("ps", "worker") else 0
        run.wait_until(lambda: all(task.alive() for task in run.tasks.values()), 60, "all tasks run")
        began = time.monotonic()
        what, seconds = fault(run, self.draw, job, index)
        healed = began if seconds == 0 else time.monotonic()
        mark = len(run.steps.advances)
        run.wait_until(lambda: self._flows(run, mark) or run.tasks["chief", 0].codes[-1:] == [0], 120,
                       f"steps flow after: {what} of {job}/{index}")
        mode = "SYNC" if self.synchronous else "ASYNC"
        row = self.table.rows[what, job, mode]
        row.injected += 1
        row.recoveries.append(run.steps.recovery(began, healed))
        self.struck.append(row)

    def _flows(self, run, mark):
        """Steps rise, all tasks are there, and for a while nothing has stood still."""
        advances = run.steps.advances[mark:]
        rising = sum(1 for (_, a), (_, b) in zip(advances, advances[1:]) if b > a)
        return rising >= QUIET_STEPS and all(task.alive() for task in run.tasks.values())

    def _judge(self, run):
        bad = run.unexpected(0, 137, 138)
        assert not bad, f"codes {bad}\n{run.logs()}"
        lost, doubled = tasks.lost_and_doubled(run, self.epochs, self.synchronous)
        for row in set(self.struck):
            row.lost += lost
            row.doubled += doubled
        if self.synchronous:
            judge_sync(run, self.length, self.epochs)
        else:
            judge_async(run, self.epochs)


class Plan:
    """Holds what every run of a suite has in common. `only` and `fault_names` leave out jobs and faults."""

    def __init__(self, faults, end, seed, epochs, lease, in_a_run, only, fault_names):
        self.faults, self.end, self.seed = faults, end, seed
        self.epochs, self.lease, self.in_a_run = epochs, lease, in_a_run
        self.only, self.fault_names = only, fault_names

    def one(self, number):
        """Run `number`, by a seed of its own, which brings it back alone. Returns its rows, a line, and if it failed."""
        if time.monotonic() >= self.end:
            return {}, "", False
        random.seed()  # Ports: a process of its own must not draw its parent's.
        table, seed = Table(), self.seed + number
        synchronous, clipped = seed % 2 == 0, seed % 4 >= 2
        run = RandomRun(table, random.Random(seed), synchronous, clipped, self.epochs, self.lease, self.only,
                        self.fault_names)
        began, failed = time.monotonic(), False
        try:
            run.go(self.in_a_run)
            result = "same bytes" if run.synchronous else "every batch once"
        except (AssertionError, OSError, ValueError) as error:
            failed, result = True, f"FAILED: {error}"
        mode = ("SYNC" if run.synchronous else "ASYNC") + (" clipped" if clipped else "")
        line = f"run {number} (seed {seed}, {mode}): {len(run.struck)} faults in {time.monotonic() - began:.0f} s: {result}"
        return dict(table.rows), line, failed


def go(faults=20, minutes=None, seed=None, jobs=1, epochs=80, lease=4, in_a_run=20, only=None, fault_names=None):
    """Runs one after the other, or `jobs` at a time, until `faults` were injected. Returns how many runs failed."""
    seed = seed if seed is not None else random.randrange(1 << 30)
    print(f"seed {seed}", flush=True)
    for flags in ((f"--num_epochs={epochs}",), (f"--num_epochs={epochs}", CLIPPED)):
        tasks.reference(*flags)  # Known to all processes that follow.
    end = time.monotonic() + 60 * minutes if minutes else float("inf")
    plan = Plan(faults, end, seed, epochs, lease, min(in_a_run, faults), only, fault_names)
    table, failed, runs = Table(), 0, 0
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(jobs, context) as pool:
        waiting = set()
        while True:
            while len(waiting) < jobs and time.monotonic() < end and \
                    table.injected() + len(waiting) * plan.in_a_run < faults:
                waiting.add(pool.submit(plan.one, runs))
                runs += 1
            if not waiting:
                break
            done, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for result in done:
                rows, line, bad = result.result()
                table.add(rows)
                failed += bad
                if line:
                    print(line, flush=True)
    table.print()
    print(f"{table.injected()} faults in {runs} runs, {failed} runs failed")
    return failed
