"""A whole log as one snapshot: every committed record, other voter endpoints, and the logs of which none is written."""

import gzip
from base64 import urlsafe_b64decode
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.errors import UsageError
from connectors.logdir.complete_log import CompleteLog, read_complete_log, snapshot_batches, with_endpoints
from connectors.logdir.log_dir_files import find_partition, open_files
from connectors.metadata.batch_writer import ControlRecordType, control_record
from rules.model.identifiers import Endpoint, Epoch, Millis, NodeId, Offset
from rules.model.membership import BrokerRegistration, RecordPosition
from streaming.query.from_log_dir import replay_log_dir
from tests.unit.connectors.logdir.dynamic_log import DIRECTORY, VOTERS, dynamic_log, marker, topic, values
from tests.unit.connectors.logdir.log_dirs import AT, leader_change, noops, stopped_quorum, write_log_dir
from tests.unit.connectors.metadata.metadata_bytes import batch, batch_of, control, record

NEW = Endpoint(listener="CONTROLLER", host="c2.new", port=9093)
ONE = len(noops(0, 1))


def complete(folder: Path) -> CompleteLog:
    with open_files(find_partition(folder)) as files:
        return read_complete_log(files)


def registered(brokers: Iterable[BrokerRegistration]) -> list[BrokerRegistration]:
    """The registrations without what a snapshot does not hold: where in the log they are."""
    at = RecordPosition(offset=Offset(0), leader_epoch=Epoch(0), timestamp_ms=Millis(0))
    return [replace(one, at=at, alive_since_timestamp_ms=None, features_since_timestamp_ms=None) for one in brokers]


@pytest.mark.parametrize("node", [1, 2, 3, 101])
def test_snapshot_of_a_real_log_adds_up_to_the_same_state_with_the_new_endpoints(node: int, tmp_path: Path) -> None:
    folder = stopped_quorum(tmp_path) / f"node-{node}"
    log = complete(folder)
    changed = with_endpoints(log.voters, {NodeId(2): NEW})
    (tmp_path / "new").mkdir()
    name = f"{log.end_offset:020d}-{log.epoch:010d}.checkpoint"
    (tmp_path / "new" / name).write_bytes(b"".join(snapshot_batches(log, changed)))

    before, after = replay_log_dir(folder).machine, replay_log_dir(tmp_path / "new").machine

    assert after.log.position == before.log.position
    read = complete(tmp_path / "new")
    assert (read.end_offset, read.epoch, read.newest_ms) == (log.end_offset, log.epoch, log.newest_ms), "its header"
    old, new = before.quorum(), after.quorum()
    assert (new.features, new.kraft_version) == (old.features, old.kraft_version)
    assert registered(new.brokers.values()) == registered(old.brokers.values())
    assert new.controllers.keys() == old.controllers.keys()
    assert new.committed is not None
    assert old.committed is not None
    assert new.committed.by_id(NodeId(2)).endpoints == (NEW,)  # type: ignore[union-attr]
    assert [one for one in new.committed.voters if one.key.id != 2] == [
        one for one in old.committed.voters if one.key.id != 2
    ]


def test_a_log_has_the_end_of_each_of_its_epochs(tmp_path: Path) -> None:
    """Kafka keeps the first offset of each epoch: the end of the one before."""
    log = dynamic_log([topic("a", 1)]) + noops(4, 2, epoch=3) + noops(6, 1, epoch=4)

    read = complete(write_log_dir(tmp_path / "log", {0: log}))

    assert (read.epoch, read.epoch_ends) == (4, {1: 4, 3: 6, 4: 7})


def test_epochs_below_the_newest_snapshot_are_known_where_the_segments_still_hold_them(tmp_path: Path) -> None:
    """A former leader's log that diverged before another node's snapshot must not pass for a beginning of its log."""
    log = dynamic_log([topic("a", 1)]) + noops(4, 2, epoch=3)
    before = complete(write_log_dir(tmp_path / "before", {0: log}))
    snapshot = ("00000000000000000006-0000000003.checkpoint", b"".join(snapshot_batches(before, VOTERS)))

    read = complete(write_log_dir(tmp_path / "log", {0: log, 6: noops(6, 1, epoch=4)}, [snapshot]))

    assert read.epoch_ends == {1: 4, 3: 6, 4: 7}


