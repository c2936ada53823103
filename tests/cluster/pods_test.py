#!/usr/bin/python3
"""The manifests of deploy/kubernetes run for real: the image of deploy/docker/build, 1 chief, 2 ps and 2 workers in
containers on a network with names. See pods.py for what stands in for Kubernetes."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import traceback

import yaml

import program_on_hosts
from containers import Containers
from pods import COMPLETE, Cluster

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "real_process"))
import cluster as local_run  # its digest of a run's variables  pylint: disable=wrong-import-position

STEPS = 600
FLAGS = (f"--set=max_steps={STEPS}", "--set=checkpoint.save_every=100", "--set=eval_every=300")


def call(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=ROOT, **options)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


class Test:
    """Holds what the tests share: the image, made once."""

    def __init__(self, containers):
        self.containers = containers
        binary = os.environ.get("SHOAL", "bazel-bin/deploy/shoal")
        said = call("deploy/docker/build", "--with_data", f"--binary={binary}",
                    env=containers.environment)
        print(f"image: {said.strip()}", flush=True)
        self.image = said.split()[0]

    def manifests(self, *flags):
        text = call("deploy/kubernetes/render", "--run=deploy/runs/fashion_mlp.textproto", f"--image={self.image}",
                    "--overlay=local", *flags)
        return list(yaml.safe_load_all(text))

    @contextlib.contextmanager
    def cluster(self, name, *flags, more=(), change=lambda documents: None):
        documents = self.manifests(*flags) + list(more)
        change(documents)
        with Cluster(self.containers, documents, self.containers.folder / "claims" / name) as running:
            yield running

    def secrets(self):
        """The Secrets that the overlay tls names, by deploy/tls/make_certificates."""
        certificates = self.containers.folder / "certificates"
        call("deploy/tls/make_certificates", certificates)
        for job in ("chief", "ps", "worker", "evaluator"):
            files = {"tls.crt": f"{job}.crt", "tls.key": f"{job}.key", "ca.crt": "ca.crt"}
            yield {"kind": "Secret", "metadata": {"name": f"shoal-{job}-tls"},
                   "stringData": {key: (certificates / file).read_text() for key, file in files.items()}}


class Output:
    """The run's directory on the claim."""

    def __init__(self, running):
        self.run = local_run.Run("", out=running.folder / "shoal-out")

    def step(self):
        return self.run.step()

    def digest(self):
        return self.run.digest()

    def summary(self):
        return self.run.summary()

    def check_evaluated(self):
        """The evaluator has read the last checkpoint."""
        found = [json.loads(line) for line in (self.run.out / "evaluator.jsonl").read_text().splitlines()]
        assert found[-1]["step"] == STEPS and found[-1]["accuracy"] > 0.8, found


def wait_for_step(running, output, step):
    running.wait(lambda: output.step() >= step, 120, f"step {step}")


def an_undisturbed_run_trains(test):
    with test.cluster("undisturbed", *FLAGS) as running:
        output = Output(running)
        for hostname in ("shoal-chief-0", "shoal-ps-0", "shoal-ps-1", "shoal-worker-0", "shoal-worker-1"):
            running.wait(lambda h=hostname: running.is_ready(h), 60, f"{hostname} is ready")
        running.wait_done(240)
        assert not [e for e in running.exits if e[1] != 0], running.exits
        output.check_evaluated()
        summary = output.summary()
        assert output.step() == STEPS, output.step()
        assert summary["test_accuracy"] > 0.8, summary
        # A ps that has ended starts again, as a StatefulSet does, and waits; then its owner deletes it.
        assert set(running.delete("shoal-ps").values()) <= {0, 143}, running.exits
        test.digest = output.digest()


def killed_pods_come_back_and_the_bytes_are_the_same(test):
    with test.cluster("killed", *FLAGS) as running:
        output = Output(running)
        wait_for_step(running, output, 50)
        running.kill("shoal-worker-1")
        wait_for_step(running, output, 150)
        running.kill("shoal-ps-0")
        wait_for_step(running, output, 250)
        running.lose("shoal-ps-1")  # comes back with another address
        running.wait_done(240)
        failed = sorted(e for e in running.exits if e[1] != 0)
        assert failed == [("shoal-ps-0", 137), ("shoal-ps-1", 137), ("shoal-worker-1", 137)], running.exits
        assert output.step() == STEPS, output.step()
        assert output.digest() == test.digest, "not the bytes of the undisturbed run"


def a_lost_chief_resumes_from_its_checkpoint(test):
    with test.cluster("chief", *FLAGS) as running:
        output = Output(running)
        wait_for_step(running, output, 250)
        running.kill("shoal-chief-0")
        running.wait_done(240)
        codes = {code for _, code in running.exits}
        # The others are notified and exit with 138.
        assert ("shoal-chief-0", 137) in running.exits and codes <= {0, 137, 138}, running.exits
        assert output.digest() == test.digest, "not the bytes of the undisturbed run"


