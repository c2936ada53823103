#!/usr/bin/env python3
"""`shoal launch` against real sshds on three hosts, each a network namespace: it trains, it ends, nothing is left.

With names of tests as arguments: those alone."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/real_process"))
os.environ.setdefault("SHOAL", str(ROOT / "bazel-bin/deploy/shoal"))

import cluster  # noqa: E402
import program_on_hosts  # noqa: E402
from network import Network, run_cases, wait_until  # noqa: E402

SMALL = str(ROOT / "tests/real_process/small.textproto")
MAKE = str(ROOT / "deploy/tls/make_certificates")


class Hosts:
    """Three hosts with an sshd each, and what a client needs to log in: `config` and the file `hosts`."""

    def __init__(self, network, directory):
        self.network = network
        self.directory = pathlib.Path(directory)
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        for name in ("key", "host_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.directory / name)], check=True)
        host_key = " ".join((self.directory / "host_key.pub").read_text().split()[:2])
        (self.directory / "known").write_text("".join(f"{host.address} {host_key}\n" for host in network.hosts))
        self.config = self.directory / "config"
        aliases = "".join(f"Host {host.name}\n  HostName {host.address}\n" for host in network.hosts)
        self.config.write_text(f"{aliases}Host *\n  User root\n  IdentityFile {self.directory / 'key'}\n"
                               f"  IdentitiesOnly yes\n  UserKnownHostsFile {self.directory / 'known'}\n"
                               f"  StrictHostKeyChecking yes\n")
        self.file = self.directory / "hosts"
        self.file.write_text("".join(f"{host.name} address={host.address} slots=2\n" for host in network.hosts))
        self.daemons = [self.start_sshd(host) for host in network.hosts]
        for host in network.hosts:
            wait_until(lambda: self.ssh(host, "true").returncode == 0, 20, f"login at {host.name}")

    def start_sshd(self, host):
        config = self.directory / f"sshd-{host.name}"
        config.write_text(f"ListenAddress {host.address}\nHostKey {self.directory / 'host_key'}\nPidFile none\n"
                          f"AuthorizedKeysFile {self.directory / 'key.pub'}\nStrictModes no\nUsePAM no\n"
                          f"PasswordAuthentication no\nPermitRootLogin yes\n")
        with open(self.directory / f"sshd-{host.name}.log", "ab") as log:
            return host.start(["/usr/sbin/sshd", "-D", "-e", "-f", config], stdout=log, stderr=log)

    def ssh(self, host, *command):
        return subprocess.run(["ssh", "-F", self.config, "-o", "BatchMode=yes", host.name, *command],
                              capture_output=True, text=True, timeout=30, check=False)


class Launch(cluster.Run):
    """One `shoal launch`. Its processes, here and on the hosts, are found by the run's directory."""

    def __init__(self, hosts, *flags, hosts_file=None, config=None, secure=False):
        super().__init__(SMALL, f"--hosts={hosts_file or hosts.file}", f"--ssh_config={config or hosts.config}",
                         "--num_ps_tasks=2", "--num_replicas=3", *flags)
        self.command[1] = "launch"
        if not secure:
            self.command.append("--insecure")

    def tasks(self):
        """Pids of the tasks themselves, not of those that carry and attend them."""
        return [pid for job in ("chief", "ps", "worker") for pid in self.pids(job)]

    def wait_for_tasks(self):
        wait_until(lambda: len(self.tasks()) == 6, 60, f"six tasks\n{self.logs()}")

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        assert self.wait() == 130, f"{self.output}\n{self.logs()}"

    def checkpoints(self):
        return list((self.out / "checkpoints").glob("*/MANIFEST"))


def it_trains_over_mutual_tls_and_leaves_nothing(hosts):
    certificates = hosts.directory / "tls"
    subprocess.run([MAKE, str(certificates)], check=True, capture_output=True)
    tls = [f"--tls_cert={certificates}/{{job}}.crt", f"--tls_key={certificates}/{{job}}.key",
           f"--tls_ca={certificates}/ca.crt"]
    with Launch(hosts, *tls, secure=True) as run:
        run.start()
        run.wait_for_step(1)
        namespaces = {os.readlink(f"/proc/{pid}/ns/net") for pid in run.tasks()}
        assert len(namespaces) == 3, f"tasks on {len(namespaces)} hosts"
        run.finish()
        assert run.summary()["status"] == "finished", run.summary()
        assert "launch --hosts=" in run.output, run.output
        run.assert_nothing_left()


