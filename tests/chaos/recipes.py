"""Faults that a review found by attack, each as a case that prints its figures: `tests/chaos/run e6 e14`."""
import contextlib
import fcntl
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import tasks
from tasks import SMALL, Tasks, cluster, judge_sync

sys.path.insert(0, str(tasks.HERE.parent / "cluster"))
LARGE = str(tasks.HERE / "large.textproto")
NEVER = "--save_every=1000000"
# A run of this length lasts long enough for something to happen in the middle, and seconds without it.
EPOCHS = 40
LENGTH = (f"--num_epochs={EPOCHS}",)
PATIENT = ("--wait_seconds=40",)


class System:
    """Sets what tests/chaos/disturbed_system.cc shows to the tasks that have it loaded."""

    def __init__(self, directory):
        self.path = pathlib.Path(directory) / "disturbed_system"
        self.set()

    def set(self, sync_milliseconds=0, realtime_seconds=0, boottime_seconds=0):
        with open(self.path, "r+b" if self.path.exists() else "wb") as file:
            file.write(struct.pack("<qqq", sync_milliseconds, realtime_seconds, boottime_seconds))

    def environment(self, **more):
        return {"LD_PRELOAD": tasks.program("libdisturbed_system.so"), "DISTURBED_SYSTEM": str(self.path), **more}


@contextlib.contextmanager
def disturbed_system():
    with tempfile.TemporaryDirectory(prefix="shoal_chaos_") as directory:
        yield System(directory)


def slowed(run, milliseconds=20):
    """Steps take that long at least, so that a fault finds the run in its middle on any machine."""
    run.proxy.add("slow", kind="delay", ms=milliseconds, method="Exchange", from_="worker/0")


def finish_sync(run, epochs=EPOCHS, flags=LENGTH, timeout=240):
    code = run.end(timeout)
    assert code == 0, f"the chief ended with {code}\n{run.logs()}"
    lost, doubled = judge_sync(run, flags, epochs)
    return f"{epochs * tasks.STEPS_PER_EPOCH} steps, lost {lost}, doubled {doubled}, same bytes, exits {run.codes()}"


def e1():
    """The chief restarts before the first checkpoint: everybody starts again, nobody ends with 78."""
    with Tasks(*LENGTH, NEVER, *PATIENT) as run:
        run.restart_delay["chief"] = 0.5
        run.start()
        slowed(run)
        run.wait_for_step(50)
        killed = time.monotonic()
        run.kill("chief", 0)
        run.wait_until(lambda: run.tasks["chief", 0].starts == 2, 90, "the chief starts again")
        with contextlib.suppress(AssertionError):
            run.wait_until(lambda: all(run.tasks[key].codes for key in run.tasks), 40, "every task ends once")
        # Steps that were trained before the restart are written again from the first step on.
        assert not run.unexpected(0, 137, 138), f"codes {run.codes()}\n{run.logs()}"
        run.wait_for_step(1)
        run.proxy.remove("slow")
        recovery = run.steps.recovery(killed, killed)
        return f"{finish_sync(run)}; steps flow {recovery:.1f} s after the chief's death"


def paused_chief(seconds):
    # The chief is called directly: the proxy would answer in its place to connections that are idle.
    with Tasks(*LENGTH, *PATIENT, direct=("chief",)) as run:
        run.start()
        slowed(run, 40)
        run.wait_for_step(45)
        processes = {key: run.pid(*key) for key in run.tasks}
        before = run.step()
        run.signal("chief", 0, signal.SIGSTOP)
        stopped = time.monotonic()
        time.sleep(seconds)
        run.signal("chief", 0, signal.SIGCONT)
        healed = time.monotonic()
        at_wake = run.step()
        run.wait_for_step(max(before, at_wake) + 30)
        recovery = run.steps.recovery(stopped, healed)
        time.sleep(2)
        lowest = min(step for when, step in run.steps.advances if when > stopped)
        for key, pid in processes.items():
            assert run.tasks[key].alive() and run.pid(*key) == pid, f"{key} ended: {run.codes()}\n{run.logs()}"
        assert lowest >= before, f"rolled back from step {before} to {lowest}\n{run.logs()}"
        run.proxy.remove("slow")
        return f"stopped {seconds} s at step {before}, lowest step after it {lowest}, steps flow {recovery:.2f} s " \
               f"after it woke; {finish_sync(run)}"


