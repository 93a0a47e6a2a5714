"""KIP-704: the leader recovery state in the bytes of records and snapshots."""

import pytest

from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from connectors.metadata.record_schemas import record_schemas
from connectors.observations.log_event import PartitionChanged, PartitionSet, Undecodable
from connectors.observations.observation import Event
from rules.model.identifiers import Millis
from tests.kips.kip_records import CHANGE, PARTITION, TOPIC
from tests.scripts.log_script import machine
from tests.unit.connectors.metadata.metadata_bytes import batch, control, data, ints, tagged
from tests.unit.connectors.metadata.metadata_record_schemas import written


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
