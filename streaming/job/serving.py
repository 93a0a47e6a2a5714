"""Serving: the page, /metrics and health of a job, its metrics by OTLP and its heartbeat; each in its own threads."""

from contextlib import ExitStack
from dataclasses import dataclass

from connectors.process.wall_clock import wall_ms
from connectors.store.durable_file import full_disk
from rules.model.identifiers import Millis
from streaming.config import Config, host_port
from streaming.config.reload import ConfigFile
from streaming.job.dependencies import Dependencies
from streaming.job.job import Job
from streaming.metrics.heartbeat import Heartbeat
from streaming.metrics.job_metrics import JobSources, job_registry, start_registry
from streaming.metrics.metric_spec import metrics_endpoint
from streaming.metrics.otlp import OtlpExport
from streaming.status.status_store import StatusStore
from streaming.web.api import Changes, api
from streaming.web.application import JobLiveness, health_endpoints
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
    exported, target = start_registry(lambda: dependencies.states), config.otlp_target()
    if target is not None:
        target.check()
    # There is no log yet.
    otlp = stack.enter_context(OtlpExport(exported, lambda: target, service="kraftwatch", report=dependencies.say))
    if config.listen is None:
        return Served(server=None, otlp=otlp)
    liveness = JobLiveness(
        last_batch_at=lambda: None, gatherer_runs=lambda: None, waits_for=lambda: dependencies.seconds
    )
    view = FleetView(
        store=StatusStore([section.name for section in config.watched]),
        starting=lambda: True,
        missing=lambda: dependencies.sentences,
    )
    shown = [health_endpoints(liveness), metrics_endpoint(exported), pages(view), api(view)]
    address, access = host_port(config.listen), config.page_access()
    server = stack.enter_context(Server(address, shown, page_url=lambda: config.page_url, access=access))
    return Served(server=server, otlp=otlp)


def serve(job: Job, file: ConfigFile | None, served: Served, stack: ExitStack) -> None:
    """Starts what shows that the job works, and lets what is served show the job; `stack` stops all again."""
    liveness = JobLiveness(
        last_batch_at=lambda: job.deliver.last_batch_at,
        gatherer_runs=lambda: job.monitoring.gatherer.alive,
        gatherer_stalled_s=lambda: job.monitoring.gatherer.loop_stalled_s,
        full_disk=lambda: full_disk(job.checkpoint.folder),
        waits_for=lambda: job.dependencies.seconds,
    )
    heartbeat = stack.enter_context(
        Heartbeat(
            lambda: None if job.config.heartbeat is None else job.config.heartbeat.schedule(),
            is_healthy=lambda: (
                liveness.is_alive
                and (liveness.is_starting or job.store.observes_any(wall_ms()))
                and job.role.store_answers
                and not job.notifying.nobody_is_reached
            ),
        )
    )
    exported = job_registry(_sources(job, liveness, heartbeat, file))
    served.otlp.show(exported, lambda: job.config.otlp_target())
    if served.server is None:
        return
    # Where a relay gathers, there are no past states.
    past = PastStates(
        job.checkpoint.journal,
        lambda name: job.monitoring.spec.settings.get(name),
        publish=lambda name: job.monitoring.gatherer.request_polls({name: (None, Millis(0))}),
    )
    view = FleetView(
        store=job.store,
        silences=job.silences,
        acknowledgements=job.acknowledgements.current,
        starting=lambda: job.deliver.last_batch_at is None,
        past=stack.enter_context(past),
        changeable=job.config.page_access().token is not None,
        missing=lambda: job.dependencies.sentences,
    )
    changes = Changes(acknowledgements=job.acknowledgements, silences=job.silences.stored)
    shown = [metrics_endpoint(exported), pages(view), api(view, changes)]
    served.server.show([health_endpoints(liveness), *shown], page_url=lambda: job.config.page_url)


def _sources(job: Job, liveness: JobLiveness, heartbeat: Heartbeat, file: ConfigFile | None) -> JobSources:
    checkpoint = job.checkpoint
    return JobSources(
        store=job.store,
        batch_stats=job.batch_stats,
        is_alive=lambda: liveness.is_alive,
        gatherer_runs=lambda: job.monitoring.gatherer.alive,
        gatherer_pid=lambda: job.monitoring.gatherer.pid,
        journal=checkpoint.journal,
        quarantine=job.quarantine,
        audits=job.audits,
        stats=checkpoint.logs / "gather-stats.json",
        heartbeats=lambda: heartbeat.counts,
        notifies=lambda: job.notifying.notifies,
        missing=lambda: job.dependencies.states,
        config_refused=lambda: None if file is None else file.error is not None,
        config_loaded_at_ms=lambda: None if file is None else file.loaded_at_ms,
    )
