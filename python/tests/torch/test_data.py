"""The order of examples is Shoal's; DataLoader's processes read ahead what is announced."""

import multiprocessing
import os
import random
import re
import subprocess
import sys
import traceback

import numpy as np
import pytest
import torch
from fake_worker import play
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import shoal
import shoal.torch
from shoal.errors import describe
from shoal.torch.data import Reader, fingerprint, seed_all


class Numbers(Dataset):
    """Example i is i, three random numbers, and the process that read it."""

    def __len__(self):
        return 100

    def __getitem__(self, i):
        noise = torch.tensor([torch.rand(()).item(), np.random.rand(), random.random()], dtype=torch.float64)
        return torch.tensor(float(i)), noise, os.getpid()


def collect(seen, **options):
    def program(worker):
        model = nn.Linear(1, 1)
        trainer = shoal.torch.Trainer(worker, model)
        for batch in trainer.batches(Numbers(), batch_size=4, test=Numbers(), **options):
            work = trainer.work
            seen.append((work.kind, work.index, batch[0].tolist(), batch[1].numpy().tobytes(), set(batch[2].tolist())))
            trainer.step(model(batch[0][:, None]).mean())

    return program


def scenario(fake):
    values = fake.handshake()
    assert fake.declared.announcements in (0, 4)
    rows = {index: [10 * index + i for i in range(3)] for index in range(9)}
    for index in (0, 1, 2, 3):
        fake.announce(rows[index], index=index)
    fake.train(values, rows[0], index=0)
    fake.train(values, rows[1], index=1)
    fake.announce(rows[4], index=4)
    fake.announce(rows[4], index=4)
    fake.train(values, rows[8], index=8)  # never announced
    fake.evaluate(values, [5, 6], index=2)
    fake.train(values, rows[3], index=3)  # 2 was announced and does not come
    fake.train(values, rows[4], index=4)
    for index in range(5, 8):
        fake.announce(rows[index], index=index)
    fake.train(values, rows[1], index=1)  # again, after a rollback
    fake.train(values, rows[6], index=6)
    fake.finish()


ORDER = [("train", i) for i in (0, 1, 8)] + [("evaluate", 2)] + [("train", i) for i in (3, 4, 1, 6)]


@pytest.mark.parametrize("context", [None, "fork"])
def test_processes_read_what_is_announced_with_the_same_bytes(context):
    alone, ahead = [], []
    play(collect(alone), scenario)
    options = {"multiprocessing_context": context} if context else {}
    play(collect(ahead, num_workers=2, **options), scenario)
    assert not multiprocessing.active_children(), "readers end with the loop"
    assert [entry[:2] for entry in alone] == ORDER
    assert [entry[:4] for entry in alone] == [entry[:4] for entry in ahead]
    assert alone[1][3] == alone[6][3]  # The same batch has the same random numbers.
    assert alone[0][3] != alone[1][3]
    assert {pid for entry in alone for pid in entry[4]} == {os.getpid()}
    readers = [entry[4] for entry in ahead if entry[0] == "train"]
    assert all(os.getpid() not in pids for pids in readers)
    assert len(set.union(*readers)) == 2


def test_readers_may_return_lists_as_pinned_memory_once_made_them(monkeypatch):
    class Lists(Reader):
        def __getitems__(self, request):
            key, batch = super().__getitems__(request)
            return [key and [*key], batch]

    seen = []
    monkeypatch.setattr("shoal.torch.data.Reader", Lists)
    play(collect(seen, num_workers=2), scenario)
    assert [entry[:2] for entry in seen] == ORDER


class Opened(Numbers):
    """A data set that worker_init_fn opens in each process, as it does with files and connections."""

    number = None

    def __getitem__(self, i):
        assert torch.utils.data.get_worker_info().dataset is self
        return torch.tensor(float(i)), self.number


def open_data(number):
    info = torch.utils.data.get_worker_info()
    assert info.id == number
    info.dataset.number = number + 100


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_a_reader_knows_the_data_set_of_the_program(context):
    seen = []

    def program(worker):
        model = nn.Linear(1, 1)
        trainer = shoal.torch.Trainer(worker, model)
        options = {"num_workers": 1, "worker_init_fn": open_data, "multiprocessing_context": context}
        for batch in trainer.batches(Opened(), batch_size=4, **options):
            seen.append(batch[1].tolist())
            trainer.step(model(batch[0][:, None]).mean())

    def short(fake):
        fake.train(fake.handshake(), [7, 3])
        fake.finish()

    play(program, short)
    assert seen == [[100, 100]]


