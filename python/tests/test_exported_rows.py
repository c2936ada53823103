"""Rows that were exported, and the initial values of other keys."""

import json

import numpy as np
import pytest

import shoal
from shoal import _initial_rows
from shoal._exported_rows import ExportedRows

CONSTANT = {"distribution": "constant", "value": 0.25, "seed": 3}


def write_export(folder, tables, initializer=CONSTANT, since=None, step=7):
    """Writes what `shoal export --tables` writes. tables: for each name the keys and their rows."""
    folder.mkdir(exist_ok=True)
    described = []
    for name, (keys, values) in tables.items():
        np.save(folder / f"{name}.keys.npy", np.asarray(keys, np.int64).view(np.uint64))
        np.save(folder / f"{name}.values.npy", np.asarray(values, np.float32))
        described.append({"name": name, "dim": np.shape(values)[1], "rows": len(keys), "initializer": initializer})
    text = {"run_id": "1", "step": step, "term": 1, "lineage": "00000000000000a3", "since": since, "tables": described}
    (folder / "export.json").write_text(json.dumps(text))
    return folder


def unit_numbers(distribution, count):
    """The numbers from 3 on of the sequence with the key 7, before the initializer scales them."""
    of_rows = np.array([7], np.uint64)
    if distribution == "uniform":
        words = _initial_rows._words(of_rows, _initial_rows._UNIFORM, 3 + count)
        return ((words >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24))[0, 3 : 3 + count]
    if distribution == "normal":
        return _initial_rows._normal(_initial_rows._words(of_rows, _initial_rows._NORMAL, 3 + count))[0, 3 : 3 + count]
    numbers = _initial_rows._normal(_initial_rows._words(of_rows, _initial_rows._TRUNCATED, 3 + count))
    _initial_rows._draw_again(of_rows, numbers)
    return numbers[0, 3 : 3 + count]


# The checksums are those of base/random_test.cc.
@pytest.mark.parametrize(
    ("distribution", "fingerprint"),
    [("uniform", 3146629448224848717), ("normal", 10785837602518996072), ("truncated_normal", 5519052382468708360)],
)
def test_random_numbers_have_the_bytes_of_the_parameter_servers(distribution, fingerprint):
    assert _initial_rows._fingerprint(unit_numbers(distribution, 10000).tobytes()) == fingerprint


def test_fingerprints_are_those_of_the_parameter_servers():
    assert _initial_rows._fingerprint(b"") == 0
    assert _initial_rows._fingerprint(b"a") == 0x71717D2D36B6B11
    assert _initial_rows._fingerprint(b"hidden1/weights") == 0xB72FE309BC96AD8


def test_initial_rows_depend_on_seed_table_and_key_only():
    normal = {"distribution": "normal", "mean": 1.0, "stddev": 0.5, "seed": 2**64 - 1}
    keys = np.array([3, 5, 2**64 - 1], np.uint64)
    rows = _initial_rows.initial_rows(normal, "item", keys, 6)
    assert rows.shape == (3, 6)
    assert rows.dtype == np.float32
    assert len(np.unique(rows)) == 18
    assert _initial_rows.initial_rows(normal, "item", keys[1:], 6).tobytes() == rows[1:].tobytes()
    assert _initial_rows.initial_rows(normal, "item", keys, 3).tobytes() == rows[:, :3].tobytes()
    for other in (("user", normal), ("item", {**normal, "seed": 1})):
        assert not np.intersect1d(_initial_rows.initial_rows(other[1], other[0], keys, 6), rows).size
    assert _initial_rows.initial_rows(normal, "item", keys[:0], 6).shape == (0, 6)
    assert (_initial_rows.initial_rows(CONSTANT, "item", keys, 2) == 0.25).all()
    uniform = {"distribution": "uniform", "low": 2.0, "high": 2.5, "seed": 1}
    rows = _initial_rows.initial_rows(uniform, "item", keys, 100)
    assert 2 <= rows.min() < 2.1 < 2.4 < rows.max() < 2.5


def test_keys_of_an_export_have_their_rows_and_others_the_initial_ones(tmp_path):
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    exported = ExportedRows(write_export(tmp_path / "rows", {"item": ([9, -1, 2, 5], rows), "none": ([], rows[:0])}))
    assert exported.checkpoint == (7, 1, "00000000000000a3")
    keys = np.array([0, 2, 5, 6, 9, 2**64 - 2, 2**64 - 1], np.uint64)
    found = exported.tables["item"].rows(keys)
    initial = [0.25, 0.25]
    assert found.tolist() == [initial, [4, 5], [6, 7], initial, [0, 1], initial, [2, 3]]
    assert exported.tables["none"].rows(keys).tolist() == [initial] * 7
    assert exported.tables["item"].rows(keys[:0]).shape == (0, 2)


def test_an_export_that_is_not_whole_is_refused(tmp_path):
    rows = {"item": ([1, 2], np.ones((2, 3)))}
    with pytest.raises(shoal.ProgramError, match="has no export.json; name the folder of an export that has ended"):
        ExportedRows(str(tmp_path))
    with pytest.raises(shoal.ProgramError, match="has only the rows that have changed since step 5; export all rows"):
        ExportedRows(write_export(tmp_path / "delta", rows, since={"step": 5}))
    lost = write_export(tmp_path / "lost", rows)
    (lost / "item.values.npy").unlink()
    with pytest.raises(shoal.ProgramError, match="has no item.values.npy"):
        ExportedRows(lost)
    mixed = write_export(tmp_path / "mixed", rows)
    np.save(mixed / "item.values.npy", np.ones((3, 3), np.float32))
    with pytest.raises(shoal.ProgramError, match=r"item.values.npy has the shape \(3, 3\) for 2 keys"):
        ExportedRows(mixed)
    (mixed / "export.json").write_text("[]")
    with pytest.raises(shoal.ProgramError, match="is not an export of tables that can be read"):
        ExportedRows(mixed)
    newer = ExportedRows(write_export(tmp_path / "newer", rows, {"distribution": "beta", "seed": 1}))
    with pytest.raises(ValueError, match="'beta', which this version does not know"):
        newer.tables["item"].rows(np.array([7], np.uint64))


def test_a_table_of_another_model_is_refused(tmp_path):
    exported = ExportedRows(write_export(tmp_path / "rows", {"item": ([1], np.ones((1, 3)))}))
    exported.check("Embedding", "item", 3)
    with pytest.raises(shoal.ProgramError, match=r"Embedding: the run has no table 'user' \(it has item\)"):
        exported.check("Embedding", "user", 3)
    with pytest.raises(shoal.ProgramError, match="Embedding: table item of the run has rows of 3 numbers, not 4"):
        exported.check("Embedding", "item", 4)
