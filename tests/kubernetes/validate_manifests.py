"""Strict validation of manifests; run by tests/kubernetes/validate, which has the packages.

Core kinds: JSON schemas that allow no unknown field. JobSet, TFJob, TrainingRuntime, TrainJob: through their model
classes and back; what is lost on the way is a field that they do not know. Pods and Jobs inside them are checked as
core kinds again, since those models know pods loosely. Then what no schema says: admission.py.
"""
import copy
import functools
import json
import pathlib
import re
import subprocess
import sys
import time

import kubernetes_validate
import yaml
from kubeflow.training import KubeflowOrgV1TFJob
from kubeflow.training.api_client import ApiClient
from kubeflow_trainer_api import models as trainer_models

import admission

VERSIONS = ("1.34", "1.35", "1.36")
ROOT = pathlib.Path(__file__).resolve().parents[2]
RENDER = ROOT / "deploy" / "kubernetes" / "render"
COPY_POD = ROOT / "deploy" / "kubernetes" / "copy_pod.yaml"
RUN = ROOT / "deploy" / "runs" / "fashion_mlp.textproto"
PYDANTIC = {"JobSet": "JobsetV1alpha2JobSet", "TrainingRuntime": "TrainerV1alpha1TrainingRuntime",
            "TrainJob": "TrainerV1alpha1TrainJob"}

# The Prometheus operator has no models in PyPI: the fields that are used here, by their path.
POD_MONITOR = {"apiVersion", "kind", "metadata", "spec", "spec.selector", "spec.selector.matchLabels",
               "spec.podMetricsEndpoints", "spec.podMetricsEndpoints.port", "spec.podMetricsEndpoints.path",
               "spec.podMetricsEndpoints.interval"}
PROMETHEUS_RULE = {"apiVersion", "kind", "metadata", "spec", "spec.groups", "spec.groups.name", "spec.groups.rules",
                   "spec.groups.interval", "spec.groups.rules.alert", "spec.groups.rules.expr", "spec.groups.rules.for",
                   "spec.groups.rules.record", "spec.groups.rules.labels", "spec.groups.rules.annotations"}
LISTED = {"PodMonitor": POD_MONITOR, "PrometheusRule": PROMETHEUS_RULE}
FREE = ("metadata", "matchLabels", "labels", "annotations")

# Reading the definitions is most of the time.
kubernetes_validate.utils.schema_contents = functools.lru_cache(kubernetes_validate.utils.schema_contents)


def errors_of(document):
    """One line for everything wrong with a document: its fields, or else what else a cluster asks of it."""
    return schema_errors(document) or admission.document_errors(document)


def schema_errors(document):
    kind = document.get("kind")
    if kind in PYDANTIC:
        return model_errors(document, kind) + inner_errors(document, kind)
    if kind == "TFJob":
        return tfjob_errors(document)
    if kind in LISTED:
        return (rule_errors(document) if kind == "PrometheusRule" else []) + [f"{kind}: {path}: unknown field" for path in sorted(paths(document) - LISTED[kind])]
    return core_errors(document, kind)


def rule_errors(document):
    """Checks rules by the operator's own schema; promtool checks their expressions."""
    errors = []
    for group in document["spec"].get("groups", []):
        for rule in group.get("rules", []):
            name = f"PrometheusRule: {rule.get('alert') or rule.get('record')}"
            if ("alert" in rule) == ("record" in rule):
                errors.append(f"{name}: has not one of alert and record")
            if not isinstance(rule.get("expr"), (str, int)):
                errors.append(f"{name}: expr: is missing")
            if not re.fullmatch(r"([0-9]+(ms|[smhdwy]))+|0", rule.get("for", "0")):
                errors.append(f"{name}: for: is not a duration")
            for key in ("labels", "annotations"):
                if not all(isinstance(value, str) for value in rule.get(key, {}).values()):
                    errors.append(f"{name}: {key}: a value is not a string")
    return errors


def core_errors(document, where):
    errors = []
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            path = ".".join(str(p) for p in error.path)
            errors.append(f"{where}: {version}: {path}: {error.message.splitlines()[0][:200]}")
        except kubernetes_validate.SchemaNotFoundError as error:
            errors.append(f"{where}: {version}: {error.message}")
    return errors


