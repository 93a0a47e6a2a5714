"""Reading a log directory: where reading begins, where it ends, and what is ignored."""

import gzip
from pathlib import Path

import pytest

from connectors.logdir import log_dir_reader
from connectors.logdir.log_dir_files import PARTITION, open_files
from connectors.logdir.log_dir_reader import DamagedFile, LogContinues, LogDirItem, ReadStart, read_log_dir
from connectors.metadata.batches import RecordBatch, scan
from connectors.observations.observation import Observation, ObservationKind
from connectors.observations.point_in_time import AtOffset, AtTime, PointInTime
from rules.model.identifiers import Millis, Offset
from tests.unit.connectors.logdir.log_dirs import AT, noops, stopped_quorum, write_log_dir
from tests.unit.connectors.metadata.metadata_bytes import batch_of, noop, record


def read_all(folder: Path, upto: PointInTime | None = None) -> list[LogDirItem]:
    with open_files(folder / PARTITION) as files:
        return [*read_log_dir(files, "a", upto)]


def offset_ranges(items: list[LogDirItem]) -> list[tuple[int | None, int | None]]:
    return [(item.base_offset, item.last_offset) for item in items if isinstance(item, Observation)]


def test_segments_are_read_in_order_and_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_log_dir(tmp_path, {0: noops(0, 6), 6: noops(6, 2)})
    monkeypatch.setattr(log_dir_reader, "PIECE_BYTES", 3 * len(noops(0, 1)))

    items = read_all(folder)

    assert items[0] == ReadStart(snapshot=None, offset=0)
    assert offset_ranges(items) == [(0, 2), (3, 5), (6, 7)]
    observed = [item.observed_at_ms for item in items if isinstance(item, Observation)]
    assert observed == [AT + 2_000, AT + 5_000, AT + 7_000]


def test_reading_begins_with_the_newest_snapshot_and_continues_with_the_log_after_it(tmp_path: Path) -> None:
    items = read_all(stopped_quorum(tmp_path) / "node-2")

    assert items[0] == ReadStart(snapshot="00000000000000000037-0000000001.checkpoint", offset=37)
    snapshot, *log = [item for item in items if isinstance(item, Observation)]
    assert (snapshot.kind, snapshot.base_offset, snapshot.leader_epoch) == (ObservationKind.SNAPSHOT, 37, 1)
    assert offset_ranges([*log]) == [(37, 60)]

    log_file = tmp_path / "node-2" / PARTITION / "00000000000000000000.log"
    begin = next(one for one in scan(log_file.read_bytes()) if isinstance(one, RecordBatch) and one.base_offset >= 50)
    rolled = log_file.with_name(f"{begin.base_offset:020d}.log")
    rolled.write_bytes(log_file.read_bytes()[begin.position :])
    log_file.write_bytes(log_file.read_bytes()[: begin.position])
    _, _, *of_two = read_all(tmp_path / "node-2")
    assert offset_ranges(of_two) == [(37, begin.base_offset - 1), (begin.base_offset, 60)], "of two segments"


def test_a_damaged_snapshot_is_reported_and_the_one_before_is_used(tmp_path: Path) -> None:
    folder = stopped_quorum(tmp_path) / "node-2"
    damaged = folder / PARTITION / "00000000000000000037-0000000001.checkpoint"
    damaged.write_bytes(damaged.read_bytes()[:-20])

    first, second, *others = read_all(folder)

    assert first == DamagedFile(file=damaged.name, position=1745, size=55, reason="the last batch is torn")
    assert second == ReadStart(snapshot="00000000000000000000-0000000000.checkpoint", offset=0)
    assert offset_ranges(others)[-1] == (0, 60)


def test_a_snapshot_without_its_footer_is_reported_as_damaged(tmp_path: Path) -> None:
    """Each of its batches is whole: only the footer shows that none is missing after them (KIP-630)."""
    folder = stopped_quorum(tmp_path) / "node-2"
    half = folder / PARTITION / "00000000000000000037-0000000001.checkpoint"
    content = half.read_bytes()
    *_, footer = (one for one in scan(content) if isinstance(one, RecordBatch))
    half.write_bytes(content[: footer.position])

    first, second, *_ = read_all(folder)

    assert isinstance(first, DamagedFile)
    assert (first.file, first.reason) == (half.name, "the snapshot has no footer")
    assert second == ReadStart(snapshot="00000000000000000000-0000000000.checkpoint", offset=0)


ONE = len(noops(0, 1))
DAMAGED = noops(0, 3) + bytes((*noops(3, 1)[:-1], noops(3, 1)[-1] ^ 1)) + noops(4, 1)
COMPRESSED = batch_of(gzip.compress(record(noop(), 0)), 1, base_offset=3, attributes=1)
GZIP = "compressed with gzip, which KRaft never writes: not read"
NO_LENGTH = "invalid batch length 0: the rest is skipped"
CRC = "the CRC-32C does not match: the batch is damaged"


