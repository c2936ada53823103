"""Cases that the directory of a finished run refuses, and addresses that other processes listen at."""
import shutil
import socket
import subprocess

FLAGS, DATA_ERROR, CONFIG = 64, 65, 78
LOCAL = ["--num_ps_tasks=0"]


def run_cases(scratch, shoal, quick, write_data, write_tree):
    """A finished run's directory refuses these."""
    out = scratch / "finished"
    data = write_data(scratch / "good")
    train = ["train", *quick, data, *LOCAL, f"--out={out}"]
    done = subprocess.run([shoal, *train], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    other = [a.replace("softmax_regression", "mlp") for a in train]
    processes = [a for a in train if a not in LOCAL] + ["--num_ps_tasks=1", "--num_replicas=1"]
    cases = [
        ([*train, "--resume=never"], CONFIG, "resume"),
        ([*other, "--num_epochs=2"], CONFIG, f"--out: {out} has the checkpoint of step "),
        ([*other, "--num_epochs=2"], CONFIG, "or give this model another --out"),
        (["train", f"--run={out}"], FLAGS, f"--run: {out} is a directory; that run's file is {out}/run.textproto"),
        (["stop", str(out)], CONFIG, f"the run in {out} is over: it finished at step "),
        (["checkpoint", str(out)], CONFIG, ": there is nothing to save"),
        ([*train, "--num_epochs=2", "--learning_rate=nan"], FLAGS, "learning_rate"),
        ([*train, "--num_epochs=2", "--data_dir=/nowhere"], CONFIG, "/nowhere"),
        ([*train, "--num_epochs=2", "--nosync_replicas"], CONFIG, "--sync_replicas: the run in"),
        ([*train, "--num_epochs=2", "--slice_bytes=4096"], CONFIG, "cluster.slice_bytes is 4096"),
        ([*processes, "--resume=never"], CONFIG, "resume"),
        ([*processes, "--num_epochs=2", "--slice_bytes=4096"], CONFIG, "cluster.slice_bytes is 4096"),
    ]
    # The run was finished: a flag that does not fit is refused before the run is reported as finished.
    cases.append((other, CONFIG, "checkpoint"))
    damaged = scratch / "damaged"
    damage = [a.replace(str(out), str(damaged)) for a in train]
    done = subprocess.run([shoal, *damage], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    for shard in (damaged / "checkpoints").glob("*/shard-*.safetensors"):
        content = bytearray(shard.read_bytes())
        content[-1] ^= 1
        shard.write_bytes(content)
    cases.append(([*damage, "--num_epochs=2"], DATA_ERROR, "shard-"))
    cases.append((["inspect", f"--out={damaged}"], DATA_ERROR, "shard-"))
    lost = scratch / "lost"
    shutil.copytree(out, lost, ignore=shutil.ignore_patterns("ckpt-*"))
    cases.append(([*train[:-1], f"--out={lost}"], CONFIG, f"{lost}/checkpoints/LATEST: names ckpt-"))
    bare = scratch / "bare"
    bare.mkdir()
    shutil.copy(out / "run.textproto", bare)
    cases.append((["eval", f"--out={bare}"], CONFIG, f"the run in {bare} has no checkpoint yet; wait for"))
    (bare / "checkpoints").mkdir()
    cases.append((["predict", f"--out={bare}"], CONFIG, f"the run in {bare} has no checkpoint yet; wait for"))
    cases.append((["status", str(bare)], CONFIG, f"the run in {bare} is not running: no process holds the directory"))
    cases.append((["eval", f"--out={out}", "--step=12345"], CONFIG, "--step: there is no checkpoint of step 12345"))
    predict = ["predict", f"--out={out}"]
    rows = scratch / "rows"
    write_tree(rows, {"narrow.csv": b"a,b\n1,2\n", "word.csv": b"a,b\n1,x\n", "cut.npy": b"\x93NUMPY\x01", "x.txt": b"1"})
    cases += [
        ([*predict, "--step=12345"], CONFIG, "--step: there is no checkpoint of step 12345"),
        (["predict", f"--out={out}", "--input=/nowhere.npy"], CONFIG,
         "--input: cannot open /nowhere.npy: No such file or directory; name a file that is there"),
        (["predict", f"--out={out}", "--input=/nowhere.png"], CONFIG,
         "--input: cannot look at /nowhere.png: No such file or directory; name a file that is there"),
        ([*predict, f"--input={rows}/narrow.csv"], CONFIG,
         "narrow.csv is read as [1,2], but the run's examples are [n,1,28,28]; give a .npy array of that shape"),
        ([*predict, f"--input={rows}/word.csv"], DATA_ERROR, "word.csv:2: column \"b\" is \"x\""),
        ([*predict, f"--input={rows}/cut.npy"], DATA_ERROR, "cut.npy"),
        ([*predict, f"--input={rows}/x.txt"], FLAGS, "must end in .npy, .csv, .tsv, .tfrecord, .png or .jpg"),
        ([*predict, "--predictions=a.txt"], FLAGS, "--predictions: must end in .npy or .csv"),
        ([*predict, "--predictions=/nowhere/a.npy"], CONFIG,
         "--predictions: cannot write /nowhere/a.npy: there is no directory /nowhere; create it, or"),
        ([*predict, "--devices=/gpu:5", "--noallow_soft_placement"], FLAGS, "device:GPU:5"),
        ([*predict, "--devices=/cpu:1,/cpu:1"], FLAGS, "devices: /cpu:1 is named twice"),
    ]
    table = scratch / "table"
    write_tree(table, {"train.csv": b"a,b,kind\n1,1,cat\n2,2,dog\n", "label.csv": b"a,b,kind\n1,1,cat\n", "few.csv": b"b\n1\n"})
    done = subprocess.run([shoal, "train", "--model=softmax_regression", "--num_epochs=1", "--batch_size=2", *LOCAL,
                           f"--data_dir={table}", f"--out={table}/run"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    cases += [
        (["predict", f"--out={table}/run", f"--input={table}/label.csv"], CONFIG, 'has the column "kind", which is the label'),
        (["predict", f"--out={table}/run", f"--input={table}/few.csv"], CONFIG, 'lacks the column "a", which '),
    ]
    cases.append((["inspect", "--out=/nowhere"], CONFIG, "there is no /nowhere"))
    busy = socket.socket()
    busy.bind(("127.0.0.1", 0))
    busy.listen()
    port = busy.getsockname()[1]
    cases.append((["chief", *quick, data, "--num_ps_tasks=1", f"--out={scratch / 'port'}",
                   f"--listen_address=127.0.0.1:{port}"], CONFIG,
                  f"--listen_address: cannot listen at 127.0.0.1:{port}"))
    cases.append((["chief", *quick, data, "--num_ps_tasks=1", f"--out={scratch / 'port'}",
                   "--listen_address=127.0.0.1:0", f"--metrics_address=127.0.0.1:{port}"], CONFIG,
                  f"--metrics_address: cannot listen at 127.0.0.1:{port}"))
    cases.append((["ps", *quick, data, "--num_ps_tasks=1", f"--out={scratch / 'port'}", "--chief_host=127.0.0.1:1",
                   "--task_index=0", f"--listen_address=127.0.0.1:{port}"], CONFIG,
                  f"--listen_address: cannot listen at 127.0.0.1:{port}"))
    return cases, busy
