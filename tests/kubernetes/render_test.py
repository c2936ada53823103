#!/usr/bin/python3
"""Tests what deploy/kubernetes/render prints. usage: render_test.py deploy/kubernetes/render"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import admission  # noqa: E402

RENDER = str(pathlib.Path(sys.argv[1]).absolute())
FOLDER = pathlib.Path(RENDER).parent
RUN = str(FOLDER.parent / "runs" / "fashion_mlp.textproto")
IMAGE = "registry.example:5000/team/shoal:1.0"
TASKS = ("chief", "ps", "worker")


def call(*flags):
    return subprocess.run([RENDER, *flags], capture_output=True, text=True, check=False)


def render(*flags):
    done = call(f"--run={RUN}", f"--image={IMAGE}", *flags)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def find(documents, kind, name):
    found = [d for d in documents if d["kind"] == kind and re.fullmatch(name, d["metadata"]["name"])]
    assert len(found) == 1, f"{len(found)} of {kind} {name}"
    return found[0]


def pod_templates(documents):
    """(task's job, pod template) of every pod in the documents, whatever holds it."""
    for document in documents:
        spec = document.get("spec", {})
        component = document["metadata"].get("labels", {}).get("app.kubernetes.io/component")
        if document["kind"] in ("StatefulSet", "Job"):
            yield component, spec["template"]
        elif document["kind"] == "TFJob":
            for job, replica in spec["tfReplicaSpecs"].items():
                yield job.lower(), replica["template"]
        elif document["kind"] in ("JobSet", "TrainingRuntime"):
            jobs = spec if document["kind"] == "JobSet" else spec["template"]["spec"]
            for job in jobs["replicatedJobs"]:
                yield job["name"], job["template"]["spec"]["template"]


def one_number_reaches_all_its_places():
    documents = render("--num_ps_tasks=3", "--num_replicas=5")
    assert find(documents, "StatefulSet", "shoal-ps")["spec"]["replicas"] == 3
    worker = find(documents, "Job", "shoal-worker")["spec"]
    assert worker["completions"] == 5 and worker["parallelism"] == 5, worker
    numbers = find(documents, "ConfigMap", "shoal-cluster-.*")
    assert numbers["data"] == {"NUM_PS_TASKS": "3", "NUM_REPLICAS": "5"}, numbers
    chief = find(documents, "Job", "shoal-chief")["spec"]["template"]["spec"]["containers"][0]
    assert "--num_ps_tasks=$(NUM_PS_TASKS)" in chief["args"], chief["args"]
    assert chief["envFrom"][0]["configMapRef"]["name"] == numbers["metadata"]["name"], chief["envFrom"]


def the_numbers_reach_the_other_formats():
    flags = ("--num_ps_tasks=3", "--num_replicas=5")
    tfjob = find(render("--format=tfjob", *flags), "TFJob", "shoal")["spec"]["tfReplicaSpecs"]
    assert {k: v["replicas"] for k, v in tfjob.items() if k != "Evaluator"} == {"Chief": 1, "PS": 3, "Worker": 5}, tfjob
    jobs = find(render("--format=jobset", *flags), "JobSet", "shoal")["spec"]["replicatedJobs"]
    assert {j["name"]: j["template"]["spec"]["completions"] for j in jobs if j["name"] != "evaluator"} == {
        "chief": 1, "ps": 3, "worker": 5}, jobs
    trainer = render("--format=trainer", *flags)
    assert find(trainer, "TrainingRuntime", "shoal")["spec"]["mlPolicy"]["numNodes"] == 5
    assert find(trainer, "TrainJob", "shoal")["spec"]["trainer"]["numNodes"] == 5


def the_run_file_is_mounted_everywhere():
    for wanted in ("kubernetes", "jobset", "tfjob", "trainer"):
        documents = render(f"--format={wanted}")
        run = find(documents, "ConfigMap", "shoal-run-.*")
        assert run["data"]["run.textproto"] == pathlib.Path(RUN).read_text()
        jobs = set()
        for job, template in pod_templates(documents):
            jobs.add(job)
            volumes = {v["name"]: v for v in template["spec"]["volumes"]}
            assert volumes["run"]["configMap"]["name"] == run["metadata"]["name"], f"{wanted} {job}"
            container = template["spec"]["containers"][0]
            assert {"name": "run", "mountPath": "/etc/shoal", "readOnly": True} in container["volumeMounts"]
            assert "--run=/etc/shoal/run.textproto" in container["args"], f"{wanted} {job}"
            assert container["image"] == IMAGE, container["image"]
        assert jobs >= set(TASKS), jobs


def another_run_file_is_another_config_map():
    with tempfile.NamedTemporaryFile("w", suffix=".textproto") as run:
        run.write('name: "other"\n')
        run.flush()
        done = call(f"--run={run.name}", f"--image={IMAGE}")
    names = re.findall(r"shoal-run-\w+", done.stdout)
    assert len(set(names)) == 1 and names[0] not in call(f"--run={RUN}", f"--image={IMAGE}").stdout, names


def copy_pod():
    """Returns the pod with which docs/kubernetes.md copies results."""
    return yaml.safe_load((FOLDER / "copy_pod.yaml").read_text())


def every_pod_passes_restricted():
    """The Pod Security Standard "restricted", rule by rule."""
    allowed = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
    for flags in ([], ["--overlay=local,gpu,monitoring,tls"], ["--format=jobset"], ["--format=tfjob"],
                  ["--format=trainer"]):
        for job, template in [*pod_templates(render(*flags)), ("copy", copy_pod())]:
            spec, where = template["spec"], f"{flags} {job}"
            for field in ("hostNetwork", "hostPID", "hostIPC"):
                assert not spec.get(field), f"{where}: {field}"
            assert spec["securityContext"]["runAsNonRoot"] is True and spec["securityContext"]["runAsUser"] > 0, where
            assert spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", where
            assert spec["automountServiceAccountToken"] is False, where
            for volume in spec["volumes"]:
                assert set(volume) - {"name"} <= allowed, f"{where}: {volume}"
            for container in spec["containers"] + spec.get("initContainers", []):
                security = container["securityContext"]
                assert security["allowPrivilegeEscalation"] is False, where
                assert security["capabilities"] == {"drop": ["ALL"]}, where
                assert security["readOnlyRootFilesystem"] is True and "privileged" not in security, where
                assert "memory" in container["resources"]["limits"], where
                assert not any("hostPort" in p for p in container.get("ports", [])), where


EVERYTHING = "--overlay=local,gpu,monitoring,tls"
FORMATS = ("kubernetes", "jobset", "tfjob", "trainer")


def a_cluster_admits_what_is_rendered():
    for wanted in FORMATS:
        for flags in ([], [EVERYTHING, "--alerts"], ["--num_ps_tasks=1", "--noevaluator"]):
            errors = admission.errors_of(render(f"--format={wanted}", *flags))
            assert not errors, f"{wanted} {flags}: {errors}"


def what_a_cluster_refuses_is_refused():
    """Some of these were rendered once and are not any more."""
    def change_rule(documents):
        rules = find(documents, "JobSet", "shoal")["spec"]["failurePolicy"]["rules"]
        rules.insert(0, {"name": "workers", "action": "RestartJob", "targetReplicatedJobs": ["worker"]})

    def name_policy_port(documents):
        for rule in find(documents, "NetworkPolicy", "shoal")["spec"]["ingress"]:
            rule["ports"] = [{"port": "grpc"}]

    def limit_unavailable(documents):
        spec = find(documents, "PodDisruptionBudget", "shoal-ps")["spec"]
        spec.pop("minAvailable", None)
        spec["maxUnavailable"] = 1

    def keep_all(documents):
        find(documents, "PodDisruptionBudget", "shoal-ps")["spec"]["minAvailable"] = 2

    def replace_early(documents):
        find(documents, "Job", "shoal-worker")["spec"]["podReplacementPolicy"] = "TerminatingOrFailed"

    def share_limit(documents):
        spec = find(documents, "Job", "shoal-worker")["spec"]
        spec["backoffLimit"] = spec.pop("backoffLimitPerIndex")

    def name_probe_port(documents):
        template = find(documents, "StatefulSet", "shoal-ps")["spec"]["template"]
        template["spec"]["containers"][0]["readinessProbe"]["httpGet"]["port"] = "http"

    for wanted, change, text in (
            ("jobset", change_rule, "workers: action RestartJob: not one of FailJobSet, "),
            ("tfjob", name_policy_port, "NetworkPolicy shoal: port grpc: no pod has it"),
            ("jobset", limit_unavailable, "PodDisruptionBudget shoal-ps: lets none go"),
            ("trainer", limit_unavailable, "PodDisruptionBudget shoal-ps: lets none go"),
            ("tfjob", keep_all, "minAvailable 2: lets no pod go"),
            ("kubernetes", replace_early, "podReplacementPolicy: must be Failed"),
            ("kubernetes", share_limit, "action FailIndex: wants backoffLimitPerIndex"),
            ("kubernetes", name_probe_port, "readinessProbe: port http: the pod has it not")):
        documents = render(f"--format={wanted}")
        change(documents)
        errors = admission.errors_of(documents)
        assert len(errors) == 1 and text in errors[0], f"{wanted}: {text}: {errors}"


def permanent_exit_codes_fail_the_job_and_others_do_not():
    # runtime/process/exit_code.h; 1 also ends a worker's try, which another node may not see.
    for name, codes in (("shoal-chief", [1, 2, 64, 65, 78]), ("shoal-worker", [2, 64, 65]),
                        ("shoal-evaluator", [2, 64, 65, 78])):
        rules = find(render(), "Job", name)["spec"]["podFailurePolicy"]["rules"]
        assert rules[0]["action"] == "Ignore", rules
        assert rules[1]["action"] == "FailJob" and rules[1]["onExitCodes"]["values"] == codes, rules
    # A worker that the chief refuses is given up alone.
    rules = find(render(), "Job", "shoal-worker")["spec"]["podFailurePolicy"]["rules"]
    assert [(r["action"], r["onExitCodes"]["values"]) for r in rules[2:]] == [("FailIndex", [78])], rules
    for wanted in ("jobset", "trainer"):
        for document in render(f"--format={wanted}"):
            for job in admission.jobs_of(document) if document["kind"] in ("JobSet", "TrainingRuntime") else ():
                rules = job["template"]["spec"].get("podFailurePolicy", {"rules": []})["rules"]
                # There the Job of the workers must not fail for one of them: the set would start again or fail.
                assert not any(r["action"] == "FailIndex" for r in rules), f"{wanted}: {rules}"


def no_workers_limit_ends_before_the_chiefs():
    """Each end of a chief ends every worker, too: their tries must last as long as the chief's."""
    documents = render()
    chief, worker = (find(documents, "Job", name)["spec"] for name in ("shoal-chief", "shoal-worker"))
    assert worker["backoffLimitPerIndex"] >= 2 * chief["backoffLimit"], worker
    for job, template in pod_templates(documents):
        arguments = template["spec"]["containers"][0]["args"]
        # Longer than the longest back-off between two tries of a Job, 600 s.
        assert f"--wait_seconds={86400 if job == 'evaluator' else 900}" in arguments, f"{job}: {arguments}"


def the_evaluator_is_a_job_of_its_own():
    """It can neither fail the run nor be ended with it, whatever holds the others."""
    for wanted in FORMATS:
        documents = render(f"--format={wanted}", "--namespace=team")
        assert find(documents, "Job", "shoal-evaluator")["metadata"]["namespace"] == "team"
        for document in documents:
            if document["kind"] in ("JobSet", "TrainingRuntime"):
                assert sorted(j["name"] for j in admission.jobs_of(document)) == ["chief", "ps", "worker"], document
            elif document["kind"] == "TFJob":
                assert sorted(document["spec"]["tfReplicaSpecs"]) == ["Chief", "PS", "Worker"], document


def a_tfjob_is_ready_when_it_runs():
    """Its operator's Services name only pods that are ready, and a chief is ready only when it has found all others."""
    for job, template in pod_templates([d for d in render("--format=tfjob") if d["kind"] == "TFJob"]):
        assert "readinessProbe" not in template["spec"]["containers"][0], job
    for wanted in ("kubernetes", "jobset", "trainer"):
        for job, template in pod_templates(render(f"--format={wanted}")):
            assert "readinessProbe" in template["spec"]["containers"][0], f"{wanted} {job}"


def a_long_grace_reaches_tasks_and_pods():
    """docs/failure_model.md, "How long a stop may take"."""
    def check(documents, grace, given):
        for job, template in pod_templates(documents):
            container, spec = template["spec"]["containers"][0], template["spec"]
            if job == "evaluator":
                continue
            sleep = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
            least = grace + 60 if job == "chief" else sleep + grace + 10
            assert spec["terminationGracePeriodSeconds"] >= least, f"{job}: {spec['terminationGracePeriodSeconds']}"
            assert (f"--grace_seconds={grace}" in container["args"]) == given, f"{job}: {container['args']}"

    for wanted in FORMATS:
        check(render(f"--format={wanted}"), 10, given=False)
        check(render(f"--format={wanted}", "--grace_seconds=300"), 300, given=True)
    with tempfile.NamedTemporaryFile("w", suffix=".textproto") as run:
        run.write("cluster { lease_seconds: 20 grace_seconds: 0310 }\n")  # octal: 200
        run.flush()
        for flags, grace in (([], 200), (["--grace_seconds=30"], 30)):
            done = call(f"--run={run.name}", f"--image={IMAGE}", *flags)
            assert done.returncode == 0, done.stderr
            check(yaml.safe_load_all(done.stdout), grace, given=True)


def the_copy_pod_sees_what_the_tasks_wrote():
    spec = copy_pod()["spec"]
    documents = render()
    claim = find(documents, "PersistentVolumeClaim", "shoal-out")["metadata"]["name"]
    assert spec["volumes"] == [{"name": "out", "persistentVolumeClaim": {"claimName": claim}}], spec
    chief = find(documents, "Job", "shoal-chief")["spec"]["template"]["spec"]
    assert spec["securityContext"] == chief["securityContext"], spec
    assert not admission.errors_of([copy_pod()])


def a_ps_is_changed_only_by_a_stop():
    assert find(render(), "StatefulSet", "shoal-ps")["spec"]["updateStrategy"] == {"type": "OnDelete"}


def flags_reach_their_fields():
    documents = render("--overlay=gpu", "--gpus=4", "--set=optimizer.adam.beta1=0.8", "--data_claim=images",
                       "--storage=5Gi", "--storage_class=nfs", "--memory=9Gi", "--cpu=6", "--ps_memory=3Gi",
                       "--worker_program=/usr/bin/my_model", "--namespace=team")
    assert all(d["metadata"]["namespace"] == "team" for d in documents)
    claim = find(documents, "PersistentVolumeClaim", "shoal-out")["spec"]
    assert claim["resources"]["requests"]["storage"] == "5Gi" and claim["storageClassName"] == "nfs", claim
    containers = {job: template["spec"]["containers"][0] for job, template in pod_templates(documents)}
    for job in TASKS:
        arguments = containers[job]["args"]
        for flag in ("--set=optimizer.adam.beta1=0.8", "--data_dir=/data", "--num_clones=4"):
            assert flag in arguments, f"{job}: {arguments}"
    assert "--set=optimizer.adam.beta1=0.8" in containers["evaluator"]["args"]
    assert "--num_clones=4" not in containers["evaluator"]["args"]
    # Only workers compute on GPUs, and none of them may fall back to its CPUs.
    assert [job for job in containers if "--noallow_soft_placement" in containers[job]["args"]] == ["worker"]
    assert containers["evaluator"]["command"] == ["/usr/bin/my_model"]
    worker = containers["worker"]
    assert worker["command"] == ["/usr/bin/my_model"] and "command" not in containers["ps"]
    assert worker["resources"] == {"requests": {"cpu": "6", "memory": "9Gi"},
                                   "limits": {"memory": "9Gi", "nvidia.com/gpu": "4"}}, worker["resources"]
    assert containers["ps"]["resources"]["limits"]["memory"] == "3Gi"


def two_names_share_a_namespace():
    flags = ("--overlay=monitoring,tls", "--alerts", "--namespace=team")
    for form in ("kubernetes", "jobset", "tfjob", "trainer"):
        both = [render(*flags, f"--name={name}", f"--format={form}") for name in ("cats", "dogs-2")]
        names = [{(d["kind"], d["metadata"]["name"]) for d in documents} for documents in both]
        assert names[0] & names[1] == {("PrometheusRule", "shoal")}, names[0] & names[1]
        for documents, name in zip(both, ("cats", "dogs-2")):
            text = yaml.safe_dump([d for d in documents if d["kind"] != "PrometheusRule"])
            # The word is left in these: the image, the container, paths, part-of and labels of others.
            assert not re.search(r"shoal-(chief|ps|worker|evaluator|out|run|cluster)", text), form
            assert f"name: {name}" in text
        if form != "kubernetes":
            assert not admission.errors_of(both[1]), admission.errors_of(both[1])
            continue
        assert not admission.errors_of(both[1]), admission.errors_of(both[1])
        worker = find(both[0], "Job", "cats-worker")["spec"]["template"]
        assert "--chief_host=cats-chief-0.cats:2222" in worker["spec"]["containers"][0]["args"]
        assert worker["spec"]["subdomain"] == "cats" == find(both[0], "Service", "cats")["metadata"]["name"]
        selector = find(both[0], "Service", "cats")["spec"]["selector"]
        assert selector.items() <= worker["metadata"]["labels"].items(), (selector, worker["metadata"]["labels"])
        other = find(both[1], "Job", "dogs-2-worker")["spec"]["template"]["metadata"]["labels"]
        assert not selector.items() <= other.items()
        volumes = yaml.safe_dump(worker["spec"]["volumes"])
        for claim in ("cats-out", "cats-worker-tls", "cats-run"):
            assert claim in volumes, volumes
    assert render("--name=shoal") == render()


def the_evaluator_can_be_left_out():
    for wanted in ("kubernetes", "jobset", "tfjob", "trainer"):
        jobs = [job for job, _ in pod_templates(render(f"--format={wanted}"))]
        assert sorted(jobs) == ["chief", "evaluator", "ps", "worker"], jobs
        jobs = [job for job, _ in pod_templates(render(f"--format={wanted}", "--noevaluator"))]
        assert sorted(jobs) == ["chief", "ps", "worker"], jobs


def a_compute_program_stands_in_the_run_file():
    for wanted in ("kubernetes", "jobset", "tfjob", "trainer"):
        done = call("--program=/app/train.py", f"--image={IMAGE}", f"--format={wanted}", "--data_claim=images", "--python=/p",
                    "--memory=6Gi", "--overlay=gpu", "--gpus=2", "--", "--depth=3", 'a "b" $(HOME)', "c\\d", "two\nlines")
        documents = list(yaml.safe_load_all(done.stdout))
        text = find(documents, "ConfigMap", "shoal-run-.*")["data"]["run.textproto"]
        assert text == ('program {\n  file: "/app/train.py"\n  args: "--depth=3"\n  args: "a \\"b\\" $(HOME)"\n'
                        '  args: "c\\\\d"\n  args: "two\\nlines"\n  python: "/p"\n}\n'), text
        pods = {job: template["spec"]["containers"][0] for job, template in pod_templates(documents)}
        assert sorted(pods) == ["chief", "ps", "worker"], "Shoal's evaluator cannot compute what the program computes"
        for job, container in pods.items():
            # The program finds the data by an argument of its own, and the GPUs of its pod by itself.
            assert "/data" in [mount["mountPath"] for mount in container["volumeMounts"]], job
            assert not [a for a in container["args"] if a.startswith(("--data_dir", "--num_clones"))], container["args"]
        assert pods["chief"]["resources"]["limits"]["memory"] == "6Gi", "the chief starts the program once"
        assert "/dev/shm" in [mount["mountPath"] for mount in pods["worker"]["volumeMounts"]]


def the_settings_beside_a_program_are_kept():
    with tempfile.NamedTemporaryFile("w", suffix=".textproto") as run:
        run.write("max_steps: 9  # model")
        run.flush()
        done = call("--program=/app/train.py", f"--image={IMAGE}", f"--run={run.name}")
    text = find(list(yaml.safe_load_all(done.stdout)), "ConfigMap", "shoal-run-.*")["data"]["run.textproto"]
    assert text == 'max_steps: 9  # model\nprogram {\n  file: "/app/train.py"\n}\n', text


def bad_flags_are_one_line_and_a_code():
    good = (f"--run={RUN}", f"--image={IMAGE}")
    for code, text, flags in (
            (64, "--num_pss=2: is not a flag", (*good, "--num_pss=2")),
            (64, "--run: is missing", (f"--image={IMAGE}",)),
            (64, "--image: is missing", (f"--run={RUN}",)),
            (64, "--program: is train.py; an absolute path in the image", ("--program=train.py", f"--image={IMAGE}")),
            (64, "--program: is given, but", (*good, "--program=/app/train.py")),
            (64, "--x: stands behind --, but there is no --program", (*good, "--", "--x")),
            (64, "--python: is given without --program", (*good, "--python=python3")),
            (64, "/app/train is not a FILE.py", ("--program=/app/train", "--python=python3", f"--image={IMAGE}")),
            (64, "--worker_program: is a program", ("--program=/a.py", "--worker_program=/b", f"--image={IMAGE}")),
            (64, "--num_ps_tasks: is 0", (*good, "--num_ps_tasks=0")),
            (64, "--num_replicas: is two", (*good, "--num_replicas=two")),
            (64, "--num_replicas: is -1", (*good, "--num_replicas=-1")),
            (64, "--num_replicas: has no value", (*good, "--num_replicas")),
            (64, "--overlay: is gpus", (*good, "--overlay=gpus")),
            (64, "--format: is helm", (*good, "--format=helm")),
            (64, "--gpus: is given without", (*good, "--gpus=2")),
            (64, "--alerts: is given without --overlay=monitoring", (*good, "--alerts")),
            (64, "--alerts=yes: is not a flag", (*good, "--overlay=monitoring", "--alerts=yes")),
            (64, "--monitoring_label: is given without --overlay=monitoring", (*good, "--monitoring_label=a=b")),
            (64, "--monitoring_label: is a b=c; write KEY=VALUE",
             (*good, "--overlay=monitoring", "--monitoring_label=a b=c")),
            (64, "--image: is NAME:TAG; write the image that deploy/docker/build prints, such as registry.example/shoal:1",
             (f"--run={RUN}", "--image=NAME:TAG")),
            (64, "--image: is shoal; say which", (f"--run={RUN}", "--image=shoal")),
            (64, "--image: is shoal:latest", (f"--run={RUN}", "--image=shoal:latest")),
            (64, "--image: is Sho al:1", (f"--run={RUN}", "--image=Sho al:1")),
            (64, "--namespace: is A_b", (*good, "--namespace=A_b")),
            (64, "--namespace: is team.a; at most 63", (*good, "--namespace=team.a")),
            (64, f"--namespace: is {'a' * 64}; at most 63", (*good, f"--namespace={'a' * 64}")),
            (64, "--num_replicas: is 4097; at most 4096", (*good, "--num_replicas=4097")),
            (64, "--num_ps_tasks: is 999999; at most 4096", (*good, "--num_ps_tasks=999999")),
            (64, "--grace_seconds: is 86401; at most 86400", (*good, "--grace_seconds=86401")),
            (64, "--set=cluster.grace_seconds: the pods must know it, too; write --grace_seconds=60",
             (*good, "--set=cluster.grace_seconds=60")),
            (64, "--name: is Cats; at most 40 of a-z", (*good, "--name=Cats")),
            (64, "--write: a kustomization has the names of the base", (*good, "--name=cats", "--write=/tmp/none")),
            (64, "--gpus: is 65; at most 64", (*good, "--overlay=gpu", "--gpus=65")),
            (64, "--storage: is lots", (*good, "--storage=lots")),
            (64, "--set: is seed", (*good, "--set=seed")),
            (64, "--set=optimizer.adm.beta1: OptimizerConfig has no field \"adm\"; did you mean adam?",
             (*good, "--set=optimizer.adm.beta1=0.8")),
            (64, "--set=seed.x: \"seed\" has no fields", (*good, "--set=seed.x=1")),
            (64, "--set=batch_size: a whole number >= 0 of at most 32 bits is wanted, not \"abc\"",
             (*good, "--set=batch_size=abc")),
            (64, "--set=max_steps: a whole number >= 0 of at most 64 bits is wanted, not \"-1\"",
             (*good, "--set=max_steps=-1")),
            (64, "--set=batch_size: a whole number >= 0 of at most 32 bits is wanted, not \"4294967296\"",
             (*good, "--set=batch_size=4294967296")),
            (64, "--set=optimizer.learning_rate: a number is wanted, not \"fast\"",
             (*good, "--set=optimizer.learning_rate=fast")),
            (64, "--set=sync.sync_replicas: true or false is wanted, not \"maybe\"",
             (*good, "--set=sync.sync_replicas=maybe")),
            (64, "--set=data.format: one of idx, synthetic_regression, ", (*good, "--set=data.format=zip")),
            (64, "--set=optimizer.schedule.boundary: a whole number >= 0 of at most 64 bits is wanted, not \"x\"",
             (*good, "--set=optimizer.schedule.boundary=1,x")),
            (64, "--set=optimizer.schedule: line 1: kind: one of constant, step, ",
             (*good, "--set=optimizer.schedule=kind: RELU")),
            (64, "--set=model.layer: is a list of messages; choose one as layer[0]", (*good, "--set=model.layer=x")),
            (64, "--set=model.layer.name: layer is a list; choose one as layer[0]", (*good, "--set=model.layer.name=x")),
            (64, "--set=data[0].format: data is not a list", (*good, "--set=data[0].format=idx")),
            (64, "--set=model.layer[0]: ends in an element", (*good, "--set=model.layer[0]=x")),
            (78, "--write: /proc/x: no such file", (*good, "--write=/proc/x")),
            (78, f"--write: {RUN}: file exists", (*good, f"--write={RUN}")),
            (78, "--run: /: is a directory", ("--run=/", f"--image={IMAGE}")),
            (64, "--write: makes", (*good, "--write=/tmp/x", "--format=tfjob")),
            (78, "--run: /nowhere: no such file", ("--run=/nowhere", f"--image={IMAGE}"))):
        done = call(*flags)
        assert done.returncode == code and done.stdout == "", f"{flags}: {done.returncode} {done.stdout}"
        assert text in done.stderr and done.stderr.count("\n") == 1, f"{flags}: {done.stderr}"


def a_run_file_that_cannot_be_is_refused():
    with tempfile.NamedTemporaryFile("w", suffix=".textproto") as run:
        for text, wanted in (("", "is empty"), ("batchsize: 3", "line 1: RunConfig has no field \"batchsize\"; did you"),
                             ("# model\nmodel { name: \"mlp\"", "line 2: the file ends within a message"),
                             ("name: \"mlp", "line 1: a text is not closed"), ("model: \"mlp\"", "model: is a message"),
                             ("name { }", "name: wanted is \": VALUE\""), ("seed: 1 }", "\"}\" is not expected"),
                             ("model { layer { dense { unit: 3 } } }", "DenseLayer has no field \"unit\""),
                             ("batch_size: abc", "line 1: batch_size: a whole number >= 0 of at most 32 bits is wanted"),
                             ("batch_size: -3", "not -3"), ("batch_size: 1.5", "not 1.5"), ("seed: \"1\"", "not \"1\""),
                             ("name: mine", "name: a text in quotes is wanted, not mine"),
                             ("sync { sync_replicas: yes }", "true or false is wanted, not yes"),
                             ("optimizer {\n schedule { kind: RELU } }", "line 2: kind: one of constant, step, "),
                             ("optimizer { sgd {} adam {} }", "adam: contradicts sgd; drop one of them"),
                             ("seed: 1\nseed: 2", "line 2: seed: is given twice"), ("seed: [1]", "seed: is not a list")):
            run.seek(0)
            run.truncate()
            run.write(text)
            run.flush()
            done = call(f"--run={run.name}", f"--image={IMAGE}")
            assert done.returncode == 64 and done.stdout == "", f"{text}: {done.returncode} {done.stdout}"
            assert wanted in done.stderr and done.stderr.count("\n") == 1, f"{text}: {done.stderr}"


def run_files_of_all_kinds_are_taken():
    runs = sorted((FOLDER.parent / "runs").glob("*.textproto"))
    assert len(runs) > 3, runs
    everything = ("name: 'a' \"b\"; model < layer: [{ name: \"d\" dense { units: 3 } }, { flatten {} }] >\n"
                  "data { image { mean: [0.1, 0.2] stddev: 1 } }, optimizer: { learning_rate: - 1.5e-3 sgd {} "
                  "schedule { kind: step boundary: [010, 0x20] value: [1, 2f] value: inf } }\n"
                  "sync { sync_replicas: t max_staleness: -1 } seed: 0xffffffffffffffff # end")
    with tempfile.NamedTemporaryFile("w", suffix=".textproto") as made:
        made.write(everything)
        made.flush()
        for run in [*runs, made.name]:
            done = call(f"--run={run}", f"--image={IMAGE}", "--set=model.layer[1].dense.units=4",
                        "--set=data.format=IDX", "--set=sync.sync_replicas=No", "--set=optimizer.schedule.value=1, .5",
                        "--set=optimizer.schedule=kind: cosine", "--set=optimizer.schedule.boundary=",
                        "--set=name=", "--set=sync.max_staleness=-1", "--set=cluster=slice_bytes: 64")
            assert done.returncode == 0 and done.stderr == "", f"{run}: {done.stderr}"


def output_that_cannot_be_written_is_one_line():
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([RENDER, f"--run={RUN}", f"--image={IMAGE}"], stdout=full, stderr=subprocess.PIPE,
                              text=True, check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, f"{done.returncode}: {done.stderr}"
    assert "cannot write: no space left" in done.stderr, done.stderr


def a_reader_that_has_read_enough_is_no_error():
    for flags in ([f"--run={RUN}", f"--image={IMAGE}"], ["--help"]):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([RENDER, *flags], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
        os.close(writer)
        assert done.returncode == -signal.SIGPIPE and done.stderr == "", f"{done.returncode}: {done.stderr}"


def a_digest_is_an_image_too():
    digest = "sha256:" + "ab" * 32
    done = call(f"--run={RUN}", f"--image=registry.example/shoal@{digest}")
    assert f"image: registry.example/shoal@{digest}\n" in done.stdout, done.stderr


def the_examples_are_what_render_prints():
    run = str(FOLDER / "base" / "run.textproto")
    for wanted in ("jobset", "tfjob", "trainer"):
        done = call(f"--run={run}", "--image=registry.example/shoal:1", f"--format={wanted}")
        example = FOLDER / wanted / "example.yaml"
        printed = "".join(line for line in example.read_text().splitlines(True) if not line.startswith("#"))
        assert printed == done.stdout, f"{example} is old: deploy/kubernetes/update_examples"


def promtool(folder, *command):
    done = subprocess.run(["promtool", *command], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def the_alerts_are_those_of_the_one_file():
    monitoring = FOLDER.parent / "monitoring"
    for flags in ([], ["--format=jobset"], ["--namespace=team"]):
        documents = render("--overlay=monitoring", "--alerts", "--monitoring_label=release=main",
                           "--monitoring_label=example.com/team=a", *flags)
        rule = find(documents, "PrometheusRule", "shoal")
        assert rule["apiVersion"] == "monitoring.coreos.com/v1", rule
        assert rule["metadata"].get("namespace") == ("team" if "--namespace=team" in flags else None), rule
        for kind in ("PrometheusRule", "PodMonitor"):
            labels = find(documents, kind, "shoal")["metadata"]["labels"]
            assert labels["release"] == "main" and labels["example.com/team"] == "a", labels
        assert rule["spec"] == yaml.safe_load((monitoring / "alerts.yaml").read_text()), rule["spec"]
    assert not any(d["kind"] == "PrometheusRule" for d in render("--overlay=monitoring"))
    if shutil.which("promtool") is None:
        print("           (no promtool here: the rendered rules are not tried)")
        return
    with tempfile.TemporaryDirectory() as tried:
        (pathlib.Path(tried) / "alerts.yaml").write_text(yaml.safe_dump(rule["spec"]))
        shutil.copy(monitoring / "alerts_test.yaml", tried)
        promtool(tried, "check", "rules", "alerts.yaml")
        promtool(tried, "test", "rules", "alerts_test.yaml")


def keyed(documents):
    return {(d["kind"], d["metadata"]["name"]): d for d in documents}


def kubectl_renders_the_same():
    if shutil.which("kubectl") is None:
        print("           (no kubectl here: not compared)")
        return
    # kubectl wants everything below one folder, and follows no links out of it.
    with tempfile.TemporaryDirectory() as copied:
        folder = pathlib.Path(copied) / "kubernetes"
        shutil.copytree(FOLDER, folder, symlinks=False)
        shutil.copytree(FOLDER.parent / "monitoring", folder.parent / "monitoring", symlinks=False)
        own = pathlib.Path(copied) / "own"
        for flags in ([], ["--overlay=local"], ["--overlay=gpu,monitoring,tls", "--gpus=2", "--namespace=team",
                      "--num_ps_tasks=3", "--num_replicas=4", "--data_claim=images", "--set=name=a<b&c"], ["--noevaluator", "--overlay=tls"],
                      ["--overlay=monitoring", "--alerts", "--monitoring_label=example.com/a=b", "--namespace=team"]):
            subprocess.run([str(folder / "render"), f"--run={RUN}", f"--image={IMAGE}", f"--write={own}", *flags],
                           check=True)
            assert keyed(render(*flags)) == keyed(kubectl(own)), flags
        for name in ("local", "gpu", "monitoring", "tls"):
            sys.path.insert(0, str(FOLDER))
            import kustomize  # pylint: disable=import-outside-toplevel
            overlay = folder / "overlays" / name
            assert keyed(kustomize.Kustomization.of_folder(overlay).render()) == keyed(kubectl(overlay)), name


def kubectl(folder):
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def main():
    tests = [one_number_reaches_all_its_places, the_numbers_reach_the_other_formats, the_run_file_is_mounted_everywhere,
             another_run_file_is_another_config_map, every_pod_passes_restricted,
             a_cluster_admits_what_is_rendered, what_a_cluster_refuses_is_refused,
             permanent_exit_codes_fail_the_job_and_others_do_not, no_workers_limit_ends_before_the_chiefs,
             the_evaluator_is_a_job_of_its_own, a_tfjob_is_ready_when_it_runs, a_ps_is_changed_only_by_a_stop,
             a_long_grace_reaches_tasks_and_pods, the_copy_pod_sees_what_the_tasks_wrote, flags_reach_their_fields, two_names_share_a_namespace,
             the_evaluator_can_be_left_out, a_compute_program_stands_in_the_run_file, the_settings_beside_a_program_are_kept,
             bad_flags_are_one_line_and_a_code, a_run_file_that_cannot_be_is_refused, run_files_of_all_kinds_are_taken,
             output_that_cannot_be_written_is_one_line, a_reader_that_has_read_enough_is_no_error, a_digest_is_an_image_too,
             the_alerts_are_those_of_the_one_file, the_examples_are_what_render_prints, kubectl_renders_the_same]
    failed = 0
    for test in tests:
        start = time.monotonic()
        try:
            test()
            print(f"[ OK     ] {test.__name__} ({time.monotonic() - start:.1f} s)")
        except AssertionError as error:
            failed += 1
            print(f"[ FAILED ] {test.__name__}: {error}")
    sys.exit(1 if failed else 0)


main()