def test_the_newest_time_is_not_that_of_a_later_leader_whose_clock_is_behind(tmp_path: Path) -> None:
    log = dynamic_log() + noops(3, 2) + batch([topic("a", 1)], base_offset=5, timestamp=AT)

    assert complete(write_log_dir(tmp_path / "log", {0: log})).newest_ms == AT + 4_000


def test_transactions_are_resolved(tmp_path: Path) -> None:
    moved = with_endpoints(VOTERS, {NodeId(1): NEW})
    voters = control_record(ControlRecordType.VOTERS, moved)
    log = dynamic_log(
        [topic("a", 1), marker(23), topic("b", 2)],
        [topic("c", 3)],
        [topic("d", 4), marker(24), topic("e", 5), marker(23), topic("lost", 6)],
        [(voters.key or b"", voters.value)],
        [topic("lost2", 7), marker(25), topic("f", 8), marker(23), topic("g", 9), marker(24)],
    )
    read = complete(write_log_dir(tmp_path / "log", {0: log}))

    written = b"".join(snapshot_batches(read, read.voters))

    assert values(written) == [
        topic(name, number) for name, number in zip("abcdefg", (1, 2, 3, 4, 5, 8, 9), strict=True)
    ]
    assert read.records == 7
    assert read.voters["voters"] == moved["voters"] != VOTERS["voters"], "control records are not part of transactions"


TWO_TOPICS = dynamic_log([topic("a", 1)], [topic("b", 2)])


@pytest.mark.parametrize(
    ("segments", "reason"),
    [
        ({0: dynamic_log([marker(23), topic("a", 1)])}, "that began at offset 3 is still open"),
        ({0: dynamic_log([topic("a", 1), marker(23)])}, "that began at offset 4 is still open"),
        ({0: dynamic_log([marker(23), marker(23)])}, "begins at offset 4 while another transaction is open"),
        ({0: dynamic_log([marker(24)])}, "ends at offset 3 while no transaction is open"),
        ({0: dynamic_log([topic("a", 1), marker(25)])}, "is aborted at offset 4 while no transaction is open"),
        ({40: noops(40, 3)}, "begins at offset 40, and no whole snapshot"),
        ({0: leader_change() + noops(1, 3)}, "static quorum"),
        ({0: TWO_TOPICS[:-5], 5: noops(5, 2)}, "is damaged at byte .* and later segments follow it"),
    ],
)
def test_log_of_which_no_whole_snapshot_can_be_written_is_refused(
    segments: dict[int, bytes], reason: str, tmp_path: Path
) -> None:
    folder = write_log_dir(tmp_path / "log", segments)

    with pytest.raises(UsageError, match=reason):
        complete(folder)


def test_torn_end_of_the_last_segment_is_left_out_as_kafka_does(tmp_path: Path) -> None:
    read = complete(write_log_dir(tmp_path / "log", {0: TWO_TOPICS[:-5]}))

    assert (read.end_offset, read.records, len(read.damaged)) == (4, 1, 1)


UNKNOWN_TAG = b"\1\7\1x"
"""Tagged fields of a later Kafka: one, with the tag 7 and one byte."""
ENDPOINT = bytes.fromhex("0b434f4e54524f4c4c4552036331 2385".replace(" ", ""))
"""CONTROLLER, c1 and 9093, without the tagged fields after them."""


def voters_record(*, of_endpoint: bytes = b"\0", of_voter: bytes = b"\0", of_record: bytes = b"\0") -> bytes:
    """VOTERS as bytes, with these tagged fields in its structs."""
    directory = urlsafe_b64decode(DIRECTORY + "==")
    feature = (0).to_bytes(2, "big") + (1).to_bytes(2, "big") + b"\0"
    voter = (1).to_bytes(4, "big") + directory + b"\2" + ENDPOINT + of_endpoint + feature + of_voter
    return b"\0\0\2" + voter + of_record