def test_a_program_that_leaves_its_readers_behind_ends_with_them(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(
        "import torch, shoal.torch.data as data\n"
        "from torch.utils.data import TensorDataset\n"
        "reader = data.Reader(TensorDataset(torch.arange(100)), None)\n"
        "pipe = data.Pipeline(reader, 2, 2, {})\n"
        "request = data.Request([1, 2], key=(0, 0), seed=1)\n"
        "print(pipe.get(request)[0].tolist(), [p.pid for p in data.multiprocessing.active_children()])\n"
    )
    environment = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.dirname(shoal.__file__)))
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=True, env=environment
    )
    assert done.stdout.startswith("[1, 2] ["), done.stdout
    pids = [int(pid) for pid in re.findall(r"\d+", done.stdout)[2:]]
    assert len(pids) == 2 and not any(os.path.exists(f"/proc/{pid}") for pid in pids)
    assert not done.stderr, done.stderr


READS = (
    "reader = data.Reader(DATA, None)\n"
    "pipe = data.Pipeline(reader, 1, 2, {'multiprocessing_context': 'spawn', **globals().get('OPTIONS', {})})\n"
    "pipe.get(data.Request([1, 2], key=(0, 0), seed=1))\n"
)
NO_GUARD = "DATA = torch.utils.data.TensorDataset(torch.arange(100))\nif __name__ != '__main__': shoal.Worker()\n"
ENDS_BY_ITSELF = (
    "DATA = torch.utils.data.TensorDataset(torch.arange(100))\n"
    "OPTIONS = {'multiprocessing_context': 'fork', 'worker_init_fn': lambda number: os._exit(1)}\n"
)
CLASS_UNDER_THE_GUARD = (
    "if __name__ == '__main__':\n"
    "    class Numbers(list): pass\n"
    "    DATA = Numbers(range(9))\n"
    "    " + READS.replace("\n", "\n    ")
)


@pytest.mark.parametrize(
    "rest, needs_guard, error",
    [
        (NO_GUARD + READS, True, "has imported the program and runs it"),
        (ENDS_BY_ITSELF + READS, False, "exited unexpectedly"),
        (CLASS_UNDER_THE_GUARD, False, "Can't get attribute 'Numbers'"),
    ],
)
def test_readers_that_run_the_program_name_the_line_that_it_needs(rest, needs_guard, error, tmp_path):
    program = tmp_path / "train.py"
    program.write_text("import os, torch, shoal, shoal.torch.data as data\n" + rest)
    environment = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.dirname(shoal.__file__)))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 1
    assert error in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert ('put what the program does under if __name__ == "__main__":' in last) == needs_guard, last


def test_an_error_of_the_data_set_names_its_line():
    class Broken(Numbers):
        def __getitem__(self, i):
            raise ValueError("a damaged image")

    def program(worker):
        trainer = shoal.torch.Trainer(worker, nn.Linear(1, 1))
        for _ in trainer.batches(Broken(), batch_size=4, num_workers=1):
            pass

    with pytest.raises(ValueError, match="a damaged image") as raised:
        play(program, lambda fake: (fake.handshake(), _send(fake)))
    kind, message, text = describe(raised.value, False, True)
    assert kind == 2
    assert re.search(r"test_data.py:\d+: ValueError: Caught ValueError in .* … ValueError: a damaged image$", message)
    line = re.search(r'test_data.py", line (\d+), in __getitem__', text)[1]
    assert f"test_data.py:{line}: " in message


def _send(fake):
    fake.work = 1
    fake.send_work(19, [0])


def test_a_collate_function_and_getitems_are_used():
    class Several(Numbers):
        def __getitems__(self, indices):
            return [torch.tensor(float(i)) for i in indices]

    seen = []

    def program(worker):
        model = nn.Linear(1, 1)
        trainer = shoal.torch.Trainer(worker, model)
        for batch in trainer.batches(Several(), batch_size=4, collate_fn=lambda items: {"x": torch.stack(items)}):
            seen.append(batch["x"].tolist())
            trainer.step(model(batch["x"][:, None]).mean())

    def short(fake):
        fake.train(fake.handshake(), [7, 3])
        fake.finish()

    play(program, short)
    assert seen == [[7.0, 3.0]]


