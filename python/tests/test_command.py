"""The command `shoal` of the wheel, where the package finds it, and what `import shoal` costs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import shoal
from shoal import _command, _process, examples
from shoal.errors import CommandError

PACKAGE = Path(shoal.__file__).parents[1]
PYTHON = f"--python={sys.executable}"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], []),
        (["--version"], ["--version"]),
        (["train", "--run=a.textproto"], ["train", "--run=a.textproto"]),
        (["train", "--program=a.py"], ["train", "--program=a.py", PYTHON]),
        (["task", "-program", "a.py", "--out=x"], ["task", "-program", "a.py", "--out=x", PYTHON]),
        (["train", "--program=a.py", "--", "-x"], ["train", "--program=a.py", PYTHON, "--", "-x"]),
        (["train", "--program=a.py", "--python=p"], ["train", "--program=a.py", "--python=p"]),
        (["train", "--program=a.py", "--python", "p"], ["train", "--program=a.py", "--python", "p"]),
        (["train", "--program=a.py", "--", "--python=p"], ["train", "--program=a.py", PYTHON, "--", "--python=p"]),
        (["train", "--program=./a.out"], ["train", "--program=./a.out"]),
        (["train", "--", "--program=a.py"], ["train", "--", "--program=a.py"]),
        (["train", "--program"], ["train", "--program"]),
    ],
)
def test_programs_run_with_the_interpreter_of_the_command(arguments, expected):
    assert _command.with_interpreter(arguments) == expected


@pytest.fixture
def installed(tmp_path):
    """A package as the wheel has it; its program is a shell script. Returns the program's path."""
    (tmp_path / "shoal/_bin").mkdir(parents=True)
    for file in (PACKAGE / "shoal").glob("*.py"):
        (tmp_path / "shoal" / file.name).write_bytes(file.read_bytes())
    program = tmp_path / "shoal/_bin/shoal"
    program.write_text('#!/bin/sh\necho "$@"\nexit 7\n')
    program.chmod(0o755)
    return program


def run_command(folder, *arguments):
    code = "import sys; sys.argv[0] = 'shoal'; from shoal import _command; _command.main()"
    line = [sys.executable, "-c", code, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(folder), "SHOAL": "/nowhere"}
    return subprocess.run(line, capture_output=True, text=True, check=False, env=environment, cwd=folder)


def test_the_command_becomes_the_program_of_the_wheel(installed, tmp_path):
    done = run_command(tmp_path, "train", "--program=a.py")
    assert (done.stdout.strip(), done.returncode) == (f"train --program=a.py {PYTHON}", 7)


def test_a_program_that_may_not_be_executed_is_named(installed, tmp_path):
    installed.chmod(0o644)
    done = run_command(tmp_path, "--version")
    text = f"shoal: {installed} may not be executed; install the wheel with pip, which sets its mode\n"
    assert (done.stderr, done.returncode) == (text, 78)


def test_a_program_that_the_system_cannot_execute_is_one_line(installed, tmp_path):
    installed.write_bytes(b"\x7fELF that is none")
    done = run_command(tmp_path, "--version")
    assert done.returncode == 78
    assert done.stderr.startswith("shoal: ") and "Exec format error" in done.stderr and done.stderr.count("\n") == 1


def test_a_package_without_a_program_is_named():
    done = run_command(PACKAGE, "--version")
    assert done.stderr == "shoal: this package has no program; it was not installed from a wheel\n"
    assert done.returncode == 78


class System:
    sysname = "Linux"
    machine = "x86_64"


