"""A whole log as one snapshot: every committed record, other voter endpoints, and the logs of which none is written."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.errors import UsageError
from connectors.logdir.complete_log import CompleteLog, read_complete_log, snapshot_batches, with_endpoints
from connectors.logdir.log_dir_files import find_partition, open_files
from connectors.metadata.batch_writer import ControlRecordType, control_record
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.record_framing import framed_records
from rules.model.identifiers import Endpoint, Epoch, Millis, NodeId, Offset
from rules.model.membership import BrokerRegistration, RecordPosition
from streaming.status.from_log_dir import replay_log_dir
from tests.unit.connectors.logdir.log_dirs import AT, leader_change, noops, stopped_quorum, write_log_dir
from tests.unit.connectors.metadata.metadata_bytes import batch, data

NEW = Endpoint(listener="CONTROLLER", host="c2.new", port=9093)
DIRECTORY = "AaorEeDFTeqhbYUKWjaZFw"
VOTER = {
    "voter_id": 1,
    "voter_directory_id": DIRECTORY,
    "endpoints": [{"name": "CONTROLLER", "host": "c1", "port": 9093}],
    "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
}
VOTERS = {"version": 0, "voters": [VOTER]}


def topic(name: str, number: int) -> bytes:
    """The value of a TopicRecord."""
    return data(2, 0, bytes((len(name) + 1,)) + name.encode() + number.to_bytes(16, "big") + b"\0")


def marker(type_: int) -> bytes:
    """The value of a record that begins (23), ends (24) or aborts (25) a transaction."""
    return data(type_, 0, b"\0")


def dynamic_log(*batches: Sequence[bytes | tuple[bytes, bytes]]) -> bytes:
    """A segment: election, kraft.version 1, voters, then these batches."""
    out = leader_change()
    control = [
        control_record(ControlRecordType.KRAFT_VERSION, {"version": 0, "kraft_version": 1}),
        control_record(ControlRecordType.VOTERS, VOTERS),
    ]
    out += batch([(one.key or b"", one.value) for one in control], base_offset=1)
    offset = 3
    for values in batches:
        out += batch(list(values), base_offset=offset)
        offset += len(values)
    return out


def complete(folder: Path) -> CompleteLog:
    with open_files(find_partition(folder)) as files:
        return read_complete_log(files)


def values(content: bytes) -> list[bytes]:
    """The values of a file's metadata records."""
    return [
        content[slice(*record.value)]
        for one in scan(content, expected=0)
        if isinstance(one, RecordBatch) and not one.is_control
        for record in framed_records(content, one)
        if record.value is not None
    ]


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
