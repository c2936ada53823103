"""Models with tables that compute with the rows of a run, without a trainer."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fake_worker import play
from test_exported_rows import write_export
from test_safetensors import write
from test_tables import DATA, DIM, INDICES, KEYS, TABLES, WORDS, Net, check, plain_net, row_of, shoal_net
from torch import nn

import shoal
import shoal.torch
from shoal.torch import files


@pytest.fixture
def rows(tmp_path):
    return write_export(tmp_path / "rows", exported(), step=3)


@pytest.fixture
def model_file(tmp_path):
    net = plain_net()[0]
    return write(
        tmp_path / "model", {f"top.{name}": value.detach().numpy() for name, value in net.top.named_parameters()}
    )


def exported():
    """All keys of the tests but 4, whose row is then the initial one."""
    keys = [key for key in range(-5, 10) if key != 4]
    return {
        table: (keys[::-1], np.stack([row_of(table, key % 2**64, DIM) for key in keys[::-1]]))
        for table in ("item", "word")
    }


def expected():
    net, weights = plain_net()
    with torch.no_grad():
        for weight in weights.values():
            weight[4 + 5] = 0.25
        return net(KEYS, WORDS)


@pytest.mark.parametrize("training", [False, True])
def test_a_loaded_model_computes_with_the_rows_of_the_run(rows, model_file, training):
    assert (KEYS == 4).any()
    net = shoal_net().train(training)
    shoal.torch.load(model_file, net, tables=rows)
    torch.testing.assert_close(net(KEYS, WORDS), expected())
    with torch.inference_mode():
        torch.testing.assert_close(net(KEYS, WORDS), expected())
    net(KEYS, WORDS).sum().backward()
    assert net.top.weight.grad is not None
    assert net.first(KEYS).requires_grad is False
    none = torch.zeros(0, dtype=torch.int64)
    assert not net.first(none, torch.zeros(2, dtype=torch.int64)).any()
    assert net.words(none).shape == (0, DIM)
    with pytest.raises(shoal.ProgramError, match="the keys are torch.float32; they must be int64"):
        net.words(KEYS.float())


def test_a_model_with_tables_only_and_several_models_are_loaded(rows, tmp_path):
    bag = shoal.torch.EmbeddingBag(table="item", dim=DIM, mode="sum")
    shoal.torch.load(write(tmp_path / "empty", {}), bag, tables=str(rows))
    np.testing.assert_array_equal(bag(torch.tensor([[-5]]))[0], row_of("item", 2**64 - 5, DIM))
    path = write(tmp_path / "pair", {"b.weight": np.ones((1, DIM), np.float32), "b.bias": np.zeros(1, np.float32)})
    pair = {"a": shoal.torch.Embedding(table="word", dim=DIM), "b": nn.Linear(DIM, 1)}
    shoal.torch.load(path, pair, tables=rows)
    assert pair["b"](pair["a"](torch.tensor([3]))).item() == pytest.approx(row_of("word", 3, DIM).sum())


def test_the_rows_are_on_the_device_of_the_parameters(rows, model_file):
    net = shoal_net()
    shoal.torch.load(model_file, net, tables=rows)
    net.to("meta")
    assert net.words(WORDS).device.type == "meta"
    assert net.second(KEYS).device.type == "meta"


def test_copies_of_a_loaded_model_have_no_rows(rows, model_file):
    net = shoal_net()
    shoal.torch.load(model_file, net, tables=rows)
    for module in (copy.deepcopy(net).words, pickle.loads(pickle.dumps(net.words))):
        with pytest.raises(
            shoal.ProgramError, match=r"has no rows of a run. To compute .* shoal.torch.load\(DIR, model"
        ):
            module(WORDS)


def test_files_that_do_not_fit_change_nothing(rows, model_file, tmp_path):
    net = shoal_net()
    before = net.top.weight.detach().clone()
    other = Net(
        lambda table, mode: shoal.torch.EmbeddingBag(table=table, dim=DIM, mode=mode),
        lambda table: shoal.torch.Embedding(table="query", dim=DIM),
    )
    with pytest.raises(shoal.ProgramError, match=r"Embedding: the run has no table 'query' \(it has item, word\)"):
        shoal.torch.load(model_file, other, tables=rows)
    with pytest.raises(shoal.ProgramError, match=r"has no rows of tables, .* load\(…, tables=FOLDER\)"):
        shoal.torch.load(model_file, net)
    newer = write_export(tmp_path / "newer", exported(), step=4)
    with pytest.raises(
        shoal.ProgramError, match="is of step 3, and the rows are of another checkpoint, of step 4; exp"
    ):
        shoal.torch.load(model_file, net, tables=newer)
    with pytest.raises(
        shoal.ProgramError, match="the model has no EmbeddingBag or Embedding of shoal.torch; leave it out"
    ):
        shoal.torch.load(model_file, net.top, tables=rows)
    assert torch.equal(net.top.weight, before)
    with pytest.raises(shoal.ProgramError, match="belongs to no trainer and has no rows of a run"):
        net(KEYS, WORDS)


def finished_run(tmp_path, model_file, step=3, lineage="00000000000000a3"):
    checkpoint = tmp_path / f"run/checkpoints/ckpt-{step}-1-{lineage}"
    checkpoint.mkdir(parents=True)
    (checkpoint / "MANIFEST").touch()
    (checkpoint / "model.safetensors").write_bytes(Path(model_file).read_bytes())
    return tmp_path / "run"


def command(tmp_path, monkeypatch, lines):
    path = tmp_path / "shoal"
    path.write_text("#!/bin/sh\n" + lines)
    path.chmod(0o755)
    monkeypatch.setenv("SHOAL", str(path))


def test_the_command_exports_the_rows_of_the_checkpoint_and_the_folder_is_removed(
    tmp_path, monkeypatch, rows, model_file
):
    run = finished_run(tmp_path, model_file)
    command(tmp_path, monkeypatch, f'echo "$@" >> {tmp_path}/called; for f; do :; done; cp {rows}/* "${{f#--tables=}}"')
    for source in (run, shoal.Run(run), next(run.glob("checkpoints/*/model.safetensors"))):
        net = shoal_net()
        shoal.torch.load(source, net)
        torch.testing.assert_close(net(KEYS, WORDS), expected())
    called = (tmp_path / "called").read_text().splitlines()
    assert len(called) == 3
    for line in called:
        start, _, folder = line.rpartition("=")
        assert start == f"export {run} --step=3 --tables"
        assert not (tmp_path / folder).exists()


def test_rows_of_another_checkpoint_of_the_same_step_are_refused(tmp_path, monkeypatch, rows, model_file):
    run = finished_run(tmp_path, model_file, lineage="00000000000000a4")
    with pytest.raises(shoal.ProgramError, match="and the rows are of another checkpoint, of step 3"):
        shoal.torch.load(run, shoal_net(), tables=rows)


def test_an_export_that_fails_says_why(tmp_path, monkeypatch, model_file):
    run = finished_run(tmp_path, model_file)
    command(tmp_path, monkeypatch, "echo the disk is full >&2; exit 1")
    with pytest.raises(shoal.CommandError, match=f"shoal export {run}: the disk is full"):
        shoal.torch.load(run, shoal_net())
    monkeypatch.setenv("SHOAL", str(tmp_path / "none"))
    with pytest.raises(shoal.CommandError, match=r"cannot be exported: SHOAL is .*; or give load\(…, tables=FOLDER\)"):
        shoal.torch.load(run, shoal_net())


def test_a_checkpoint_that_a_live_run_removes_before_its_rows_are_read_is_replaced_by_the_next_one(
    tmp_path, monkeypatch, rows, model_file
):
    run = shoal.Run(finished_run(tmp_path, model_file))
    newest = run.model_file()
    names = iter([str(tmp_path / "removed"), newest])
    monkeypatch.setattr(files, "_read", lambda run: (next(names), {"top.weight": np.zeros((1, 3 * DIM), np.float32),
                                                                  "top.bias": np.zeros(1, np.float32)}))  # fmt: skip

    def export(path):
        if path != newest:
            raise shoal.CommandError("no checkpoint of step 2")
        return files.ExportedRows(rows)

    monkeypatch.setattr(files, "_export", export)
    net = shoal_net()
    shoal.torch.load(run, net)
    assert not net(KEYS, WORDS).any()


def test_a_trainer_takes_the_place_of_rows_that_were_loaded(rows, model_file):
    net = shoal_net()
    shoal.torch.load(model_file, net, tables=rows)

    def program(worker):
        trainer = shoal.torch.Trainer(worker, net, shoal.SGD(0.1), tables=TABLES, metrics=())
        torch.testing.assert_close(net(KEYS, WORDS), expected())
        for keys, words, labels in trainer.batches(DATA, batch_size=8):
            trainer.step(F.binary_cross_entropy_with_logits(net(keys, words), labels))
        with pytest.raises(shoal.ProgramError, match="is outside of the loop of its trainer and has no rows of a run"):
            net(KEYS, WORDS)
        shoal.torch.load(model_file, net, tables=rows)
        torch.testing.assert_close(net(KEYS, WORDS), expected())

    def scenario(fake):
        fake.row_of = row_of
        values = fake.handshake()
        check(fake.train(values, INDICES), INDICES, values)
        fake.finish()

    play(program, scenario)