def e2():
    """The chief stands still for longer than the lease: no healthy task is ended, nothing is rolled back."""
    return paused_chief(12)


def e2_long():
    """The same for 36 s, longer than anything waits."""
    return paused_chief(36)


@contextlib.contextmanager
def small_disk(mebibytes):
    with tempfile.TemporaryDirectory(prefix="shoal_chaos_") as directory:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "none", directory], check=True)
        try:
            yield pathlib.Path(directory)
        finally:
            subprocess.run(["umount", "--lazy", directory], check=True)


@contextlib.contextmanager
def full(directory):
    """No block is free, and none that becomes free stays so, until the end."""
    over, no_room = threading.Event(), threading.Event()

    def fill():
        number = 0
        while not over.is_set():
            with contextlib.suppress(OSError), open(directory / "filler", "ab", buffering=0) as file:
                while file.write(bytes(1 << (16 if number == 0 else 12))):
                    pass
            no_room.set()
            number += 1
            time.sleep(0.001)

    filler = threading.Thread(target=fill)
    filler.start()
    try:
        assert no_room.wait(60), f"{directory} does not become full"
        yield
    finally:
        over.set()
        filler.join()
        (directory / "filler").unlink()


def e3():
    """The disk fills up, a worker starts there, the disk has room again: nothing is lost, and the console is right."""
    epochs = 500
    with small_disk(32) as disk:
        with cluster.Run(SMALL, f"--num_epochs={epochs}", "--num_ps_tasks=2", "--num_replicas=2",
                         out=disk / "run") as run:
            run.start()
            run.wait_for_step(100)
            with full(disk):
                full_at = run.step()
                run.kill("worker", 1)
                time.sleep(10)
                restarts = len(run.pids("worker", 1))
            code = run.wait(240)
            assert code == 0, f"exit code {code}\n{run.output[-2000:]}\n{run.logs()}"
            dead = [line for line in run.output.splitlines() if "died" in line]
            assert "SIGBUS" not in run.output and restarts == 1, f"worker/1 is gone: {dead}"
            steps = [line["step"] for line in run.metrics()]
            wanted = epochs * tasks.STEPS_PER_EPOCH
            trained = next(line for line in run.output.splitlines() if line.startswith("trained:"))
            assert f"{wanted} steps" in trained, run.output
            assert run.digest() == tasks.reference(f"--num_epochs={epochs}"), "other bytes"
            lost = len(set(range(1, wanted + 1)) - set(steps))
            doubled = len(steps) - len(set(steps))
            assert lost == 0 and doubled == 0, f"metrics.jsonl: {lost} steps lost, {doubled} doubled\n{run.output}"
            return f"full at step {full_at} for 10 s; lines lost {lost}, doubled {doubled}; same bytes; {trained}"


def e3_start():
    """The disk stays full until the run is stopped: the last lines say what was reached."""
    with small_disk(32) as disk:
        with cluster.Run(SMALL, "--num_epochs=300", "--num_ps_tasks=1", "--num_replicas=1", out=disk / "run") as run:
            run.start()
            run.wait_for_step(50)
            with full(disk):
                time.sleep(10)
                output = run.logs(200)
                run.process.send_signal(signal.SIGINT)
                run.wait(120)
            assert "SIGBUS" not in output + run.output, run.output
            ending = [line for line in run.output.splitlines() if line.startswith(("trained:", "lost", "checkpoint"))]
            return f"full for 10 s, then Ctrl-C: {ending}"


def e4():
    """Disks of the ps take 2 s longer to sync than the schedule gives them: memory has a bound."""
    with disturbed_system() as system:
        flags = ("--optimizer=adam", "--set=checkpoint.save_every=10", "--num_epochs=100000", "--eval_every=0",
                 "--set=cluster.slice_bytes=262144")
        wide = ("--set=model.layer[1].dense.units=2400",)
        with Tasks(*flags, *wide, ps=1, workers=2, proxied=False, restarts=False,
                   preload={"ps": system.environment()}) as run:
            run.start()
            run.wait_for_step(5)
            before = run.resident_mebibytes("ps", 0)
            system.set(sync_milliseconds=2000)
            sizes = []
            for _ in range(12):
                time.sleep(2)
                sizes.append(run.resident_mebibytes("ps", 0))
            # Values, slots and the step before of three snapshots: one written, one waiting, one live.
            assert max(sizes) < 4 * max(before, 100), f"{before} MiB, then {sizes}\n{run.logs()}"
            return f"RSS of the ps {before} MiB, then every 2 s {sizes}, step {run.step()}, {run.checkpoints()}"


