"""Faults drawn at random over small runs, one after the other, SYNC and ASYNC in turn: what was injected, lost and
doubled, and how long it took until steps flowed again."""
import collections
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
    del job, index
    run.system.set(realtime_seconds=draw.choice((-3600, 3600)))
    time.sleep(1)
    run.system.set()
    return "time of day jumps an hour", 1


# Fault -> the jobs that it strikes.
FAULTS = ((kill, ("worker", "ps", "chief")), (stop, ("worker", "ps", "chief")), (delay, ("worker", "ps", "chief")),
          (loss, ("worker", "ps", "chief")), (one_way, ("worker", "ps", "chief")), (code, ("worker", "ps", "chief")),
          (cut, ("ps", "chief")), (slow_disk, ("ps",)), (clock_jump, ("worker",)))
PAIRS = [(fault, job) for fault, jobs in FAULTS for job in jobs]


class RandomRun:
    """Faults over one run of `epochs`."""

    def __init__(self, table, draw, synchronous, epochs, lease, only=None, fault_names=None):
        self.table, self.draw, self.synchronous, self.epochs = table, draw, synchronous, epochs
        self.lease = lease
        self.pairs = [(fault, job) for fault, job in PAIRS
                      if (only is None or job in only) and (fault_names is None or fault.__name__ in fault_names)]
        self.length = (f"--num_epochs={epochs}",)
        self.struck = []

    def go(self, faults):
        with recipes.disturbed_system() as system:
            flags = [*self.length, f"--lease_seconds={self.lease}", "--wait_seconds=120"]
            flags += [] if self.synchronous else ["--nosync_replicas"]
            preload = {job: system.environment() for job in ("chief", "ps", "worker")}
            with Tasks(*flags, seed=self.draw.randrange(1 << 30), preload=preload) as run:
                run.system, run.lease = system, self.lease
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
        index = 0 if job == "chief" else self.draw.randrange(2)
        run.wait_until(run.tasks[job, index].alive, 60, f"{job}/{index} runs")
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
        if self.synchronous:
            judge_sync(run, self.length, self.epochs)
        else:
            judge_async(run, self.epochs)


def go(faults=None, minutes=None, seed=None, epochs=80, only=None, lease=4, fault_names=None, in_a_run=20):
    """Returns how many runs failed."""
    seed = seed if seed is not None else random.randrange(1 << 30)
    print(f"seed {seed}", flush=True)
    table, failed, runs = Table(), 0, 0
    end = time.monotonic() + 60 * minutes if minutes else float("inf")
    while table.injected() < (faults or 1 << 30) and time.monotonic() < end:
        # Each run by a seed of its own, which brings it back alone: --seed=S --faults=N.
        draw = random.Random(seed + runs)
        random_run = RandomRun(table, draw, runs % 2 == 0, epochs, lease, only, fault_names)
        wanted = min(in_a_run, (faults or 1 << 30) - table.injected())
        began = time.monotonic()
        try:
            random_run.go(wanted)
            result = "same bytes" if random_run.synchronous else "every batch once"
        except AssertionError as error:
            failed += 1
            result = f"FAILED: {error}"
        mode = "SYNC" if random_run.synchronous else "ASYNC"
        print(f"run {runs} (seed {seed + runs}, {mode}): {len(random_run.struck)} faults in "
              f"{time.monotonic() - began:.0f} s: {result}", flush=True)
        runs += 1
    table.print()
    print(f"{table.injected()} faults in {runs} runs, {failed} runs failed")
    return failed
