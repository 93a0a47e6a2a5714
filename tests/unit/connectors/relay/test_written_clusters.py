"""When a relay takes a cluster over from another one, and when it stops to write it."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from connectors.observations.observation import Observation, ObservationKind
from connectors.relay import written_clusters
from connectors.relay.relay_message import Baseline, RelayEpoch, RelayMessage, check_row
from connectors.relay.topic_tail import TopicPosition, TopicTail, advanced, extent
from connectors.relay.written_clusters import (
    LEASE_S,
    WaitingRow,
    WaitingRows,
    WrittenCluster,
    WrittenClusters,
    is_in_topic,
)
from connectors.settings import TopicSection
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from tests.unit.connectors.relay.test_topic_position import FIRST, NOW_MS, A, B, message, poll, records

ME = "me"


class Tail(TopicTail):
    """A topic that was read."""

    answers = True

    def __init__(self) -> None:
        super().__init__(TopicSection(bootstrap=("a:1",), topic="t"), {"prod": "id"})
        self._next = {0: 100}
        self.reported_end = 100

    def end(self, partition: int) -> int:
        if not self.answers:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return self.reported_end

    def has(
        self, sequence: int, row: Observation, epoch: RelayEpoch, baseline: Baseline = FIRST
    ) -> tuple[RelayMessage, bool]:
        read = message(sequence, row, epoch, baseline)
        after = advanced(self.positions.get("prod"), read, 0)
        if after is not None:
            self.positions["prod"] = after
        return read, after is not None


class Scene:
    """A relay that gathers `prod`, its journal and the topic."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.writer = JournalWriter(folder).__enter__()
        self.journal = JournalReader(folder)
        self.tail = Tail()
        self.waiting = WaitingRows(["prod"])
        self.clusters = WrittenClusters(["prod"], ME, self.tail, self.journal)
        self.now = 1_000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def gather(self, *rows: Observation) -> None:
        begin = self.writer.published_end
        self.writer.append(rows)
        for row in self.journal.read(begin, self.writer.publish()):
            self.waiting.add(row, sent=None)

    def note(self, read: tuple[RelayMessage, bool]) -> bool:
        return self.clusters.note(read[0], self.waiting, counts=read[1])

    def takes_over(self, after_s: float = 1.0) -> bool:
        self.now += after_s
        return self.clusters.take_over(self.waiting, self.journal.published_end())

    @property
    def position(self) -> TopicPosition:
        return self.tail.positions["prod"]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    scene = Scene(tmp_path / "journal", monkeypatch)
    yield scene
    scene.writer.__exit__(None, None, None)


def test_a_cluster_without_rows_in_the_topic_is_written_from_the_start_of_its_log(scene: Scene) -> None:
    assert not scene.takes_over(), "the journal has no row yet"
    scene.gather(records(0, 5), poll(NOW_MS + 1))

    assert scene.takes_over()
    written = scene.clusters.written["prod"]
    assert (written.first, written.baseline) == (0, Baseline(sequence=written.epoch.sequence, at_ms=NOW_MS))
    assert scene.clusters.takeovers == 0


