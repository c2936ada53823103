"""Runs of the real `shoal` with programs in Python that have tables: needs $SHOAL, which python/test real sets."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from live_runs import HOLD, PYTHON, SAME_STEPS, process_of, programs, variables, wait_for_step
from test_runs import held  # noqa: F401

import shoal
from shoal._exported_rows import ExportedRows

# Logistic regression on sums of rows. Examples have 1 to 4 items, which are far apart, and a user of a second table.
CLICKS = (
    HOLD
    + """\
import sys
import numpy as np
import shoal

PAUSE = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
worker = shoal.Worker()
draw = np.random.default_rng(5)
items = draw.integers(-200, 200, size=(600, 4)) * 12345678901234567
users = draw.integers(0, 50, size=600)
labels = (np.sin(items // 12345678901234567).sum(1) + np.cos(users) > 0).astype(np.float32)
item = shoal.Table("item", 3, optimizer=shoal.RowwiseAdagrad(0.3), initializer=shoal.Normal(stddev=0.1), admission=2,
                   expiry=60)
user = shoal.Table("user", 1 + (worker.index if "other" in sys.argv else 0))
worker.declare([shoal.Variable("bias"), shoal.Variable("top", initial=np.ones(3))], tables=[item, user], examples=500,
               test_examples=100, optimizer=shoal.Adagrad(0.1), batch_size=10, epochs=2, prefetch=4, metrics=["auc"])
announced = {}
for work in worker:
    hold(work)
    time.sleep(PAUSE)
    announced.update({(batch.epoch, batch.index): batch for batch in worker.announcements()})
    index = work.indices if work.is_training else work.indices + 500
    rows = work.look_up("item", items[index])
    more = work.look_up({"user": users[index], "item": items[index][:, :1]})
    sums = rows.values[rows.inverse].sum(1) + more["item"].values[more["item"].inverse][:, 0]
    side = more["user"].values[more["user"].inverse][:, 0]
    logits = sums @ work.parameters["top"] + side + work.parameters["bias"]
    p = 1 / (1 + np.exp(-logits))
    loss = -np.log(np.where(labels[index] > 0, p, 1 - p) + 1e-7)
    if work.is_training:
        error = ((p - labels[index]) / len(index)).astype(np.float32)
        gradient = error[:, None] * work.parameters["top"]
        np.add.at(rows.gradient, rows.inverse, gradient[:, None, :])
        np.add.at(more["item"].gradient, more["item"].inverse[:, 0], gradient)
        np.add.at(more["user"].gradient, more["user"].inverse, error[:, None])
        work.gradients["top"] = error @ sums
        work.gradients["bias"] = error.sum()
        announced = {key: batch for key, batch in announced.items() if key > (work.epoch, work.index)}
        if announced and "ahead" in sys.argv:
            batch = announced[min(announced)]
            work.look_ahead(batch, {"item": items[batch.indices], "user": users[batch.indices]})
    work.done(loss.sum(), metrics={"auc": (p, labels[index])})
"""
)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))


@pytest.fixture
def clicks(tmp_path):
    path = tmp_path / "clicks.py"
    path.write_text(CLICKS)
    return str(path)


def export(run, out, *flags):
    """Exports the tables of a run that has ended, and returns what export.json says."""
    command = [os.environ["SHOAL"], "export", run.directory, f"--tables={out}", *flags]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    described = json.loads(Path(out, "export.json").read_text())
    files = {file["name"]: file["bytes"] for table in described["tables"] for file in table["files"]}
    assert files == {path.name: path.stat().st_size for path in Path(out).glob("*.npy")}
    return described


def arrays(out, tables=("item", "user")):
    return {name: (np.load(out / f"{name}.keys.npy"), np.load(out / f"{name}.values.npy")) for name in tables}


def rows_of(run, tables=("item", "user")):
    """The keys and rows of the tables of a run that has ended."""
    out = Path(run.directory, "tables")
    export(run, out)
    return arrays(out, tables)


def all_bytes(run):
    rows = {name: (keys.tobytes(), values.tobytes()) for name, (keys, values) in rows_of(run).items()}
    return rows, variables(run), run.summary()["test_loss"], run.summary()["test_auc"]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    (folder / "clicks.py").write_text(CLICKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(PYTHON))
        run = shoal.launch(str(folder / "clicks.py"), ps=1, workers=1, out=str(folder / "run"), flags=SAME_STEPS)
        run.wait(120)
    return run, all_bytes(run)


def test_rows_are_learned_and_only_those_that_are_admitted_are_stored(reference):
    run, _ = reference
    assert run.summary()["test_auc"] > 0.6
    rows = rows_of(run)
    keys, values = rows["item"]
    assert values.shape == (len(keys), 3)
    assert 0 < len(keys) < 400
    assert {int(key) for key in keys} <= {n * 12345678901234567 % 2**64 for n in range(-200, 200)}
    assert len(rows["user"][0]) == 50


def test_a_delta_turns_the_rows_of_its_checkpoint_into_those_of_a_later_one(reference, tmp_path):
    run, _ = reference
    steps = sorted(int(file.parent.name.split("-")[1]) for file in Path(run.directory).glob("checkpoints/*/MANIFEST"))
    base = export(run, tmp_path / "base", f"--step={steps[0]}")
    delta = export(run, tmp_path / "delta", f"--since={steps[0]}")
    export(run, tmp_path / "whole")
    assert delta["step"] == steps[-1] > steps[0]
    assert base["since"] is None
    assert delta["since"] == {field: base[field] for field in ("run_id", "step", "term", "lineage")}
    whole = arrays(tmp_path / "whole")
    changes = arrays(tmp_path / "delta")
    for table, (keys, values) in arrays(tmp_path / "base").items():
        rows = dict(zip(keys.tolist(), values.tolist()))
        rows.update(zip(changes[table][0].tolist(), changes[table][1].tolist()))
        for key in np.load(tmp_path / "delta" / f"{table}.removed.npy").tolist():
            del rows[key]
        assert rows == dict(zip(whole[table][0].tolist(), whole[table][1].tolist()))
    initializer = next(table["initializer"] for table in base["tables"] if table["name"] == "item")
    assert initializer["distribution"] == "normal"
    assert initializer["stddev"] == pytest.approx(0.1)


@pytest.mark.parametrize(("ps", "workers", "args"), [(0, 1, []), (2, 2, []), (3, 1, []), (2, 2, ["0", "ahead"])])
def test_the_bytes_of_rows_do_not_depend_on_the_number_of_tasks(clicks, tmp_path, reference, ps, workers, args):
    run = shoal.launch(clicks, ps=ps, workers=workers, args=args, out=str(tmp_path / "run"), flags=SAME_STEPS)
    run.wait(120)
    assert all_bytes(run) == reference[1]


@pytest.mark.parametrize("args", [["0.05"], ["0.05", "ahead"]])
def test_killed_programs_workers_and_ps_change_no_row(clicks, tmp_path, reference, args, held):  # noqa: F811
    release = held(25)
    run = shoal.launch(clicks, ps=2, workers=2, args=args, out=str(tmp_path / "run"), flags=SAME_STEPS)
    wait_for_step(run, 5)
    for pid in programs(run, 1):
        os.kill(pid, signal.SIGKILL)
    for step, task in ((12, "worker/0"), (18, "ps/1")):
        wait_for_step(run, step)
        os.kill(process_of(run, task), signal.SIGKILL)
    release.unlink()
    run.wait(180)
    output = Path(run.directory, "launch.log").read_text()
    assert "worker/0 died" in output
    assert "ps/1 died" in output
    assert all_bytes(run) == reference[1]


@pytest.mark.parametrize("args", [[], ["0", "ahead"]])
def test_an_asynchronous_run_counts_every_batch_once(clicks, tmp_path, args):
    run = shoal.launch(clicks, ps=2, workers=2, args=args, out=str(tmp_path / "run"), flags=["--nosync_replicas"])
    run.wait(120)
    assert run.metrics()["examples"].sum() == 1000
    assert run.summary()["test_auc"] > 0.6


def with_group(tmp_path, group):
    """The program with a group of the optimizer for the table `user`."""
    path = tmp_path / "grouped.py"
    path.write_text(CLICKS.replace("shoal.Adagrad(0.1)", f"shoal.Adagrad(0.1, groups=[shoal.Group('us.*', {group})])"))
    return str(path)


def test_a_group_scales_the_learning_rate_of_a_table(tmp_path, reference):
    program = with_group(tmp_path, "learning_rate_multiplier=0")
    run = shoal.launch(program, ps=1, workers=1, out=str(tmp_path / "run"), flags=SAME_STEPS)
    run.wait(120)
    assert np.abs(rows_of(reference[0])["user"][1]).max() > 0.05
    rows = rows_of(run)
    assert np.abs(rows["user"][1]).max() <= 0.05, "the rows have their initial values"


def test_a_table_cannot_be_frozen(tmp_path):
    program = with_group(tmp_path, "frozen=True")
    run = shoal.launch(program, ps=1, workers=1, out=str(tmp_path / "run"), flags=SAME_STEPS)
    with pytest.raises(shoal.CommandError):
        run.wait(120)
    log = Path(run.directory, "launch.log").read_text()
    assert 'optimizer.group[0].variables: "us.*" matches the table "user", which cannot be frozen' in log, log


def test_a_worker_whose_program_declares_other_tables_is_refused_by_name(clicks, tmp_path):
    run = shoal.launch(clicks, ps=1, workers=2, args=["0.01", "other"], out=str(tmp_path / "run"), flags=SAME_STEPS)
    with pytest.raises(shoal.CommandError):
        run.wait(120)
    log = Path(run.directory, "launch.log").read_text()
    assert "table user has shape [" in log, log


def test_a_program_that_fails_while_it_looks_up_is_named(tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text(CLICKS.replace('look_up("item", items[index])', 'look_up("items", items[index])'))
    run = shoal.launch(str(path), ps=1, workers=1, out=str(tmp_path / "run"))
    with pytest.raises(shoal.CommandError):
        run.wait(120)
    log = Path(run.directory, "launch.log").read_text()
    assert "wrong.py:" in log
    assert "table 'items' was not declared, but item, user" in log


def test_started_by_hand_it_is_a_run_in_one_process(clicks, tmp_path):
    done = subprocess.run(
        [sys.executable, clicks], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    (directory,) = (tmp_path / "runs").iterdir()
    assert shoal.Run(str(directory)).summary()["test_auc"] > 0.6


KINDS = """\
import numpy as np
import shoal

worker = shoal.Worker()
kinds = {
    "uniform": shoal.Uniform(-0.3, 0.7), "normal": shoal.Normal(0.1, 0.5),
    "truncated": shoal.TruncatedNormal(-0.2, 0.4), "constant": 0.625, "usual": None,
}
tables = [shoal.Table(name, 10, initializer=initializer) for name, initializer in kinds.items()]
worker.declare([shoal.Variable("w")], tables=tables, examples=20, optimizer=shoal.SGD(0.1), batch_size=10, epochs=1)
for work in worker:
    rows = work.look_up({table.name: work.indices for table in tables})
    for of_table in rows.values():
        of_table.gradient = np.ones_like(of_table.values)
    work.done(1.0)
"""


def test_rows_that_are_read_from_an_export_are_those_of_lookup(tmp_path):
    program = tmp_path / "kinds.py"
    program.write_text(KINDS)
    run = shoal.launch(str(program), ps=1, workers=1, out=str(tmp_path / "run"), flags=["--seed=77"])
    run.wait(120)
    export(run, tmp_path / "rows")
    tables = ExportedRows(tmp_path / "rows").tables
    assert len(tables) == 5
    keys = [3, 19, *range(20, 40), -7, 2**63, 2**64 - 1]  # The first two have rows.
    for name, table in tables.items():
        command = [os.environ["SHOAL"], "lookup", run.directory, f"--table={name}", "--", *map(str, keys)]
        lines = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()[1:]
        assert [("initial value" in line) for line in lines] == [False] * 2 + [True] * (len(keys) - 2)
        printed = [[float(word) for word in line.partition(": ")[2].partition("  (")[0].split()] for line in lines]
        rows = table.rows(np.array([key % 2**64 for key in keys], np.uint64))
        np.testing.assert_allclose(rows, printed, rtol=1e-5, atol=1e-7)  # lookup prints six digits.
