"""CommitBuffer against a simulated leader: for all elections and response sizes, the committed records that it returns
are the committed log, as whole batches, each once and in order."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.errors import ObservationError, UndecodableError
from connectors.gather import commit_buffer
from connectors.gather.commit_buffer import (
    LOSS_CONFIRM_MS,
    AcceptResult,
    CommitBuffer,
    CommittedRecords,
    FetchPosition,
    SnapshotBuffer,
)
from connectors.kafka.messages import FetchResult
from rules.model.identifiers import SnapshotId
from rules.model.monitoring import Reason
from tests.unit.connectors.gather.log_bytes import batch, torn_batch

START = FetchPosition(offset=0, epoch=0)


@dataclass
class Leader:
    """A leader's log; validates offsets as Kafka does (`KafkaMetadataLog.validateOffsetAndEpoch`)."""

    epoch: int = 1
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    """(base offset, count, epoch)."""
    high_watermark: int = 0

    @property
    def end(self) -> int:
        return self.batches[-1][0] + self.batches[-1][1] if self.batches else 0

    def append(self, count: int) -> None:
        self.batches.append((self.end, count, self.epoch))

    def elect(self, *, keep: int) -> None:
        """Elects a leader whose log lacks the uncommitted records at or above `keep`."""
        self.epoch += 1
        floor = max(keep, self.high_watermark)
        self.batches = [one for one in self.batches if one[0] + one[1] <= floor or one[0] < self.high_watermark]
        self.append(1)

    def respond(self, offset: int, last_epoch: int, *, max_batches: int) -> FetchResult:
        diverging = self._diverging(offset, last_epoch)
        batches = [one for one in self.batches if one[0] + one[1] > offset][:max_batches]
        records = b"".join(batch(base, count, epoch=epoch) for base, count, epoch in batches)
        return fetched(
            epoch=self.epoch,
            high_watermark=self.high_watermark,
            diverging=diverging,
            records=b"" if diverging else records,
        )

    def _diverging(self, offset: int, last_epoch: int) -> SnapshotId | None:
        if offset == 0 and last_epoch == 0:
            return None
        ends = [SnapshotId(end_offset=0, epoch=0)]
        ends += [SnapshotId(end_offset=base + count, epoch=epoch) for base, count, epoch in self.batches]
        of_epoch = max((one for one in ends if one.epoch <= last_epoch), key=lambda one: (one.epoch, one.end_offset))
        return None if of_epoch.epoch == last_epoch and of_epoch.end_offset >= offset else of_epoch


def fetched(*, epoch: int, **more: Any) -> FetchResult:
    """A response of the leader of this epoch."""
    return FetchResult(error=0, leader_id=1, leader_epoch=epoch, leader=None, **more)


def read(buffer: CommitBuffer, leader: Leader, *, max_batches: int = 100, now_ms: int = 0) -> CommittedRecords | None:
    answer = leader.respond(buffer.next_offset, buffer.last_epoch, max_batches=max_batches)
    return buffer.accept(answer, now_ms=now_ms).committed


STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 4)),
    st.tuples(st.just("commit"), st.integers(0, 12)),
    st.tuples(st.just("elect"), st.integers(0, 60)),
    st.tuples(st.just("read"), st.integers(1, 3)),
)


@pytest.mark.kip("D072", "D073", "D079", "D080")
@given(st.lists(STEPS, max_size=60))
def test_returned_records_are_the_committed_log_each_batch_once_in_order(steps: list[tuple[str, int]]) -> None:
    leader, buffer, committed = Leader(), CommitBuffer(START), b""
    for step, number in steps:
        match step:
            case "append":
                leader.append(number)
            case "commit":
                # The high watermark may lie inside a batch.
                leader.high_watermark = min(leader.end, leader.high_watermark + number)
            case "elect":
                leader.elect(keep=number)
            case _:
                got = read(buffer, leader, max_batches=number)
                committed += got.batches if got else b""
                assert buffer.committed_end <= leader.high_watermark
                assert buffer.committed_end <= buffer.next_offset
    leader.high_watermark = leader.end
    for _ in range(len(leader.batches) + 3):
        got = read(buffer, leader)
        committed += got.batches if got else b""

    assert committed == b"".join(batch(base, count, epoch=epoch) for base, count, epoch in leader.batches)
    assert buffer.next_offset == buffer.committed_end


def test_committed_records_carry_their_offset_range() -> None:
    leader, buffer = Leader(), CommitBuffer(START)
    for count in (2, 3, 1):
        leader.append(count)
    leader.high_watermark = 5

    got = read(buffer, leader)
    assert got is not None
    assert (got.base_offset, got.last_offset, got.leader_epoch, got.high_watermark) == (0, 4, 1, 5)

    got = read(buffer, leader)
    assert got is not None
    assert (got.base_offset, got.last_offset, got.batches) == (5, 4, b"")