def test_a_relay_whose_brokers_answer_late_begins_with_a_baseline_that_readers_accept(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    late_ms = NOW_MS + 600_000
    monkeypatch.setattr(written_clusters, "wall_ms", lambda: late_ms)
    scene.gather(records(0, 5), poll(late_ms))

    assert scene.takes_over()
    written = scene.clusters.written["prod"]
    for sequence, row in enumerate((records(0, 5), poll(late_ms))):
        sent = message(written.sequence(sequence), row, written.epoch, written.baseline)
        check_row(sent, cluster_id="id", appended_at_ms=late_ms)


def test_a_relay_takes_over_once_the_topic_has_lacked_its_rows_for_the_lease(scene: Scene) -> None:
    scene.note(scene.tail.has(1_000, records(0, 5), A))
    scene.gather(records(3, 5), records(5, 8), poll(NOW_MS + 9))
    scene.waiting.remove("prod", lambda one: scene.position.has(one.extent))

    assert not scene.takes_over(LEASE_S - 1)
    assert scene.takes_over(2)
    written = scene.clusters.written["prod"]
    assert (written.first, written.baseline, written.partition) == (1, FIRST, 0), "no new baseline is needed"
    assert written.epoch.sequence > scene.position.sequence
    assert scene.clusters.takeovers == 1


def test_rows_that_the_topic_gets_keep_the_other_relay_writing(scene: Scene) -> None:
    scene.note(scene.tail.has(1_000, records(0, 5), A))
    for second in range(60):
        scene.gather(poll(NOW_MS + 1_000 * second))
        assert not scene.takes_over()
        scene.note(scene.tail.has(1_001 + second, poll(NOW_MS + 1_000 * second + 5), A))
        scene.waiting.remove("prod", lambda one: scene.position.has(one.extent))


def test_a_relay_that_does_not_read_the_log_is_replaced_and_one_that_reads_it_again_is_not(scene: Scene) -> None:
    again = Baseline(sequence=1_001, at_ms=NOW_MS)
    scene.note(scene.tail.has(1_000, records(0, 5), A))
    scene.gather(records(5, 8))
    for second in range(60):
        scene.note(scene.tail.has(1_001 + second, records(second, second + 1, high_watermark=90), A, again))
        assert not scene.takes_over()
    scene.note(scene.tail.has(2_000, records(60, 90, high_watermark=90), A, again))
    scene.gather(records(90, 95))
    scene.waiting.remove("prod", lambda one: scene.position.has(one.extent))
    for second in range(10):
        scene.note(scene.tail.has(2_001 + second, poll(NOW_MS + 1_000 * second), A, again))
        assert not scene.takes_over(0.9)
    assert scene.takes_over(2)


def test_a_relay_that_reaches_no_controller_since_its_new_baseline_is_replaced(scene: Scene) -> None:
    again = Baseline(sequence=1_001, at_ms=NOW_MS)
    scene.note(scene.tail.has(1_000, records(0, 5), A))
    scene.gather(records(0, 8))
    for second in range(round(LEASE_S) - 1):
        assert not scene.takes_over(1)
        failed = replace(poll(NOW_MS + 1_000 * second), kind=ObservationKind.FAILED)
        scene.note(scene.tail.has(1_001 + second, failed, A, again))
    assert scene.takes_over(2)


def test_a_relay_that_cannot_read_the_topic_to_its_end_takes_nothing_over(scene: Scene) -> None:
    scene.note(scene.tail.has(1_000, records(0, 5), A))
    scene.gather(poll(NOW_MS + 9))
    scene.tail.answers = False
    assert not scene.takes_over(60)
    scene.tail.answers = True
    assert not scene.takes_over(1), "the other relay had no time to write since the brokers answer again"
    scene.tail.reported_end = 150
    assert not scene.takes_over(LEASE_S), "it was stopped itself, and has not read what the other one wrote"
    scene.tail._next[0] = 150
    assert scene.takes_over()


def test_a_restarted_relay_continues_at_once(scene: Scene) -> None:
    scene.note(scene.tail.has(1_000, records(0, 5), RelayEpoch(sequence=1_000, relay=ME)))
    scene.gather(poll(NOW_MS + 9))

    assert scene.takes_over()
    assert scene.clusters.takeovers == 0


def test_a_missing_log_needs_a_new_baseline(scene: Scene) -> None:
    scene.note(scene.tail.has(1_000, records(0, 5), A))
    scene.gather(poll(NOW_MS - 9), records(7, 9))
    scene.waiting.remove("prod", lambda one: scene.position.has(one.extent))
    scene.journal.commit(1)

    assert not scene.takes_over(LEASE_S)
    assert scene.clusters.needing_baseline == {"prod"}
    scene.clusters.begin_baselines(2)
    written = scene.clusters.written["prod"]
    assert (written.first, written.baseline.sequence, written.partition) == (2, written.epoch.sequence, 0)
    assert not scene.clusters.needing_baseline


def test_the_first_row_that_is_read_from_the_topic_confirms_an_epoch_and_a_later_epoch_ends_it(scene: Scene) -> None:
    scene.gather(records(0, 5))
    scene.takes_over()
    written = scene.clusters.written["prod"]
    sequence = written.epoch.sequence

    assert scene.note(scene.tail.has(sequence, records(0, 5), written.epoch, written.baseline))
    assert not scene.note(scene.tail.has(sequence + 1, poll(NOW_MS), written.epoch, written.baseline))
    assert not scene.note(scene.tail.has(sequence + 1, poll(NOW_MS), written.epoch, written.baseline)), "sent twice"
    assert scene.clusters.written.keys() == {"prod"}
    later = RelayEpoch(sequence=sequence + 1_000_000, relay="b")
    scene.note(scene.tail.has(later.sequence, poll(NOW_MS), later, written.baseline))
    assert not scene.clusters.written
    scene.gather(poll(NOW_MS + 9))
    assert not scene.takes_over(LEASE_S - 2)


def test_the_second_of_two_relays_that_begin_together_stops(scene: Scene) -> None:
    scene.gather(records(0, 5))
    scene.takes_over()
    written = scene.clusters.written["prod"]
    sequence = written.epoch.sequence
    other = RelayEpoch(sequence=sequence + 1, relay="b")

    scene.note(scene.tail.has(other.sequence, records(0, 5), other, Baseline(sequence=sequence + 1, at_ms=NOW_MS)))
    assert scene.clusters.written.keys() == {"prod"}, "its own row may be read later"
    scene.note(scene.tail.has(sequence, records(0, 5), written.epoch, written.baseline))
    assert not scene.clusters.written


def test_polls_that_the_relay_before_has_written_are_not_sent_again(scene: Scene) -> None:
    scene.note(scene.tail.has(1_000, records(0, 5), B))
    scene.gather(records(5, 8), poll(NOW_MS), poll(NOW_MS + 1))
    assert scene.takes_over(LEASE_S)
    written = scene.clusters.written["prod"]

    sent = [written.sends(one.sequence, one.extent) for one in scene.waiting.of("prod")]
    assert sent == [True, False, True]


def test_a_row_that_was_sent_is_in_the_topic_once_a_row_of_the_same_epoch_is() -> None:
    row = extent(records(0, 5))
    waiting = WaitingRow(cluster="prod", sequence=7, extent=row, payload_bytes=1, since=0.0, sent=B.sequence + 7)
    mine = WrittenCluster(epoch=B, baseline=FIRST, first=0, partition=0, after=None)

    def arrived(sequence: int, epoch: RelayEpoch) -> bool:
        position = advanced(None, message(sequence, records(0, 5), epoch), 0)
        assert position is not None
        return is_in_topic(waiting, position=position, written=mine)

    assert [arrived(B.sequence + sent, B) for sent in (6, 7, 8)] == [False, True, True]
    later = RelayEpoch(sequence=B.sequence + 1_000_000, relay="c")
    assert not arrived(later.sequence, later), "another relay wrote it: the row of this one may be lost"


def test_rows_before_an_epoch_and_polls_that_are_not_newer_are_not_sent() -> None:
    before = advanced(None, message(0, poll(NOW_MS)), 0)
    mine = WrittenCluster(epoch=B, baseline=FIRST, first=5, partition=0, after=before)

    assert [mine.sends(sequence, extent(records(0, 5))) for sequence in (4, 5)] == [False, True]
    assert [mine.sends(5, extent(poll(NOW_MS + ms))) for ms in (0, 1)] == [False, True]
    assert mine.sequence(9) == B.sequence + 4


def waiting_rows(*clusters: str) -> WaitingRows:
    """Returns waiting rows with the sequences 0, 1, ... of these clusters, all sent."""
    waiting = WaitingRows({"eu", "us"})
    for sequence, cluster in enumerate(clusters):
        waiting.add(replace(poll(1), cluster=cluster, sequence=sequence), sent=sequence)
    return waiting


def test_rows_of_a_cluster_leave_in_their_order() -> None:
    waiting = waiting_rows("eu", "eu", "eu")

    assert waiting.remove("eu", lambda one: one.sequence == 1) == [], "the first one is missing in the topic"
    assert [one.sequence for one in waiting.remove("eu", lambda one: one.sequence <= 1)] == [0, 1]
    assert [one.sequence for one in waiting.of("eu")] == [2]


def test_the_journal_is_done_below_the_first_row_of_any_cluster_that_waits() -> None:
    waiting = waiting_rows("eu", "us", "us", "eu")

    waiting.remove("us", lambda _: True)
    assert waiting.done_to() is None, "row 0 still waits"
    waiting.remove("eu", lambda one: one.sequence == 0)
    assert waiting.done_to() == 3
    waiting.remove("eu", lambda _: True)
    assert waiting.done_to() == 4
    assert waiting.done_to() is None, "it has not advanced"


def test_rows_of_another_cluster_do_not_wait() -> None:
    waiting = waiting_rows("asia", "eu")

    assert waiting.done_to() == 1
    assert waiting.in_flight == 1


def test_rows_that_another_relay_writes_now_still_wait_but_are_not_sent() -> None:
    waiting = waiting_rows("eu", "us")
    waiting.no_longer_sent("eu")

    assert waiting.in_flight == 1
    assert waiting.remove("eu", lambda _: True) == [], "this relay has not sent it"
    assert waiting.done_to() == 1
