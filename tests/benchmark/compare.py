#!/usr/bin/env python3
"""Shoal beside its peers, interleaved in one run; prints medians and ratios. Run it through tests/peers/run.

usage: compare.py steps [--model=seed_mlp|lenet|mobilenet_v2|resnet18] [--batch=N] [--threads=1] [--rounds=7]
       compare.py devices [--model=seed_mlp|lenet|mobilenet_v2|resnet18] [--batch=N] [--rounds=7]
                          [--variables=cpu|first_device|mirrored]
       compare.py cluster [--batches=2000,128,32] [--seconds=8] [--rounds=3]
       compare.py programs [--model=seed_mlp|resnet18|transformer] [--batches=2000,128,32] [--seconds=8] [--rounds=3]
       compare.py bridge [--rounds=3]
       compare.py clicks [--batch=2048] [--scale=0.01] [--fbgemm=PYTHON] [--seconds=8] [--rounds=3] [--auc] [--examples=N]
`steps`: milliseconds of one training step in one process, each round in random order, and for the MLP the share of the FMA
rate that was measured in the same round. With one thread all contenders have the same CPU, one at a time. CPU time is
that of all threads of a process; where the machine has other work, it says more than wall time.
`devices`: examples per second of one process with two CPU devices of one thread each, and of two independent processes of
one thread, one per CPU, side by side, in turn. It needs no peers: python3 tests/benchmark/compare.py devices
`cluster`: examples per second of 1 ps + 2 workers (seed MLP, one-column target), SYNC and ASYNC, of two independent LOCAL
processes, and of TensorFlow's ParameterServerStrategy (asynchronous).
`programs`: examples per second of a PyTorch program (tests/peers/torch_cluster.py) with 1 ps + 2 workers, synchronous and
asynchronous, of PyTorch's DistributedDataParallel over Gloo with two processes, for the MLP of TensorFlow's
ParameterServerStrategy, and of two processes that only compute gradients, with no exchange and no update: programs in
PyTorch cannot be faster than that on these cores.
`clicks`: examples per second of deploy/runs/clicks_dlrm.textproto in one process and with 1 ps + 2 workers, of the same model
and examples in PyTorch (torch_clicks.py: one and two threads), and of TensorFlow's
ParameterServerStrategy (tensorflow_clicks.py). --auc instead trains the whole run, SYNC, ASYNC and in PyTorch, and compares the
AUC on the test examples; --examples takes the place of data.train_examples. With --scale=0.01 the largest table has 101,000
rows, with 0.04 405,000. --fbgemm names an interpreter that has fbgemm-gpu-cpu, the tables of TorchRec, and the PyTorch that
it was built for; then PyTorch is measured with these tables too.
`bridge`: microseconds from the end of a program's batch to the next batch, in one worker without ps (program_wait.py).
"""
import argparse
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
peers = root / "tests" / "peers"
BATCHES = {"seed_mlp": 2000, "lenet": 128, "mobilenet_v2": 32, "resnet18": 32}
MLP_FLOP_PER_EXAMPLE = 2 * 3 * (600 * 512 + 512 * 128 + 128 * 128 + 128) - 2 * 600 * 512


class Steps:
    """A process that times steps on request. With one thread it has one CPU, the same for all contenders."""

    def __init__(self, command, threads, cpus=None):
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
        cpus = cpus or ({min(os.sched_getaffinity(0))} if threads == 1 else None)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        cwd=peers, env=environment, stderr=subprocess.DEVNULL,
                                        preexec_fn=(lambda: os.sched_setaffinity(0, cpus)) if cpus else None)
        if self.process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"did not start: {command}")

    def begin(self, n):
        self.process.stdin.write(f"{n}\n")
        self.process.stdin.flush()

    def end(self):
        """Wall milliseconds, CPU milliseconds, and what else the contender measures."""
        return [float(x) for x in self.process.stdout.readline().split()]

    def time(self, n):
        self.begin(n)
        return self.end()

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


def start_contenders(options):
    model, batch, threads = options.model, str(options.batch), str(options.threads)
    commands = {"shoal": [str(root / "bazel-bin/tests/benchmark/step_benchmark"), model, batch, threads]}
    for peer in ("torch", "torch_channels_last", "torch_compile", "tensorflow"):
        if (peer == "torch_channels_last" and model == "seed_mlp") or (peer == "tensorflow" and model == "resnet18"):
            continue  # no images; Keras has no such network
        commands[peer] = [sys.executable, str(peers / "step.py"), peer, model, batch, threads]
    contenders = {}
    for name, command in commands.items():
        try:
            contenders[name] = Steps(command, options.threads)
        except RuntimeError as error:
            print(f"{name}: {error}", file=sys.stderr)
    return contenders


