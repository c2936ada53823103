"""Each misuse ends in one message with the file and the line of the user's program."""

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fake_worker import FakeWorker, ProgramFailed, play

import shoal
from shoal.errors import PERMANENT, RETRYABLE, SURROUNDINGS, describe

PACKAGE = Path(shoal.__file__).parents[1]

# A program; `>>>` marks the line that the message must name. V and W declare one variable.
HEAD = """\
import numpy as np
import shoal
V = shoal.Variable
def declare(**options):
    worker.declare([V("w", (4,)), V("f", (2,), kind="frozen")], **{"examples": 10, "test_examples": 4, **options})
"""
MISUSE = {
    "no declaration": (
        ">>> for work in worker: pass",
        "asks for work before it has declared variables; call worker.declare()",
    ),
    "two declarations": ("declare()\n>>> worker.declare([V('w')], examples=1)", "declare() was called a second time"),
    "a name with a space": (">>> V('my weight')", "the variable name 'my weight' must have 1 to 256 of"),
    "a long name": (">>> V('w' * 257)", "must have 1 to 256 of"),
    "an unknown kind": (">>> V('w', kind='buffer')", "kind is 'buffer'; it must be one of trainable, assign, frozen"),
    "another shape": (
        ">>> V('w', (2, 2), initial=np.zeros(4))",
        "variable w: the initial value has the shape (4,), not (2, 2)",
    ),
    "an empty dimension": (">>> V('w', (3, 0))", "variable w: the shape (3, 0) must have up to 8 dimensions"),
    "nine dimensions": (">>> V('w', (1,) * 9)", "must have up to 8 dimensions"),
    "a text as value": (">>> V('w', initial='zeros')", "variable w: the initial value is not an array of real numbers"),
    "a complex value": (">>> V('w', initial=1j)", "not an array of real numbers (it is complex)"),
    "an infinite value": (">>> V('w', initial=np.inf)", "variable w: the initial value is not finite"),
    "two equal names": (">>> worker.declare([V('w'), V('w')], examples=1)", "two variables have the name w"),
    "nothing to train": (
        ">>> worker.declare([V('w', kind='frozen')], examples=1)",
        "none of the variables is trainable",
    ),
    "arrays as variables": (">>> worker.declare([np.zeros(3)], examples=1)", "needs shoal.Variable, not ndarray"),
    "a metric as text": (">>> worker.declare([V('w')], examples=1, metrics='f1')", "must be a list of names"),
    "a metric with a space": (">>> worker.declare([V('w')], examples=1, metrics=['top 5'])", "the metric name 'top 5'"),
    "a metric with the name of a field": (
        ">>> worker.declare([V('w')], examples=1, metrics=['loss'])",
        "the metric name 'loss' is that of a field of metrics.jsonl; rename the metric",
    ),
    "a metric of evaluations": (
        ">>> worker.declare([V('w')], examples=1, metrics=['eval_f1'])",
        "must not begin with eval_; every metric is evaluated too",
    ),
    "too many metrics": (
        ">>> worker.declare([V('w')], examples=1, metrics=[f'm{i}' for i in range(17)])",
        "there are 17 metrics; at most 16 are possible: leave some out",
    ),
    "an accuracy that is an AUC": (
        ">>> worker.declare([V('w')], examples=1, metrics=[shoal.AUC('accuracy')])",
        "the metric 'accuracy' is a mean; give the AUC another name",
    ),
    "a metric twice": (">>> worker.declare([V('w')], examples=1, metrics=['a', 'a'])", "metrics has 'a' twice"),
    "a foreign optimizer": (
        ">>> worker.declare([V('w')], examples=1, optimizer=np.float32(1))",
        "optimizer is a numpy.float32; use shoal.SGD, shoal.Adam",
    ),
    "a negative learning rate": (">>> shoal.SGD(-0.1)", "SGD: learning_rate is -0.1; it must not be negative"),
    "a batch of nothing": (
        ">>> worker.declare([V('w')], examples=1, batch_size=0)",
        "batch_size is 0; it must be a wh",
    ),
    "half an epoch": (">>> worker.declare([V('w')], examples=1, epochs=0.5)", "epochs is 0.5; it must be a whole numb"),
    "no examples": (">>> worker.declare([V('w')], examples=0)", "examples is 0; it must be a whole number from 1"),
    "too much prefetch": (">>> worker.declare([V('w')], examples=1, prefetch=65)", "prefetch is 65"),
    "no done": (
        "declare()\n>>> for work in worker:\n    work.gradients['w'] = np.zeros(4)",
        "batch 5 of epoch 3 ended without work.done(loss_sum)",
    ),
    "done twice": (
        "declare()\nfor work in worker:\n    work.done(1)\n>>>     work.done(1)",
        "done() is called for batch 5 of epoch 3 after done()",
    ),
    "a gradient of another shape": (
        "declare()\nfor work in worker:\n>>>     work.gradients['w'] = np.zeros((4, 1))",
        "the contribution to w has the shape (4, 1); the variable has (4,)",
    ),
    "an unknown variable": (
        "declare()\nfor work in worker:\n>>>     work.gradients['b'] = np.zeros(4)",
        "'b' is not a variable; the run has w, f",
    ),
    "a frozen variable": (
        "declare()\nfor work in worker:\n>>>     work.gradients['f'] = np.zeros(2)",
        "f is frozen, so nothing is contributed to it",
    ),
    "a contribution after final": (
        "declare()\nfor work in worker:\n    work.final('w')\n>>>     work.gradients['w'] = np.ones(4)",
        "w is written after work.final('w')",
    ),
    "final twice": (
        "declare()\nfor work in worker:\n    work.final('w')\n>>>     work.final('w')",
        "w is written after work.final('w')",
    ),
    "a deleted contribution": (
        "declare()\nfor work in worker:\n>>>     del work.gradients['w']",
        "cannot be removed; write zeros",
    ),
    "a loss per example": (
        "declare()\nfor work in worker:\n>>>     work.done(np.ones(3))",
        "it must be one number, the sum over the examples",
    ),
    "no loss": ("declare()\nfor work in worker:\n>>>     work.done(None)", "the loss is None"),
    "too few examples": (
        "declare()\nfor work in worker:\n>>>     work.done(1, examples=2)",
        "2 examples were computed, but batch 5 of epoch 3 has 3",
    ),
    "an unknown metric": (
        "declare(metrics=['accuracy'])\nfor work in worker:\n>>>     work.done(1, metrics={'f1': 1})",
        "the metric 'f1' was not declared; metrics=['accuracy'] needs its name",
    ),
    "an impossible accuracy": (
        "declare(metrics=['accuracy'])\nfor work in worker:\n>>>     work.done(1, metrics={'accuracy': (5, 3)})",
        "the metric 'accuracy' is 5 of 3, which is not possible",
    ),
    "a metric that is not a number": (
        "declare(metrics=['accuracy'])\nfor work in worker:\n>>>     work.done(1, metrics={'accuracy': 'high'})",
        "the metric 'accuracy' is 'high'; it must be numbers, or (sum, weight)",
    ),
    "a metric that weighs nothing": (
        "declare(metrics=['f1'])\nfor work in worker:\n>>>     work.done(1, metrics={'f1': (2, 0)})",
        "the metric 'f1' is 2 of 0, which is not possible; where there is nothing to measure, report (0, 0)",
    ),
    "an AUC of one number": (
        "declare(metrics=['auc'])\nfor work in worker:\n>>>     work.done(1, metrics={'auc': 0.9})",
        "the metric 'auc' is an AUC, but its value is a float; report auc=(scores, labels)",
    ),
    "an AUC of logits": (
        "declare(metrics=['auc'])\nfor work in worker:\n>>>     work.done(1, metrics={'auc': ([-3, 2], [0, 1])})",
        "has scores below 0 or above 1; apply a sigmoid to logits",
    ),
    "an AUC of three classes": (
        "declare(metrics=['auc'])\nfor work in worker:\n>>>     work.done(1, metrics={'auc': ([0.1, 1], [0, 2])})",
        "has labels other than 0 and 1",
    ),
    "an AUC of unequal lengths": (
        "declare(metrics=['auc'])\nfor work in worker:\n>>>     work.done(1, metrics={'auc': ([0.1, 0.3, 1], [0, 1])})",
        "the metric 'auc' has 3 scores and 2 labels",
    ),
    "a second loop": (
        "declare()\nfor work in worker:\n>>>     for other in worker: pass",
        "a second loop over the worker began while a batch is open",
    ),
    "a write to the parameters": (
        "declare()\nfor work in worker:\n>>>     work.parameters['w'][0] = 1",
        "ValueError: assignment destination is read-only",
    ),
    "no such program": (">>> shoal.launch('nothing.py')", "there is no program nothing.py"),
    "half a worker": (">>> shoal.launch(__file__, workers=0.5)", "workers is 0.5; it must be a whole number from 1"),
    "arguments as text": (">>> shoal.launch(__file__, args='--size=10')", "args and flags must be lists of strings"),
    "no such run": (">>> shoal.Run('/nowhere/run')", "there is no directory /nowhere/run; name a run's directory"),
    "a file as a run": (">>> shoal.Run('/dev/null')", "/dev/null is not a directory; name a run's directory"),
    "storage elsewhere as a run": (
        ">>> shoal.Run('s3://bucket/run')",
        'directory: "s3://bucket/run" is not a path of this machine; mount the storage that s3:// names, and give the '
        "directory where it is mounted",
    ),
    "a home that no shell has replaced": (
        ">>> shoal.Run('~/run')",
        'directory: "~/run" begins with ~, which only a shell replaces; give the whole path: '
        'os.path.expanduser("~/run")',
    ),
}


