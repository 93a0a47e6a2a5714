"""Scenarios of a log: all that changed in what is known after each observation.

Each scenario is replayed twice: at once, and stored and restored after each observation.
`make goldens` rewrites them: read each difference.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import pytest

from connectors.observations.log_event import (
    BrokerUnregistered,
    ElrCleared,
    LogEvent,
    PartitionChanged,
    SnapshotEnded,
    TopicRemoved,
    Undecodable,
    VotersReplaced,
)
from rules.model.history import Recovery
from rules.model.identifiers import Endpoint, Epoch, NodeId, Offset, ReplicaKey, TopicId
from rules.model.membership import FeatureRange, RecordPosition, Voter
from rules.model.monitoring import FailedObservation, LeaderLog, ObservationSource, Reason, Snapshot
from streaming.replay.decoded_row import DecodedRow
from streaming.replay.machine import BEHIND_MS, Machine
from streaming.replay.probe_state import LOST_MS, PROBE_MS
from streaming.replay.recent_history import EPISODE_MS
from tests.unit.streaming.replay.log_script import (
    LogScript,
    again,
    endpoint,
    failed,
    ids,
    key,
    machine,
    poll,
    probed,
    replica,
    view,
    voter,
)

GOLDENS = Path(__file__).parent / "log_scenarios"
REWRITE = os.environ.get("KRAFTWATCH_REWRITE_GOLDENS") == "1"
UNREPORTED = {"now_ms", "log_seen_at_ms", "observed_at_ms", "samples", "bootstrap", "access", "vantage", "type"}
UNREPORTED |= {"poll.cluster_id", "poll.endpoint"}
"""What changes with each observation, or never."""
Step = tuple[str, DecodedRow]


def values(of: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yields each value inside of one, with its name: `poll.voters.1.log_end_offset`."""
    if isinstance(of, ReplicaKey):
        yield name, str(of)
    elif isinstance(of, RecordPosition):
        reported = ("offset", "timestamp_ms") if name.startswith("controllers") else ("offset",)
        yield from ((name.removesuffix("at") + each, str(getattr(of, each))) for each in reported)
    elif is_dataclass(of) and not isinstance(of, type):
        for each in fields(of):
            if not each.name.startswith("_") and {each.name, f"{name}.{each.name}"}.isdisjoint(UNREPORTED):
                yield from values(getattr(of, each.name), f"{name}.{each.name}" if name else each.name)
    elif isinstance(of, Mapping):
        for each, inner in of.items():
            yield from values(inner, f"{name}.{each}")
    elif isinstance(of, tuple) and any(is_dataclass(inner) and not isinstance(inner, ReplicaKey) for inner in of):
        for number, inner in enumerate(of):
            yield from values(inner, f"{name}.{identity(inner) or number}")
    else:
        text = f"[{', '.join(map(str, of))}]" if isinstance(of, tuple) else str(of)
        yield name, text


def identity(of: object) -> str:
    """Returns what distinguishes a value from the others of its list; empty: only its place."""
    if isinstance(of, Recovery):
        return f"{of.topic_id}-{of.partition}"
    if isinstance(of, FailedObservation):
        return f"{of.source}@{of.endpoint}{' lost' * (of.reason is Reason.METADATA_LOST)}"
    return str(getattr(of, "key", getattr(of, "topic_id", "")))


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield f"  {name}: {before.get(name, '')} -> {after.get(name, '')}"


def known_of(replay: Machine) -> dict[str, str]:
    position = {"read": f"to {replay.log.position}, {'not to the end' if replay.behind else 'to the end'}"}
    return {**dict(values(replay.quorum())), **position, "undecodable": str(replay.undecodable)}


def changes(steps: Iterator[Step]) -> Iterator[str]:
    at_once, restored = machine(), machine()
    known = known_of(at_once)
    for title, row in steps:
        for each in (at_once, restored):
            each.apply(row.events, sequence=row.sequence, observed_at_ms=row.observed_at_ms)
        restored = again(restored.to_bytes())
        assert restored.quorum() == at_once.quorum()
        yield title
        yield from differences(known, known := known_of(at_once))


