"""Rows: blanked, on a clock that never goes back, and urgent only when they say something new."""

import dataclasses
from collections import Counter
from struct import Struct

import pytest
from crc32c import crc32c

from connectors.event import EndpointProbed, LeaderViewPolled, ObservationFailed, QuorumPolled, from_json
from connectors.gather.commit_buffer import Release
from connectors.gather.node_directory import Whereabouts
from connectors.gather.observation_writer import Rows
from connectors.kafka.messages import SnapshotId
from connectors.metadata.record_framing import NOOP
from connectors.observation import Kind, Observation
from rules.model.identifiers import Endpoint, Epoch, NodeId, Offset, ReplicaKey
from rules.model.monitoring import Answer, Connection, ObservationSource, Reason, Resolution
from rules.model.poll import Replica

_HEADER = Struct(">qiibIhiqqqhii")
CONFIG_RECORD = 4


class Kept:
    """Stands for the Recording."""

    def __init__(self) -> None:
        self.rows: list[tuple[Observation, bool]] = []
        self.unseen: Counter[tuple[str, str, str]] = Counter()

    def add(self, row: Observation, *, urgent: bool) -> None:
        self.rows.append((row, urgent))

    @property
    def urgencies(self) -> list[bool]:
        return [urgent for _, urgent in self.rows]


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def rows(kept: Kept) -> Rows:
    ticks = iter(range(1_000, 2_000))
    where = Whereabouts(configured=(), cluster_id=None)
    return Rows("a", kept, where, clock=lambda: next(ticks))  # type: ignore[arg-type]


def batch(record: bytes, *, base: int = 0) -> bytes:
    header = _HEADER.pack(base, 49 + len(record), 1, 2, 0, 0, 0, 5, 5, -1, -1, -1, 1)
    whole = bytearray(header + record)
    whole[17:21] = crc32c(bytes(whole[21:])).to_bytes(4, "big")
    return bytes(whole)


def config_record(value: str) -> bytes:
    """ConfigRecord: broker 1, `my.custom.password`."""
    name = b"my.custom.password"
    body = b"\x02" + bytes([2]) + b"1" + bytes([len(name) + 1]) + name + bytes([len(value) + 1]) + value.encode()
    said = bytes([1, CONFIG_RECORD, 0]) + body[:0] + b"\x04" + body[1:] + b"\0"
    inside = b"\0\0\0\x01" + bytes([len(said) * 2 & 0x7F | 0x80, len(said) * 2 >> 7]) + said + b"\0"
    length = len(inside) * 2
    return bytes([length & 0x7F | 0x80, length >> 7]) + inside


def release(batches: bytes, *, base: int = 0) -> Release:
    return Release(base_offset=base, last_offset=base, leader_epoch=1, high_watermark=base + 1, batches=batches)


def polled(*, lag: int = 0, leader: int = 1) -> QuorumPolled:
    replica = Replica(
        key=ReplicaKey(id=NodeId(1)), log_end_offset=Offset(100 - lag), last_fetch_ms=None, last_caught_up_ms=None
    )
    return QuorumPolled(
        cluster_id=None,
        endpoint="c1:9093",
        leader_id=NodeId(leader),
        leader_epoch=Epoch(1),
        high_watermark=Offset(100),
        voters=(replica,),
        observers=(),
        nodes=(),
    )


def unseen(reason: Reason, *, sight: ObservationSource = ObservationSource.QUORUM) -> ObservationFailed:
    return ObservationFailed(sight=sight, endpoint="c1:9093", reason=reason, detail="")


def test_another_word_on_who_leads_is_urgent_and_the_same_again_is_not(rows: Rows, kept: Kept) -> None:
    def said(epoch: int, node: int = 1) -> LeaderViewPolled:
        return LeaderViewPolled(
            endpoint=f"c{node}:9093",
            node=NodeId(node),
            this_cluster=True,
            leader_id=NodeId(1),
            leader_epoch=Epoch(epoch),
            log=None,
        )

    for view in (said(1), said(1), said(1, node=2), said(2), said(2)):
        rows.viewed(view)

    assert kept.urgencies == [True, False, True, True, False]
    assert {row.kind for row, _ in kept.rows} == {Kind.VIEW}
    assert from_json(kept.rows[3][0].payload) == said(2)


def test_credentials_are_blanked_and_nothing_else(rows: Rows, kept: Kept) -> None:
    batches = batch(config_record("planted")) + batch(NOOP, base=1)
    rows.release(release(batches))
    rows.piece(SnapshotId(end_offset=9, epoch=2), 0, batches)

    for row, _ in kept.rows:
        assert b"planted" not in row.payload
        assert b"my.custom.password" in row.payload
        assert len(row.payload) == len(batches)
        assert row.payload.endswith(batch(NOOP, base=1))


