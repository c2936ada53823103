"""Finds what a cluster refuses, or takes and never acts on, although every field of it is known: the rules of the API
server and of JobSet's webhook for what we use, and names that must be somewhere else, too. Each function gives one line for
everything wrong."""
import re

# JobSet has RestartJob and RestartJobAndIgnoreMaxRestarts, too; its webhook refuses them unless an alpha feature is on.
JOBSET_ACTIONS = ("FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts")
JOB_FAILURE_REASONS = ("BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded",
                       "PodFailurePolicy")
JOB_ACTIONS = ("FailJob", "FailIndex", "Ignore", "Count")
TFJOB_RESTART_POLICIES = ("Always", "OnFailure", "Never", "ExitCode")
DNS_PORT = 53
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
# Kinds of which a budget knows how many pods they want; of others it can only count those that there are.
SCALED = ("StatefulSet", "Deployment")


def errors_of(documents):
    """Returns the errors of all that is applied together."""
    found = [error for document in documents for error in document_errors(document)]
    pods = [pod for document in documents for pod in pods_of(document)]
    return found + port_errors(documents, pods) + budget_errors(documents, pods)


def document_errors(document):
    where = f"{document['kind']} {document['metadata']['name']}"
    return [f"{where}: {error}" for error in CHECKS.get(document["kind"], lambda _: [])(document)]


def pods_of(document):
    """(kind of what holds them, number, template) of the pods in a document."""
    kind, spec = document["kind"], document.get("spec", {})
    if kind == "StatefulSet":
        yield kind, spec["replicas"], spec["template"]
    elif kind == "Job":
        yield kind, spec["completions"], spec["template"]
    elif kind == "Pod":
        yield kind, 1, document
    elif kind == "TFJob":
        for replica in spec["tfReplicaSpecs"].values():
            yield kind, replica["replicas"], replica["template"]
    elif kind in ("JobSet", "TrainingRuntime"):
        for job in jobs_of(document):
            job_spec = job["template"]["spec"]
            yield kind, job["replicas"] * job_spec["completions"], job_spec["template"]


def jobs_of(document):
    spec = document["spec"] if document["kind"] == "JobSet" else document["spec"]["template"]["spec"]
    return spec["replicatedJobs"]


# One document

def job_errors(document):
    return job_spec_errors(document["spec"])


def job_spec_errors(spec):
    pod = spec["template"]["spec"]
    names = [container["name"] for container in pod["containers"]]
    per_index = "backoffLimitPerIndex" in spec
    if per_index and (spec.get("completionMode") != "Indexed" or pod.get("restartPolicy") != "Never"):
        yield "backoffLimitPerIndex: wants completionMode Indexed and restartPolicy Never"
    if "podFailurePolicy" not in spec:
        return
    if pod.get("restartPolicy") != "Never":
        yield "podFailurePolicy: wants restartPolicy Never"
    if spec.get("podReplacementPolicy", "Failed") != "Failed":
        yield "podReplacementPolicy: must be Failed where there is a podFailurePolicy"
    for rule in spec["podFailurePolicy"]["rules"]:
        if rule["action"] not in JOB_ACTIONS:
            yield f"podFailurePolicy: action {rule['action']}: not one of {', '.join(JOB_ACTIONS)}"
        if rule["action"] == "FailIndex" and not per_index:
            yield "podFailurePolicy: action FailIndex: wants backoffLimitPerIndex"
        if ("onExitCodes" in rule) == ("onPodConditions" in rule):
            yield "podFailurePolicy: a rule wants one of onExitCodes and onPodConditions"
        codes = rule.get("onExitCodes", {"values": [1]})
        if codes.get("containerName", names[0]) not in names:
            yield f"podFailurePolicy: there is no container {codes['containerName']}"
        if not codes["values"] or codes["values"] != sorted(set(codes["values"])):
            yield "podFailurePolicy: values: must be there, in order, and each once"
        if codes.get("operator") == "In" and 0 in codes["values"]:
            yield "podFailurePolicy: values: 0 is not a failure"