def recoveries() -> Iterator[Step]:
    """KIP-704: two partitions of a topic, and one of another topic."""
    script = LogScript()
    script.leader(1)
    for topic in ("orders", "other"):
        script.topic(topic)
        script.partition(topic, 0, 101, 102, 103, elr=())
    script.partition("orders", 7, 101, 102)
    script.partition("other", 3, 101, 102, elr=(103,))
    yield "four partitions, recovered", script.read()
    script.change("orders", 0, isr=(101,), elr=(102,))
    yield "the ISR shrinks", script.read()
    script.change("orders", 7, isr=(101,), elr=(103,), last_known_elr=(102,))
    script.change("orders", 7, isr=(101,))
    script.change("orders", 7, replicas=(101, 102))
    yield "changes of orders-7 leave its ELR", script.read()
    script.change("orders", 0, isr=(103,), elr=(), leader=103, recovering=True)
    yield "an unclean election of orders-0", script.read()
    script.change("orders", 0, isr=(103,))
    script.change("orders", 7, leader=102)
    yield "the same ISR again, and a clean election of orders-7", script.read()
    script.change("orders", 0, isr=(102,), leader=102)
    yield "a second unclean election: the state is not repeated", script.read()
    nobody = PartitionChanged(
        at=script.at(),
        topic_id=TopicId("id-of-orders"),
        partition=0,
        replicas=None,
        isr=(),
        elr=ids(101),
        leader=None,
        leader_set=True,
        recovering=None,
    )
    script.write(nobody)
    yield "orders-0 has no leader and an empty ISR, and broker 101 is eligible", script.read()
    script.change("orders", 0, isr=(103,), elr=(), leader=103)
    yield "a third unclean election passes over the eligible replica", script.read()
    script.change("orders", 0, isr=(), leader=102)
    script.change("orders", 0, isr=(102,), leader=102)
    yield "the former leader is back", script.read()
    script.change("orders", 0, replicas=(101, 102, 104))
    yield "a reassignment adds a replica and removes one", script.read()
    script.change("orders", 0, isr=(102, 101))
    yield "the ISR grows while recovering", script.read()
    script.change("other", 0, isr=(102,), leader=102, recovering=True)
    script.change("orders", 7, isr=(101,), leader=101, recovering=True)
    script.change("other", 3, isr=(104,), leader=104, recovering=True)
    yield "unclean elections of three partitions", script.read()
    script.change("orders", 0, leader=101, recovering=False)
    yield "another leader and the end of the recovery in one record", script.read()
    script.change("other", 0, isr=(101, 102), recovering=False)
    yield "the end of a recovery, with a growing ISR", script.read()
    script.change("orders", 0, recovering=True)
    yield "recovering without an election", script.read()
    script.change("other", 3, isr=(104, 101), recovering=False)
    script.change("other", 3, isr=(), elr=(), last_known_elr=(101,), leader=101)
    script.change("other", 3, replicas=(101, 102, 104))
    script.change("other", 3, isr=(102,), leader=102, recovering=True)
    yield "a recovery that ended is followed by another that passes over the last known leader", script.read()
    script.change("other", 3, replicas=(104,), isr=(104,), leader=104)
    yield "a reassignment leaves a single replica", script.read()
    script.write(ElrCleared(at=script.at(), topic="orders"))
    script.write(TopicRemoved(at=script.at(), topic_id=TopicId("id-of-other")))
    yield "the ELR is cleared, and the other topic removed", script.read()
    script.begin()
    script.change("orders", 7, isr=(101, 102), recovering=False)
    script.change("orders", 0, recovering=False)
    yield "a transaction begins", script.read()
    script.leader(2, 5)
    yield "a new leader within the transaction", script.read()
    script.end(aborted=True)
    yield "the transaction is aborted", script.read()
    script.begin()
    script.change("orders", 7, isr=(101, 102), recovering=False)
    script.end()
    yield "a transaction that ends", script.read()
    script.write(TopicRemoved(at=script.at(), topic_id=TopicId("id-of-orders")))
    script.topic("orders")
    yield "the topic is removed, and created again", script.read()
    snapshot: list[LogEvent] = [
        script.topic("later"),
        script.partition("later", 1, 101, 102, elr=(103,), recovering=True),
    ]
    script.events.clear()
    for number, row in enumerate(script.snapshot(snapshot, end_offset=90, chunks=2), 1):
        yield f"part {number} of a snapshot with a recovering partition", row
    script.offset = 90
    script.change("later", 1, isr=(102,), leader=102)
    yield "a change after the snapshot", script.read()


