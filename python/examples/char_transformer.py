"""A character language model in PyTorch: a small transformer learns the prose of Python's own documentation.

shoal train --program=python/examples/char_transformer.py --num_ps_tasks=2 --num_replicas=2 --out=/tmp/text
python python/examples/char_transformer.py --sample=/tmp/text       # writes text with the model of that run

The text comes with Python (pydoc_data, what `help("if")` shows), so nothing is downloaded.
"""

import argparse
from pydoc_data.topics import topics

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

import shoal
import shoal.torch

TEXT = "\n\n".join(topics[name] for name in sorted(topics))
CHARACTERS = sorted(set(TEXT))
LENGTH = 64  # Characters that the model sees.


def encode(text: str) -> torch.Tensor:
    numbers = {character: number for number, character in enumerate(CHARACTERS)}
    return torch.tensor([numbers[character] for character in text])


def windows(text: str) -> TensorDataset:
    """Pieces of the text, and the same pieces moved by one character: what the model must predict."""
    data = encode(text)
    count = (len(data) - 1) // LENGTH
    return TensorDataset(data[: count * LENGTH].view(count, LENGTH), data[1 : count * LENGTH + 1].view(count, LENGTH))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.queries_keys_values(self.before_attention(x)).view(batch, length, 3, self.heads, -1)
        mixed = F.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4), is_causal=True)
        x = x + self.merge(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.before_mlp(x))


class Transformer(nn.Module):
    def __init__(self, width: int = 96, heads: int = 4, depth: int = 2) -> None:
        super().__init__()
        self.characters = nn.Embedding(len(CHARACTERS), width)
        self.positions = nn.Parameter(0.1 * torch.randn(LENGTH, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.output = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, len(CHARACTERS)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.output(self.blocks(self.characters(x) + self.positions[: x.shape[1]]))


@torch.no_grad()
def sample(model: nn.Module, start: str, length: int) -> str:
    """Continues a text, one character after the other."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    text = start
    for _ in range(length):
        logits = model(encode(text[-LENGTH:])[None])[0, -1]
        text += CHARACTERS[int(torch.multinomial((logits / 0.5).softmax(0), 1))]
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a character language model.")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--sample", metavar="RUN", help="trains nothing; writes text with the model of this run")
    args = parser.parse_args()

    if args.sample:
        model = Transformer()
        shoal.torch.load(args.sample, model)
        print(sample(model, "The statement", 300))
        return

    worker = shoal.Worker()
    torch.manual_seed(worker.seed)
    model = Transformer()
    split = len(TEXT) * 9 // 10
    optimizer = shoal.AdamW(3e-3, schedule=shoal.Cosine(warmup_steps=20), clip_by_global_norm=1.0)
    trainer = shoal.torch.Trainer(worker, model, optimizer)
    batches = trainer.batches(windows(TEXT[:split]), 32, max_steps=args.steps, test=windows(TEXT[split:]))
    for characters, following in batches:
        logits = model(characters)
        loss = F.cross_entropy(logits.flatten(0, 1), following.flatten())
        trainer.step(loss, accuracy=(logits.argmax(2) == following).float().mean(1))


if __name__ == "__main__":
    main()
