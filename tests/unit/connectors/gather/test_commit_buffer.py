"""The tail against a simulated leader: whatever elections cut and however answers are sliced, what is released
is the committed log, whole batches, each once, in order."""

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.errors import UndecodableError
from connectors.gather import commit_buffer as tail_module
from connectors.gather.commit_buffer import CONFIRM_MS, Release, Resume, SnapshotTail, Tail
from connectors.kafka.messages import FetchAnswer, SnapshotId
from tests.unit.connectors.gather.log_bytes import batch

START = Resume(offset=0, epoch=0)


@dataclass
class Leader:
    """A leader's log by Kafka's rules (`KafkaMetadataLog.validateOffsetAndEpoch`)."""

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
        """A new leader whose log lacks what is at or above `keep`, but nothing committed."""
        self.epoch += 1
        floor = max(keep, self.high_watermark)
        self.batches = [one for one in self.batches if one[0] + one[1] <= floor or one[0] < self.high_watermark]
        self.append(1)

    def answer(self, offset: int, last_epoch: int, *, most: int) -> FetchAnswer:
        diverging = self._diverging(offset, last_epoch)
        wanted = [one for one in self.batches if one[0] + one[1] > offset][:most]
        records = b"".join(batch(base, count, epoch=epoch) for base, count, epoch in wanted)
        return FetchAnswer(
            error=0,
            leader_id=1,
            leader_epoch=self.epoch,
            leader=None,
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


def read(tail: Tail, leader: Leader, *, most: int = 100, now_ms: int = 0) -> Release | None:
    answer = leader.answer(tail.next_offset, tail.last_epoch, most=most)
    return tail.accept(answer, now_ms=now_ms).release


STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 4)),
    st.tuples(st.just("commit"), st.integers(0, 12)),
    st.tuples(st.just("elect"), st.integers(0, 60)),
    st.tuples(st.just("read"), st.integers(1, 3)),
)


@pytest.mark.kip("D072", "D073", "D079", "D080")
@given(st.lists(STEPS, max_size=60))
def test_what_is_released_is_the_committed_log_each_batch_once_in_order(steps: list[tuple[str, int]]) -> None:
    leader, tail, released = Leader(), Tail(START), b""
    for step, number in steps:
        match step:
            case "append":
                leader.append(number)
            case "commit":
                # The high watermark may stand inside a batch.
                leader.high_watermark = min(leader.end, leader.high_watermark + number)
            case "elect":
                leader.elect(keep=number)
            case _:
                got = read(tail, leader, most=number)
                released += got.batches if got else b""
                assert tail.released <= leader.high_watermark
                assert tail.released <= tail.next_offset
    leader.high_watermark = leader.end
    for _ in range(len(leader.batches) + 3):
        got = read(tail, leader)
        released += got.batches if got else b""

    assert released == b"".join(batch(base, count, epoch=epoch) for base, count, epoch in leader.batches)
    assert tail.held_bytes == 0


def test_a_release_says_what_it_covers() -> None:
    leader, tail = Leader(), Tail(START)
    for count in (2, 3, 1):
        leader.append(count)
    leader.high_watermark = 5

    got = read(tail, leader)
    assert got is not None
    assert (got.base_offset, got.last_offset, got.leader_epoch, got.high_watermark) == (0, 4, 1, 5)

    got = read(tail, leader)
    assert got is not None
    assert (got.base_offset, got.last_offset, got.batches) == (5, 4, b"")


@pytest.mark.kip("D118")
def test_a_batch_that_straddles_the_high_watermark_waits_for_all_of_it() -> None:
    leader, tail = Leader(), Tail(START)
    leader.append(4)
    for watermark in (1, 2, 3):
        leader.high_watermark = watermark
        got = read(tail, leader)
        assert got is not None
        assert got.batches == b""
    leader.high_watermark = 4
    got = read(tail, leader)
    assert got is not None
    assert got.last_offset == 3


@pytest.mark.kip("D077")
def test_an_election_cuts_the_uncommitted_tail_without_a_word() -> None:
    leader, tail = Leader(), Tail(START)
    leader.append(1)
    leader.high_watermark = 1
    leader.append(5)
    read(tail, leader)
    assert tail.next_offset == 6

    leader.elect(keep=1)
    accepted = tail.accept(leader.answer(tail.next_offset, tail.last_epoch, most=9), now_ms=0)
    assert accepted.lost is None
    assert (tail.next_offset, tail.last_epoch) == (1, 1)


def lose(leader: Leader, tail: Tail, *, at: int) -> None:
    """The log is restored from an older copy, below what was committed and released."""
    leader.append(10)
    leader.high_watermark = 10
    read(tail, leader)
    leader.epoch, leader.batches, leader.high_watermark = 3, [(0, at, 1)], at


def test_committed_metadata_is_lost_when_a_leader_that_commits_denies_it() -> None:
    leader, tail = Leader(), Tail(START)
    lose(leader, tail, at=4)
    first = tail.accept(leader.answer(tail.next_offset, tail.last_epoch, most=9), now_ms=0)
    assert (first.lost, first.pause) == (None, True)

    leader.append(1)
    leader.high_watermark = 5
    second = tail.accept(leader.answer(tail.next_offset, tail.last_epoch, most=9), now_ms=100)
    assert second.lost is not None
    assert "offset 9 of epoch 1 was committed" in second.lost
    assert "epoch 1 ends at offset 4" in second.lost

    tail.restart(START)
    got = read(tail, leader)
    assert got is not None
    assert (got.base_offset, got.last_offset) == (0, 4)