def moved(name: str, port: int) -> Voter:
    return replace(voter(name), endpoints=(endpoint(key(name).id, port), replace(endpoint(9), listener="INTERNAL")))


def voter_changes() -> Iterator[Step]:
    """KIP-853: voters are added, removed, moved and replaced; the log is truncated; a snapshot replaces it."""
    script = LogScript()
    script.leader(1)
    script.kraft(1)
    script.voters("1-a", "2-b", "3-c")
    yield "three voters", script.read()
    rows = [replica("1-a", 20), replica("2-b", 20, 100, 200), replica("3-c", 18, 300, 400)]
    yield "a poll", script.row(poll(*rows, hw=18))
    observers = (replica("3-z", 7, 10, 20),)
    gone = replica("3-c", 18, 20_000, 20_000)
    yield "disk 3 is replaced", script.row(poll(*rows[:2], gone, hw=18, observers=observers))
    script.voters("1-a", "2-b")
    yield "voter 3-c is removed, and the record is not committed", script.read(behind=2)
    script.noops(2)
    yield "it is committed", script.read()
    yield "the leader's set has 3-z", script.row(poll(*rows[:2], *observers, hw=18))
    yield "a log ends earlier", script.row(poll(rows[0], replica("2-b", 17), *observers, hw=19))
    script.voters("1-a", "2-b", "3-z")
    yield "3-z is added", script.read()
    changed = VotersReplaced(at=script.at(), voters=(voter("1-a"), moved("2-b", 19_093), voter("3-z")))
    script.write(changed)
    yield "voter 2 moves", script.read()
    script.voters("2-b", "3-z")
    yield "the leader is removed", script.read()
    yield "it still answers", script.row(poll(*rows[1:2], *observers, leader=1, hw=19, observers=rows[:1]))
    script.leader(2, 4)
    yield "another leader", script.read()
    script.voters("3-z", "4-d", "5-e")
    yield "several voters at once", script.read()
    script.epoch, script.offset = 6, 10
    script.voters("2-b", "3-z")
    yield "committed records are overwritten", script.read()
    no_leader = failed(Reason.NO_LEADER, "c1:9093", ObservationSource.QUORUM)
    yield "no leader", script.row(no_leader, failed(Reason.NO_LEADER, "c2:9093", ObservationSource.QUORUM))
    script.leader(3, 7)
    yield "a leader", script.read()
    yield "its poll", script.row(poll(replica("2-b", None, None, None), replica("3-z", 12), leader=3, epoch=7, hw=None))
    yield "an older leader's poll", script.row(poll(replica("2-b", 12), replica("3-z", 12), leader=2, epoch=6, hw=11))
    yield "two leaders of an epoch", script.row(poll(replica("2-b", 12), replica("3-z", 12), leader=2, epoch=7, hw=12))
    yield "a lower high watermark", script.row(poll(replica("2-b", 12), replica("3-z", 12), leader=3, epoch=7, hw=11))
    snapshot: list[LogEvent] = [
        script.kraft(1),
        script.voters("1-a", "2-b"),
        script.controller(1),
        script.feature("metadata.version", 29),
    ]
    script.events.clear()
    for number, row in enumerate(script.snapshot(snapshot, end_offset=50, chunks=2), 1):
        yield f"part {number} of a snapshot", row
    script.offset = 50
    script.voters("1-a", "2-b", "3-y")
    yield "a voter is added after the snapshot", script.read()