def model_errors(document, kind):
    model = getattr(trainer_models, PYDANTIC[kind])
    try:
        back = model.from_dict(copy.deepcopy(document)).to_dict()
    except ValueError as error:
        return [f"{kind}: {' '.join(str(error).split())[:300]}"]
    return [f"{kind}: {path}: unknown field" for path in lost(document, back)]


def inner_errors(document, kind):
    """Returns the errors of the Jobs inside, which are core kinds."""
    if kind == "TrainJob":
        return []
    spec = document["spec"] if kind == "JobSet" else document["spec"]["template"]["spec"]
    errors = []
    for job in spec["replicatedJobs"]:
        template = job["template"]
        errors += core_errors({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job["name"]},
                               "spec": template["spec"]}, f"{kind} {job['name']}")
    return errors


def tfjob_errors(document):
    class Response:  # what deserialize takes
        data = json.dumps(document)

    try:
        model = ApiClient().deserialize(Response, KubeflowOrgV1TFJob)
    except (ValueError, TypeError, AttributeError) as error:
        return [f"TFJob: {' '.join(str(error).split())[:300]}"]
    back = ApiClient().sanitize_for_serialization(model)
    errors = [f"TFJob: {path}: unknown field" for path in lost(document, back)]
    for job, replica in document["spec"]["tfReplicaSpecs"].items():
        if job not in ("PS", "Worker", "Chief", "Master", "Evaluator"):
            errors.append(f"TFJob: spec.tfReplicaSpecs.{job}: unknown replica type")
        template = replica.get("template", {})
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": template.get("metadata", {}), "spec": template.get("spec")}
        errors += core_errors(pod, f"TFJob {job}")
        if not any(c["name"] == "tensorflow" for c in template["spec"].get("containers", [])):
            errors.append(f"TFJob {job}: no container is called tensorflow")
    return errors


def lost(before, after, path=""):
    """Paths of fields of `before` that `after` has not, or has otherwise."""
    if isinstance(before, dict):
        if not isinstance(after, dict):
            return [path] if before else []
        found = []
        for key, value in before.items():
            inner = f"{path}.{key}" if path else key
            found += lost(value, after[key], inner) if key in after else [inner]
        return found
    if isinstance(before, list):
        if not isinstance(after, list) or len(before) != len(after):
            return [path] if before else []
        return [p for i, value in enumerate(before) for p in lost(value, after[i], f"{path}[{i}]")]
    return []


def paths(value, path=""):
    if isinstance(value, list):
        return {p for element in value for p in paths(element, path)}
    found = {path} if path else set()
    if isinstance(value, dict) and path.rsplit(".", 1)[-1] not in FREE:
        for key, element in value.items():
            found |= paths(element, f"{path}.{key}" if path else key)
    return found


