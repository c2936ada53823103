"""Hosts of a cluster on one machine: a bridge, and network namespaces that are connected to it.

    with Network(hosts=3) as network:
        network.hosts[0].run(["hostname", "-I"])
        server = network.hosts[1].start(["shoal", "ps", ...], stdout=log)
        network.hosts[1].disconnect()

Each host has its own address, loopback interface and /etc/hosts, where the others stand by name; other names are
unknown at once, since no server of names is there. Files are the machine's, and so is the host name unless
Network(own_hostnames=True). Names and subnet are this process's own, so that tests run side by side. All is removed at
the end, the processes on the hosts as well, and also what an earlier process left that was killed. Wants root and
iproute2.
"""
import contextlib
import fcntl
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import traceback

# One file for each process that has networks, locked as long as it lives; and the lock of the process that makes one.
OWNERS = pathlib.Path("/run/shoal_test_networks")
# Linux allows 15 characters in the name of an interface.
INTERFACE = re.compile(r"shoal(\d+)[bv]\d*$")
NAMESPACE = re.compile(r"shoal(\d+)-\d+$")


def ip(*arguments, check=True):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def interfaces():
    return [link["ifname"] for link in json.loads(ip("-j", "link", "show") or "[]")]


def namespaces():
    return [line.split()[0] for line in ip("netns", "list").splitlines() if line.split()]


def wait_until(condition, seconds, what):
    """Polls; for states of other processes, which nobody announces."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


@contextlib.contextmanager
def locked(path):
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_owned(pid):
    """Returns whether the process that made networks under this number still lives."""
    try:
        with open(OWNERS / pid) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True


def remove_namespace(name):
    for pid in ip("netns", "pids", name, check=False).split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    wait_until(lambda: not ip("netns", "pids", name, check=False).split(), 20, f"processes in {name} end")
    ip("netns", "del", name, check=False)


def remove_networks(wanted):
    """Removes what processes left whose numbers are `wanted`."""
    for name in namespaces():
        match = NAMESPACE.match(name)
        if match and wanted(match[1]):
            remove_namespace(name)
    for name in interfaces():
        match = INTERFACE.match(name)
        if match and wanted(match[1]):
            ip("link", "del", name, check=False)
    for file in OWNERS.glob("[0-9]*"):
        if wanted(file.stem):
            file.unlink(missing_ok=True)


class Host:
    """One namespace. `name` and `address` are what others call it by."""

    def __init__(self, network, index):
        self.name = f"host{index}"
        self.address = f"{network.prefix}.{10 + index}"
        self.namespace = f"shoal{os.getpid()}-{index}"
        self.port = f"shoal{os.getpid()}v{index}"  # The bridge's end of its cable.
        self.hosts_file = network.hosts_file
        self.servers_file = network.servers_file
        self.own_hostname = network.own_hostnames
        self.started = []

    def connect_to(self, bridge, gateway):
        ip("netns", "add", self.namespace)
        ip("link", "add", self.port, "type", "veth", "peer", "name", "eth0", "netns", self.namespace)
        ip("link", "set", self.port, "master", bridge, "up")
        ip("-n", self.namespace, "addr", "add", f"{self.address}/24", "dev", "eth0")
        ip("-n", self.namespace, "link", "set", "eth0", "up")
        ip("-n", self.namespace, "link", "set", "lo", "up")
        ip("-n", self.namespace, "route", "add", "default", "via", gateway)

    def command(self, command):
        """The command line that runs `command` there. It becomes that program: one process, no shell between."""
        script = 'mount --bind "$1" /etc/hosts && mount --bind "$2" /etc/resolv.conf && shift 2 && exec "$@"'
        if self.own_hostname:
            script = f"hostname {self.name} && {script}"
        own = ["--mount", "--uts"] if self.own_hostname else ["--mount"]
        return ["nsenter", f"--net=/run/netns/{self.namespace}", "unshare", *own, "sh", "-c", script, "sh",
                str(self.hosts_file), str(self.servers_file), *map(str, command)]

    def run(self, command, **options):
        return subprocess.run(self.command(command), **options)

    def start(self, command, **options):
        """A process in a session of its own, killed at the end if it still runs."""
        process = subprocess.Popen(self.command(command), start_new_session=True, **options)
        self.started.append(process)
        return process

    def pids(self):
        return [int(pid) for pid in ip("netns", "pids", self.namespace).split()]

    def disconnect(self):
        ip("link", "set", self.port, "down")

    def reconnect(self):
        ip("link", "set", self.port, "up")


class Network:
    """`hosts` hosts on a subnet, and this machine on it at `address` under the name "here"."""

    def __init__(self, hosts=3, own_hostnames=False):
        self.count = hosts
        self.own_hostnames = own_hostnames
        self.hosts = []
        self.names = {}
        self.owner = None
        self.bridge = f"shoal{os.getpid()}b"

    def __enter__(self):
        OWNERS.mkdir(exist_ok=True)
        self.hosts_file = OWNERS / f"{os.getpid()}.hosts"
        self.servers_file = OWNERS / f"{os.getpid()}.servers"
        try:
            with locked(OWNERS / "lock"):
                remove_networks(lambda pid: not is_owned(pid))
                self.owner = open(OWNERS / str(os.getpid()), "a")
                fcntl.flock(self.owner, fcntl.LOCK_EX)
                self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        for host in self.hosts:
            for process in host.started:
                if process.poll() is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        remove_networks(lambda pid: pid == str(os.getpid()))
        if self.owner:
            self.owner.close()

    def _make(self):
        taken = ip("-o", "addr", "show") + ip("route", "show")
        self.servers_file.write_text("nameserver 127.0.0.1\n")
        third = next(n for n in range(256) if f"10.77.{n}." not in taken)
        self.prefix = f"10.77.{third}"
        self.address = f"{self.prefix}.1"
        # It needs an address of its own: it would take the lowest of its ports', another one whenever those change.
        ip("link", "add", self.bridge, "address", f"02:00:00:00:4d:{third:02x}", "type", "bridge")
        ip("addr", "add", f"{self.address}/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")
        for index in range(self.count):
            host = Host(self, index)
            self.hosts.append(host)
            host.connect_to(self.bridge, self.address)
        self.set_names({"here": self.address, **{host.name: host.address for host in self.hosts}})

    def set_names(self, changes):
        """Name -> address in every host's /etc/hosts; None removes a name. Running processes see it at once."""
        self.names.update(changes)
        self.names = {name: address for name, address in self.names.items() if address}
        lines = [f"{address} {name}" for name, address in self.names.items()]
        self.hosts_file.write_text("\n".join(["127.0.0.1 localhost", *lines]) + "\n")


def run_cases(cases, *arguments):
    """Runs the cases that the command line names, by default all, each with `arguments`, and prints how each ended. Exits with 1
    if one failed, and with 2 for an unknown name."""
    known = {case.__name__: case for case in cases}
    wanted = sys.argv[1:] or list(known)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"no such case: {', '.join(unknown)}; the cases are {', '.join(known)}", file=sys.stderr)
        sys.exit(2)
    names = [name for name in known if name in wanted]
    failed = 0
    for name in names:
        start = time.monotonic()
        try:
            known[name](*arguments)
            print(f"[ OK     ] {name} ({time.monotonic() - start:.1f} s)", flush=True)
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            if not isinstance(error, AssertionError):
                traceback.print_exc()
            print(f"[ FAILED ] {name} ({time.monotonic() - start:.1f} s)\n{error}", flush=True)
    print(f"ran {len(names)} cases, {failed} failed", flush=True)
    sys.exit(1 if failed else 0)
