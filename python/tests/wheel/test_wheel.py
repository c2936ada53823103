"""The wheel: what is in it, and that its command and package work together without anything of a clone."""

import email
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import WHEEL, make_environment, run

# The libraries that every Linux with the wheel's tag has (deploy/python/build).
SYSTEM = re.compile(r"(linux-vdso|ld-linux-x86-64|libc|libm|libstdc\+\+|libgcc_s)\.so\.\d+")
DATA = "/usr/share/datasets/fashion-mnist"


def test_the_wheel_has_at_most_30_megabytes_the_types_and_the_licences_of_its_libraries():
    assert WHEEL.stat().st_size <= 30_000_000
    with zipfile.ZipFile(WHEEL) as archive:
        names = archive.namelist()
        info = next(name for name in names if name.endswith(".dist-info/METADATA"))
        folder = info.rsplit("/", 1)[0]
        metadata = email.message_from_bytes(archive.read(info))
        packages = archive.read(f"{folder}/licenses/packages").decode().split("\n")
        assert archive.testzip() is None
    assert {"shoal/py.typed", "shoal/_bin/shoal", "shoal/torch/trainer.py", "shoal/_examples/linear_numpy.py"} <= {
        *names
    }
    assert (metadata["Requires-Python"], metadata.get_all("Requires-Dist")[0]) == (">=3.9", "numpy")
    assert [line for line in packages if re.fullmatch(r"libgrpc29 1\.51\S*", line)]
    for line in filter(None, packages):
        assert f"{folder}/licenses/{line.split()[0]}/copyright" in names


def test_auditwheel_finds_the_tag_of_the_file_name():
    show = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", WHEEL], capture_output=True, text=True, check=True
    )
    tag = re.search(r'consistent with the following platform tag: "(\w+)"', " ".join(show.stdout.split()))[1]
    assert WHEEL.stem.endswith(f"-py3-none-{tag}")


def test_the_same_sources_give_the_same_wheel(environment, tmp_path):
    build = Path(__file__).parents[3] / "deploy/python/build"
    command = [build, f"--binary={build.parents[2] / 'bazel-bin/deploy/shoal'}", f"--out={tmp_path}"]
    subprocess.run(command, check=True)
    assert (tmp_path / WHEEL.name).read_bytes() == WHEEL.read_bytes()


def test_the_program_takes_its_libraries_from_the_wheel_wherever_others_are_offered(environment):
    package = next(environment.glob("lib/python*/site-packages/shoal"))
    listing = run(["ldd", package / "_bin/shoal"], environment, LD_LIBRARY_PATH="/lib/x86_64-linux-gnu")
    lines = [line.split() for line in listing.splitlines()]
    own = [line[2] for line in lines if not SYSTEM.match(os.path.basename(line[0]))]
    assert len(own) > 10
    assert [path for path in own if not os.path.samefile(Path(path).parent, package / "_lib")] == []


def test_the_version_names_the_commit_the_compiler_and_the_libraries(environment):
    text = run([environment / "bin/shoal", "--version"], environment)
    assert re.search(r"built from commit [0-9a-f]{40}(-modified)? with (GCC|Clang)", text)
    assert re.search(r"libraries: oneDNN [\d.]+, gRPC [\d.]+, Protobuf [\d.]+, glibc [\d.]+", text)
    version = run([environment / "bin/python3", "-c", "import shoal; print(shoal.__version__)"], environment)
    assert text.startswith(f"shoal {version}")


def examples(environment, folder):
    run([environment / "bin/python3", "-m", "shoal.examples", "examples"], folder)
    return folder / "examples"


def test_the_example_trains_with_2_ps_and_2_workers(environment, tmp_path):
    program = examples(environment, tmp_path) / "linear_numpy.py"
    tasks = ["--num_ps_tasks=2", "--num_replicas=2", "--out=run"]
    text = run([environment / "bin/shoal", "train", f"--program={program}", *tasks], tmp_path)
    assert "1 chief, 2 ps, 2 workers" in text
    assert json.loads((tmp_path / "run/summary.json").read_text())["test_accuracy"] > 0.9


def test_a_program_started_by_hand_and_a_launched_one_run_with_the_command_of_the_wheel(environment, tmp_path):
    program = examples(environment, tmp_path) / "linear_numpy.py"
    python = environment / "bin/python3"
    assert "test accuracy: 0.9" in run([python, program], tmp_path)
    code = f"import shoal; print(shoal.launch({str(program)!r}, ps=1, workers=2).wait()['test_accuracy'] > 0.9)"
    assert run([python, "-c", code], tmp_path) == "True\n"


def test_run_files_train(environment, tmp_path):
    run_file = examples(environment, tmp_path) / "fashion_mlp.textproto"
    flags = [f"--data_dir={DATA}", "--max_steps=5", "--num_ps_tasks=1", "--num_replicas=1", "--out=run"]
    assert "5 steps" in run([environment / "bin/shoal", "train", f"--run={run_file}", *flags], tmp_path)


def test_a_package_with_another_protocol_than_the_command_is_one_message(environment, tmp_path):
    program = examples(environment, tmp_path) / "linear_numpy.py"
    package = next(environment.glob("lib/python*/site-packages/shoal"))
    other = tmp_path / "other/shoal"
    other.mkdir(parents=True)
    for file in package.glob("*.py"):
        (other / file.name).write_bytes(file.read_bytes())
    protocol = other / "_protocol.py"
    text = re.sub(r"^((?:OLDEST_)?VERSION) = \d+$", r"\1 = 99", protocol.read_text(), flags=re.MULTILINE)
    protocol.write_text(text)
    flags = [f"--program={program}", f"--python={environment}/bin/python3", "--out=run"]
    text = run([package / "_bin/shoal", "train", *flags], tmp_path, code=78, PYTHONPATH=str(other.parent))
    assert "has versions 99 to 99 of the protocol of compute programs, and this shoal has versions 1 to" in text
    assert text.count("\n") == 1


def test_without_numpy_the_program_ends_with_one_message(tmp_path):
    environment = make_environment(tmp_path / "venv", sys.executable)
    (tmp_path / "train.py").write_text("import shoal\nworker = shoal.Worker()\n")
    text = run([environment / "bin/shoal", "train", "--program=train.py", "--out=run"], tmp_path, code=78)
    assert f"shoal.Worker needs NumPy: {environment}/bin/python3 -m pip install numpy" in text


# "INTERPRETER FOLDER": NumPy for the interpreter is in the folder.
OTHERS = [line.split() for line in os.environ.get("SHOAL_PYTHONS", "").splitlines()]


@pytest.mark.parametrize(("interpreter", "numpy"), OTHERS)
def test_other_versions_of_python_train(interpreter, numpy, tmp_path):
    environment = make_environment(tmp_path / "venv", interpreter, numpy)
    program = examples(environment, tmp_path) / "linear_numpy.py"
    program.write_text(program.read_text() + "\nimport sys\nprint(sys.version)\n")
    flags = ["--num_ps_tasks=1", "--num_replicas=2", "--num_epochs=1", "--out=run"]
    run([environment / "bin/shoal", "train", f"--program={program}", *flags], tmp_path)
    log = (tmp_path / "run/logs/program-0.out").read_text()
    assert run([interpreter, "-c", "import sys; print(sys.version)"], tmp_path) in log
