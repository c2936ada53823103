#!/usr/bin/env python3
"""Bad input through the real binary: every command line below ends with its documented exit code and one line
on standard error that names the field and the remedy."""
import gzip
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib

import ids_cases
import run_cases
import table_cases
import tls_cases

SHOAL = os.environ.get("SHOAL", str(pathlib.Path("deploy/shoal").resolve()))
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")

USAGE, FLAGS, DATA_ERROR, CONFIG = 2, 64, 65, 78
QUICK = ["--model=softmax_regression", "--num_epochs=1", "--set=data.train_examples=256",
         "--set=data.test_examples=256"]
LOCAL = ["--num_ps_tasks=0"]


def images(count, rows=28, columns=28, magic=2051):
    return struct.pack(">IIII", magic, count, rows, columns) + bytes(count * rows * columns)


def labels(values, magic=2049):
    return struct.pack(">II", magic, len(values)) + bytes(values)


def write_data(directory, **files):
    """A tiny data set of 64 images, some of its files replaced; None leaves a file out."""
    directory.mkdir(parents=True, exist_ok=True)
    content = {"train_images": images(64), "train_labels": labels([1] * 64),
               "t10k_images": images(64), "t10k_labels": labels([1] * 64), **files}
    for name, data in content.items():
        split, kind = name.split("_")
        dimensions = 3 if kind == "images" else 1
        if data is not None:
            path = directory / f"{split}-{kind}-idx{dimensions}-ubyte.gz"
            path.write_bytes(data if data[:2] == b"\x1f\x8b" else gzip.compress(data))
    return f"--data_dir={directory}"