def a_configuration_for_logins_of_ones_own_disturbs_nothing(hosts):
    config = hosts.directory / "own_logins"
    # Two logins cannot both have the port, and a client that insists ends.
    config.write_text("Host *\n  RemoteCommand tmux\n  RequestTTY yes\n  LocalForward 18222 localhost:22\n"
                      "  ExitOnForwardFailure yes\n  ForkAfterAuthentication yes\n  StdinNull yes\n"
                      "  SessionType none\n" + hosts.config.read_text())
    with Launch(hosts, "--num_epochs=1", "--eval_every=0", config=config) as run:
        run.finish()
        assert run.summary()["status"] == "finished", run.summary()
        run.assert_nothing_left()


@contextlib.contextmanager
def under_way(hosts, step, *flags):
    """A run without an end that has come to `step`."""
    with Launch(hosts, "--num_epochs=100000", "--eval_every=0", *flags) as run:
        run.start()
        run.wait_for_step(step)
        yield run


def ctrl_c_makes_a_checkpoint_and_leaves_nothing(hosts):
    with under_way(hosts, 30, "--save_every=1000000") as run:
        run.interrupt()
        assert run.checkpoints(), run.logs()
        run.assert_nothing_left()


def a_killed_launcher_leaves_a_checkpoint_and_nothing_else(hosts):
    with under_way(hosts, 30, "--save_every=1000000") as run:
        run.process.send_signal(signal.SIGKILL)
        run.process.wait()
        run.assert_nothing_left(timeout=45)
        assert run.checkpoints(), run.logs()


def a_killed_worker_is_started_again_where_it_was(hosts):
    with under_way(hosts, 20) as run:
        pid = run.pids("worker", 1)[0]
        where = os.readlink(f"/proc/{pid}/ns/net")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: run.pids("worker", 1) not in ([], [pid]), 30, "another worker/1")
        assert os.readlink(f"/proc/{run.pids('worker', 1)[0]}/ns/net") == where
        run.wait_for_step(run.step() + 20)
        run.interrupt()
        assert "worker/1 died (killed by SIGKILL); restarting it, 1 of 3" in run.output, run.output
        assert "--- worker/1 on host" in run.output, run.output
        run.assert_nothing_left()


def a_killed_ps_is_restarted_and_the_run_resumes(hosts):
    with under_way(hosts, 25, "--save_every=10", "--lease_seconds=2") as run:
        run.kill("ps", 1)
        wait_until(lambda: "ps/1 registered" in run.logs(200) and run.pids("ps", 1), 60, "another ps/1")
        time.sleep(3)
        run.wait_for_step(run.step() + 30)
        run.interrupt()
        assert "ps/1 died (killed by SIGKILL); restarting it" in run.output, run.output
        run.assert_nothing_left()


def tasks_end_on_a_host_that_was_cut_off(hosts):
    with under_way(hosts, 10) as run:
        run.wait_for_tasks()  # Ten steps do not need them all.
        lost = hosts.network.hosts[2]
        there = [pid for pid in run.tasks() if pid in lost.pids()]
        assert there, "no task on the last host"
        lost.disconnect()
        try:
            wait_until(lambda: not set(there) & set(run.tasks()), 90, f"{there} end")
            run.process.send_signal(signal.SIGINT)
            run.wait(timeout=120)
        finally:
            lost.reconnect()
        run.assert_nothing_left(timeout=60)


def a_host_that_does_not_fit_is_named_and_nothing_is_started(hosts):
    bad = hosts.directory / "bad_hosts"
    bad.write_text(hosts.file.read_text() + "nowhere address=192.0.2.1 roles=chief\n")
    bad.write_text("\n".join(reversed(bad.read_text().splitlines())) + "\n")
    with open(hosts.config, "a", encoding="utf-8") as config:
        config.write("Host nowhere\n  HostName 127.0.0.1\n  Port 9\n")
    with Launch(hosts, hosts_file=bad) as run:
        run.finish(code=78)
        assert "host nowhere: cannot be reached by ssh" in run.output, run.output
        assert "Connection refused" in run.output, run.output
        run.assert_nothing_left()
    # A host where another file system is mounted at the run's place.
    cut_off = hosts.network.hosts[0]
    with Launch(hosts) as run:
        run.out.mkdir(parents=True)
        mounts = ["nsenter", f"--mount=/proc/{hosts.daemons[0].pid}/ns/mnt"]
        subprocess.run([*mounts, "mount", "-t", "tmpfs", "tmpfs", run.out], check=True)
        try:
            run.finish(code=78)
        finally:
            subprocess.run([*mounts, "umount", run.out], check=True)
        assert f"host {cut_off.name}: the run directory is not the launcher's here" in run.output, run.output
        assert "shared file system" in run.output, run.output
        run.assert_nothing_left()


