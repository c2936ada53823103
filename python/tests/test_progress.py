"""The display of a launched run while it trains: in a notebook, with and without ipywidgets, and on standard error."""

import json
import os
import signal
import subprocess
import sys
import time
import types

import pytest

import shoal
from shoal import _launched

# A command that reports two steps and waits for a file before it ends.
COMMAND = """\
#!{python}
import json, os, sys, time
out = next(a[6:] for a in sys.argv if a.startswith("--out="))
print("epoch 1/1, step 1/8: loss=0.5, acc=0.5", flush=True)
with open(os.path.join(out, "metrics.jsonl"), "w") as file:
    for step in (1, 2):
        row = {{"step": step, "epoch": 0, "loss": 0.5, "f1": 0.25, "examples": 9, "examples_per_second": 30.2}}
        file.write(json.dumps(row) + "\\n")
while not os.path.exists(os.path.join(out, "go")):
    time.sleep(0.01)
with open(os.path.join(out, "summary.json"), "w") as file:
    json.dump({{"status": "finished", "steps": 8, "test_loss": 0.125, "test_accuracy": None}}, file)
"""
TEXT = "step 2/8, 30 examples/s, loss=0.5000, f1=0.2500"
END = "finished: step 8, test loss 0.1250"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    command = tmp_path / "shoal"
    command.write_text(COMMAND.format(python=sys.executable))
    command.chmod(0o755)
    monkeypatch.setenv("SHOAL", str(command))
    (tmp_path / "train.py").write_text("pass")
    return tmp_path


def show(folder, has_shown, **options):
    """Starts a run, lets it end when `has_shown` says that its second step is seen, and returns it."""
    run = shoal.launch(str(folder / "train.py"), out=str(folder), **options)
    end = time.monotonic() + 60
    while not has_shown():
        assert time.monotonic() < end
        time.sleep(0.01)
    (folder / "go").write_text("")
    run.wait(60)
    return run


class Cells:
    """Stands for the part of IPython that shows outputs of cells."""

    def __init__(self, monkeypatch):
        self.shown = []
        python = types.ModuleType("IPython")
        python.get_ipython = lambda: types.SimpleNamespace(kernel=object())
        display = types.ModuleType("IPython.display")
        display.display = self.display
        monkeypatch.setitem(sys.modules, "IPython", python)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def display(self, value, **options):
        self.shown.append(value)
        return self

    def update(self, value, raw):
        assert raw
        self.shown.append(value)


def test_a_cell_shows_the_run_as_text_without_ipywidgets(folder, monkeypatch):
    cells = Cells(monkeypatch)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    show(folder, lambda: any(TEXT in value["text/plain"] for value in cells.shown))
    assert {"text/plain": f"[#######{' ' * 23}]  25% {TEXT}"} in cells.shown
    assert cells.shown[-1] == {"text/plain": f"[{'#' * 30}] 100% {END}"}


def test_a_cell_shows_the_run_as_a_widget(folder, monkeypatch):
    cells = Cells(monkeypatch)
    widgets = types.ModuleType("ipywidgets")
    widgets.FloatProgress = widgets.Label = lambda **values: types.SimpleNamespace(**values)
    widgets.HBox = lambda children: children
    monkeypatch.setitem(sys.modules, "ipywidgets", widgets)
    seen = []

    def has_shown():
        if cells.shown:
            bar, label = cells.shown[0]
            seen.append((bar.value, getattr(label, "value", "")))
        return (0.25, TEXT) in seen

    show(folder, has_shown)
    bar, label = cells.shown[0]
    assert (bar.value, bar.bar_style, label.value) == (1.0, "success", END)


def test_lines_on_standard_error_show_the_run_where_they_are_asked_for(folder, capfd):
    texts = []

    def has_shown():
        texts.append(capfd.readouterr().err)
        return TEXT in "".join(texts)

    show(folder, has_shown, progress=True)
    assert capfd.readouterr().err == f"[{'#' * 30}] 100% {END}\n"


