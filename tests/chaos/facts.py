"""What was done to a cluster and its monitor, as facts with a beginning and an end. Standard library only."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """The kinds of facts; the subject of each is a node id, a topic, a sink, or empty."""

    SILENT = "silent"
    """A controller that serves no other controller: stopped, paused, or cut off in both directions."""
    UNCERTAIN = "uncertain"
    """A controller of which cannot be said whether it serves: cut off in one direction, or starting."""
    NOT_OBSERVED = "not observed"
    """A controller that the monitor cannot reach."""
    NEW_DISK = "new disk"
    """A voter whose disk was replaced: its controller is an observer."""
    OLD_DISK = "old disk"
    """A voter whose log was restored from an old copy."""
    REMOVED = "removed"
    """A controller that was removed from the voters."""
    MOVED = "moved"
    """A voter that was started at another port; only until it has sent its new endpoint."""
    NAMELESS = "nameless"
    """A controller whose name does not resolve, anywhere."""
    UNSERVED = "unserved"
    """A controller that serves no new connection: those that are open go on."""
    STUCK = "stuck"
    """A leader whose event thread hangs: it is active, answers, and appends nothing."""
    RESTARTED_OFTEN = "restarted often"
    """A controller that was started three times within two minutes."""
    STARTED = "started"
    """A node was started; an instant."""
    BROKER_SILENT = "broker silent"
    """A broker that is stopped, paused, or cut off from the controllers."""
    BROKER_UNCERTAIN = "broker uncertain"
    """A broker that is stopped and started within seconds."""
    DIRECTORY_LOST = "directory lost"
    """A broker without one of its two log directories, which holds the only replica of a partition."""
    RECOVERING = "recovering"
    """A topic after an unclean election, until the broker with the lost records is started."""
    MONITOR_OFF = "monitor off"
    """The job does not run, does not observe yet, or is paused."""
    RELAY_OFF = "relay off"
    """One of two relays does not run."""
    BUSY = "busy"
    """The host has more to do than it has cores."""
    SINK_OFF = "sink off"
    """A sink refuses notifications, or answers late."""


@dataclass(slots=True, kw_only=True)
class Fact:
    """Something that was so from `start` to `end`, in seconds since the Unix epoch."""

    kind: Kind
    subject: str
    start: float
    end: float | None = None
    """None while it is so."""

    def overlaps(self, start: float, end: float) -> bool:
        """Whether it was so at any moment from `start` to `end`."""
        return self.start <= end and (self.end is None or self.end >= start)

    def is_so(self, at: float) -> bool:
        """Whether it was so at that moment."""
        return self.overlaps(at, at)


@dataclass(slots=True)
class FactLog:
    """All facts, in the order in which they began."""

    facts: list[Fact] = field(default_factory=list)

    def begin(self, kind: Kind, subject: object = "") -> Fact:
        """Records that something is so from now on."""
        fact = Fact(kind=kind, subject=str(subject), start=time.time())
        self.facts.append(fact)
        return fact

    def instant(self, kind: Kind, subject: object = "", *, lasts_s: float = 0.0) -> None:
        """Records that something happened now, or is so for so long from now on."""
        fact = self.begin(kind, subject)
        fact.end = fact.start + lasts_s

    def end(self, *facts: Fact) -> None:
        """Records that these are no longer so, if they still are."""
        for fact in facts:
            fact.end = time.time() if fact.end is None else fact.end

    def of(self, *kinds: Kind, subject: str | None = None) -> Iterator[Fact]:
        """Yields the facts of these kinds, of all subjects or of one."""
        return (each for each in self.facts if each.kind in kinds and subject in (None, each.subject))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """A line of the job's record of alerts."""

    rule: str
    subject: str
    state: str
    severity: str
    fingerprint: str
    started_at: float
    observed_at: float
    sent_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Notified:
    """A notification that people received."""

    incident: str
    reason: str
    at: float
    firing: frozenset[tuple[str, str]]
    """Rule and subject of the alerts that it names as firing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paged:
    """What PagerDuty did with a call: opened, repeated, resolved or dropped."""

    at: float
    effect: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAnswer:
    """Who led at a moment, as the leader itself answered at an address that is never cut; None: nobody answered."""

    at: float
    leader: int | None
    epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Everything that happened in one run."""

    start: float
    end: float
    controllers: Sequence[int]
    facts: FactLog
    leaders: Sequence[LeaderAnswer]
    reported: Sequence[Reported]
    notified: Sequence[Notified]
    paged: Sequence[Paged]
