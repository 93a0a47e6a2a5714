"""Kills of the processes of a job, at named points and at random moments."""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from tests.chaos import job_processes, kill_order
from tests.chaos.chaos_fault import STARTS_S, ChaosContext, ChaosFault, jobs
from tests.chaos.kill_order import KillOrder
from tests.chaos.kill_point import KILL_POINTS, Role

GROUP_SHARE = 0.3
"""Of the kills at a point that end all processes of the job at once."""
REACH_STEPS = 10
"""After so many steps a point that was not reached is replaced by that moment."""


def _kill_job(context: ChaosContext, number: int) -> Iterator[None]:
    """The job's processes are killed, and the job is started again."""
    job = context.monitor.jobs[number]
    with context.job_off(number):
        job_processes.kill_group(job.marker)
        yield
        yield from job.started()


def _kill_workers(context: ChaosContext, number: int) -> Iterator[None]:
    """The job's query ends, and with it the job, which is started again."""
    job = context.monitor.jobs[number]
    with context.job_off(number):
        send_signal(job.pids(Role.WORKER), signal.SIGKILL)
        yield
        yield from job.started()
    context.monitor_off_for(STARTS_S)


def _kill_gatherer(context: ChaosContext, number: int) -> Iterator[None]:
    """The job starts it again."""
    send_signal(context.monitor.jobs[number].pids(Role.GATHERER), signal.SIGKILL)
    context.monitor_off_for(STARTS_S)
    yield


def _kill_at_point(context: ChaosContext, number: int) -> Iterator[None]:
    """A process is killed before or after a step from an observation to a notification; or all of them are.

    If the step is not reached in time, they are killed at that moment.
    """
    job, random = context.monitor.jobs[number], context.random
    point = random.choice(KILL_POINTS)
    victim = Role.GROUP if random.random() < GROUP_SHARE else point.role
    with context.job_off(number):
        number_of_order, call = len(context.kills), random.randint(1, point.calls)
        order = KillOrder(number=number_of_order, point=point.name, victim=victim, call=call)
        kill_order.arm(job.marker, order)
        yield
        for _ in range(REACH_STEPS):
            if kill_order.armed(job.marker) is None:
                break
            yield
        if kill_order.claim(job.marker, order):
            kill_order.write_kill(job.marker, order, at=f"random moment ({point.name} not reached)")
            job_processes.kill_group(job.marker)
        yield  # It may be about to end.
        yield from job.started()
    context.monitor_off_for(STARTS_S)


def send_signal(pids: Sequence[int], number: signal.Signals) -> None:
    """Sends a signal to the processes that still run."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _gathering_jobs(context: ChaosContext) -> Mapping[str, Sequence[int]]:
    """Any job that gathers itself: the gatherer, and all points, are in its processes."""
    return {"job": ()} if context.monitor.relays else jobs(context)


KILL_FAULTS = (
    ChaosFault(name="a job is killed", needs=jobs, run=_kill_job, weight=3, longest_s=40),
    ChaosFault(
        name="a job is killed at a named point", needs=_gathering_jobs, run=_kill_at_point, weight=6, longest_s=20
    ),
    ChaosFault(name="a job's Python workers are killed", needs=jobs, run=_kill_workers, weight=1, longest_s=20),
    ChaosFault(name="the gatherer is killed", needs=_gathering_jobs, run=_kill_gatherer, weight=1, longest_s=5),
)