def test_a_leader_of_an_epoch_before_ours_is_asked_for_its_beginning_and_convicted_by_its_progress() -> None:
    leader, tail = Leader(epoch=7), Tail(START)
    leader.append(10)
    leader.high_watermark = 10
    read(tail, leader)
    restored = Leader(epoch=3, batches=[(0, 4, 2)], high_watermark=4)

    assert tail.asks(7) == Resume(offset=10, epoch=7)
    assert tail.asks(3) == Resume(offset=0, epoch=0)
    assert tail.accept(restored.answer(0, 0, most=1), now_ms=0).lost is None
    restored.append(1)
    restored.high_watermark = 5
    lost = tail.accept(restored.answer(0, 0, most=1), now_ms=1).lost
    assert lost is not None
    assert "the leader of epoch 3 never heard of that epoch" in lost


def test_a_leader_that_commits_nothing_is_believed_only_after_a_while() -> None:
    leader, tail = Leader(), Tail(START)
    lose(leader, tail, at=4)
    answer = leader.answer(tail.next_offset, tail.last_epoch, most=9)

    assert tail.accept(answer, now_ms=0).lost is None
    assert tail.accept(answer, now_ms=CONFIRM_MS - 1).lost is None
    assert tail.accept(answer, now_ms=CONFIRM_MS).lost is not None


@pytest.mark.kip("D043")
def test_a_leader_cut_off_from_its_majority_is_forgotten_when_the_real_one_answers() -> None:
    leader, tail = Leader(), Tail(START)
    lose(leader, tail, at=4)
    assert tail.accept(leader.answer(10, 1, most=9), now_ms=0).lost is None
    real = Leader(epoch=2, batches=[(0, 10, 1), (10, 1, 2)], high_watermark=11)
    assert tail.accept(real.answer(10, 1, most=9), now_ms=1).release is not None
    assert tail.accept(leader.answer(11, 2, most=9), now_ms=CONFIRM_MS + 1).lost is None


@pytest.mark.kip("D121")
def test_a_snapshot_is_asked_for_when_the_log_no_longer_reaches_back() -> None:
    tail = Tail(Resume(offset=5, epoch=1))
    answer = FetchAnswer(error=0, leader_id=1, leader_epoch=2, leader=None, snapshot=SnapshotId(end_offset=50, epoch=2))
    assert tail.accept(answer, now_ms=0).snapshot == SnapshotId(end_offset=50, epoch=2)
    assert tail.accept(answer, now_ms=0).lost is None


def test_a_snapshot_that_ends_below_what_was_committed_is_a_loss() -> None:
    tail = Tail(Resume(offset=500, epoch=1))
    answer = FetchAnswer(error=0, leader_id=1, leader_epoch=2, leader=None, snapshot=SnapshotId(end_offset=50, epoch=2))
    assert tail.accept(answer, now_ms=0).pause
    assert tail.accept(answer, now_ms=CONFIRM_MS).lost is not None


def test_a_torn_last_batch_is_read_again() -> None:
    leader, tail = Leader(high_watermark=0), Tail(START)
    leader.append(2)
    leader.append(2)
    answer = leader.answer(0, 0, most=9)
    torn = FetchAnswer(error=0, leader_id=1, leader_epoch=1, leader=None, high_watermark=0, records=answer.records[:-1])
    tail.accept(torn, now_ms=0)
    assert tail.next_offset == 2


@pytest.mark.kip("K043")
def test_a_hole_in_the_log_is_refused() -> None:
    tail = Tail(START)
    hole = batch(0, 1, epoch=1) + batch(2, 1, epoch=1)
    answer = FetchAnswer(error=0, leader_id=1, leader_epoch=1, leader=None, high_watermark=3, records=hole)
    with pytest.raises(UndecodableError, match="offset 1 is missing"):
        tail.accept(answer, now_ms=0)
    assert tail.next_offset == 0


def test_a_damaged_batch_is_passed_on_for_decode_to_say_so() -> None:
    tail = Tail(START)
    damaged = bytearray(batch(0, 3, epoch=1))
    damaged[-1] ^= 1
    records = bytes(damaged) + batch(3, 1, epoch=1)
    answer = FetchAnswer(error=0, leader_id=1, leader_epoch=1, leader=None, high_watermark=4, records=records)
    got = tail.accept(answer, now_ms=0).release
    assert got is not None
    assert (got.last_offset, got.batches) == (3, records)


def test_a_tail_that_grows_without_bound_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "HELD_BYTES_MAX", 200)
    leader, tail = Leader(), Tail(START)
    leader.append(300)
    accepted = tail.accept(leader.answer(0, 0, most=9), now_ms=0)
    assert accepted.pause
    assert (tail.held_bytes, tail.next_offset) == (0, 0)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=12),
    st.lists(st.integers(0, 2_000), max_size=12),
)
def test_pieces_of_a_snapshot_end_with_batches_however_it_is_cut(counts: list[int], cuts: list[int]) -> None:
    file = b"".join(batch(at, count, epoch=3) for at, count in enumerate(counts))
    places = sorted({0, len(file), *(cut for cut in cuts if cut < len(file))})
    snapshot = SnapshotTail(SnapshotId(end_offset=99, epoch=3))
    pieces = []
    for start, end in pairwise(places):
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
    taken = 0
    for piece in pieces:
        taken += len(piece)
        assert taken in ends


@pytest.mark.parametrize(
    ("position", "size", "records"), [(5, 100, b"x"), (0, 100, b""), (0, 10, b"0123456789")], ids=str
)
def test_a_piece_that_does_not_fit_is_refused(position: int, size: int, records: bytes) -> None:
    snapshot = SnapshotTail(SnapshotId(end_offset=99, epoch=3))
    with pytest.raises(UndecodableError):
        snapshot.receive(position=position, size=size, records=records)