def jobset_errors(document):
    spec = document["spec"] if document["kind"] == "JobSet" else document["spec"]["template"]["spec"]
    jobs = {job["name"]: job for job in spec["replicatedJobs"]}
    for name, job in jobs.items():
        for error in job_spec_errors(job["template"]["spec"]):
            yield f"{name}: {error}"
    for target in spec.get("successPolicy", {}).get("targetReplicatedJobs", []):
        if target not in jobs:
            yield f"successPolicy: there is no job {target}"
    rules = spec.get("failurePolicy", {}).get("rules", [])
    if len({rule["name"] for rule in rules}) != len(rules):
        yield "failurePolicy: two rules have one name"
    for rule in rules:
        if not re.fullmatch(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", rule["name"]):
            yield f"failurePolicy: {rule['name']}: is not the name of a rule"
        if rule["action"] not in JOBSET_ACTIONS:
            yield f"failurePolicy: {rule['name']}: action {rule['action']}: not one of {', '.join(JOBSET_ACTIONS)}"
        for target in rule.get("targetReplicatedJobs", []):
            if target not in jobs:
                yield f"failurePolicy: {rule['name']}: there is no job {target}"
        for reason in rule.get("onJobFailureReasons", []):
            if reason not in JOB_FAILURE_REASONS:
                yield f"failurePolicy: {rule['name']}: {reason}: no Job fails for that"
    coordinator = spec.get("coordinator")
    if coordinator and (coordinator["replicatedJob"] not in jobs or
                        coordinator["jobIndex"] >= jobs[coordinator["replicatedJob"]]["replicas"]):
        yield f"coordinator: there is no {coordinator['replicatedJob']} {coordinator['jobIndex']}"


def tfjob_errors(document):
    for job, replica in document["spec"]["tfReplicaSpecs"].items():
        if replica["restartPolicy"] not in TFJOB_RESTART_POLICIES:
            yield f"{job}: restartPolicy {replica['restartPolicy']}: not one of {', '.join(TFJOB_RESTART_POLICIES)}"
        if "restartPolicy" in replica["template"]["spec"]:
            yield f"{job}: the template's restartPolicy is overwritten"
        containers = {c["name"]: c for c in replica["template"]["spec"]["containers"]}
        if "tensorflow" not in containers:
            yield f"{job}: no container is called tensorflow"


def stateful_set_errors(document):
    strategy = document["spec"].get("updateStrategy", {}).get("type", "RollingUpdate")
    if strategy not in ("RollingUpdate", "OnDelete"):
        yield f"updateStrategy: {strategy}: not one of RollingUpdate, OnDelete"


CHECKS = {"Job": job_errors, "JobSet": jobset_errors, "TrainingRuntime": jobset_errors, "TFJob": tfjob_errors,
          "StatefulSet": stateful_set_errors}


# These check what one document says of another.

def ports_of(template):
    """Name -> number of the ports of a pod."""
    return {port["name"]: port["containerPort"] for container in template["spec"]["containers"]
            for port in container.get("ports", [])}


def selected(pods, selector):
    wanted = (selector or {}).get("matchLabels", {})
    for _, _, template in pods:
        labels = template.get("metadata", {}).get("labels", {})
        if all(labels.get(key) == value for key, value in wanted.items()):
            yield template


def port_errors(documents, pods):
    """A port, by name or number, that no pod it is meant for has."""
    found = []
    for document in documents:
        where, spec = f"{document['kind']} {document['metadata']['name']}", document.get("spec", {})
        if document["kind"] == "NetworkPolicy":
            own = list(selected(pods, spec["podSelector"]))
            for rule in spec.get("ingress", []):
                found += unknown_ports(where, rule, own)
            for rule in spec.get("egress", []):
                there = [t for peer in rule.get("to", []) for t in selected(pods, peer.get("podSelector"))]
                found += unknown_ports(where, rule, there)
        elif document["kind"] == "Service":
            own = list(selected(pods, {"matchLabels": spec["selector"]}))
            found += [f"{where}: targetPort {port['targetPort']}: no pod has it" for port in spec["ports"]
                      if not any(has_port(template, port["targetPort"]) for template in own)]
        elif document["kind"] == "PodMonitor":
            found += [f"{where}: port {end['port']}: a pod has it not" for end in spec["podMetricsEndpoints"]
                      for template in selected(pods, spec["selector"]) if end["port"] not in ports_of(template)]
    for _, _, template in pods:
        for container in template["spec"]["containers"]:
            for probe in PROBES:
                for action in container.get(probe, {}).values():
                    if isinstance(action, dict) and "port" in action and not has_port(template, action["port"]):
                        found.append(f"{probe}: port {action['port']}: the pod has it not")
    return found


def unknown_ports(where, rule, templates):
    return [f"{where}: port {port['port']}: no pod has it" for port in rule.get("ports", [])
            if port["port"] != DNS_PORT and not any(has_port(template, port["port"]) for template in templates)]


def has_port(template, port):
    ports = ports_of(template)
    return port in (ports if isinstance(port, str) else ports.values())


def budget_errors(documents, pods):
    """A budget that lets no pod go, ever: it blocks each drain of a node."""
    found = []
    for document in documents:
        if document["kind"] != "PodDisruptionBudget":
            continue
        where, spec = f"PodDisruptionBudget {document['metadata']['name']}", document["spec"]
        if ("minAvailable" in spec) == ("maxUnavailable" in spec):
            found.append(f"{where}: has not one of minAvailable and maxUnavailable")
        own = list(selected(pods, spec["selector"]))
        held = [(kind, number) for kind, number, template in pods if any(template is t for t in own)]
        if not held:
            found.append(f"{where}: selects no pod")
        if any(kind not in SCALED for kind, _ in held) and not isinstance(spec.get("minAvailable"), int):
            found.append(f"{where}: lets none go of pods that no {' or '.join(SCALED)} owns; "
                         "it wants minAvailable, a number")
        elif isinstance(spec.get("minAvailable"), int) and spec["minAvailable"] >= sum(n for _, n in held):
            found.append(f"{where}: minAvailable {spec['minAvailable']}: lets no pod go")
    return found
