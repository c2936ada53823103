#!/usr/bin/env python3
"""Runs with tables whose workers and ps are killed at random times.

    SHOAL=/path/to/shoal tests/real_process/table_kills.py --kills=200 --mode=sync|async|both [--seed=S]

--kills is for each mode. SYNC: the exported rows and the dense variables have the same bytes as those of a run in which nothing
was killed. ASYNC: every bucket of every table counts every batch once, and every key of the wide_* tables, which are never
admitted, has been counted once for each batch that touched it."""
import argparse
import hashlib
import json
import pathlib
import random
import re
import struct
import subprocess
import sys
import time

import cluster

CLICKS = pathlib.Path(__file__).resolve().parent / "clicks.textproto"
EPOCHS = 4
BATCHES = 400  # in an epoch, as in the run file
EXAMPLES = 40000
REPLICAS = 4  # SYNC: batches of a step
FLAGS = ("--num_ps_tasks=2", "--num_replicas=2", f"--num_epochs={EPOCHS}", "--set", "cluster.max_worker_restarts=1000")
TASKS = (("worker", 0), ("worker", 1), ("ps", 0), ("ps", 1))
MOST_KILLS = 8  # in a run: a ps is restarted up to ten times


def run_file(directory, synchronous):
    """ASYNC: rows of wide_* are counted and never stored, so a checkpoint has the number of batches that touched each key."""
    text = CLICKS.read_text()
    if not synchronous:
        wide = text.index('name: "wide_*"')
        place = text.index("expiry { idle_updates: 40 }", wide)
        text = text[:place] + "admission { min_count: 1000000 }" + text[place + len("expiry { idle_updates: 40 }"):]
    path = pathlib.Path(directory) / "clicks.textproto"
    path.write_text(text)
    return str(path)


def shards(run):
    """(whether it is of the newest checkpoint, header, bytes of the tensors) of each shard that the newest checkpoint consists
    of: a shard with all keys comes before those with what has changed since, which name it."""
    def read(path, is_newest):
        data = path.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + length])
        named = re.findall(r"(ckpt-\S+) (shard-\S+\.safetensors)", " ".join(
            text for key, text in header["__metadata__"].items() if key.startswith("base")))
        for directory, name in sorted(named, key=lambda shard: int(shard[0].split("-")[1])):
            yield from read(path.parent.parent / directory / name, False)
        yield is_newest, header, data[8 + length:]

    newest = max((path.parent for path in (run.out / "checkpoints").glob("*/MANIFEST")),
                 key=lambda path: int(path.name.split("-")[1]))
    for shard in sorted(newest.glob("shard-*.safetensors")):
        yield from read(shard, True)


def counts_of(run):
    """ASYNC: the updates of each bucket, and for each key of the wide_* tables the batches that have touched it."""
    updates, counts = {}, {}
    for is_newest, header, data in shards(run):
        for name, state in header["__metadata__"].items():
            if is_newest and "version=" in state:
                updates[name] = int(state.split("version=")[1].split()[0])
        for name, tensor in header.items():
            if name.endswith("|counted_keys") and name.startswith("wide_"):
                bucket = name.rsplit("|", 1)[0]
                begin, end = tensor["data_offsets"]
                keys = struct.unpack(f"<{(end - begin) // 8}Q", data[begin:end])
                begin, end = header[f"{bucket}|counts"]["data_offsets"]
                counts.setdefault(bucket, {}).update(zip(keys, struct.unpack(f"<{(end - begin) // 4}I", data[begin:end])))
    return updates, counts


def check_async(run):
    examples = sum(line["examples"] for line in run.metrics())
    assert examples == EPOCHS * EXAMPLES, f"{examples} examples counted, not {EPOCHS * EXAMPLES}"
    updates, counts = counts_of(run)
    wrong = {name: number for name, number in updates.items() if number != EPOCHS * BATCHES}
    assert not wrong, f"not {EPOCHS * BATCHES} updates: {wrong}"
    touches = sum(sum(bucket.values()) for bucket in counts.values())
    assert touches > EXAMPLES, f"the tables count only {touches} touched rows"
    return counts


def check_sync(run):
    steps = EPOCHS * BATCHES // REPLICAS
    lines = [line["step"] for line in run.metrics()]
    assert lines == list(range(1, steps + 1)), f"{len(lines)} lines, {lines[:3]}..{lines[-3:]}"
    tables = run.out / "tables"
    done = subprocess.run([cluster.shoal_binary(), "export", str(run.out), f"--tables={tables}"], capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    files = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(tables.glob("*.npy"))}
    assert files, "no rows were exported"
    return {**files, "dense variables": run.digest()}


def kill_some(run, kills, last_step, chance):
    """Kills tasks until so many were killed, or most of the run is done. Returns the number."""
    killed = 0
    run.wait_for_step(5)
    while killed < kills:
        time.sleep(chance.uniform(0.3, 2))
        if run.process.poll() is not None or run.step() >= 0.85 * last_step:
            break
        task = chance.choice(TASKS)
        if len(run.pids(*task)) != 1:
            continue  # It is being restarted.
        try:
            run.kill(*task)
        except (AssertionError, ProcessLookupError):
            continue  # It has just ended.
        killed += 1
    return killed


def differences(got, expected):
    return sorted(name for name in set(got) | set(expected) if got.get(name) != expected.get(name))


def kill_in_mode(synchronous, kills, chance):
    check = check_sync if synchronous else check_async
    last_step = EPOCHS * BATCHES // (REPLICAS if synchronous else 1)
    mode = () if synchronous else ("--nosync_replicas",)
    with cluster.Run("", *FLAGS) as files:
        clicks = run_file(files.directory.name, synchronous)
        with cluster.Run(clicks, *FLAGS, *mode) as run:
            run.finish(timeout=900)
            expected = check(run)
        done = runs = 0
        while done < kills:
            with cluster.Run(clicks, *FLAGS, *mode) as run:
                run.start()
                killed = kill_some(run, min(MOST_KILLS, kills - done), last_step, chance)
                run.finish(timeout=900)
                run.assert_nothing_left()
                other = differences(check(run), expected)
                assert not other, f"other than without kills: {', '.join(other)}\n{run.logs()}"
            done += killed
            runs += 1
            print(f"{'SYNC' if synchronous else 'ASYNC'}: {done} kills in {runs} runs, nothing lost or doubled", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=4, help="in each mode")
    parser.add_argument("--mode", choices=("sync", "async", "both"), default="both")
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    options = parser.parse_args()
    seed = options.seed or random.randrange(1, 1 << 30)
    print(f"seed {seed}", flush=True)
    chance = random.Random(seed)
    try:
        for synchronous in (True, False):
            if options.mode in ("both", "sync" if synchronous else "async"):
                kill_in_mode(synchronous, options.kills, chance)
    except AssertionError as error:
        print(f"FAILED: {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
