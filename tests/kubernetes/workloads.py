"""Simulates what Kubernetes' controllers make of manifests: pods, and what each exit code leads to. It knows nothing of
containers; tests/cluster/pods.py runs the pods.

A Workload is what makes pods of one template: a StatefulSet, an Indexed Job, the replicas of one type of a TFJob. Job
and StatefulSet stand by themselves or belong to a JobSet; each of these groups has an outcome that ends its members.
"""
import json
import re

COMPLETE = "Complete"


class Workload:
    """A StatefulSet, an Indexed Job or the tasks of one type of a TFJob, and how its pods are doing."""

    def __init__(self, kind, name, spec, domain, group=None):
        self.kind = kind
        self.name = name
        self.spec = spec
        self.template = spec["template"]
        self.domain = domain  # what follows a host name in the DNS
        self.group = group
        self.count = spec["completions"] if kind == "Job" else spec["replicas"]
        rule = self.template["spec"].get("restartPolicy", "Always")
        assert kind != "Job" or (spec["completionMode"] == "Indexed" and rule != "Always")
        self.in_place = kind == "StatefulSet" or rule == "OnFailure"
        # The Services of the training operator name only pods that are ready.
        self.named_when_ready = kind == "TFJob"
        self.variables = {}  # name -> value of an index, that the controller adds
        self.pods = {}  # index -> the pod there is, or the last one there was
        self.succeeded = set()  # indices
        self.failed_indices = set()
        self.failures = {}  # index -> how many tries count against the limit
        self.outcome = None  # COMPLETE, or the reason why it failed

    def verdict(self, code):
        """Returns what its rules say of an exit code: FailJob, FailIndex, Ignore, Count."""
        if self.kind == "TFJob":
            assert self.spec["restartPolicy"] == "ExitCode"
            return "FailJob" if code < 128 else "Ignore"
        for rule in self.spec.get("podFailurePolicy", {}).get("rules", []):
            on_codes = rule.get("onExitCodes")
            if on_codes and (code in on_codes["values"]) == (on_codes["operator"] == "In"):
                return rule["action"]
        return "Count"

    def ended(self, index, code):
        """A pod has ended. Returns whether its controller starts the index again."""
        if self.kind == "StatefulSet":
            return True
        if code == 0:
            self.succeeded.add(index)
        else:
            self.fail(index, self.verdict(code))
        done = self.succeeded | self.failed_indices
        if self.outcome is None and len(done) == self.count:
            self.outcome = "FailedIndexes" if self.failed_indices else COMPLETE
        if self.group and self.outcome:
            self.group.judge(self)
        return self.outcome is None and index not in done

    def fail(self, index, action):
        if action == "FailJob":
            self.outcome = "PodFailurePolicy"
        elif action == "FailIndex":
            self.failed_indices.add(index)
        elif action == "Count":
            self.failures[index] = self.failures.get(index, 0) + 1
            if "backoffLimitPerIndex" in self.spec:
                if self.failures[index] > self.spec["backoffLimitPerIndex"]:
                    self.failed_indices.add(index)
            elif sum(self.failures.values()) > self.spec.get("backoffLimit", 6):
                self.outcome = "BackoffLimitExceeded"

    def is_over(self):
        """Returns whether its pods that still run are deleted: what failed takes its other pods along, and so does a
        group."""
        if self.group and self.group.outcome:
            return True
        return self.outcome not in (None, COMPLETE)