@pytest.mark.kip("D073", "D077")
def test_election_truncates_uncommitted_records_without_a_loss_report() -> None:
    leader, buffer = Leader(), CommitBuffer(START)
    leader.append(1)
    leader.high_watermark = 1
    leader.append(5)
    read(buffer, leader)
    assert buffer.next_offset == 6

    leader.elect(keep=1)
    result = buffer.accept(leader.respond(buffer.next_offset, buffer.last_epoch, max_batches=9), now_ms=0)
    assert (result.lost, result.pause) == (None, False), "the committed part is fetched from at once"
    assert (buffer.next_offset, buffer.last_epoch) == (1, 1)


def restore_older_log(leader: Leader, buffer: CommitBuffer, *, at: int) -> None:
    """Restores the leader's log from an older copy that ends below the committed offset."""
    leader.append(10)
    leader.high_watermark = 10
    read(buffer, leader)
    leader.epoch, leader.batches, leader.high_watermark = 3, [(0, at, 1)], at


def test_loss_is_reported_when_a_committing_leader_lacks_committed_records() -> None:
    leader, buffer = Leader(), CommitBuffer(START)
    restore_older_log(leader, buffer, at=4)
    first = buffer.accept(leader.respond(buffer.next_offset, buffer.last_epoch, max_batches=9), now_ms=0)
    assert (first.lost, first.pause) == (None, True)

    leader.append(1)
    leader.high_watermark = 5
    second = buffer.accept(leader.respond(buffer.next_offset, buffer.last_epoch, max_batches=9), now_ms=100)
    assert second.lost is not None
    assert "offset 9 of epoch 1 was committed" in second.lost
    assert "epoch 1 ends at offset 4" in second.lost

    buffer.restart(START)
    got = read(buffer, leader)
    assert got is not None
    assert (got.base_offset, got.last_offset) == (0, 4)


def test_leader_with_an_older_epoch_is_fetched_from_offset_0_and_reported_when_it_commits() -> None:
    leader, buffer = Leader(epoch=7), CommitBuffer(START)
    leader.append(10)
    leader.high_watermark = 10
    read(buffer, leader)
    restored = Leader(epoch=3, batches=[(0, 4, 2)], high_watermark=4)

    assert buffer.fetch_position(7) == FetchPosition(offset=10, epoch=7)
    assert buffer.fetch_position(3) == FetchPosition(offset=0, epoch=0)
    assert buffer.accept(restored.respond(0, 0, max_batches=1), now_ms=0).lost is None
    restored.append(1)
    restored.high_watermark = 5
    lost = buffer.accept(restored.respond(0, 0, max_batches=1), now_ms=1).lost
    assert lost is not None
    assert "the leader of epoch 3 does not know that epoch" in lost


def test_loss_is_reported_after_the_confirmation_time_if_the_leader_commits_nothing() -> None:
    leader, buffer = Leader(), CommitBuffer(START)
    restore_older_log(leader, buffer, at=4)
    answer = leader.respond(buffer.next_offset, buffer.last_epoch, max_batches=9)

    assert buffer.accept(answer, now_ms=0).lost is None
    assert buffer.accept(answer, now_ms=LOSS_CONFIRM_MS - 1).lost is None
    assert buffer.accept(answer, now_ms=LOSS_CONFIRM_MS).lost is not None


@pytest.mark.kip("D043")
def test_mismatch_of_a_partitioned_leader_is_dropped_when_the_current_leader_answers() -> None:
    leader, buffer = Leader(), CommitBuffer(START)
    restore_older_log(leader, buffer, at=4)
    assert buffer.accept(leader.respond(10, 1, max_batches=9), now_ms=0).lost is None
    current = Leader(epoch=2, batches=[(0, 10, 1), (10, 1, 2)], high_watermark=11)
    assert buffer.accept(current.respond(10, 1, max_batches=9), now_ms=1).committed is not None
    assert buffer.accept(leader.respond(11, 2, max_batches=9), now_ms=LOSS_CONFIRM_MS + 1).lost is None


def test_batch_around_the_position_is_returned_whole_with_its_own_base_offset() -> None:
    """A snapshot may end inside a batch of the log."""
    buffer = CommitBuffer(FetchPosition(offset=5, epoch=1))
    records = batch(3, 4, epoch=1)
    answer = fetched(epoch=1, high_watermark=7, records=records)
    got = buffer.accept(answer, now_ms=0).committed
    assert got is not None
    assert (got.base_offset, got.last_offset, got.batches) == (3, 6, records)


