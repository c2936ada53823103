"""A Slurm of its own on the hosts of a Network: munged, slurmctld here, one slurmd per host.

    with Network(hosts=3) as network, SlurmCluster(network) as slurm:
        job = slurm.submit("deploy/slurm/train.sbatch", "--nodes=3")
        slurm.wait(job)

Wants root and the packages slurm-wlm and munge. Nothing of the machine's own Slurm is used or changed.
Jobs of the partition `urgent` preempt others: those of `train` are requeued, those of `spare` are cancelled.
"""
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

from network import wait_until

CONFIG = """
ClusterName=shoal
SlurmctldHost={host}({address})
SlurmctldPort=6817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmdTimeout=10
SlurmctldTimeout=30
InactiveLimit=0
KillWait=5
MinJobAge=600
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0,requeue_setup_env_fail
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=train Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=spare Nodes=ALL MaxTime=INFINITE State=UP PreemptMode=CANCEL
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr={address} Port=17000 CPUs=8 RealMemory=4000 State=UNKNOWN\n"


# So that no daemon outlives a test that is killed; those on hosts go with their Network.
DIES_WITH_US = ["setpriv", "--pdeathsig", "KILL"]


class SlurmCluster:
    """Host i of the network is the node of the same name. Use as a context: every daemon ends with it."""

    def __init__(self, network):
        self.network = network
        self.daemons = {}

    def __enter__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="shoal_slurm_"))
        self.directory.chmod(0o755)
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        with contextlib.suppress(Exception):
            self.call("scancel", "--user=root", "--full")
            wait_until(lambda: not self.call("squeue", "--noheader").stdout.strip(), 30, "all jobs end")
        for daemon in reversed(list(self.daemons.values())):
            self._end(daemon)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _end(self, daemon):
        daemon.terminate()
        try:
            daemon.wait(timeout=15)
        except subprocess.TimeoutExpired:
            os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait()

    def _start(self):
        (self.directory / "state").mkdir()
        host = socket.gethostname().split(".")[0]
        config = CONFIG.format(host=host, address=self.network.address, directory=self.directory)
        for node in self.network.hosts:
            config += NODE.format(name=node.name, host=host, address=node.address)
        (self.directory / "slurm.conf").write_text(config)
        self.environment = {**os.environ, "SLURM_CONF": str(self.directory / "slurm.conf")}
        self._start_munged()
        self.daemons["slurmctld"] = subprocess.Popen(
            [*DIES_WITH_US, "slurmctld", "-D", "-f", self.environment["SLURM_CONF"]], env=self.environment,
            start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: self.call("scontrol", "ping").returncode == 0, 30, f"slurmctld\n{self.log('slurmctld')}")
        for node in self.network.hosts:
            self.start_node(node)
        wait_until(lambda: all(self.state(node) == "idle" for node in self.network.hosts), 60,
                   "all nodes are idle")

    def _start_munged(self):
        key = self.directory / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.daemons["munged"] = subprocess.Popen(
            [*DIES_WITH_US, "munged", "--foreground", "--force", f"--key-file={key}",
             f"--socket={self.directory}/munge.socket",
             f"--pid-file={self.directory}/munged.pid", f"--log-file={self.directory}/munged.log",
             f"--seed-file={self.directory}/munged.seed"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        wait_until((self.directory / "munge.socket").exists, 20, "munged listens")

    def start_node(self, node):
        self.daemons[node.name] = node.start(
            ["slurmd", "-D", "-N", node.name, "-f", self.environment["SLURM_CONF"]], env=self.environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def log(self, name):
        with contextlib.suppress(FileNotFoundError):
            return (self.directory / f"{name}.log").read_text()[-3000:]

    def call(self, *command):
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60)

    def state(self, node):
        return self.call("sinfo", "--noheader", "--Node", "--partition=train", f"--nodes={node.name}", "--format=%t").stdout.strip()

    def submit(self, *arguments, **environment):
        """sbatch; returns the job's number."""
        done = subprocess.run(["sbatch", "--parsable", *map(str, arguments)], capture_output=True, text=True,
                              env={**self.environment, **environment})
        assert done.returncode == 0, f"sbatch: {done.stderr}"
        return done.stdout.strip().split(";")[0]

    def cancel(self, job, *signal_flags):
        """scancel; a plain one ends the job."""
        done = self.call("scancel", *signal_flags, job)
        assert done.returncode == 0, f"scancel: {done.stderr}"

    def job(self, job):
        """Returns what scontrol knows of it: JobState, ExitCode, Restarts, Reason, ..."""
        text = self.call("scontrol", "show", "job", "--oneliner", job).stdout.splitlines()
        return dict(part.split("=", 1) for part in text[0].split() if "=" in part)