def stop_and_resume_give_the_same_bytes(test):
    name, everything = "stopped", ("shoal-chief", "shoal-ps", "shoal-worker")
    with test.cluster(name, *FLAGS) as running:
        output = Output(running)
        wait_for_step(running, output, 230)
        codes = running.delete(*everything)
        stopped_at = output.step()
        assert codes["shoal-chief-0"] == 143, f"{codes}\n{running.all_logs()}"
        assert set(codes.values()) <= {0, 143}, f"{codes}\n{running.all_logs()}"
        assert 230 <= stopped_at < STEPS, stopped_at
        saved = max(int(re.match(r"\D*(\d+)", p.parent.name)[1]) for p in
                    (running.folder / "shoal-out" / "checkpoints").glob("*/MANIFEST"))
        # Made when it was asked to go: a little before the last step, and not the one of step 200.
        assert 230 <= saved <= stopped_at, f"the newest checkpoint is of {saved}, the last step {stopped_at}"
    with test.cluster(name, *FLAGS) as running:
        output = Output(running)
        running.wait_done(240)
        steps = [line["step"] for line in output.run.metrics()]
        assert steps == list(range(1, STEPS + 1)), "steps are missing or there twice"
        assert output.digest() == test.digest, "not the bytes of the undisturbed run"


def mutual_tls_gives_the_same_bytes(test):
    with test.cluster("tls", "--overlay=tls", *FLAGS, more=test.secrets()) as running:
        output = Output(running)
        wait_for_step(running, output, 50)
        running.lose("shoal-ps-0")
        running.wait_done(240)
        assert output.digest() == test.digest, "not the bytes of the undisturbed run"
        arguments = running.workloads["shoal-ps"].template["spec"]["containers"][0]["args"]
        assert "--insecure" not in arguments and "--tls_ca=/etc/shoal-tls/ca.crt" in arguments, arguments


def train_while_two_are_killed(test, form, ps, worker):
    with test.cluster(form, f"--format={form}", *FLAGS) as running:
        output = Output(running)
        wait_for_step(running, output, 50)
        running.kill(ps)
        wait_for_step(running, output, 150)
        running.kill(worker)
        running.wait_done(240)
        assert sorted(e for e in running.exits if e[1]) == [(ps, 137), (worker, 137)], (
            f"{running.exits}\n{running.all_logs()}")
        assert output.digest() == test.digest, "not the bytes of the undisturbed run"
        assert running.groups[0].outcome == COMPLETE, running.groups[0].outcome
        output.check_evaluated()


def a_jobset_gives_the_same_bytes(test):
    train_while_two_are_killed(test, "jobset", "shoal-ps-0-1", "shoal-worker-0-0")


def a_tfjob_gives_the_same_bytes(test):
    train_while_two_are_killed(test, "tfjob", "shoal-ps-1", "shoal-worker-1")


def a_tfjob_whose_readiness_asks_for_its_peers_never_trains(test):
    """The form rendered once: Services of the training operator name only pods that are ready."""
    def ask(documents):
        for replica in next(d for d in documents if d["kind"] == "TFJob")["spec"]["tfReplicaSpecs"].values():
            container = replica["template"]["spec"]["containers"][0]
            container["readinessProbe"] = {"httpGet": {"path": "/readyz", "port": "metrics"}}

    with test.cluster("unready", "--format=tfjob", *FLAGS, change=ask) as running:
        time.sleep(40)  # The case tests that nothing happens; with names the first steps are there after some 5 s.
        assert Output(running).step() == 0, "trained"
        logs = running.all_logs()
        assert "waiting for the chief's name" in logs, logs
        assert not any(pod.is_named for w in running.workloads.values() for pod in w.pods.values() if w.group), logs


def a_worker_with_another_run_file_is_given_up_alone(test):
    with test.cluster("other_run", *FLAGS) as running:
        output, worker = Output(running), running.workloads["shoal-worker"]
        wait_for_step(running, output, 50)
        worker.template["spec"]["containers"][0]["args"].append("--set=data.evaluation_block=333")
        running.may_fail.add("shoal-worker")
        running.kill("shoal-worker-1")
        running.wait_done(240)
        assert worker.outcome == "FailedIndexes" and worker.failed_indices == {1}, running.exits
        assert sorted(e for e in running.exits if e[1]) == [("shoal-worker-1", 78), ("shoal-worker-1", 137)], running.exits
        assert "give all tasks the same --run" in running.logs["shoal-worker-1"], running.logs["shoal-worker-1"]
        assert output.digest() == test.digest, "not the bytes of the undisturbed run"


def a_worker_that_returns_on_another_processor_is_tried_again(test):
    refused = ("shoal-worker-1", 138)
    with test.cluster("mixed", *FLAGS) as running:
        output, worker = Output(running), running.workloads["shoal-worker"]
        wait_for_step(running, output, 50)
        worker.variables["ONEDNN_MAX_CPU_ISA"] = lambda index: "SSE41"
        running.kill("shoal-worker-1")
        running.wait(lambda: "--allow_mixed_compute" in running.logs.get("shoal-worker-1", ""), 60, "a refused worker")
        worker.variables.clear()  # Its next pod is on a node like the others'.
        running.wait_done(240)
        assert worker.outcome == COMPLETE, running.exits
        assert {e for e in running.exits if e[1]} == {refused, ("shoal-worker-1", 137)}, running.exits
        assert output.digest() == test.digest, "not the bytes of the undisturbed run"