@pytest.mark.kip("D071")
def test_fetch_continues_after_the_newest_of_several_uncommitted_batches_with_its_epoch() -> None:
    buffer = CommitBuffer(START)
    records = batch(0, 2, epoch=1) + batch(2, 1, epoch=2)
    answer = fetched(epoch=2, high_watermark=0, records=records)
    buffer.accept(answer, now_ms=0)
    assert buffer.fetch_position(2) == FetchPosition(offset=3, epoch=2)


def test_snapshot_that_ends_where_the_log_was_read_to_in_another_epoch_is_a_loss() -> None:
    buffer = CommitBuffer(FetchPosition(offset=50, epoch=1))
    answer = fetched(epoch=2, snapshot=SnapshotId(end_offset=50, epoch=2))
    first = buffer.accept(answer, now_ms=0)
    assert (first.snapshot, first.pause) == (None, True)
    assert buffer.accept(answer, now_ms=LOSS_CONFIRM_MS).lost is not None


@pytest.mark.kip("D121")
def test_snapshot_is_requested_when_the_log_starts_after_the_position() -> None:
    buffer = CommitBuffer(FetchPosition(offset=5, epoch=1))
    answer = fetched(epoch=2, snapshot=SnapshotId(end_offset=50, epoch=2))
    assert buffer.accept(answer, now_ms=0).snapshot == SnapshotId(end_offset=50, epoch=2)
    assert buffer.accept(answer, now_ms=0).lost is None


def test_snapshot_that_ends_below_the_committed_offset_is_a_loss() -> None:
    buffer = CommitBuffer(FetchPosition(offset=500, epoch=1))
    answer = fetched(epoch=2, snapshot=SnapshotId(end_offset=50, epoch=2))
    assert buffer.accept(answer, now_ms=0).pause
    assert buffer.accept(answer, now_ms=LOSS_CONFIRM_MS).lost is not None


def test_incomplete_last_batch_is_fetched_again() -> None:
    leader, buffer = Leader(high_watermark=0), CommitBuffer(START)
    leader.append(2)
    leader.append(2)
    answer = leader.respond(0, 0, max_batches=9)
    torn = fetched(epoch=1, high_watermark=0, records=answer.records[:-1])
    buffer.accept(torn, now_ms=0)
    assert buffer.next_offset == 2


@pytest.mark.kip("K043")
def test_missing_offset_is_rejected() -> None:
    buffer = CommitBuffer(START)
    with_gap = batch(0, 1, epoch=1) + batch(2, 1, epoch=1)
    answer = fetched(epoch=1, high_watermark=3, records=with_gap)
    with pytest.raises(UndecodableError, match="offset 1 is missing"):
        buffer.accept(answer, now_ms=0)
    assert buffer.next_offset == 0


def test_damaged_batch_is_returned_unchanged() -> None:
    buffer = CommitBuffer(START)
    damaged = bytearray(batch(0, 3, epoch=1))
    damaged[-1] ^= 1
    records = bytes(damaged) + batch(3, 1, epoch=1)
    answer = fetched(epoch=1, high_watermark=4, records=records)
    got = buffer.accept(answer, now_ms=0).committed
    assert got is not None
    assert (got.last_offset, got.batches) == (3, records)


def test_buffer_above_its_size_limit_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_buffer, "BUFFER_BYTES_MAX", 200)
    leader, buffer = Leader(), CommitBuffer(START)
    leader.append(300)
    result = buffer.accept(leader.respond(0, 0, max_batches=9), now_ms=0)
    assert result.pause
    assert (buffer.committed_end, buffer.next_offset) == (0, 0)


