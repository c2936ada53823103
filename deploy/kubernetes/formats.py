"""Puts the pods of a rendered base into a JobSet, a TFJob, or a TrainingRuntime with a TrainJob."""
import copy
import pathlib

import kustomize

FOLDER = pathlib.Path(__file__).resolve().parent

# Tries of a Job in a set whose other Jobs say when all of it ends.
ENDLESS = 1000000

# JobSet's description of a pod, as the variables that --cluster_from=jobset reads.
JOBSET_VARIABLES = {
    "JOBSET_NAME": "metadata.labels['jobset.sigs.k8s.io/jobset-name']",
    "REPLICATED_JOB_NAME": "metadata.labels['jobset.sigs.k8s.io/replicatedjob-name']",
    "JOBSET_COORDINATOR": "metadata.annotations['jobset.sigs.k8s.io/coordinator']",
}


def convert(documents, wanted):
    """`documents` of the base in the format `wanted`; documents that are not pods of the run itself stay as they are. So does the
    evaluator's Job: a set or TFJob would fail with it, and would end it before it has read the last checkpoint."""
    if wanted == "kubernetes":
        return documents
    sources, others = {}, []
    for document in documents:
        job = document["metadata"].get("labels", {}).get("app.kubernetes.io/component")
        if document["kind"] in ("StatefulSet", "Job") and job != "evaluator":
            sources[job] = document
        elif document["kind"] != "Service":  # each of these makes its own
            others.append(document)
    others = [document for document in others if disruption_budget(document, sources["ps"]["spec"]["replicas"])]
    namespace = sources["chief"]["metadata"].get("namespace")
    made = {"jobset": jobset, "tfjob": tfjob, "trainer": trainer}[wanted](sources)
    for document in made:
        if namespace:
            document["metadata"]["namespace"] = namespace
    return others + made


def disruption_budget(document, num_ps_tasks):
    """Makes a budget one of pods that no StatefulSet owns: there only a number of pods that stay is known, and
    maxUnavailable would let none go. Returns whether the document is worth having; others than budgets are."""
    if document["kind"] != "PodDisruptionBudget":
        return True
    document["spec"].pop("maxUnavailable")
    document["spec"]["minAvailable"] = num_ps_tasks - 1
    return num_ps_tasks > 1


def jobset(sources):
    document = shell("jobset")[0]
    document["spec"]["replicatedJobs"] = [replicated_job(job, sources[job]) for job in sources]
    return [document]


def replicated_job(job, source):
    template = pod_template(source, "jobset", drop=("--chief_host",))
    variables = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
                 for name, path in JOBSET_VARIABLES.items()]
    container = template["spec"]["containers"][0]
    container["env"] = container.get("env", []) + variables
    if source["kind"] == "Job":
        spec = {**copy.deepcopy(source["spec"]), "template": template}
        if job == "worker":
            keep_every_index(spec)
    else:
        # In its pod a ps is back within a second, with the address that it had.
        template["spec"]["restartPolicy"] = "OnFailure"
        count = source["spec"]["replicas"]
        spec = {"completionMode": "Indexed", "completions": count, "parallelism": count, "backoffLimit": ENDLESS,
                "podReplacementPolicy": "Failed", "template": template}
    return {"name": job, "replicas": 1, "template": {"spec": spec}}


def keep_every_index(spec):
    """A Job with an index given up fails when the others are done, just before the chief is, and a set has no answer to
    that but to start all again. So none is given up: the chief's end is the end of all."""
    spec["backoffLimitPerIndex"] = ENDLESS
    rules = spec["podFailurePolicy"]["rules"]
    spec["podFailurePolicy"]["rules"] = [rule for rule in rules if rule["action"] != "FailIndex"]


def tfjob(sources):
    document = shell("tfjob")[0]
    names = {"chief": "Chief", "ps": "PS", "worker": "Worker"}
    for job, source in sources.items():
        # TF_CONFIG has all addresses.
        template = pod_template(source, "tf_config", drop=("--chief_host", "--listen_address"))
        template["spec"].pop("restartPolicy", None)  # the replica's rules
        container = template["spec"]["containers"][0]
        container["name"] = "tensorflow"
        for port in container.get("ports", []):
            if port["name"] == "grpc":
                port["name"] = "tfjob-port"
        # The operator's Services name only pods that are ready, and tasks are ready only when they have found each
        # other: so they count as ready once they run.
        container.pop("readinessProbe", None)
        spec = source["spec"]
        document["spec"]["tfReplicaSpecs"][names[job]] = {
            "replicas": spec["replicas"] if source["kind"] == "StatefulSet" else spec["completions"],
            # 1 to 127 fail the job, 128 and above start the pod again: our exit codes.
            "restartPolicy": "ExitCode",
            "template": template}
    return [document]


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


def pod_template(source, cluster_from, drop):
    """The pod of a base's workload, where another launcher says who it is; without the flags that it makes needless."""
    template = copy.deepcopy(source["spec"]["template"])
    template["spec"].pop("subdomain", None)  # the launchers give their own
    container = template["spec"]["containers"][0]
    container["args"] = [argument.replace("--cluster_from=kubernetes", f"--cluster_from={cluster_from}")
                         for argument in container["args"] if argument.partition("=")[0] not in drop]
    return template