class ProgramLaunch(Launch):
    """A `shoal launch` of a compute program."""

    def __init__(self, hosts, program, *flags, arguments=()):
        super().__init__(hosts, f"--program={program}", "--python=/usr/bin/python3", *flags)
        self.command.remove(f"--run={SMALL}")
        self.command += ["--", *arguments]


def a_program_of_ones_own_trains_on_every_host(hosts):
    program = program_on_hosts.write(hosts.directory / "line.py")
    os.environ["CUDA_VISIBLE_DEVICES"] = "GPU-0,GPU-1"  # ssh does not pass it on.
    try:
        with ProgramLaunch(hosts, program, arguments=program_on_hosts.ARGUMENTS) as run:
            run.finish()
            found = program_on_hosts.check_trained(run.out, 3)
            assert [start["gpus"] for start in found.values()] == [None] * 3, found
            assert not list((run.out / "logs").glob("launch-check-*")), "a check that succeeded left its log"
            run.assert_nothing_left()
    finally:
        del os.environ["CUDA_VISIBLE_DEVICES"]


def on_one_host_only(hosts, number, path, script):
    """Runs a shell script in the file system of a host, where `path` is a directory of its own that can be changed."""
    mounts = ["nsenter", f"--mount=/proc/{hosts.daemons[number].pid}/ns/mnt"]
    subprocess.run([*mounts, "mount", "-t", "tmpfs", "tmpfs", path], check=True)
    subprocess.run([*mounts, "sh", "-c", script], check=True, cwd=path)
    return lambda: subprocess.run([*mounts, "umount", path], check=True)


def a_host_on_which_the_program_cannot_start_is_named_before_the_start(hosts):
    folder = hosts.directory / "program"
    folder.mkdir()
    program = program_on_hosts.write(folder / "line.py")
    other = program_on_hosts.write(hosts.directory / "other.py", "import shoal_needs_this\n")
    cases = [("true", "line.py cannot be read", "put the same file at the same path on every host"),
             (f"cp {other} {program}", "line.py is another version than the launcher's", "copy the launcher's")]
    for script, what, remedy in cases:
        undo = on_one_host_only(hosts, 1, folder, script)
        try:
            with ProgramLaunch(hosts, program) as run:
                run.finish(code=78)
        finally:
            undo()
        last = run.output.strip().splitlines()[-1]
        assert last.startswith(f"shoal launch: host {hosts.network.hosts[1].name}: program: "), run.output
        assert what in last and remedy in last, run.output
    # The interpreter is on this machine and not on the hosts.
    mine = hosts.directory / "python"
    mine.mkdir()
    (mine / "python3").symlink_to("/usr/bin/python3")
    undo = on_one_host_only(hosts, 2, mine, "true")
    try:
        with ProgramLaunch(hosts, program, f"--python={mine}/python3") as run:
            run.command.remove("--python=/usr/bin/python3")
            run.finish(code=78)
            assert not list(run.out.glob("logs/chief*")), "the chief was started"
            run.assert_nothing_left()
    finally:
        undo()
    last = run.output.strip().splitlines()[-1]
    assert f"host {hosts.network.hosts[2].name}: program: {mine}/python3 cannot be started" in last, run.output
    assert "install it on every host, or name another interpreter with --python" in last, run.output


TESTS = [it_trains_over_mutual_tls_and_leaves_nothing, a_configuration_for_logins_of_ones_own_disturbs_nothing,
         ctrl_c_makes_a_checkpoint_and_leaves_nothing,
         a_killed_launcher_leaves_a_checkpoint_and_nothing_else, a_killed_worker_is_started_again_where_it_was,
         a_killed_ps_is_restarted_and_the_run_resumes, tasks_end_on_a_host_that_was_cut_off,
         a_host_that_does_not_fit_is_named_and_nothing_is_started,
         a_program_of_ones_own_trains_on_every_host,
         a_host_on_which_the_program_cannot_start_is_named_before_the_start]


def main():
    with Network(hosts=3) as network, tempfile.TemporaryDirectory(prefix="shoal_ssh_") as directory:
        hosts = Hosts(network, directory)
        run_cases(TESTS, hosts)


if __name__ == "__main__":
    main()
