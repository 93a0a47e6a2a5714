"""Serving: the page, /metrics and health of a job, and its heartbeat; each has threads of its own."""

from contextlib import ExitStack

from connectors.store.durable_file import full_disk
from connectors.wall_clock import wall_ms
from streaming.config import Config, host_port
from streaming.config.reload import ConfigFile
from streaming.job.dependencies import Dependencies
from streaming.job.job import Job
from streaming.metrics.heartbeat import Heartbeat
from streaming.metrics.job_metrics import JobSources, metrics, start_metrics
from streaming.status.status_store import StatusStore
from streaming.web.api import Changes, api
from streaming.web.application import JobLiveness, health_endpoints
from streaming.web.fleet_view import FleetView
from streaming.web.pages import pages
from streaming.web.past_states import PastStates
from streaming.web.server import Server


def serve_start(config: Config, dependencies: Dependencies, stack: ExitStack) -> Server | None:
    """Starts the web server where one is configured; `stack` stops it again. It shows what the start waits for."""
    if config.listen is None:
        return None
    liveness = JobLiveness(
        last_batch_at=lambda: None, gatherer_runs=lambda: None, waits_for=lambda: dependencies.seconds
    )
    view = FleetView(
        store=StatusStore([section.name for section in config.watched]),
        starting=lambda: True,
        missing=lambda: dependencies.sentences,
    )
    shown = [health_endpoints(liveness), start_metrics(lambda: dependencies.states), pages(view), api(view)]
    address, access = host_port(config.listen), config.page_access()
    return stack.enter_context(Server(address, shown, page_url=lambda: config.page_url, access=access))


def serve(job: Job, file: ConfigFile | None, server: Server | None, stack: ExitStack) -> None:
    """Starts what shows that the job works, and lets the web server show the job; `stack` stops all again."""
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
    if server is None:
        return
    # Where a relay gathers, there are no past states.
    past = PastStates(job.checkpoint.journal, lambda name: job.monitoring.spec.settings.get(name))
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
    shown = [metrics(_sources(job, liveness, heartbeat, file)), pages(view), api(view, changes)]
    server.show([health_endpoints(liveness), *shown], page_url=lambda: job.config.page_url)


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
