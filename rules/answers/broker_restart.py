"""Whether a broker may be restarted now: which partitions need the replica that it has in sync.

A broker that shuts down in order leaves the ISR of each partition and leads none any more
(ReplicationControlManager.handleBrokerInControlledShutdown). Safe means that each partition has a leader then, and as
many in-sync replicas as min.insync.replicas wants, so that producers with acks=all go on. A partition with one replica
is unavailable whenever its broker restarts: that is noted, and with `strict` a reason against it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Final

from rules.answers.refusal import Against, Announced, Refusal
from rules.facts.following import fetched_after_ms
from rules.facts.freshness import log_age_problem
from rules.facts.offline_partitions import named_ones
from rules.facts.quorum import Facts
from rules.formatting import and_join, ms_text, numbered, plural
from rules.model.history import NeededReplica, TopicPartition
from rules.model.identifiers import Millis, NodeId
from rules.model.quorum import Quorum
from rules.remedies.bootstrap_address import broker_bootstrap

_MOST_NAMED = 3
_SILENT_MS = 5_000
"""A broker fetches the metadata log twice a second, and is fenced nine seconds after its process fails
(broker.session.timeout.ms): until then the log shows it as alive, and its replicas as in sync."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartTerms:
    """What the person who asks adds to what is observed."""

    strict: bool = False
    """A partition that is unavailable because it has one replica is a reason against a restart."""
    min_isr: int | None = None
    """The min.insync.replicas in the brokers' server.properties, for topics of which the log has none; None: that of
    the configuration."""
    despite: str | None = None
    """The name of a reason that is left out, where it may be."""
    announced: tuple[Announced, ...] = ()
    """The restarts that were announced: they are no crash loop."""
    since_ms: Millis | None = None
    """Since when the question is asked, by the monitor's clock: each broker must have fetched since."""