@pytest.mark.parametrize(
    ("segments", "file", "position", "size", "reason", "undamaged", "resumes_at"),
    [
        # The last batch is half written, by a running Kafka or because of a power failure.
        *(
            ({0: noops(0, 3) + noops(3, 1)[:size]}, 0, 3 * ONE, size, "the last batch is torn", False, None)
            for size in (8, 11, 12, 60, 61, ONE - 1)
        ),
        ({0: DAMAGED, 5: noops(5, 2)}, 0, 3 * ONE, 2 * ONE, CRC, False, 4),
        ({0: noops(0, 3), 5: noops(5, 2)}, 5, 0, 2 * ONE, "base offset 5, expected 3", True, 5),
        ({0: noops(0, 3) + COMPRESSED}, 0, 3 * ONE, len(COMPRESSED), GZIP, True, None),
        ({0: noops(0, 3) + COMPRESSED + noops(4, 2)}, 0, 3 * ONE, len(COMPRESSED) + 2 * ONE, GZIP, True, None),
        ({0: noops(0, 3) + bytes(ONE) + noops(4, 2)}, 0, 3 * ONE, 3 * ONE, NO_LENGTH, False, 4),
        ({0: noops(0, 3) + bytes(8) + noops(3, 3)[8:]}, 0, 3 * ONE, 3 * ONE, "base offset 0, expected 3", True, 4),
        ({0: noops(0, 3) + noops(3, 1)[:-1], 4: noops(4, 2)}, 0, 3 * ONE, ONE - 1, "the last batch is torn", False, 4),
    ],
)
def test_everything_after_a_torn_damaged_or_compressed_batch_or_a_missing_segment_is_ignored_and_reported(
    tmp_path: Path,
    segments: dict[int, bytes],
    file: int,
    position: int,
    size: int,
    reason: str,
    undamaged: bool,
    resumes_at: int | None,
) -> None:
    items = read_all(write_log_dir(tmp_path, segments))

    assert offset_ranges(items) == [(0, 2)]
    assert items[-1] == DamagedFile(
        file=f"{file:020d}.log", position=position, size=size, reason=reason, undamaged=undamaged, resumes_at=resumes_at
    )


def test_preallocated_zeros_are_not_reported_as_damage(tmp_path: Path) -> None:
    items = read_all(write_log_dir(tmp_path, {0: noops(0, 3) + bytes(500)}))

    assert offset_ranges(items) == [(0, 2)]
    assert not any(isinstance(item, DamagedFile) for item in items)


@pytest.mark.parametrize(
    ("upto", "ranges", "following"),
    [
        (AtOffset(offset=Offset(3)), [(0, 3)], 4),
        (AtTime(at_ms=Millis(AT + 2_000)), [(0, 2)], 3),
        (AtTime(at_ms=Millis(AT + 1_999)), [(0, 1)], 2),
        (AtTime(at_ms=Millis(AT - 1)), [], 0),
    ],
)
def test_reading_up_to_an_offset_or_a_millisecond_reports_the_next_batch(
    tmp_path: Path, upto: PointInTime, ranges: list[tuple[int, int]], following: int
) -> None:
    items = read_all(write_log_dir(tmp_path, {0: noops(0, 6)}), upto)

    assert offset_ranges(items) == ranges
    assert items[-1] == LogContinues(offset=following, timestamp_ms=AT + 1_000 * following)


@pytest.mark.parametrize(("offset", "snapshot"), [(36, 37), (35, 0), (2, 0)])
def test_a_snapshot_later_than_the_requested_offset_is_not_used(tmp_path: Path, offset: int, snapshot: int) -> None:
    items = read_all(stopped_quorum(tmp_path) / "node-2", AtOffset(offset=Offset(offset)))

    start = items[0]
    assert isinstance(start, ReadStart)
    assert start.offset == snapshot


def test_log_that_ends_in_an_earlier_epoch_than_the_newest_snapshot_is_not_read(tmp_path: Path) -> None:
    """Kafka drops such a log when it starts: a follower stopped after it had fetched the snapshot of a later leader."""
    partition = stopped_quorum(tmp_path) / "node-2" / PARTITION
    of_epoch_1 = partition / "00000000000000000037-0000000001.checkpoint"
    of_epoch_1.rename(partition / "00000000000000000037-0000000009.checkpoint")

    items = read_all(partition.parent)

    assert items[0] == ReadStart(snapshot="00000000000000000037-0000000009.checkpoint", offset=37)
    assert offset_ranges(items) == [(37, 0)], "the snapshot alone"
    assert isinstance(items[-1], DamagedFile)
    assert items[-1].reason == "epoch 1 after a snapshot of epoch 9: Kafka drops this log when it starts"
