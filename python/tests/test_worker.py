"""A program on the lowest layer against a fake worker."""

import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from fake_worker import ASSIGN, FROZEN, TRAINABLE, FakeWorker, ProgramFailed, play

import shoal
from shoal import _protocol
from shoal.errors import PERMANENT, ProtocolError

X = np.arange(40, dtype=np.float32).reshape(10, 4) / 40
Y = X @ np.array([1, -2, 3, 0.5], np.float32)


def declare(worker, **options):
    worker.declare(
        [
            shoal.Variable("w", (4,), initial=0.5),
            shoal.Variable("mean", initial=np.zeros(4), kind="assign"),
            shoal.Variable("scale", initial=2.0, kind="frozen"),
        ],
        **{"examples": 10, "test_examples": 4, "optimizer": shoal.SGD(0.1), "metrics": ["accuracy"], **options},
    )


def linear(worker):
    """Linear regression; the accuracy is the share of predictions within 0.5."""
    declare(worker, prefetch=2)
    for work in worker:
        x, y = X[work.indices], Y[work.indices]
        error = x @ work.parameters["w"] - y
        if work.kind == "train":
            work.gradients["w"] = 2 * x.T @ error / len(y)
            work.gradients["mean"] = x.mean(0)
        work.done(np.sum(error**2), metrics={"accuracy": np.abs(error) < 0.5})


def gradient(w, rows):
    return 2 * X[rows].T @ (X[rows] @ w - Y[rows]) / len(rows)


def test_a_run_trains_evaluates_and_ends():
    def scenario(fake):
        values = fake.handshake()
        assert [variable[1] for variable in fake.declared.variables] == [TRAINABLE, ASSIGN, FROZEN]
        assert fake.declared.variables[2][2] == ()
        assert fake.declared.settings == "optimizer { learning_rate: 0.1 sgd {} }"
        assert fake.declared.announcements == 2
        np.testing.assert_array_equal(values["w"], np.full(4, 0.5, np.float32))
        assert values["scale"] == 2
        losses = []
        for step in range(20):
            rows = np.arange(step, step + 4) % 10
            result = fake.train(values, rows, step=step, index=step)
            np.testing.assert_allclose(result.contributions["w"], gradient(values["w"], rows), rtol=1e-6)
            np.testing.assert_allclose(result.contributions["mean"], X[rows].mean(0))
            assert result.metrics["accuracy"][1] == 4
            losses.append(result.loss)
            values["w"] = values["w"] - 0.5 * result.contributions["w"]
            if step % 7 == 0:
                error = X[:4] @ values["w"] - Y[:4]
                np.testing.assert_allclose(fake.evaluate(values, range(4)).loss, np.sum(error**2), rtol=1e-5)
        assert losses[-1] < losses[0]
        fake.finish()
        return "over"

    assert play(linear, scenario) == "over"


def test_a_repeated_batch_has_the_same_contributions():
    def scenario(fake):
        values = fake.handshake()
        first = fake.train(values, [1, 2, 3], sets=(0, 0))
        fake.train({**values, "w": np.ones(4, np.float32)}, [4, 5], sets=(1, 1))
        again = fake.train(values, [1, 2, 3], sets=(1, 0))
        assert first.loss == again.loss
        assert first.contributions["w"].tobytes() == again.contributions["w"].tobytes()
        fake.finish()

    play(linear, scenario)


def test_a_contribution_that_is_not_written_is_zero():
    def program(worker):
        declare(worker)
        for work in worker:
            work.done(1.0)

    def scenario(fake):
        result = fake.train(fake.handshake(), [0])
        assert not result.contributions["w"].any()
        assert not result.contributions["mean"].any()
        assert result.metrics == {"accuracy": (0, 0)}
        fake.finish()

    play(program, scenario)


def adds(gradients):
    gradients["w"] += 1
    gradients["w"] += 2


def adds_at(gradients):
    np.add.at(gradients["w"], [1, 1, 3], 1)


def writes_a_part(gradients):
    gradients["w"][2:] = 7


def writes_all_and_a_part(gradients):
    gradients["w"] = np.full(4, 2)
    gradients["w"][0] = 5


def fails_to_write(gradients):
    with pytest.raises(ValueError, match="could not convert"):
        gradients["w"] = ["1", "2", "3", "x"]


def asks_whether_it_is_there(gradients):
    assert "w" in gradients
    assert "scale" not in gradients
    assert "v" not in gradients


def reads(gradients):
    assert not gradients.get("w").any()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (adds, [3, 3, 3, 3]),
        (adds_at, [0, 2, 0, 1]),
        (writes_a_part, [0, 0, 7, 7]),
        (writes_all_and_a_part, [5, 2, 2, 2]),
        (fails_to_write, [0, 0, 0, 0]),
        (asks_whether_it_is_there, [0, 0, 0, 0]),
        (reads, [0, 0, 0, 0]),
    ],
)
@pytest.mark.parametrize("is_final", [False, True])
def test_parts_of_a_gradient_that_a_batch_does_not_write_are_zero(body, expected, is_final):
    def program(worker):
        declare(worker)
        for work in worker:
            body(work.gradients)
            if is_final:
                work.final("w", "mean")
            work.done(1.0)

    def scenario(fake):
        values = fake.handshake()
        for index in range(3):  # A set holds the values of the batch before the last one.
            result = fake.train(values, [0], index=index, sets=(0, 0))
            assert result.contributions["w"].tolist() == expected
            assert not result.contributions["mean"].any()
        fake.finish()

    play(program, scenario)