def registrations() -> Iterator[Step]:
    """Nodes register, are fenced, shut down, start again and leave; features are set and removed."""
    script = LogScript()
    supported = (FeatureRange(name="metadata.version", lowest=7, highest=29),)
    script.leader(1)
    script.feature("metadata.version", 27)
    script.feature("group.version", 1)
    script.controller(1, features=supported)
    script.controller(2)
    script.broker(101, features=supported)
    script.broker(102)
    yield "two controllers and two brokers, fenced", script.read()
    script.broker_change(101, fenced=False)
    script.broker_change(102, fenced=False)
    script.broker_change(109, fenced=False)
    yield "the brokers are unfenced, and one that is unknown", script.read()
    script.broker_change(101, shutdown=True)
    yield "broker 101 shuts down", script.read()
    script.broker_change(101, fenced=True)
    script.broker_change(102, fenced=True)
    yield "both are fenced", script.read()
    script.broker_change(102, shutdown=False)
    yield "the end of a shutdown unfences no broker", script.read()
    script.broker(101, features=(replace(supported[0], highest=30),))
    script.broker_change(102, fenced=False)
    yield "101 starts again with another version, and 102 is unfenced", script.read()
    script.broker_change(101, fenced=False)
    yield "101 is unfenced", script.read()
    first = script.controller(2, 19_093)
    second = script.controller(2, 9_093)
    returned = script.at()
    script.write(replace(first, at=returned))
    yield "controller 2 starts twice, and the first process registers again", script.read()
    script.write(replace(second, at=script.at()))
    script.write(replace(second, at=script.at()))
    script.feature("group.version", 0)
    script.feature("metadata.version", 29)
    yield "the second one too; a feature is removed, and metadata.version raised", script.read()
    script.write(BrokerUnregistered(at=script.at(), id=NodeId(102)))
    yield "broker 102 is unregistered", script.read()
    voters = script.leader(1, 3)
    script.events[-1] = replace(voters, voter_ids=ids(1, 2, 3), granting_voter_ids=ids(1, 3))
    script.leader(2, 8)
    yield "two elections", script.read()
    same = script.broker(103, fenced=False, features=supported)
    script.broker(104, fenced=False)
    yield "two more brokers, unfenced", script.read()
    script.broker(104, fenced=False, features=supported)
    script.broker_change(104, fenced=False)
    yield "one starts again", script.read()
    records: list[LogEvent] = [script.controller(1, features=supported), same, script.broker(104, fenced=False)]
    script.events.clear()
    for row in script.snapshot(records):
        yield "a snapshot, with the same incarnation of 103 and another of 104", row


QUORUM, PROBE = ObservationSource.QUORUM, ObservationSource.PROBE


def failures() -> Iterator[Step]:
    """Failed observations by data source and endpoint, and the leader that they leave."""
    script = LogScript()
    script.leader(1)
    yield "a log", script.read()
    yield "two sources fail at an address", script.row(failed(Reason.REFUSED), failed(Reason.REFUSED, source=QUORUM))
    yield "one fails for another reason", script.row(failed(Reason.TIMED_OUT, source=QUORUM))
    yield "no address is found", script.row(failed(Reason.UNRESOLVABLE, ""), failed(Reason.UNRESOLVABLE, "", QUORUM))
    script.noops(1)
    yield "a fetch ends every failure to fetch the log", script.read()
    yield "another address answers a poll", script.row(poll(endpoint="c2:9093"))
    yield "the address itself", script.row(poll(endpoint="c1:9093", cluster_id="other"))
    few = [failed(Reason.TOO_FEW_DESCRIPTORS, f"c{node}:9093", PROBE) for node in (2, 3)]
    yield "two probes fail", script.row(*few)
    yield "one endpoint is probed", script.row(probed(2, "10.0.0.2"))
    yield "a failure is repeated after a minute", script.row(few[1], after_ms=59_000)
    yield "a minute later it still counts", script.row(after_ms=60_000)
    yield "after that it does not", script.row(after_ms=1)
    yield "a node reports no leader", script.row(failed(Reason.NO_LEADER, "c1:9093"))
    yield "a time-out reports nothing", script.row(failed(Reason.TIMED_OUT, "c2:9093"))
    yield "nor do refused probes", script.row(*(failed(Reason.REFUSED, f"c{node}:9093", PROBE) for node in (2, 3)))
    yield "a refused connection makes a majority", script.row(failed(Reason.REFUSED, "c3:9093"))
    script.noops(1)
    yield "a fetch proves a leader", script.read()
    yield "refused connections alone", script.row(*(failed(Reason.REFUSED, f"c{node}:9093") for node in (1, 2, 3)))
    yield "a node is not ready", script.row(failed(Reason.NOT_READY, "c1:9093"))
    yield "a poll of a new leader", script.row(poll(leader=2, epoch=2, hw=85))
    yield "a lower high watermark in its epoch", script.row(poll(leader=2, epoch=2, hw=80))
    yield "metadata is lost", script.row(failed(Reason.METADATA_LOST))
    yield "another failure at the same endpoint", script.row(failed(Reason.REFUSED), after_ms=1)
    yield "an hour later the loss still counts", script.row(after_ms=LOST_MS - 1)
    yield "after that it does not", script.row(after_ms=1)


