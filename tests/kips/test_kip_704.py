"""KIP-704: the leader recovery state in the bytes, how RECOVERING may begin and end, and its alerts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from connectors.metadata.record_schemas import record_schemas
from connectors.observations.log_event import PartitionChanged, PartitionSet, Undecodable
from connectors.observations.observation import Event
from rules.finding import Finding
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from streaming.replay.machine import Machine
from streaming.status.build_status import cluster_status
from streaming.status.cluster_status import partitions_json
from tests.kips.test_kip_856_gauges import state_of
from tests.unit.connectors.metadata.metadata_bytes import batch, control, data, ints, tagged
from tests.unit.connectors.metadata.metadata_record_schemas import written
from tests.unit.rules.situation import evaluation_of, findings, healthy
from tests.unit.rules.situation import recovering as several_recovering
from tests.unit.streaming.replay.log_script import LogScript, apply, begun, machine

TOPIC = bytes(range(16))
PARTITION = (
    bytes(4) + TOPIC + ints([101, 102]) + ints([102]) + ints([]) + ints([]) + (102).to_bytes(4, "big") + bytes(8)
)
"""PartitionRecord version 0 of partition 0, up to its tagged fields: leader 102, in sync 102."""
CHANGE = bytes(4) + TOPIC


def one(value: bytes) -> Event:
    table = decode_records(batch([value]), base_offset=0, last_offset=0, leader_epoch=1, high_watermark=1)
    event, _ = table.events()
    return event


def of_three_partitions(api_key: int, version: int, fields: bytes) -> list[bytes]:
    """Returns a record of partitions 0, 1 and 2, with the same fields after the partition's number."""
    return [data(api_key, version, number.to_bytes(4, "big") + fields) for number in range(3)]


def test_each_tagged_field_of_a_change_is_read_by_its_tag() -> None:
    """Tags 3 and 4, the replicas that a reassignment removes and adds, are not needed."""
    lists = {"t0": ints([103]), "t2": ints([101, 102, 103]), "t3": ints([101]), "t4": ints([103])}
    fields = {**lists, "t1": (103).to_bytes(4, "big"), "t6": ints([102]), "t7": ints([101])}
    records = of_three_partitions(5, 2, TOPIC + tagged(**{tag: fields[tag] for tag in sorted(fields)}))

    table = decode_records(batch(records), base_offset=0, last_offset=2, leader_epoch=1, high_watermark=3)
    *changes, _ = table.events()

    for number, event in enumerate(changes):
        assert isinstance(event, PartitionChanged)
        assert (event.partition, event.isr, event.replicas) == (number, (103,), (101, 102, 103))
        assert (event.leader, event.elr, event.last_known_elr) == (103, (102,), (101,))


@pytest.mark.parametrize("later", [{}, {"t77": b"later"}], ids=["by layout", "field by field"])
def test_a_change_to_an_empty_isr_is_not_an_unchanged_isr(later: dict[str, bytes]) -> None:
    records = of_three_partitions(5, 0, TOPIC + tagged(t0=ints([]), **later))

    table = decode_records(batch(records), base_offset=0, last_offset=2, leader_epoch=1, high_watermark=3)

    assert [event.isr for event in table.events() if isinstance(event, PartitionChanged)] == [()] * 3


def test_records_of_unclean_elections_leave_each_leader_alone_in_sync_and_recovering() -> None:
    """The elections of several partitions are decoded together."""
    before = of_three_partitions(3, 0, PARTITION[4:] + tagged())
    elections = of_three_partitions(5, 0, TOPIC + tagged(t0=ints([101]), t1=(101).to_bytes(4, "big"), t5=b"\1"))
    records = batch([*before, *elections])
    replay = machine()

    table = decode_records(records, base_offset=0, last_offset=5, leader_epoch=1, high_watermark=6)
    replay.apply(table, sequence=1, observed_at_ms=Millis(9_000))

    quorum = replay.quorum()
    assert [(one.leader, one.isr, one.elected) for one in quorum.recovering] == [(101, (101,), True)] * 3
    assert [(one.elections, one.passed_over) for one in quorum.history.unclean] == [(3, (102,))]


