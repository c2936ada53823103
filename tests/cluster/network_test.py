#!/usr/bin/env python3
"""The network of the other tests: hosts reach each other by name, and nothing of it is left."""
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import network as networks  # noqa: E402


def ping(host, name):
    """Returns whether a TCP connection from `host` to port 7000 of `name` is accepted."""
    code = f"import socket; socket.create_connection(('{name}', 7000), timeout=2)"
    return host.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL).returncode == 0


def listen(host):
    code = "import socket; s = socket.create_server(('', 7000)); print('up', flush=True)\nwhile True: s.accept()"
    process = host.start([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "up\n"
    return process


def test_a_host_has_its_own_name_if_asked_for():
    with networks.Network(hosts=1, own_hostnames=True) as network:
        said = network.hosts[0].run(["hostname"], stdout=subprocess.PIPE, text=True).stdout
        assert said == "host0\n", said
    assert os.uname().nodename != "host0", "this machine was renamed"


def running():
    """Processes that have not ended; one that nobody waited for has."""
    lines = subprocess.run(["ps", "-eo", "pid=,stat="], capture_output=True, text=True, check=True).stdout.splitlines()
    return [int(line.split()[0]) for line in lines if not line.split()[1].startswith("Z")]


def left_of(pid):
    return [name for name in networks.namespaces() + networks.interfaces() if name.startswith(f"shoal{pid}")]


def test_hosts_reach_each_other_by_name_until_a_cable_is_pulled():
    with networks.Network(hosts=2) as network:
        first, second = network.hosts
        server = listen(first)
        assert ping(second, "host0")
        assert not ping(first, "host1"), "each host has its own ports"
        first.disconnect()
        assert not ping(second, "host0")
        first.reconnect()
        assert ping(second, "host0")
        assert not ping(second, "other")
        network.set_names({"other": first.address})
        assert ping(second, "other")
        assert first.pids() == [server.pid]
    assert server.returncode == -signal.SIGKILL
    assert left_of(os.getpid()) == []


def test_the_next_process_removes_the_leftovers_of_a_killed_one():
    code = "import network, sys, time\nwith network.Network(1) as n:\n  p = n.hosts[0].start(['sleep', '600'])\n" \
           "  print(p.pid, flush=True)\n  time.sleep(600)"
    killed = subprocess.Popen([sys.executable, "-c", code], cwd=os.path.dirname(os.path.abspath(__file__)),
                              stdout=subprocess.PIPE, text=True)
    orphan = int(killed.stdout.readline())
    with networks.Network(hosts=1):
        assert len(left_of(killed.pid)) == 3, "a network of a live process is left alone"
        killed.kill()
        killed.wait()
    with networks.Network(hosts=1):
        assert left_of(killed.pid) == []
        assert orphan not in running(), "a process on it was left"


def main():
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            print(name, flush=True)
            test()


if __name__ == "__main__":
    main()