def probes() -> Iterator[Step]:
    """Probes, resolved addresses, the nodes of polls, and the leader views of controllers."""
    script = LogScript()
    script.leader(1)
    first = probed(1, "10.0.0.1"), probed(2, "10.0.0.2")
    yield "probes of endpoints before a voter set is known", script.row(*first, probed(9, "10.0.0.9"))
    script.voters("1-a", "2-b")
    yield "two voters", script.read()
    yield "a name does not resolve: its last address is kept", script.row(probed(2))
    script.write(VotersReplaced(at=script.at(), voters=(voter("1-a"), voter("2-b", port=9193))))
    yield "voter 2 moves to another port of its host", script.read()
    for port in (9093, 9193):
        nodes = {NodeId(9): (endpoint(9, port),)}
        yield f"node 9 is polled with port {port}", script.row(poll(replica("1-a"), nodes=nodes))
        yield "it is probed", script.row(probed(9, "10.0.0.9", where=endpoint(9, port)))
    yield "it is polled no longer", script.row(poll(replica("1-a")))
    where = Endpoint(listener="CONTROLLER", host="fd00::1", port=9093)
    script.write(VotersReplaced(at=script.at(), voters=(replace(voter("1-a"), endpoints=(where,)),)))
    yield "an IPv6 address", script.read()
    yield "it is probed", script.row(probed(1, "fd00::1", where=where))
    yield "ten minutes later", script.row(after_ms=PROBE_MS)
    yield "the probe expires, its address does not", script.row(after_ms=1)
    snapshot = Snapshot(end_offset=Offset(90), epoch=Epoch(1), last_contained_timestamp_ms=None)
    log = LeaderLog(start_offset=Offset(0), snapshot=snapshot, tells_absence=True, begins_timestamp_ms=None)
    yield "two controllers report a leader, one its log", script.row(view(1, log=log), view(2))
    yield "one of them again", script.row(view(2))
    yield "the same leader in another epoch", script.row(view(2, epoch=2))
    yield "no leader", script.row(view(2, leader=None, epoch=2))
    yield "ten minutes later", script.row(view(2, leader=None, epoch=2), after_ms=PROBE_MS - 3_000)
    yield "a view that is not repeated expires", script.row(after_ms=1)


def log_reading() -> Iterator[Step]:
    """What rules see of a log while it is read: records, voters, transactions (KIP-868), and a log that was lost."""
    script = LogScript()
    script.leader(1)
    script.topic("orders")
    script.partition("orders", 0, 101, 102)
    script.change("orders", 0, isr=(102,), leader=102, recovering=True)
    script.begin()
    yield "it is not read to its high watermark", script.read(behind=3)
    script.end()
    script.change("orders", 0, isr=(101, 102), recovering=False)
    script.noops(1)
    yield "it is: the recovery is over", script.read()
    yield "a poll with a higher high watermark", script.row(poll(replica("1-a"), hw=90))
    script.noops(1)
    yield "a fetch to the end by its own high watermark", script.read()
    yield "the log stays behind", script.read(behind=5)
    script.broker(101)
    yield "for ten seconds", script.read(behind=5, after_ms=BEHIND_MS)
    yield "for longer: rules see it as far as it is read", script.read(behind=5, after_ms=1)
    script.noops(1)
    yield "a batch without a time", script.row(replace(script.advanced(script.offset), newest_timestamp_ms=None))
    script.write(Undecodable(offset=Offset(script.offset), reason="what", length=3))
    script.noops(1)
    yield "an undecodable record", (row := script.read())
    yield "it is read again", DecodedRow(script.row().sequence, row.observed_at_ms, row.events)
    script.voters("1-a", "2-b", "3-c")
    yield "three voters", script.read()
    for voters, passed_ms in ((("1-a", "3-c"), 60_000), (("1-a",), 7_000)):
        script.voters(*voters)
        script.now_ms += passed_ms
    script.noops(1)
    yield "two are removed, each at the time of its own record", script.read()
    script.voters("1-a", "4-d", "5-e")
    script.voters("1-a")
    yield "two that were never visible are removed at once", script.read()
    script.begin()
    script.broker(102)
    script.broker_change(102, fenced=False)
    script.voters("1-a", "2-b")
    script.kraft(1)
    script.leader(2, 2)
    yield "a transaction: control records are not part of it", script.read()
    script.end()
    yield "its end", script.read()
    script.begin()
    script.broker(103)
    script.end(aborted=True)
    script.end()
    yield "one that is aborted, and an end without a beginning", script.read()
    for broker in (104, 105):
        script.begin()
        script.broker(broker)
    script.end()
    yield "a second beginning drops the records of the first", script.read()
    yield "metadata is lost: rules see the old state", script.row(failed(Reason.METADATA_LOST))
    script.offset = 0
    script.leader(3, 1)
    script.voters("3-c")
    yield "the new log, of a lower epoch, is not read to its end", script.read(behind=1)
    script.noops(1)
    yield "it is", script.read()
    yield "a poll of its leader", script.row(poll(replica("3-c"), leader=3, epoch=1))