def e5b(mebibytes=1024, workers=8, seconds=35):
    """A ps whose memory for messages is a quarter of 1 GiB, and eight workers with a model of 80 MB."""
    with disturbed_system() as system:
        environment = system.environment(MACHINE_MEBIBYTES=str(mebibytes))
        with Tasks("--num_epochs=100000", NEVER, "--eval_every=0", ps=1, workers=workers, run_file=LARGE, proxied=False,
                   preload={"ps": environment}) as run:
            run.flags.append("--set=cluster.no_shared_memory=true")
            for task in run.tasks.values():
                task.command.append("--set=cluster.no_shared_memory=true")
            run.start()
            run.wait_for_step(2, timeout=180)
            first, largest, end = run.step(), 0, time.monotonic() + seconds
            while time.monotonic() < end:
                time.sleep(0.5)
                assert not run.unexpected(), f"codes {run.codes()}\n{run.logs()}"
                largest = max(largest, run.resident_mebibytes("ps", 0))
            assert run.step() > first, f"no step in {seconds} s\n{run.logs()}"
            return f"{run.step() - first} steps in {seconds} s, largest RSS of the ps {largest} MiB, nobody ended"


def one_wrong_answer(method, sender, after, code, kind="error", flags=()):
    with Tasks(*LENGTH, *PATIENT, *flags) as run:
        run.proxy.add("wrong", kind=kind, code=code, method=method, after=after, count=1, from_=sender)
        run.start()
        text = finish_sync(run)
        assert run.proxy.disturbed("wrong") == 1, f"{method} was never called: {run.proxy.counts()}"
        assert not run.unexpected(0), f"codes {run.codes()}\n{run.logs()}"
        return f"{text}; checkpoints {run.checkpoints()}"


def e6():
    """The 20th ReportSteps of ps/0 is answered INTERNAL: checkpoints are made, nothing is lost."""
    return one_wrong_answer("ReportSteps", "ps/0", 19, 13)


def e6_shard():
    """The last ReportShard of a ps is answered INTERNAL."""
    # One for each cut (every 20 steps, and the last version).
    cuts = len(set(list(range(20, EPOCHS * tasks.STEPS_PER_EPOCH, 20)) + [EPOCHS * tasks.STEPS_PER_EPOCH]))
    return one_wrong_answer("ReportShard", "ps/0", cuts - 1, 13)


def e6_codes():
    """Every call to the chief is answered once with each wrong code, before and after it took effect."""
    lines = []
    for kind in ("error", "replace"):
        with Tasks(*LENGTH, *PATIENT) as run:
            rules = 0
            for method in ("ReportSteps", "ReportShard", "ReportEvaluation", "Heartbeat"):
                # CANCELLED, UNKNOWN, PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE,
                # UNAUTHENTICATED: what libraries, proxies and middleboxes answer on their own.
                for code in (1, 2, 7, 8, 12, 13, 14, 16):
                    run.proxy.add(f"{method}{code}", kind=kind, code=code, method=method, after=1 + rules % 8, count=1)
                    rules += 1
            run.start()
            text = finish_sync(run)
            assert not run.unexpected(0), f"codes {run.codes()}\n{run.logs()}"
            done = sum(rule["disturbed"] for rule in run.proxy.counts()["rules"].values())
            lines.append(f"{kind}: {done} of {rules} wrong answers given; {text}")
    return "\n    ".join(lines)


def e14():
    """The first LoadSlices is answered INTERNAL: the run begins all the same."""
    return one_wrong_answer("LoadSlices", "chief/0", 0, 13)


def e14_exchange():
    """Exchanges are answered with wrong codes: workers live on."""
    lines = []
    for code in (1, 2, 7, 8, 12, 13, 14, 16):
        with Tasks(*LENGTH, *PATIENT) as run:
            run.proxy.add("wrong", kind="error", code=code, method="Exchange", after=200, count=5)
            run.start()
            lines.append(f"code {code}: {finish_sync(run)}")
            assert not run.unexpected(0), f"codes {run.codes()}\n{run.logs()}"
    return "\n    ".join(lines)