def test_similar_changes_of_several_recovering_partitions_are_replayed() -> None:
    """Records that differ in the partition only are decoded and replayed together."""
    replay = machine()

    def read(records: list[bytes]) -> list[tuple[int, tuple[int, ...]]]:
        first = replay.log.position + 1
        table = decode_records(
            batch(records, base_offset=first),
            base_offset=first,
            last_offset=first + 2,
            leader_epoch=1,
            high_watermark=first + 3,
        )
        replay.apply(table, sequence=first + 1, observed_at_ms=Millis(9_000))
        return [(one.partition, one.isr) for one in replay.quorum().recovering]

    assert read(of_three_partitions(3, 0, PARTITION[4:] + tagged(t0=b"\1"))) == [(0, (102,)), (1, (102,)), (2, (102,))]
    grown = [(0, (101, 102)), (1, (101, 102)), (2, (101, 102))]
    assert read(of_three_partitions(5, 0, TOPIC + tagged(t0=ints([101, 102])))) == grown
    (finding,) = findings(replay.quorum(), "recovery-invariant-broken")
    assert finding.summary.startswith("3 partitions of topic")
    assert read(of_three_partitions(5, 0, TOPIC + tagged(t5=b"\0"))) == []


@pytest.mark.parametrize("state", [False, True])
def test_the_recovery_state_is_read_beside_fields_of_a_later_kafka(state: bool) -> None:
    """Such a record has none of the known layouts and is read field by field."""
    byte = bytes([state])

    for value in (PARTITION + tagged(t0=byte, t77=b"later"), CHANGE + tagged(t5=byte, t77=b"later")):
        event = one(data(3 if value.startswith(PARTITION) else 5, 0, value))
        assert isinstance(event, PartitionSet | PartitionChanged)
        assert event.recovering is state


@pytest.mark.parametrize(
    ("state", "known"), [(b"\0", True), (b"\1", True), (b"\2", False), (b"\x7f", False), (b"\xfe", False)]
)
def test_the_recovery_state_is_one_byte_0_recovered_or_1_recovering(state: bytes, known: bool) -> None:
    for value in (data(3, 0, PARTITION + tagged(t0=state)), data(5, 0, CHANGE + tagged(t5=state))):
        assert isinstance(one(value), Undecodable) is not known
    assert isinstance(one(data(5, 0, CHANGE + tagged(t5=b"\0" + state))), Undecodable), "and never two bytes"
    assert isinstance(one(data(3, 0, PARTITION + tagged(t0=b"\xff"))), Undecodable), "only a change may be unchanged"


def test_a_snapshot_contains_the_recovery_state() -> None:
    header = control(
        3, written(record_schemas().control[3].versions[0][0], {"version": 0, "last_contained_log_timestamp": 5_000})
    )
    footer = control(4, written(record_schemas().control[4].versions[0][0], {"version": 0}))
    states = (b"\0", b"\1", b"\1")
    partitions = [
        data(3, 0, number.to_bytes(4, "big") + PARTITION[4:] + tagged(t0=state)) for number, state in enumerate(states)
    ]
    file = batch([header]) + batch(partitions, base_offset=1) + batch([footer], base_offset=4)
    replay = machine()
    table = decode_snapshot_piece(file, end_offset=40, epoch=1)

    replay.apply(table, sequence=1, observed_at_ms=Millis(9_000))

    assert [
        (one.partition, one.leader, one.isr, one.since_timestamp_ms, one.at_least) for one in replay.quorum().recovering
    ] == [(1, 102, (102,), 5_000, True), (2, 102, (102,), 5_000, True)]


def test_a_reassignment_keeps_the_recovery_state() -> None:
    script, replay = begun()
    script.topic("orders")
    script.partition("orders", 0, 101, 102, recovering=True)
    began = apply(replay, [script.read()]).recovering[0]
    script.change("orders", 0, replicas=(101, 102, 103))
    script.change("orders", 0, replicas=(101, 103), isr=(101,))

    (recovery,) = apply(replay, [script.read()]).recovering

    assert (recovery.replicas, recovery.since_offset) == ((101, 103), began.since_offset)


STUCK, BREACH = "partition-stuck-recovering", "recovery-invariant-broken"


def in_sync(topic: str = "orders") -> tuple[LogScript, Machine]:
    """Returns a partition of three in-sync replicas led by 101; every broker is unfenced."""
    script, replay = begun()
    for node in (101, 102, 103):
        script.broker(node, fenced=False)
    script.topic(topic)
    script.partition(topic, 0, 101, 102, 103)
    apply(replay, [script.read()])
    return script, replay


def recovering(topic: str = "orders") -> tuple[LogScript, Machine]:
    """Returns the partition after an unclean election of 102."""
    script, replay = in_sync(topic)
    script.change(topic, 0, isr=(102,), leader=102, recovering=True)
    apply(replay, [script.read()])
    return script, replay


def later(script: LogScript, replay: Machine, after_ms: int) -> Quorum:
    """Continues the log with NoOp records only."""
    rows = []
    for passed_ms in (after_ms, 500):
        script.noops(1)
        rows.append(script.read(after_ms=passed_ms))
    return apply(replay, rows)