def one_batch(fake):
    try:
        values = fake.handshake()
        fake.train(values, [0, 1, 2], epoch=2, index=5)
    except (EOFError, ProgramFailed, ConnectionError):
        pass


@pytest.mark.parametrize("name", list(MISUSE))
def test_a_misuse_has_one_message_with_file_and_line(name, tmp_path):
    code, message = MISUSE[name]
    lines = (HEAD + code).splitlines()
    line = 1 + next(i for i, text in enumerate(lines) if text.startswith(">>> "))
    path = tmp_path / "train.py"
    path.write_text("\n".join(text[4:] if text.startswith(">>> ") else text for text in lines))

    def program(worker):
        names = {"worker": worker, "__name__": "__main__", "__file__": str(path)}
        exec(compile(path.read_text(), str(path), "exec"), names)

    with pytest.raises((shoal.ProgramError, ValueError)) as raised:
        play(program, one_batch)
    _, described, _ = describe(raised.value, False, True)
    assert message in described
    assert described.startswith(f"{path}:{line}: ")
    assert "\n" not in described


def test_an_evaluation_has_no_contributions():
    def program(worker):
        worker.declare([shoal.Variable("w", (4,))], examples=10, test_examples=4)
        for work in worker:
            assert not list(work.gradients)
            assert "w" not in work.gradients
            work.gradients["w"] = [1, 2, 3, 4]

    with pytest.raises(shoal.ProgramError, match=r"test_misuse.py:\d+: an evaluation has no contributions"):
        play(program, lambda fake: fake.evaluate(fake.handshake(), [0]))


