"""Runs rendered manifests as Kubernetes would, on this machine: podman for the containers, this for the rest.

The controllers: StatefulSets, Indexed Jobs, JobSets and TFJobs become pods with the names, labels, host names and
variables that their controllers give them; what ends is started again by their rules (in its pod; as a new pod; not at
all after a permanent exit code). The kubelet: environment, arguments, volumes, security context, limits, probes, preStop and SIGTERM. The DNS
of the headless Service: each pod's HOSTNAME.SUBDOMAIN.

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
import threading
import time
import urllib.error
import urllib.request

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
        self.stopping = False

    @property
    def spec(self):
        return self.workload.template["spec"]

    @property
    def container(self):
        return self.spec["containers"][0]


class Workload:
    """A StatefulSet, an Indexed Job or the tasks of one type of a TFJob, and how its pods are doing."""

    def __init__(self, kind, name, spec, domain, awaited=True):
        self.kind = kind
        self.name = name
        self.spec = spec
        self.template = spec["template"]
        self.domain = domain  # what follows a host name in the DNS
        self.awaited = awaited and kind != "StatefulSet"  # its success is the run's
        self.count = spec["completions"] if kind == "Job" else spec["replicas"]
        rule = self.template["spec"].get("restartPolicy", "Always")
        assert kind != "Job" or (spec["completionMode"] == "Indexed" and rule != "Always")
        self.in_place = kind == "StatefulSet" or rule == "OnFailure"
        self.variables = {}  # that the controller adds
        self.pods = {}  # index -> the pod there is, or the last one there was
        self.succeeded = set()  # indices
        self.failures = {}  # index -> how many tries failed
        self.failed = None  # why

    def verdict(self, code):
        """What its rules say of an exit code: FailJob, Ignore, Count."""
        if self.kind == "TFJob":
            assert self.spec["restartPolicy"] == "ExitCode"
            return "FailJob" if code < 128 else "Count"
        for rule in self.spec.get("podFailurePolicy", {}).get("rules", []):
            on_codes = rule.get("onExitCodes")
            if on_codes and on_codes["operator"] == "In" and code in on_codes["values"]:
                return rule["action"]
        return "Count"

    def limit(self):
        return self.spec.get("backoffLimitPerIndex", self.spec.get("backoffLimit", 6))


def workloads_of(document):
    name, spec = document["metadata"]["name"], document.get("spec", {})
    if document["kind"] == "StatefulSet":
        return [Workload("StatefulSet", name, spec, spec["serviceName"])]
    if document["kind"] == "Job":
        return [Workload("Job", name, spec, spec["template"]["spec"]["subdomain"])]
    if document["kind"] == "JobSet":
        return list(workloads_of_jobset(name, spec))
    if document["kind"] == "TFJob":
        return list(workloads_of_tfjob(name, spec))
    return []


def workloads_of_jobset(name, spec):
    domain, coordinator = spec["network"]["subdomain"], spec["coordinator"]
    for job in spec["replicatedJobs"]:
        made = Workload("Job", f"{name}-{job['name']}-0", job["template"]["spec"], domain,
                        awaited=job["name"] in spec["successPolicy"]["targetReplicatedJobs"])
        metadata = made.template.setdefault("metadata", {})
        metadata.setdefault("labels", {}).update({"jobset.sigs.k8s.io/jobset-name": name,
                                                  "jobset.sigs.k8s.io/replicatedjob-name": job["name"]})
        host = f"{name}-{coordinator['replicatedJob']}-{coordinator['jobIndex']}-{coordinator['podIndex']}"
        metadata.setdefault("annotations", {})["jobset.sigs.k8s.io/coordinator"] = f"{host}.{domain}"
        yield made


def workloads_of_tfjob(name, spec):
    replicas = {job.lower(): replica for job, replica in spec["tfReplicaSpecs"].items()}
    addresses = {job: [f"{name}-{job}-{i}.default.svc:2222" for i in range(replica["replicas"])]
                 for job, replica in replicas.items()}
    for job, replica in replicas.items():
        made = Workload("TFJob", f"{name}-{job}", replica, "default.svc", awaited=job == "chief")
        assert made.template["spec"]["containers"][0]["name"] == "tensorflow"
        made.variables["TF_CONFIG"] = lambda index, job=job: json.dumps(
            {"cluster": addresses, "task": {"type": job, "index": index}, "environment": "cloud"})
        yield made


class Cluster:
    """The workloads of some manifests. Use as a context."""

    def __init__(self, containers, documents, folder):
        self.containers = containers
        self.folder = pathlib.Path(folder)
        self.config_maps = {d["metadata"]["name"]: d["data"] for d in documents if d["kind"] == "ConfigMap"}
        self.secrets = {d["metadata"]["name"]: d["stringData"] for d in documents if d["kind"] == "Secret"}
        self.claims = [d["metadata"]["name"] for d in documents if d["kind"] == "PersistentVolumeClaim"]
        self.workloads = {w.name: w for document in documents for w in workloads_of(document)}
        self.network = f"pods{random.randrange(10**6)}"
        self.exits = []  # (host name, exit code), in the order seen
        self.logs = {}  # host name -> what its pods wrote
        self.lock = threading.RLock()
        self.ending = threading.Event()
        self.controller = threading.Thread(target=self.control, daemon=True)
        self.error = None

    def __enter__(self):
        self.containers.podman("network", "create", self.network)
        inspected = json.loads(self.containers.podman("network", "inspect", self.network))
        self.subnet = inspected[0]["subnets"][0]["subnet"].rsplit(".", 1)[0]
        self.bridge = pathlib.Path("/sys/class/net") / inspected[0]["network_interface"]
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
        for workload in self.workloads.values():
            for pod in workload.pods.values():
                self.containers.podman("rm", "--force", "--time=0", pod.name, check=False)
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
        expand = lambda text: re.sub(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)", lambda m: variables.get(m[1], m[0]), text)
        security, inner = pod.spec["securityContext"], pod.container["securityContext"]
        assert inner["readOnlyRootFilesystem"] and inner["capabilities"] == {"drop": ["ALL"]}
        assert not inner["allowPrivilegeEscalation"] and security["runAsNonRoot"]
        command = [] if "command" not in pod.container else [f"--entrypoint={json.dumps(pod.container['command'])}"]
        self.containers.podman(
            "run", "--detach", "--pull=never", f"--name={pod.name}", f"--hostname={pod.hostname}",
            f"--network={self.network}:ip={pod.address},alias={pod.hostname}.{workload.domain}",
            f"--user={security['runAsUser']}:{security['runAsGroup']}", "--read-only", "--read-only-tmpfs=false",
            "--cap-drop=ALL", "--security-opt=no-new-privileges",
            f"--memory={in_bytes(pod.container['resources']['limits']['memory'])}", *self.mounts(pod),
            *[f"--env={name}={value}" for name, value in variables.items()], *command, pod.container["image"],
            *[expand(argument) for argument in pod.container["args"]])
        self.keep_bridge_address()

    def keep_bridge_address(self):
        """Where no udev sets it, a bridge's address is the lowest of its ports': it changes as pods come and go, and
        what others send to the gateway, the DNS, is lost until they ask for its address again (up to a minute)."""
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
        except AssertionError as error:  # shown by whoever waits
            self.error = error

    def ended(self, workload, index, pod, code):
        if index in workload.succeeded or workload.failed:
            return
        self.saw_end(pod, code)
        if code == 0 and workload.kind != "StatefulSet":
            workload.succeeded.add(index)
            return
        workload.failures[index] = workload.failures.get(index, 0) + 1
        if workload.kind != "StatefulSet" and (workload.verdict(code) == "FailJob" or
                                               workload.failures[index] > workload.limit()):
            workload.failed = f"{pod.name} ended with {code}"
            return
        time.sleep(BACKOFF_SECONDS)
        if workload.in_place:
            self.containers.podman("start", pod.name)
        else:
            self.containers.podman("rm", "--force", pod.name)
            self.create(workload, index)

    def saw_end(self, pod, code):
        self.exits.append((pod.hostname, code))
        self.logs[pod.hostname] = self.logs.get(pod.hostname, "") + self.log_of(pod)

    def log_of(self, pod):
        return self.containers.logs(pod.name)

    # What a person does with kubectl

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
        codes, threads = {}, []
        with self.lock:
            pods = [pod for name in names for pod in self.workloads[name].pods.values()]
            for pod in pods:
                pod.stopping = True
        for pod in pods:
            threads.append(threading.Thread(target=lambda p=pod: codes.update({p.hostname: self.terminate(p)})))
            threads[-1].start()
        for thread in threads:
            thread.join()
        with self.lock:
            for pod in pods:
                self.saw_end(pod, codes[pod.hostname])
                self.containers.podman("rm", "--force", pod.name)
                pod.workload.pods.pop(pod.index)
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

    def is_ready(self, hostname, which="readinessProbe"):
        pod = self.pod(hostname)
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
            for workload in self.workloads.values():
                assert not workload.failed, f"{workload.name}: {workload.failed}\n{self.all_logs()}"
            return condition()
        wait_until(done, seconds, lambda: f"{what}; ended: {self.exits}\n{self.all_logs()}")

    def wait_done(self, seconds):
        """Until every Job whose success counts has succeeded."""
        jobs = [w for w in self.workloads.values() if w.awaited]
        self.wait(lambda: all(len(j.succeeded) == j.count for j in jobs), seconds, "the jobs complete")

    def all_logs(self):
        with self.lock:
            parts = [f"--- {name}\n{text}" for name, text in self.logs.items()]
            parts += [f"--- {p.name}\n{self.log_of(p)}" for w in self.workloads.values() for p in w.pods.values()]
        return "\n".join(parts)