def test_nothing_is_shown_outside_a_notebook(folder, capfd):
    show(folder, lambda: True)
    assert capfd.readouterr() == ("", "")


def test_the_lines_of_an_earlier_run_in_the_directory_do_not_count(tmp_path):
    log = tmp_path / "launch.log"
    log.write_text("epoch 1/1, step 7/8: loss=0.5\n")
    begin = log.stat().st_size
    assert _launched.progress_of(str(tmp_path), begin) == (0.0, "the run starts")
    with open(log, "a") as file:
        file.write("waiting for worker/0\nwaiting for wor")
    assert _launched.progress_of(str(tmp_path), begin) == (0.0, "waiting for worker/0")
    assert _launched.progress_of(str(tmp_path)) == (7 / 8, "step 7/8")


def test_only_the_end_of_a_long_file_is_read(tmp_path):
    rows = [json.dumps({"step": step, "loss": 1.0}) + "\n" for step in range(1, 2001)]
    (tmp_path / "metrics.jsonl").write_text("".join(rows) + '{"step": 2001, ')
    (tmp_path / "launch.log").write_text("step 1/4000: loss=1\n")
    assert _launched.progress_of(str(tmp_path)) == (0.5, "step 2000/4000, loss=1.0000")


def test_the_end_of_a_run_that_fails_names_the_log(tmp_path):
    text = f"failed with exit code 78: see {tmp_path}/launch.log"
    assert _launched.result_of(str(tmp_path), 0, 78) == (0.0, text)
    (tmp_path / "summary.json").write_text('{"status": "stopped", "steps": 5, "test_loss": null}')
    assert _launched.result_of(str(tmp_path), 0, 143) == (0.0, "stopped: step 5")
    (tmp_path / "summary.json").write_text('{"status": "stopped", "steps": 5, "test_step": 4, "test_loss": 0.5}')
    assert _launched.result_of(str(tmp_path), 0, 143) == (0.0, "stopped: step 5, test loss 0.5000 (of step 4)")


def test_the_process_that_guards_a_run_ends_with_it(folder, monkeypatch):
    started = []

    class Recorded(subprocess.Popen):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    show(folder, lambda: True)
    command, guard = started
    assert guard.args[0] == "/bin/sh"
    assert (command.returncode, guard.returncode) == (0, 0)
    assert not os.path.exists(f"/proc/{guard.pid}")


def test_a_bar_that_cannot_be_drawn_does_not_hurt_the_run(folder, monkeypatch, capsys):
    class Broken:
        def show(self, part, text):
            raise ValueError("the display is closed")

        end = show

    monkeypatch.setattr(_launched, "_make_view", lambda progress: Broken())
    run = show(folder, lambda: os.path.exists(folder / "metrics.jsonl"))
    assert run.summary()["status"] == "finished"
    assert not run._follower.is_alive()
    said = capsys.readouterr().err
    assert said.count("the bar cannot be drawn, and the run continues without it: ValueError('the display is") == 1


_PARENT = """\
import multiprocessing, os, sys, time
from shoal import _launched
process, _ = _launched.start(["sleep", "100"], sys.argv[1], detach=False, progress=False)
child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(100,))
child.start()
print(process.pid, child.pid, flush=True)
time.sleep(100)
"""


def test_a_run_stops_with_its_process_although_a_forked_child_of_it_lives(tmp_path):
    line = [sys.executable, "-c", _PARENT, str(tmp_path)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as parent:
        run, child = map(int, parent.stdout.readline().split())
        parent.kill()
    try:
        deadline = time.monotonic() + 20
        while os.path.exists(f"/proc/{run}"):
            assert time.monotonic() < deadline, "the run continues"
            time.sleep(0.05)
    finally:
        os.kill(child, signal.SIGKILL)
