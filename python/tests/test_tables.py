"""Tables on the lowest layer, against a fake worker."""

import re

import numpy as np
import pytest
from fake_worker import play

import shoal
from shoal import _protocol
from shoal.errors import ProtocolError

ITEM = shoal.Table("item", 3, optimizer=shoal.SGD(0.5))
USER = shoal.Table("user", 2)


def declare(worker, tables=(ITEM, USER), **options):
    worker.declare([shoal.Variable("w", (4,))], tables=tables, examples=10, test_examples=4, **options)


def run(body, scenario, **options):
    def program(worker):
        declare(worker, **options)
        for work in worker:
            body(work)

    return play(program, scenario)


def test_a_batch_gets_rows_and_gives_their_gradients():
    def body(work):
        keys = np.array([[7, -1], [7, 3]])
        rows = work.look_up("item", keys)
        assert rows.keys.dtype == np.uint64
        assert rows.keys.tolist() == [3, 7, 2**64 - 1]
        assert rows.inverse.tolist() == [[1, 2], [1, 0]]
        assert rows.values[rows.inverse].shape == (2, 2, 3)
        assert rows.values[:, 0].tolist() == [3, 7, (2**64 - 1) % 100]
        with pytest.raises(ValueError, match="read-only"):
            rows.values[0] = 1
        if work.is_training:
            np.add.at(rows.gradient, rows.inverse, np.ones((2, 2, 3)))
        work.done(2.0)

    def scenario(fake):
        values = fake.handshake()
        assert fake.declared.tables == [("item", 3), ("user", 2)]
        result = fake.train(values, [0, 1])
        assert result.look_ups == [{"item": [3, 7, 2**64 - 1]}]
        assert {key: row.tolist() for key, row in result.rows["item"].items()} == {
            3: [1, 1, 1], 7: [2, 2, 2], 2**64 - 1: [1, 1, 1],
        }  # fmt: skip
        np.testing.assert_array_equal(result.contributions["w"], np.zeros(4))
        assert fake.evaluate(values, [0]).look_ups == result.look_ups
        fake.finish()

    run(body, scenario)


def test_one_look_up_asks_for_several_tables_and_several_are_summed():
    def body(work):
        both = work.look_up({"user": [5, 2], "item": np.array([9], np.uint64)})
        again = work.look_up("item", [9, 11])
        none = work.look_up("user", [])
        assert none.values.shape == (0, 2)
        assert len(none) == 0
        both["item"].gradient = np.full((1, 3), 1.0)
        again.gradient = np.full((2, 3), 10.0)
        work.done(0.0)

    def scenario(fake):
        values = fake.handshake()
        for _ in range(3):
            result = fake.train(values, [0])
            assert result.look_ups == [{"user": [2, 5], "item": [9]}, {"item": [9, 11]}]
            assert {key: row.tolist() for key, row in result.rows["item"].items()} == {9: [11] * 3, 11: [10] * 3}
            assert not any(row.any() for row in result.rows["user"].values()), "what is not written is zero"
        fake.finish()

    run(body, scenario)


def test_announcements_may_come_while_rows_are_on_their_way():
    def scenario(fake):
        values = fake.handshake()
        answer = fake.look_up

        def announce_first(*arguments):
            fake.announce([1, 2], index=4)
            return answer(*arguments)

        fake.look_up = announce_first
        assert fake.train(values, [0]).look_ups == [{"item": [1]}]
        fake.finish()

    def program(worker):
        declare(worker, prefetch=2)
        for work in worker:
            work.look_up("item", [1])
            assert [item.index for item in worker.announcements()] == [4]
            work.done(0.0)

    play(program, scenario)


def announce_with_rows(fake, **batch):
    """Announces a batch while the program waits for rows."""
    answer = fake.look_up

    def announce_first(*arguments):
        fake.announce([1, 2], **batch)
        return answer(*arguments)

    fake.look_up = announce_first


@pytest.mark.parametrize("version", [3, 4, 5])
def test_keys_of_an_announced_batch_are_named_ahead(version):
    def scenario(fake):
        values = fake.handshake(version=version)
        announce_with_rows(fake, epoch=1, index=4)
        named = [(1, 4, {"item": [5, 2**64 - 1]})] if version > 3 else []
        assert fake.train(values, [0]).look_aheads == named
        assert fake.evaluate(values, [0]).look_aheads == []
        fake.finish()

    def program(worker):
        declare(worker, prefetch=2)
        for work in worker:
            work.look_up("item", [1])
            for batch in worker.announcements():
                work.look_ahead(batch, {"item": [[5, -1], [5, 5]], "user": []})
            work.done(0.0)

    play(program, scenario)


