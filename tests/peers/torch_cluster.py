"""Two processes train one PyTorch model: with PyTorch's DistributedDataParallel over Gloo, or as a program of Shoal.

usage: torch_cluster.py ddp MODEL BATCH STEPS      prints the examples per second of both processes together
       torch_cluster.py alone MODEL BATCH STEPS    the same, but both only compute gradients: no exchange, no update
       shoal train --program=torch_cluster.py --num_ps_tasks=1 --num_replicas=2 -- shoal MODEL BATCH STEPS
MODEL: seed_mlp, resnet18 or transformer. BATCH is that of one process; each has one thread. Both take their batches from
the same tensors by the indices of shuffled examples, and both read every batch's loss.
"""
import pathlib
import runpy
import sys
import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

EXAMPLES = 64000  # As in deploy/runs/benchmark_mlp.textproto: an epoch, which ends with a checkpoint, has 16 steps or more.
WARM_UP = 10


def parts(model):
    """Returns the network, its data and its loss."""
    torch.manual_seed(1)
    if model == "seed_mlp":
        sizes = [600, 512, 128, 128, 1]
        layers = [layer for i in range(4) for layer in (nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU())]
        return nn.Sequential(*layers[:-1]), TensorDataset(torch.rand(EXAMPLES, 600), torch.rand(EXAMPLES, 1)), nn.MSELoss()
    if model == "resnet18":
        import torch_models

        network, size = torch_models.MODELS[model]
        data = TensorDataset(torch.rand(EXAMPLES // 32, 3, size, size), torch.randint(0, 10, (EXAMPLES // 32,)))
        return network(10), data, nn.CrossEntropyLoss()
    example = runpy.run_path(str(pathlib.Path(__file__).parents[2] / "python/examples/char_transformer.py"))
    loss = nn.CrossEntropyLoss()
    return (example["Transformer"](), example["windows"](example["TEXT"]),
            lambda logits, following: loss(logits.flatten(0, 1), following.flatten()))


def train(rank, port, kind, model, batch, steps):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    network, data, loss_of = parts(model)
    if kind == "ddp":
        network = nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-4)
    order = torch.Generator().manual_seed(rank)
    for step in range(WARM_UP + steps):
        if step == WARM_UP:
            torch.distributed.barrier()
            start = time.perf_counter()
        rows = torch.randint(0, len(data), (batch,), generator=order)
        inputs, targets = data[rows]
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(network(inputs), targets)
        loss.backward()
        if kind == "ddp":
            optimizer.step()
        loss.item()
    torch.distributed.barrier()
    if rank == 0:
        print(2 * batch * steps / (time.perf_counter() - start), flush=True)
    torch.distributed.destroy_process_group()


def on_shoal(model, batch, steps):
    import shoal
    import shoal.torch

    worker = shoal.Worker()
    network, data, loss_of = parts(model)
    trainer = shoal.torch.Trainer(worker, network, shoal.SGD(1e-4))
    for inputs, targets in trainer.batches(data, batch_size=batch, max_steps=steps):
        trainer.step(loss_of(network(inputs), targets))


if __name__ == "__main__":
    kind, model, batch, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    if kind == "shoal":
        on_shoal(model, batch, steps)
    else:
        import socket

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        torch.multiprocessing.spawn(train, (port, kind, model, batch, steps), nprocs=2)
