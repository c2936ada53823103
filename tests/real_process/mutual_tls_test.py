#!/usr/bin/env python3
"""Mutual TLS between real processes: a run, and everybody who must not take part in one."""
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import time

import cluster
import signals_test
from by_hand_test import SMALL, ByHand

MAKE = str(pathlib.Path("deploy/tls/make_certificates").resolve())


def make(directory, *flags):
    subprocess.run([MAKE, str(directory), *flags], check=True, capture_output=True)
    return directory


def flags_of(directory, name="{job}", authority=None):
    return [f"--tls_cert={directory}/{name}.crt", f"--tls_key={directory}/{name}.key",
            f"--tls_ca={authority or directory}/ca.crt"]


def certificate(path):
    """The first one in the file, in DER."""
    return ssl.PEM_cert_to_DER_cert(re.search("-----BEGIN.*?-----END CERTIFICATE-----\n", path.read_text(), re.S).group(0))


def shown(address, directory):
    """The certificate of the server there, asked with the pair of a worker."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(directory / "worker.crt", directory / "worker.key")
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as connection, context.wrap_socket(connection) as secured:
        return secured.getpeercert(binary_form=True)


def a_run_over_tls_gives_the_bytes_of_a_plaintext_run():
    with tempfile.TemporaryDirectory(prefix="shoal_test_") as scratch:
        certificates = make(pathlib.Path(scratch) / "tls")
        wire = ["--set=cluster.no_shared_memory=true", "--num_ps_tasks=2", "--num_replicas=2"]
        with cluster.Run(SMALL, *wire, *flags_of(certificates)) as run:
            run.finish()
            run.assert_nothing_left()
            log = (run.out / "logs" / "ps-0.log").read_text()
            assert "mutual TLS as spiffe://shoal/ps" in log, log
            encrypted = run.digest()
        with cluster.Run(SMALL, *wire) as run:
            assert run.finish().digest() == encrypted


def worker_0_that_hosts_the_chief_has_its_certificate_by_the_same_flags():
    with tempfile.TemporaryDirectory(prefix="shoal_test_") as scratch:
        tls = flags_of(make(pathlib.Path(scratch) / "tls"))
        hosts = [f"--{job}_hosts=127.0.0.1:{cluster.free_port()}" for job in ("ps", "worker")]
        with ByHand(*hosts, *tls) as run:
            run.start("ps")
            run.start("worker", "--task_index=0")
            codes = {job: run.end(job) for job in run.tasks}
            assert codes == {"ps": 0, "worker": 0}, f"{codes}\n{run.logs()}"
            assert "mutual TLS as spiffe://shoal/chief,worker" in run.log("worker"), run.logs()


def a_stranger_is_refused_and_the_run_continues():
    with tempfile.TemporaryDirectory(prefix="shoal_test_") as scratch, ByHand() as run:
        scratch = pathlib.Path(scratch)
        good = make(scratch / "good")
        other = make(scratch / "other")
        address = run.start_chief("--listen_address=127.0.0.1:0", "--wait_seconds=600", *flags_of(good))
        to_chief = [f"--chief_host={address}", "--task_index=0"]
        strangers = {
            "another authority": flags_of(other, authority=good),
            "another authority there": flags_of(other),
            "the role of a ps": flags_of(good, name="ps"),
            "plaintext": [],
        }
        for what, flags in strangers.items():
            # Not waited for to the end where this side sees that the two do not go together.
            permanent = what in ("the role of a ps", "another authority there")
            run.start("worker", *to_chief, f"--wait_seconds={300 if permanent else 8}", *flags)
            code = run.end("worker")
            assert code == (78 if permanent else 138), f"{what}: {code}\n{run.logs()}"
            if what == "another authority there":
                assert "it is of an authority that --tls_ca does not name" in run.log("worker"), run.logs()
            if what == "plaintext":
                assert "if the run uses TLS, give --tls_ca" in run.log("worker"), run.logs()
        asked = subprocess.run([cluster.shoal_binary(), "status", address], capture_output=True, text=True, timeout=60,
                               check=False)
        assert asked.returncode == 138 and "if the run uses TLS, give --tls_ca" in asked.stderr, asked
        said = run.log("chief")
        for words in ("certificate verify failed", "wrong version number",
                      "spiffe://shoal/ps speaks for a worker"):
            assert said.count(words) <= 1, f"{words}\n{said}"
        assert "certificate verify failed" in said and "wrong version number" in said, said
        # The line says where it came from.
        assert re.search(r"certificate verify failed\..*, the connection is .*from 127\.0\.0\.1:\d+", said), said
        assert re.search(r"wrong version number\..*, the connection is .*from 127\.0\.0\.1:\d+", said), said
        assert "worker/0 registered" not in said, said
        run.start("ps", f"--chief_host={address}", "--task_index=0", "--listen_address=127.0.0.1:0", *flags_of(good))
        run.start("worker", f"--chief_host={address}", "--task_index=0", *flags_of(good))
        codes = {job: run.end(job) for job in run.tasks}
        assert codes == {"chief": 0, "ps": 0, "worker": 0}, f"{codes}\n{run.logs()}"
        for job in run.tasks:  # It would read like a refusal of a good client.
            assert "No match found for server name" not in run.log(job), run.log(job)


def a_worker_that_only_the_ps_does_not_trust_names_the_ps_and_likely_causes():
    with tempfile.TemporaryDirectory(prefix="shoal_test_") as scratch, ByHand() as run:
        scratch = pathlib.Path(scratch)
        good = make(scratch / "good")
        other = make(scratch / "other")
        both = scratch / "both"
        both.mkdir()
        (both / "ca.crt").write_text((good / "ca.crt").read_text() + (other / "ca.crt").read_text())
        address = run.start_chief("--listen_address=127.0.0.1:0", *flags_of(good, authority=both))
        ps = f"127.0.0.1:{cluster.free_port()}"
        run.start("ps", f"--chief_host={address}", "--task_index=0", f"--listen_address={ps}", *flags_of(good))
        run.start("worker", f"--chief_host={address}", "--task_index=0", *flags_of(other, authority=both))
        deadline = time.monotonic() + 180
        while "ps/0 has not accepted an exchange" not in run.log("worker"):
            assert time.monotonic() < deadline, run.logs()
            time.sleep(0.1)
        said = run.log("worker")
        assert f"{ps}: it closes the connection: it may not trust this side's --tls_cert" in said, said
        assert "certificate verify failed" in run.log("ps"), run.logs()


def other_machines_need_no_insecure_with_tls_and_new_files_are_taken():
    with tempfile.TemporaryDirectory(prefix="shoal_test_") as scratch:
        scratch = pathlib.Path(scratch)
        used = make(scratch / "used")
        with ByHand("--num_epochs=1000", "--set=cluster.no_shared_memory=true") as run:
            tls = flags_of(used)
            address = run.start_chief("--listen_address=0.0.0.0:0", *tls)
            assert address.startswith("0.0.0.0:"), run.logs()
            chief = "--chief_host=127.0.0.1:" + address.rsplit(":", 1)[1]
            ps = f"127.0.0.1:{cluster.free_port()}"
            run.start("ps", chief, "--task_index=0", f"--listen_address={ps}", *tls)
            run.start("worker", chief, "--task_index=0", *tls)
            metrics = run.out / "metrics.jsonl"

            def wait_for_steps(more):
                start = metrics.read_text().count("\n") if metrics.exists() else 0
                deadline = time.monotonic() + 180
                while not metrics.exists() or metrics.read_text().count("\n") < start + more:
                    assert time.monotonic() < deadline, run.logs()
                    time.sleep(0.05)

            wait_for_steps(5)
            renewed = make(scratch / "renewed", f"--authority={used}")
            for path in sorted(renewed.iterdir()):
                path.rename(used / path.name)
            for job, server in (("chief", chief.split("=")[1]), ("ps", ps)):
                new = certificate(used / f"{job}.crt")
                signals_test.wait_until(f"{job} shows its new certificate", run,
                                        lambda server=server, new=new: shown(server, used) == new)
            wait_for_steps(5)
            # A worker with the new pair is let in by tasks that were started with the old one.
            run.tasks["worker"].kill()
            run.tasks["worker"].wait()
            run.start("worker", chief, "--task_index=0", *tls)
            wait_for_steps(5)
            assert "retr" not in run.log("ps"), run.logs()


def sigterm_to_a_ps_or_worker_makes_a_checkpoint_as_without_tls():
    with tempfile.TemporaryDirectory(prefix="shoal_test_") as scratch:
        tls = flags_of(make(pathlib.Path(scratch) / "tls"))
        for job in ("ps", "worker"):
            with signals_test.training(*tls) as run:
                run.tasks[job].send_signal(signal.SIGTERM)
                assert run.end(job) == 143, run.logs()
                assert signals_test.checkpoints(run), f"{job}\n{run.logs()}"
                assert run.tasks["chief"].poll() is None, run.logs()


if __name__ == "__main__":
    cluster.main([a_run_over_tls_gives_the_bytes_of_a_plaintext_run,
                  worker_0_that_hosts_the_chief_has_its_certificate_by_the_same_flags,
                  sigterm_to_a_ps_or_worker_makes_a_checkpoint_as_without_tls, a_stranger_is_refused_and_the_run_continues,
                  a_worker_that_only_the_ps_does_not_trust_names_the_ps_and_likely_causes,
                  other_machines_need_no_insecure_with_tls_and_new_files_are_taken])