def test_keys_ahead_are_checked():
    def program(worker):
        declare(worker, prefetch=2)
        for work in worker:
            work.look_up("item", [1])
            for batch in worker.announcements():
                with pytest.raises(shoal.ProgramError, match="table 'words' was not declared"):
                    work.look_ahead(batch, {"words": [1]})
                with pytest.raises(shoal.ProgramError, match="the keys of table item are float64"):
                    work.look_ahead(batch, {"item": [1.5]})
                work.done(0.0)
                with pytest.raises(shoal.ProgramError, match=re.escape("look_ahead() is called for")):
                    work.look_ahead(batch, {"item": [1]})

    def scenario(fake):
        values = fake.handshake()
        announce_with_rows(fake)
        assert fake.train(values, [0]).look_aheads == []
        fake.finish()

    play(program, scenario)


def test_a_worker_that_ends_a_batch_ends_the_program():
    def scenario(fake):
        values = fake.handshake()
        fake.look_up = lambda *_: fake.finish(reason=2) or fake.row_area
        with pytest.raises(EOFError):
            fake.train(values, [0])

    def program(worker):
        declare(worker)
        for work in worker:
            work.look_up("item", [1])
            raise AssertionError("there are no rows")

    play(program, scenario)


def test_the_text_of_a_table_is_that_of_a_run_file():
    cases = {
        shoal.Table("a", 1): 'table { name: "a" dim: 1 }',
        shoal.Table("a", 1, admission=2, expiry=9, buckets=16): 'table { name: "a" dim: 1 admission { min_count: 2 } '
        "expiry { idle_updates: 9 } buckets: 16 }",
        shoal.Table("a", 1, initializer=0.5, l2=0.1): 'table { name: "a" dim: 1 optimizer { l2: 0.1 } '
        "initializer { constant { value: 0.5 } } }",
        shoal.Table("a", 1, optimizer=shoal.Ftrl(0.1, l2=2.0)): 'table { name: "a" dim: 1 optimizer { ftrl { '
        "learning_rate: 0.1 learning_rate_power: -0.5 initial_accumulator: 0.1 l1: 0.0 l2: 2.0 } } }",
        shoal.Table("a", 1, optimizer=shoal.RowwiseAdagrad(0.1), initializer=shoal.TruncatedNormal(stddev=1)): (
            'table { name: "a" dim: 1 optimizer { rowwise_adagrad { learning_rate: 0.1 initial_accumulator: 0.1 '
            "epsilon: 0.0 } } initializer { truncated_normal { mean: 0.0 stddev: 1.0 } } }"
        ),
    }
    for table, text in cases.items():
        assert table.settings() == text


def test_a_worker_without_tables_is_named():
    def scenario(fake):
        fake.welcome(version=2)

    with pytest.raises(shoal.ProgramError, match="this release of the command shoal has no tables for programs"):
        play(declare, scenario)


