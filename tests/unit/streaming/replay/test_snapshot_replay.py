"""A snapshot replaces the log's state at its footer, even if that comes many observations later."""

import pytest

from connectors.observations.log_event import SnapshotEnded
from rules.model.monitoring import ObservationSource, Reason
from streaming.replay.decoded_row import DecodedRow
from streaming.replay.machine import Machine
from tests.unit.rules.situation import present
from tests.unit.streaming.replay.log_script import (
    LogScript,
    again,
    apply,
    begun,
    failed,
    key,
    machine,
    poll,
    replica,
)

pytestmark = pytest.mark.kip("A043", "A044", "A057", "B031", "D121", "D122", "E043", "E097", "K006", "K048")


def started() -> tuple[LogScript, Machine]:
    """A quorum of three at offset 102 with broker 101, polled."""
    script, replay = begun()
    script.voters("1-a", "2-b", "3-c")
    script.broker(101, fenced=False)
    script.noops(99)
    apply(replay, [script.read(), script.row(poll(replica("1-a"), hw=102))])
    return script, replay


def written() -> list[object]:
    """Returns the records of a later state: voters 1 and 2, broker 102, a recovering partition."""
    other = LogScript()
    other.kraft(1)
    other.voters("1-a", "2-b")
    other.broker(102, fenced=False)
    other.topic("orders")
    other.partition("orders", 0, 101, 102, recovering=True)
    return list(other.events)


def snapshot(script: LogScript, chunks: int, end_offset: int | None = None) -> list[DecodedRow]:
    return script.snapshot(written(), chunks=chunks, end_offset=end_offset)  # type: ignore[arg-type]


@pytest.mark.kip("A043", "A057")
def test_state_is_replaced_only_at_the_footer() -> None:
    script, replay = started()
    script.noops(400)
    *chunks, last = snapshot(script, 3)
    before = apply(replay, [])
    for number, chunk in enumerate(chunks):
        replay = again(replay.to_bytes())
        failure = script.row(failed(Reason.TIMED_OUT, source=ObservationSource.QUORUM))
        # The polls come between the chunks.
        quorum = apply(replay, [chunk._replace(sequence=100 + 2 * number), failure._replace(sequence=101 + 2 * number)])
        assert quorum.committed == before.committed
        assert replay.behind
    last = last._replace(sequence=200)
    quorum = apply(replay, [last])

    assert present(quorum.committed).keys == {key("1-a"), key("2-b")}
    assert set(quorum.brokers) == {102}, "a broker that is not in the snapshot does not exist"
    assert (quorum.last_offset, replay.log.position) == (501, 501)
    (removal,) = quorum.removals
    assert (removal.key, removal.removed_at_ms) == (key("3-c"), quorum.now_ms), "no record in the log is newer"


def test_a_new_header_discards_the_unfinished_snapshot() -> None:
    script, replay = started()
    script.noops(400)
    first_chunk, *_ = snapshot(script, 3)
    other = LogScript()
    other.voters("1-a", "9-z")
    quorum = apply(replay, [first_chunk, *script.snapshot(other.events)])

    assert present(quorum.committed).keys == {key("1-a"), key("9-z")}
    assert quorum.recovering == ()


@pytest.mark.kip("D077")
def test_a_loss_of_committed_metadata_discards_the_log_and_the_unfinished_snapshot() -> None:
    script, replay = started()
    script.noops(400)
    *begun, last = snapshot(script, 3)
    quorum = apply(replay, [*begun, script.row(failed(Reason.METADATA_LOST))._replace(sequence=100)])
    assert replay.loading is None
    assert (replay.log.position, replay.log.image.brokers) == (-1, {}), "it is read again from the beginning"
    assert set(quorum.brokers) == {101}, "rules see the old state until then"

    quorum = apply(replay, [last._replace(sequence=101)])
    assert replay.log.position == -1, "a footer alone is no snapshot"
    assert set(quorum.brokers) == {101}


@pytest.mark.kip("K046")
@pytest.mark.parametrize("end_offset", [80, 102], ids=["older", "up to the newest record"])
def test_a_snapshot_of_applied_records_is_skipped(end_offset: int) -> None:
    script, replay = started()
    before = apply(replay, [])
    quorum = apply(replay, snapshot(script, 2, end_offset=end_offset))

    assert (quorum.committed, quorum.brokers, quorum.last_offset) == (before.committed, before.brokers, 101)


@pytest.mark.kip("D017")
@pytest.mark.parametrize("last_contained", [79, 101], ids=["older", "the newest record"])
def test_a_snapshot_of_a_newer_epoch_up_to_an_applied_record_is_a_rewritten_log(last_contained: int) -> None:
    script, replay = started()
    script.epoch = 5
    quorum = apply(replay, snapshot(script, 1, end_offset=last_contained + 1))

    assert quorum.last_offset == last_contained
    (failure,) = quorum.failures
    assert failure.reason is Reason.METADATA_LOST
    assert failure.detail == (
        f"offset {last_contained} was rewritten in epoch 5: committed records up to offset 101 are lost"
    )


def test_a_footer_of_another_snapshot_is_ignored() -> None:
    script, replay = started()
    script.noops(400)
    (row,) = snapshot(script, 1)
    *events, footer = row.events
    assert isinstance(footer, SnapshotEnded)
    wrong = SnapshotEnded(at=footer.at, end_offset=footer.end_offset, epoch=type(footer.epoch)(77))
    quorum = apply(replay, [DecodedRow(row.sequence, row.observed_at_ms, (*events, wrong))])

    assert quorum.last_offset == 101
    assert not replay.behind


def test_records_after_an_unfinished_snapshot_discard_it() -> None:
    script, replay = started()
    script.noops(400)
    first_chunk, *_ = snapshot(script, 3)
    script.broker(103)
    quorum = apply(replay, [first_chunk, script.read()])

    assert not replay.behind
    assert set(quorum.brokers) == {101, 103}


def test_a_fetch_without_new_records_keeps_the_unfinished_snapshot() -> None:
    script, replay = started()
    known = script.advanced(102)
    script.noops(400)
    first_chunk, *others = snapshot(script, 3)
    rows = [first_chunk, script.row(known), *others]
    quorum = apply(replay, [row._replace(sequence=100 + number) for number, row in enumerate(rows)])

    assert quorum.last_offset == 501


def test_a_snapshot_ends_the_open_transaction_of_the_log_it_replaces() -> None:
    script, replay = started()
    script.begin()
    script.broker(109)
    apply(replay, [script.read()])
    script.noops(400)
    apply(replay, snapshot(script, 1))
    script.end()

    assert set(apply(replay, [script.read()]).brokers) == {102}


def test_rules_see_the_first_snapshot_once_the_log_after_it_is_read() -> None:
    script, replay = LogScript(), machine()
    script.noops(500)
    script.epoch = 3
    quorum = apply(replay, [script.row(poll(replica("1-a"), epoch=3, hw=502)), *snapshot(script, 1)])
    assert quorum.committed is None
    script.change("orders", 0, recovering=False)
    script.noops(1)
    quorum = apply(replay, [script.read()])

    assert (quorum.recovering, quorum.removals, quorum.kraft_version) == ((), (), 1)


def test_the_bootstrap_snapshot_ends_at_offset_0() -> None:
    script, replay = LogScript(epoch=0), machine()
    quorum = apply(replay, snapshot(script, 1))
    assert quorum.failures == (), "nothing was applied before, so nothing is lost"

    script.leader(1, epoch=1)
    assert apply(replay, [script.read()]).last_offset == 0
