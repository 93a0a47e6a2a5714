"""CommitBuffer against a simulated leader: for all elections and response sizes, the committed records that it returns
are the committed log, as whole batches, each once and in order."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.errors import DamagedLogError, ObservationError
from connectors.gather import commit_buffer
from connectors.gather.commit_buffer import (
    LOSS_CONFIRM_MS,
    AcceptResult,
    CommitBuffer,
    CommittedRecords,
    FetchPosition,
    SnapshotBuffer,
)
from connectors.gather.fetched_batches import Damage
from connectors.kafka.messages import FetchResult
from rules.model.history import REBUILT_EPOCHS
from rules.model.identifiers import Epoch, NodeId, Offset, SnapshotId
from rules.model.monitoring import DamagedBatch, Reason
from tests.unit.connectors.gather.log_bytes import batch, torn_batch
from tests.unit.connectors.observation_failure import failure_of

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
    return FetchResult(error=0, leader_id=NodeId(1), leader_epoch=Epoch(epoch), leader=None, **more)


def fetch(buffer: CommitBuffer, leader: Leader, *, max_batches: int = 100, now_ms: int = 0) -> AcceptResult:
    answer = leader.respond(buffer.next_offset, buffer.last_epoch, max_batches=max_batches)
    return buffer.accept(answer, now_ms=now_ms)


def read(buffer: CommitBuffer, leader: Leader) -> CommittedRecords:
    return committed_of(fetch(buffer, leader))


def committed_of(result: AcceptResult) -> CommittedRecords:
    assert result.committed is not None
    return result.committed


def offsets(records: CommittedRecords) -> tuple[int, int]:
    return records.base_offset, records.last_offset


def refusal(step: Callable[[], object]) -> str:
    """Returns why a response that Kafka does not send is refused."""
    problem = failure_of(step)
    assert problem.reason is Reason.INVALID_RESPONSE
    return problem.detail


def leader_of(*counts: int, high_watermark: int = 0, epoch: int = 1) -> Leader:
    """A leader with batches of so many records."""
    leader = Leader(epoch=epoch)
    for count in counts:
        leader.append(count)
    leader.high_watermark = high_watermark
    return leader


STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 4)),
    st.tuples(st.just("commit"), st.integers(0, 12)),
    st.tuples(st.just("elect"), st.integers(0, 60)),
    st.tuples(st.just("read"), st.integers(1, 3)),
)


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
                got = fetch(buffer, leader, max_batches=number).committed
                committed += got.batches if got else b""
                assert buffer.committed_end <= leader.high_watermark
                assert buffer.committed_end <= buffer.next_offset
    leader.high_watermark = leader.end
    for _ in range(len(leader.batches) + 3):
        got = fetch(buffer, leader).committed
        committed += got.batches if got else b""

    assert committed == b"".join(batch(base, count, epoch=epoch) for base, count, epoch in leader.batches)
    assert buffer.next_offset == buffer.committed_end


def test_committed_records_carry_their_offset_range() -> None:
    """The high watermark is inside the third batch."""
    leader, buffer = leader_of(2, 3, 2, high_watermark=6), CommitBuffer(START)

    got = read(buffer, leader)
    assert (*offsets(got), got.leader_epoch, got.high_watermark) == (0, 4, 1, 6)
    got = read(buffer, leader)
    assert (*offsets(got), got.batches) == (5, 4, b"")


def test_a_leader_that_does_not_know_its_high_watermark_yet_commits_nothing() -> None:
    buffer = CommitBuffer(START)
    answer = replace(leader_of(2, 3).respond(0, 0, max_batches=9), high_watermark=None)

    got = committed_of(buffer.accept(answer, now_ms=0))

    assert (got.batches, got.high_watermark, buffer.committed_end, buffer.next_offset) == (b"", None, 0, 5)


def test_election_truncates_uncommitted_records_without_a_loss_report() -> None:
    leader, buffer = leader_of(1, 5, 2, high_watermark=1), CommitBuffer(START)
    read(buffer, leader)
    assert buffer.next_offset == 8

    leader.elect(keep=1)
    result = fetch(buffer, leader)
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
    first = fetch(buffer, leader)
    assert (first.lost, first.pause) == (None, True)

    leader.append(1)
    leader.high_watermark = 5
    lost = fetch(buffer, leader, now_ms=100).lost or ""
    assert "offset 9 of epoch 1 was committed" in lost
    assert "epoch 1 ends at offset 4" in lost

    buffer.restart(START)
    assert offsets(read(buffer, leader)) == (0, 4)


def test_leader_with_an_older_epoch_is_fetched_from_offset_0_and_reported_when_it_commits() -> None:
    leader, buffer = leader_of(10, high_watermark=10, epoch=7), CommitBuffer(START)
    read(buffer, leader)
    restored = Leader(epoch=3, batches=[(0, 4, 2)], high_watermark=4)

    assert buffer.fetch_position(7) == FetchPosition(offset=10, epoch=7)
    assert buffer.fetch_position(3) == FetchPosition(offset=0, epoch=0)
    assert buffer.accept(restored.respond(0, 0, max_batches=1), now_ms=0).lost is None
    restored.append(1)
    restored.high_watermark = 5
    lost = buffer.accept(restored.respond(0, 0, max_batches=1), now_ms=1).lost or ""
    assert "the leader of epoch 3 does not know that epoch" in lost


def test_loss_is_reported_after_the_confirmation_time_if_the_leader_commits_nothing() -> None:
    leader, buffer = Leader(), CommitBuffer(START)
    restore_older_log(leader, buffer, at=4)
    times_ms = (0, LOSS_CONFIRM_MS - 1, LOSS_CONFIRM_MS)
    assert [fetch(buffer, leader, now_ms=at).lost is not None for at in times_ms] == [False, False, True]


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
    got = committed_of(buffer.accept(fetched(epoch=1, high_watermark=7, records=records), now_ms=0))
    assert (*offsets(got), got.batches) == (3, 6, records)


def test_fetch_continues_after_the_newest_of_several_uncommitted_batches_with_its_epoch() -> None:
    buffer = CommitBuffer(START)
    records = batch(0, 2, epoch=1) + batch(2, 3, epoch=2)
    buffer.accept(fetched(epoch=2, high_watermark=0, records=records), now_ms=0)
    assert buffer.fetch_position(2) == FetchPosition(offset=5, epoch=2)


@pytest.mark.parametrize("committed_end", [50, 500])
def test_snapshot_of_another_epoch_that_ends_at_or_below_the_committed_offset_is_a_loss(committed_end: int) -> None:
    buffer = CommitBuffer(FetchPosition(offset=committed_end, epoch=1))
    answer = fetched(epoch=2, snapshot=SnapshotId(end_offset=50, epoch=2))
    first = buffer.accept(answer, now_ms=0)
    assert (first.snapshot, first.pause) == (None, True)
    assert buffer.accept(answer, now_ms=LOSS_CONFIRM_MS).lost is not None


@pytest.mark.parametrize(("committed_end", "continues"), [(50, True), (51, False)])
def test_a_quorum_of_the_voters_that_were_left_continues_what_ends_where_it_begins(
    committed_end: int, continues: bool
) -> None:
    buffer = CommitBuffer(FetchPosition(offset=committed_end, epoch=1))
    snapshot = SnapshotId(end_offset=50, epoch=REBUILT_EPOCHS)
    assert (buffer.accept(fetched(epoch=1, snapshot=snapshot), now_ms=0).snapshot == snapshot) == continues


@pytest.mark.parametrize(("offset", "end_offset"), [(5, 50), (0, 50), (0, 0)])
def test_a_reader_before_the_start_of_the_log_is_sent_to_its_snapshot(offset: int, end_offset: int) -> None:
    """An empty reader also to the snapshot that a formatted directory begins with."""
    buffer = CommitBuffer(FetchPosition(offset=offset, epoch=1 if offset else 0))
    snapshot = SnapshotId(end_offset=end_offset, epoch=2)
    assert buffer.accept(fetched(epoch=2, snapshot=snapshot), now_ms=0) == AcceptResult(snapshot=snapshot)


def test_incomplete_last_batch_is_fetched_again() -> None:
    buffer = CommitBuffer(START)
    whole = leader_of(2, 2).respond(0, 0, max_batches=9).records
    buffer.accept(fetched(epoch=1, high_watermark=0, records=whole[:-1]), now_ms=0)
    assert buffer.next_offset == 2


def test_damaged_batch_is_returned_unchanged() -> None:
    buffer = CommitBuffer(START)
    damaged = bytearray(batch(0, 3, epoch=1))
    damaged[-1] ^= 1
    records = bytes(damaged) + batch(3, 1, epoch=1)
    result = buffer.accept(fetched(epoch=1, high_watermark=4, records=records), now_ms=0)
    got = committed_of(result)
    assert (got.last_offset, got.batches) == (3, records)
    assert result.damaged == (
        (
            "offsets 0 to 2: the CRC-32C does not match: the batch is damaged",
            DamagedBatch(offset=Offset(0), last_offset=Offset(2), epoch=Epoch(1)),
        ),
    )


@pytest.mark.parametrize("before", [False, True])
def test_a_damaged_batch_that_hides_where_the_next_begins_stops_the_reading_there(before: bool) -> None:
    """What was found before it in the same response is reported."""
    buffer = CommitBuffer(START)
    damaged = bytearray(batch(3, 3, epoch=1))
    damaged[8:12] = (5).to_bytes(4, "big")
    first = bytearray(batch(0, 3, epoch=1))
    first[-1] ^= 1
    if before:
        result = buffer.accept(fetched(epoch=1, high_watermark=6, records=bytes(first + damaged)), now_ms=0)
        assert committed_of(result).batches == first
        assert [damage.offset for _, damage in result.damaged] == [0]
    else:
        buffer.accept(fetched(epoch=1, high_watermark=3, records=bytes(first)), now_ms=0)
    with pytest.raises(DamagedLogError, match="the batch at offset 3: invalid batch length 5") as raised:
        buffer.accept(fetched(epoch=1, high_watermark=6, records=bytes(damaged)), now_ms=0)
    assert raised.value.damage == DamagedBatch(offset=Offset(3))
    assert buffer.next_offset == 3


def test_a_leader_that_serves_nothing_below_its_high_watermark_has_a_damaged_log() -> None:
    """It finds a batch by the headers before it."""
    buffer = CommitBuffer(FetchPosition(offset=3, epoch=1))
    with pytest.raises(DamagedLogError, match="nothing is served at offset 3, and the high watermark is 4") as raised:
        buffer.accept(fetched(epoch=1, high_watermark=4), now_ms=0)
    assert raised.value.damage == DamagedBatch(offset=Offset(3))
    assert buffer.accept(fetched(epoch=1, high_watermark=3), now_ms=0).damaged == ()


def test_of_many_damaged_batches_the_first_are_reported() -> None:
    records = bytearray()
    for offset in range(0, 100, 2):
        records += batch(offset, 1, epoch=1)
        records[-1] ^= 1
        records += batch(offset + 1, 1, epoch=1)
    result = CommitBuffer(START).accept(fetched(epoch=1, high_watermark=100, records=bytes(records)), now_ms=0)
    assert [damage.offset for _, damage in result.damaged] == [*range(0, 32, 2)]
    assert offsets(committed_of(result)) == (0, 99)


def test_a_damaged_batch_of_a_snapshot_is_named_by_its_place_in_the_file() -> None:
    first, damaged = batch(0, 3, epoch=1), bytearray(batch(3, 3, epoch=1))
    damaged[-1] ^= 1
    file = first + damaged
    buffer, half = SnapshotBuffer(SnapshotId(end_offset=6, epoch=1)), len(first) + 5
    buffer.receive(position=0, size=len(file), records=file[:half])
    assert buffer.damaged is None
    buffer.receive(position=half, size=len(file), records=bytes(file[half:]))
    assert damage_of(buffer) == (
        "snapshot 6-1: the CRC-32C does not match: the batch is damaged",
        DamagedBatch(snapshot=SnapshotId(end_offset=6, epoch=1), position=len(first)),
    )


def damage_of(buffer: SnapshotBuffer) -> Damage | None:
    return buffer.damaged


def test_buffer_above_its_size_limit_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_buffer, "BUFFER_BYTES_MAX", 200)
    buffer = CommitBuffer(START)
    assert fetch(buffer, leader_of(300)).pause
    assert (buffer.committed_end, buffer.next_offset) == (0, 0)


def test_records_that_were_committed_do_not_count_towards_the_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_buffer, "BUFFER_BYTES_MAX", 200)
    leader, buffer = Leader(), CommitBuffer(START)
    for end in range(1, 10):
        leader.append(1)
        leader.high_watermark = end
        result = fetch(buffer, leader)
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
    ],
    ids=lambda value: value[15:40] if isinstance(value, str) else "",
)
def test_snapshot_beyond_its_bounds_is_refused(pieces: list[tuple[int, bytes]], text: str) -> None:
    snapshot = SnapshotBuffer(SnapshotId(end_offset=99, epoch=3))
    *accepted, (size, records) = pieces
    for announced, piece in accepted:
        snapshot.receive(position=snapshot.position, size=announced, records=piece)
    detail = refusal(lambda: snapshot.receive(position=snapshot.position, size=size, records=records))
    assert detail.startswith(text), detail


@pytest.mark.parametrize(
    ("torn", "size", "why"),
    [
        (torn_batch(length=2**31 - 20), 10**9, "a batch of 2147483640 bytes, Kafka writes at most 16777216"),
        (torn_batch(length=2_000), 0, "the file of {size} bytes ends inside a batch"),
    ],
)
def test_a_length_that_cannot_be_is_damage_of_the_snapshot(torn: bytes, size: int, why: str) -> None:
    first = batch(0, 3, epoch=3)
    size = size or len(first) + len(torn)
    snapshot = SnapshotBuffer(SnapshotId(end_offset=99, epoch=3))

    for _ in range(2):
        with pytest.raises(DamagedLogError, match="snapshot 99-3: " + why.format(size=size)) as found:
            snapshot.receive(position=0, size=size, records=first + torn)
        assert found.value.damage == DamagedBatch(snapshot=snapshot.snapshot, position=len(first))
        assert snapshot.position == 0, "the piece is asked for again"


def test_piece_at_another_position_is_refused() -> None:
    with pytest.raises(ObservationError, match="a piece at byte 5, requested was byte 0"):
        SnapshotBuffer(SnapshotId(end_offset=99, epoch=3)).receive(position=5, size=100, records=b"x")


def test_a_snapshot_above_the_limit_is_refused() -> None:
    file = batch(0, 10, epoch=3)
    accepted = SnapshotBuffer(SnapshotId(end_offset=99, epoch=3), max_bytes=len(file))
    assert accepted.receive(position=0, size=len(file), records=file) == file
    refused = SnapshotBuffer(SnapshotId(end_offset=99, epoch=3), max_bytes=len(file) - 1)
    with pytest.raises(ObservationError, match="bytes are accepted"):
        refused.receive(position=0, size=len(file), records=file)


@pytest.mark.parametrize(
    ("records", "text"),
    [
        (torn_batch(length=2**31 - 20), "Fetch: a batch of 2147483640 bytes, at most 16777216"),
        (batch(0, 3, epoch=1)[:-1], "Fetch: the response ends inside its first batch"),
    ],
    ids=["first", "incomplete"],
)
def test_batch_that_can_never_arrive_is_refused_at_once(records: bytes, text: str) -> None:
    buffer = CommitBuffer(START)
    answer = fetched(epoch=1, high_watermark=1, records=records)
    detail = refusal(lambda: buffer.accept(answer, now_ms=0))
    assert detail.startswith(text), detail
    assert (buffer.next_offset, buffer.committed_end) == (0, 0), "the buffer is unchanged"


def test_diverging_answer_to_a_follower_without_records_is_refused_and_no_loss() -> None:
    buffer = CommitBuffer(START)
    diverging = fetched(epoch=3, diverging=SnapshotId(end_offset=0, epoch=0))
    for now_ms in (0, LOSS_CONFIRM_MS + 1):
        refusal(lambda now_ms=now_ms: buffer.accept(diverging, now_ms=now_ms))  # type: ignore[misc]
    assert read(buffer, leader_of(2, high_watermark=2)).last_offset == 1, "it recovers when the leader tells the truth"
