"""EmbeddingBag and Embedding against a fake worker, compared with those of plain PyTorch."""

import contextlib
import copy
import pickle
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fake_worker import play
from torch import nn
from torch.utils.data import TensorDataset

import shoal
import shoal.torch

N, DIM = 24, 4
generator = torch.Generator().manual_seed(3)
KEYS = torch.randint(0, 9, (N, 3), generator=generator)
WORDS = torch.randint(-5, 5, (N, 2), generator=generator)
LABELS = (KEYS.sum(1) % 2).float()
DATA = TensorDataset(KEYS, WORDS, LABELS)
TABLES = (shoal.Table("item", DIM), shoal.Table("word", DIM))


def row_of(table, key, dim):
    """The row of a key, of which the words -5 to 4 are those from 2^64 - 5 on."""
    place = (key + 5) % 2**64 + (100 if table == "word" else 0)
    return np.sin(np.arange(dim) + 7 * place, dtype=np.float32)


class Net(nn.Module):
    """Two bags on one table, and an embedding of words."""

    def __init__(self, bag, embedding):
        super().__init__()
        self.first = bag("item", "sum")
        self.second = bag("item", "mean")
        self.words = embedding("word")
        torch.manual_seed(1)
        self.top = nn.Linear(3 * DIM, 1)

    def forward(self, keys, words):
        flat, offsets = keys[:, :2].reshape(-1), torch.arange(0, 2 * len(keys), 2)
        weights = 0.5 + (flat % 7).float() / 10
        parts = [self.first(flat, offsets, weights), self.second(keys), self.words(words).sum(1)]
        return self.top(torch.cat(parts, 1)).squeeze(1)


def shoal_net():
    return Net(
        lambda table, mode: shoal.torch.EmbeddingBag(table=table, dim=DIM, mode=mode),
        lambda table: shoal.torch.Embedding(table=table, dim=DIM),
    )


