"""What a fault of a chaos run is, and what it acts on."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.chaos_lab import ChaosLab
from tests.chaos.chaos_monitor import ChaosMonitor
from tests.chaos.facts import Fact, FactLog, Kind
from tests.chaos.kill_order import ExecutedKill
from tests.chaos.kill_point import Role

TAKEOVER_S = 40.0
"""Within this time a standby notifies instead of a job that is killed, stopped or cut off, beside other work."""
RECONNECT_S = 15.0
"""Kafka and the monitor connect again within this time after a path was restored."""
STARTS_S = 30.0
"""A controller may take so long from its start until it fetches, beside other work."""


class NotNowError(Exception):
    """A fault cannot begin or end yet: there is no leader, for example."""


@dataclass(kw_only=True)
class ChaosContext:
    """What faults act on."""

    lab: ChaosLab
    monitor: ChaosMonitor = field(init=False)
    """Unless only the cluster has faults."""
    facts: FactLog
    random: random.Random
    folder: Path
    leader: Callable[[], int | None]
    """The leader by the newest answer; None: nobody answers as leader."""
    kills: list[ExecutedKill] = field(default_factory=list)
    """When a job ended or may have ended, but at a named point."""
    _jobs_off: set[int] = field(default_factory=set)
    _no_job: Fact | None = None
    """No job works, since its beginning."""

    def require_leader(self) -> int:
        """Returns the leader.

        Raises:
            NotNowError: there is none.
        """
        if (leader := self.leader()) is None:
            raise NotNowError("there is no leader")
        return leader

    def restart_controller(self, id_: int) -> None:
        """Starts a controller without waiting; it is uncertain when it serves."""
        self.lab.start(id_, wait=False)
        self.facts.instant(Kind.STARTED, id_)
        self.uncertain_for(id_, STARTS_S)

    def monitor_off_for(self, seconds: float) -> None:
        """Says that the monitor may observe or notify nothing for so long."""
        self.facts.instant(Kind.MONITOR_OFF, lasts_s=seconds)

    def may_have_ended(self, why: str) -> None:
        """Says that a job ended about now: what it sent then may be sent again."""
        self.kills.append(ExecutedKill(number=len(self.kills), at=why, victim=Role.GROUP, t=time.monotonic()))

    @contextmanager
    def job_off(self, number: int) -> Iterator[None]:
        """A job does nothing meanwhile: the monitor is off until the standby has taken over, if there is one."""
        jobs = self.monitor.jobs
        self.may_have_ended("a fault of the job begins")
        if len(jobs) > 1 and self.monitor.active() in (number, None):
            self.monitor_off_for(TAKEOVER_S)
        self._jobs_off.add(number)
        if len(self._jobs_off) == len(jobs):
            self._no_job = self.facts.begin(Kind.MONITOR_OFF)
        try:
            yield
        finally:
            self._jobs_off.discard(number)
            self.may_have_ended("a fault of the job ends")
            if self._no_job is not None:
                self.facts.end(self._no_job)
                self._no_job = None
                if len(jobs) > 1:
                    self.monitor_off_for(TAKEOVER_S)

    def uncertain_for(self, id_: int, seconds: float) -> None:
        """Says that from now on, for so long, nobody knows whether a controller serves."""
        self.facts.instant(Kind.UNCERTAIN, id_, lasts_s=seconds)


Needs = Callable[[ChaosContext], Mapping[str, Sequence[int]]]
"""What a fault needs for itself, by name: all choices. One of each is chosen."""
Run = Callable[[ChaosContext, int], Iterator[None]]
"""Begins the fault with the chosen node, yields, and ends it when it is continued. May raise NotNowError."""
Step = Callable[[ChaosContext, int], Iterator[None] | None]
"""A part of a fault with the chosen node; what it yields is a time at which it waits."""


@dataclass(frozen=True, kw_only=True)
class ChaosFault:
    """A kind of fault."""

    name: str
    needs: Needs
    run: Run
    weight: int = 2
    longest_s: float = 120.0


def only(name: str, where: Callable[[ChaosContext], object] = lambda _: True) -> Needs:
    """Returns what a fault needs of which there is one, in a run where it exists."""
    return lambda context: {name: (0,) if where(context) else ()}


def controllers(context: ChaosContext) -> Mapping[str, Sequence[int]]:
    """Any controller."""
    return {"controller": context.lab.controllers}


def brokers(context: ChaosContext) -> Mapping[str, Sequence[int]]:
    """Any broker."""
    return {"broker": context.lab.brokers}


def jobs(context: ChaosContext) -> Mapping[str, Sequence[int]]:
    """Any job."""
    return {"job": [*context.monitor.jobs]}


STORE = only("store", lambda context: context.monitor.relays)
TOPIC = only("topic", lambda context: context.monitor.relays)


@contextmanager
def facts_while(context: ChaosContext, *facts: Fact) -> Iterator[None]:
    """Ends facts at the end of the block."""
    try:
        yield
    finally:
        context.facts.end(*facts)


def lasting(kind: Kind, begin: Step, end: Step, *, subject: object = None, off_s: float = 0.0) -> Run:
    """Returns a fault with which something is so, of the node or of a subject, from its beginning to its end.

    `off_s`: for so long afterwards the monitor may observe nothing.
    """

    def run(context: ChaosContext, node: int) -> Iterator[None]:
        with facts_while(context, context.facts.begin(kind, node if subject is None else subject)):
            yield from begin(context, node) or ()
            yield
            yield from end(context, node) or ()
        if off_s:
            context.monitor_off_for(off_s)

    return run
