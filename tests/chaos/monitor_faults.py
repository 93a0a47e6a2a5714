"""The faults of what watches the cluster: the job, relays, topic, store, sinks, and its host."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from tests.chaos.chaos_fault import STARTS_S, ChaosContext, ChaosFault, facts_while, only
from tests.chaos.facts import Kind
from tests.kill_campaign import job_processes
from tests.kill_campaign.kill_point import Role
from tests.kill_campaign.sink_services import Availability

_BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
BUSY_PROCESSES = 6


def _relays(context: ChaosContext) -> Mapping[str, Sequence[int]]:
    return {"relay": range(len(context.monitor.relays))}


def _jobs(context: ChaosContext) -> Mapping[str, Sequence[int]]:
    return {"job": [*context.monitor.jobs]}


def _gatherer(context: ChaosContext) -> Mapping[str, Sequence[int]]:
    return {"job": () if context.monitor.relays else [*context.monitor.jobs]}


def _separate_jobs(context: ChaosContext) -> Mapping[str, Sequence[int]]:
    return {"job": [number for number, job in context.monitor.jobs.items() if job.network is not None]}


def _topic(context: ChaosContext) -> Mapping[str, Sequence[int]]:
    return {"topic": () if context.monitor.topic is None else (0,)}


def _store(context: ChaosContext) -> Mapping[str, Sequence[int]]:
    return {"store": () if context.monitor.store is None else (0,)}


def _kill_job(context: ChaosContext, number: int) -> Iterator[None]:
    """The job's processes are killed, and the job is started again."""
    job = context.monitor.jobs[number]
    with context.job_off(number):
        job_processes.kill_group(job.marker)
        yield
        starting = job.start()
        while not starting.done():
            yield


def _pause_job(context: ChaosContext, number: int) -> Iterator[None]:
    with context.job_off(number):
        pids = job_processes.pids(context.monitor.jobs[number].marker)
        _signal(pids, signal.SIGSTOP)
        yield
        _signal(pids, signal.SIGCONT)


def _cut_off_job(context: ChaosContext, number: int) -> Iterator[None]:
    """One of two jobs reaches its store, the topic or the sinks no longer, or several of them."""
    job = context.monitor.jobs[number]
    assert job.network is not None
    places = context.random.choice((*([each] for each in job.ports), [*job.ports]))
    with context.job_off(number):
        job.network.cut(*(port for place in places for port in job.ports[place]))
        yield
        job.network.restore()


def _kill_gatherer(context: ChaosContext, number: int) -> Iterator[None]:
    """The job starts it again."""
    _signal(job_processes.with_role(context.monitor.jobs[number].marker, Role.GATHERER), signal.SIGKILL)
    context.monitor_off_for(STARTS_S)
    yield


def _kill_relay(context: ChaosContext, number: int) -> Iterator[None]:
    """The other relay goes on."""
    relay = context.monitor.relays[number]
    with facts_while(context, context.facts.begin(Kind.RELAY_OFF, number)):
        context.monitor_off_for(STARTS_S)
        relay.kill()
        yield
        relay.start()


def _pause_topic(context: ChaosContext, _: int) -> Iterator[None]:
    """The cluster with the observations does not answer."""
    topic = context.monitor.topic
    assert topic is not None
    with facts_while(context, context.facts.begin(Kind.MONITOR_OFF)):
        topic.pause(*topic.controllers)
        yield
        topic.resume(*topic.controllers)
    context.monitor_off_for(STARTS_S)


def _stop_store(context: ChaosContext, _: int) -> Iterator[None]:
    store = context.monitor.store
    assert store is not None
    with facts_while(context, context.facts.begin(Kind.MONITOR_OFF)):
        store.stop()
        yield
        store.start()
    context.monitor_off_for(STARTS_S)


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _sink_off(name: str) -> Callable[[ChaosContext, int], Iterator[None]]:
    def run(context: ChaosContext, _: int) -> Iterator[None]:
        service = context.monitor.sinks.services.named(name)
        with facts_while(context, context.facts.begin(Kind.SINK_OFF, name)):
            service.availability = context.random.choice((Availability.DOWN, Availability.SLOW))
            yield
            service.availability = Availability.UP

    return run


def _busy_host(context: ChaosContext, _: int) -> Iterator[None]:
    command = [sys.executable, "-S", "-c", _BUSY]
    with facts_while(context, context.facts.begin(Kind.BUSY)):
        busy = [subprocess.Popen(command) for _ in range(BUSY_PROCESSES)]
        yield
        for each in busy:
            each.kill()
            each.wait()


MONITOR_FAULTS = (
    ChaosFault(name="a job is killed", needs=_jobs, run=_kill_job, weight=3, longest_s=40),
    ChaosFault(name="a job is paused", needs=_jobs, run=_pause_job, weight=1, longest_s=60),
    ChaosFault(name="a job is cut off", needs=_separate_jobs, run=_cut_off_job, weight=3),
    ChaosFault(name="the gatherer is killed", needs=_gatherer, run=_kill_gatherer, weight=1),
    ChaosFault(name="a relay is killed", needs=_relays, run=_kill_relay),
    ChaosFault(name="the topic's broker is paused", needs=_topic, run=_pause_topic, longest_s=60),
    ChaosFault(name="the store is stopped", needs=_store, run=_stop_store, longest_s=60),
    ChaosFault(name="PagerDuty is off", needs=only("pagerduty"), run=_sink_off("pagerduty")),
    ChaosFault(name="Slack is off", needs=only("slack"), run=_sink_off("slack"), weight=1),
    ChaosFault(name="the host is busy", needs=only("host"), run=_busy_host, weight=1, longest_s=60),
)
