"""The wheel in one environment with PyTorch, TensorFlow and grpcio, the folders of which are in $SHOAL_BESIDE."""

import os
import sys

import pytest
from conftest import make_environment, run

MODULES = ("torch", "tensorflow", "grpc", "shoal.torch")


@pytest.fixture(scope="module")
def beside(tmp_path_factory):
    return make_environment(
        tmp_path_factory.mktemp("beside") / "venv", sys.executable, *os.environ["SHOAL_BESIDE"].split(":")
    )


@pytest.mark.parametrize("order", [MODULES, MODULES[::-1]], ids="-".join)
def test_one_process_imports_all_of_them_and_computes_with_each(beside, tmp_path, order):
    code = "; ".join(
        [
            *(f"import {name}" for name in order),
            "assert float(torch.ones(2, 2).mm(torch.ones(2, 2)).sum()) == 8",
            "ones = tensorflow.ones((2, 2))",
            "assert float(tensorflow.reduce_sum(tensorflow.matmul(ones, ones))) == 8",
            "grpc.insecure_channel('localhost:1').close()",
            "print(shoal.torch.Trainer.__name__)",
        ]
    )
    assert "Trainer\n" in run([beside / "bin/python3", "-c", code], tmp_path)


def test_a_program_that_has_imported_all_of_them_trains(beside, tmp_path):
    run([beside / "bin/python3", "-m", "shoal.examples", "examples"], tmp_path)
    program = tmp_path / "examples/fashion_mnist.py"
    program.write_text(program.read_text().replace("import torch\n", "import grpc, tensorflow, torch\n", 1))
    flags = ["--num_ps_tasks=2", "--num_replicas=2", "--max_steps=60", "--out=run"]
    text = run([beside / "bin/shoal", "train", f"--program={program}", *flags], tmp_path)
    accuracy = float(text.split("test accuracy: ")[1].split()[0])
    assert accuracy > 0.5