def a_permanent_exit_code_fails_the_job_at_once(test):
    with test.cluster("permanent", "--set=optimizer.learning_rate=-1") as running:
        chief, worker = running.workloads["shoal-chief"], running.workloads["shoal-worker"]
        deadline = time.monotonic() + 60
        while not (chief.outcome and worker.outcome):
            assert time.monotonic() < deadline, running.exits
            time.sleep(0.1)
        assert chief.outcome == worker.outcome == "PodFailurePolicy", (chief.outcome, worker.outcome)
        ended = [hostname for hostname, _ in running.exits if hostname.startswith(("shoal-chief", "shoal-worker"))]
        assert len(ended) == len(set(ended)), running.exits  # none a second time
        assert {code for _, code in running.exits} == {64}, running.exits
        assert "learning_rate" in running.logs["shoal-chief-0"], running.logs["shoal-chief-0"]


def python_image(test):
    """Returns an image with this machine's Python and the program: what docs/kubernetes.md builds from packages."""
    stage = test.containers.folder / "python_image"
    call("deploy/docker/build", f"--binary={os.environ.get('SHOAL', 'bazel-bin/deploy/shoal')}", f"--folder={stage}",
         env=test.containers.environment)
    version = call("/usr/bin/python3", "-c", "import sys; print('python%d.%d' % sys.version_info[:2])").strip()
    shutil.copy(f"/usr/bin/{version}", stage / "usr/bin/python3")
    (stage / "bin").mkdir(exist_ok=True)
    shutil.copy("/bin/sh", stage / "bin/sh")  # A worker guards its program with it.
    shutil.copytree(f"/usr/lib/{version}", stage / "usr/lib" / version,
                    ignore=shutil.ignore_patterns("test", "__pycache__", "dist-packages", "config-*"))
    for library in re.findall(r"/\S+\.so\S*", call("ldd", f"/usr/bin/{version}")):
        target = stage / "usr/lib/x86_64-linux-gnu" / pathlib.Path(library).name
        if not library.startswith("/lib64/") and not target.exists():
            shutil.copy(library, target)
    (stage / "app").mkdir()
    program_on_hosts.write(stage / "app/line.py", pause=0.3).chmod(0o444)
    image = "localhost/shoal_with_python:test"
    call("buildah", "bud", "--quiet", "--layers=false", "--file=deploy/docker/Containerfile", f"--tag={image}", stage,
         env=test.containers.environment)
    return image


def a_program_of_ones_own_trains(test):
    text = call("deploy/kubernetes/render", "--program=/app/line.py", f"--image={python_image(test)}", "--overlay=local",
                "--", *program_on_hosts.ARGUMENTS)
    folder = test.containers.folder / "claims" / "program"
    with Cluster(test.containers, list(yaml.safe_load_all(text)), folder) as running:
        wait_for_step(running, Output(running), 10)
        running.kill("shoal-worker-0")
        running.wait_done(240)
        program_on_hosts.check_trained(running.folder / "shoal-out", 2)
        assert Output(running).step() == 50, Output(running).step()
        assert sorted(e for e in running.exits if e[1]) == [("shoal-worker-0", 137)], running.exits


def the_image_has_no_shell(test):
    done = subprocess.run(["podman", "run", "--rm", "--network=none", "--entrypoint=/bin/sh", test.image, "-c", "true"],
                          env=test.containers.environment, capture_output=True, text=True)
    assert done.returncode == 127, done
    inspected = json.loads(test.containers.podman("image", "inspect", test.image))[0]
    assert inspected["Config"]["User"] == "65532:65532" and inspected["Config"]["Entrypoint"] == ["/usr/bin/shoal"]


def main():
    tests = [the_image_has_no_shell, a_permanent_exit_code_fails_the_job_at_once, an_undisturbed_run_trains,
             killed_pods_come_back_and_the_bytes_are_the_same, a_lost_chief_resumes_from_its_checkpoint,
             stop_and_resume_give_the_same_bytes, mutual_tls_gives_the_same_bytes,
             a_jobset_gives_the_same_bytes, a_tfjob_gives_the_same_bytes,
             a_tfjob_whose_readiness_asks_for_its_peers_never_trains, a_worker_with_another_run_file_is_given_up_alone,
             a_worker_that_returns_on_another_processor_is_tried_again, a_program_of_ones_own_trains]
    failed = 0
    with Containers() as containers:
        shared = Test(containers)
        for test in tests:
            if sys.argv[1:] and test.__name__ not in [*sys.argv[1:], "an_undisturbed_run_trains"]:
                continue
            start = time.monotonic()
            try:
                test(shared)
                print(f"[ OK     ] {test.__name__} ({time.monotonic() - start:.1f} s)", flush=True)
            except Exception:  # one that is broken must not keep the others from running
                failed += 1
                print(f"[ FAILED ] {test.__name__}\n{traceback.format_exc()[-6000:]}", flush=True)
    sys.exit(1 if failed else 0)


main()