# Programs in processes of their own: what they print, how they end.


class Started:
    def __init__(self, code, tmp_path):
        self.fake = FakeWorker()
        self.path = tmp_path / "train.py"
        self.path.write_text(code)
        descriptors = (self.fake.program_socket.fileno(), self.fake.parameters_fd, self.fake.contributions_fd)
        names = ("SOCKET", "PARAMETERS", "CONTRIBUTIONS")
        environment = {f"SHOAL_PROGRAM_{name}": str(fd) for name, fd in zip(names, descriptors)}
        self.process = subprocess.Popen(
            [sys.executable, str(self.path)],
            env={"PYTHONPATH": str(PACKAGE), "PATH": "/usr/bin:/bin", **environment},
            pass_fds=descriptors,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.fake.program_socket.close()

    def end(self):
        output = self.process.communicate(timeout=60)[0]
        return self.process.returncode, output


DECLARED = 'worker.declare([shoal.Variable("w", (4,))], examples=10)'
START = """\
import json, os, sys, threading
import numpy as np
import shoal
worker = shoal.Worker()
worker.declare([shoal.Variable("w", (4,))], examples=10)
"""


# A thread ends by an exception, and the program then leaves its loop.
THREAD = """\
def loop():
    for work in worker: 1 / 0
def body(): {}
thread = threading.Thread(target=body)
thread.start()
thread.join()
for work in worker: break
"""


def failure(started, values=None):
    with pytest.raises(ProgramFailed) as raised:
        values = started.fake.handshake()
        while True:
            started.fake.train(values, [0])
    started.end()
    return raised.value


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        ("import nothing_of_this_name", 3, "train.py:6: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("undefined()", 2, "train.py:6: NameError: name 'undefined' is not defined"),
        ("for work in worker:\n    1 / 0", 2, "train.py:7: ZeroDivisionError: division by zero"),
        ("for work in worker:\n    work.done(0)\n    break", 1, "train.py:8: the program left the loop before"),
        ("for work in worker:\n    sys.exit()", 1, "train.py:7: sys.exit() was called before the run was over"),
        ("for work in worker:\n    sys.exit('no data')", 2, "train.py:7: sys.exit('no data') was called before"),
        ("for work in worker:\n    json.loads('{')", 2, "line 1 column 2 (char 1) (raised in json/decoder.py:"),
        ("for work in worker:\n    json.loads('{')", 2, "train.py:7: JSONDecodeError: "),
        (THREAD.format("1 / 0"), 2, "train.py:8: ZeroDivisionError: division by zero"),
        (THREAD.format("loop()"), 2, "train.py:7: ZeroDivisionError: division by zero"),
        ("for work in worker:\n    shoal.SGD(-1)", 1, "train.py:7: SGD: learning_rate is -1"),
        ("for work in worker:\n    exec('1 +')", 1, "SyntaxError"),
        ("for work in worker:\n    breakpoint()", 1, "train.py:7: breakpoint() finds no terminal"),
        ("for work in worker:\n    exit(3)", 1, "train.py:7: the program left the loop before"),
    ],
)
def test_an_error_of_the_program_reaches_the_worker(code, kind, message, tmp_path):
    failed = failure(Started(START + code, tmp_path))
    assert message in failed.message
    assert failed.kind == kind


