"""What watches the quorum in a chaos run: one job that gathers itself, or two relays, a topic, a store and jobs."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import requests

from connectors.store.alert_store import AlertStore
from connectors.store.tables import job_database
from deploy.lab.lab import Lab
from streaming.demo.job_process import START_S, JobProcess, JsonlLine
from tests.chaos import job_processes, small_disk
from tests.chaos.chaos_lab import ChaosLab
from tests.chaos.counted_sinks import CountedSinks, counted_sinks
from tests.chaos.delivery_check import Content
from tests.chaos.kill_point import Role
from tests.chaos.oracle import HOLD_S, KEEPS_FIRING, KEEPS_FIRING_S
from tests.job.configured_job import ConfiguredJob, SeparateJob, section
from tests.job.relay_process import RelayProcess
from tests.own_network import OwnNetwork
from tests.postgres_server import PostgresServer

CLUSTER = "chaos"
_REFUSED = 2
DISK_MB, STORE_MB = 400, 400
"""Of a job's disk, and of the store's."""
THRESHOLDS = {
    **{rule: {"hold": hold} for rule, hold in HOLD_S.items() if " " not in rule},
    **{rule: {name: seconds} for rule, (name, seconds) in KEEPS_FIRING.items()},
    "observer-could-be-voter": {"hold": 30},
    "node-restarting": {"window": KEEPS_FIRING_S["node-restarting"], "slow_starts": 33},
    "restarts-without-end": {"rounds": 33},
}


@dataclass(kw_only=True)
class ChaosJob(ConfiguredJob):
    """A job with everything that it writes on a disk of its own; nothing waits for a start of it."""

    ports: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """What it reaches from a network of its own: store, topic and sinks."""
    refusals: list[str] = field(default_factory=list)
    """Starts that ended with exit code 2, after which a supervisor starts it no more."""

    def _ready(self) -> bool:
        return True

    @property
    def exit_code(self) -> int | None:
        """The exit code of the newest start; None while it runs. A negative code is a signal."""
        return None if self._process is None else self._process.poll()

    @property
    def marker(self) -> Path:
        """The folder by which its processes are found, with their orders and the log of their calls."""
        return Path(self.environment[job_processes.VARIABLE])

    def pids(self, role: Role) -> list[int]:
        """Returns the running processes of a role."""
        return job_processes.with_role(self.marker, role)

    def is_ready(self) -> bool:
        """Whether it observes."""
        return bool(JobProcess._ready(self))

    def await_start(self) -> None:
        """Waits until it observes."""
        self._until(lambda: self.is_ready() or None, START_S, "the job's first batch")

    def restart_if_ended(self) -> bool:
        """Starts it if it has ended by itself; returns whether it had."""
        if self.exit_code is None:
            return False
        self.refusals += [self.newest_output()[:300]] if self.exit_code == _REFUSED else []
        self.stop()
        self.start()
        return True

    def started(self) -> Iterator[None]:
        """Yields until it observes again, if it has ended."""
        while self.restart_if_ended() or not self.is_ready():
            yield


@dataclass(kw_only=True)
class SeparateChaosJob(ChaosJob, SeparateJob):
    """One of several jobs, in a network of its own."""


@dataclass(kw_only=True)
class ChaosMonitor:
    """Jobs with their sinks; relays, topic and store if they are shared."""

    sinks: CountedSinks
    jobs: Mapping[int, ChaosJob] = field(default_factory=dict)
    """Numbered from 1."""
    relays: Sequence[RelayProcess] = ()
    """Without them there is neither topic nor store."""
    topic: Lab = field(init=False)
    store: PostgresServer = field(init=False)

    def active(self) -> int | None:
        """Returns the job that notifies; None if none says so."""
        return next((number for number, job in self.jobs.items() if _notifies(job)), None)

    def alerts(self) -> Sequence[JsonlLine]:
        """Returns the lines of the file that all jobs write."""
        return self.jobs[1].alerts()

    def ledger(self) -> Content:
        """Returns what the ledger has."""
        place = self.store.place("kraftwatch") if self.relays else self.jobs[1].checkpoint
        return AlertStore(job_database(place, read_only=True)).content()

    def firing(self) -> Sequence[JsonlLine]:
        """Returns the alerts that are active by these lines."""
        return self.jobs[1].firing()


def _notifies(job: ChaosJob) -> bool:
    with suppress(requests.RequestException):
        lines = requests.get(f"http://{job.address}/metrics", timeout=2).text.splitlines()
        return any(line.startswith("kraftwatch_notifies") and float(line.split()[-1]) == 1 for line in lines)
    return False


@contextmanager
def chaos_monitor(folder: Path, lab: ChaosLab, *, shared: bool, jobs: int) -> Iterator[ChaosMonitor]:
    """Starts everything that watches the quorum; returns once the job observes it."""
    with ExitStack() as stack:
        monitor = ChaosMonitor(sinks=stack.enter_context(counted_sinks(folder)))
        fixed = {"hosts_file": str(lab.monitor_hosts_file), "cluster_id": lab.cluster_id}
        cluster = section(CLUSTER, lab, **fixed)
        config = {"clusters": [cluster], "thresholds": THRESHOLDS}
        if shared:
            config |= _shared(folder, stack, monitor, cluster)
        monitor.jobs = {number: _job(folder / f"job-{number}", monitor, stack, jobs) for number in range(1, jobs + 1)}
        for job in monitor.jobs.values():
            job.write_config(**config, sinks=[f"jsonl:{monitor.jobs[1].jsonl}", *monitor.sinks.entries])
            stack.enter_context(job)
            job.await_start()
        yield monitor


def _job(folder: Path, monitor: ChaosMonitor, stack: ExitStack, jobs: int) -> ChaosJob:
    """Returns a job, in a network of its own if there are several."""
    instruments = folder.with_name(f"{folder.name}-instruments")
    instruments.mkdir()
    environment = monitor.sinks.services.instrument(instruments)
    small_disk.mount(folder, megabytes=DISK_MB)
    # What it wrote is kept: the disk ends with the mount namespace.
    kept = folder.with_name(f"{folder.name}-end")
    stack.callback(shutil.copytree, folder, kept, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))
    options: dict[str, Any] = {"folder": folder, "name": CLUSTER, "bootstrap": (), "environment": environment}
    if jobs == 1:
        return ChaosJob(**options)
    network = stack.enter_context(OwnNetwork())
    places = {"store": [f":{monitor.store.port}"], "topic": monitor.topic.broker_bootstrap, "sinks": monitor.sinks.urls}
    ports = {name: [int(url.rstrip("/").rpartition(":")[2]) for url in urls] for name, urls in places.items()}
    network.reach(*chain.from_iterable(ports.values()))
    return SeparateChaosJob(**options, network=network, ports=ports)


def _shared(folder: Path, stack: ExitStack, monitor: ChaosMonitor, cluster: dict[str, Any]) -> Mapping[str, Any]:
    """Starts relays, topic and store; returns the job's settings for them."""
    topic = stack.enter_context(Lab(folder / "topic", controllers=0, combined=1, brokers=0))
    server = PostgresServer()
    small_disk.mount(server.folder, megabytes=STORE_MB)
    store = stack.enter_context(server)
    relays = [RelayProcess(folder / f"relay-{n}", topic, topic="observations", clusters=[cluster]) for n in (1, 2)]
    for relay in relays:
        stack.callback(relay.stop)
        relay.start()
    relays[0].wait_for_rows(1)
    monitor.topic, monitor.store, monitor.relays = topic, store, relays
    relay_section = {**relays[0].section, "folder": str(folder / "no-relay")}
    return {"source": "kafka", "relay": relay_section, "store": store.database("kraftwatch").url}