def test_records_that_were_committed_do_not_count_towards_the_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_buffer, "BUFFER_BYTES_MAX", 200)
    leader, buffer = Leader(), CommitBuffer(START)
    for end in range(1, 10):
        leader.append(1)
        leader.high_watermark = end
        result = buffer.accept(leader.respond(end - 1, buffer.last_epoch, max_batches=1), now_ms=0)
        assert (result.pause, buffer.committed_end) == (False, end)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=12),
    st.lists(st.integers(0, 2_000), max_size=12),
)
def test_snapshot_pieces_end_with_whole_batches(counts: list[int], cuts: list[int]) -> None:
    file = b"".join(batch(at, count, epoch=3) for at, count in enumerate(counts))
    cut_positions = sorted({0, len(file), *(cut for cut in cuts if cut < len(file))})
    snapshot = SnapshotBuffer(SnapshotId(end_offset=99, epoch=3))
    pieces = []
    for start, end in pairwise(cut_positions):
        assert not snapshot.done
        assert snapshot.position == start
        piece = snapshot.receive(position=start, size=len(file), records=file[start:end])
        if piece:
            pieces.append(piece)
            assert snapshot.pieces == len(pieces)

    assert snapshot.done
    assert b"".join(pieces) == file
    whole = [batch(at, count, epoch=3) for at, count in enumerate(counts)]
    ends = {sum(map(len, whole[: at + 1])) for at in range(len(whole))}
    total = 0
    for piece in pieces:
        total += len(piece)
        assert total in ends


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([(2**40, b"x")], "FetchSnapshot: size is 1099511627776, at most 4294967296 bytes are accepted"),
        ([(10_000, b"")], "FetchSnapshot: no bytes at 0 of 10000"),
        ([(10_000, batch(0, 10, epoch=3)), (10_001, b"x")], "FetchSnapshot: the size changed from 10000 to 10001"),
        ([(100, bytes(101))], "FetchSnapshot: 101 bytes at 0 of 100"),
        ([(10**9, torn_batch(length=2**31 - 20))], "FetchSnapshot: a batch of 2147483640 bytes, at most 16777216"),
        ([(100, torn_batch(length=2_000))], "FetchSnapshot: the snapshot of 100 bytes ends inside a batch"),
    ],
    ids=lambda value: value[15:40] if isinstance(value, str) else "",
)
def test_snapshot_beyond_its_bounds_is_refused(pieces: list[tuple[int, bytes]], text: str) -> None:
    snapshot = SnapshotBuffer(SnapshotId(end_offset=99, epoch=3))
    with pytest.raises(ObservationError) as problem:
        for size, records in pieces:
            snapshot.receive(position=snapshot.position, size=size, records=records)
    assert problem.value.reason is Reason.INVALID_RESPONSE
    assert problem.value.detail.startswith(text), problem.value.detail


def test_piece_at_another_position_is_refused() -> None:
    with pytest.raises(ObservationError, match="a piece at byte 5, requested was byte 0"):
        SnapshotBuffer(SnapshotId(end_offset=99, epoch=3)).receive(position=5, size=100, records=b"x")


def test_configured_snapshot_size_is_the_limit() -> None:
    file = batch(0, 10, epoch=3)
    accepted = SnapshotBuffer(SnapshotId(end_offset=99, epoch=3), max_bytes=len(file))
    assert accepted.receive(position=0, size=len(file), records=file) == file
    refused = SnapshotBuffer(SnapshotId(end_offset=99, epoch=3), max_bytes=len(file) - 1)
    with pytest.raises(ObservationError, match="max_snapshot_bytes"):
        refused.receive(position=0, size=len(file), records=file)


@pytest.mark.parametrize(
    ("records", "text"),
    [
        (torn_batch(length=2**31 - 20), "Fetch: a batch of 2147483640 bytes, at most 16777216"),
        (batch(0, 1, epoch=1) + torn_batch(length=2**31 - 20), "Fetch: a batch of 2147483640 bytes, at most 16777216"),
        (batch(0, 3, epoch=1)[:-1], "Fetch: the response ends inside its first batch"),
    ],
    ids=["first", "second", "incomplete"],
)
def test_batch_that_can_never_arrive_is_refused_at_once(records: bytes, text: str) -> None:
    buffer = CommitBuffer(START)
    answer = fetched(epoch=1, high_watermark=1, records=records)
    with pytest.raises(ObservationError) as problem:
        buffer.accept(answer, now_ms=0)
    assert problem.value.reason is Reason.INVALID_RESPONSE
    assert problem.value.detail.startswith(text), problem.value.detail
    assert (buffer.next_offset, buffer.committed_end) == (0, 0), "the buffer is unchanged"


def test_diverging_answer_to_a_follower_without_records_is_refused_and_no_loss() -> None:
    buffer = CommitBuffer(START)
    diverging = fetched(epoch=3, diverging=SnapshotId(end_offset=0, epoch=0))
    for now_ms in (0, LOSS_CONFIRM_MS + 1):
        with pytest.raises(ObservationError) as problem:
            buffer.accept(diverging, now_ms=now_ms)
        assert problem.value.reason is Reason.INVALID_RESPONSE
    leader = Leader()
    leader.append(2)
    leader.high_watermark = 2
    committed = read(buffer, leader)
    assert committed is not None
    assert committed.last_offset == 1, "it recovers when the leader tells the truth"


@pytest.mark.kip("D081")
def test_an_empty_reader_is_sent_to_any_snapshot() -> None:
    """Also to the one that a formatted directory begins with."""
    for snapshot in (SnapshotId(end_offset=0, epoch=0), SnapshotId(end_offset=50, epoch=2)):
        tail = CommitBuffer(START)
        answer = fetched(epoch=2, snapshot=snapshot)
        assert tail.accept(answer, now_ms=0) == AcceptResult(snapshot=snapshot)
