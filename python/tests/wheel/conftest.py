"""Environments with the wheel of $SHOAL_WHEEL, which `deploy/python/test` builds."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

WHEEL = Path(os.environ["SHOAL_WHEEL"])


def make_environment(folder, interpreter, *site_packages):
    """Makes a virtual environment with the wheel beside the packages of other folders, and returns it."""
    subprocess.run([interpreter, "-m", "venv", folder], check=True)
    # Nothing is fetched: NumPy, which the wheel needs, is in one of the folders.
    install = [folder / "bin/python3", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", WHEEL]
    subprocess.run(install, check=True)
    own = next((folder / "lib").glob("python*/site-packages"))
    (own / "beside.pth").write_text("".join(f"{path}\n" for path in site_packages))
    return folder


def run(line, folder, code=0, **variables):
    """Runs a command as a user does who has only the wheel, and returns its output."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "NO_COLOR": "1", **variables}
    done = subprocess.run(
        [str(word) for word in line], capture_output=True, text=True, check=False, cwd=folder, env=environment
    )
    assert done.returncode == code, f"{line}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """A virtual environment with the wheel and this environment's NumPy."""
    return make_environment(tmp_path_factory.mktemp("wheel") / "venv", sys.executable, Path(np.__file__).parents[1])
