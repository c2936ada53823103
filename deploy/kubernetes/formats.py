"""Puts the pods of a rendered base into a JobSet, a TFJob, or a TrainingRuntime with a TrainJob."""
import copy
import pathlib

import kustomize

FOLDER = pathlib.Path(__file__).resolve().parent

CHIEF_HOST = "shoal-chief-0.shoal:2222"

# Where a pod's index is, by who made the pod.
INDEX_OF_JOB = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
INDEX_OF_TFJOB = "metadata.labels['training.kubeflow.org/replica-index']"


def convert(documents, wanted):
    """`documents` of the base in the format `wanted`; what is no pod stays as it is."""
    if wanted == "kubernetes":
        return documents
    sources, others = {}, []
    for document in documents:
        if document["kind"] in ("StatefulSet", "Job"):
            sources[document["metadata"]["labels"]["app.kubernetes.io/component"]] = document
        elif document["kind"] != "Service":  # each of these makes its own
            others.append(document)
    namespace = sources["chief"]["metadata"].get("namespace")
    made = {"jobset": jobset, "tfjob": tfjob, "trainer": trainer}[wanted](sources)
    for document in made:
        if namespace:
            document["metadata"]["namespace"] = namespace
    return others + made


def jobset(sources):
    document = shell("jobset")[0]
    document["spec"]["replicatedJobs"] = [replicated_job(job, sources[job]) for job in sources]
    return [document]


def replicated_job(job, source):
    template = pod_template(source, chief_host="shoal-chief-0-0.shoal:2222", index=INDEX_OF_JOB)
    template["spec"].pop("subdomain", None)  # the set gives its own
    if source["kind"] == "Job":
        spec = {**copy.deepcopy(source["spec"]), "template": template}
    else:
        # In its pod a ps is back within a second, with the address that it had.
        template["spec"]["restartPolicy"] = "OnFailure"
        count = source["spec"]["replicas"]
        spec = {"completionMode": "Indexed", "completions": count, "parallelism": count, "backoffLimit": 100,
                "podReplacementPolicy": "Failed", "template": template}
    return {"name": job, "replicas": 1, "template": {"spec": spec}}


def tfjob(sources):
    document = shell("tfjob")[0]
    names = {"chief": "Chief", "ps": "PS", "worker": "Worker", "evaluator": "Evaluator"}
    for job, source in sources.items():
        template = pod_template(source, chief_host="shoal-chief-0:2222", index=INDEX_OF_TFJOB)
        template["spec"].pop("subdomain", None)
        template["spec"].pop("restartPolicy", None)  # the replica's rules
        container = template["spec"]["containers"][0]
        container["name"] = "tensorflow"
        for port in container.get("ports", []):
            if port["name"] == "grpc":
                port["name"] = "tfjob-port"
        rename_ports(container)
        spec = source["spec"]
        document["spec"]["tfReplicaSpecs"][names[job]] = {
            "replicas": spec["replicas"] if source["kind"] == "StatefulSet" else spec["completions"],
            # 1 to 127 fail the job, 128 and above start the pod again: our exit codes.
            "restartPolicy": "ExitCode",
            "template": template}
    return [document]


def rename_ports(container):
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        for action in container.get(probe, {}).values():
            if isinstance(action, dict) and action.get("port") == "grpc":
                action["port"] = "tfjob-port"


def trainer(sources):
    runtime, train_job = shell("trainer")
    spec = jobset(sources)[0]["spec"]
    count = sources["worker"]["spec"]["completions"]
    for job in spec["replicatedJobs"]:
        if job["name"] == "worker":
            metadata = job["template"].setdefault("metadata", {})
            metadata["labels"] = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    runtime["spec"]["mlPolicy"]["numNodes"] = count
    runtime["spec"]["template"]["spec"] = spec
    train_job["spec"]["trainer"]["numNodes"] = count
    return [runtime, train_job]


def shell(name):
    return kustomize.read_yaml(FOLDER / name / "shell.yaml")


def pod_template(source, chief_host, index):
    template = copy.deepcopy(source["spec"]["template"])
    for container in template["spec"]["containers"]:
        container["args"] = [a.replace(CHIEF_HOST, chief_host) for a in container["args"]]
        for variable in container.get("env", []):
            if variable["name"] in ("POD_INDEX", "JOB_COMPLETION_INDEX"):
                variable["valueFrom"]["fieldRef"]["fieldPath"] = index
    return template