def test_noops_can_wait_and_records_cannot(rows: Rows, kept: Kept) -> None:
    rows.release(release(batch(NOOP)))
    rows.release(release(b""))
    rows.release(release(batch(config_record("x"))))
    assert kept.urgencies == [False, False, True]


def test_a_poll_is_urgent_when_leader_or_members_change_and_not_for_progress(rows: Rows, kept: Kept) -> None:
    for poll in (polled(), polled(lag=5), polled(leader=2), polled(leader=2)):
        rows.polled(poll)
    assert kept.urgencies == [True, False, True, False]


def test_a_failure_is_urgent_when_its_reason_is_new(rows: Rows, kept: Kept) -> None:
    for event in (unseen(Reason.REFUSED), unseen(Reason.REFUSED), unseen(Reason.NO_LEADER)):
        rows.unseen(event)
    rows.polled(polled())
    rows.unseen(unseen(Reason.NO_LEADER))
    assert kept.urgencies == [True, False, True, True, True]


def test_a_probe_is_urgent_when_it_shows_something_else(rows: Rows, kept: Kept) -> None:
    probe = EndpointProbed(
        node=NodeId(1),
        endpoint=Endpoint(listener="CONTROLLER", host="c1", port=9093),
        resolution=Resolution.RESOLVED,
        addresses=("10.0.0.1", "10.0.0.2"),
        connection=Connection.ACCEPTED,
        answer=Answer.THIS_CLUSTER,
        answered_by=None,
        detail="",
    )
    turned = dataclasses.replace(probe, addresses=("10.0.0.2", "10.0.0.1"))
    refused = dataclasses.replace(probe, connection=Connection.REFUSED)
    for event in (probe, turned, refused):
        rows.probed(event)
    assert kept.urgencies == [True, False, True]


def test_the_clock_of_a_cluster_never_goes_back(kept: Kept) -> None:
    ticks = iter([100, 90, 110, 105])
    where = Whereabouts(configured=(), cluster_id=None)
    rows = Rows("a", kept, where, not_before_ms=95, clock=lambda: next(ticks))  # type: ignore[arg-type]
    for _ in range(4):
        rows.unseen(unseen(Reason.REFUSED))
    assert [row.observed_at_ms for row, _ in kept.rows] == [100, 100, 110, 110]


@pytest.mark.parametrize("not_before_ms", [0, 3_600_000])
def test_a_clock_that_was_set_back_does_not_stop_time(kept: Kept, not_before_ms: int) -> None:
    """It ran an hour ahead, perhaps before a restart: holds run on all the same, and the two come together again."""
    readings = [*range(3_600_000, 3_610_000, 1_000), *range(10_000, 70_000, 4)]
    ticks = iter(readings[10:] if not_before_ms else readings)
    where = Whereabouts(configured=(), cluster_id=None)
    rows = Rows("a", kept, where, not_before_ms=not_before_ms, clock=lambda: next(ticks))  # type: ignore[arg-type]
    for _ in range(15_000):
        rows.unseen(unseen(Reason.REFUSED))
    times = [row.observed_at_ms for row, _ in kept.rows]
    assert times == sorted(times)
    assert 45_000 <= times[-1] - 3_609_000 * (not not_before_ms) - not_before_ms <= 60_000


def test_a_row_carries_where_it_is_in_the_log(rows: Rows, kept: Kept) -> None:
    rows.release(release(batch(NOOP, base=7), base=7))
    rows.piece(SnapshotId(end_offset=9, epoch=2), 3, batch(NOOP))
    rows.unseen(unseen(Reason.DENIED))
    records, piece, failure = (row for row, _ in kept.rows)

    assert (records.kind, records.base_offset, records.last_offset) == (Kind.RECORDS, 7, 7)
    assert (records.leader_epoch, records.high_watermark) == (1, 8)
    assert (piece.kind, piece.base_offset, piece.last_offset, piece.leader_epoch) == (Kind.SNAPSHOT, 9, 3, 2)
    assert from_json(failure.payload) == unseen(Reason.DENIED)


def test_looks_that_failed_are_counted_by_what_was_to_be_seen_and_why_not(rows: Rows, kept: Kept) -> None:
    for event in (unseen(Reason.REFUSED), unseen(Reason.REFUSED), unseen(Reason.DENIED, sight=ObservationSource.LOG)):
        rows.unseen(event)

    assert kept.unseen == {("a", "quorum", "refused"): 2, ("a", "log", "denied"): 1}
