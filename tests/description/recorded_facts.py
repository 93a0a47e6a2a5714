"""Describes what the metadata log records: registrations, recovering partitions, and the history of elections."""

from collections.abc import Iterator
from typing import TypeAlias

from rules.model.history import (
    ControllerStart,
    DoubleRegistration,
    ElectedRecovered,
    Election,
    EmptiedReplicas,
    Interruption,
    NeededReplica,
    PartitionSum,
    Reassignment,
    Recovery,
    Rewrites,
    TopicPartition,
    UncleanElections,
    Unregistration,
    VoterChange,
)
from rules.model.membership import BrokerRegistration, ControllerRegistration
from rules.model.quorum import Quorum
from tests.description.fact_words import Fact, Times, endpoints, keys, known, listed, seconds, supported

Past: TypeAlias = (
    Election
    | ControllerStart
    | Interruption
    | Unregistration
    | DoubleRegistration
    | UncleanElections
    | EmptiedReplicas
    | ElectedRecovered
    | VoterChange
)
"""What a RecentHistory holds."""


def recorded_facts(quorum: Quorum, times: Times) -> Iterator[Fact]:
    """Yields registrations by node id, partitions, the open transaction, and the history, oldest first."""
    for _, controller in sorted(quorum.controllers.items()):
        yield Fact(f"controller {controller.id}", _controller(controller, times))
    for _, broker in sorted(quorum.brokers.items()):
        yield Fact(f"broker {broker.id}", _broker(broker, times))
    for recovery in quorum.recovering:
        yield Fact(f"recovery of {recovery.topic_id}-{recovery.partition}", _recovery(recovery, times))
    yield from _sums(quorum, times)
    for directory in quorum.offline_directories:
        place = f"log directory {directory.directory_id} of broker {directory.broker}"
        yield Fact(place, f"{place} offline with {directory.replicas} replicas")
    yield from _operations(quorum, times)
    for one in quorum.unknown_records:
        of_class = "" if one.kafka_class is None else f" of {one.kafka_class}"
        yield Fact(one.name, f"{one.count} of {one.name}{of_class} not known, from offset {one.first_offset} on")
    for refused in quorum.unreplayable:
        place = "a record of a snapshot, at" if refused.snapshot else "record"
        what = f"{place} {refused.offset} ({refused.record} of {refused.about}) cannot be replayed: {refused.refusal}"
        yield Fact("replay", what)
    history = quorum.history
    past: tuple[Past, ...] = (
        *history.elections,
        *history.starts,
        *history.interruptions,
        *history.unregistrations,
        *history.double_registrations,
        *history.unclean,
        *history.emptied,
        *history.elected_recovered,
        *history.voter_changes,
    )
    yield from (_past(each, times) for each in past)
    yield from (_rewrites(each, times) for each in history.rewrites)
    if (upgrade := history.kraft_upgrade) is not None:
        level = "" if upgrade.metadata_version is None else f", with metadata.version {upgrade.metadata_version}"
        record = times.record(upgrade.offset, upgrade.timestamp_ms)
        yield Fact("kraft upgrade", f"kraft.version became {upgrade.version} by {record}{level}")


def _operations(quorum: Quorum, times: Times) -> Iterator[Fact]:
    for throttle in quorum.throttles:
        of = [None if throttle.broker is None else f"broker {throttle.broker}", throttle.topic]
        whose = " ".join(one for one in of if one) or "all brokers"
        yield Fact(f"throttle of {whose}", f"{whose} throttled by {listed(throttle.settings)}")
    for moved in quorum.reassignments:
        yield Fact(f"reassignment of {moved.topic_id}-{moved.partition}", _reassignment(moved, times))
    if (migration := quorum.zk_migration) is not None:
        least = "at the latest " if migration.at_least else ""
        since = f"{least}since {times.at(migration.since_timestamp_ms)}"
        yield Fact("migration from ZooKeeper", f"migration from ZooKeeper in state {migration.state} {since}")
    if (open_ := quorum.open_transaction) is not None:
        since = times.record(open_.since_offset, open_.since_timestamp_ms)
        held = f"{open_.records} records held back"
        yield Fact("transaction", f"transaction {known(open_.name)} open since {since}, {held}")
        yield from (_past(start, times) for start in open_.starts)


def _controller(one: ControllerRegistration, times: Times) -> str:
    return ", ".join(
        [
            f"controller {one.id} at {endpoints(one.endpoints)}",
            f"registered by {times.position(one.at)} as {one.incarnation_id}",
            *supported(one.features, one.features_since_timestamp_ms, one.at.timestamp_ms, times),
        ]
    )