@pytest.mark.parametrize("leader", [None, 101], ids=["no leader named", "the same leader named"])
def test_recovering_without_another_leader_is_a_violation(leader: int | None) -> None:
    script, replay = in_sync()
    script.change("orders", 0, isr=(101,), leader=leader, recovering=True)

    quorum = apply(replay, [script.read()])

    (finding,) = findings(quorum, BREACH)
    assert quorum.history.unclean == (), "no election"
    assert finding.severity == "critical"
    assert finding.summary.endswith("Partition 0 is RECOVERING since a record that elected no leader.")


@pytest.mark.parametrize(
    ("isr", "leader", "replicas", "breaches"),
    [
        ((102,), None, None, 0),
        ((102,), 102, None, 0),
        ((102, 103), None, None, 0),
        # The end of a reassignment may move the leader in the same record.
        ((103,), 103, (103, 104), 0),
        ((103,), 103, None, 1),
        ((102, 103), 103, None, 1),
    ],
    ids=[
        "by its leader",
        "by its leader, which it names",
        "with a replica that joined",
        "with a reassignment",
        "by an election",
        "by an election of it",
    ],
)
def test_the_leader_ends_recovery_and_an_election_does_not(
    isr: tuple[int, ...], leader: int | None, replicas: tuple[int, ...] | None, breaches: int
) -> None:
    script, replay = recovering()
    script.change("orders", 0, isr=isr, leader=leader, replicas=replicas, recovering=False)

    quorum = apply(replay, [script.read()])

    assert quorum.recovering == ()
    found = findings(quorum, BREACH)
    assert len(found) == breaches
    assert all("counts as recovered because broker 103 was elected" in one.summary for one in found)
    assert len(findings(later(script, replay, 3_500_000), BREACH)) == breaches, "and it fires for an hour"
    assert findings(later(script, replay, 200_000), BREACH) == []


def test_each_recovery_that_an_election_ends_is_reported_with_its_leaders_and_offset() -> None:
    script, replay = recovering()
    script.partition("orders", 1, 101, 102, 103)
    script.change("orders", 1, isr=(102,), leader=102, recovering=True)
    ends = [script.change("orders", number, isr=(103,), leader=103, recovering=False) for number in range(2)]

    (finding,) = findings(apply(replay, [script.read()]), BREACH)

    names = ("partition", "previous_leader", "leader", "ended_at_offset")
    listed = finding.evidence["partitions"]
    assert isinstance(listed, list)
    assert [tuple(each[name] for name in names) for each in listed if isinstance(each, dict)] == [
        (number, 102, 103, end.at.offset) for number, end in enumerate(ends)
    ]


@pytest.mark.parametrize(("isr", "breaches"), [((102,), 0), ((102, 103), 1)])
def test_recovering_with_more_than_one_in_sync_replica_is_a_violation(isr: tuple[int, ...], breaches: int) -> None:
    script, replay = recovering()
    script.change("orders", 0, isr=isr)

    found = findings(apply(replay, [script.read()]), BREACH)

    assert len(found) == breaches
    for each in found:
        evidence = partition_of(each)
        assert (evidence["leader"], evidence["isr"], evidence["replicas"]) == (102, [102, 103], [101, 102, 103])


@pytest.mark.parametrize("isr", [(102,), (102, 103)])
def test_a_broker_without_the_recovery_state_ends_recovery_and_nothing_fires(isr: tuple[int, ...]) -> None:
    """It sends AlterPartition version 0, which the controller records as 0: recovered."""
    script, replay = recovering()
    assert len(findings(replay.quorum(), STUCK)) == 1
    script.change("orders", 0, isr=isr, recovering=False)

    quorum = apply(replay, [script.read()])

    assert quorum.recovering == ()
    assert findings(quorum, STUCK) == findings(quorum, BREACH) == []


def test_a_recovery_in_the_log_is_kept_at_an_old_metadata_version() -> None:
    script, replay = recovering()
    script.feature("metadata.version", 2)

    quorum = apply(replay, [script.read()])

    assert (quorum.metadata_version, [one.partition for one in quorum.recovering]) == (2, [0])


def partition_of(finding: Finding) -> Mapping[str, Any]:
    listed = finding.evidence["partitions"]
    assert isinstance(listed, list)
    (only,) = listed
    assert isinstance(only, dict)
    return only