WRONG = {
    "an odd name": (lambda: shoal.Table("a/b", 1), "the table name 'a/b' must have 1 to 128"),
    "no dim": (lambda: shoal.Table("a", 0), "table a: dim is 0; it must be a whole number from 1 to 4096"),
    "a fraction": (lambda: shoal.Table("a", 2.0), "table a: dim is 2.0"),
    "no admission": (lambda: shoal.Table("a", 1, admission=0), "table a: admission is 0"),
    "an expiry in the past": (lambda: shoal.Table("a", 1, expiry=-1), "table a: expiry is -1"),
    "a negative l2": (lambda: shoal.Table("a", 1, l2=-1), "table a: l2 is -1"),
    "a rule for arrays": (
        lambda: shoal.Table("a", 1, optimizer=shoal.AdamW()),
        "table a: the optimizer is an AdamW; rows are updated by shoal.SGD, Adagrad, RowwiseAdagrad, Adam or Ftrl",
    ),
    "an optimizer by name": (lambda: shoal.Table("a", 1, optimizer="sgd"), "table a: the optimizer is a str"),
    "a schedule of its own": (
        lambda: shoal.Table("a", 1, optimizer=shoal.SGD(schedule=shoal.Cosine())),
        "table a: SGD has schedule, which tables do not have",
    ),
    "an initializer by name": (lambda: shoal.Table("a", 1, initializer="zeros"), "the initializer is 'zeros'; it must"),
    "an initializer from above": (lambda: shoal.Uniform(1, 0), "Uniform: low is 1, which is above high, 0"),
    "a negative deviation": (lambda: shoal.Normal(stddev=-1), "Normal: stddev is -1; it must not be negative"),
    "a deviation that is not finite": (lambda: shoal.Normal(stddev=float("nan")), "Normal: stddev is nan; it must be"),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_a_table_that_cannot_be_is_refused(name):
    make, message = WRONG[name]
    with pytest.raises(shoal.ProgramError, match=re.escape(message)):
        make()


DECLARED = {
    "one table": ({"tables": ITEM}, "tables is a Table; it must be a list of shoal.Table"),
    "a name only": ({"tables": ["item"]}, "tables needs shoal.Table, not str"),
    "two dims for one table": (
        {"tables": [ITEM, shoal.Table("item", 4)]},
        "two tables have the name item, with 3 and 4 numbers in a row",
    ),
    "a table like a variable": ({"tables": [shoal.Table("w", 4)]}, "w is a table and a variable; rename one of them"),
    "a rule for tables": ({"optimizer": shoal.RowwiseAdagrad()}, "RowwiseAdagrad is for tables"),
}


@pytest.mark.parametrize("name", list(DECLARED))
def test_a_declaration_with_tables_that_cannot_be_is_refused(name):
    options, message = DECLARED[name]
    with pytest.raises(shoal.ProgramError, match=re.escape(message)):
        play(lambda worker: declare(worker, **options), lambda fake: fake.welcome())


def test_tables_alone_can_be_declared():
    def program(worker):
        worker.declare([], tables=[ITEM], examples=8, batch_size=8)
        for work in worker:
            rows = work.look_up("item", [1, 2])
            rows.gradient = np.ones((2, 3), np.float32)
            work.done(1.0)

    def scenario(fake):
        result = fake.train(fake.handshake(), range(8))
        fake.finish()
        return result

    play(program, scenario)


USED = {
    "a table that nobody declared": (
        lambda work: work.look_up("items", [1]),
        "table 'items' was not declared, but item, user; declare(…, tables=[shoal.Table('items', dim=…)]) does",
    ),
    "no keys": (lambda work: work.look_up("item"), "look_up('item') needs the keys of the rows"),
    "keys twice": (lambda work: work.look_up({"item": [1]}, [2]), "a second argument has no meaning"),
    "fractions": (lambda work: work.look_up("item", [1.0]), "the keys of table item are float64; they must be whole"),
    "words": (lambda work: work.look_up("item", ["a"]), "the keys of table item are <U1; they must be whole"),
    "too large numbers": (lambda work: work.look_up("item", [2**64]), "the keys of table item are object; they must"),
    "lists of two lengths": (
        lambda work: work.look_up("item", [[1], [1, 2]]),
        "the keys of table item are not an array",
    ),
    "a gradient of another size": (
        lambda work: setattr(work.look_up("item", [1, 1, 2]), "gradient", np.zeros((3, 3))),
        "the gradient of the rows of table item has the shape (3, 3); the rows have (2, 3), one for each different key",
    ),
    "a look-up after final": (
        lambda work: (work.final("w"), work.look_up("item", [1])),
        "rows are looked up after final() in batch 0 of epoch 1; look up all rows of a batch first",
    ),
    "a look-up after done": (
        lambda work: (work.done(0.0), work.look_up("item", [1])),
        "look_up() is called for batch 0 of epoch 1 after done()",
    ),
    "a gradient after done": (
        lambda work: (rows := work.look_up("item", [1]), work.done(0.0), setattr(rows, "gradient", np.zeros((1, 3)))),
        "the gradient of rows is written after batch 0 of epoch 1 is done",
    ),
    "too many keys": (
        lambda work: work.look_up("item", np.arange((8 << 20) + 1)),
        "a batch looks up 8388609 different keys at once; about 8388608 are possible: make batch_size",
    ),
}


@pytest.mark.parametrize("name", list(USED))
def test_a_misuse_of_rows_is_named_with_its_line(name):
    use, message = USED[name]

    def scenario(fake):
        fake.train(fake.handshake(), [0])

    with pytest.raises(shoal.ProgramError, match=re.escape(message)) as caught:
        run(use, scenario)
    assert "test_tables.py:" in str(caught.value)


def test_an_evaluation_has_no_gradients_of_rows():
    def body(work):
        work.look_up("item", [1]).gradient = np.zeros((1, 3))

    with pytest.raises(shoal.ProgramError, match="an evaluation has no gradients"):
        run(body, lambda fake: fake.evaluate(fake.handshake(), [0]))


def test_rows_of_another_batch_are_refused():
    conversation = _protocol.Conversation()
    conversation.state, conversation._work = "working", 4
    conversation.look_up([(0, np.array([1], np.uint64))])
    with pytest.raises(ProtocolError, match="ROWS of work 3, not of work 4"):
        conversation.receive(_protocol.message(_protocol.ROWS, (3).to_bytes(8, "little") + bytes(16)))