class Shifted(nn.Module):
    """A plain module with one row for each key from -5 on."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, keys, *rest):
        return self.module(keys + 5, *rest)


def plain_net():
    def weight(table):
        return torch.from_numpy(np.stack([row_of(table, key % 2**64, DIM) for key in range(-5, 10)]))

    items, words = nn.Parameter(weight("item")), nn.Parameter(weight("word"))

    def bag(table, mode):
        module = nn.EmbeddingBag(15, DIM, mode=mode)
        module.weight = items
        return Shifted(module)

    def embedding(table):
        module = nn.Embedding(15, DIM)
        module.weight = words
        return Shifted(module)

    return Net(bag, embedding), {"item": items, "word": words}


def train(body, scenario, model=None, **options):
    def program(worker):
        net = model or shoal_net()
        trainer = shoal.torch.Trainer(worker, net, shoal.SGD(0.1), tables=TABLES, metrics=(), **options)
        for batch in trainer.batches(DATA, batch_size=8, test=DATA):
            body(trainer, net, batch)

    def side(fake):
        fake.row_of = row_of
        values = fake.handshake()
        scenario(fake, values)
        fake.finish()

    return play(program, side)


def usual(trainer, net, batch):
    trainer.step(F.binary_cross_entropy_with_logits(net(*batch[:2]), batch[2]))


def check(result, indices, values):
    """The gradients of a batch are those of plain PyTorch."""
    plain, weights = plain_net()
    plain.top.load_state_dict({name[4:]: torch.from_numpy(np.array(v)) for name, v in values.items()})
    rows = torch.as_tensor(indices)
    loss = F.binary_cross_entropy_with_logits(plain(KEYS[rows], WORDS[rows]), LABELS[rows])
    loss.backward()
    assert result.loss == pytest.approx(loss.item() * len(indices), rel=1e-5)
    np.testing.assert_allclose(result.contributions["top.weight"], plain.top.weight.grad, rtol=1e-4, atol=1e-6)
    for table, weight in weights.items():
        used = {(int(key)) % 2**64 for key in (KEYS if table == "item" else WORDS)[rows].reshape(-1)}
        assert set(result.rows[table]) == used
        for key, row in result.rows[table].items():
            place = (key + 5) % 2**64
            np.testing.assert_allclose(row, weight.grad[place], rtol=1e-4, atol=1e-6, err_msg=f"{table} {key}")


INDICES = [0, 3, 5, 7, 8, 11, 20, 23]


@pytest.mark.parametrize("overlap", [True, False])
def test_gradients_are_those_of_plain_pytorch(overlap):
    def scenario(fake, values):
        for step in range(3):
            check(fake.train(values, INDICES, step=step, index=step), INDICES, values)

    train(usual, scenario, overlap=overlap)


def test_a_look_up_ahead_is_one_exchange():
    def ahead(trainer, net, batch):
        trainer.look_up({"item": [batch[0], batch[0][:, :1]], "word": batch[1]})
        usual(trainer, net, batch)

    def scenario(fake, values):
        result = fake.train(values, INDICES)
        assert [set(asked) for asked in result.look_ups] == [{"item", "word"}]
        check(result, INDICES, values)

    train(ahead, scenario)


def keys_of(batch):
    return {"item": [batch[0], batch[0][:, :1]], "word": batch[1]}


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_function_of_keys_looks_up_and_names_those_of_the_next_batch(num_workers):
    def program(worker):
        net = shoal_net()
        trainer = shoal.torch.Trainer(worker, net, shoal.SGD(0.1), tables=TABLES, metrics=())
        options = {"num_workers": num_workers, "prefetch_factor": 1} if num_workers else {}
        for batch in trainer.batches(DATA, batch_size=8, test=DATA, keys=keys_of, **options):
            usual(trainer, net, batch)

    def side(fake):
        fake.row_of = row_of
        values = fake.handshake()
        assert fake.declared.announcements == 1
        answer = fake.look_up

        def announce_first(*arguments):
            fake.announce(INDICES, index=1)
            return answer(*arguments)

        fake.look_up = announce_first
        first = fake.train(values, range(8))
        fake.look_up = answer
        check(first, range(8), values)
        different = {
            name: sorted({int(key) % 2**64 for key in column[INDICES].reshape(-1)})
            for name, column in (("item", KEYS), ("word", WORDS))
        }
        assert len(first.look_ups) == 1
        assert first.look_aheads == [(0, 1, different)]
        second = fake.train(values, INDICES, step=1, index=1)
        check(second, INDICES, values)
        assert second.look_ups == [different]
        assert second.look_aheads == [], "no other batch is announced"
        assert len(fake.evaluate(values, [1, 2]).look_ups) == 1
        fake.finish()

    play(program, side)


def test_a_batch_that_was_announced_need_not_come():
    def program(worker):
        net = shoal_net()
        trainer = shoal.torch.Trainer(worker, net, shoal.SGD(0.1), tables=TABLES, metrics=())
        for batch in trainer.batches(DATA, batch_size=8, keys=keys_of):
            usual(trainer, net, batch)

    def side(fake):
        fake.row_of = row_of
        values = fake.handshake()
        fake.announce(INDICES, index=7)
        assert [ahead[:2] for ahead in fake.train(values, range(8)).look_aheads] == [(0, 7)]
        check(fake.train(values, range(8, 16), step=1, index=2), range(8, 16), values)
        check(fake.train(values, INDICES, step=2, index=7), INDICES, values)
        fake.finish()

    play(program, side)


def test_a_wrong_function_of_keys_is_named():
    def run_with(keys):
        def program(worker):
            net = shoal_net()
            trainer = shoal.torch.Trainer(worker, net, shoal.SGD(0.1), tables=TABLES, metrics=())
            for batch in trainer.batches(DATA, batch_size=8, keys=keys):
                usual(trainer, net, batch)

        play(program, lambda fake: fake.train(fake.handshake(), INDICES))

    with pytest.raises(shoal.ProgramError, match="keys is a dict; it must be a function"):
        run_with({"item": KEYS})
    with pytest.raises(shoal.ProgramError, match="the function keys returned a Tensor for a batch"):
        run_with(lambda batch: batch[0])
    with pytest.raises(shoal.ProgramError, match="table 'words' was not declared"):
        run_with(lambda batch: {"words": batch[1]})


def test_without_look_ahead_each_forward_pass_looks_up_missing_rows():
    def scenario(fake, values):
        result = fake.train(values, INDICES)
        assert [set(asked) for asked in result.look_ups] in ([{"item"}, {"word"}], [{"item"}, {"item"}, {"word"}])
        check(result, INDICES, values)

    train(usual, scenario)


def test_accumulated_gradients_are_those_of_the_batch():
    def in_parts(trainer, net, batch):
        for part in (slice(0, 3), slice(3, 8)):
            loss = F.binary_cross_entropy_with_logits(net(*(x[part] for x in batch[:2])), batch[2][part])
            trainer.backward(loss, examples=len(batch[2][part]))
        trainer.step()

    train(in_parts, lambda fake, values: check(fake.train(values, INDICES), INDICES, values))


def test_a_loop_with_backward_and_clipping_of_its_own():
    def own(trainer, net, batch):
        loss = F.binary_cross_entropy_with_logits(net(*batch[:2]), batch[2])
        if trainer.training:
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1e9)
        trainer.step(loss)

    train(own, lambda fake, values: check(fake.train(values, INDICES), INDICES, values))


def test_an_evaluation_pulls_and_pushes_nothing():
    def scenario(fake, values):
        fake.train(values, INDICES)
        result = fake.evaluate(values, [1, 2])
        assert result.look_ups
        assert not result.rows
        plain, _ = plain_net()
        plain.top.load_state_dict({name[4:]: torch.from_numpy(np.array(v)) for name, v in values.items()})
        with torch.no_grad():
            loss = F.binary_cross_entropy_with_logits(plain(KEYS[1:3], WORDS[1:3]), LABELS[1:3])
        assert result.loss == pytest.approx(2 * loss.item(), rel=1e-5)

    train(usual, scenario)


def test_a_table_that_a_batch_does_not_need_gets_nothing():
    def only_dense(trainer, net, batch):
        trainer.step(F.binary_cross_entropy_with_logits(net.top(torch.ones(8, 3 * DIM)).squeeze(1), batch[2]))

    def scenario(fake, values):
        result = fake.train(values, INDICES)
        assert not result.look_ups
        assert not result.rows

    train(only_dense, scenario)


PADDING = 3
BAGS = [
    {},
    {"mode": "sum"},
    {"padding_idx": PADDING},
    {"mode": "sum", "padding_idx": PADDING},
    {"include_last_offset": True},
    {"include_last_offset": True, "padding_idx": PADDING},
]


def compare_with_plain(options, arguments_of, ours=shoal.torch.EmbeddingBag, plain=nn.EmbeddingBag):
    """Results and gradients are those of a plain module with the same options; a key of padding is not looked up."""
    gradients, used = [], set()

    def body(trainer, net, batch):
        keys = batch[0].clone()
        keys[-1] = PADDING
        arguments = arguments_of(keys)
        used.update(keys.reshape(-1).tolist())
        reference = plain(9, DIM, **options)
        rows = [row_of("item", key, DIM) * (options.get("padding_idx") != key) for key in range(9)]
        reference.weight = nn.Parameter(torch.from_numpy(np.stack(rows)))
        expected = reference(*arguments)
        result = ours(trainer, table="item", dim=DIM, **options)(*arguments)
        torch.testing.assert_close(result, expected)
        factors = torch.arange(1.0, 1 + expected.numel()).reshape(expected.shape)
        (expected * factors).sum().backward()
        gradients.append(reference.weight.grad)
        trainer.step((result * factors).sum())

    def scenario(fake, values):
        rows = fake.train(values, INDICES).rows["item"]
        assert PADDING in used
        assert set(rows) == used - {options.get("padding_idx")}
        for key, row in rows.items():
            np.testing.assert_allclose(row, gradients[0][key], rtol=1e-5)

    train(body, scenario)


@pytest.mark.parametrize("options", BAGS)
def test_bags_with_options_are_those_of_plain_pytorch(options):
    def flat(keys):
        ends = [keys.numel()] if options.get("include_last_offset") else []
        return keys.reshape(-1), torch.tensor([0, 2, 2, 11, 21, *ends])  # The last bag has padding only.

    compare_with_plain(options, flat)
    if "include_last_offset" not in options:
        compare_with_plain(options, lambda keys: (keys,))
    if options.get("mode") == "sum":
        compare_with_plain(options, lambda keys: (keys, None, 0.5 + torch.arange(keys.numel()).reshape(keys.shape) / 9))


@pytest.mark.parametrize("options", [{}, {"padding_idx": PADDING}])
def test_an_embedding_with_padding_is_that_of_plain_pytorch(options):
    for shape in ((8, 3), (-1,)):
        compare_with_plain(
            options, lambda keys, shape=shape: (keys.reshape(shape),), shoal.torch.Embedding, nn.Embedding
        )


@pytest.mark.parametrize("padding", [-2, 2**64 - 2])
def test_padding_is_a_key_with_the_same_bits_and_needs_no_look_up(padding):
    def body(trainer, net, batch):
        options = {"table": "word", "dim": DIM, "padding_idx": padding}
        keys = torch.full((2, 3), -2)
        assert not shoal.torch.Embedding(trainer, **options)(keys).detach().any()
        bag = shoal.torch.EmbeddingBag(trainer, **options)
        for empty in (bag(keys), bag(keys.reshape(-1), torch.tensor([0, 1])), bag(keys[:, :0])):
            assert empty.shape == (2, DIM)
            assert not empty.detach().any()
        assert bag(keys[:0]).shape == (0, DIM)
        trainer.step(bag(torch.tensor([[-2, 1], [-2, -2]])).sum())

    def scenario(fake, values):
        assert fake.train(values, INDICES).look_ups == [{"word": [1]}]

    train(body, scenario)


def test_empty_bags_are_zero():
    def body(trainer, net, batch):
        none = torch.zeros(0, dtype=torch.int64)
        for out in (net.first(none, torch.zeros(2, dtype=torch.int64)), net.second(none.reshape(2, 0))):
            assert out.shape == (2, DIM)
            assert not out.detach().any()
        assert net.words(none).shape == (0, DIM)
        bag = net.first(torch.tensor([3]), torch.tensor([0, 0, 1]))
        assert not bag[[0, 2]].detach().any()
        usual(trainer, net, batch)

    train(body, lambda fake, values: fake.train(values, INDICES))


def test_modules_outside_of_the_model_are_made_with_the_trainer():
    def program(worker):
        top = nn.Linear(DIM, 1)
        trainer = shoal.torch.Trainer(worker, top, shoal.SGD(0.1), tables=TABLES)
        bag = shoal.torch.EmbeddingBag(trainer, table="item", dim=DIM, mode="mean")
        for keys, _, labels in trainer.batches(DATA, batch_size=8):
            trainer.step(F.binary_cross_entropy_with_logits(top(bag(keys)).squeeze(1), labels))

    def scenario(fake):
        result = fake.train(fake.handshake(), INDICES)
        assert set(result.rows["item"]) == set(KEYS[INDICES].reshape(-1).tolist())
        fake.finish()

    play(program, scenario)


@pytest.mark.parametrize("clears", [False, True])
def test_a_batch_that_is_computed_twice_looks_up_once(clears, capsys):
    def program(worker):
        net = shoal_net()
        trainer = shoal.torch.Trainer(worker, net, shoal.SGD(0.1), tables=TABLES, metrics=())
        trainer.check_determinism()
        for batch in trainer.batches(DATA, batch_size=8):
            usual(trainer, net, batch)
            if clears:  # The check compares the gradients that step() had.
                trainer.zero_grad()

    def scenario(fake):
        fake.row_of = row_of
        values = fake.handshake()
        check(fake.train(values, INDICES), INDICES, values)
        fake.finish()

    play(program, scenario)
    assert "had the same bytes twice, in 2 variables and 2 tables" in capsys.readouterr().out


def test_a_check_of_determinism_compares_the_gradients_of_rows():
    calls = []

    def check_with(rows_of):
        def program(worker):
            net = shoal_net()
            trainer = shoal.torch.Trainer(worker, net, shoal.SGD(0.1), tables=TABLES, metrics=())
            trainer.check_determinism()
            for batch in trainer.batches(DATA, batch_size=8):
                calls.append(1)
                rows = rows_of(net, batch).sum()
                # Only the gradient of the rows differs: the loss and the other gradients do not.
                trainer.step(F.binary_cross_entropy_with_logits(net(*batch[:2]), batch[2]) + rows - rows.detach())

        def scenario(fake):
            fake.row_of = row_of
            with contextlib.suppress(Exception):  # The program's error is the one that counts.
                fake.train(fake.handshake(), INDICES)

        play(program, scenario)

    with pytest.raises(shoal.ProgramError, match="was computed twice, and the gradients of rows of table word differ"):
        check_with(lambda net, batch: len(calls) * net.words(batch[1]))
    with pytest.raises(shoal.ProgramError, match="and the keys of table item whose rows have gradients differ"):
        check_with(lambda net, batch: net.first(torch.tensor([[100 + len(calls)]])))


def test_a_module_is_copied_and_shown_without_its_trainer():
    bag = shoal.torch.EmbeddingBag(table="item", dim=3, mode="mean")
    assert repr(bag) == "EmbeddingBag(table='item', dim=3, mode='mean')"
    padded = shoal.torch.EmbeddingBag(table="item", dim=3, padding_idx=0, include_last_offset=True)
    assert repr(padded).endswith("dim=3, padding_idx=0, mode='mean', include_last_offset=True)")
    assert not list(bag.parameters())
    assert copy.deepcopy(bag)._trainer is None
    assert pickle.loads(pickle.dumps(bag)).mode == "mean"


K = torch.arange(6)
USED = {
    "float keys": (lambda net: net.first(K.float(), K[:1]), "the keys are torch.float32; they must be int64"),
    "a list of keys": (lambda net: net.words([1, 2]), "Embedding of table word: the keys are a list, not a tensor"),
    "no offsets": (lambda net: net.first(K), "keys of 1 dimension need offsets"),
    "offsets of rows": (lambda net: net.first(K.reshape(2, 3), K[:2]), "2 dimensions are bags by row and have no off"),
    "offsets that begin late": (lambda net: net.first(K, K[1:3]), "the offsets do not fit the 6 keys; they begin"),
    "offsets that fall": (lambda net: net.first(K, torch.tensor([0, 3, 2])), "the offsets do not fit the 6 keys"),
    "offsets behind the keys": (lambda net: net.first(K, torch.tensor([0, 7])), "the offsets do not fit the 6 keys"),
    "offsets that end early": (
        lambda net: bag(trainer=net.first._trainer, include_last_offset=True)(K, torch.tensor([0, 5])),
        "include_last_offset says that the offsets end with the number of keys, 6, but the last one is 5",
    ),
    "no bag": (lambda net: net.first(K, K[:0]), "an int64 tensor of 1 dimension with at least one bag"),
    "float offsets": (lambda net: net.first(K, K[:1].float()), "offsets must be an int64 tensor"),
    "three dimensions": (lambda net: net.first(K.reshape(1, 2, 3)), "the keys have 3 dimensions"),
    "weights of a mean": (
        lambda net: net.second(K.reshape(2, 3), None, torch.ones(2, 3)),
        "per_sample_weights need mode=\"sum\", not 'mean'",
    ),
    "weights of another shape": (
        lambda net: net.first(K, K[:1], torch.ones(5)),
        "per_sample_weights must be a float32 tensor of the keys' shape",
    ),
}


@pytest.mark.parametrize("name", list(USED))
def test_a_misuse_in_a_batch_is_named_with_its_line(name):
    use, message = USED[name]
    _expect(lambda trainer, net, batch: use(net), message)


def test_look_up_checks_its_tables():
    _expect(lambda trainer, net, batch: trainer.look_up({"user": batch[0]}), "table 'user' was not declared, but item,")
    _expect(lambda trainer, net, batch: trainer.look_up(batch[0]), "look_up() needs the keys of each table, {name: ke")
    _expect(lambda trainer, net, batch: trainer.look_up({"item": batch[2]}), "the keys of table item are float32")


def _expect(body, message):
    def side(fake, values):
        fake.train(values, INDICES)

    with pytest.raises(shoal.ProgramError, match=re.escape(message)) as caught:
        train(body, side)
    assert "test_tables.py:" in str(caught.value)


def bag(**options):
    return shoal.torch.EmbeddingBag(**{"table": "item", "dim": DIM, **options})


MADE = {
    "two dims for one table": (
        lambda: bag(dim=5),
        "EmbeddingBag: table item has rows of 4 numbers, not 5; give its shoal.Table and its modules the same dim",
    ),
    "a table that nobody declared": (
        lambda: bag(table="user"),
        "the trainer has no table 'user' (it has item, word); Trainer(…, tables=[shoal.Table('user', dim=4)]) declares",
    ),
    "a maximum": (lambda: bag(mode="max"), 'EmbeddingBag of table item: mode is \'max\'; it must be "mean" or "sum"'),
    "padding without a key": (lambda: bag(padding_idx=2**64), "padding_idx is 18446744073709551616; it must be a key"),
    "padding that is a truth value": (lambda: bag(padding_idx=True), "padding_idx is True; it must be a key"),
    "no dim": (lambda: bag(dim=0), "EmbeddingBag: dim is 0; it must be a whole number from 1 to 4096"),
    "a table as an object": (
        lambda: bag(table=TABLES[0]),
        "EmbeddingBag: table is Table('item', 4); it must be the na",
    ),
    "a worker as a trainer": (lambda: bag(trainer=object()), "EmbeddingBag: trainer is a object; it must be a shoal.t"),
}


@pytest.mark.parametrize("name", list(MADE))
def test_a_module_that_cannot_be_is_refused_at_the_start(name):
    make, message = MADE[name]

    def program(worker):
        shoal.torch.Trainer(worker, nn.Sequential(make(), nn.Linear(DIM, 1)), tables=TABLES)

    with pytest.raises(shoal.ProgramError, match=re.escape(message)) as caught:
        play(program, lambda fake: fake.welcome())
    assert "test_tables.py:" in str(caught.value)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            [shoal.Table("item", DIM), shoal.Table("item", DIM + 1)],
            "two tables have the name item, with 4 and 5 numbers in a row; keep one of them, or rename one",
        ),
        (shoal.Table("item", DIM), "tables is a Table; it must be a list of shoal.Table"),
    ],
)
def test_tables_that_cannot_be_are_refused_before_the_modules_that_name_them(tables, message):
    def program(worker):
        shoal.torch.Trainer(worker, nn.Sequential(bag(), nn.Linear(DIM, 1)), tables=tables)

    with pytest.raises(shoal.ProgramError, match=re.escape(message)) as caught:
        play(program, lambda fake: fake.welcome())
    assert "test_tables.py:" in str(caught.value)


def test_rows_belong_to_a_batch_of_a_trainer():
    with pytest.raises(
        shoal.ProgramError, match="EmbeddingBag of table item belongs to no trainer and has no rows of a run. To compu"
    ):
        bag()(K.reshape(2, 3))

    def program(worker):
        net = shoal_net()
        shoal.torch.Trainer(worker, net, tables=TABLES)
        net.second(K.reshape(2, 3))

    with pytest.raises(shoal.ProgramError, match="EmbeddingBag of table item is outside of the loop of its trainer"):
        play(program, lambda fake: fake.welcome())
