"""Serving: the page, /metrics and health of a job, its metrics by OTLP and its heartbeat; each in its own threads."""

import time
from contextlib import ExitStack
from dataclasses import dataclass

from streaming.config import Config, host_port
from streaming.config.reload import ConfigFile
from streaming.job.dependencies import Dependencies
from streaming.job.job import Job
from streaming.metrics.heartbeat import Heartbeat
from streaming.metrics.job_metrics import JobNow, JobSources, job_registry, start_registry
from streaming.metrics.metric_spec import metrics_endpoint
from streaming.metrics.otlp import OtlpExport
from streaming.status.status_store import StatusStore
from streaming.web.api import Changes, api
from streaming.web.application import JobHealth, health_endpoints
from streaming.web.fleet_view import FleetView
from streaming.web.pages import pages
from streaming.web.past_states import PastStates
from streaming.web.server import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What shows the job from its first second on."""

    server: Server | None
    """None where no address is configured."""
    otlp: OtlpExport


def serve_start(config: Config, dependencies: Dependencies, stack: ExitStack) -> Served:
    """Starts the web server where one is configured, and the metrics by OTLP; `stack` stops both again.

    They show what the start waits for.

    Raises:
        UsageError: the address, the certificate, the token or the receiver of OTLP cannot be used.
    """
    exported, target = start_registry(dependencies.states), config.otlp_target()
    if target is not None:
        target.check()
    # There is no log yet.
    export = OtlpExport(exported, config.otlp_target, service="kraftwatch", report=dependencies.say)
    otlp = stack.enter_context(export)
    if config.listen is None:
        return Served(server=None, otlp=otlp)
    since = time.monotonic()

    def health() -> JobHealth:
        return JobHealth(since=since, waits_for=dependencies.seconds)

    view = FleetView(
        store=StatusStore([section.name for section in config.watched]),
        starting=lambda: True,
        missing=dependencies.sentences,
    )
    shown = [health_endpoints(health), metrics_endpoint(exported), pages(view), api(view)]
    address, access = host_port(config.listen), config.page_access()
    server = stack.enter_context(Server(address, shown, page_url=lambda: config.page_url, access=access))
    return Served(server=server, otlp=otlp)


def serve(job: Job, file: ConfigFile | None, served: Served, stack: ExitStack) -> None:
    """Starts what shows that the job works, and lets what is served show the job; `stack` stops all again."""
    heartbeat = stack.enter_context(Heartbeat(job.running.heartbeat, is_healthy=job.is_healthy))
    exported = job_registry(_sources(job, heartbeat, file))
    served.otlp.show(exported, job.running.otlp_target)
    if served.server is None:
        return
    # Where a relay gathers, there are no past states.
    past = PastStates(job.checkpoint.journal, job.running.settings_of, publish=job.monitoring.publish)
    view = FleetView(
        store=job.store,
        silences=job.silences,
        acknowledgements=job.acknowledgements.current,
        starting=job.is_starting,
        past=stack.enter_context(past),
        changeable=job.running.config.page_access().token is not None,
        missing=job.dependencies.sentences,
    )
    changes = Changes(
        acknowledgements=job.acknowledgements,
        silences=job.silences.stored,
        report_witness=job.monitoring.report_witness if job.running.gathers else None,
    )
    shown = [metrics_endpoint(exported), pages(view), api(view, changes)]
    served.server.show([health_endpoints(job.health), *shown], page_url=job.running.page_url)


def _sources(job: Job, heartbeat: Heartbeat, file: ConfigFile | None) -> JobSources:
    def now() -> JobNow:
        gatherer = job.monitoring.input.gatherer
        return JobNow(
            is_alive=job.health().is_alive,
            gatherer_runs=gatherer is None or gatherer.alive,
            gatherer_pid=None if gatherer is None else gatherer.pid,
            heartbeats=heartbeat.counts,
            notifies=job.notifying.notifies,
            missing=job.dependencies.states(),
            config_refused=None if file is None else file.error is not None,
            config_loaded_at_ms=None if file is None else file.loaded_at_ms,
        )

    return JobSources(
        store=job.store,
        batch_stats=job.batch_stats,
        journal=job.checkpoint.journal,
        quarantine=job.quarantine,
        audits=job.audits,
        stats=job.checkpoint.logs / "gather-stats.json",
        now=now,
    )
