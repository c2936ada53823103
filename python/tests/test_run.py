"""shoal.launch and shoal.Run against a command that records what it is asked."""

import json
import sys

import numpy as np
import pytest

import shoal

COMMAND = """\
#!{python}
import json, os, sys, time
name, args = sys.argv[1], sys.argv[2:]
if name == "train":
    out = next(a[6:] for a in args if a.startswith("--out="))
    print("started", *args)
    while "--wait" in args and not os.path.exists(out + "/go"):
        time.sleep(0.01)
    with open(os.path.join(out, "summary.json"), "w") as file:
        json.dump({{"status": "failed" if "--fail" in args else "finished", "steps": 3}}, file)
    sys.exit(1 if "--fail" in args else 0)
if "SHOAL_TEST_STARTS" in os.environ:
    sys.exit("nobody answers")
elif name == "status":
    print(json.dumps({{"phase": "over", "directory": args[0], "flags": args[1:]}}))
elif name == "checkpoint":
    print(args[0] + "/checkpoints/ckpt-3")
else:
    print(f"shoal {{name}}: the run is over", file=sys.stderr)
    sys.exit(78)
"""


@pytest.fixture
def command(tmp_path, monkeypatch):
    path = tmp_path / "shoal"
    path.write_text(COMMAND.format(python=sys.executable))
    path.chmod(0o755)
    monkeypatch.setenv("SHOAL", str(path))
    return path


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("pass")
    return path


def test_a_launch_starts_a_run_and_waits_for_its_result(command, program, tmp_path):
    out = tmp_path / "run"
    run = shoal.launch(str(program), ps=2, workers=3, args=["--size=4"], out=str(out), flags=["--learning_rate=0.5"])
    assert run.wait(60) == {"status": "finished", "steps": 3}
    words = (out / "launch.log").read_text().split()
    assert words == [
        "started",
        "--num_ps_tasks=2",
        "--num_replicas=3",
        f"--out={out}",
        "--learning_rate=0.5",
        f"--program={program}",
        f"--python={sys.executable}",
        "--",
        "--size=4",
    ]


