"""Runs rendered manifests as Kubernetes would, on this machine: podman for the containers, this for the rest.

The controllers (tests/kubernetes/workloads.py): StatefulSets, Indexed Jobs, JobSets and TFJobs become pods with the
names, labels, host names and variables that their controllers give them; what ends is started again by their rules (in
its pod; as a new pod; not at all), or takes others along. The kubelet: environment, arguments, volumes, security
context, limits, probes, preStop and SIGTERM. The DNS of the headless Services: each pod's HOSTNAME.SUBDOMAIN, of a
TFJob's pods only while they are ready.

Left out: scheduling, NetworkPolicy, the long back-off times between tries (here half a second).
"""
import json
import pathlib
import random
import re
import shutil
import socket
import string
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "kubernetes"))
import workloads  # noqa: E402
from name_server import NameServer  # noqa: E402
from workloads import COMPLETE  # noqa: E402

BACKOFF_SECONDS = 0.5
CGROUP_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "k": 10**3, "M": 10**6, "G": 10**9}


def wait_until(condition, seconds, what):
    """Polls; for states of other processes, which nobody announces. `what`: a text, or a function that says it."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what() if callable(what) else what}"
        time.sleep(0.05)


def in_bytes(quantity):
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", quantity).groups()
    return int(float(number) * CGROUP_UNITS.get(unit, 1))


class Pod:
    """One pod: a place in a workload. A Job's pod is replaced by another one of the same index, a StatefulSet's is
    started again under its name."""

    def __init__(self, workload, index):
        self.workload = workload
        self.index = index
        self.hostname = f"{workload.name}-{index}"
        self.name = self.hostname
        metadata = workload.template.get("metadata", {})
        self.labels = dict(metadata.get("labels", {}))
        self.annotations = dict(metadata.get("annotations", {}))
        if workload.kind == "StatefulSet":
            self.labels.update({"apps.kubernetes.io/pod-index": str(index), "statefulset.kubernetes.io/pod-name": self.name})
        elif workload.kind == "Job":
            self.name += "-" + "".join(random.choices(string.ascii_lowercase + string.digits, k=5))
            self.annotations["batch.kubernetes.io/job-completion-index"] = str(index)
            self.labels["batch.kubernetes.io/job-completion-index"] = str(index)
        self.address = None
        self.stopping = False  # or ended for good
        self.is_named = False  # whether the DNS knows it

    @property
    def spec(self):
        return self.workload.template["spec"]

    @property
    def container(self):
        return self.spec["containers"][0]


class Cluster:
    """The workloads of some manifests. Use as a context."""

    def __init__(self, containers, documents, folder):
        self.containers = containers
        self.folder = pathlib.Path(folder)
        self.config_maps = {d["metadata"]["name"]: d["data"] for d in documents if d["kind"] == "ConfigMap"}
        self.secrets = {d["metadata"]["name"]: d["stringData"] for d in documents if d["kind"] == "Secret"}
        self.claims = [d["metadata"]["name"] for d in documents if d["kind"] == "PersistentVolumeClaim"]
        self.groups, made = workloads.workloads_of(documents)
        self.workloads = {workload.name: workload for workload in made}
        self.network = f"pods{random.randrange(10**6)}"
        self.exits = []  # (host name, exit code), in the order seen
        self.logs = {}  # host name -> what its pods wrote
        self.lock = threading.RLock()
        self.ending = threading.Event()
        self.controller = threading.Thread(target=self.control, daemon=True)
        self.may_fail = set()  # names of what a test lets fail
        self.cleaners = []  # threads that end pods
        self.error = None

    def __enter__(self):
        self.containers.podman("network", "create", "--disable-dns", self.network)
        inspected = json.loads(self.containers.podman("network", "inspect", self.network))
        self.subnet = inspected[0]["subnets"][0]["subnet"].rsplit(".", 1)[0]
        self.bridge = pathlib.Path("/sys/class/net") / inspected[0]["network_interface"]
        self.names = {}  # name -> address
        self.name_server = NameServer(f"{self.subnet}.1", lambda name: self.names.get(name))
        self.name_server.__enter__()
        self.next_address = 10
        for name in self.claims:
            self.volume(name)
        for name, texts in self.config_maps.items():
            self.write_files(name, texts, 0o444)
        for name, texts in self.secrets.items():
            self.write_files(name, texts, 0o440)
        with self.lock:
            for workload in self.workloads.values():
                for index in range(workload.count):
                    self.create(workload, index)
        self.controller.start()
        return self

    def __exit__(self, *unused):
        self.ending.set()
        self.controller.join()
        for cleaner in self.cleaners:
            cleaner.join()
        for workload in self.workloads.values():
            for pod in workload.pods.values():
                self.containers.podman("rm", "--force", "--time=0", pod.name, check=False)
        self.name_server.__exit__()
        self.containers.podman("network", "rm", "--force", self.network, check=False)

    # Volumes

    def volume(self, claim):
        path = self.folder / claim
        path.mkdir(parents=True, exist_ok=True)
        shutil.chown(path, 65532, 65532)  # fsGroup
        return path

    def write_files(self, name, texts, mode):
        path = self.folder / "files" / name
        path.mkdir(parents=True, exist_ok=True)
        for key, text in texts.items():
            file = path / key
            file.write_text(text)
            shutil.chown(file, 0, 65532)  # fsGroup
            file.chmod(mode)

    def mounts(self, pod):
        volumes = {v["name"]: v for v in pod.spec["volumes"]}
        for mount in pod.container["volumeMounts"]:
            volume = volumes[mount["name"]]
            mode = "ro" if mount.get("readOnly") else "rw"
            if "configMap" in volume:
                yield f"--volume={self.folder / 'files' / volume['configMap']['name']}:{mount['mountPath']}:{mode}"
            elif "secret" in volume:
                yield f"--volume={self.folder / 'files' / volume['secret']['secretName']}:{mount['mountPath']}:{mode}"
            elif "persistentVolumeClaim" in volume:
                yield f"--volume={self.volume(volume['persistentVolumeClaim']['claimName'])}:{mount['mountPath']}:{mode}"
            elif "emptyDir" in volume:
                yield f"--tmpfs={mount['mountPath']}:{mode},mode=1777"
            else:
                raise AssertionError(f"{pod.name}: volume {volume} is not known here")

    # Pods

    def variables(self, pod):
        found = {}
        for source in pod.container.get("envFrom", []):
            found.update(self.config_maps[source["configMapRef"]["name"]])
        for variable in pod.container.get("env", []):
            if "value" in variable:
                found[variable["name"]] = variable["value"]
                continue
            path = variable["valueFrom"]["fieldRef"]["fieldPath"]
            keyed = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
            if keyed:
                found[variable["name"]] = getattr(pod, keyed[1])[keyed[2]]
            else:
                found[variable["name"]] = {"status.podIP": pod.address, "metadata.name": pod.name,
                                           "metadata.namespace": "default"}[path]
        if pod.workload.kind == "Job":
            found.setdefault("JOB_COMPLETION_INDEX", str(pod.index))
        found.update({name: value(pod.index) for name, value in pod.workload.variables.items()})
        return found

    def create(self, workload, index):
        pod = Pod(workload, index)
        pod.address = f"{self.subnet}.{self.next_address}"  # never one that a pod had before
        self.next_address += 1
        workload.pods[index] = pod
        variables = self.variables(pod)
        security, inner = pod.spec["securityContext"], pod.container["securityContext"]
        assert inner["readOnlyRootFilesystem"] and inner["capabilities"] == {"drop": ["ALL"]}
        assert not inner["allowPrivilegeEscalation"] and security["runAsNonRoot"]
        command = [] if "command" not in pod.container else [f"--entrypoint={json.dumps(pod.container['command'])}"]
        self.publish(pod, not workload.named_when_ready)
        self.containers.podman(
            "run", "--detach", "--pull=never", f"--name={pod.name}", f"--hostname={pod.hostname}",
            f"--network={self.network}:ip={pod.address}", f"--dns={self.subnet}.1",
            f"--user={security['runAsUser']}:{security['runAsGroup']}", "--read-only", "--read-only-tmpfs=false",
            "--cap-drop=ALL", "--security-opt=no-new-privileges",
            f"--memory={in_bytes(pod.container['resources']['limits']['memory'])}", *self.mounts(pod),
            *[f"--env={name}={value}" for name, value in variables.items()], *command, pod.container["image"],
            *[workloads.expand(argument, variables) for argument in pod.container["args"]])
        self.keep_bridge_address()

    def keep_bridge_address(self):
        """Keeps a bridge's address, which is, if no udev sets it, the lowest of its ports': it changes as pods come and
        go, and what others send to the gateway, the DNS, is lost until they ask for its address again (up to a minute)."""
        address = (self.bridge / "address").read_text().strip()
        subprocess.run(["ip", "link", "set", "dev", self.bridge.name, "address", address], check=True)

    def control(self):
        """The controllers' loop."""
        try:
            while not self.ending.wait(0.2):
                with self.lock:
                    states = self.containers.states()
                    for workload in self.workloads.values():
                        for index, pod in list(workload.pods.items()):
                            running, code = states.get(pod.name, (True, None))
                            if not running and not pod.stopping:
                                self.ended(workload, index, pod, code)
                            elif workload.named_when_ready and not pod.stopping:
                                ready = self.passes(pod, "startupProbe") and self.passes(pod, "readinessProbe")
                                self.publish(pod, ready)
        except Exception as error:  # shown by the waiting thread  pylint: disable=broad-exception-caught
            self.error = error

    def ended(self, workload, index, pod, code):
        self.saw_end(pod, code)
        restarts = sum(group.restarts for group in self.groups)
        again = workload.ended(index, code)
        assert restarts == sum(group.restarts for group in self.groups), f"{pod.name}: its set starts again: not known"
        pod.stopping = not again
        if again:
            time.sleep(BACKOFF_SECONDS)
            if workload.in_place:
                self.containers.podman("start", pod.name)
            else:
                self.containers.podman("rm", "--force", pod.name)
                self.create(workload, index)
        self.clean()

    def clean(self):
        """Ends the pods of what failed, and of what a group's end takes along."""
        pods = [pod for workload in self.workloads.values() if workload.is_over() for pod in workload.pods.values()
                if not pod.stopping]
        if not pods:
            return
        for pod in pods:
            pod.stopping = True
        self.cleaners.append(threading.Thread(target=self.end, args=(pods,)))
        self.cleaners[-1].start()

    def publish(self, pod, is_named):
        pod.is_named = is_named
        name = f"{pod.hostname}.{pod.workload.domain}"
        if is_named:
            self.names[name] = pod.address
        else:
            self.names.pop(name, None)

    def saw_end(self, pod, code):
        self.exits.append((pod.hostname, code))
        self.logs[pod.hostname] = self.logs.get(pod.hostname, "") + self.log_of(pod)

    def log_of(self, pod):
        return self.containers.logs(pod.name)

    # These do what a person does with kubectl.

    def kill(self, hostname):
        """The process is gone, as after running out of memory."""
        self.containers.podman("kill", "--signal=KILL", self.pod(hostname).name)

    def lose(self, hostname):
        """The pod is gone with its node; the StatefulSet makes another one, with another address."""
        with self.lock:
            pod = self.pod(hostname)
            pod.stopping = True
            self.containers.podman("rm", "--force", "--time=0", pod.name)
            self.exits.append((hostname, 137))
            self.create(pod.workload, pod.index)

    def delete(self, *names):
        """Deletes workloads at once, each pod by its preStop, SIGTERM and grace period. Returns host name -> exit code."""
        with self.lock:
            pods = [pod for name in names for pod in self.workloads[name].pods.values()]
            for pod in pods:
                pod.stopping = True
        codes = self.end(pods)
        with self.lock:
            for pod in pods:
                pod.workload.pods.pop(pod.index)
        return codes

    def end(self, pods):
        """Each by its preStop, SIGTERM and grace period, all at once."""
        codes, threads = {}, []
        for pod in pods:
            threads.append(threading.Thread(target=lambda p=pod: codes.update({p.hostname: self.terminate(p)})))
            threads[-1].start()
        for thread in threads:
            thread.join()
        with self.lock:
            for pod in pods:
                self.saw_end(pod, codes[pod.hostname])
                self.containers.podman("rm", "--force", pod.name)
                self.publish(pod, False)
        return codes

    def terminate(self, pod):
        deadline = time.monotonic() + pod.spec["terminationGracePeriodSeconds"]
        sleep = pod.container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        sent = None
        begin = time.monotonic()
        while True:
            running, code = self.containers.states()[pod.name]
            if not running:
                return code
            if sent is None and time.monotonic() >= begin + sleep:
                self.containers.podman("kill", "--signal=TERM", pod.name, check=False)
                sent = time.monotonic()
            if time.monotonic() >= deadline:
                self.containers.podman("kill", "--signal=KILL", pod.name, check=False)
            time.sleep(0.1)

    def pod(self, hostname):
        with self.lock:
            return next(p for w in self.workloads.values() for p in w.pods.values() if p.hostname == hostname)

    def is_ready(self, hostname):
        return self.passes(self.pod(hostname), "readinessProbe")

    @staticmethod
    def passes(pod, which):
        probe = pod.container.get(which)
        if probe is None:
            return True
        action = probe.get("httpGet") or probe["tcpSocket"]
        port = next((p["containerPort"] for p in pod.container["ports"] if p["name"] == action["port"]), action["port"])
        try:
            if "httpGet" in probe:
                with urllib.request.urlopen(f"http://{pod.address}:{port}{action['path']}", timeout=2) as answer:
                    return answer.status == 200
            socket.create_connection((pod.address, port), timeout=2).close()
            return True
        except (OSError, urllib.error.URLError):
            return False

    def wait(self, condition, seconds, what):
        def done():
            if self.error:
                raise self.error
            for failed in [*self.groups, *self.workloads.values()]:
                assert failed.outcome in (None, COMPLETE) or failed.name in self.may_fail, (
                    f"{failed.name}: {failed.outcome}\n{self.all_logs()}")
            return condition()
        wait_until(done, seconds, lambda: f"{what}; ended: {self.exits}\n{self.all_logs()}")

    def wait_done(self, seconds):
        """Waits until every Job that stands by itself, and every group, is done."""
        awaited = [w for w in self.workloads.values() if w.group is None and w.kind != "StatefulSet"] + self.groups
        self.wait(lambda: all(w.outcome for w in awaited), seconds, "the jobs complete")

    def all_logs(self):
        with self.lock:
            parts = [f"--- {name}\n{text}" for name, text in self.logs.items()]
            parts += [f"--- {p.name}\n{self.log_of(p)}" for w in self.workloads.values() for p in w.pods.values()]
        return "\n".join(parts)
