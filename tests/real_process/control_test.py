#!/usr/bin/env python3
"""`shoal status|checkpoint|stop|health` on runs that are under way."""
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import cluster

SMALL = str(pathlib.Path(__file__).resolve().parent / "small.textproto")
TWO = ("--num_ps_tasks=2", "--num_replicas=2", "--num_epochs=5000", "--save_every=1000000")


def shoal(*arguments, code=0):
    """Returns what the command prints: to standard output, or, if it ends with an error, to the other. `code` None: to
    both, however it ends."""
    done = subprocess.run([cluster.shoal_binary(), *arguments], capture_output=True, text=True, timeout=90,
                          check=False)
    if code is None:
        return done.stdout + done.stderr
    assert done.returncode == code, f"{arguments}: {done.returncode}, not {code}\n{done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stderr


def addresses(run):
    """The chief's address, and those of the ps."""
    text = (run.out / "cluster.textproto").read_text()
    everybody = set(re.findall(r"127\.0\.0\.1:\d+", text))
    status = json.loads(shoal("status", str(run.out), "--json"))
    servers = [task["address"] for task in status["tasks"] if task["address"]]
    (chief,) = everybody - set(servers)
    return chief, servers


def status_names_everybody():
    with cluster.Run(SMALL, *TWO) as run:
        run.start()
        run.wait_for_step(30)
        run.wait_for_all()
        chief, _ = addresses(run)
        text = shoal("status", chief)
        for words in ("run small in", "training", "steps/s", "ps/0", "ps/1", "worker/0", "worker/1"):
            assert words in text, text
        status = json.loads(shoal("status", str(run.out), "--json"))
        assert status["phase"] == "training" and status["step"] >= 30, status
        assert sorted(task["task"] for task in status["tasks"]) == ["ps/0", "ps/1", "worker/0", "worker/1"], status
        assert status["missing"] == [] and status["waits_for"] == "", status
        assert all(task["process_id"] in run.pids() for task in status["tasks"]), status


def status_names_the_slow_worker():
    with cluster.Run(SMALL, *TWO, "--set", "cluster.lease_seconds=240") as run:
        run.start()
        run.wait_for_step(30)
        run.wait_for_all()
        for worker in (0, 1):  # One that is left would compute the other one's batches.
            run.kill("worker", worker, signal.SIGSTOP)
        # If one was stopped in a batch, the report says so after 2 s, and that it is silent after 3 s.
        deadline = time.monotonic() + 180
        while True:
            status = json.loads(shoal("status", str(run.out), "--json"))
            slow = {task["task"]: task["slow"] for task in status["tasks"] if task["slow"]}
            silent = [task for task, why in slow.items() if "silent for" in why]
            if sorted(silent) == sorted(slow) == ["worker/0", "worker/1"] and status["waits_for"]:
                break
            assert run.process.poll() is None, run.logs()
            assert time.monotonic() < deadline, f"the workers are not those that are silent: {status}"
            time.sleep(0.1)
        assert status["waits_for"].startswith("worker/0 (silent for"), status
        for worker in (0, 1):
            run.kill("worker", worker, signal.SIGCONT)


def a_checkpoint_is_durable_when_the_command_returns():
    with cluster.Run(SMALL, *TWO) as run:
        run.start()
        run.wait_for_step(30)
        first = pathlib.Path(shoal("checkpoint", str(run.out)).strip())
        assert (first / "MANIFEST").is_file(), first
        chief, _ = addresses(run)
        second = pathlib.Path(shoal("checkpoint", chief).strip())
        assert second != first and (second / "MANIFEST").is_file(), second
        run.wait_for_step(run.step() + 10)  # It continues.


def stop_ends_the_run_as_ctrl_c_does():
    with cluster.Run(SMALL, *TWO) as run:
        run.start()
        run.wait_for_step(30)
        path = pathlib.Path(shoal("stop", str(run.out)).strip())
        assert (path / "MANIFEST").is_file(), path
        assert run.wait() == 143, run.output
        run.assert_nothing_left()
        summary = run.summary()
        assert summary["status"] == "stopped" and summary["checkpoint"] == str(path), summary
        said = shoal("status", str(run.out))
        assert f"the run in {run.out} is over: it was stopped" in said, said
        assert f"; resume it: {cluster.shoal_binary()} train --run={run.out}/run.textproto" in said, said
        assert json.loads(shoal("status", str(run.out), "--json"))["summary"]["checkpoint"] == str(path)
        for command in ("stop", "checkpoint", "health"):
            assert f"the run in {run.out} is over" in shoal(command, str(run.out), code=78)