def test_a_url_is_refused_before_a_directory_is_made(command, program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(shoal.ProgramError) as raised:
        shoal.launch(str(program), out="s3://bucket/run")
    assert str(raised.value).endswith(
        ': out: "s3://bucket/run" is not a path of this machine; mount the storage that s3:// names, '
        "and give the directory where it is mounted"
    )
    assert not (tmp_path / "s3:").exists()
    run = shoal.launch(str(program), out="a/b://c")
    assert run.wait(60) and (tmp_path / "a" / "b:" / "c").is_dir()


def test_a_run_that_fails_shows_its_last_lines(command, program):
    run = shoal.launch(str(program), flags=["--fail"])
    with pytest.raises(shoal.CommandError, match=r"failed:\nstarted"):
        run.wait(60)


def test_a_run_is_controlled_by_the_command(command, tmp_path):
    run = shoal.Run(str(tmp_path))
    assert run.status() == {"phase": "over", "directory": str(tmp_path), "flags": ["--json"]}
    assert run.checkpoint() == f"{tmp_path}/checkpoints/ckpt-3"
    with pytest.raises(shoal.CommandError, match=f"^shoal stop {tmp_path}: the run is over$"):
        run.stop()
    with pytest.raises(shoal.CommandError, match="failed"):
        run.wait()  # over, and without a summary


def test_the_status_of_a_run_that_starts_is_that(command, program, monkeypatch, tmp_path):
    monkeypatch.setenv("SHOAL_TEST_STARTS", "1")
    run = shoal.launch(str(program), flags=["--wait"], out=str(tmp_path / "run"))
    assert run.status() == {"phase": "starting", "tasks": []}
    monkeypatch.delenv("SHOAL_TEST_STARTS")
    assert run.status()["phase"] == "over"
    monkeypatch.setenv("SHOAL_TEST_STARTS", "1")
    with pytest.raises(shoal.CommandError, match="nobody answers"):
        run.status()  # It was there before.
    (tmp_path / "run/go").write_text("")
    run.wait(60)
    with pytest.raises(shoal.CommandError, match="nobody answers"):
        run.status()


def test_metrics_are_columns(tmp_path):
    run = shoal.Run(str(tmp_path))
    assert run.metrics() == {}
    assert run.summary() is None
    lines = [{"step": 1, "loss": 2.5, "accuracy": None}, {"step": 2, "loss": 1.5, "eval_loss": 1.0}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 3, "lo')
    metrics = run.metrics()
    np.testing.assert_array_equal(metrics["step"], [1, 2])
    np.testing.assert_array_equal(metrics["loss"], [2.5, 1.5])
    np.testing.assert_array_equal(metrics["accuracy"], [np.nan, np.nan])
    np.testing.assert_array_equal(metrics["eval_loss"], [np.nan, 1.0])


def test_a_directory_of_another_program_holds_no_run(tmp_path):
    (tmp_path / "checkpoint-100").mkdir()
    (tmp_path / "model.pt").touch()
    run = shoal.Run(tmp_path)
    for ask in (run.model_file, run.last_model_file):
        with pytest.raises(
            shoal.MissingError, match=f"{tmp_path} holds no run: it has no run.textproto; name a run's directory"
        ):
            ask()


def test_the_newest_model_file_is_found(tmp_path):
    (tmp_path / "run.textproto").touch()
    run = shoal.Run(str(tmp_path))
    with pytest.raises(shoal.ProgramError, match="has no model.safetensors; a checkpoint makes one"):
        run.model_file()
    (tmp_path / "summary.json").write_text('{"status": "failed", "checkpoint": null}')
    with pytest.raises(shoal.ProgramError, match="has no model.safetensors; .* ended without a checkpoint"):
        run.model_file()
    # Copied checkpoints have any times; a later chief may have begun from an older step.
    for name in ("ckpt-9-2-0000000000000002", "ckpt-10-2-0000000000000001", "ckpt-90-1-0000000000000001", "other"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
        (tmp_path / "checkpoints" / name / "model.safetensors").write_bytes(b"")
    (tmp_path / "checkpoints/ckpt-11-2-0000000000000001").mkdir()  # It has no export yet.
    assert run.model_file() == str(tmp_path / "checkpoints/ckpt-10-2-0000000000000001/model.safetensors")


def test_an_older_model_is_not_that_of_a_run_that_is_over(tmp_path):
    (tmp_path / "run.textproto").touch()
    run = shoal.Run(str(tmp_path))
    with pytest.raises(shoal.ProgramError, match="has no checkpoint"):
        run.last_model_file()
    files = {}
    for name in ("ckpt-5-1-0000000000000001", "ckpt-9-1-0000000000000001", "ckpt-12-1-0000000000000001"):
        folder = tmp_path / "checkpoints" / name
        folder.mkdir(parents=True)
        files[name.split("-")[1]] = folder / "model.safetensors"
    for step in ("5", "9"):  # The directory of step 12 was left by a crash.
        files[step].with_name("MANIFEST").touch()
    files["5"].touch()
    assert run.model_file() == str(files["5"])  # The run trains.
    missing = (
        rf"{files['9'].parent}, the newest checkpoint, has no model.safetensors .*: shoal export {tmp_path} --model_"
    )
    with pytest.raises(shoal.ProgramError, match=missing):
        run.last_model_file()
    for status in ("finished", "stopped"):
        (tmp_path / "summary.json").write_text(json.dumps({"status": status, "steps": 9}))
        with pytest.raises(shoal.ProgramError, match=missing):
            run.model_file()
    # A run that failed has no final values, and one that trains again has a newer checkpoint than the summary says.
    for summary in ({"status": "failed", "steps": 9}, {"status": "stopped", "steps": 5}):
        (tmp_path / "summary.json").write_text(json.dumps(summary))
        assert run.model_file() == str(files["5"])
    files["9"].touch()
    assert run.model_file() == run.last_model_file() == str(files["9"])