def leaderless(script: LogScript, number: int, *, elr: tuple[int, ...], last: int) -> None:
    """The last in-sync replica was fenced: with ELR (KIP-966) the ISR is empty, and Kafka stores the last leader."""
    change = script.change("orders", number, isr=(), elr=elr, last_known_elr=(last,), leader=-1)
    script.events[-1] = replace(change, leader=None)


def elect(script: LogScript, number: int, elected: int, *, last: int, recovering: bool | None = True) -> None:
    """The last leader crashed, which empties the ELR; then this replica is elected."""
    leaderless(script, number, elr=(last,), last=last)
    script.change("orders", number, elr=())
    script.change("orders", number, isr=(elected,), leader=elected, last_known_elr=(), recovering=recovering)


def unclean_elections() -> Iterator[Step]:
    """KIP-704 and KIP-966: which replicas an election passes over, and how elections are summed by topic."""
    script = LogScript()
    script.leader(1)
    script.topic("orders")
    for number in range(4):
        script.partition("orders", number, *(101, 102, 103)[: 1 + 2 * (number < 3)])
    script.change("orders", 0, isr=(102,), leader=102, recovering=True)
    yield "an election of a log that is read for the first time", script.read()
    script.change("orders", 0, isr=(103,), leader=103)
    script.partition("orders", 5, 101)
    yield "another one, which the rules see at the end of what is read", script.read()
    script.change("orders", 0, replicas=(101,), isr=(101,), leader=101, recovering=False)
    yield "a recovery that ends with a reassignment is no election", script.read()
    script.change("orders", 1, isr=(101,), elr=())
    elect(script, 1, 102, last=101)
    yield "a replica is elected instead of the last leader", script.read()
    elect(script, 1, 102, last=102, recovering=None)
    yield "the last leader is elected while recovering: it passes over no other", script.read()
    script.change("orders", 2, isr=(101,), elr=())
    elect(script, 2, 101, last=101)
    yield "the last leader of another partition", script.read()
    elect(script, 2, 102, last=101, recovering=None)
    yield "a second election of it passes the last leader over", script.read()
    script.change("orders", 3, isr=(102,), leader=102, recovering=True)
    yield "an election of a partition with one replica", script.read()
    script.change("orders", 3, isr=(101, 102), recovering=False)
    script.now_ms += EPISODE_MS - 1_000
    script.change("orders", 3, isr=(101,), leader=101, recovering=True)
    yield "ten minutes later", script.read()
    script.change("orders", 3, isr=(101, 102), recovering=False)
    script.now_ms += EPISODE_MS - 999
    script.change("orders", 3, isr=(102,), elr=(), last_known_elr=(101,), leader=102, recovering=True)
    yield "more than ten minutes later: another matter", script.read()
    script.write(ElrCleared(at=script.at(), topic="orders"))
    yield "the last known ELR is cleared, which changes the partition", script.read()
    records: list[LogEvent] = [script.topic("pay"), script.partition("pay", 0, 101, 102, recovering=True)]
    script.events.clear()
    for row in script.snapshot(records):
        yield "a snapshot neither adds nor removes elections", row