NO_TERMS: Final = RestartTerms()


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedPartitions:
    """How many partitions the restart of a broker affects."""

    without_leader: int = 0
    """Those of which no other replica is in sync."""
    below_min_isr: int = 0
    """Those that would have fewer in-sync replicas than min.insync.replicas: producers with acks=all are refused."""
    undecided: int = 0
    """Those of which min.insync.replicas is not known, and decides."""
    one_replica: int = 0
    """Those of which it has the only replica."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRestart:
    """What speaks against the restart of a broker, as the metadata log shows it."""

    against: tuple[Refusal, ...] = ()
    unobserved: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    partitions: AffectedPartitions | None = None
    """None if they are not known."""


def broker_restart(facts: Facts, node: NodeId, terms: RestartTerms) -> BrokerRestart:
    """Evaluates the restart of a registered broker; the log of its cluster has been read to its end."""
    quorum = facts.quorum
    problem = log_age_problem(quorum)
    if problem is None and not quorum.log_complete:
        problem = "which partitions there are is not known: a record of the metadata log is missing or was not decoded"
    if problem is not None:
        return BrokerRestart(unobserved=(problem,), notes=tuple(_own_state(facts, node)))
    in_files = terms.min_isr or quorum.broker_min_isr
    groups = _Groups.of(facts.needed_replicas.get(node, ()), in_files)
    against = [*_last_in_sync(facts, node, groups.last), *_too_few(facts, groups.below)]
    notes = [*_own_state(facts, node), *_reassigned(facts, node), *_others_away(facts, node)]
    notes += [] if (why := files_do_not_count(quorum, in_files)) is None else [why]
    if groups.alone:
        have = _have(groups.alone)
        why = f"{_count(groups.alone)} {have} one replica, on it: no client is served there until it is back"
        if terms.strict:
            another = f"{'it has' if have == 'has' else 'they have'} another replica in sync"
            against.append(Refusal(name=Against.ONE_REPLICA, why=why, until=another))
        else:
            notes.append(why)
    return BrokerRestart(
        against=tuple(against),
        unobserved=(
            *_silent(facts, node, terms),
            *_no_leader_yet(facts, node),
            *_unknown_min_isr(facts, node, groups.unknown),
            *_stricter_min_isrs(facts),
        ),
        notes=tuple(notes),
        partitions=AffectedPartitions(
            without_leader=_sum(groups.last),
            below_min_isr=_sum(groups.below),
            undecided=_sum(groups.unknown),
            one_replica=_sum(groups.alone),
        ),
    )


def files_do_not_count(quorum: Quorum, in_files: int | None) -> str | None:
    """Returns that less than this min.insync.replicas of the brokers' files counts, by the metadata log; None: no."""
    default = quorum.default_min_isr
    if default is None or in_files is None or default >= in_files:
        return None
    enough = "one in-sync replica is" if default == 1 else f"{default} in-sync replicas are"
    return (
        f"min.insync.replicas {in_files} of the brokers' files does not count: the metadata log has {default} as the "
        f"default of the cluster. For topics without their own, {enough} enough for acks=all"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Groups:
    """The sums of a broker, by what its restart means for their partitions."""

    alone: Sequence[NeededReplica]
    last: Sequence[NeededReplica]
    below: Sequence[NeededReplica]
    unknown: Sequence[NeededReplica]

    @classmethod
    def of(cls, sums: Iterable[NeededReplica], in_files: int | None) -> "_Groups":
        groups = cls(alone=(alone := []), last=(last := []), below=(below := []), unknown=(unknown := []))
        for one in sums:
            min_isr = one.min_isr or in_files
            if one.replicas == 1:
                alone.append(one)
            elif one.in_sync == 1:
                last.append(one)
            elif min_isr is None:
                unknown.append(one)
            elif one.in_sync <= min_isr:
                below.append(one)
        return groups


def _sum(sums: Iterable[NeededReplica]) -> int:
    return sum(one.partitions for one in sums)


def _have(sums: Iterable[NeededReplica]) -> str:
    return "has" if _sum(sums) == 1 else "have"


def _count(sums: Sequence[NeededReplica]) -> str:
    """Returns `3 partitions (orders-0, orders-1 and 1 more)`."""
    count, examples = _sum(sums), [example for one in sums for example in one.examples]
    in_order: list[TopicPartition] = sorted(examples, key=lambda one: (one.topic or "", one.topic_id, one.partition))
    return f"{plural(count, 'partition')} ({named_ones(in_order, count)})"


def _last_in_sync(facts: Facts, node: NodeId, last: Sequence[NeededReplica]) -> Iterator[Refusal]:
    # Of those that are RECOVERING, what must be done before each restart says it.
    if _sum(last) > len(facts.only_in_sync_copies.get(node, ())):
        eligible = all(one.eligible for one in last)
        no_leader = "only an eligible leader replica could lead" if eligible else "no other replica may lead"
        are = "it" if _sum(last) == 1 else "them"
        why = f"it has the last in-sync replica of {_count(last)}: {no_leader} {are}"
        yield Refusal(name=Against.LAST_REPLICA, why=why, until=_until_in_sync(facts, last))


def _too_few(facts: Facts, below: Sequence[NeededReplica]) -> Iterator[Refusal]:
    for sums, until in (
        ([one for one in below if one.in_sync < one.replicas], _until_in_sync),
        ([one for one in below if one.in_sync == one.replicas], _until_changed),
    ):
        if sums:
            yield Refusal(
                name=Against.BELOW_MIN_ISR,
                why=f"{_count(sums)} would have fewer in-sync replicas than min.insync.replicas, and refuse producers "
                "with acks=all",
                until=until(facts, sums),
            )


def _until_changed(facts: Facts, sums: Sequence[NeededReplica]) -> str:
    most = max(one.replicas for one in sums)
    has = "it has" if _sum(sums) == 1 else "they have"
    return f"{has} another replica in sync, or min.insync.replicas is {most - 1}"


def _until_in_sync(facts: Facts, sums: Sequence[NeededReplica]) -> str:
    """Returns the least that makes the restart safe: which brokers must have their replicas in sync."""
    missing = Counter[NodeId]()
    for one in sums:
        missing.update(dict(one.missing))
    alive = [node for node in sorted(missing) if _stays(facts, node)]
    down = [node for node in sorted(missing) if node not in alive]
    back = [f"{numbered('broker', down)} {'is' if len(down) == 1 else 'are'} back and in sync"] if down else []
    wait = [f"the replicas of {numbered('broker', alive)} are in sync"] if alive else []
    one_is_enough = all(max(one.min_isr or 1, 1) == one.in_sync < one.replicas - 1 for one in sums)
    return " and ".join([*back, *wait]) + (": one more replica of each partition is enough" if one_is_enough else "")


def _stays(facts: Facts, node: NodeId) -> bool:
    broker = facts.quorum.brokers.get(node)
    return broker is not None and broker.alive and not broker.in_controlled_shutdown


def _no_leader_yet(facts: Facts, node: NodeId) -> Iterator[str]:
    """Yields the brokers whose partitions are being given to others: those are counted when they are."""
    for other, partitions in sorted(facts.quorum.brokers_down.items()):
        if other != node and partitions.leads:
            yield (
                f"unknown which replicas are in sync: broker {other} {_away(facts, other)}, and the log has it as the "
                f"leader of {plural(partitions.leads, 'partition')}; to find out, wait until it leads none"
            )


def _away(facts: Facts, node: NodeId) -> str:
    broker = facts.quorum.brokers.get(node)
    if broker is None:
        return "is not registered"
    return "is fenced" if broker.fenced else "shuts down"


def _silent(facts: Facts, node: NodeId, terms: RestartTerms) -> Iterator[str]:
    limit, poll = _SILENT_MS, facts.quorum.poll
    if terms.since_ms is not None and poll is not None:
        limit = min(limit, fetched_after_ms(poll, 0) - terms.since_ms)
    oldest = takewhile(lambda one: one[1] is None or one[1] > limit, facts.longest_without_fetch)
    silent = [(other, age) for other, age in oldest if other != node]
    if silent:
        shown = ", ".join(
            f"broker {other} ({'no fetch of it is known' if age is None else ms_text(age)})"
            for other, age in silent[:_MOST_NAMED]
        )
        more = f" and {len(silent) - _MOST_NAMED} more" if len(silent) > _MOST_NAMED else ""
        yield (
            f"unknown whether these brokers still run, which have not fetched the metadata log for so long and are not "
            f"fenced: {shown}{more}; to find out, wait until they fetch or are fenced"
        )


def _unknown_min_isr(facts: Facts, node: NodeId, unknown: Sequence[NeededReplica]) -> Iterator[str]:
    if unknown:
        least = min(one.in_sync for one in unknown)
        yield (
            f"min.insync.replicas of {plural(_sum(unknown), 'partition')} on it is not in the metadata log: with "
            f"{least} or more in the brokers' server.properties, producers with acks=all are refused; to find out, "
            f"kafka-configs.sh --bootstrap-server {broker_bootstrap(facts, (node,))} --describe --all --entity-type "
            f"brokers --entity-name {node} shows it: set it as min_isr of the cluster, or give it with --min-isr"
        )


def _stricter_min_isrs(facts: Facts) -> Iterator[str]:
    stricter = facts.quorum.stricter_min_isrs
    if stricter:
        shown = ", ".join(f"broker {broker} ({value})" for broker, value in islice(stricter.items(), _MOST_NAMED))
        more = f" and {len(stricter) - _MOST_NAMED} more" if len(stricter) > _MOST_NAMED else ""
        yield (
            f"these brokers have a greater min.insync.replicas of their own, which is not counted: {shown}{more}; for "
            f"an answer, set it for all brokers (kafka-configs.sh --alter --entity-type brokers --entity-default) and "
            "delete their own"
        )


def _own_state(facts: Facts, node: NodeId) -> Iterator[str]:
    broker = facts.quorum.brokers[node]
    if broker.fenced:
        yield "it is fenced: it is down, cut off from the controllers, or starts"
    elif broker.in_controlled_shutdown:
        yield "it shuts down already"


def _reassigned(facts: Facts, node: NodeId) -> Iterator[str]:
    moved = [one for one in facts.quorum.reassignments if node in one.adding]
    if moved:
        yield f"{plural(len(moved), 'partition')} {'is' if len(moved) == 1 else 'are'} being moved to it: that goes on"


def _others_away(facts: Facts, node: NodeId) -> Iterator[str]:
    away = [other for other in facts.brokers_away if other != node]
    if away:
        shown = and_join(f"broker {other} {_away(facts, other)}" for other in away[:_MOST_NAMED])
        more = f", and {len(away) - _MOST_NAMED} more are away" if len(away) > _MOST_NAMED else ""
        yield f"{shown}{more}: what needs its replicas is counted without them"