def test_a_library_is_recognized_by_the_directory_of_packages(tmp_path):
    package = tmp_path / "dist-packages/thing"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("def fail():\n    raise ValueError('what')\n")
    code = f"sys.path.insert(0, {str(package.parent)!r})\nimport thing\nthing.fail()"
    failed = failure(Started(START + code, tmp_path))
    assert failed.message == "train.py:8: ValueError: what (raised in thing/__init__.py:2)"


def test_an_error_is_named_without_a_working_directory(tmp_path):
    code = "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\nfor work in worker: undefined()"
    failed = failure(Started(START + code, tmp_path))
    assert failed.message == f"{tmp_path}/train.py:7: NameError: name 'undefined' is not defined"


def after(error, earlier):
    """Returns the error as it is when it is raised while an earlier one is handled."""
    error.__context__ = earlier
    return error


def caused(error, cause):
    error.__context__ = cause
    return error


def test_the_text_of_an_error_is_the_same_in_every_process():
    def text_of(error):
        return describe(error, False, True)[1].split(": ", 1)[1]

    text = text_of(OSError(f"cannot identify image file {io.BytesIO()!r}"))
    assert text == "OSError: cannot identify image file <_io.BytesIO object>"
    text = text_of(ValueError("Caught ValueError in DataLoader worker process 1.\nTraceback\nValueError: image 7"))
    assert text == "ValueError: Caught ValueError in DataLoader worker process. … ValueError: image 7"
    for pids in ("pid(s) 31908, 31909", "pid 31908"):
        text = text_of(RuntimeError(f"DataLoader worker ({pids}) exited unexpectedly"))
        assert text == "RuntimeError: DataLoader worker exited unexpectedly"


@pytest.mark.parametrize(
    "code",
    [
        "shoal.Run('/nowhere/run')",
        "shoal.Run('.').model_file()",
        "shoal.Run('.').last_model_file()",
        "worker.declare([shoal.Variable('w')], examples=0)",
    ],
)
def test_a_run_or_data_that_are_missing_may_be_there_at_the_next_start(code, tmp_path):
    lines = ["import shoal", "worker = shoal.Worker()", code]
    started = Started("\n".join(lines), tmp_path)
    with pytest.raises(ProgramFailed, match=r"train.py:3: ") as raised:
        started.fake.handshake()
    assert raised.value.kind == SURROUNDINGS
    started.end()