class JobSet:
    """Its Jobs, and what its policies make of their outcomes."""

    def __init__(self, document):
        self.name, self.spec = document["metadata"]["name"], document["spec"]
        self.outcome = None
        self.restarts = 0
        self.members = {}
        domain, coordinator = self.spec["network"]["subdomain"], self.spec["coordinator"]
        host = f"{self.name}-{coordinator['replicatedJob']}-{coordinator['jobIndex']}-{coordinator['podIndex']}"
        for job in self.spec["replicatedJobs"]:
            assert job["replicas"] == 1
            made = Workload("Job", f"{self.name}-{job['name']}-0", job["template"]["spec"], domain, group=self)
            metadata = made.template.setdefault("metadata", {})
            metadata.setdefault("labels", {}).update({"jobset.sigs.k8s.io/jobset-name": self.name,
                                                      "jobset.sigs.k8s.io/replicatedjob-name": job["name"]})
            metadata.setdefault("annotations", {})["jobset.sigs.k8s.io/coordinator"] = f"{host}.{domain}"
            self.members[job["name"]] = made

    def judge(self, member):
        """A member has an outcome. A failure comes first, as in the controller."""
        if self.outcome:
            return
        if member.outcome != COMPLETE:
            self.apply_failure_policy(next(name for name, m in self.members.items() if m is member), member.outcome)
            return
        policy = self.spec.get("successPolicy", {"operator": "All"})
        wanted = [self.members[name].outcome == COMPLETE
                  for name in policy.get("targetReplicatedJobs") or self.members]
        if all(wanted) if policy["operator"] == "All" else any(wanted):
            self.outcome = COMPLETE

    def apply_failure_policy(self, name, reason):
        policy = self.spec.get("failurePolicy")
        rule = next((rule for rule in policy["rules"] if name in rule.get("targetReplicatedJobs", [name])
                     and reason in rule.get("onJobFailureReasons", [reason])), {}) if policy else {"action": "FailJobSet"}
        action = rule.get("action", "RestartJobSet")
        if action == "RestartJobSet" and self.restarts < policy.get("maxRestarts", 0):
            self.restarts += 1  # The runner of the pods does the rest.
            return
        assert action in ("FailJobSet", "RestartJobSet"), action
        self.outcome = f"{name}: {reason}"


class TfJob:
    """Its replicas: done when the chief is, failed with the first exit code below 128 of any of them."""

    def __init__(self, document):
        self.name, self.spec = document["metadata"]["name"], document["spec"]
        self.outcome = None
        self.restarts = 0
        assert self.spec["runPolicy"]["cleanPodPolicy"] == "Running"
        replicas = {job.lower(): replica for job, replica in self.spec["tfReplicaSpecs"].items()}
        addresses = {job: [f"{self.name}-{job}-{i}.default.svc:2222" for i in range(replica["replicas"])]
                     for job, replica in replicas.items()}
        self.members = {}
        for job, replica in replicas.items():
            made = Workload("TFJob", f"{self.name}-{job}", replica, "default.svc", group=self)
            assert made.template["spec"]["containers"][0]["name"] == "tensorflow"
            made.variables["TF_CONFIG"] = lambda index, job=job: json.dumps(
                {"cluster": addresses, "task": {"type": job, "index": index}, "environment": "cloud"})
            self.members[job] = made

    def judge(self, member):
        if self.outcome:
            return
        if member.outcome != COMPLETE:
            self.outcome = f"{member.name} failed"
        elif member is self.members["chief"]:
            self.outcome = COMPLETE


def workloads_of(documents):
    """(groups, workloads) of manifests."""
    groups, workloads = [], []
    for document in documents:
        kind, name, spec = document["kind"], document["metadata"]["name"], document.get("spec", {})
        if kind == "StatefulSet":
            workloads.append(Workload("StatefulSet", name, spec, spec["serviceName"]))
        elif kind == "Job":
            workloads.append(Workload("Job", name, spec, spec["template"]["spec"]["subdomain"]))
        elif kind in ("JobSet", "TFJob"):
            groups.append({"JobSet": JobSet, "TFJob": TfJob}[kind](document))
            workloads += groups[-1].members.values()
    return groups, workloads


def expand(text, variables):
    """$(NAME) as in arguments of containers."""
    return re.sub(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)", lambda m: variables.get(m[1], m[0]), text)
