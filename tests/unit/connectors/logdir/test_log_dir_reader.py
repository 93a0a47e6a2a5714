"""Reading a log directory: where it begins, where it ends, and what does not count."""

from pathlib import Path

import pytest

from connectors.logdir import log_dir_reader
from connectors.logdir.log_dir_files import PARTITION, open_files
from connectors.logdir.log_dir_reader import DamagedFile, LogContinues, LogDirItem, ReadStart, read_log_dir
from connectors.metadata.batches import RecordBatch, scan
from connectors.observation import Observation, ObservationKind
from connectors.point_in_time import AtOffset, AtTime, PointInTime
from rules.model.identifiers import Millis, Offset
from tests.unit.connectors.logdir.log_dirs import AT, noops, stopped_quorum, written


def everything(folder: Path, upto: PointInTime | None = None) -> list[LogDirItem]:
    with open_files(folder / PARTITION) as files:
        return [*read_log_dir(files, "a", upto)]


def ends(items: list[LogDirItem]) -> list[tuple[int | None, int | None]]:
    return [(item.base_offset, item.last_offset) for item in items if isinstance(item, Observation)]


def last(items: list[LogDirItem]) -> LogDirItem:
    return items[-1]


def test_segments_follow_each_other_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path, {0: noops(0, 6), 6: noops(6, 2)})
    monkeypatch.setattr(log_dir_reader, "PIECE_BYTES", 3 * len(noops(0, 1)))

    items = everything(folder)

    assert items[0] == ReadStart(snapshot=None, offset=0)
    assert ends(items) == [(0, 2), (3, 5), (6, 7)]
    observed = [item.observed_at_ms for item in items if isinstance(item, Observation)]
    assert observed == [AT + 2_000, AT + 5_000, AT + 7_000]


@pytest.mark.kip("E043")
def test_the_newest_snapshot_is_begun_with_and_the_log_behind_it_follows(tmp_path: Path) -> None:
    items = everything(stopped_quorum(tmp_path) / "node-2")

    assert items[0] == ReadStart(snapshot="00000000000000000037-0000000001.checkpoint", offset=37)
    snapshot, *log = [item for item in items if isinstance(item, Observation)]
    assert (snapshot.kind, snapshot.base_offset, snapshot.leader_epoch) == (ObservationKind.SNAPSHOT, 37, 1)
    assert ends([*log]) == [(37, 60)]


def test_a_damaged_snapshot_is_told_and_the_one_before_is_taken(tmp_path: Path) -> None:
    folder = stopped_quorum(tmp_path) / "node-2"
    damaged = folder / PARTITION / "00000000000000000037-0000000001.checkpoint"
    damaged.write_bytes(damaged.read_bytes()[:-20])

    first, second, *others = everything(folder)

    assert first == DamagedFile(file=damaged.name, position=1745, size=55, reason="the last batch is torn")
    assert second == ReadStart(snapshot="00000000000000000000-0000000000.checkpoint", offset=0)
    assert ends(others)[-1] == (0, 60)


def test_a_snapshot_without_its_footer_is_half_of_one(tmp_path: Path) -> None:
    """Each of its batches is whole: only the footer tells that none is missing behind them (KIP-630)."""
    folder = stopped_quorum(tmp_path) / "node-2"
    half = folder / PARTITION / "00000000000000000037-0000000001.checkpoint"
    content = half.read_bytes()
    *_, footer = (one for one in scan(content) if isinstance(one, RecordBatch))
    half.write_bytes(content[: footer.position])

    first, second, *_ = everything(folder)

    assert isinstance(first, DamagedFile)
    assert (first.file, first.reason) == (half.name, "the snapshot has no end")
    assert second == ReadStart(snapshot="00000000000000000000-0000000000.checkpoint", offset=0)


@pytest.mark.parametrize("torn", [8, 11, 12, 60, 61, -1])
def test_a_torn_tail_does_not_count(tmp_path: Path, torn: int) -> None:
    """A living writer's batch is there by halves, as after a power cut."""
    whole, more = noops(0, 3), noops(3, 1)
    folder = written(tmp_path, {0: whole + more[:torn]})

    items = everything(folder)

    assert ends(items) == [(0, 2)]
    size = len(more[:torn])
    assert last(items) == DamagedFile(
        file="00000000000000000000.log", position=len(whole), size=size, reason="the last batch is torn"
    )


def test_room_that_kafka_took_in_advance_is_no_damage(tmp_path: Path) -> None:
    items = everything(written(tmp_path, {0: noops(0, 3) + bytes(500)}))

    assert ends(items) == [(0, 2)]
    assert not any(isinstance(item, DamagedFile) for item in items)


def test_nothing_counts_behind_a_damaged_batch_nor_behind_a_segment_that_is_missing(tmp_path: Path) -> None:
    one = len(noops(0, 1))
    damaged = bytearray(noops(0, 5))
    damaged[3 * one + 30] ^= 1

    items = everything(written(tmp_path / "damaged", {0: bytes(damaged), 5: noops(5, 2)}))
    assert ends(items) == [(0, 2)]
    broken = last(items)
    assert isinstance(broken, DamagedFile)
    assert (broken.position, broken.size, "CRC" in broken.reason) == (3 * one, 2 * one, True)

    items = everything(written(tmp_path / "missing", {0: noops(0, 3), 5: noops(5, 2)}))
    assert ends(items) == [(0, 2)]
    assert last(items) == DamagedFile(
        file="00000000000000000005.log", position=0, size=2 * one, reason="offset 5 where 3 follows"
    )


def test_a_log_without_its_beginning_says_where_it_begins(tmp_path: Path) -> None:
    items = everything(written(tmp_path, {7: noops(7, 2)}))

    assert items[0] == ReadStart(snapshot=None, offset=7)
    assert ends(items) == [(7, 8)]


def test_an_empty_log_is_read(tmp_path: Path) -> None:
    assert everything(written(tmp_path, {0: b""})) == [ReadStart(snapshot=None, offset=0)]


def test_up_to_an_offset_and_what_comes_next(tmp_path: Path) -> None:
    items = everything(written(tmp_path, {0: noops(0, 6)}), AtOffset(offset=Offset(3)))

    assert ends(items) == [(0, 3)]
    assert last(items) == LogContinues(offset=4, timestamp_ms=AT + 4_000)


def test_up_to_a_time_with_the_records_of_that_very_millisecond(tmp_path: Path) -> None:
    folder = written(tmp_path, {0: noops(0, 6)})

    assert ends(everything(folder, AtTime(at_ms=Millis(AT + 2_000)))) == [(0, 2)]
    assert ends(everything(folder, AtTime(at_ms=Millis(AT + 1_999)))) == [(0, 1)]
    assert last(everything(folder, AtTime(at_ms=Millis(AT - 1)))) == LogContinues(offset=0, timestamp_ms=AT)


@pytest.mark.parametrize(("offset", "snapshot"), [(36, 37), (35, 0), (2, 0)])
def test_no_snapshot_of_later_is_begun_with(tmp_path: Path, offset: int, snapshot: int) -> None:
    items = everything(stopped_quorum(tmp_path) / "node-2", AtOffset(offset=Offset(offset)))

    begun = items[0]
    assert isinstance(begun, ReadStart)
    assert begun.offset == snapshot
