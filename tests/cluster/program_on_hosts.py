"""A compute program for the tests of clusters: the small program of docs/compute_program.md, which needs only Python's
standard library, with settings of its own. It prints what it was started with into logs/program-K.out."""
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Arguments that each way to the program could damage.
ARGUMENTS = ["--name=a b", "it's \"quoted\"", "$HOME; \\ *", ""]
# Not the defaults of a run file.
SETTINGS = "batch_size: 20 num_epochs: 2 optimizer { adam {} learning_rate: 0.05 }"
PRELUDE = """import json, os, sys, time
print("started " + json.dumps({"arguments": sys.argv[1:], "gpus": os.environ.get("CUDA_VISIBLE_DEVICES")}), flush=True)
"""


def write(path, more="", pause=0):
    """Writes the program. `more` is Python code before its first line. It sleeps `pause` seconds in each batch, so that
    a test can kill its worker before the end of the run."""
    text = (ROOT / "docs/compute_program.md").read_text()
    lines = text[text.index("## A small program"):].splitlines()
    code = "\n".join(line[4:] for line in lines if line.startswith("    ") or not line)
    assert "batch_size: 10" in code, "docs/compute_program.md has another program now"
    trains = "    if kind == 19:\n"
    assert code.count(trains) == 1, "docs/compute_program.md has another program now"
    code = code.replace(trains, f"{trains}        time.sleep({pause})\n")
    path.write_text(more + PRELUDE + code.replace("batch_size: 10", SETTINGS) + "\n")
    return path


def starts(out):
    """Returns what each program of the run in `out` was started with, by the index of its worker."""
    found = {}
    for log in sorted((out / "logs").glob("program-*.out")):
        lines = [line for line in log.read_text().splitlines() if line.startswith("started ")]
        found[int(log.stem.split("-")[1])] = json.loads(lines[-1].removeprefix("started "))
    return found


def check_trained(out, workers, arguments=ARGUMENTS):
    """Expects that the run was finished with the program's settings, and that each program got its arguments."""
    text = (out / "run.textproto").read_text()
    for setting in ("batch_size: 20", "num_epochs: 2", "learning_rate: 0.05", "adam {"):
        assert setting in text, f"{setting} is not in\n{text}"
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "finished", summary
    found = starts(out)
    assert sorted(found) == list(range(workers)), found
    for worker, start in found.items():
        assert start["arguments"] == list(arguments), f"worker {worker}: {start}"
    return found
