"""MobileNetV2 on an image folder: the same bytes for any number of ps, batch norm included, and on two devices."""
import pathlib
import struct
import subprocess
import tempfile

import cluster

RUN = str(pathlib.Path(__file__).resolve().parent / "mobilenet.textproto")
TOOL = str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "make_image_folder.py")
folder = tempfile.TemporaryDirectory(prefix="shoal_images_")


def train(*flags):
    """Trains to the end; returns the digest of the model, its tensors and the losses of the steps."""
    with cluster.Run(RUN, f"--data_dir={folder.name}", *flags) as run:
        run.finish()
        run.assert_nothing_left()
        return run.digest(), run.tensors(), [line["loss"] for line in run.metrics()]


def any_number_of_ps():
    expected, tensors, losses = train("--num_ps_tasks=1", "--num_replicas=2")
    assert len(losses) == 6 * 320 // 32, losses
    assert sum(losses[-20:]) < 0.97 * sum(losses[:20]), f"not learned: {losses}"
    averages = [name for name in tensors if name.endswith("moving_variance")]
    assert len(averages) == 52, averages
    for name in averages:
        values = struct.unpack(f"<{len(tensors[name]) // 4}f", tensors[name])
        assert any(v != 1 for v in values), f"{name} never moved"
    for ps, workers in ((2, 2), (3, 2), (3, 1)):
        assert train(f"--num_ps_tasks={ps}", f"--num_replicas={workers}")[0] == expected, f"{ps} ps, {workers} workers: other bytes"


def two_devices():
    """Two clones in one process are what two clones of a worker are."""
    clones = ("--num_clones=2", "--replicas_to_aggregate=1", "--num_replicas=1")
    here, _, losses = train("--num_ps_tasks=0", *clones)
    assert sum(losses[-20:]) < 0.97 * sum(losses[:20]), f"not learned: {losses}"
    assert train("--num_ps_tasks=2", *clones)[0] == here, "other bytes than with two ps"


if __name__ == "__main__":
    subprocess.run([TOOL, f"--out={folder.name}", "--train_examples=320", "--test_examples=80"], check=True, stdout=subprocess.DEVNULL)
    cluster.main([any_number_of_ps, two_devices])