def a_stop_outlives_a_chief_that_stalls():
    """The chief accepts the request and then stands for longer than calls and connections last."""
    limits = ("--set=cluster.lease_seconds=180", "--set=cluster.grace_seconds=120")
    with cluster.Run(SMALL, *TWO, *limits) as run:
        run.start()
        run.wait_for_step(30)
        run.wait_for_all()
        for worker in (0, 1):  # They keep the checkpoint back until the chief stands.
            run.kill("worker", worker, signal.SIGSTOP)
        with subprocess.Popen([cluster.shoal_binary(), "stop", str(run.out), "--timeout=180"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as stop:
            deadline = time.monotonic() + 180
            while "stopping: shoal stop" not in (run.out / "logs" / "chief-0.log").read_text():
                assert time.monotonic() < deadline and stop.poll() is None, run.logs()
                time.sleep(0.05)
            chief = run.kill("chief", None, signal.SIGSTOP)
            for worker in (0, 1):
                run.kill("worker", worker, signal.SIGCONT)
            time.sleep(22)  # A call lasts 5 s, a connection without an answer 15 s.
            assert stop.poll() is None, stop.communicate()
            os.kill(chief, signal.SIGCONT)
            printed, said = stop.communicate(timeout=240)
        assert stop.returncode == 0, f"{said}\n{run.logs()}"
        assert (pathlib.Path(printed.strip()) / "MANIFEST").is_file(), printed
        assert run.wait() == 143, run.output


def starts_and_stands(run):
    """Starts the run again and stops its launcher after it has taken the directory, before it has started a chief."""
    lock = run.out / "LOCK"
    for _ in range(20):
        assert lock.read_text() == "", "nobody holds it"
        run.start()
        while lock.read_text() == "":
            assert run.process.poll() is None, run.logs()
        os.kill(run.process.pid, signal.SIGSTOP)
        if run.pids() == [run.process.pid]:
            return
        os.kill(run.process.pid, signal.SIGCONT)  # Too late: it is tried again.
        run.wait_for_all()
        shoal("stop", str(run.out))
        assert run.wait() == 143, run.output
    raise AssertionError("the launcher was never stopped in time")


def a_run_that_is_being_resumed_is_not_called_over():
    with cluster.Run(SMALL, *TWO) as run:
        run.start()
        run.wait_for_step(5)
        shoal("stop", str(run.out))
        assert run.wait() == 143, run.output
        starts_and_stands(run)
        said = [shoal("status", str(run.out), code=None)]
        os.kill(run.process.pid, signal.SIGCONT)
        while not re.search("phase +training", said[-1]):
            assert run.process.poll() is None, run.logs()
            said.append(shoal("status", str(run.out), code=None))
            assert "is over:" not in said[-1] and "no chief answers" not in said[-1], said
        assert "is being started, and its chief does not serve yet" in said[0], said


def a_run_that_was_killed_is_not_running():
    with cluster.Run(SMALL, "--num_ps_tasks=1", "--num_replicas=1", "--num_epochs=5000", "--save_every=1000000") as run:
        run.start()
        run.wait_for_step(5)
        made = shoal("checkpoint", str(run.out)).strip()
        run.process.kill()
        run.process.wait()
        while run.pids():
            time.sleep(0.05)
        resume = f"{cluster.shoal_binary()} train --run={run.out}/run.textproto"
        for command in ("status", "checkpoint", "stop", "health"):
            said = shoal(command, str(run.out), code=78)
            assert f"shoal {command}: the run in {run.out} is not running: the last process" in said, said
            assert f"pid {run.process.pid} on " in said, said
            assert f", newest checkpoint {made}; resume it: {resume}" in said, said
        asked = subprocess.run([cluster.shoal_binary(), "status", str(run.out), "--json"], capture_output=True, text=True,
                               timeout=90, check=False)
        status = json.loads(asked.stdout)
        assert asked.returncode == 78 and status["phase"] == "not running", asked
        assert status["last_checkpoint"] == made and resume in status["message"], status


def a_directory_without_a_run_is_refused():
    with tempfile.TemporaryDirectory() as empty:
        for command in ("status", "checkpoint", "stop", "health"):
            assert f"{empty} holds no run" in shoal(command, empty, code=78)
            assert f"there is no directory {empty}/none" in shoal(command, f"{empty}/none", code=78)


def a_directory_whose_address_another_run_has_taken_is_refused():
    with cluster.Run(SMALL, *TWO) as run, tempfile.TemporaryDirectory() as over:
        run.start()
        run.wait_for_step(5)
        shutil.copy(run.out / "cluster.textproto", over)
        for command in ("status", "checkpoint", "stop"):
            said = shoal(command, over, code=78)
            assert f"the run there is in {run.out}, not in {over}" in said, said
        run.wait_for_step(run.step() + 10)  # It continues.


def health_is_of_the_process_or_of_its_role():
    with cluster.Run(SMALL, *TWO) as run:
        run.start()
        run.wait_for_step(5)
        chief, servers = addresses(run)
        for address, role in [(chief, "chief"), (servers[0], "ps"), (servers[1], "ps")]:
            assert shoal("health", address) == "serving\n"
            assert shoal("health", address, f"--service={role}") == "serving\n"
        assert servers[0] in shoal("health", servers[0], "--service=chief", code=78)
        refused = shoal("health", str(run.out), "--service=ps", code=64)
        assert f"--service: is ps, but with a run's directory the command asks the chief; name the address of the task, which is in {run.out}/" in refused
        assert "is not a chief" in shoal("status", servers[0], code=78)
        assert "is not a chief" in shoal("stop", servers[0], code=78)


def a_run_in_one_process_names_its_signals():
    with cluster.Run(SMALL, "--num_ps_tasks=0", "--num_epochs=5000", "--save_every=1000000") as run:
        run.start()
        run.wait_for_step(5)
        for command in ("status", "checkpoint", "stop"):
            said = shoal(command, str(run.out), code=78)
            assert f"SIGTERM or Ctrl-C stops that process (pid {run.process.pid} on " in said, said
            assert "SIGUSR1 has it make a checkpoint" in said, said


def an_address_without_a_chief_is_named():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # No process listens there, and none will.
        nobody = f"127.0.0.1:{held.getsockname()[1]}"
        for command in ("status", "checkpoint", "stop"):
            assert f"{nobody}: no chief answers there" in shoal(command, nobody, code=138)
        assert f"{nobody}: no task answers there (connection refused)" in shoal("health", nobody, code=138)


def what_is_no_task_is_named():
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{other.server_port}"
        for command in ("status", "health"):
            assert f"{address}: the server at this address is not a Shoal task" in shoal(command, address, code=78)
        other.shutdown()


def a_task_without_a_chief_names_the_address():
    with socket.socket() as held, tempfile.TemporaryDirectory() as out:
        held.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{held.getsockname()[1]}"
        for job, more in (("ps", ["--listen_address=127.0.0.1:0"]), ("worker", [])):
            said = shoal(job, f"--run={SMALL}", f"--out={out}", f"--chief_host={nobody}", "--task_index=0",
                         "--wait_seconds=1", *more, code=138)
            assert (f"shoal {job}: --chief_host: {nobody} did not answer for 1s (connection refused); correct "
                    "the address, or start the chief") in said, said


if __name__ == "__main__":
    cluster.main([status_names_everybody, status_names_the_slow_worker,
                  a_checkpoint_is_durable_when_the_command_returns, stop_ends_the_run_as_ctrl_c_does, a_stop_outlives_a_chief_that_stalls,
                  a_run_that_is_being_resumed_is_not_called_over,
                  a_run_that_was_killed_is_not_running, a_directory_without_a_run_is_refused,
                  a_directory_whose_address_another_run_has_taken_is_refused,
                  a_run_in_one_process_names_its_signals,
                  health_is_of_the_process_or_of_its_role, an_address_without_a_chief_is_named,
                  what_is_no_task_is_named, a_task_without_a_chief_names_the_address])