def test_every_generator_is_seeded_and_nothing_is_queued_for_devices_that_are_not_in_use(monkeypatch):
    torch.manual_seed(5)
    expected = torch.rand(3)

    def refuse(*_):
        raise AssertionError("PyTorch keeps a traceback for every seed")

    monkeypatch.setattr(traceback, "format_stack", refuse)
    drawn = []
    for _ in range(2):
        seed_all(5)
        drawn.append((torch.rand(3).tolist(), np.random.rand(), random.random()))
    assert drawn[0] == drawn[1]
    assert drawn[0][0] == expected.tolist()


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(3))


@pytest.mark.parametrize(
    ("train", "options", "message"),
    [
        (Stream(), {}, "the training data is a Stream, which has no examples by number"),
        (iter([1]), {}, "the training data is a list_iterator, which has no examples by number"),
        (DataLoader([1.0]), {}, "the training data is a DataLoader; pass its data set"),
        ([], {}, "the training data is empty; are the files there from which it is made?"),
        ([1.0], {"test": []}, "the test data is empty; are the files there"),
        ([1.0], {"test": Stream()}, "the test data is a Stream"),
        ([1.0], {"shuffle": True}, "shuffle has no place here: Shoal chooses the order"),
        ([1.0], {"drop_last": True}, "drop_last has no place here"),
        ([1.0], {"in_order": False}, "in_order has no place here"),
        ([1.0], {"batch_sise": 8}, "batches() has no option 'batch_sise'; did you mean batch_size?"),
        ([1.0], {"pin_memry": True}, "batches() has no option 'pin_memry'; did you mean pin_memory?"),
        ([1.0], {"num_workers": 1, "zzz": 1}, "batches() has no option 'zzz': neither it nor DataLoader has one"),
        ([1.0], {"pin_memory": True}, "pin_memory is for the processes that read ahead, and num_workers is 0"),
        ([1.0], {"batch_size": 0}, "batch_size is 0; it must be a whole number"),
    ],
)
def test_data_that_cannot_be_used_are_refused(train, options, message):
    def program(worker):
        for _ in shoal.torch.Trainer(worker, nn.Linear(1, 1)).batches(train, **options):
            pass

    with pytest.raises(shoal.ProgramError) as raised:
        play(program, lambda fake: fake.welcome())
    assert message in str(raised.value)
    assert "test_data.py:" in str(raised.value)


def test_other_data_have_another_fingerprint():
    x = torch.arange(6.0)
    assert fingerprint(TensorDataset(x)) == fingerprint(TensorDataset(x.clone()))
    assert fingerprint(TensorDataset(x)) != fingerprint(TensorDataset(x + 1))
    assert fingerprint(TensorDataset(x)) != fingerprint(TensorDataset(x[:5]))
    assert fingerprint(list(range(3))) != fingerprint(list(range(4)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int64, torch.bool, torch.complex64])
def test_tensors_of_every_type_have_a_fingerprint(dtype):
    x = torch.arange(6).reshape(2, 3)
    texts = {fingerprint(TensorDataset(t.to(dtype))) for t in (x, 1 - x.clamp(max=1), x.clone())}
    assert len(texts) == 2
    assert fingerprint(TensorDataset(x.to(dtype).t())) == fingerprint(TensorDataset(x.t().contiguous().to(dtype)))


def test_a_fingerprint_is_that_of_earlier_versions():
    assert fingerprint(TensorDataset(torch.arange(6.0), torch.arange(6))) == 3701503760


def test_sparse_tensors_of_other_shapes_have_other_fingerprints():
    def of(size):
        return fingerprint(TensorDataset(torch.eye(size).to_sparse()))

    assert of(3) == of(3)
    assert of(3) != of(4)


def test_a_data_set_of_sparse_tensors_trains():
    x = torch.eye(8)
    data = TensorDataset(x.to_sparse(), torch.arange(8))

    def program(worker):
        model = nn.Linear(8, 1)
        trainer = shoal.torch.Trainer(worker, model)
        for rows, numbers in trainer.batches(data, batch_size=4):
            assert torch.equal(rows.to_dense(), x[numbers])
            trainer.step(model(rows.to_dense()).mean())

    def short(fake):
        fake.train(fake.handshake(), [7, 3])
        fake.finish()

    play(program, short)
