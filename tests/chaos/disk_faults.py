"""The faults of full disks: of a controller, of a job, of the store."""

from collections.abc import Iterator
from pathlib import Path

from tests.chaos import small_disk
from tests.chaos.chaos_fault import STARTS_S, STORE, ChaosContext, ChaosFault, controllers, jobs, lasting
from tests.chaos.facts import Kind


def _disk(context: ChaosContext, node: int) -> Path:
    disk = context.lab.node(node).disk
    assert disk is not None
    return disk


def _free_controller(context: ChaosContext, node: int) -> None:
    """A controller that cannot write has ended."""
    small_disk.free(_disk(context, node))
    if context.lab.node(node).running:
        context.lab.kill(node)
    context.restart_controller(node)


def _full_job(context: ChaosContext, number: int) -> Iterator[None]:
    """A job that ends is started when there is space, as after a failed start."""
    job = context.monitor.jobs[number]
    with context.job_off(number):
        small_disk.fill(job.folder)
        yield
        small_disk.free(job.folder)
        yield  # It may be about to end.
        yield from job.started()
    context.monitor_off_for(STARTS_S)


def _free_store(context: ChaosContext, _: int) -> None:
    """PostgreSQL has refused to write, or has ended."""
    store = context.monitor.store
    small_disk.free(store.folder)
    store.stop()
    store.start()


DISK_FAULTS = (
    ChaosFault(
        name="a controller's disk is full",
        needs=controllers,
        run=lasting(Kind.UNCERTAIN, lambda context, node: small_disk.fill(_disk(context, node)), _free_controller),
    ),
    ChaosFault(name="a job's disk is full", needs=jobs, run=_full_job, longest_s=60),
    ChaosFault(
        name="the store's disk is full",
        needs=STORE,
        run=lasting(
            Kind.MONITOR_OFF,
            lambda context, _: small_disk.fill(context.monitor.store.folder),
            _free_store,
            subject="",
            off_s=STARTS_S,
        ),
        longest_s=60,
    ),
)