def rendered(*flags):
    has_program = any(flag.startswith("--program=") for flag in flags)
    command = [str(RENDER), *([] if has_program else [f"--run={RUN}"]), "--image=registry.example/shoal:1", *flags]
    return list(yaml.safe_load_all(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def check(name, documents, together):
    """Prints and counts what is wrong. `together`: they are all of a run, and must fit each other."""
    errors = [e for document in documents for e in errors_of(document)]
    if together and not errors:
        errors = admission.errors_of(documents)
    if not documents:
        errors.append("no documents")
    print(f"{name}: " + (f"{len(documents)} documents" if not errors else "; ".join(errors[:5])))
    return 1 if errors else 0


RENDERINGS = ((), ("--overlay=local",), ("--overlay=gpu", "--gpus=2"), ("--overlay=monitoring",),
              ("--overlay=monitoring", "--alerts", "--monitoring_label=release=prometheus"), ("--overlay=tls",),
              ("--overlay=local,gpu,monitoring,tls", "--namespace=team", "--data_claim=images", "--storage_class=nfs",
               "--worker_program=/usr/bin/my_model", "--num_ps_tasks=3"),
              ("--format=jobset",), ("--format=tfjob",), ("--format=trainer",),
              ("--program=/app/train.py", "--data_claim=images"), ("--program=/app/train.py", "--format=jobset"),
              ("--format=jobset", "--overlay=gpu,tls"), ("--format=tfjob", "--overlay=gpu,tls"))

# (flags, kind, path to a mapping in it, a field that it has, the same misspelt)
MISSPELT = (
    ((), "StatefulSet", ("spec",), "serviceName", "serviceNam"),
    ((), "Job", ("spec",), "podFailurePolicy", "podFailurPolicy"),
    ((), "Job", ("spec", "template", "spec", "containers", 0, "securityContext"), "readOnlyRootFilesystem", "readOnlyRoot"),
    ((), "NetworkPolicy", ("spec",), "podSelector", "podSelectors"),
    ((), "PodDisruptionBudget", ("spec",), "maxUnavailable", "maxUnavailabel"),
    (("--overlay=monitoring",), "PodMonitor", ("spec",), "podMetricsEndpoints", "podMetricEndpoints"),
    (("--overlay=monitoring", "--alerts"), "PrometheusRule", ("spec", "groups", 0), "rules", "rule"),
    (("--overlay=monitoring", "--alerts"), "PrometheusRule", ("spec", "groups", 0, "rules", 0), "expr", "expression"),
    (("--overlay=monitoring", "--alerts"), "PrometheusRule", ("spec", "groups", 0, "rules", 0), "alert", "alerts"),
    (("--format=jobset",), "JobSet", ("spec",), "failurePolicy", "failurPolicy"),
    (("--format=jobset",), "JobSet", ("spec", "network"), "publishNotReadyAddresses", "publishNotReady"),
    (("--format=jobset",), "JobSet", ("spec", "replicatedJobs", 0, "template", "spec"), "completionMode", "completionMod"),
    (("--format=tfjob",), "TFJob", ("spec", "runPolicy"), "cleanPodPolicy", "cleanPodPolicies"),
    (("--format=tfjob",), "TFJob", ("spec", "tfReplicaSpecs"), "PS", "Server"),
    (("--format=tfjob",), "TFJob", ("spec", "tfReplicaSpecs", "PS", "template", "spec"), "containers", "container"),
    (("--format=trainer",), "TrainingRuntime", ("spec", "mlPolicy"), "numNodes", "numNode"),
    (("--format=trainer",), "TrainJob", ("spec", "trainer"), "numNodes", "numNode"))


def check_misspelt():
    """A misspelt field, or a number that is a string, does not pass."""
    failures = 0
    cache = {}
    for flags, kind, path, right, wrong in MISSPELT:
        documents = cache.setdefault(flags, rendered(*flags))
        document = copy.deepcopy(next(d for d in documents if d["kind"] == kind))
        place = document
        for key in path:
            place = place[key]
        place[wrong] = place.pop(right)
        if not errors_of(document):
            print(f"misspelt: {kind} {wrong} passes")
            failures += 1
    document = copy.deepcopy(next(d for d in cache[()] if d["kind"] == "StatefulSet"))
    document["spec"]["replicas"] = "2"
    if not errors_of(document):
        print("misspelt: replicas as a string passes")
        failures += 1
    document = copy.deepcopy(next(d for d in cache[("--format=jobset",)] if d["kind"] == "JobSet"))
    document["spec"]["failurePolicy"]["rules"][1]["action"] = "RestartJob"  # known to the model, refused by the webhook
    if not errors_of(document):
        print("misspelt: action RestartJob passes")
        failures += 1
    if not failures:
        print(f"misspelt: {len(MISSPELT) + 2} documents refused")
    return failures


def main():
    start = time.monotonic()
    failures = 0
    if len(sys.argv) > 1:
        for name in sys.argv[1:]:
            documents = yaml.safe_load_all(pathlib.Path(name).read_text(encoding="utf-8"))
            failures += check(name, [d for d in documents if d], together=False)
    else:
        failures += check("copy_pod.yaml", [yaml.safe_load(COPY_POD.read_text(encoding="utf-8"))], together=True)
        for flags in RENDERINGS:
            failures += check("render " + " ".join(flags), rendered(*flags), together=True)
        failures += check_misspelt()
    print(f"{failures} wrong; Kubernetes {', '.join(VERSIONS)}; {time.monotonic() - start:.1f} s")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
