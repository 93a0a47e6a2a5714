"""When a relay takes a cluster over from another one, where it continues, and what it sends."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.observations.observation import Observation
from connectors.relay.cluster_writer import ClusterWriter
from connectors.relay.relay_message import Baseline, RelayMessage, check_row, first_sequence
from connectors.relay.relayed_cluster import KEEP_S, LEASE_S, RelayedCluster
from connectors.relay.topic_tail import TopicPosition
from connectors.settings.sections import TopicSection
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from tests.unit.connectors.relay.topic_records import FIRST, NOW_MS, failed, poll, records
from tests.unit.connectors.relay.topic_tail import PARTITION, Tail

ME, OTHER = "me", "other"


class Scene:
    """A relay that gathers `prod`, its journal and the topic."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.writer = JournalWriter(folder).__enter__()
        self.journal = JournalReader(folder)
        self.tail = Tail()
        self.now = 1_000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        self.cluster = RelayedCluster("prod", "id", ME, self.tail, whole=True)

    def gather(self, *rows: Observation) -> None:
        begin = self.writer.published_end
        self.writer.append(rows)
        self.read(begin, self.writer.publish())

    def read(self, begin: int, end: int | None = None) -> None:
        for row in self.journal.read(begin, self.journal.published_end() if end is None else end):
            self.cluster.add(row)

    def has(self, sequence: int, row: Observation, relay: str = OTHER, baseline: Baseline = FIRST) -> None:
        self.tail.has(sequence, row, relay, baseline)
        self.cluster.notice(row)

    def is_due(self, after_s: float = 1.0) -> bool:
        self.now += after_s
        return self.cluster.is_due()

    def begins(self) -> int | None:
        """Begins to write; the journal is read again from there on."""
        first = self.cluster.begin(self.journal, NOW_MS)
        if first is not None:
            self.read(first)
        return first

    def sends(self) -> list[RelayMessage]:
        """Returns the rows of the next transaction, which is committed."""
        return self.cluster.committed() if self.cluster.take() else []

    @property
    def position(self) -> TopicPosition:
        return self.tail.positions["prod"]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    scene = Scene(tmp_path / "journal", monkeypatch)
    yield scene
    scene.writer.__exit__(None, None, None)


def test_a_cluster_without_rows_in_the_topic_is_written_from_the_start_of_its_log(scene: Scene) -> None:
    assert not scene.is_due(), "the journal has no row yet"
    scene.gather(records(0, 5), poll(NOW_MS + 1))

    assert scene.is_due()
    assert scene.begins() == 0
    assert scene.cluster.baseline == Baseline(sequence=first_sequence(NOW_MS), at_ms=NOW_MS)
    sent = scene.sends()
    assert [one.observation.sequence - first_sequence(NOW_MS) for one in sent] == [0, 1]
    assert {one.relay for one in sent} == {ME}
    assert not scene.cluster.waiting


def test_a_new_writer_writes_to_the_partition_that_has_the_rows(scene: Scene) -> None:
    """By default a producer chooses among all partitions, also those that were added."""
    scene.cluster.writer = ClusterWriter(TopicSection(bootstrap=("a:1",), topic="t"), "prod")
    scene.gather(records(0, 5), poll(NOW_MS + 1))
    assert scene.begins() == 0
    assert scene.cluster.writer.partition is None

    scene.cluster.stand_by(fenced=True)
    scene.has(7, records(0, 5))
    scene.cluster.writer = ClusterWriter(TopicSection(bootstrap=("a:1",), topic="t"), "prod")
    scene.gather(poll(NOW_MS + 2))
    assert scene.begins() is not None
    assert scene.cluster.writer.partition == PARTITION


def test_a_relay_whose_brokers_answer_late_begins_with_a_baseline_that_readers_accept(scene: Scene) -> None:
    late_ms = NOW_MS + 600_000
    scene.gather(records(0, 5), poll(late_ms))
    scene.cluster.begin(scene.journal, late_ms)
    scene.read(0)

    for sent in scene.sends():
        check_row(sent, cluster_id="id", appended_at_ms=late_ms)


def test_a_relay_takes_over_once_the_topic_has_got_no_row_for_the_lease(scene: Scene) -> None:
    scene.has(1_000, records(0, 5))
    scene.gather(records(3, 5), records(5, 8), poll(NOW_MS + 9))

    assert not scene.is_due(LEASE_S - 1)
    assert scene.is_due(2)
    assert scene.begins() == 1
    assert scene.cluster.baseline == FIRST, "no new baseline is needed"
    assert [one.observation.sequence for one in scene.sends()] == [1_001, 1_002]


def test_rows_that_the_topic_gets_keep_the_other_relay_writing(scene: Scene) -> None:
    scene.has(1_000, records(0, 5))
    for second in range(60):
        scene.gather(poll(NOW_MS + 1_000 * second))
        assert not scene.is_due()
        scene.has(1_001 + second, poll(NOW_MS + 1_000 * second + 5))


