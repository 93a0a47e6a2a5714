"""Reasons against a restart: what each is called, and what ends it.

A person may leave one reason out by its name (`--despite`) where its guess may be wrong, or its cost accepted. What
would cost the leader, of the quorum or of a partition, or records is never left out.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final

from rules.claims.statement import statement
from rules.formatting import plural, utc_text
from rules.model.ages import CLOCKS_DIFFER_MS
from rules.model.identifiers import Millis, NodeId


@unique
class Against(StrEnum):
    """What a reason against a restart is about: its name, if no rule found it."""

    NO_LEADER = "no-leader"
    """No controller leads the quorum."""
    NO_MAJORITY = "no-majority"
    """Too few voters would remain, or they could elect no leader."""
    MUST_RUN = "must-run"
    """A start or a stop would destroy records, metadata or the voter set, or the node would not come back."""
    CONTROLLER_MISSING = "controller-missing"
    """Another voter does not count now."""
    VOTER_ENDPOINT = "voter-endpoint"
    """A recorded endpoint does not reach its voter, or the node would not find the leader again."""
    VOTER_CHANGE = "voter-change"
    """A voter's disk is being replaced, or the voters are being changed."""
    LAST_REPLICA = "last-replica"
    """Partitions would have no leader."""
    ANNOUNCED = "announced-restart"
    """The restart of another node was allowed, and is not known to be over."""
    BELOW_MIN_ISR = "below-min-isr"
    """Producers with acks=all would be refused."""
    ONE_REPLICA = "one-replica"
    """With `--strict`: partitions with one replica would be unavailable."""


_EXCLUDABLE: Final = frozenset(
    {
        *(Against.CONTROLLER_MISSING, Against.VOTER_ENDPOINT, Against.VOTER_CHANGE),
        *(Against.ANNOUNCED, Against.BELOW_MIN_ISR, Against.ONE_REPLICA),
        *("node-restarting", "failure-tolerance"),
    }
)
"""Whether a majority remains and elects a leader is a reason of its own beside each of these. The two rules conclude
from the past that another voter may fail."""
EXCLUDABLE: Final = tuple(sorted(map(str, _EXCLUDABLE)))
"""The names of the reasons that may be left out."""
NEVER: Final = tuple(sorted(str(about) for about in Against if about not in _EXCLUDABLE))
"""The names of those that may not, besides other rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a node may not be restarted now."""

    name: str
    """What it is about, or the rule that found it: `--despite NAME` leaves it out, where that is possible."""
    why: str
    """The reason, without a full stop."""
    until: str | None = None
    """The least that ends it, as the end of a sentence; null: what `why` says must be done."""
    ends_at_ms: Millis | None = None
    """When it ends by itself, if nothing happens until then; null: not by itself, or that is not known."""

    @property
    def may_be_left_out(self) -> bool:
        """Whether a person may decide to restart despite it."""
        return self.name in _EXCLUDABLE

    failures: tuple[tuple[NodeId, Millis], ...] = ()
    """The starts or outages that it follows from, if it follows from the past alone: the node, and when."""
    enough: int = 0
    """With fewer of these of one node it does not hold: those that were announced are not counted."""

    def __str__(self) -> str:
        """The reason, and until when it holds."""
        time = "" if self.ends_at_ms is None else f", at {utc_text(self.ends_at_ms)} if nothing happens before"
        return self.why if self.until is None else statement(self.why, f"; not safe until {self.until}{time}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A time in which restarts of a node were announced."""

    node: NodeId
    since_ms: Millis
    until_ms: Millis
    by_gate: bool = False
    """Whether `safe-to-restart` allowed one: until the end the node may be away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The refusals that count, those that a person leaves out, and what to say of those that do not hold."""

    against: tuple[Refusal, ...]
    left_out: tuple[Refusal, ...]
    notes: tuple[str, ...]


def decided(refusals: Iterable[Refusal], despite: str | None, announced: Collection[Announced]) -> Decided:
    """Returns which refusals count, if this name is left out, and these restarts were announced: they are no failures.

    Refusals that may not be left out count, whatever `despite` names.
    """
    against, out, notes = list[Refusal](), list[Refusal](), list[str]()
    for one in refusals:
        failures = [failure for failure in one.failures if not _is_announced(failure, announced)]
        per_node = Counter(node for node, _ in failures)
        if len(failures) < len(one.failures) and all(count < one.enough for count in per_node.values()):
            count = len(one.failures) - len(failures)
            notes.append(f"{plural(count, 'restart')} announced: {one.name} does not count")
        elif one.name == despite and one.may_be_left_out:
            out.append(one)
        else:
            against.append(one)
    if despite not in {None, *(one.name for one in (*against, *out))}:
        notes.append(f"--despite {despite}: no such reason holds")
    return Decided(against=tuple(against), left_out=tuple(out), notes=tuple(notes))


def being_restarted(node: NodeId, announced: Iterable[Announced], now_ms: Millis) -> Iterator[Refusal]:
    """Yields a refusal for each other node whose restart was allowed, and is not over."""
    current = [one for one in announced if one.by_gate and one.node != node and one.since_ms <= now_ms < one.until_ms]
    for one in {one.node: one for one in current}.values():
        yield Refusal(
            name=Against.ANNOUNCED,
            why=f"node {one.node} is being restarted: that was announced at {utc_text(one.since_ms)}",
            until=f"`safe-to-restart {one.node} --after` says that it is back",
            ends_at_ms=one.until_ms,
        )


def _is_announced(failure: tuple[NodeId, Millis], announced: Iterable[Announced]) -> bool:
    node, at_ms = failure
    # A start has the time of the log's host, an announcement that of the job's.
    return any(
        one.node == node and one.since_ms - CLOCKS_DIFFER_MS <= at_ms <= one.until_ms + CLOCKS_DIFFER_MS
        for one in announced
    )
