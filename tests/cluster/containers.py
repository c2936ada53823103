"""podman of its own: containers, images and networks under one folder, all gone at the end.

    with Containers() as containers:
        containers.podman("run", ...)

What this machine needs to run containers at all (limits without CAP_SYS_RESOURCE, cgroups without systemd) is set
here. The leftovers of an earlier process that was killed are removed first. Wants root, podman, runc and netavark.
"""
import json
import os
import pathlib
import shutil
import subprocess

HOME = pathlib.Path("/var/tmp/shoal_test_containers")

STORAGE = """[storage]
driver = "overlay"
graphroot = "{folder}/store"
runroot = "{folder}/run"
"""

CONTAINERS = """[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
static_dir = "{folder}/libpod"
tmp_dir = "{folder}/tmp"
volume_path = "{folder}/volumes"
[network]
network_config_dir = "{folder}/networks"
"""


class Containers:
    """Use as a context: whatever runs in it is killed and removed at the end."""

    def __init__(self):
        self.folder = HOME / str(os.getpid())
        self.environment = dict(os.environ, CONTAINERS_STORAGE_CONF=str(self.folder / "storage.conf"),
                                CONTAINERS_CONF=str(self.folder / "containers.conf"))

    def __enter__(self):
        HOME.mkdir(exist_ok=True)
        for left in HOME.iterdir():
            if left.name.isdigit() and not pathlib.Path(f"/proc/{left.name}").exists():
                Containers.at(left).remove()
        self.folder.mkdir()
        for name, text in (("storage.conf", STORAGE), ("containers.conf", CONTAINERS)):
            (self.folder / name).write_text(text.format(folder=self.folder))
        return self

    @classmethod
    def at(cls, folder):
        containers = cls()
        containers.folder = folder
        containers.environment.update(CONTAINERS_STORAGE_CONF=str(folder / "storage.conf"),
                                      CONTAINERS_CONF=str(folder / "containers.conf"))
        return containers

    def __exit__(self, *unused):
        self.remove()

    def remove(self):
        self.podman("rm", "--all", "--force", "--time=0", check=False)
        for network in self.podman("network", "ls", "--format={{.Name}}", check=False).split():
            if network != "podman":
                self.podman("network", "rm", "--force", network, check=False)
        self.podman("system", "prune", "--all", "--force", check=False)
        # Mounts that a killed podman left, the innermost first.
        mounts = [line.split()[1] for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        for mount in reversed([m for m in mounts if m.startswith(f"{self.folder}/")]):
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def podman(self, *arguments, check=True):
        done = subprocess.run(["podman", *arguments], env=self.environment, capture_output=True, text=True)
        assert not check or done.returncode == 0, f"podman {' '.join(arguments)}: {done.stderr.strip()}"
        return done.stdout.strip()

    def logs(self, name, lines=30):
        done = subprocess.run(["podman", "logs", f"--tail={lines}", name], env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        return done.stdout

    def states(self):
        """Container name -> (whether it runs, exit code or None)."""
        found = {}
        for container in json.loads(self.podman("ps", "--all", "--format=json") or "[]"):
            running = container["State"] in ("running", "created", "initialized", "stopping")
            found[container["Names"][0]] = (running, None if running else container["ExitCode"])
        return found