def _broker(one: BrokerRegistration, times: Times) -> str:
    alive, leaving = "fenced" if one.fenced else "alive", one.leaving_since_timestamp_ms
    if one.alive_since_timestamp_ms is not None:
        alive += f" since {times.at(one.alive_since_timestamp_ms)}"
    return ", ".join(
        [
            f"broker {one.id} {alive}",
            *(["shutting down"] if one.in_controlled_shutdown else []),
            *(["in ZooKeeper mode"] if one.zookeeper_mode else []),
            *(_rack(one, times)),
            *([f"{one.producer_id_blocks} blocks of producer ids"] if one.producer_id_blocks else []),
            *([] if leaving is None else [f"leaving since {times.at(leaving)}"]),
            f"at {endpoints(one.endpoints)}",
            *([f"log directories {listed(one.log_dirs)}"] if one.log_dirs else []),
            f"registered by {times.position(one.at)} as {one.incarnation_id}",
            *([] if one.broker_epoch is None else [f"broker epoch {one.broker_epoch}"]),
            *supported(one.features, one.features_since_timestamp_ms, one.at.timestamp_ms, times),
        ]
    )


def _rack(one: BrokerRegistration, times: Times) -> Iterator[str]:
    if (one.rack, one.former_rack, one.rack_since_timestamp_ms) != (None, None, None):
        former = "" if one.former_rack is None else f", formerly {one.former_rack}"
        yield f"rack {known(one.rack)} since {times.at(one.rack_since_timestamp_ms)}{former}"


def _reassignment(one: Reassignment, times: Times) -> str:
    least = "at the latest " if one.at_least else ""
    return (
        f"{_partition(one)} reassigned {least}since {times.at(one.since_timestamp_ms)}, "
        f"adding {listed(one.adding)}, removing {listed(one.removing)}"
    )


def _recovery(one: Recovery, times: Times) -> str:
    least = "at the latest " if one.at_least else ""
    words = [
        f"{_partition(one)} recovering {least}since {times.record(one.since_offset, one.since_timestamp_ms)}",
        "no leader" if one.leader is None else f"leader {one.leader}",
        f"isr {listed(one.isr)} of {listed(one.replicas)}",
        f"before isr {listed(one.previous_isr)}, elr {listed(one.previous_elr)}",
        f"leader epoch {known(one.leader_epoch)}, partition epoch {known(one.partition_epoch)}",
    ]
    elected = {True: "by an election", False: "without an election", None: "by an unknown election"}[one.elected]
    words.append(elected + (" of the last leader" if one.last_leader else ""))
    if one.emptied:
        words.append("without its disk")
    if one.leader_changes:
        words.append(f"leader changes since: {one.leader_changes}")
    if one.added or one.added_timestamp_ms is not None:
        words.append(f"{listed(one.added)} added at {times.at(one.added_timestamp_ms)}")
    return ", ".join(words)


def _rewrites(one: Rewrites, times: Times) -> Fact:
    since, last = times.at(one.since_timestamp_ms), times.at(one.timestamp_ms)
    of = "" if one.partition is None else f" of {_partition(one.partition)}"
    place = f"rewrites: {one.cause}{of}{f' {listed(one.nodes)}' if one.cause in ('broker', 'controller') else ''}"
    counts = f"{one.records} times from {since} to {last}"
    return Fact(place, f"{one.cause}{of} written again {counts}, by {listed(one.nodes)}")


def _sums(quorum: Quorum, times: Times) -> Iterator[Fact]:
    for broker, stricter in quorum.stricter_min_isrs.items():
        yield Fact(f"min ISR of broker {broker}", f"min.insync.replicas {stricter} on broker {broker} alone")
    for offline in quorum.offline:
        yield Fact(f"offline on {keys(offline.holders)}", _sum(offline, "without a leader", times))
    for below in quorum.under_min_isr:
        yield Fact(f"under min ISR without {keys(below.holders)}", _sum(below, "under min.insync.replicas", times))
    for needed in quorum.needed_replicas:
        place = f"needed of {needed.broker}: {needed.in_sync} of {needed.replicas} for {needed.min_isr}"
        yield Fact(f"{place}{', eligible' if needed.eligible else ''}", _needed(needed))
    for node, behind in quorum.out_of_sync.items():
        partitions = f"{behind.partitions} partitions not in sync on broker {behind.broker}"
        yield Fact(f"not in sync on {node}", f"{partitions}: {listed(map(_partition, behind.examples))}")
    for node, down in quorum.brokers_down.items():
        examples = f": {listed(map(_partition, down.examples))}" if down.examples else ""
        counts = f"{down.replicas} replicas on broker {down.broker} ({node}), which is down and leads {down.leads}"
        yield Fact(f"replicas on {node}", f"{counts}{examples}")


def _sum(one: PartitionSum, what: str, times: Times) -> str:
    least = "at the latest " if one.at_least else ""
    examples = listed(map(_partition, one.examples))
    return (
        f"{one.partitions} partitions {what} {least}since {times.at(one.since_timestamp_ms)}, "
        f"held by {keys(one.holders)}: {examples}"
        + (f", also on {listed(f'{node} ({count})' for node, count in one.others)}" if one.others else "")
    )


def _needed(one: NeededReplica) -> str:
    missing = f", not {listed(f'{node} ({count})' for node, count in one.missing)}" if one.missing else ""
    return (
        f"{one.partitions} partitions with min.insync.replicas {known(one.min_isr)} and {one.in_sync} of "
        f"{one.replicas} replicas in sync, that of broker {one.broker} among them{missing}"
        f"{', with eligible leader replicas' if one.eligible else ''}: {listed(map(_partition, one.examples))}"
    )