def test_voters_record_of_these_tests_is_the_one_that_kafka_writes() -> None:
    assert voters_record() == control_record(ControlRecordType.VOTERS, VOTERS).value


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([control(7, b"\0\0\0")], "is of type 7, which is not known to any Kafka up to"),
        ([(b"\0\0\xff\xff", b"\0\0\0")], "is of type -1, which"),
        ([control(0, b"\0\0\0")], "is of type 0, which"),
        ([control(6, voters_record(of_record=UNKNOWN_TAG))], "has a tagged field that its schema lacks"),
        ([control(6, voters_record(of_voter=UNKNOWN_TAG))], "has a tagged field that its schema lacks"),
        ([control(6, voters_record(of_endpoint=UNKNOWN_TAG))], "has a tagged field that its schema lacks"),
        ([control(6, b"\0\1" + voters_record()[2:])], "is a VotersRecord of version 1, which is not known"),
        ([control(6, voters_record() + b"\0")], "has 1 bytes more than its fields"),
        ([control(5, b"\0\0\0\1" + UNKNOWN_TAG)], "has a tagged field that its schema lacks"),
        ([control(5, b"\0\0\0\2\0")], "sets kraft.version to 2"),
        ([control(2, b"\0\0\0\0\0\1\1\1" + UNKNOWN_TAG)], "has a tagged field that its schema lacks"),
        ([control(4, b"\0\0\0")], "is a SnapshotFooterRecord, which only a snapshot has"),
        ([(b"\0\0\0\6", b"")], "has no value"),
        ([(b"\0\1\0\6", voters_record())], "has a key that no known Kafka writes"),
        ([(b"\0", b"\0")], "has a key that no known Kafka writes"),
    ],
)
def test_control_record_that_is_not_completely_known_is_refused(
    records: list[tuple[bytes, bytes]], reason: str, tmp_path: Path
) -> None:
    """The snapshot would hold less than the log."""
    folder = write_log_dir(tmp_path / "log", {0: dynamic_log() + noops(3, 2), 5: batch(records, base_offset=5)})

    with pytest.raises(UsageError) as refused:
        complete(folder)

    message = str(refused.value)
    assert "00000000000000000005.log: the control record at offset 5 " in message
    assert reason in message
    assert "a newer kraftwatch may know it; nothing was changed" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (control(3, b"\0\0" + bytes(8) + UNKNOWN_TAG), "has a tagged field that its schema lacks"),
        (control(9, b"\0\0\0"), "is of type 9, which is not known"),
        (control(2, b"\0\0\0\0\0\1\1\1\0"), "is a LeaderChangeMessage, which only the log has"),
    ],
)
def test_control_record_of_a_snapshot_that_is_not_completely_known_is_refused(
    header: tuple[bytes, bytes], reason: str, tmp_path: Path
) -> None:
    known = [control(3, b"\0\0" + bytes(8) + b"\0"), control(5, b"\0\0\0\1\0"), control(6, voters_record())]
    content = (
        batch([*known, header]) + batch([topic("a", 1)], base_offset=4) + batch([control(4, b"\0\0\0")], base_offset=5)
    )
    name = "00000000000000000009-0000000001.checkpoint"

    with pytest.raises(UsageError, match=f"{name}: the control record at offset 3 {reason}"):
        complete(write_log_dir(tmp_path / "log", {}, [(name, content)]))


COMPRESSED = batch_of(gzip.compress(record(topic("b", 2), 0)), 1, base_offset=4, attributes=1)

OF_MAGIC_3 = noops(4, 1)[:16] + b"\3" + noops(4, 1)[17:]
"""The CRC does not cover the magic."""