@pytest.mark.parametrize(
    ("sysname", "machine", "library", "text"),
    [
        ("Linux", "x86_64", "glibc 2.36", ""),
        ("Linux", "x86_64", "glibc 2.35", ""),
        ("Linux", "x86_64", "glibc 2.31", "needs glibc 2.35 or later, and this system has glibc 2.31"),
        ("Linux", "x86_64", None, "needs glibc 2.35 or later, and this system has none"),
        ("Linux", "aarch64", "glibc 2.36", "is for Linux on x86_64, and this is Linux on aarch64"),
        ("Darwin", "arm64", None, "is for Linux on x86_64, and this is Darwin on arm64"),
    ],
)
def test_a_platform_that_the_wheel_is_not_for_is_named(monkeypatch, tmp_path, sysname, machine, library, text):
    def confstr(name):
        if library is None:
            raise ValueError(name)
        return library

    system = System()
    system.sysname, system.machine = sysname, machine
    monkeypatch.setattr(os, "uname", lambda: system)
    monkeypatch.setattr(os, "confstr", confstr)
    monkeypatch.delenv("SHOAL", raising=False)
    program = tmp_path / "_bin/shoal"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setattr(_process, "__file__", str(tmp_path / "_process.py"))
    if text:
        with pytest.raises(CommandError, match=text + "; build shoal from its sources and set SHOAL to its path"):
            _process.find_command()
    else:
        assert _process.find_command() == str(program)


def test_importing_shoal_loads_neither_numpy_nor_what_else_takes_long():
    code = (
        "import sys; before = set(sys.modules); import shoal; new = set(sys.modules) - before;"
        "print(*sorted(new - {'importlib', 'warnings', '__future__', 'importlib._bootstrap',"
        "'importlib._bootstrap_external', '_warnings', 'types'}))"
    )
    # -I -S: without the modules that a virtual environment's .pth files import.
    line = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(PACKAGE)!r}); {code}"]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["shoal", "shoal._version"]


def test_every_public_name_is_there():
    for name in shoal.__all__:
        assert getattr(shoal, name) is not None, name
        assert name in dir(shoal)
    assert shoal.errors.ProgramError is shoal.ProgramError
    with pytest.raises(AttributeError, match="has no attribute 'Wroker'"):
        _ = shoal.Wroker


def test_missing_numpy_is_one_message_with_the_remedy():
    code = f"import sys; sys.path.insert(0, {str(PACKAGE)!r}); import shoal; shoal.Worker"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: shoal.Worker needs NumPy: {sys.executable} -m pip install numpy"
    )


def test_examples_are_those_of_the_wheel(tmp_path, monkeypatch, capsys):
    with pytest.raises(FileNotFoundError, match="only the wheel has examples"):
        examples.write_examples(str(tmp_path / "none"))
    package = tmp_path / "package"
    (package / "_examples/__pycache__").mkdir(parents=True)
    (package / "_examples/a.py").write_text("a")
    (package / "_examples/b.textproto").write_text("b")
    monkeypatch.setattr(examples, "__file__", str(package / "examples.py"))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.py").write_text("mine")
    monkeypatch.setattr(sys, "argv", ["examples", str(folder)])
    examples.main()
    assert capsys.readouterr().out.split() == [str(folder / "a.py"), str(folder / "b.textproto")]
    assert [(folder / name).read_text() for name in ("a.py", "b.textproto")] == ["mine", "b"]
    monkeypatch.setattr(sys, "argv", ["examples", "--help"])
    with pytest.raises(SystemExit, match="usage"):
        examples.main()


def test_examples_are_listed_with_what_they_are(tmp_path, monkeypatch, capsys):
    package = tmp_path / "package"
    (package / "_examples").mkdir(parents=True)
    (package / "_examples/a.py").write_text('"""A network in JAX, 40 lines: shoal train"""\nimport jax\n')
    (package / "_examples/long.textproto").write_text("# Images with a\n# network. Fast.\nname: 'long'\n# no\n")
    monkeypatch.setattr(examples, "__file__", str(package / "examples.py"))
    monkeypatch.setattr(sys, "argv", ["examples"])
    examples.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["a.py            A network in JAX, 40 lines", "long.textproto  Images with a network"]
    assert lines[-1] == "python3 -m shoal.examples DIR copies them into DIR"
