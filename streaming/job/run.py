"""The main job: the gatherer process, then the journal as a Spark stream: decode, processor, deliver.

A changed configuration takes effect while the job runs. What only the driver uses (sinks, maintenance) is replaced in
place. What the processor or the gatherer uses is passed to a new query or a new gatherer process, which continues from
where the former one stopped; the Spark session, the checkpoint and the ledger stay.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from connectors.errors import KraftwatchError
from connectors.process.signals import STOP, SignalFlag
from connectors.store.durable_file import private_files
from connectors.store.tables import job_database
from streaming.config import Config
from streaming.config.reload import ConfigFile
from streaming.job import logging_setup
from streaming.job.checkpoint_lease import CheckpointLease
from streaming.job.cluster_identity import say_silent
from streaming.job.dependencies import Dependencies
from streaming.job.dependency_checks import dependency_checks
from streaming.job.job import Job, started
from streaming.job.serving import serve, serve_start
from streaming.job.start_up import created, prepare
from streaming.pipeline.active_role import job_id
from streaming.pipeline.checkpoint import Checkpoint

log = logging.getLogger(__name__)
Print = Callable[[str], None]
"""Prints a line for the person at the terminal, on stderr."""


def run(config: Config, *, say: Print, file: ConfigFile | None = None) -> None:
    """Runs the job until SIGINT or SIGTERM; `say` prints progress on the terminal.

    `file` is the configuration file that the job re-reads; None when options alone configure it.
    """
    checkpoint = Checkpoint(folder=config.folder.absolute(), uri=config.spark_uri, store=config.server)
    with ExitStack() as stack:
        # Before any file is created and before Java starts, which inherits it.
        stack.enter_context(private_files())
        stop = stack.enter_context(SignalFlag(*STOP))
        stack.enter_context(checkpoint.held())
        if file is not None:
            stack.enter_context(file)
        try:
            job = _started_job(config, checkpoint, file, stop, say, stack)
            checks = _checks(job, stop, say, stack)
            _run_until_stopped(job, checks, file, stop, say)
        except KraftwatchError:
            # A signal to the whole process group ends Java before this process reads its own signal; and what the
            # start waits for need not come any more.
            if not stop.is_set():
                raise


def _started_job(
    config: Config, checkpoint: Checkpoint, file: ConfigFile | None, stop: SignalFlag, say: Print, stack: ExitStack
) -> Job:
    """Returns the job with everything but Spark."""
    dependencies = Dependencies(say)
    served = serve_start(config, dependencies, stack)
    database = job_database(config.store_place)
    if config.store is not None:
        # It has the cluster ids. A file that is missing is reported first.
        created(database, stop, dependencies)
    start_up = prepare(config, checkpoint, may_wait=file is not None, stop=stop, dependencies=dependencies)
    logging_setup.log_to(checkpoint.logs, config.log_format)
    dependencies.say = lambda line: log.warning("%s", line)
    if start_up.set_aside is not None:
        log.warning("%s", start_up.set_aside)
    say_silent(start_up.silent)
    if file is not None and start_up.unavailable:
        file.wait_for("; ".join(start_up.unavailable), meanwhile="the others are monitored")
    job = started(start_up, checkpoint, created(database, stop, dependencies), dependencies, stop, stack)
    verb = "gathering from" if job.running.gathers else "reading the relay of"
    say(f"{verb} {_names(job.running.names)}; starting Spark")
    serve(job, file, served, stack)
    return job


def _checks(job: Job, stop: SignalFlag, say: Print, stack: ExitStack) -> Sequence[Callable[[], None]]:
    """Returns what is to be checked about once a second; `stack` ends Spark, which `Monitoring.wait` starts."""
    config, checkpoint = job.running.config, job.checkpoint
    checks: list[Callable[[], None]] = []
    if config.store is not None and checkpoint.uri is not None:
        lease = CheckpointLease(
            job_database(config.store_place), job_id(checkpoint.folder), checkpoint.uri, stop=stop, say=say
        )
        checks.append(stack.enter_context(lease).require)
    stack.callback(job.monitoring.stop_spark)
    checks.append(dependency_checks(job).run)
    return checks


def _run_until_stopped(
    job: Job, checks: Sequence[Callable[[], None]], file: ConfigFile | None, stop: SignalFlag, say: Print
) -> None:
    monitors = False
    while not stop.is_set():
        job.monitoring.wait(1)
        if stop.is_set():
            # What is missing now has been stopped.
            break
        if not monitors and not job.is_starting():
            monitors = True
            say(f"monitoring {_names(job.running.names)}")
        for check in checks:
            check()
        job.notify()
        logging_setup.rotate_child_logs(job.checkpoint.logs)
        if file is not None:
            file.poll(job.change)
        job.record_learned_ids()
    job.monitoring.stop_query()


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 5 else f"{len(names)} clusters"
