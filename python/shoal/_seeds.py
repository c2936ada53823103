"""The random numbers of a program that seeds nothing itself: they follow from the run's seed (--seed)."""

from __future__ import annotations

import hashlib
import random
import struct
import sys
from typing import Any, Optional

import numpy as np

_run_seed: Optional[int] = None  # Of the run that this process belongs to.


def seed_program(run_seed: int) -> None:
    """Before the variables are declared: all programs of a run start alike, so whichever gives the initial values, they
    are the same."""
    global _run_seed
    _run_seed = run_seed
    _seed_all(run_seed, sys.modules.get("torch"))


def seed_worker(run_seed: int, index: int) -> None:
    """After the declaration: each worker has random numbers of its own."""
    data = struct.pack("<QQ", run_seed, index)
    seed = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
    _seed_all(seed, sys.modules.get("torch"))


def seed_torch(torch: Any) -> None:
    """Seeds PyTorch if it was imported after shoal.Worker() was made."""
    if _run_seed is not None:
        torch.manual_seed(_run_seed % (1 << 63))


def _seed_all(seed: int, torch: Any) -> None:
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    if torch is not None and hasattr(torch, "manual_seed"):
        torch.manual_seed(seed % (1 << 63))  # Seeds all devices, also those not in use yet.