@pytest.mark.parametrize(
    ("error", "asked", "starting", "begun"),
    [
        (SyntaxError("x"), PERMANENT, PERMANENT, PERMANENT),
        (shoal.ProgramError("x"), PERMANENT, PERMANENT, PERMANENT),
        (shoal.MissingError("x"), SURROUNDINGS, SURROUNDINGS, SURROUNDINGS),
        (NameError("x"), PERMANENT, RETRYABLE, RETRYABLE),
        (TypeError("x"), PERMANENT, RETRYABLE, RETRYABLE),
        (ImportError("x"), SURROUNDINGS, SURROUNDINGS, SURROUNDINGS),
        (FileNotFoundError("x"), SURROUNDINGS, SURROUNDINGS, SURROUNDINGS),
        (OSError(5, "x"), RETRYABLE, RETRYABLE, SURROUNDINGS),
        (OSError("Caught OSError in …\nOSError: [Errno 5] Input/output error"), RETRYABLE, RETRYABLE, SURROUNDINGS),
        (OSError("cannot read: file read failed: errno = 5"), RETRYABLE, RETRYABLE, SURROUNDINGS),
        (caused(OSError("no answer"), OSError(111, "refused")), RETRYABLE, RETRYABLE, SURROUNDINGS),
        (TimeoutError("x"), RETRYABLE, RETRYABLE, SURROUNDINGS),
        (MemoryError("x"), RETRYABLE, RETRYABLE, SURROUNDINGS),
        (OSError("image file is truncated (3 bytes not processed)"), RETRYABLE, RETRYABLE, RETRYABLE),
        (caused(OSError("broken data stream"), ValueError("x")), RETRYABLE, RETRYABLE, RETRYABLE),
        (after(OSError("image file is truncated"), FileNotFoundError(2, "x")), RETRYABLE, RETRYABLE, RETRYABLE),
        (after(OSError("cannot read"), OSError(5, "x")), RETRYABLE, RETRYABLE, SURROUNDINGS),
        (ValueError("x"), RETRYABLE, RETRYABLE, RETRYABLE),
    ],
)
def test_the_class_of_an_error_depends_on_how_far_the_program_is(error, asked, starting, begun):
    assert describe(error, True, False)[0] == asked
    assert describe(error, False, False)[0] == starting
    assert describe(error, False, True)[0] == begun


def test_signals_that_stop_the_run_do_not_end_the_program_but_what_it_starts(tmp_path):
    code = (
        "import signal, subprocess\nfor number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)\n"
        + START
        + """
for work in worker:
    for number in (1, 2, 15):
        os.kill(os.getpid(), number)
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), 15)
        os._exit(0)
    started = subprocess.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 15)"])
    print(os.waitpid(child, 0)[1], started.returncode)
    work.done(2)
"""
    )
    started = Started(code, tmp_path)
    assert started.fake.train(started.fake.handshake(), [0]).loss == 2
    started.fake.finish()
    assert started.end() == (0, "15 -15\n")


def test_a_program_that_never_asks_for_work_is_an_error(tmp_path):
    started = Started("import shoal\nworker = shoal.Worker()\nprint('ready')", tmp_path)
    with pytest.raises(ProgramFailed) as raised:
        started.fake.handshake()
    assert raised.value.kind == SURROUNDINGS
    assert (
        raised.value.message
        == "train.py:2: after shoal.Worker() the program ended without asking for work; loop over the worker or "
        "trainer.batches()"
    )
    assert started.end() == (0, "ready\n")


def test_a_program_that_declares_and_never_asks_for_work_is_an_error(tmp_path):
    failed = failure(Started(START + "print('ready')", tmp_path))
    assert failed.kind == PERMANENT
    assert failed.message.startswith("train.py:5: after worker.declare() the program ended without asking for work")