def cut_off(run, block, heal, limit):
    """Worker/1 does not reach ps/0. Returns seconds until steps flow without it."""
    before = run.step()
    began = time.monotonic()
    block()
    run.wait_until(lambda: run.step() > before + 40, limit, "steps flow again without the link")
    recovery = run.steps.recovery(began, began)

    def named():
        chief = run.tasks["chief", 0].text()
        return [line for line in chief.splitlines() if "worker/1" in line and "ps/0" in line]

    # Other workers may compute what worker/1 cannot send, so that steps flow before it loses its place.
    run.wait_until(named, limit, "the chief's log names worker/1 and ps/0")
    heal()
    return recovery, named()[0]


def e7():
    """A blackhole route from worker/1's host to ps/0's: it loses its place, the others continue, the log names the link."""
    import network  # pylint: disable=import-outside-toplevel
    with network.Network(hosts=3) as net:
        hosts = {("chief", 0): net.hosts[0], ("ps", 1): net.hosts[0], ("worker", 0): net.hosts[0],
                 ("ps", 0): net.hosts[1], ("worker", 1): net.hosts[2]}
        ps0 = net.hosts[1].address
        with Tasks("--num_epochs=3000", "--wait_seconds=60", "--eval_every=0", NEVER, proxied=False, hosts=hosts) as run:
            run.start()
            run.wait_for_step(100)

            def route(change):
                net.hosts[2].run(["ip", "route", change, "blackhole", f"{ps0}/32"], check=True)

            recovery, named = cut_off(run, lambda: route("add"), lambda: route("del"), 60)
            assert not run.unexpected(138), f"codes {run.codes()}\n{run.logs()}"
            return f"steps flow {recovery:.1f} s after the link broke; {named}"


def e7_proxy():
    """The same by the proxy, which needs no root: the exchanges of worker/1 with ps/0 vanish."""
    with Tasks(*LENGTH, "--wait_seconds=60") as run:
        run.start()
        slowed(run)
        run.wait_for_step(50)
        recovery, named = cut_off(run, lambda: run.proxy.add("cut", kind="drop", link="ps0", from_="worker/1"),
                                  lambda: run.proxy.remove("cut"), 60)
        run.proxy.remove("slow")
        return f"steps flow {recovery:.1f} s after the link broke; {named}\n    {finish_sync(run)}"


def e8(workers=6, stalls=4):
    """One worker of six stands still for 5 s at a time: what the others have to send is sent about once."""
    with Tasks("--num_epochs=100000", NEVER, "--eval_every=0", "--set=cluster.no_shared_memory=true", ps=1,
               workers=workers, run_file=LARGE, proxied=False) as run:
        page = f"127.0.0.1:{cluster.free_port()}"
        run.tasks["ps", 0].command.append(f"--metrics_address={page}")
        run.start()
        run.wait_for_step(2, timeout=240)

        def counted(name, **labels):
            with urllib.request.urlopen(f"http://{page}/metrics", timeout=30) as answer:
                lines = [line for line in answer.read().decode().splitlines() if line.startswith(name)]
            wanted = [f'{key}="{value}"' for key, value in labels.items()]
            return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(label in line for label in wanted))

        def now():
            return run.step(), counted("shoal_rpc_bytes_total", direction="in"), \
                counted("shoal_pushed_slices_total", outcome="busy")

        first, bytes_before, busy_before = now()
        for _ in range(stalls):
            run.signal("worker", 0, signal.SIGSTOP)
            time.sleep(5)
            run.signal("worker", 0, signal.SIGCONT)
            time.sleep(1)
        last, bytes_after, busy_after = now()
        steps, sent, busy = last - first, bytes_after - bytes_before, busy_after - busy_before
        # A step that has begun and one that ends are not whole.
        needed = (steps + 2) * workers * 80e6
        assert not run.unexpected(), f"codes {run.codes()}\n{run.logs()}"
        assert sent < 1.5 * needed, f"{steps} steps, {sent / 1e9:.2f} GB came for at most {needed / 1e9:.2f} GB of " \
                                    f"contributions, {busy:.0f} slices were refused"
        return f"{steps} steps, {sent / 1e9:.2f} GB came for at most {needed / 1e9:.2f} GB of contributions, " \
               f"{busy:.0f} slices were refused"


