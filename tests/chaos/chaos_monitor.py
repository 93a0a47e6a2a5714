"""What watches the quorum in a chaos run: one job that gathers itself, or two relays, a topic, a store and a job."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcessError
from tests.chaos.chaos_lab import ChaosLab
from tests.chaos.oracle import HOLD_S
from tests.evaluation.counted_sinks import CountedSinks, counted_sinks
from tests.job.configured_job import ConfiguredJob, section
from tests.job.relay_process import RelayProcess
from tests.postgres_server import PostgresServer

CLUSTER = "chaos"
THRESHOLDS = {
    **{rule: {"hold": hold} for rule, hold in HOLD_S.items() if " " not in rule},
    "monitor-blind": {"hold": HOLD_S["monitor-blind"], "controller_hold": HOLD_S["monitor-blind controller"]},
    "unclean-election": {"keep_firing_for": 60},
    "voter-log-regressed": {"keep_firing_for": 60},
    "observer-could-be-voter": {"hold": 30},
    "node-restarting": {"window": 120},
    "epoch-churn": {"window": 120},
}


@dataclass(kw_only=True)
class ChaosMonitor:
    """A job with its sinks; relays, topic and store if it is shared."""

    folder: Path
    job: ConfiguredJob
    sinks: CountedSinks
    relays: Sequence[RelayProcess] = ()
    topic: Lab | None = None
    store: PostgresServer | None = None
    _starter: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=1))
    """Lives as long as the run: a job is stopped when the thread that started it ends."""
    _starting: Future[None] | None = None

    def start_job(self) -> Future[None]:
        """Starts the job again, as a supervisor does; the result is there when it observes."""
        self._starting = self._starter.submit(self._start)
        return self._starting

    def _start(self) -> None:
        self.job.stop()
        with suppress(JobProcessError):
            self.job.start()

    def restart_if_ended(self) -> Future[None] | None:
        """Starts a job that has ended by itself; None if there is nothing to start."""
        starting = self._starting is not None and not self._starting.done()
        return self.start_job() if not starting and self.job.has_ended else None

    def await_start(self) -> None:
        """Waits for a start that has not ended."""
        if self._starting is not None:
            self._starting.result()


@contextmanager
def chaos_monitor(folder: Path, lab: ChaosLab, *, shared: bool) -> Iterator[ChaosMonitor]:
    """Starts everything that watches the quorum; returns once the job observes it."""
    with ExitStack() as stack:
        sinks = stack.enter_context(counted_sinks(folder))
        job = ConfiguredJob(
            folder=folder / "job", name=CLUSTER, bootstrap=(), environment=sinks.services.instrument(folder)
        )
        cluster = section(CLUSTER, lab, hosts_file=str(lab.monitor_hosts_file), cluster_id=lab.cluster_id)
        config: dict[str, Any] = {
            "clusters": [cluster],
            "sinks": [f"jsonl:{job.jsonl}", *sinks.entries],
            "thresholds": THRESHOLDS,
        }
        monitor = ChaosMonitor(folder=folder, job=job, sinks=sinks)
        if shared:
            config |= _shared(folder, stack, monitor, cluster)
        job.write_config(**config)
        stack.enter_context(job)
        yield monitor


def _shared(folder: Path, stack: ExitStack, monitor: ChaosMonitor, cluster: dict[str, Any]) -> Mapping[str, Any]:
    """Starts relays, topic and store; returns the job's settings for them."""
    topic = stack.enter_context(Lab(folder / "topic", controllers=0, combined=1, brokers=0))
    store = stack.enter_context(PostgresServer())
    relays = [RelayProcess(folder / f"relay-{n}", topic, topic="observations", clusters=[cluster]) for n in (1, 2)]
    for relay in relays:
        stack.callback(relay.stop)
        relay.start()
    relays[0].wait_for_rows(1)
    monitor.topic, monitor.store, monitor.relays = topic, store, relays
    relay_section = {**relays[0].section, "folder": str(folder / "no-relay")}
    return {"source": "kafka", "relay": relay_section, "store": store.database("kraftwatch").url}