def later_state() -> list[LogEvent]:
    """Returns the records of a snapshot: voters 1 and 2, broker 102, a recovering partition."""
    script = LogScript()
    script.kraft(1)
    script.voters("1-a", "2-b")
    script.broker(102, fenced=False)
    script.topic("orders")
    script.partition("orders", 0, 101, 102, recovering=True)
    return script.events


def snapshots() -> Iterator[Step]:
    """KIP-630: a snapshot replaces the state at its footer, even if that comes many observations later."""
    script = LogScript(epoch=0)
    (bootstrap,) = script.snapshot([script.kraft(1)], end_offset=0)
    script.offset, script.events = 0, []
    yield "the bootstrap snapshot ends at offset 0: nothing is lost", bootstrap
    script.leader(1, 1)
    script.voters("1-a", "2-b", "3-c")
    script.broker(101, fenced=False)
    script.noops(99)
    yield "a log", script.read()
    for end_offset in (80, 102):
        (known,) = script.snapshot(later_state(), end_offset=end_offset)
        yield f"a snapshot of the records below {end_offset}, which are applied", known
    known_end = script.advanced(102)
    script.noops(400)
    first, second, third = script.snapshot(later_state(), chunks=3)
    yield "the first part of a later one", first
    yield "a poll fails", script.row(failed(Reason.TIMED_OUT, source=QUORUM))._replace(sequence=second.sequence)
    script.sequence = third.sequence
    other = LogScript()
    other.voters("1-a", "9-z")
    (whole,) = script.snapshot(other.events, end_offset=400)
    yield "a new header discards it, and that one is whole", whole
    first, second, third = script.snapshot(later_state(), chunks=3)
    *inside, footer = third.events
    assert isinstance(footer, SnapshotEnded)
    yield "another one", DecodedRow(first.sequence, first.observed_at_ms, (*first.events, *second.events, *inside))
    wrong = replace(footer, epoch=Epoch(77))
    yield "the footer of another one", DecodedRow(second.sequence, second.observed_at_ms, (wrong,))
    first, second, third = script.snapshot(later_state(), chunks=3)
    yield "a first part", first
    yield "a fetch without new records keeps it", DecodedRow(second.sequence, second.observed_at_ms, (known_end,))
    script.sequence, script.offset = second.sequence, 401
    script.begin()
    script.broker(109)
    yield "records after it discard it; a transaction is open", script.read()
    script.offset = 502
    (whole,) = script.snapshot(later_state())
    yield "a whole one replaces the state, and ends the transaction of the log", whole
    script.end()
    yield "the end of that transaction", script.read()
    first, second, third = script.snapshot(later_state(), end_offset=900, chunks=3)
    yield "a first part", first
    lost = script.row(failed(Reason.METADATA_LOST))._replace(sequence=second.sequence)
    yield "metadata is lost: rules see the old state until the log is read again", lost
    yield "a footer alone", third._replace(sequence=script.sequence)
    script.epoch, script.offset = 3, 500
    yield "a poll of the new log", script.row(poll(replica("1-a"), epoch=3, hw=502))
    (whole,) = script.snapshot(later_state())
    yield "its snapshot: the log after it is not read", whole
    script.change("orders", 0, recovering=False)
    script.noops(1)
    yield "it is read", script.read()
    for last, epoch in ((501, 5), (400, 6)):
        script.epoch = epoch
        (newer,) = script.snapshot(later_state(), end_offset=last + 1)
        yield f"a snapshot of epoch {epoch} up to {last}: the log was rewritten", newer


SCENARIOS: dict[str, Callable[[], Iterator[Step]]] = {
    each.__name__.replace("_", "-"): each
    for each in (recoveries, voter_changes, registrations, unclean_elections, log_reading, failures, probes, snapshots)
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_changes_with_each_observation(scenario: str) -> None:
    path = GOLDENS / f"{scenario}.txt"
    text = "".join(f"{line.rstrip()}\n" for line in changes(SCENARIOS[scenario]()))
    if REWRITE:
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text