@pytest.mark.parametrize("reaches", [True, False])
def test_a_relay_that_does_not_reach_the_leader_is_replaced_by_one_that_does(scene: Scene, reaches: bool) -> None:
    scene.has(1_000, records(0, 5))
    for second in range(1, 60):
        scene.gather(poll(NOW_MS) if reaches else failed(NOW_MS))
        assert scene.is_due() is (reaches and second >= LEASE_S)
        scene.has(2_001 + second, failed(NOW_MS + 1_000 * second))


def test_a_relay_that_stands_by_keeps_what_it_has_gathered_lately(scene: Scene) -> None:
    scene.has(1_000, records(0, 5))
    for second in range(60):
        scene.gather(poll(NOW_MS - 60_000))
        scene.now += 1
        scene.has(1_001 + second, poll(NOW_MS + second))
    assert len(scene.cluster.waiting) == KEEP_S


def test_a_restarted_relay_continues_at_once(scene: Scene) -> None:
    scene.has(1_000, records(0, 5), ME)
    scene.gather(records(0, 5), poll(NOW_MS + 9))

    assert scene.is_due()
    assert scene.begins() == 1, "the topic has the first row"
    assert [one.observation.sequence for one in scene.sends()] == [1_001]


def test_a_relay_that_was_replaced_stands_by_for_the_lease_also_before_the_other_one_has_written(scene: Scene) -> None:
    scene.gather(records(0, 5))
    scene.begins()
    scene.cluster.take()
    scene.cluster.stand_by(fenced=True)

    assert not scene.cluster.writes
    assert not scene.is_due(LEASE_S - 1)
    scene.has(1_000, records(0, 5))
    scene.gather(poll(NOW_MS + 9))
    assert not scene.is_due(LEASE_S - 1)
    assert scene.is_due(2), "the other one has ended"


def test_a_relay_whose_writer_failed_continues_after_a_pause_unless_another_one_writes(scene: Scene) -> None:
    scene.gather(records(0, 5))
    scene.begins()
    scene.cluster.take()
    scene.cluster.stand_by(fenced=False)
    scene.has(first_sequence(NOW_MS), records(0, 5), ME)
    scene.gather(poll(NOW_MS + 9))

    assert not scene.is_due(0.5)
    assert scene.is_due()
    scene.has(first_sequence(NOW_MS) + 1, poll(NOW_MS + 5))
    assert not scene.is_due()


def test_a_missing_log_needs_a_new_baseline(scene: Scene) -> None:
    scene.has(1_000, records(0, 5))
    scene.gather(poll(NOW_MS - 9), records(7, 9))
    scene.journal.commit(1)

    assert scene.is_due(LEASE_S)
    assert scene.begins() is None
    assert scene.cluster.needs_baseline
    scene.gather(records(0, 9))
    scene.cluster.give_up_to(2)
    scene.cluster.new_baseline = (2, NOW_MS)
    assert scene.begins() == 2
    assert scene.cluster.baseline == Baseline(sequence=1_001, at_ms=NOW_MS)
    assert [one.observation.last_offset for one in scene.sends()] == [8]


def test_polls_that_the_relay_before_has_written_are_not_sent_again(scene: Scene) -> None:
    scene.has(1_000, records(0, 5))
    scene.gather(records(5, 8), poll(NOW_MS), poll(NOW_MS + 1), poll(NOW_MS + 1))
    scene.begins()

    assert [one.observation.observed_at_ms - NOW_MS for one in scene.sends()] == [0, 1, 1]
    assert not scene.cluster.waiting


def test_rows_that_the_topic_needs_not_do_not_wait_when_nothing_is_sent(scene: Scene) -> None:
    scene.has(1_000, records(0, 5))
    scene.gather(records(5, 8), poll(NOW_MS))
    scene.begins()
    scene.sends()
    assert not scene.sends()
    assert not scene.cluster.waiting


def test_rows_follow_a_row_that_another_program_has_written(scene: Scene) -> None:
    scene.gather(records(0, 5))
    scene.begins()
    scene.sends()
    forged = first_sequence(NOW_MS) + 5_000
    scene.has(forged, poll(NOW_MS), "forged")
    scene.gather(poll(NOW_MS + 1))

    assert [one.observation.sequence for one in scene.sends()] == [forged + 1]
    assert scene.cluster.writes


def test_a_transaction_is_bounded_and_the_next_one_follows_its_end(scene: Scene) -> None:
    scene.gather(records(0, 5), *(poll(NOW_MS + at) for at in range(700)))
    scene.begins()

    assert [len(scene.sends()) for _ in range(3)] == [500, 201, 0]
    large = replace(poll(NOW_MS + 999), payload=bytes(3 << 20))
    scene.gather(large, large, large)
    assert [len(scene.sends()) for _ in range(3)] == [2, 1, 0]


def test_missing_offsets_are_those_of_the_baseline_that_is_written(scene: Scene) -> None:
    scene.gather(records(0, 5))
    scene.begins()
    assert scene.cluster.baseline is not None
    begin = scene.cluster.baseline.sequence
    scene.has(begin, records(0, 5), ME, scene.cluster.baseline)
    scene.has(begin + 1, records(7, 9), ME, scene.cluster.baseline)
    assert scene.cluster.gap == "offsets 5 to 6"

    scene.cluster.new_baseline = (0, NOW_MS)
    scene.begins()
    assert scene.cluster.gap is None