def steps(options):
    contenders = start_contenders(options)
    answers = {name: [] for name in contenders}
    for _ in range(options.rounds):
        order = list(contenders)
        random.shuffle(order)
        for name in order:
            answers[name].append(contenders[name].time(options.steps))
    for contender in contenders.values():
        contender.close()
    case = f"{options.model} batch {options.batch} threads {options.threads}"
    for clock, index in (("wall", 0), ("CPU", 1)):
        times = {name: [answer[index] for answer in of_one] for name, of_one in answers.items()}
        median = {name: statistics.median(t) for name, t in times.items()}
        ratios = {name: statistics.median(a / b for a, b in zip(t, times["shoal"])) for name, t in times.items()}
        for name, t in sorted(median.items(), key=lambda item: item[1]):
            print(f"{case}  {name:20s} {t:8.2f} ms {clock:4s}  peer/shoal {ratios[name]:.2f}")
        best = min(((ratio, name) for name, ratio in ratios.items() if name != "shoal"), default=None)
        if best is not None:
            print(f"{case}: {best[0]:.2f}x the best peer ({best[1]}), {clock} time, median of the rounds")
    if options.model == "seed_mlp":
        gigaflop = MLP_FLOP_PER_EXAMPLE * options.batch * 1e-9
        shares = [gigaflop / (cpu * 1e-3) / peak for _, cpu, peak in answers["shoal"]]
        print(f"{case}: {statistics.median(shares):.3f} of the FMA rate measured in the same rounds (CPU time of all "
              f"threads; {min(shares):.3f} to {max(shares):.3f})")


def devices(options):
    """Two devices of one process against two processes."""
    first, second = sorted(os.sched_getaffinity(0))[:2]
    command = [str(root / "bazel-bin/tests/benchmark/step_benchmark"), options.model, str(options.batch), "1"]
    pair = [Steps(command, 1, {cpu}) for cpu in (first, second)]
    one = Steps(command + ["2", options.variables], 1, {first, second})
    rates = {"two processes": [], "two devices": []}
    for _ in range(options.rounds):
        order = list(rates)
        random.shuffle(order)
        for name in order:
            processes = pair if name == "two processes" else [one]
            for process in processes:
                process.begin(options.steps)
            examples = options.batch * 2 / len(processes)
            rates[name].append(sum(1e3 * examples / process.end()[0] for process in processes))
    for process in [*pair, one]:
        process.close()
    case = f"{options.model} batch {options.batch} per device, variables {options.variables}"
    for name, values in rates.items():
        print(f"{case}  {name:15s} {statistics.median(values):10.0f} examples/s")
    ratios = [a / b for a, b in zip(rates["two devices"], rates["two processes"])]
    print(f"{case}: {statistics.median(ratios):.3f} of two processes, median of {options.rounds} rounds ({min(ratios):.3f} to "
          f"{max(ratios):.3f})")


def shoal_summary(arguments, run, limit=600):
    """Returns the summary.json of a run of this run file."""
    with tempfile.TemporaryDirectory() as out:
        command = [str(root / "bazel-bin/deploy/shoal"), "train", f"--run={run}",
                   f"--out={out}/run"] + arguments
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=limit)
        return json.loads((pathlib.Path(out) / "run" / "summary.json").read_text())


def shoal_rate(arguments, run=root / "deploy/runs/benchmark_mlp.textproto"):
    """Examples per second of training, start-up excluded."""
    return shoal_summary(arguments, run)["examples_per_second"]


