"""Reads what a program takes from its run file and from its machine."""

from __future__ import annotations

import os
import re
from typing import Any

import torch


def computation_of(device: Any) -> str:
    """Names what the bytes of results depend on: equal programs on other processors round in other places."""
    is_gpu = device.type == "cuda"
    processor = torch.cuda.get_device_name(device) if is_gpu else torch.backends.cpu.get_cpu_capability()
    return f"torch {torch.__version__} {device.type} {processor} threads {torch.get_num_threads()}"


def set_threads(run_file: str) -> None:
    """Sets the compute threads to the run's (--threads), so that workers share a machine and have the same bytes."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(number_in(run_file, "threads") or 1)


def number_in(run_file: str, field: str) -> int:
    """Returns a number of a run file, 0 if it is not there."""
    found = re.search(rf"^\s*{field}:\s*(\d+)", run_file, re.MULTILINE)
    return int(found.group(1)) if found else 0