def call(address, method, text, *certificates):
    done = subprocess.run([tasks.program("call"), address, method, *certificates], input=text, capture_output=True,
                          text=True, timeout=60, check=False)
    return done.stdout.strip() or done.stderr.strip()


@contextlib.contextmanager
def attacked():
    """A run over mutual TLS, and what a thief of worker.crt can send: send(to, method, text)."""
    with tempfile.TemporaryDirectory(prefix="shoal_chaos_") as scratch:
        maker = next(path for path in (pathlib.Path("deploy/tls/make_certificates").resolve(),) if path.exists())
        subprocess.run([str(maker), scratch], check=True, capture_output=True)
        tls = [f"--tls_{what}={scratch}/{file}" for what, file in
               (("cert", "{job}.crt"), ("key", "{job}.key"), ("ca", "ca.crt"))]
        with Tasks("--num_epochs=400", "--eval_every=0", "--set=cluster.no_shared_memory=true", *tls,
                   proxied=False) as run:
            run.start()
            run.wait_until(run.checkpoints, 180, "a checkpoint")
            listens = {f"{job}/{index}": next(flag.split("=", 1)[1] for flag in task.command if "--listen_address=" in flag)
                       for (job, index), task in run.tasks.items() if job != "worker"}

            def send(to, method, text):
                return call(listens[to], method, text, f"{scratch}/worker.crt", f"{scratch}/worker.key",
                            f"{scratch}/ca.crt")

            yield run, send
            before = run.step()
            run.wait_for_step(before + 50)
            assert not run.unexpected(), f"codes {run.codes()}\n{run.logs()}"


def identity(run, **fields):
    values = {"term": 1 << 40, "incarnation": 1, **fields}
    text = "".join(f"{key}: {value} " for key, value in values.items())
    return f'identity {{ run_id: "{run_id_of(run)}" member {{ job: JOB_WORKER index: 60000 }} {text} }}'


def run_id_of(run):
    """Reads the id in the run's directory, which every worker sees."""
    kept = run.out / "RUN_ID"
    if kept.exists():
        return kept.read_text().split()[0]
    for manifest in sorted((run.out / "checkpoints").glob("*/MANIFEST")):
        found = re.search(rb"[0-9a-f]{32}", manifest.read_bytes())
        if found:
            return found[0].decode()
    raise AssertionError(f"no RUN_ID and no MANIFEST\n{run.logs()}")


def refused(answer):
    """It came from the task, and not from a connection that was never made."""
    made = "not known here" in answer or answer.split()[0] not in ("0", "4", "14")
    assert re.match(r"[0-9]+", answer) and made, f"answered {answer}"
    return answer


def e12():
    """Exchanges with a term of 2^40 from a worker's certificate: no ps accepts it, the run continues."""
    with attacked() as (run, send):
        exchange = "/shoal.v1.BulkService/Exchange"
        answers = [refused(send("ps/0", exchange, identity(run) + " pulls: 0"))]
        # Its answer says which incarnation and lineage a second try has to name.
        named = dict(re.findall(r"(incarnation|lineage) ([0-9]+)", answers[0])[:2])
        answers.append(send("ps/0", exchange, identity(run, lineage=named.get("lineage", 1)) +
                            f" receiver_incarnation: {named.get('incarnation', 1)} pulls: 0"))
        before = run.step()
        run.wait_for_step(before + 50)
        return f"answered {answers}; 50 steps later nobody has ended"


def e17():
    """A Heartbeat with a term of 2^40, and a made-up death, from a worker's certificate: the chief believes neither."""
    with attacked() as (run, send):
        answers = [refused(send("chief/0", "/shoal.v1.ChiefService/Heartbeat", identity(run))),
                   send("chief/0", "/shoal.v1.ChiefService/ReportBadBatch",
                        "died { job: JOB_WORKER } batch { } " + identity(run, term=1))]
        refused(answers[1])
        return f"answered {answers}; 50 steps later nobody has ended"