def local_pair_rate(arguments):
    """Two independent LOCAL processes side by side."""
    with tempfile.TemporaryDirectory() as out:
        base = [str(root / "bazel-bin/deploy/shoal"), "train", f"--run={root}/deploy/runs/benchmark_mlp.textproto",
                "--num_ps_tasks=0", "--num_replicas=1"] + arguments
        both = [subprocess.Popen(base + [f"--out={out}/{i}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                for i in range(2)]
        for process in both:
            if process.wait(timeout=600) != 0:
                raise RuntimeError("a LOCAL run failed")
        return sum(json.loads((pathlib.Path(out) / str(i) / "summary.json").read_text())["examples_per_second"]
                   for i in range(2))


def interleaved(runs, rounds, case):
    """Measures all contenders in each round, in random order; prints medians and returns the rates of each."""
    rates = {name: [] for name in runs}
    for _ in range(rounds):
        for name in random.sample(list(runs), len(runs)):
            rates[name].append(runs[name]())
    for name, values in rates.items():
        print(f"{case}  {name:22s} {statistics.median(values):10.0f} examples/s")
    return rates


def cluster(options):
    for batch in [int(b) for b in options.batches.split(",")]:
        steps_each = max(60, int(options.seconds * 55000 / batch / (1 + 300 / batch)))
        common = [f"--batch_size={batch}"]
        ps = ["--num_ps_tasks=1", "--num_replicas=2"]
        runs = {
            "two LOCAL": lambda: local_pair_rate(common + [f"--max_steps={steps_each}"]),
            "sync": lambda: shoal_rate(common + ps + [f"--max_steps={steps_each}"]),
            "async": lambda: shoal_rate(common + ps + ["--nosync_replicas", f"--max_steps={2 * steps_each}"]),
            "tensorflow ps (async)": lambda: peer_rate(peers / "tensorflow_ps.py", batch, 2, options.seconds),
        }
        rates = interleaved(runs, options.rounds, f"batch {batch:5d}")
        for name, peer in (("sync", "two LOCAL"), ("async", "two LOCAL"), ("async", "tensorflow ps (async)")):
            ratio = statistics.median(a / b for a, b in zip(rates[name], rates[peer]))
            print(f"batch {batch:5d}  {name} / {peer}: {ratio:.2f}")


def program_rate(model, batch, steps, *flags):
    """Examples per second of a PyTorch program on Shoal, start-up excluded, from summary.json."""
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([str(root / "bazel-bin/deploy/shoal"), "train", f"--program={peers}/torch_cluster.py",
                        f"--python={sys.executable}", "--num_ps_tasks=1", "--num_replicas=2", f"--out={out}/run", *flags,
                        "--", "shoal", model, str(batch), str(steps)], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=600, env=dict(os.environ, PYTHONPATH=str(root / "python")))
        return json.loads((pathlib.Path(out) / "run" / "summary.json").read_text())["examples_per_second"]


def bridge(options):
    for size in (64, 1 << 20):
        waits = []
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as out:
                subprocess.run([str(root / "bazel-bin/deploy/shoal"), "train", f"--program={peers}/program_wait.py",
                                f"--python={sys.executable}", "--num_ps_tasks=0", "--num_replicas=1",
                                "--save_every=1000000", f"--out={out}/run", "--", str(size), "20000"], check=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600,
                               env=dict(os.environ, PYTHONPATH=str(root / "python")))
                waits.append([float(x) for x in (pathlib.Path(out) / "run/logs/program-0.out").read_text().split()])
        median, late = (statistics.median(column) for column in zip(*waits))
        print(f"{size:8d} bytes of variables: {median:.0f} us to the next batch, 90th percentile {late:.0f} us", flush=True)


def peer_rate(*arguments, limit=600, python=sys.executable):
    """The number that a peer's program prints."""
    return float(subprocess.run([python, *map(str, arguments)], check=True, capture_output=True, text=True,
                                timeout=limit, cwd=peers, env=dict(os.environ, PYTHONPATH=str(root / "python"))
                                ).stdout.split()[-1])


def programs(options):
    expected = {"seed_mlp": 40000, "resnet18": 70, "transformer": 700}[options.model]  # examples per second, about
    for batch in [int(b) for b in options.batches.split(",")]:
        # Small batches of the MLP take longer per example.
        steps = max(30, int(options.seconds * expected / (2 * batch + (300 if options.model == "seed_mlp" else 0))))
        runs = {
            "shoal": lambda: program_rate(options.model, batch, steps),
            "shoal, asynchronous": lambda: program_rate(options.model, batch, 2 * steps, "--nosync_replicas"),
            "pytorch ddp": lambda: peer_rate(peers / "torch_cluster.py", "ddp", options.model, batch, steps),
            "pytorch, no exchange": lambda: peer_rate(peers / "torch_cluster.py", "alone", options.model, batch, steps),
        }
        if options.model == "seed_mlp":
            runs["tensorflow ps (async)"] = lambda: peer_rate(peers / "tensorflow_ps.py", batch, 2, options.seconds)
        rates = interleaved(runs, options.rounds, f"{options.model} batch {batch:5d}")
        for peer in list(runs)[2:]:
            for name in ("shoal", "shoal, asynchronous", "pytorch, no exchange"):
                ratios = [a / b for a, b in zip(rates[name], rates[peer])]
                if name != peer:
                    print(f"{options.model} batch {batch:5d}  {name} / {peer}: {statistics.median(ratios):.2f} "
                          f"({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


def print_ratios(rates, contenders, case):
    """Prints what each of these contenders makes beside each peer."""
    for name in contenders:
        for peer in [peer for peer in rates if not peer.startswith("shoal")]:
            ratios = [a / b for a, b in zip(rates[name], rates[peer])]
            print(f"{case}  {name} / {peer}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


def write_clicks(run, split, path, examples=0):
    """Writes the examples of the run file and returns what the data set says of them."""
    return subprocess.run([str(root / "bazel-bin/tests/benchmark/clicks_examples"), str(run), split, str(path), str(examples)],
                          check=True, stdout=subprocess.PIPE, text=True).stdout


def clicks_run(folder, scale):
    """Writes the run file of clicks with this scale of the tables into the folder and returns its path. The peers read it too."""
    text = (root / "deploy/runs/clicks_dlrm.textproto").read_text()
    run = pathlib.Path(folder) / "clicks_dlrm.textproto"
    run.write_text(re.sub(r"scale: [0-9.]+", f"scale: {scale}", text))
    os.environ["CLICKS_RUN"] = str(run)
    return run


def clicks(options):
    with tempfile.TemporaryDirectory() as folder:
        train, test = pathlib.Path(folder) / "train", pathlib.Path(folder) / "test"
        run = clicks_run(folder, options.scale)
        if options.auc:
            return clicks_auc(options, run, train, test)
        write_clicks(run, "train", train, 400000)
        batch, seconds = options.batch, options.seconds
        common = [f"--batch_size={batch}", "--set=data.test_examples=1000"]
        steps = max(30, int(seconds * 40000 / batch))
        torch_clicks = peers / "torch_clicks.py"
        runs = {
            "shoal, 1 process": lambda: shoal_rate(common + ["--num_ps_tasks=0", "--num_replicas=1", "--replicas_to_aggregate=1",
                                                             f"--max_steps={steps}"], run),
            "shoal, 1 ps + 2": lambda: shoal_rate(common + ["--num_ps_tasks=1", "--num_replicas=2", f"--max_steps={steps}"],
                                                  run),
            "shoal, async": lambda: shoal_rate(common + ["--num_ps_tasks=1", "--num_replicas=2", "--nosync_replicas",
                                                         f"--max_steps={2 * steps}"], run),
            "pytorch, 1 thread": lambda: peer_rate(torch_clicks, "rate", train, batch, seconds, 1),
            "pytorch, 2 threads": lambda: peer_rate(torch_clicks, "rate", train, batch, seconds, 2),
            "tensorflow ps (async)": lambda: peer_rate(peers / "tensorflow_clicks.py", train, batch, 2, seconds),
        }
        if options.fbgemm:
            for threads in (1, 2):
                runs[f"fbgemm, {threads} thread{'s'[:threads - 1]}"] = lambda threads=threads: peer_rate(
                    torch_clicks, "fbgemm", train, batch, seconds, threads, python=options.fbgemm)
        rates = interleaved(runs, options.rounds, f"dlrm batch {batch}")
        print_ratios(rates, [name for name in runs if name.startswith("shoal")], f"dlrm batch {batch}")


def clicks_auc(options, run, train, test):
    write_clicks(run, "train", train, options.examples)
    print(write_clicks(run, "test", test), end="", flush=True)
    examples = [f"--set=data.train_examples={options.examples}"] if options.examples else []
    limit = 4 * 3600
    for name, arguments in (("sync", []), ("async", ["--nosync_replicas"])):
        area = shoal_summary(arguments + examples, run, limit)["test_auc"]
        print(f"shoal, {name}: AUC {area:.5f}", flush=True)
    area = peer_rate(peers / "torch_clicks.py", "auc", train, test, 2048, 2, limit=limit)  # SYNC: 2 batches of 1024
    print(f"pytorch: AUC {area:.5f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    s = commands.add_parser("steps")
    s.add_argument("--threads", type=int, default=1)
    d = commands.add_parser("devices")
    d.add_argument("--variables", default="cpu")
    for parser_of_steps in (s, d):
        parser_of_steps.add_argument("--model", default="seed_mlp", choices=list(BATCHES))
        parser_of_steps.add_argument("--batch", type=int, default=0)
        parser_of_steps.add_argument("--rounds", type=int, default=7)
        parser_of_steps.add_argument("--steps", type=int, default=10)
    c = commands.add_parser("cluster")
    b = commands.add_parser("bridge")
    b.add_argument("--rounds", type=int, default=3)
    k = commands.add_parser("clicks")
    k.add_argument("--batch", type=int, default=2048)
    k.add_argument("--auc", action="store_true")
    k.add_argument("--examples", type=int, default=0)
    k.add_argument("--scale", type=float, default=0.01)
    k.add_argument("--fbgemm", default="")
    p = commands.add_parser("programs")
    p.add_argument("--model", default="seed_mlp", choices=["seed_mlp", "resnet18", "transformer"])
    for parser_of_clusters in (c, p):
        parser_of_clusters.add_argument("--batches", default="2000,128,32")
    for parser_with_seconds in (c, p, k):
        parser_with_seconds.add_argument("--seconds", type=float, default=8)
        parser_with_seconds.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.command == "bridge":
        return bridge(options)
    if options.command == "programs":
        return programs(options)
    if options.command == "cluster":
        return cluster(options)
    if options.command == "clicks":
        return clicks(options)
    options.batch = options.batch or BATCHES[options.model]
    (steps if options.command == "steps" else devices)(options)


if __name__ == "__main__":
    main()