PARSER = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, required=True)
parser.parse_args()
"""


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        (
            PARSER,
            SURROUNDINGS,
            "train.py:6: sys.exit(2) was called after shoal.Worker(), before the program asked for work",
        ),
        (
            "import sys\nsys.exit('no data')",
            SURROUNDINGS,
            "train.py:4: sys.exit('no data') was called after shoal.Worker(), before the program asked for work",
        ),
        (
            "import sys\nsys.exit()",
            SURROUNDINGS,
            "train.py:4: sys.exit() was called after shoal.Worker(), before the program asked for work; loop over the "
            "worker or trainer.batches()",
        ),
        (
            f"import sys\n{DECLARED}\nsys.exit(3)",
            RETRYABLE,
            "train.py:5: sys.exit(3) was called after worker.declare(), before the program asked for work",
        ),
        (
            f"import sys\n{DECLARED}\nsys.exit(0)",
            PERMANENT,
            "train.py:5: sys.exit(0) was called after worker.declare(), before the program asked for work; loop over "
            "the worker or trainer.batches()",
        ),
        (
            f"import sys\ntry:\n    sys.exit(3)\nexcept SystemExit:\n    pass\n{DECLARED}",
            PERMANENT,
            "train.py:8: after worker.declare() the program ended without asking for work; loop over the worker or "
            "trainer.batches()",
        ),
    ],
)
def test_an_exit_before_the_loop_is_named_with_its_line(code, kind, message, tmp_path):
    failed = failure(Started("import shoal\nworker = shoal.Worker()\n" + code, tmp_path))
    assert (failed.kind, failed.message) == (kind, message)


def test_a_closed_connection_is_named_with_the_line(tmp_path):
    code = "for work in worker:\n    os.closerange(3, 10000)\n    work.done(0)"
    started = Started(START + code, tmp_path)
    with pytest.raises((EOFError, ConnectionError)):
        started.fake.train(started.fake.handshake(), [0])
    output = started.end()[1]
    assert "train.py:8: the connection with the worker is closed (Bad file descriptor)" in output.splitlines()[-1]


def test_a_program_that_takes_too_long_to_start_prints_where_it_is(tmp_path):
    code = START.replace("worker.declare(", "import time\ntime.sleep(600)\nworker.declare(")
    started = Started(code, tmp_path)
    started.fake.welcome(run_file="cluster {\n  wait_seconds: 1\n}\n")
    lines = iter(started.process.stdout.readline, "")
    assert any('train.py", line 6 in <module>' in line for line in lines)
    started.process.kill()
    started.end()


def test_a_forked_process_cannot_use_the_worker_and_does_not_disturb_it(tmp_path):
    code = """
for work in worker:
    child = os.fork()
    if child == 0:
        try:
            work.done(1)
        except shoal.ProgramError as error:
            print(error)
        sys.exit(0)
    os.waitpid(child, 0)
    work.done(2)
"""
    started = Started(START + code, tmp_path)
    values = started.fake.handshake()
    assert started.fake.train(values, [0]).loss == 2
    started.fake.finish()
    code, output = started.end()
    assert code == 0
    assert output == (
        "train.py:11: a forked process uses the worker; only the process that made shoal.Worker() may compute batches\n"
    )


def test_a_crash_prints_the_line_that_did_it(tmp_path):
    """A write to the parameters past NumPy's flag, as PyTorch's in-place operations do it."""
    code = """
import ctypes
for work in worker:
    address = work.parameters["w"].ctypes.data
    ctypes.memset(address, 1, 4)
"""
    started = Started(START + code, tmp_path)
    with pytest.raises((EOFError, ConnectionError)):
        started.fake.train(started.fake.handshake(), [0])
    code, output = started.end()
    assert code == -11
    assert re.search(r'train.py", line 10 in <module>', output)


def test_output_arrives_by_lines_and_the_environment_is_clean(tmp_path):
    code = """
for work in worker:
    print("a line", [name for name in os.environ if name.startswith("SHOAL_PROGRAM")])
    work.done(0)
print("the end")
"""
    started = Started(START + code, tmp_path)
    started.fake.train(started.fake.handshake(), [0])
    assert started.process.stdout.readline() == "a line []\n"
    started.fake.finish()
    assert started.end() == (0, "the end\n")
