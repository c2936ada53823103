"""A program that was started by hand, as `python train.py`, becomes a run or says what to do instead."""

import subprocess
import sys
from pathlib import Path

import pytest

import shoal

PACKAGE = Path(shoal.__file__).parents[1]


def by_hand(tmp_path, code, **environment):
    path = tmp_path / "train.py"
    path.write_text(code)
    line = [sys.executable, str(path), "--size=3"]
    environment = {"PYTHONPATH": str(PACKAGE), "PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_a_program_started_by_hand_becomes_a_run_in_one_process(tmp_path):
    command = tmp_path / "shoal"
    command.write_text('#!/bin/sh\nfor a in "$@"; do echo "$a"; done\n')
    command.chmod(0o755)
    done = by_hand(tmp_path, "import shoal\nshoal.Worker()", SHOAL=str(command))
    start = ["train", "--num_ps_tasks=0"]
    file = [f"--program={tmp_path / 'train.py'}", f"--python={sys.executable}", "--", "--size=3"]
    assert done.stdout.splitlines() == start + file
    code = "import os, shoal\nos.chdir('/')\nshoal.Worker()"
    (tmp_path / "train.py").write_text(code)
    line = [sys.executable, "train.py", "--size=3"]  # The program leaves the folder to which this name belongs.
    environment = {"PYTHONPATH": str(PACKAGE), "SHOAL": str(command)}
    done = subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.splitlines() == start + file
    (tmp_path / "train.py").write_text("import shoal\nshoal.Worker()")
    line = [sys.executable, "-m", "train", "--size=3"]
    environment = {"PYTHONPATH": f"{PACKAGE}:{tmp_path}", "SHOAL": str(command)}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.splitlines() == [*start, f"--program={sys.executable}", "--", "-m", "train", "--size=3"]


@pytest.mark.parametrize(
    ("variables", "command"),
    [
        ({"RANK": "1", "WORLD_SIZE": "3"}, "torchrun --no-python --nproc-per-node=3 -- shoal task"),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "3"}, "mpirun -n 3 --bind-to none shoal task"),
        ({"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "3"}, "srun --ntasks=3 shoal task"),
    ],
)
def test_the_error_in_a_launcher_of_many_processes_says_to_start_tasks(variables, command, tmp_path):
    done = by_hand(tmp_path, "import shoal\nshoal.Worker()", SHOAL="/bin/true", **variables)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "has started 3 processes of this program" in last
    file = f"--program={tmp_path / 'train.py'} --python={sys.executable} -- --size=3"
    assert last.endswith(f"{command} --out=DIR --num_ps_tasks=1 {file}")
    one = {name: "1" if name.endswith(("SIZE", "TASKS")) else "0" for name in variables}
    assert by_hand(tmp_path, "import shoal\nshoal.Worker()", SHOAL="/bin/true", **one).returncode == 0


def test_without_the_command_a_program_started_by_hand_names_the_remedy(tmp_path):
    done = by_hand(tmp_path, "import shoal\nshoal.Worker()")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "shoal.errors.CommandError: the command `shoal` was not found: install the wheel, put shoal into PATH, or set "
        "SHOAL to its path"
    )
    done = by_hand(tmp_path, "import shoal\nshoal.Worker()", SHOAL="/nowhere/shoal")
    assert "SHOAL is /nowhere/shoal, which is not a program" in done.stderr


def test_a_program_that_starts_itself_again_does_not_loop(tmp_path):
    done = by_hand(tmp_path, "import shoal\nshoal.Worker()", SHOAL="/bin/true", SHOAL_STARTED_BY_HAND="1")
    assert "without a socket" in done.stderr


def test_a_notebook_is_sent_to_launch():
    code = "import shoal\nshoal.Worker()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=PACKAGE)
    assert "in a notebook use shoal.launch(" in done.stderr


def test_a_program_that_a_notebook_runs_does_not_replace_the_kernel(tmp_path):
    code = "import sys, types\npython = sys.modules['IPython'] = types.ModuleType('IPython')\n"
    worker = "import shoal\nshoal.Worker()"
    done = by_hand(tmp_path, code + "python.get_ipython = object\n" + worker, SHOAL="/bin/true")
    assert done.returncode == 1
    assert "train.py:5: shoal.Worker() needs a program in a file; in a notebook use shoal.launch(" in done.stderr
    done = by_hand(tmp_path, code + "python.get_ipython = lambda: None\n" + worker, SHOAL="/bin/true")
    assert done.returncode == 0, done.stderr


def test_a_process_that_imports_a_program_begins_no_run(tmp_path):
    code = (
        "import multiprocessing, shoal\n"
        "if __name__ != '__main__': shoal.Worker()\n"
        "process = multiprocessing.get_context('spawn').Process(target=print)\n"
        "process.start()\n"
        "process.join()\n"
        "print(process.exitcode)\n"
    )
    done = by_hand(tmp_path, code, SHOAL="/bin/echo")
    assert done.stdout == "78\n"
    assert "has imported the program and runs it: put what the program does under if" in done.stderr