def _partition(one: Recovery | Reassignment | ElectedRecovered | TopicPartition) -> str:
    return f"{known(one.topic)}-{one.partition} ({one.topic_id})"


def _past(past: Past, times: Times) -> Fact:
    match past:
        case Election():
            return Fact(f"election in epoch {past.leader_epoch} at {past.offset}", _election(past, times))
        case ControllerStart():
            record = times.record(past.offset, past.timestamp_ms)
            instead = "" if past.replaced_incarnation_id is None else f" instead of {past.replaced_incarnation_id}"
            sentence = f"controller {past.id} started by {record} as {past.incarnation_id}{instead}"
            return Fact(f"start of {past.id} at {past.offset} as {past.incarnation_id}", sentence)
        case Interruption():
            return Fact(f"interruption of {past.id} at {past.offset}", _interruption(past, times))
        case Unregistration():
            record = times.record(past.offset, past.timestamp_ms)
            return Fact(f"unregistration at {past.offset}", f"{past.kind} {past.id} unregistered by {record}")
        case DoubleRegistration():
            return Fact(f"two {past.kind}s {past.id}", _double_registration(past, times))
        case UncleanElections():
            first = times.at(past.first_timestamp_ms)
            return Fact(f"unclean elections of {past.topic_id} from {first}", _unclean(past, times))
        case EmptiedReplicas():
            return Fact(f"emptied {past.topic_id} on {past.broker} at {past.offset}", _emptied(past, times))
        case ElectedRecovered():
            record = times.record(past.offset, past.timestamp_ms)
            leaders = f"leader {past.leader} after {known(past.previous_leader)}"
            sentence = f"{_partition(past)} recovered by {record} with another leader: {leaders}"
            return Fact(f"recovered by election at {past.offset}", sentence)
        case VoterChange():
            record = times.record(past.offset, past.timestamp_ms, past.leader_epoch)
            moved = f", moved {listed(past.moved)}" if past.moved else ""
            sentence = f"voters {keys(past.before)} became {keys(past.after)} by {record}{moved}"
            return Fact(f"voter change at {past.offset} in epoch {past.leader_epoch}", sentence)


def _election(one: Election, times: Times) -> str:
    record = times.record(one.offset, one.timestamp_ms)
    words = [f"leader {one.leader_id} elected in epoch {one.leader_epoch} by {record}"]
    if one.previous_leader_id is not None or one.previous_epoch is not None:
        words.append(f"after leader {known(one.previous_leader_id)} in epoch {known(one.previous_epoch)}")
    if one.after_ms is not None:
        words.append(f"{seconds(one.after_ms)} after the batch before")
    if one.voter_ids or one.granting_voter_ids:
        words.append(f"by {listed(one.granting_voter_ids)} of voters {listed(one.voter_ids)}")
    return ", ".join(words)


def _interruption(one: Interruption, times: Times) -> str:
    words = [f"broker {one.id} fenced by {times.record(one.offset, one.timestamp_ms)}"]
    if one.ended_offset is not None or one.ended_timestamp_ms is not None:
        words[0] += f" to record {known(one.ended_offset)} at {times.at(one.ended_timestamp_ms)}"
    if one.announced:
        words.append("announced")
    if one.restarted or one.replaced_incarnation_id is not None:
        restarted = "restarted" if one.restarted else "not restarted"
        words.append(f"{restarted}, was {known(one.replaced_incarnation_id)}")
    words += [f"started again by {times.record(*start)}" for start in one.further_starts]
    return ", ".join(words)


def _double_registration(one: DoubleRegistration, times: Times) -> str:
    return (
        f"two {one.kind}s {one.id}: {endpoints(one.endpoints)} and {endpoints(one.other_endpoints)}, "
        f"{one.returns} returns since {times.at(one.first_timestamp_ms)}, "
        f"the last by {times.record(one.offset, one.timestamp_ms)}"
    )


def _emptied(one: EmptiedReplicas, times: Times) -> str:
    words = [
        f"{one.partitions} partitions of {known(one.topic)} ({one.topic_id}) emptied on {one.broker}: "
        f"{listed(one.numbers)} by record {one.offset} at {times.at(one.timestamp_ms)}",
        f"from {listed(one.lost)} to {listed(one.directories)}",
        f"registered by record {one.registered_offset}",
        f"others {listed(one.others)}",
        f"visible at {times.at(one.read_timestamp_ms)}",
    ]
    return ", ".join(words)


def _unclean(one: UncleanElections, times: Times) -> str:
    words = [
        f"unclean elections of {known(one.topic)} ({one.topic_id}): {one.elections} "
        + times.span(one.first_timestamp_ms, one.last_timestamp_ms),
        f"partitions {listed(one.partitions)} with at most {one.most_replicas} replicas",
        f"elected {listed(one.leaders)} instead of {listed(one.passed_over)}",
        f"further replicas on {listed(one.others)}",
        f"the last by record {one.last_offset}",
    ]
    if one.last_leaders:
        words.append(f"{one.last_leaders} of the last leader")
    words.append(f"visible at {times.at(one.read_timestamp_ms)}")
    return ", ".join(words)