@pytest.mark.parametrize(
    ("segments", "file", "reason"),
    [
        ({0: dynamic_log([topic("a", 1)]) + COMPRESSED}, 0, "from byte 307 on, .*compressed with gzip"),
        ({0: dynamic_log([topic("a", 1)]) + COMPRESSED + noops(5, 3)}, 0, ".*compressed with gzip"),
        ({0: dynamic_log([topic("a", 1)]) + OF_MAGIC_3}, 0, ".*magic 3, expected 2"),
        ({0: dynamic_log([topic("a", 1)]), 5: noops(5, 2)}, 5, "from byte 0 on.*base offset 5, expected 4"),
        ({0: dynamic_log([topic("a", 1)]) + noops(4, 1, epoch=5) + noops(5, 1, epoch=4)}, 0, ".*epoch 4 after epoch 5"),
    ],
)
def test_whole_batches_that_kafka_would_read_are_never_ignored(
    segments: dict[int, bytes], file: int, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=rf"{file:020d}\.log.* {reason}") as refused:
        complete(write_log_dir(tmp_path / "log", segments))

    assert "rescue the other nodes" in str(refused.value)


def test_compressed_batch_of_the_newest_snapshot_is_refused_although_an_older_one_and_the_log_are_whole(
    tmp_path: Path,
) -> None:
    log = dynamic_log([topic("a", 1)])
    written = [*snapshot_batches(complete(write_log_dir(tmp_path / "before", {0: log})), VOTERS)]
    position = sum(map(len, written[:1]))
    compressed = batch_of(gzip.compress(record(topic("a", 1), 0)), 1, base_offset=3, attributes=1)
    name = "00000000000000000004-0000000001.checkpoint"
    folder = write_log_dir(tmp_path / "log", {0: log}, [(name, written[0] + compressed + written[-1])])

    with pytest.raises(UsageError, match=rf"{name} is not read from byte {position} on, .*compressed with gzip"):
        complete(folder)


def test_snapshot_of_a_later_epoch_before_which_kafka_drops_the_log_is_refused(tmp_path: Path) -> None:
    """Kafka drops a log that ends in an earlier epoch than the newest snapshot."""
    log = dynamic_log([topic("a", 1)]) + noops(4, 6)
    written = b"".join(snapshot_batches(complete(write_log_dir(tmp_path / "before", {0: log[: -2 * ONE]})), VOTERS))
    later = ("00000000000000000008-0000000009.checkpoint", written)
    folder = write_log_dir(tmp_path / "log", {0: log}, [later])

    with pytest.raises(UsageError, match="epoch 1 after a snapshot of epoch 9"):
        complete(folder)


def test_newest_snapshot_is_that_of_the_latest_epoch(tmp_path: Path) -> None:
    log = complete(write_log_dir(tmp_path / "before", {0: dynamic_log([topic("a", 1)])}))
    of_epoch_1 = b"".join(snapshot_batches(log, VOTERS))
    of_epoch_9 = b"".join(snapshot_batches(log, with_endpoints(VOTERS, {NodeId(1): NEW})))
    names = ("00000000000000000009-0000000001.checkpoint", "00000000000000000004-0000000009.checkpoint")
    folder = write_log_dir(tmp_path / "log", {}, zip(names, (of_epoch_1, of_epoch_9), strict=True))

    read = complete(folder)

    assert (read.end_offset, read.epoch) == (4, 9)
    assert read.voters["voters"][0]["endpoints"][0]["host"] == NEW.host


def test_snapshot_beyond_a_log_of_a_later_epoch_is_refused(tmp_path: Path) -> None:
    log = complete(write_log_dir(tmp_path / "before", {0: dynamic_log([topic("a", 1)])}))
    name = "00000000000000000090-0000000001.checkpoint"
    content = b"".join(snapshot_batches(log, VOTERS))
    folder = write_log_dir(tmp_path / "log", {0: dynamic_log() + noops(3, 5, epoch=4)}, [(name, content)])

    with pytest.raises(UsageError, match=f"{name} .* of epoch 1, and the log below it .* epoch 4"):
        complete(folder)
