"""The wheel in a root with libc, /bin/sh, Python, its libraries, NumPy, and nothing else. Needs namespaces."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from conftest import make_environment

LEFT_OUT = ("test", "tests", "idlelib", "ensurepip", "tkinter", "lib2to3", "site-packages", "__pycache__", "config-*")


def libraries_of(files):
    """Returns the paths of what the loader loads for the files."""
    listing = subprocess.run(["ldd", *files], capture_output=True, text=True, check=False).stdout
    return {Path(path) for path in re.findall(r"(?:=> |^\s+)(/\S+) \(0x", listing, re.MULTILINE)}


def copy(path, root):
    target = root / str(path).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, target)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Returns (root, environment): the environment's path is the same inside and outside the root."""
    folder = tmp_path_factory.mktemp("bare")
    environment = make_environment(folder / "venv", sys.executable)
    own = next(environment.glob("lib/python*/site-packages"))
    for name in ("numpy", "numpy.libs"):
        shutil.copytree(Path(np.__file__).parents[1] / name, own / name, ignore=shutil.ignore_patterns("tests"))
    root = folder / "root"
    (root / "proc").mkdir(parents=True)
    (root / "dev").mkdir()
    (root / "tmp").mkdir()

    interpreter = Path((environment / "bin/python3").resolve())
    base = Path(sys._base_executable)
    stdlib = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(stdlib, root / str(stdlib).lstrip("/"), ignore=shutil.ignore_patterns(*LEFT_OUT))
    copy(interpreter, root)
    # The environment's python3 is a link to this name, and Python looks for its library beside it.
    for name in {base, *(base.parent / name for name in ("python3", interpreter.name))} - {interpreter}:
        copy(interpreter, root) if name == interpreter else shutil.copy2(interpreter, root / str(name).lstrip("/"))
    for pip in own.glob("pip*"):
        shutil.rmtree(pip)
    shutil.copytree(environment, root / str(environment).lstrip("/"), symlinks=True)
    modules = [*(stdlib / "lib-dynload").glob("*.so"), *own.glob("numpy/**/*.so"), *own.glob("numpy.libs/*.so*")]
    copy(Path("/bin/sh"), root)  # The guard of a compute program (docs/compute_program.md).
    for library in libraries_of([interpreter, "/bin/sh", *modules]):
        if not library.is_relative_to(own):
            copy(library, root)
    return root, environment


def run_inside(root, *line):
    """Runs a command in the root, with its own list of processes and the devices of this machine."""
    inside = " && ".join(
        [f"mount --rbind /dev {root}/dev", f"mount -t proc proc {root}/proc", f'exec chroot {root} "$@"']
    )
    unshare = ["unshare", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inside, "sh"]
    environment = {"PATH": os.environ["PATH"], "HOME": "/tmp", "NO_COLOR": "1"}
    done = subprocess.run(
        [*unshare, *map(str, line)], capture_output=True, text=True, check=False, env=environment, cwd="/"
    )
    assert done.returncode == 0, f"{line}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def test_the_root_has_nothing_that_the_wheel_should_bring(bare):
    root, environment = bare
    inside = str(environment).lstrip("/")
    names = {path.name for path in root.rglob("*.so*") if not path.is_relative_to(root / inside)}
    assert "libc.so.6" in names
    assert [
        name for name in names if re.match("lib(grpc|absl|proto|dnnl|re2|tcmalloc|prometheus|isal|jpeg)", name)
    ] == []
    assert not (root / "usr/bin/env").exists()


def test_every_library_is_found_in_the_wheel_or_is_one_of_the_system(bare):
    root, environment = bare
    package = next(environment.glob("lib/python*/site-packages/shoal"))
    listing = run_inside(root, "/lib64/ld-linux-x86-64.so.2", "--list", package / "_bin/shoal")
    outside = [line.split()[0] for line in listing.splitlines() if str(package / "_bin/../_lib") not in line]
    system = r"(linux-vdso|.*/ld-linux-x86-64|libc|libm|libstdc\+\+|libgcc_s)\.so\.\d+"
    assert [name for name in outside if not re.fullmatch(system, name)] == []
    assert len(listing.splitlines()) > 20


def test_the_example_trains_there_with_2_ps_and_2_workers(bare):
    root, environment = bare
    run_inside(root, environment / "bin/python3", "-m", "shoal.examples", "/tmp/examples")
    line = [
        "train",
        "--program=/tmp/examples/linear_numpy.py",
        "--num_ps_tasks=2",
        "--num_replicas=2",
        "--out=/tmp/run",
    ]
    text = run_inside(root, environment / "bin/python3", environment / "bin/shoal", *line)
    assert "1 chief, 2 ps, 2 workers" in text
    assert "test accuracy: 0.9" in text
