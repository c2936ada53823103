"""The DLRM of deploy/runs/clicks_dlrm.textproto in PyTorch: EmbeddingBag with sparse gradients and Adagrad.

usage: torch_clicks.py rate EXAMPLES BATCH SECONDS THREADS   prints the examples per second of one process
       torch_clicks.py fbgemm EXAMPLES BATCH SECONDS THREADS  the same with the tables of fbgemm-gpu-cpu, which are those of TorchRec:
                                                             all tables in one look-up, and Adagrad within the backward pass
       torch_clicks.py ddp EXAMPLES BATCH SECONDS            the same of two processes with one thread each and
                                                             DistributedDataParallel over Gloo; BATCH is that of one process
       torch_clicks.py auc TRAIN TEST BATCH THREADS          trains on all examples of TRAIN once, in their order; prints the AUC
                                                             on TEST
EXAMPLES, TRAIN and TEST are files of tests/benchmark/clicks_examples.
"""
import sys
import time

import clicks_data
import torch
import torch.nn.functional as F
from torch import nn

WARM_UP = 10


def layers(sizes, last):
    parts = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        parts += [nn.Linear(inputs, outputs), nn.ReLU()]
        nn.init.xavier_uniform_(parts[-2].weight)
        nn.init.zeros_(parts[-2].bias)
    return nn.Sequential(*(parts if last else parts[:-1]))


def table_settings():
    """Returns the range of the first values, the learning rate and the first value of Adagrad's accumulators."""
    return (clicks_data.setting("uniform", "low"), clicks_data.setting("uniform", "high"),
            clicks_data.setting("adagrad", "learning_rate"), clicks_data.setting("adagrad", "initial_accumulator"))


class Tables(nn.ModuleList):
    def __init__(self):
        super().__init__(nn.EmbeddingBag(rows, clicks_data.DIM, mode="sum", sparse=True) for rows in clicks_data.rows())
        low, high, rate, first = table_settings()
        for table in self:
            nn.init.uniform_(table.weight, low, high)
        self.optimizers = [torch.optim.Adagrad(self.parameters(), rate, initial_accumulator_value=first)]

    def forward(self, ids):
        """Returns the rows [batch, table, dim] of ids [batch, table]."""
        return torch.stack([table(ids[:, c:c + 1]) for c, table in enumerate(self)], 1)


class FbgemmTables(nn.Module):
    """The same with one operation for all tables."""

    def __init__(self):
        super().__init__()
        from fbgemm_gpu.split_embedding_configs import EmbOptimType
        from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation
        from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
            ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen)

        low, high, rate, first = table_settings()
        self.tables = SplitTableBatchedEmbeddingBagsCodegen(
            [(rows, clicks_data.DIM, EmbeddingLocation.HOST, ComputeDevice.CPU) for rows in clicks_data.rows()],
            optimizer=EmbOptimType.EXACT_ADAGRAD, learning_rate=rate, eps=1e-10)
        self.tables.init_embedding_weights_uniform(low, high)
        for states in self.tables.split_optimizer_states():
            states[0].fill_(first)
        self.optimizers = []

    def forward(self, ids):
        offsets = torch.arange(ids.numel() + 1)
        return self.tables(ids.t().reshape(-1), offsets).view(len(ids), clicks_data.COLUMNS, clicks_data.DIM)


class Dlrm(nn.Module):
    def __init__(self, tables):
        super().__init__()
        self.bottom, self.top = layers(clicks_data.BOTTOM, True), layers(clicks_data.TOP, False)
        self.tables = tables
        self.register_buffer("pairs", torch.tril_indices(clicks_data.COLUMNS + 1, clicks_data.COLUMNS + 1, -1))

    def forward(self, numbers, ids):
        x = self.bottom(numbers)
        vectors = torch.cat([x[:, None], self.tables(ids)], 1)
        products = vectors @ vectors.transpose(1, 2)
        return self.top(torch.cat([x, products[:, self.pairs[0], self.pairs[1]]], 1))[:, 0]


class Training:
    """One process's model and optimizers; `wrap` makes the model that steps use."""

    def __init__(self, tables=Tables, wrap=lambda model: model):
        torch.manual_seed(1)
        self.model = Dlrm(tables())
        dense = [*self.model.bottom.parameters(), *self.model.top.parameters()]
        self.optimizers = [torch.optim.Adam(dense, clicks_data.setting("^optimizer", "learning_rate")),
                           *self.model.tables.optimizers]
        self.first_rates = [(group, group["lr"]) for optimizer in self.optimizers for group in optimizer.param_groups]
        self.wrapped = wrap(self.model)

    def step(self, examples, rate=1.0):
        """Trains on a batch with `rate` times the first learning rates."""
        for group, first in self.first_rates:
            group["lr"] = first * rate
        numbers, ids, clicks = tensors(examples)
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss = F.binary_cross_entropy_with_logits(self.wrapped(numbers, ids), clicks)
        loss.backward()
        for optimizer in self.optimizers:
            optimizer.step()
        return loss.item()


def tensors(examples):
    return (torch.from_numpy(examples["numbers"].copy()), torch.from_numpy(examples["ids"].copy()).long(),
            torch.from_numpy(examples["click"].astype("float32")))


def rate(training, examples, batch, seconds, first=0, stride=1, ended=lambda late: late):
    """Returns the number of steps a second. `ended` says whether all processes stop."""
    steps, at, start = 0, first, 0.0
    while True:
        if steps == WARM_UP:
            start = time.perf_counter()
        begin = at * batch % (len(examples) - batch)
        training.step(examples[begin:begin + batch])
        at, steps = at + stride, steps + 1
        if steps > WARM_UP and steps % 10 == 0 and ended(time.perf_counter() - start > seconds):
            return (steps - WARM_UP) / (time.perf_counter() - start)


def one(path, batch, seconds, threads, tables):
    torch.set_num_threads(threads)
    print(batch * rate(Training(tables), clicks_data.read(path), batch, seconds), flush=True)


def ddp(rank, port, path, batch, seconds):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)

    def ended(late):
        flag = torch.tensor(int(late))
        torch.distributed.broadcast(flag, 0)
        return bool(flag.item())

    steps = rate(Training(wrap=nn.parallel.DistributedDataParallel), clicks_data.read(path), batch, seconds, rank, 2, ended)
    if rank == 0:
        print(2 * batch * steps, flush=True)
    torch.distributed.destroy_process_group()


def accuracy(train, test, batch, threads):
    torch.set_num_threads(threads)
    training, examples = Training(), clicks_data.read(train)
    steps = -(-len(examples) // batch)
    for step in range(steps):
        training.step(examples[step * batch:(step + 1) * batch], 1 - step / steps)
    examples = clicks_data.read(test)
    with torch.no_grad():
        scores = [training.model(*tensors(examples[i:i + 1000])[:2]) for i in range(0, len(examples), 1000)]
    print(clicks_data.auc(torch.cat(scores).numpy(), examples["click"]), flush=True)


if __name__ == "__main__":
    kind, arguments = sys.argv[1], sys.argv[2:]
    if kind in ("rate", "fbgemm"):
        one(arguments[0], int(arguments[1]), float(arguments[2]), int(arguments[3]),
            FbgemmTables if kind == "fbgemm" else Tables)
    elif kind == "auc":
        accuracy(arguments[0], arguments[1], int(arguments[2]), int(arguments[3]))
    else:
        import socket

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        torch.multiprocessing.spawn(ddp, (port, arguments[0], int(arguments[1]), float(arguments[2])), nprocs=2)
