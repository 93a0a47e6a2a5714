"""The faults of what watches the cluster: the job, relays, topic, store, sinks, and its host."""

import signal
import subprocess
import sys
from collections.abc import Iterator

from tests.chaos.chaos_fault import (
    STARTS_S,
    STORE,
    TOPIC,
    ChaosContext,
    ChaosFault,
    Run,
    facts_while,
    jobs,
    lasting,
    only,
)
from tests.chaos.chaos_monitor import SeparateChaosJob
from tests.chaos.facts import Kind
from tests.chaos.kill_faults import send_signal
from tests.chaos.kill_point import Role
from tests.chaos.sink_services import Availability
from tests.job.busy_processes import BUSY

BUSY_PROCESSES = 6


def _pause_job(context: ChaosContext, number: int) -> Iterator[None]:
    with context.job_off(number):
        pids = context.monitor.jobs[number].pids(Role.GROUP)
        send_signal(pids, signal.SIGSTOP)
        yield
        send_signal(pids, signal.SIGCONT)


def _cut_off_job(context: ChaosContext, number: int) -> Iterator[None]:
    """One of two jobs reaches its store, the topic or the sinks no longer, or several of them."""
    job = context.monitor.jobs[number]
    assert isinstance(job, SeparateChaosJob)
    places = context.random.choice((*([each] for each in job.ports), [*job.ports]))
    with context.job_off(number):
        job.network.cut(*(port for place in places for port in job.ports[place]))
        yield
        job.network.restore()


def _kill_relay(context: ChaosContext, number: int) -> None:
    """The other relay goes on."""
    context.monitor_off_for(STARTS_S)
    context.monitor.relays[number].kill()


def _sink_off(name: str) -> Run:
    def set_availability(context: ChaosContext, *choices: Availability) -> None:
        context.monitor.sinks.services.named(name).availability = context.random.choice(choices)

    return lasting(
        Kind.SINK_OFF,
        lambda context, _: set_availability(context, Availability.DOWN, Availability.SLOW, Availability.SILENT),
        lambda context, _: set_availability(context, Availability.UP),
        subject=name,
    )


def _busy_host(context: ChaosContext, _: int) -> Iterator[None]:
    command = [sys.executable, "-S", "-c", BUSY]
    with facts_while(context, context.facts.begin(Kind.BUSY)):
        busy = [subprocess.Popen(command) for _ in range(BUSY_PROCESSES)]
        yield
        for each in busy:
            each.kill()
            each.wait()


MONITOR_FAULTS = (
    ChaosFault(name="a job is paused", needs=jobs, run=_pause_job, weight=1, longest_s=60),
    ChaosFault(
        name="a job is cut off",
        needs=lambda context: jobs(context) if len(context.monitor.jobs) > 1 else {"job": ()},
        run=_cut_off_job,
        weight=3,
    ),
    ChaosFault(
        name="a relay is killed",
        needs=lambda context: {"relay": range(len(context.monitor.relays))},
        run=lasting(Kind.RELAY_OFF, _kill_relay, lambda context, number: context.monitor.relays[number].start()),
    ),
    ChaosFault(
        name="the topic's broker is paused",
        needs=TOPIC,
        run=lasting(
            Kind.MONITOR_OFF,
            lambda context, _: context.monitor.topic.pause(*context.monitor.topic.controllers),
            lambda context, _: context.monitor.topic.resume(*context.monitor.topic.controllers),
            subject="",
            off_s=STARTS_S,
        ),
        longest_s=60,
    ),
    ChaosFault(
        name="the store is stopped",
        needs=STORE,
        run=lasting(
            Kind.MONITOR_OFF,
            lambda context, _: context.monitor.store.stop(),
            lambda context, _: context.monitor.store.start(),
            subject="",
            off_s=STARTS_S,
        ),
        longest_s=60,
    ),
    ChaosFault(name="PagerDuty is off", needs=only("pagerduty"), run=_sink_off("pagerduty")),
    ChaosFault(name="Slack is off", needs=only("slack"), run=_sink_off("slack"), weight=1),
    ChaosFault(name="the host is busy", needs=only("host"), run=_busy_host, weight=1, longest_s=60),
)
