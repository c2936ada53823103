#!/usr/bin/env python3
"""`shoal launch` with an ssh that runs its command on this machine, after a greeting: what does not need other hosts.
Real sshds are in tests/cluster/ssh_test.py."""
import os
import pathlib
import re
import shlex
import signal
import time

import cluster
from by_hand_test import SMALL

GREETS = '#!/bin/bash\necho "Welcome to $0"\necho "a notice" >&2\nexec sh -c "${@: -1}"\n'
GREETS_WITHOUT_AN_END = '#!/bin/bash\nprintf hi\nexec sh -c "${@: -1}"\n'
# `attend` and the task run with a clock that can be set, and `attend` waits 4 s for a sign of life.
SETS_THE_CLOCK = '''#!/bin/bash
export LD_PRELOAD={library} STEPPED_CLOCK={file}
exec sh -c "$(sed "s/ 'attend' / 'attend' '--patience=4' /" <<<"${{@: -1}}")"
'''
REFUSES = '#!/bin/bash\necho "Permission denied (publickey)." >&2\nexit 255\n'


class Launch(cluster.Run):
    """`ssh` is a script that stands first in PATH."""

    def __init__(self, ssh, *flags, hosts="localhost slots=2\n127.0.0.1\n"):
        super().__init__(SMALL, *flags)
        directory = pathlib.Path(self.directory.name)
        (directory / "hosts").write_text(hosts)
        (directory / "ssh").write_text(ssh)
        (directory / "ssh").chmod(0o755)
        self.command[1] = "launch"
        self.command.append(f"--hosts={directory / 'hosts'}")
        self.environment = {}
        self.path = f"{directory}:{os.environ['PATH']}"

    def start(self):
        before = dict(os.environ)
        os.environ.update(self.environment, PATH=self.path)
        try:
            return super().start()
        finally:
            os.environ.clear()
            os.environ.update(before)


def a_launched_run_gives_the_bytes_of_a_local_one():
    flags = ["--num_ps_tasks=2", "--num_replicas=3"]
    with Launch(GREETS, *flags) as run:
        digest = run.finish().digest()
        run.assert_nothing_left()
        assert "localhost: Welcome to" in (run.out / "logs" / "chief-0.log").read_text(), run.logs()
        assert "worker/0 on localhost: GPUs: " in run.output and "worker/1 on 127.0.0.1: GPUs: " in run.output, run.output
        assert "worker/2 on localhost: GPUs: " not in run.output, run.output  # It would say the same.
    with cluster.Run(SMALL, *flags) as run:
        assert run.finish().digest() == digest


def a_login_shell_may_print_without_an_end_of_line():
    with Launch(GREETS_WITHOUT_AN_END, "--num_epochs=1", "--eval_every=0") as run:
        run.finish()
        assert "localhost: hi\n" in (run.out / "logs" / "ps-0.log").read_text(), run.logs()
        run.assert_nothing_left()


def setting_the_clock_ends_nothing():
    library = pathlib.Path("tests/real_process/libstepped_clock.so").resolve()
    # An hour forward there, an hour back here: no task has received anything for long, or none sends for long.
    for where, seconds in (("there", 3600), ("here", -3600)):
        with Launch(GREETS, "--num_epochs=100000", "--eval_every=0") as run:
            file = pathlib.Path(run.directory.name) / "seconds"
            (pathlib.Path(run.directory.name) / "ssh").write_text(
                SETS_THE_CLOCK.format(library=library if where == "there" else "", file=file))
            if where == "here":
                run.environment = {"LD_PRELOAD": str(library), "STEPPED_CLOCK": str(file)}
            run.start()
            run.wait_for_step(10)
            file.write_text(str(seconds))
            time.sleep(6)  # longer than `attend` waits
            run.wait_for_step(run.step() + 20)
            run.process.send_signal(signal.SIGTERM)
            assert run.wait() == 143, f"{where}: {run.output}\n{run.logs()}"
            assert "died" not in run.output, f"{where}: {run.output}"
            run.assert_nothing_left()


def the_printed_command_resumes_the_run():
    with Launch(GREETS, "--num_epochs=1", "--eval_every=0", "--insecure") as run:
        run.finish()
        (command,) = re.findall(r"^resume: +(.*)", run.output, re.MULTILINE)
        assert " --insecure " in command and command.endswith(" --num_epochs=2   # or more"), command
        run.command = shlex.split(command, comments=True)
        steps = run.summary()["steps"]
        run.process = None
        run.finish()
        assert run.summary()["steps"] == 2 * steps, run.summary()
        run.assert_nothing_left()


def a_killed_launcher_leaves_a_checkpoint_and_nothing_else():
    with Launch(GREETS, "--num_epochs=100000", "--eval_every=0", "--save_every=1000000") as run:
        run.start()
        run.wait_for_step(20)
        run.process.send_signal(signal.SIGKILL)
        run.process.wait()
        run.assert_nothing_left()
        assert list((run.out / "checkpoints").glob("*/MANIFEST")), run.logs()


def a_killed_task_is_reported_with_its_signal_and_restarted():
    with Launch(GREETS, "--num_epochs=100000", "--eval_every=0") as run:
        run.start()
        run.wait_for_step(10)
        run.kill("worker", 1, signal.SIGSEGV)
        run.wait_for_step(run.step() + 10)
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 143, f"{run.output}\n{run.logs()}"
        assert "worker/1 died (killed by SIGSEGV); restarting it, 1 of 3" in run.output, run.output
        run.assert_nothing_left()


def a_host_that_refuses_ends_the_launch_with_its_words():
    with Launch(REFUSES) as run:
        run.finish(code=78)
        assert "host localhost: cannot be reached by ssh: Permission denied (publickey).;" in run.output, run.output
        run.assert_nothing_left()


def a_host_without_the_program_is_named():
    with Launch("#!/bin/bash\nexec sh -c 'exec /nowhere/shoal attend'\n") as run:
        run.finish(code=78)
        assert "host localhost: there is no such program" in run.output, run.output
        run.assert_nothing_left()


if __name__ == "__main__":
    cluster.main([a_launched_run_gives_the_bytes_of_a_local_one, a_login_shell_may_print_without_an_end_of_line,
                  setting_the_clock_ends_nothing, the_printed_command_resumes_the_run,
                  a_killed_launcher_leaves_a_checkpoint_and_nothing_else,
                  a_killed_task_is_reported_with_its_signal_and_restarted,
                  a_host_that_refuses_ends_the_launch_with_its_words, a_host_without_the_program_is_named])