def test_final_messages_are_gathered_to_1_mib():
    def program(worker):
        worker.declare([shoal.Variable(f"v{i}", (65536,)) for i in range(10)], examples=4)  # 256 KiB each
        for work in worker:
            for i in range(10):
                work.gradients[f"v{i}"] = np.full(65536, i + work.step, np.float32)
                work.final(f"v{i}")
            work.done(0)

    def scenario(fake):
        values = fake.handshake()
        for step in range(3):
            result = fake.train(values, [0], step=step)
            assert result.finals == [["v0", "v1", "v2", "v3"], ["v4", "v5", "v6", "v7"]]
            assert result.contributions["v9"][0] == 9 + step
        fake.finish()

    play(program, scenario)


@pytest.mark.parametrize("name", ["step", "epoch"])
def test_an_evaluation_has_no_step_and_no_epoch(name):
    seen = []

    def program(worker):
        declare(worker)
        for work in worker:
            seen.append(getattr(work, name))
            work.done(0)

    def scenario(fake):
        values = fake.handshake()
        fake.train(values, [0], step=7, epoch=5)
        fake.evaluate(values, [0], index=3)

    with pytest.raises(
        shoal.ProgramError, match=rf"test_worker.py:\d+: test block 3 has no {name}, because the worker"
    ):
        play(program, scenario)
    assert seen == [{"step": 7, "epoch": 5}[name]]


def test_announcements_arrive_without_waiting():
    seen = []
    may_look = threading.Event()

    def program(worker):
        declare(worker, prefetch=2)
        for work in worker:
            if work.is_training:
                assert may_look.wait(60)
                seen.append([(a.epoch, a.index, list(a.indices)) for a in worker.announcements()])
            work.done(0)

    def scenario(fake):
        values = fake.handshake()
        fake.announce([3, 4], index=1)
        fake.work = 1
        fake.send_work(19, [0])
        fake.announce([5], epoch=1, index=2)  # arrives while the batch is computed
        may_look.set()
        fake.done(0)
        fake.train(values, [3, 4], index=1)
        fake.finish()

    play(program, scenario)
    assert seen == [[(0, 1, [3, 4]), (1, 2, [5])], []]


@pytest.mark.parametrize("reason", [1, 2])
def test_the_code_behind_the_loop_runs_only_if_the_run_is_over(reason):
    reached = []

    def program(worker):
        linear(worker)
        reached.append(worker)

    def scenario(fake):
        fake.train(fake.handshake(), [0])
        fake.finish(reason, "stopped by the user")

    play(program, scenario)
    assert not reached
    play(program, lambda fake: (fake.handshake(), fake.finish(0)))
    assert reached


def test_a_declaration_that_the_run_refuses_is_named_with_its_place(capsys):
    def scenario(fake):
        fake.handshake()
        fake.finish(4, "variable 0 is v in the first worker and w in this worker")
        with pytest.raises(ProgramFailed) as raised:
            fake.receive()
        return raised.value

    failed = play(linear, scenario)
    assert failed.kind == PERMANENT
    why = r"the run refuses this declaration: variable 0 is v in the first worker and w in this worker"
    assert re.fullmatch(rf"\S*test_worker\.py:\d+: {why}", failed.message)
    assert failed.message in capsys.readouterr().err


def test_finish_while_a_batch_is_computed_ends_the_program_after_it():
    def program(worker):
        declare(worker)
        for work in worker:
            while worker._finish is None:
                worker.announcements()
            work.final("w")
            work.done(0)
        raise AssertionError("the run is not over")

    def scenario(fake):
        fake.handshake()
        fake.work = 1
        fake.send_work(19, [0])
        fake.finish(1)
        assert fake.socket.recv(1) == b""  # neither FINAL nor DONE

    play(program, scenario)


@pytest.mark.parametrize("when", ["welcome", "layout", "work", "open"])
def test_the_end_of_the_worker_ends_the_program(when):
    def scenario(fake):
        if when == "welcome":
            return
        if when == "layout":
            fake.welcome()
            fake.declaration()
            return
        fake.handshake()
        if when == "open":
            fake.work = 1
            fake.send_work(19, [0])

    play(linear, scenario)  # No exception: the program leaves with SystemExit.


def test_a_program_that_is_only_asked_ends_after_its_declaration():
    def scenario(fake):
        fake.welcome(purpose=1)
        fake.declaration()
        fake.finish(3)
        assert fake.socket.recv(1) == b""
        return fake.declared

    assert play(linear, scenario).train_examples == 10