def deaf_client(address):
    """A shared-memory client that sends requests and reads no reply. Returns how many it could send."""
    shape = struct.pack("<IIQ", 0x314d4853, 2, 4096)
    file = os.memfd_create("shoal-bulk", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        os.ftruncate(file, 2 * 2 * (4096 + (64 << 10) + 4096))
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        server.settimeout(1)
        sent = 0
        with contextlib.suppress(OSError):  # It takes no more, or has closed.
            server.connect("\0shoal-bulk-" + address)
            socket.send_fds(server, [shape], [file])
            server.recv(4)
            while sent < 200_000:
                server.send(struct.pack("<I", sent % 2))
                sent += 1
        yield sent
    os.close(file)


def e13():
    """A shared-memory client of the same user never reads its replies: it harms only itself."""
    with Tasks("--num_epochs=3000", "--eval_every=0", NEVER, proxied=False) as run:
        run.start()
        run.wait_for_step(50)
        address = next(flag for flag in run.tasks["ps", 0].command if "--listen_address=" in flag).split("=", 1)[1]
        clients = [deaf_client(address) for _ in range(3)]
        sent = [next(client) for client in clients]
        before = run.step()
        began = time.monotonic()
        run.wait_for_step(before + 50, timeout=30)
        assert not run.unexpected(), run.logs()
        return f"50 steps in {time.monotonic() - began:.1f} s beside three clients that sent {sent} requests and read nothing"


def e16(seconds=4, pairs=8):
    """R=3 and N=4, one worker gets a tenth of its time: steps come at 0.85 of the undisturbed rate or more."""
    rates = []
    with Tasks("--num_epochs=100000", "--eval_every=0", NEVER, "--set=model.layer[1].dense.units=1024", ps=1, workers=4,
               proxied=False) as run:
        run.start()
        run.wait_for_step(50)

        def rate(slow):
            first, began = run.step(), time.monotonic()
            while time.monotonic() < began + seconds:
                if slow:
                    run.signal("worker", 0, signal.SIGSTOP)
                    time.sleep(0.45)
                    run.signal("worker", 0, signal.SIGCONT)
                    time.sleep(0.05)
                else:
                    time.sleep(0.1)
            return (run.step() - first) / (time.monotonic() - began)

        for slow in (False, True) * pairs:  # In turn: other work of the machine touches both alike.
            rates.append(rate(slow))
        quiet, slow = sum(rates[0::2]) / pairs, sum(rates[1::2]) / pairs
        text = f"{quiet:.1f} steps/s, with a slow worker {slow:.1f} ({slow / quiet:.2f}): " + " ".join(f"{r:.1f}" for r in rates)
        assert slow >= 0.85 * quiet, text
        return text


def clock():
    """The time of day jumps by an hour, and the machine was suspended for 5 minutes: nobody is ended."""
    lines = []
    for what in ("realtime_seconds", "boottime_seconds"):
        for seconds in (3600, 300):
            with disturbed_system() as system:
                with Tasks(*LENGTH, *PATIENT, preload={job: system.environment() for job in ("chief", "ps", "worker")}) as run:
                    run.start()
                    slowed(run)
                    run.wait_for_step(50)
                    system.set(**{what: seconds})
                    jumped = time.monotonic()
                    run.wait_for_step(run.step() + 50)
                    recovery = run.steps.recovery(jumped, jumped)
                    run.proxy.remove("slow")
                    text = finish_sync(run)
                    lines.append(f"{what} +{seconds}: longest standstill over after {recovery:.2f} s; {text}")
    return "\n    ".join(lines)


ALL = [e1, e2, e2_long, e3, e3_start, e4, e5b, e6, e6_shard, e6_codes, e7, e7_proxy, e8, e12, e13, e14, e14_exchange, e16, e17,
       clock]


def main(names):
    """Runs the cases of these names. Returns how many failed."""
    known = {case.__name__: case for case in ALL}
    failed = 0
    for name in names:
        began = time.monotonic()
        print(f"== {name}: {known[name].__doc__.splitlines()[0]}", flush=True)
        try:
            result, text = "OK", known[name]()
        except AssertionError as error:
            result, text = "FAILED", str(error)
            failed += 1
        print(f"[ {result:6} ] {name} ({time.monotonic() - began:.1f} s) {text}", flush=True)
    return failed
