"""The faults of full disks: of a controller, of a job, of the store."""

from collections.abc import Iterator, Mapping, Sequence

from tests.chaos import small_disk
from tests.chaos.chaos_fault import STARTS_S, ChaosContext, ChaosFault, facts_while
from tests.chaos.facts import Kind


def _controllers(context: ChaosContext) -> Mapping[str, Sequence[int]]:
    return {"controller": context.lab.controllers}


def _jobs(context: ChaosContext) -> Mapping[str, Sequence[int]]:
    return {"job": [*context.monitor.jobs]}


def _store(context: ChaosContext) -> Mapping[str, Sequence[int]]:
    return {"store": () if context.monitor.store is None else (0,)}


def _full_controller(context: ChaosContext, node: int) -> Iterator[None]:
    """A controller that cannot write ends; it is started when there is space."""
    lab, disk = context.lab, context.lab.node(node).disk
    assert disk is not None
    with facts_while(context, context.facts.begin(Kind.UNCERTAIN, node)):
        small_disk.fill(disk)
        yield
        small_disk.free(disk)
        if lab.node(node).running:
            lab.kill(node)
        context.restart_controller(node)


def _full_job(context: ChaosContext, number: int) -> Iterator[None]:
    """A job that ends is started when there is space, as after a failed start."""
    job = context.monitor.jobs[number]
    with context.job_off(number):
        small_disk.fill(job.folder)
        yield
        small_disk.free(job.folder)
        yield  # It may be about to end.
        job.restart_if_ended()
        while job.is_starting:
            yield
    context.monitor_off_for(STARTS_S)


def _full_store(context: ChaosContext, _: int) -> Iterator[None]:
    """PostgreSQL refuses to write, or ends and is started when there is space."""
    store = context.monitor.store
    assert store is not None
    with facts_while(context, context.facts.begin(Kind.MONITOR_OFF)):
        small_disk.fill(store.folder)
        yield
        small_disk.free(store.folder)
        store.stop()
        store.start()
    context.monitor_off_for(STARTS_S)


DISK_FAULTS = (
    ChaosFault(name="a controller's disk is full", needs=_controllers, run=_full_controller),
    ChaosFault(name="a job's disk is full", needs=_jobs, run=_full_job, longest_s=60),
    ChaosFault(name="the store's disk is full", needs=_store, run=_full_store, longest_s=60),
)