def test_a_loss_that_is_not_finite_is_reported_and_a_metric_has_no_weight_then():
    def program(worker):
        declare(worker)
        for work in worker:
            work.gradients["w"] = np.full(4, np.nan)
            work.done(float("nan"), metrics={"accuracy": float("nan")})

    def scenario(fake):
        result = fake.train(fake.handshake(), [0])
        assert np.isnan(result.loss)
        assert result.metrics["accuracy"] == (0, 0)
        fake.finish()

    play(program, scenario)


def test_parameters_cannot_be_written():
    def program(worker):
        declare(worker)
        for work in worker:
            work.parameters["w"][0] = 1

    with pytest.raises(ValueError, match="read-only"):
        play(program, lambda fake: fake.train(fake.handshake(), [0]))


def test_contributions_are_between_memory_that_nobody_may_touch():
    def program(worker):
        declare(worker)
        for work in worker:
            address = work.gradients["w"].ctypes.data
            regions = [line.split()[:2] for line in Path("/proc/self/maps").read_text().splitlines()]
            places = [([int(end, 16) for end in region.split("-")], access) for region, access in regions]
            at = next(i for i, ((begin, end), _) in enumerate(places) if begin <= address < end)
            (before, _), ((begin, end), _), (behind, _) = around = places[at - 1 : at + 2]
            assert (before[1], behind[0]) == (begin, end)
            assert [access for _, access in around] == ["---p", "rw-s", "---p"]
            work.done(0)

    play(program, lambda fake: fake.train(fake.handshake(), [0]))


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (b"", 17),
        (b"\0" * 23, 18),
        (b"\0" * 60, 19),
        (b"\xff" * 64, 19),
        (b"\0" * 24 + b"x", 21),
        (b"\0" * 3, 22),
        (b"", 99),
    ],
)
def test_messages_that_are_damaged_are_refused(payload, kind):
    with pytest.raises(ProtocolError, match="the worker"):
        _protocol.decode(kind, payload)


def test_messages_may_arrive_in_any_pieces():
    fake = FakeWorker()
    sent = []
    fake.send = lambda kind, payload=b"": sent.append(_protocol.message(kind, payload))
    fake.receive = lambda *kinds: (kinds[0], _Hello())
    fake.welcome(seed=5)
    conversation = _protocol.Conversation()
    conversation.hello("x")
    received = [m for i in range(len(sent[0])) for m in conversation.receive(sent[0][i : i + 1])]
    assert len(received) == 1
    assert received[0].seed == 5
    assert received[0].directory == "/runs/x"
    with pytest.raises(ProtocolError, match="sent WELCOME in the state declare"):
        conversation.receive(sent[0])


class _Hello:
    def take(self, _):
        return 0x314D4752504C4853, 1, 5

    def text(self):
        return ""

    def end(self):
        pass


def test_an_unknown_version_is_refused():
    with pytest.raises(ProtocolError, match="speaks version 6 of .* this package versions 1 to 5"):
        play(linear, lambda fake: fake.welcome(version=6))


@pytest.mark.parametrize("version", [4, 5])
def test_progress_is_reported_at_most_once_per_second(version, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("shoal.worker.monotonic", lambda: now[0])

    def program(worker):
        declare(worker)
        for work in worker:
            for seconds in (0.5, 0.5, 0.5, 0.75, 10):  # the time goes on before each call
                now[0] += seconds
                work.progress()
            work.done(1.0)
            with pytest.raises(shoal.ProgramError, match=r"progress\(\) is called for .* after done\(\)"):
                work.progress()
            now[0] += 10

    def scenario(fake):
        values = fake.handshake(version=version)
        reports = [fake.train(values, [0]).reports, fake.evaluate(values, [0]).reports]
        fake.finish()
        return reports

    assert play(program, scenario) == ([3, 3] if version > 4 else [0, 0])


def test_an_exception_reaches_the_worker_with_its_class():
    def program(worker):
        declare(worker)
        for _ in worker:
            raise OSError(5, "the disk is away")

    with pytest.raises(OSError, match="the disk is away"):
        play(program, lambda fake: fake.train(fake.handshake(), [0]))
    failed = []

    def scenario(fake):
        with pytest.raises(ProgramFailed) as raised:
            fake.train(fake.handshake(), [0])
        failed.append(raised.value)

    with pytest.raises(OSError, match="the disk is away"):
        play(program, scenario)
    assert failed[0].kind == 3
    assert "test_worker.py:" in failed[0].message
    assert failed[0].message.endswith("OSError: [Errno 5] the disk is away")
    assert "Traceback" in failed[0].traceback


def test_importing_shoal_does_not_import_torch():
    code = "import sys, shoal; print(sorted(m for m in sys.modules if m.split('.')[0] in ('torch', 'shoal')))"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=_package()
    ).stdout
    assert "'torch'" not in out
    assert "'shoal.torch'" not in out


def _package():
    from pathlib import Path

    return Path(shoal.__file__).parents[1]