def png(side=4, channels=1, value=100):
    """A flat image."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", side, side, 8, 0 if channels == 1 else 2, 0, 0, 0)
    rows = (b"\0" + bytes([value] * side * channels)) * side
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b""))


def write_folder(directory, extra):
    """An image folder of two classes, and what is wrong with it: path to bytes, None for a folder."""
    content = {f"{split}/{name}/{i}.png": png(value=100 + 50 * (name == "b"))
               for split in ("train", "test") for name in "ab" for i in range(8)}
    return write_tree(directory, {**content, **extra})


def write_tree(directory, content):
    for name, data in content.items():
        path = directory / name
        if data is None:
            path.mkdir(parents=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return f"--data_dir={directory}"


def npy(kind, shape, data):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + data


def floats(*shape, value=0.5):
    """An array of one value."""
    return npy("<f4", shape, struct.pack("<f", value) * math.prod(shape))


def flag_cases():
    """Wrong before anything is touched: (arguments, exit code, words that must be in the line)."""
    train = ["train", *QUICK]
    ps = ["ps", *QUICK, "--out=unused"]
    return [
        ([], USAGE, "usage"),
        (["trian"], USAGE, "did you mean train"),
        ([*train, "--batchsize=3"], FLAGS, "--batchsize: is not a flag; did you mean --batch_size?"),
        ([*train, "--batch_size=abc"], FLAGS, "--batch_size: a whole number"),
        ([*train, "--batch_size=-1"], FLAGS, "--batch_size: a whole number"),
        ([*train, "--batch_size=0"], FLAGS, "batch_size: must be 1 to"),
        ([*train, "--batch_size"], FLAGS, "--batch_size: needs a value"),
        ([*train, "--set=optimizer.lr=1"], FLAGS, "--set optimizer.lr: OptimizerConfig has no field"),
        ([*train, "--set=seed"], FLAGS, "is not PATH=VALUE"),
        ([*train, "--run=/nowhere.textproto"], CONFIG, "--run: cannot read /nowhere.textproto"),
        (["train"], FLAGS, "--run: is missing; name a run file"),
        (["train", "--run=/dev/null"], FLAGS, "--run: /dev/null sets no field of a run"),
        (["evaluator"], FLAGS, "--run: is missing; name a run file"),
        (["evaluator", "--out=runs/a"], FLAGS, "--run=runs/a/run.textproto"),
        (["launch"], FLAGS, "--hosts: is missing"),
        (["launch", "--hosts=/nowhere"], FLAGS, "--run: is missing; name a run file"),
        ([*train, "--learning_rate=nan"], FLAGS, "learning_rate: must be a finite number"),
        ([*train, "--learning_rate=-1"], FLAGS, "learning_rate: must be a finite number"),
        ([*train, "--num_ps_tasks=0", "--num_replicas=2"], FLAGS,
         "When using replicas num_ps_tasks must be positive"),
        ([*train, "--num_replicas=0"], FLAGS, "num_replicas: must be"),
        ([*train, "--num_clones=0"], FLAGS, "num_clones: must be"),
        ([*train, "--set=deployment.replica_id=2"], FLAGS, "replica_id must be less than num_replicas"),
        ([*train, "--devices=/cpu:0,/cpu:0"], FLAGS, "devices: /cpu:0 is named twice"),
        ([*train, "--devices=/tpu:0"], FLAGS, "devices: \"/tpu:0\" is not a device"),
        ([*train, "--devices=/cpu:0", "--num_clones=2"], FLAGS, "num_clones is 2"),
        ([*train, "--slice_bytes=1000"], FLAGS, "cluster.slice_bytes: must be a multiple of 64"),
        ([*train, "--replica_batch_size=1", "--devices=/cpu:0,/cpu:2"], FLAGS, "replica_batch_size: must be 2 to"),
        ([*train, "--variables=gpu"], FLAGS, "variables: \"gpu\" must be cpu, first_device or mirrored"),
        ([*train, "--variables=mirrored"], FLAGS, "variables: is mirrored, but num_ps_tasks is 2"),
        (["status"], FLAGS, "ADDRESS|DIR: is missing"),
        (["stop", "nowhere"], CONFIG, "shoal stop: there is no directory nowhere, and as an address it has no port"),
        (["checkpoint", "a:1", "b:2"], FLAGS, "ADDRESS|DIR: is given more than once"),
        (["status", "/etc"], CONFIG, "shoal status: /etc holds no run: it has no cluster.textproto; name"),
        (["status", "/nowhere"], CONFIG, "shoal status: there is no directory /nowhere; name a run's directory"),
        (["status", "/etc/passwd"], CONFIG, "shoal status: /etc/passwd is not a directory; name"),
        (["status", "a:1", "--batch_size=3"], FLAGS, "--batch_size: has no meaning"),
        (["stop", "a:1", "--timeout=soon"], FLAGS, "--timeout: a whole number"),
        ([*train, "--metrics_address=9090"], FLAGS, "--metrics_address"),
        ([*train, "--metrics_address=0.0.0.0:0"], CONFIG, "--metrics_address: 0.0.0.0:0 can be reached"),
        ([*train, "--metrics_address=unix:/tmp/x"], FLAGS,
         "--metrics_address: \"unix:/tmp/x\" is a unix socket; write host:port or [v6]:port"),
        ([*train, "--metrics_address=a:65536"], FLAGS, "not a number from 1 to 65535, or 0 for any free one; write host:port or [v6]"),
        (["train", "--run="], FLAGS, "--run: is empty; give a value or drop the flag"),
        ([*train, "--set=num_replicas=3"], FLAGS, "did you mean --num_replicas=3, which is --set deployment.num_replicas=3?"),
        (["predict"], FLAGS, "--out: is missing"),
        (["predict", "--out=/nowhere"], CONFIG, "shoal predict: there is no /nowhere; name the directory of a run"),
        (["eval", "--out=/etc"], CONFIG, "/etc holds no run: it has no run.textproto; name"),
        (["eval", "/etc"], CONFIG, "shoal eval: /etc holds no run: it has no run.textproto; name"),
        (["eval", "/etc/passwd"], CONFIG, "/etc/passwd is not a directory; name the directory of a run"),
        (["inspect", "/etc"], CONFIG, "shoal inspect: /etc holds no run: it has no run.textproto; name"),
        (["status", "~/runs/a"], FLAGS, "argument: \"~/runs/a\" begins with ~, which only a shell replaces"),
        ([*train, "--out=~/runs/a"], FLAGS, "out: \"~/runs/a\" begins with ~, which only a shell replaces"),
        (["eval", "--max_num_batches=3", "/etc"], FLAGS, "Shoal's is --set data.test_examples=N"),
        (["export", "/etc"], CONFIG, "shoal export: /etc holds no run: it has no run.textproto; name"),
        (["eval", "/etc", "--out=/"], FLAGS, "/etc: is not a flag; the run's directory is / already"),
        (["export", "clicks", "rows"], FLAGS, "rows: is not a flag; the run's directory is clicks already"),
        (["train", "--run=/etc"], FLAGS, "--run: /etc is a directory; name a run file in it"),
        (["train", f"--run={SHOAL}"], FLAGS, f"--run: {SHOAL} is not text; name a run file"),
        ([*train, "--set=model.layer[0].dense.units=3"], FLAGS,
         "layer is an empty list (a model that is given by name lists no layers)"),
        (["train", "--set=model=layer {}"], FLAGS, "local_response_norm {...}"),
        ([*train, "--set=data.features=7"], FLAGS,
         "data.features: is for the format synthetic_regression and synthetic_classification only, and the data are idx"),
        ([*train, "--set=data.csv.label=q"], FLAGS, "data.csv.label: is for the format csv only"),
        ([*train, "--set=data.tfrecord.input=foo"], FLAGS, "data.tfrecord.input: is for the format tfrecord only"),
        ([*train, "--data_format=synthetic_classification", "--set=data.target_columns=2"], FLAGS,
         "data.target_columns: is for the format synthetic_regression only"),
        (["predict", "--out=/nowhere", "--learning_rate=1"], FLAGS, "--learning_rate: has no meaning"),
        ([*train, "--optimizer=adm"], FLAGS, "optimizer: \"adm\" is unknown"),
        ([*train, "--model=resnet"], FLAGS, "model.name: \"resnet\" is unknown"),
        ([*train, "--loss=l3"], FLAGS, "model.loss: \"l3\" is unknown"),
        ([*train, "--num_epochs=0"], FLAGS, "num_epochs: and max_steps are both 0"),
        ([*train, "--max_staleness=3"], FLAGS, "max_staleness: is 3, but nothing is stale"),
        ([*train, "--clock_bound=3"], FLAGS, "clock_bound: is 3, but synchronous training has one clock"),
        ([*train, "--set=optimizer.clip_by_global_norm=-1"], FLAGS, "optimizer.clip_by_global_norm"),
        ([*train, "--set=model.width_multiplier=0.5"], FLAGS, "model.width_multiplier: is for the mobilenet_v2 models"),
        (["train", "--set=model=layer { batch_norm { sync_clone: true } }"], FLAGS,
         "--set model: BatchNormLayer has no field \"sync_clone\"; did you mean sync_clones?"),
        (["train", "--set=model=layer { layer_norm { sync_clones: true } }"], FLAGS,
         "--set model: LayerNormLayer has no field \"sync_clones\""),
        (["train", "--set=model=layer { batch_norm { sync_clones: maybe } }"], FLAGS, "--set model: sync_clones: true or false is wanted"),
        ([*train, "--set=model=layer { batch_norm { sync_clones: true } }"], FLAGS, "but layers are listed too; drop one"),
        ([*train, "--seed", "1", "--seed", "2"], FLAGS, "--seed: is given twice"),
        ([*train, "--out="], FLAGS, "--out: is empty"),
        ([*train, "--optimizer=sgd", "--set=optimizer.adam.beta1=0.5"], FLAGS, "contradicts --optimizer=sgd"),
        ([*train, "--nosync_replicas", "--replicas_to_aggregate=3"], FLAGS, "no meaning with --nosync_replicas"),
        ([*train, "--set=optimizer.adam.epsilon=1e-60"], FLAGS, "optimizer.adam.epsilon: must be"),
        ([*train, "--set=optimizer.adagrad.initial_accumulator=0"], FLAGS, "optimizer.adagrad.initial_accumulator"),
        ([*train, "--set=optimizer.schedule=kind: KIND_EXPONENTIAL rate: 2"], FLAGS, "optimizer.schedule.rate"),
        ([*train, "--resume=perhaps"], FLAGS, "resume: \"perhaps\" must be"),
        ([*train, "--set=data.format=xml"], FLAGS, "one of idx"),
        ([*train, "--set=data.format=csv"], FLAGS, "data.directory: is empty"),
        ([*train, "--set=data.image.channels=2"], FLAGS, "data.image.channels: must be 1 (grey), 3 (RGB)"),
        ([*train, "--set=data.image.height=9"], FLAGS, "data.image.width: is not given"),
        ([*train, "--set=data.image.stddev=0"], FLAGS, "data.image.stddev: must be a finite number above 0"),
        ([*train, "extra"], FLAGS, "extra: is not a flag"),
        ([*train, "--task_index=0"], FLAGS, "--task_index: has no meaning for this command"),
        ([*ps, "--ps_hosts=a:1,b:1", "--num_ps_tasks=3", "--task_index=0", "--chief_host=c:1"], FLAGS,
         "num_ps_tasks: is 3, but ps_hosts names 2 tasks"),
        ([*ps, "--ps_hosts=a:1,a:1", "--task_index=0", "--chief_host=c:1"], FLAGS, "given to ps/0 and to ps/1"),
        ([*ps, "--ps_hosts=a:70000", "--chief_host=c:1"], FLAGS, "not a number from 1 to 65535"),
        ([*ps, "--ps_hosts=a", "--chief_host=c:1"], FLAGS, "ps_hosts: \"a\" has no port"),
        ([*ps, "--ps_hosts=a:1,b:1", "--task_index=2", "--chief_host=c:1"], CONFIG, "has no ps/2"),
        ([*ps, "--ps_hosts=a:1", "--task_index=0"], FLAGS, "--chief_host: is missing, and --worker_hosts too; give"),
        ([*ps, "--job_name=worker", "--chief_host=c:1"], FLAGS, "--job_name: is worker"),
        ([*ps, "--cluster_from=k8s"], FLAGS, "--cluster_from: \"k8s\" is unknown"),
        ([*ps, "--cluster_from=slurm"], FLAGS, "--cluster_from: is slurm, but SLURM_PROCID"),
        ([*ps, "--chief_port=0"], FLAGS, "--chief_port: a port from 1 to 65535 is wanted, not \"0\""),
        ([*ps, "--chief_port=65536"], FLAGS, "--chief_port: a port from 1 to 65535"),
        ([*ps, "--chief_host=c:1", "--chief_port=2"], FLAGS, "--chief_port: is given, but --chief_host=c:1"),
        ([*ps, "--chief_host=c:1", "--task_index=0", "--advertise=a b"], FLAGS, "--advertise: \"a b:0\" contains"),
        (["task", *QUICK, "--out=unused"], FLAGS, "--job_name: is missing, and no launcher's variables"),
        (["task", *QUICK, "--out=unused", "--job_name=boss"], FLAGS, "job \"boss\" is unknown"),
        (["worker", *QUICK, "--out=unused", "--num_ps_tasks=1", "--num_replicas=2", "--chief_host=c:1",
          "--replica_id=2"], FLAGS, "replica_id must be less than num_replicas"),
        (["chief", *QUICK, "--out=unused", "--cluster=/nowhere"], CONFIG, "cluster: cannot read /nowhere"),
        (["chief", *QUICK, "--out=unused", "--listen_address=127.0.0.1"], FLAGS, "has no port"),
        (["chief", *QUICK, "--out=unused"], FLAGS, "--listen_address: is missing"),
        ([*ps, "--chief_host=c:1", "--listen_address=192.0.2.1:0", "--task_index=0"], CONFIG,
         "--listen_address: address 192.0.2.1:0 can be reached"),
        ([*ps, "--chief_host=c:1", "--listen_address=192.0.2.1:0", "--task_index=0"], CONFIG,
         "or --insecure on a trusted"),
    ]


def file_cases(scratch):
    """Wrong files, through one process and through real tasks."""
    def text(name, content):
        path = scratch / name
        path.write_text(content)
        return str(path)

    def data(name, **files):
        return write_data(scratch / name, **files)

    train = ["train", *QUICK, "--out=" + str(scratch / "out"), *LOCAL]
    whole = gzip.compress(images(64))
    cases = [
        (["train", "--run=" + text("a.textproto", "batch_sise: 3\n")], FLAGS,
         "a.textproto:1: RunConfig has no field \"batch_sise\"; did you mean batch_size?"),
        (["train", "--run=" + text("b.textproto", "name: \"b\"\nbatch_size: many\n")], FLAGS,
         "b.textproto:2: batch_size:"),
        (["train", "--run=" + text("c.textproto", "model { name: \"mlp\"\n")], FLAGS, "c.textproto:"),
        (["train", "--run=" + text("d.textproto", "seed: 1\nseed: 2\n")], FLAGS, "d.textproto:2: seed:"),
        (["chief", *QUICK, "--out=unused", "--cluster=" + text("e.textproto", "job { name: \"boss\" }")], FLAGS,
         "job \"boss\" is unknown"),
        ([*train, "--data_dir=/nowhere"], CONFIG, "/nowhere"),
        ([*train, data("truncated", train_images=whole[:len(whole) // 2])], DATA_ERROR, "train-images"),
        ([*train, data("short", train_images=images(64)[:-5])], DATA_ERROR, "train-images"),
        ([*train, data("magic", train_images=images(64, magic=7))], DATA_ERROR, "train-images"),
        ([*train, data("label", train_labels=labels([10] * 64))], DATA_ERROR, "label"),
        ([*train, data("count", train_labels=labels([1] * 63))], DATA_ERROR, "labels"),
        ([*train, data("absent", train_labels=None)], CONFIG, "train-labels"),
        ([*train, data("shape", t10k_images=images(64, 14, 14))], DATA_ERROR,
         "data.directory: test examples are"),
        ([*train, data("empty", train_images=b"")], DATA_ERROR, "train-images"),
        (["train", *QUICK, data("real", train_labels=labels([10] * 64)), "--num_ps_tasks=1", "--num_replicas=1",
          "--out=" + str(scratch / "real_out")], DATA_ERROR, "label"),
        ([*train, "--resume=must"], CONFIG, "resume"),
        ([*train, "--batch_size=1000"], FLAGS, "batch_size: 1000 x 1 clone is more than the 256 training examples"),
        ([*train, "--devices=/gpu:0", "--noallow_soft_placement"], FLAGS, "device:GPU:0"),
        ([*train, "--devices=/cpu:0,/gpu:3", "--noallow_soft_placement"], FLAGS, "device:GPU:3"),
        ([*train, "--replica_batch_size=1000"], FLAGS,
         "replica_batch_size: 1000 is more than the 256 training examples"),
        ([*train, "--loss=mean_squared_error"], FLAGS, "model.loss: mean_squared_error compares numbers"),
        ([*train, "--model=mlp", "--set=model.name=", "--set=model=layer { flatten {} } layer { dense { units: 5 } }"],
         FLAGS, "model.layer[1] (dense): has 5 outputs, but there are 10 classes; give it 10 units"),
    ]
    if os.access("/proc", os.R_OK):
        cases.append((["train", *QUICK, *LOCAL, "--out=/proc/none"], CONFIG, "--out: cannot use /proc/none"))
    return cases


def format_cases(scratch):
    """Data sets of other formats that are wrong."""
    def folder(name, **extra):
        return write_folder(scratch / name, {k.replace("__", "/").replace("_png", ".png"): v
                                             for k, v in extra.items()})

    def tree(name, content):
        return write_tree(scratch / name, content)

    train = ["train", *QUICK, "--batch_size=8", "--out=" + str(scratch / "out"), *LOCAL]
    tasks = ["train", *QUICK, "--batch_size=8", "--num_ps_tasks=1", "--num_replicas=2", "--replicas_to_aggregate=1"]
    layers = [*[a for a in train if not a.startswith("--model")], folder("layers")]
    good = tree("csv", {"train.csv": b"a,b\n1,1\n", "test.csv": b"a,b\n1,1\n"})
    arrays = {"x_train.npy": npy("<f4", "(2, 1)", bytes(8)), "y_train.npy": npy("|u1", "(2,)", b"\1\x0b")}
    return [
        ([*train, tree("nothing", {"readme": b""})], CONFIG, "holds no data set"),
        ([*train, good, "--set=data.tfrecord.label=q"], FLAGS, "data.tfrecord.label: is for the format tfrecord only, "
         "and the data are csv"),
        *[([*train, "--data_dir=/nowhere", *form], CONFIG,
           "data.directory: there is no directory /nowhere; name that of the data set with --data_dir=DIR")
          for form in ([], *[[f"--data_format={name}"] for name in (
              "idx", "image_folder", "cifar10", "cifar100", "csv", "npy", "tfrecord")])],
        ([*train, good, "--data_format=npy"], CONFIG, "data.format: is npy, but "),
        ([*train, good, "--data_format=npy"], CONFIG, " holds csv (train.csv); set --data_format=csv"),
        ([*train, tree("iris", {"iris.csv": b"a,b\n1,1\n"})], CONFIG, "iris.csv to train.csv"),
        ([*train, tree("two", {"train.csv": b"", "x_train.npy": b""})], CONFIG, "data.format: "),
        ([*train, folder("unreadable", train__a__3_png=png()[:50])], DATA_ERROR, "train/a/3.png: unreadable image"),
        ([*train, folder("other", train__b__3_png=b"GIF89a")], DATA_ERROR, "train/b/3.png: unreadable image"),
        ([*train, folder("channels", train__b__3_png=png(channels=3))], DATA_ERROR,
         "b/3.png: has 3 channels, the first image has 1 channel; set data.image.channels"),
        ([*train, folder("sizes", train__b__3_png=png(side=5))], DATA_ERROR, "set data.image.height"),
        ([*train, folder("no_images", train__c=None)], CONFIG, "train/c: folder without images"),
        ([*tasks, folder("unreadable_of_tasks", test__a__3_png=b""), f"--out={scratch / 'unreadable_out'}"], DATA_ERROR,
         "test/a/3.png: unreadable image (it is empty); replace or remove the file"),
        ([*tasks, folder("channels_of_tasks", train__b__3_png=png(channels=3)), f"--out={scratch / 'channels_out'}"],
         DATA_ERROR, "b/3.png: has 3 channels, the first image has 1 channel; set data.image.channels"),
        ([*tasks, folder("device_of_tasks"), f"--out={scratch / 'device_out'}", "--devices=/gpu:7",
          "--noallow_soft_placement"], FLAGS, "device:GPU:7"),
        ([*train, folder("lenet"), "--model=lenet5"], FLAGS, "model: conv2/Conv (Conv): a window of 5 does not fit into images of size 2"),
        ([*layers, "--set=model=layer { pool { kernel: 9 } } layer { flatten {} } layer { dense { units: 2 } }"], FLAGS,
         "model.layer[0] (pool): MaxPool (MaxPool): a window of 9 does not fit into images of size 4"),
        ([*layers, "--set=model=layer { name: 'a' flatten {} } layer { name: 'b' dense { units: 3 } } "
          "layer { input: 'a' input: 'b' add {} }"], FLAGS, "the layer a has 16 and the layer b has 3; change the units of a layer"),
        ([*train, folder("unknown", test__c__0_png=png())], CONFIG, "has no class \"c\""),
        ([*train, folder("classes"), "--set=data.classes=4", "--set=data.image.crop=9"], FLAGS,
         "data.image.crop: is 9, but the images are 4 x 4"),
        ([*train, tree("no_test", {"train/a/0.png": png()}), "--set=data.test_examples=5"], CONFIG,
         "has no test split, which would be test;"),
        ([*train, tree("cifar", {"data_batch_1.bin": bytes(3000)})], DATA_ERROR, "data_batch_1.bin: truncated"),
        ([*train, tree("cell", {"train.csv": b"a,b\n1,1\n?,1\n"})], DATA_ERROR, "train.csv:3: column \"a\" is \"?\""),
        ([*train, tree("missing", {"train.csv": b"a,b\n,1\n"})], DATA_ERROR, "train.csv:2: column \"a\" is empty"),
        ([*train, tree("range", {"train.csv": b"a,b\n1,10\n"})], DATA_ERROR, "train.csv:2: label in column \"b\" is 10"),
        ([*train, good, "--set=data.csv.label=z"], FLAGS, "data.csv.label: \"z\" is not a column"),
        ([*train, good, "--set=data.augment.flip=true"], FLAGS, "are for images"),
        ([*train, tree("npy", arrays)], DATA_ERROR, "y_train.npy: label of row 1 is 11"),
        ([*train, tree("tfrecord", {"train.tfrecord": bytes(7)})], DATA_ERROR, "train.tfrecord: truncated in"),
    ]


def predict_cases(scratch):
    """`shoal predict` refuses some examples for a run of images, and only warns of others."""
    def shoal(*arguments):
        done = subprocess.run([SHOAL, *arguments], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr

    out, kept = scratch / "cnn", scratch / "cnn_without_data"
    train = ["train", *[a.replace("softmax_regression", "fashion_cnn") for a in QUICK], "--batch_size=64", *LOCAL]
    shoal(*train, write_data(scratch / "cnn_data"), f"--out={out}")
    shoal(*train, write_data(scratch / "lost_data"), f"--out={kept}")
    shutil.rmtree(scratch / "lost_data")
    inputs = scratch / "inputs"
    nan = bytearray(floats(7, 1, 28, 28))
    nan[-4:] = struct.pack("<f", math.nan)
    write_tree(inputs, {
        "good.npy": floats(7, 1, 28, 28), "planes.npy": floats(7, 28, 28), "flat.npy": floats(7, 784),
        "single.npy": floats(28, 28), "low.npy": floats(7, 20, 28), "last.npy": floats(7, 28, 28, 1),
        "rgb.npy": floats(7, 28, 28, 3), "none.npy": floats(0, 1, 28, 28), "nan.npy": bytes(nan),
        "integers.npy": npy("<i8", (1, 1, 28, 28), bytes(8 * 784)), "large.npy": floats(7, 1, 28, 28, value=255),
        "low_bytes.npy": npy("|u1", (7, 20, 28), bytes(7 * 560)),
        "bytes.npy": npy("|u1", (7, 28, 28), b"\xff" * 7 * 784), "plain.csv": b"1,2\n3,4\n"})
    predict = ["predict", f"--out={out}"]
    colours = write_tree(scratch / "colours", {f"train/{name}/{i}.png": png(channels=3) for name in "ab" for i in range(8)})
    colour = scratch / "colour"
    shoal("train", "--model=softmax_regression", "--num_epochs=1", "--batch_size=4", *LOCAL, colours, f"--out={colour}",
          "--set=data.image.height=8", "--set=data.image.width=8")
    (inputs / "one.npy").write_bytes(npy("|u1", (3, 4, 4), bytes(48)))

    def misfit(name, shape, remedy):
        return ([*predict, f"--input={inputs}/{name}"], CONFIG,
                f"--input: {inputs}/{name} is read as {shape}, but the run's examples are [n,1,28,28]; {remedy}")

    warning = "large.npy has values above 1.5, but the run's data were images of bytes"
    for name in ("large.npy", "good.npy", "bytes.npy"):
        assert (warning in shoal(*predict, f"--input={inputs}/{name}")) == (name == "large.npy"), name
    (inputs / "link.npy").symlink_to(inputs / "good.npy")
    same = [([*predict, f"--input={inputs}/good.npy", f"--predictions={inputs}/{name}"], FLAGS,
             f"--predictions: {inputs}/{name} is the file of --input and would be lost; name another")
            for name in ("good.npy", "../inputs/good.npy", "link.npy")]
    return same + [
        misfit("planes.npy", "[7,28,28]", "save x.reshape(-1,1,28,28)"),
        misfit("flat.npy", "[7,784]", "save x.reshape(-1,1,28,28)"),
        misfit("single.npy", "[28,28]", "save x.reshape(-1,1,28,28)"),
        misfit("last.npy", "[7,28,28,1]", "save x.reshape(-1,1,28,28)"),
        misfit("low.npy", "[7,20,28]", "give examples of that shape"),
        misfit("low_bytes.npy", "[7,1,20,28]", "give examples of that shape"),
        misfit("rgb.npy", "[7,28,28,3]", "give examples of that shape"),
        ([*misfit("flat.npy", "", "")[0], "--set=data.image.mean=0.5"], CONFIG,
         "flat.npy is read as [7,784], but the run's examples are [n,1,28,28]; save x.reshape(-1,1,28,28)"),
        (["predict", f"--out={colour}", f"--input={inputs}/one.npy"], CONFIG,
         "one.npy has [3,4,4] and is read as [3,1,8,8], but the run's examples are [n,3,8,8]; give images with 3 channels, "
         "[n,height,width,3]"),
        (["predict", f"--out={kept}", f"--input={inputs}/low_bytes.npy"], CONFIG,
         "low_bytes.npy is read as [7,1,20,28], which does not fit the run (model: the run file's has variable"),
        ([*predict, f"--input={inputs}/integers.npy"], DATA_ERROR, "integers.npy: is <i8 [1,1,28,28]; it must be float32"),
        ([*predict, f"--input={inputs}/none.npy"], DATA_ERROR, "none.npy: is <f4 [0,1,28,28]; it must be"),
        ([*predict, f"--input={inputs}/nan.npy"], DATA_ERROR, "nan.npy: example 6 (from 0) has the value nan"),
        ([*predict, f"--input={inputs}/plain.csv"], FLAGS, "plain.csv: its first line is all numbers; give --set=data.csv.no_header=true"),
        ([*predict, f"--input={inputs}/plain.csv", "--set=data.csv.no_header=true"], CONFIG, "is read as [2,2], but"),
    ]


def record_of_run(arguments):
    """Returns what a run's directory, if it is one of a run, says of the run, and the examples that are given:
    no refused command may change them."""
    outs = [pathlib.Path(a.split("=", 1)[1]) for a in arguments if a.startswith("--out=")]
    files = [out / name for out in outs for name in ("run.textproto", "summary.json", "metrics.jsonl")]
    files += [pathlib.Path(a.split("=", 1)[1]) for a in arguments if a.startswith("--input=")]
    return {str(path): path.read_bytes() for path in files if path.is_file()}


def last_of_each(arguments):
    """Keeps the last one of a flag written --name=value more than once, which is an error of its own."""
    last = {a.split("=", 1)[0]: i for i, a in enumerate(arguments) if a.startswith("--") and "=" in a}
    return [a for i, a in enumerate(arguments)
            if not (a.startswith("--") and "=" in a) or a.startswith("--set=") or last[a.split("=", 1)[0]] == i]


def check(arguments, code, words):
    arguments = last_of_each(arguments)
    before = record_of_run(arguments)
    done = subprocess.run([SHOAL, *arguments], capture_output=True, text=True, timeout=60, check=False)
    lines = [line for line in done.stderr.splitlines() if line.startswith("shoal")]
    problem = ""
    if done.returncode != code:
        problem = f"exit code {done.returncode}, not {code}"
    elif words != "usage" and (len(lines) != 1 or words not in lines[0]):
        problem = f"no single line with {words!r}"
    elif before and record_of_run(arguments) != before:
        problem = f"changed one of {list(before)}"
    if problem:
        print(f"FAILED: shoal {' '.join(arguments)}\n  {problem}\n  {done.stderr.strip()}")
    return not problem


def check_directories(scratch):
    """A copy of a run's directory is a run of its own; a refused command makes no directory."""
    def shoal(*arguments):
        return subprocess.run([SHOAL, *arguments], capture_output=True, text=True, timeout=60, check=False, cwd=scratch)

    write_data(scratch / "moved_data")
    done = shoal("train", *QUICK, *LOCAL, "--data_dir=moved_data", "--out=first")
    assert done.returncode == 0, done.stderr
    shutil.copytree(scratch / "first", scratch / "copy")
    before = (scratch / "first" / "metrics.jsonl").read_bytes()
    done = subprocess.run([SHOAL, "train", f"--run={scratch / 'copy' / 'run.textproto'}", "--num_epochs=2"],
                          capture_output=True, text=True, timeout=60, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    assert str(scratch / "copy") in done.stdout, done.stdout
    assert (scratch / "first" / "metrics.jsonl").read_bytes() == before
    assert (scratch / "copy" / "metrics.jsonl").read_bytes() != before
    done = shoal("train", *QUICK, *LOCAL, "--resume=must", "--out=none")
    assert done.returncode == CONFIG and not (scratch / "none").exists(), done.stderr


def newest_model(out):
    """The bytes of the model's tensors, without the file's header."""
    content = max(out.glob("checkpoints/*/model.safetensors"), key=lambda path: path.stat().st_mtime).read_bytes()
    return content[8 + struct.unpack("<Q", content[:8])[0]:]


def check_nothing_is_lost(scratch):
    """An image that becomes unreadable under way ends the run in one line; with the image again it resumes to the
    same bytes."""
    for tasks in (LOCAL, ["--num_ps_tasks=2", "--num_replicas=2", "--replicas_to_aggregate=1"]):
        place = scratch / f"lost_{len(tasks)}"
        data = write_folder(place / "images", {})
        image = place / "images" / "train" / "b" / "5.png"
        good = image.read_bytes()

        def train(name, epochs):
            command = last_of_each([SHOAL, "train", *QUICK, "--batch_size=4", f"--num_epochs={epochs}",
                                    "--eval_every=4000", "--set=checkpoint.save_every=200", data, *tasks, f"--out={place / name}"])
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def end(process):
            errors = process.communicate(timeout=150)[1]
            return process.returncode, errors

        part = train("part", epochs=1000000)  # Ends by the image, however fast the machine is.
        while not list((place / "part").glob("checkpoints/*/MANIFEST")):
            assert part.poll() is None, end(part)
            time.sleep(0.002)
        image.write_bytes(good[:40] + bytes(len(good) - 40))
        code, errors = end(part)
        lines = [line for line in errors.splitlines() if "5.png" in line]
        assert code == DATA_ERROR and len(lines) == 1 and lines[0].startswith("shoal train: "), errors
        assert "train/b/5.png: unreadable image (" in lines[0] and "; replace or remove the file" in lines[0], errors
        steps = (place / "part" / "metrics.jsonl").read_bytes().count(b"\n")
        assert steps >= 200, steps
        image.write_bytes(good)
        epochs = steps // 4 + 250
        for name in ("whole", "part"):
            code, errors = end(train(name, epochs))
            assert code == 0, errors
        lines = [json.loads(line)["step"] for line in (place / "part" / "metrics.jsonl").read_text().splitlines()]
        assert lines == list(range(1, 4 * epochs + 1)), "steps were lost"
        assert newest_model(place / "part") == newest_model(place / "whole"), tasks


def main():
    with tempfile.TemporaryDirectory(prefix="shoal_bad_input_") as directory:
        scratch = pathlib.Path(directory)
        late, busy = run_cases.run_cases(scratch, SHOAL, QUICK, write_data, write_tree)
        check_directories(scratch)
        check_nothing_is_lost(scratch)
        cases = flag_cases() + tls_cases.tls_cases(scratch, QUICK) + file_cases(scratch) + format_cases(scratch)
        cases += ids_cases.ids_cases(scratch / "ids", SHOAL, npy)
        cases += table_cases.table_cases(scratch / "tables", SHOAL) + late + predict_cases(scratch)
        failed = 0
        for case in cases:
            failed += not check(*case)
            if case[1] == DATA_ERROR:  # The run has begun, and left a checkpoint.
                shutil.rmtree(scratch / "out", ignore_errors=True)
        busy.close()
    print(f"{len(cases) - failed} kinds of bad input refused, {failed} not")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