def test_a_stuck_recovery_fires_with_its_fields_and_partitions() -> None:
    script, replay = recovering()
    began = replay.quorum().recovering[0]
    script.change("orders", 0, isr=(103,), leader=103)
    script.change("orders", 0, leader=103)
    script.change("orders", 0, isr=(102,), leader=102)
    script.change("orders", 0, isr=(102,))
    quorum = apply(replay, [script.read()])

    (finding,) = findings(quorum, STUCK)

    fields = {
        "partition": 0, "leader": 102, "leader_epoch": 4, "partition_epoch": 5, "leader_changes": 2,
        "since_offset": began.since_offset, "replicas": [101, 102, 103], "isr": [102],
    }  # fmt: skip
    evidence = partition_of(finding)
    assert {name: evidence[name] for name in fields} == fields
    assert evidence["since_timestamp_ms"] == began.since_timestamp_ms
    assert (finding.evidence["topic"], finding.evidence["topic_id"]) == ("orders", "id-of-orders")
    assert "2 more leaders elected since" in finding.summary
    assert quorum.newest_timestamp_ms is not None
    assert finding.condition_age_ms == quorum.newest_timestamp_ms - began.since_timestamp_ms, "its hold is the log's"
    shown = partitions_json(cluster_status(state_of(quorum)))
    listed = shown["recovering"]
    assert isinstance(listed, list)
    assert isinstance(listed[0], dict)
    assert {name: listed[0][name] for name in fields} == fields


def test_partitions_of_a_topic_are_one_alert_since_the_first_of_them() -> None:
    quorum = several_recovering(several_recovering(healthy(), 0, for_ms=75_000), 1, for_ms=90_000)
    again = tuple(replace(one, leader_changes=2) for one in quorum.recovering)

    (finding,) = findings(replace(quorum, recovering=again), STUCK)

    assert "4 more leaders elected since" in finding.summary
    assert finding.condition_age_ms == 90_000
    listed = finding.evidence["partitions"]
    assert isinstance(listed, list)
    assert [each["partition"] for each in listed if isinstance(each, dict)] == [0, 1]


def test_a_recovering_partition_without_a_leader_is_offline() -> None:
    script, replay = recovering()
    (led,) = findings(replay.quorum(), STUCK)
    assert led.evidence["clients_refused"] is False
    gone = script.change("orders", 0, leader=102, isr=())
    script.events[-1] = replace(gone, leader=None)

    quorum = apply(replay, [script.read()])

    (finding,) = findings(quorum, STUCK)
    assert (quorum.recovering[0].isr, quorum.recovering[0].leader) == ((), None), "what is set is not kept"

    assert finding.evidence["clients_refused"] is True
    assert "except on 1 partition without a leader" in finding.summary
    assert partition_of(finding)["leader_changes"] == 0, "no leader is not another leader"


@pytest.mark.parametrize(
    ("topic", "severities"),
    [
        ("orders", ["warning", "critical"]),
        ("__transaction_state", ["critical", "critical"]),
        ("__consumer_offsets", ["critical", "critical"]),
        ("__share_group_state", ["critical", "critical"]),
    ],
)
def test_internal_topics_have_a_higher_severity(topic: str, severities: list[str]) -> None:
    script, replay = recovering(topic)
    (fresh,) = findings(later(script, replay, 5_000), STUCK)
    (old,) = findings(later(script, replay, 60_000), STUCK)

    assert [fresh.severity, old.severity] == severities
    consequence = old.summary.partition("may be lost")[2].partition("Do not start")[0]
    assert ("may" in consequence) is topic.startswith("__"), "and what may follow is said"


@pytest.mark.parametrize(("isr", "breaches"), [((103,), 0), ((102, 103), 1), ((102,), 1)])
def test_another_leader_of_a_recovering_partition_is_elected_uncleanly(isr: tuple[int, ...], breaches: int) -> None:
    script, replay = recovering()
    script.change("orders", 0, isr=isr, leader=103)

    quorum = apply(replay, [script.read()])

    assert quorum.recovering[0].leader == 103, "and it stays RECOVERING"
    (unclean,) = quorum.history.unclean
    assert unclean.elections == (2 if isr == (103,) else 1), "where no in-sync replica is left of the former ones"
    assert len(findings(quorum, BREACH)) == breaches
    (stuck,) = findings(quorum, STUCK)
    assert "1 more leader elected since" in stuck.summary


@pytest.mark.parametrize("level", [3, None], ids=["3.2", "unknown"])
def test_from_metadata_version_3_2_on_recovery_is_evaluated(level: int | None) -> None:
    quorum = replace(several_recovering(healthy(), 0), metadata_version=level)

    assert evaluation_of(quorum).not_applicable == ()
    assert len(findings(quorum, STUCK)) == 1
    not_applicable = evaluation_of(replace(quorum, metadata_version=2)).not_applicable
    assert {one.rule for one in not_applicable} == {STUCK, BREACH}
