"""Bad certificates, contradictory flags of mutual TLS, host files."""
import pathlib
import subprocess

FLAGS, CONFIG = 64, 78


def tls_cases(scratch, quick):
    """Certificates of this task that it cannot use."""
    make = [str(pathlib.Path("deploy/tls/make_certificates").resolve())]
    good, old = scratch / "tls", scratch / "expired"
    subprocess.run([*make, str(good)], check=True, capture_output=True)
    subprocess.run([*make, str(old), "--days=-1"], check=True, capture_output=True)
    chief = ["chief", *quick, f"--out={scratch / 'tls_run'}", "--num_ps_tasks=1", "--num_replicas=1",
             "--listen_address=127.0.0.1:0"]

    def files(cert, key, ca=good / "ca.crt"):
        return [*chief, f"--tls_cert={cert}", f"--tls_key={key}", f"--tls_ca={ca}"]

    pair = [good / "chief.crt", good / "chief.key"]
    hosts, few = scratch / "hosts", scratch / "few_hosts"
    hosts.write_text("192.0.2.1\n192.0.2.2 slots=none\n")
    few.write_text("127.0.0.1 slots=1\n")
    far = scratch / "far_hosts"
    far.write_text("192.0.2.1\n")
    launch = ["launch", *quick, f"--out={scratch / 'launched'}"]
    return [
        (launch, FLAGS, "--hosts: is missing"),
        ([*launch, "--hosts=/nowhere"], CONFIG, "--hosts: cannot read /nowhere: No such file or directory; name a file that is there"),
        ([*launch, f"--hosts={hosts}"], FLAGS, f"--hosts: {hosts}:2: slots must be a whole number above 0"),
        ([*launch, f"--hosts={few}", "--num_replicas=2"], FLAGS, "but the hosts have slots for 1 workers"),
        ([*launch, f"--hosts={few}", "--num_ps_tasks=0", "--num_replicas=1"], FLAGS, "use `shoal train`"),
        ([*launch, f"--hosts={far}"], CONFIG, "or --insecure on a trusted network"),
        (["train", *quick, f"--hosts={few}"], FLAGS, "--hosts: has no meaning for this command"),
        ([*chief, f"--tls_cert={pair[0]}"], FLAGS, "--tls_ca: is missing, but --tls_cert is given"),
        (["train", *quick, f"--tls_key={pair[1]}"], FLAGS, "--tls_ca: is missing, but --tls_key is given"),
        ([*files(*pair), "--insecure"], FLAGS, "--insecure: contradicts --tls_cert"),
        (files("/nowhere.crt", pair[1]), CONFIG, "--tls_cert: /nowhere.crt cannot be read"),
        (files(pair[0], "/nowhere.key"), CONFIG, "--tls_key: /nowhere.key cannot be read"),
        (files(*pair, "/nowhere.crt"), CONFIG, "--tls_ca: /nowhere.crt cannot be read"),
        (files(scratch, pair[1]), CONFIG, "cannot be read"),
        (files(pair[1], pair[1]), CONFIG, "is not a certificate; name a file that begins with"),
        (files(pair[0], pair[0]), CONFIG, "is not a private key"),
        (files(pair[0], good / "ps.key"), CONFIG, "is not the key of"),
        (files(old / "chief.crt", old / "chief.key"), CONFIG, "expired at"),
        (files(good / "ca.crt", good / "ca.key"), CONFIG, "names no role"),
        (files(good / "ps.crt", good / "ps.key"), CONFIG, "/ps.crt has the role ps, but chief/0 needs chief"),
    ]
