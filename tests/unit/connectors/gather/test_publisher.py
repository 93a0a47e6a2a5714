"""Which rows are published at once, and which with the next periodic publication."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from connectors.errors import JournalError, UnwritableJournalError
from connectors.gather import publisher as publisher_module
from connectors.gather.publisher import Publisher
from connectors.kafka.event_loop import EventLoop
from connectors.observations.observation import Observation, ObservationKind, Urgency


class RecordedJournal:
    """An Appender that records rows and publications."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.published: list[int] = []

    def append(self, observations: list[Observation], /) -> None:
        self.rows += [row.observed_at_ms for row in observations]

    def publish(self) -> int:
        self.published.append(len(self.rows))
        return len(self.rows)


def row(at_ms: int, cluster: str = "a", urgency: Urgency = Urgency.REGULAR) -> Observation:
    return Observation(cluster=cluster, kind=ObservationKind.QUORUM, observed_at_ms=at_ms, urgency=urgency)


def run_pending(loop: EventLoop) -> None:
    """Runs the callbacks that are scheduled on the loop."""
    loop.run(lambda: loop.sleep(0.001))


def test_urgent_row_is_published_at_once_with_all_earlier_rows(loop: EventLoop) -> None:
    journal = RecordedJournal()
    publisher = Publisher(journal, loop, on_failure=lambda: None)

    publisher.add(row(1))
    run_pending(loop)
    assert journal.published == []

    publisher.add(row(2, urgency=Urgency.URGENT))
    publisher.add(row(3, urgency=Urgency.URGENT))
    run_pending(loop)
    assert journal.published == [3], "one sync for both"


def test_what_is_noted_before_a_publication_is_a_part_of_it(loop: EventLoop) -> None:
    journal = RecordedJournal()
    noted_at: list[int] = []
    publisher = Publisher(
        journal, loop, on_failure=lambda: None, before_publish=lambda: noted_at.append(len(journal.published))
    )
    for at in range(2):
        publisher.add(row(at, urgency=Urgency.URGENT))
        run_pending(loop)
    assert noted_at == [0, 1]


def test_requested_row_is_urgent_once_and_only_in_its_cluster(loop: EventLoop) -> None:
    journal = RecordedJournal()
    publisher = Publisher(journal, loop, on_failure=lambda: None)
    publisher.publish_first_row_from("a", 100)

    publisher.add(row(99))
    publisher.add(row(100, "b"))
    run_pending(loop)
    assert journal.published == []

    publisher.add(row(100))
    run_pending(loop)
    assert journal.published == [3]

    publisher.add(row(101))
    run_pending(loop)
    assert journal.published == [3]


def seconds(publisher: Publisher, number: int) -> None:
    for _ in range(number):
        publisher.publish_regularly()


def quiet(at_ms: int, cluster: str = "a") -> Observation:
    return row(at_ms, cluster, Urgency.QUIET)


def test_quiet_rows_wait_up_to_ten_seconds_where_time_alone_changes_nothing(loop: EventLoop) -> None:
    journal = RecordedJournal()
    publisher = Publisher(journal, loop, on_failure=lambda: None)
    publisher.let_wait("a", 100)
    publisher.let_wait("b", 100)

    publisher.add(quiet(1))
    seconds(publisher, 5)
    publisher.add(quiet(2, "b"))
    seconds(publisher, 3)
    assert journal.rows == []
    seconds(publisher, 1)
    assert journal.rows == [1, 2]
    assert journal.published == [2], "those of all clusters together"


def test_quiet_rows_of_a_cluster_wait_while_those_of_another_are_published(loop: EventLoop) -> None:
    journal = RecordedJournal()
    publisher = Publisher(journal, loop, on_failure=lambda: None)
    publisher.let_wait("a", 100)
    publisher.let_wait("b", 100)

    publisher.add(quiet(1))
    publisher.add(quiet(2, "b"))
    publisher.add(row(3, "b", Urgency.URGENT))
    run_pending(loop)
    assert journal.rows == [2, 3]
    publisher.add(quiet(4, "b"))
    seconds(publisher, 1)
    assert journal.rows == [2, 3, 4], "nothing was evaluated since the change"


def test_a_quiet_row_whose_time_has_come_waits_no_longer(loop: EventLoop) -> None:
    journal = RecordedJournal()
    publisher = Publisher(journal, loop, on_failure=lambda: None)
    publisher.let_wait("a", 100)
    publisher.let_wait("b", 2)
    publisher.add(quiet(1))

    publisher.add(quiet(2, "b"))
    seconds(publisher, 1)
    assert journal.rows == [2]


def test_quiet_rows_of_hundreds_of_clusters_are_published_in_parts(loop: EventLoop) -> None:
    """A change waits while a batch is evaluated."""
    journal = RecordedJournal()
    publisher = Publisher(journal, loop, on_failure=lambda: None)
    clusters = [f"cluster-{number}" for number in range(250)]
    for cluster in clusters:
        publisher.let_wait(cluster, 100)
    published, oldest = [], []
    for second in range(27):
        for cluster in clusters:
            publisher.add(quiet(second, cluster))
        before = len(journal.rows)
        seconds(publisher, 1)
        rows = journal.rows[before:]
        published.append(len(rows))
        oldest += [second - min(rows)] if rows else []
    assert max(published) == 30 * 9
    assert max(oldest) == 8


@pytest.mark.parametrize(("next_ms", "rows"), [(4_999, [3_000]), (5_000, [3_000, 5_000])])
def test_quiet_rows_wait_for_the_evaluation_of_those_before_them(
    loop: EventLoop, next_ms: int, rows: list[int]
) -> None:
    journal = RecordedJournal()
    publisher = Publisher(journal, loop, on_failure=lambda: None)
    publisher.let_wait("a", 3_000)
    publisher.add(quiet(3_000))
    seconds(publisher, 1)
    assert journal.rows == [3_000]

    publisher.add(quiet(next_ms))
    seconds(publisher, 1)
    assert journal.rows == rows


def test_no_row_waits_where_an_evaluation_says_so(loop: EventLoop) -> None:
    """The same answer is not sent again."""
    journal = RecordedJournal()
    publisher = Publisher(journal, loop, on_failure=lambda: None)
    publisher.let_wait("a", 0)
    for at_ms in (1_000, 2_000):
        publisher.add(quiet(at_ms))
        seconds(publisher, 1)
    assert journal.rows == [1_000, 2_000]


def test_a_row_that_waits_longer_than_a_newer_evaluation_allows_is_published(loop: EventLoop) -> None:
    journal = RecordedJournal()
    publisher = Publisher(journal, loop, on_failure=lambda: None)
    publisher.let_wait("a", 100)
    publisher.add(quiet(50))
    seconds(publisher, 1)
    assert journal.rows == []

    publisher.let_wait("a", 50)
    seconds(publisher, 1)
    assert journal.rows == [50]


@pytest.mark.parametrize(("cluster", "urgency"), [("a", Urgency.REGULAR), ("b", Urgency.QUIET)])
def test_other_rows_are_published_within_a_second(loop: EventLoop, cluster: str, urgency: Urgency) -> None:
    """Those that show something, and those of a cluster of which nothing was evaluated yet."""
    journal = RecordedJournal()
    publisher = Publisher(journal, loop, on_failure=lambda: None)
    publisher.let_wait("a", 1_000)

    publisher.add(row(2, cluster, urgency=urgency))
    seconds(publisher, 1)
    assert journal.published == [1]


def test_much_payload_is_published_at_once(loop: EventLoop) -> None:
    journal = RecordedJournal()
    publisher = Publisher(journal, loop, on_failure=loop.stop)
    for at in range(5):
        publisher.add(replace(row(at), payload=bytes(1 << 20)))
        run_pending(loop)
    assert journal.published == [4], "what is not published is in memory"


def test_a_requested_row_that_is_written_already_is_published_and_none_is_made(loop: EventLoop) -> None:
    """A job that is behind asks for times that have passed: more polls would only delay it further."""
    journal = RecordedJournal()
    publisher = Publisher(journal, loop, on_failure=lambda: None)

    publisher.add(row(100))
    assert publisher.publish_first_row_from("a", 100), "the row of that time may be the one that asks"
    publisher.add(row(101))
    run_pending(loop)
    publisher.add(row(110))
    assert not publisher.publish_first_row_from("a", 105)
    run_pending(loop)
    assert journal.published == [2, 3]
    assert publisher.publish_first_row_from("b", 105), "of another cluster"

    publisher.add(row(120))
    run_pending(loop)
    assert journal.published == [2, 3], "the next row is not urgent"


def test_rows_that_are_not_urgent_go_with_the_changes_while_these_keep_coming(simulated_time_loop: EventLoop) -> None:
    timed = Timed(simulated_time_loop)
    for at in range(5):
        timed.at(at + 0.1, row(at, urgency=Urgency.URGENT))
        timed.at(at + 0.5, row(at))
        timed.regularly(at + 0.8)
    timed.regularly(5.8)
    timed.regularly(6.8)
    assert timed.published == [0.1, 1.1, 2.1, 3.1, 4.1, 5.8], "and alone when the changes end"


def test_first_changes_of_clusters_are_published_together(simulated_time_loop: EventLoop) -> None:
    timed = Timed(simulated_time_loop)
    for at, cluster in ((1.0, "a"), (1.2, "b"), (1.6, "c"), (1.9, "d"), (5.0, "e")):
        timed.at(at, row(1, cluster, Urgency.URGENT))
    assert timed.published == [1.0, 1.7, 2.4, 5.0]


def test_a_change_that_has_waited_before_it_was_read_waits_no_longer(simulated_time_loop: EventLoop) -> None:
    timed = Timed(simulated_time_loop)
    for at, cluster in ((1.0, "a"), (1.9, "b"), (2.0, "a")):
        timed.at(at, row(1, cluster, Urgency.URGENT))
    assert timed.published == [1.0, 1.9, 2.0]


def test_what_is_due_is_published_at_once_while_changes_keep_coming(simulated_time_loop: EventLoop) -> None:
    timed = Timed(simulated_time_loop)
    timed.publisher.publish_first_row_from("b", 100)
    timed.at(1.0, row(1, "a", Urgency.URGENT))
    timed.at(1.1, row(100, "b"))
    timed.publisher.publish_first_row_from("c", 100)
    timed.at(1.2, row(100, "c", Urgency.URGENT))
    assert timed.published == [1.0, 1.1, 1.2]


class Timed:
    """A publisher that is given rows at some seconds, in simulated time."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop, self._began = loop, loop.now()
        self._steps: list[tuple[float, Callable[[], object]]] = []
        self._times: list[float] = []
        self.publisher = Publisher(self, loop, on_failure=lambda: None)

    def append(self, observations: list[Observation], /) -> None:
        """Takes the rows."""

    def publish(self) -> int:
        self._times.append(round(self._loop.now() - self._began, 1))
        return 0

    def at(self, second: float, added: Observation) -> None:
        self._steps.append((second, partial(self.publisher.add, added)))

    def regularly(self, second: float) -> None:
        self._steps.append((second, self.publisher.publish_regularly))

    @property
    def published(self) -> list[float]:
        """When rows were published, after all steps."""

        async def main() -> None:
            for second, step in self._steps:
                await self._loop.sleep(self._began + second - self._loop.now())
                step()
            await self._loop.sleep(2)

        self._loop.run(main)
        return self._times


def test_rows_wait_while_the_disk_is_full_and_are_published_once_it_has_room(loop: EventLoop) -> None:
    class Full(RecordedJournal):
        full = True

        def publish(self) -> int:
            if self.full:
                raise UnwritableJournalError("no space left")
            return super().publish()

    ended: list[bool] = []
    journal = Full()
    publisher = Publisher(journal, loop, on_failure=lambda: ended.append(True))
    for at in range(3):
        publisher.add(row(at, urgency=Urgency.URGENT))
        run_pending(loop)
        publisher.publish_regularly()
    assert (journal.published, ended) == ([], [])

    journal.full = False
    publisher.publish_regularly()
    assert journal.published == [3]
    publisher.add(row(4, urgency=Urgency.URGENT))
    run_pending(loop)
    assert journal.published == [3, 4]


def test_a_gatherer_ends_when_too_much_waits_for_a_full_disk(loop: EventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(RecordedJournal):
        def publish(self) -> int:
            raise UnwritableJournalError("no space left")

    monkeypatch.setattr(publisher_module, "_MOST_UNWRITTEN", 100)
    publisher = Publisher(Full(), loop, on_failure=lambda: None)
    for at, size in ((1, 100), (2, 1)):
        assert publisher.failure is None
        publisher.add(replace(row(at, urgency=Urgency.URGENT), payload=bytes(size)))
        publisher.publish_regularly()
    assert str(publisher.failure) == "no space left"


def test_unwritable_journal_ends_the_gatherer(loop: EventLoop) -> None:
    class Full(RecordedJournal):
        def append(self, observations: list[Observation], /) -> None:
            raise JournalError("no space left")

    ended: list[bool] = []
    publisher = Publisher(Full(), loop, on_failure=lambda: ended.append(True))

    publisher.add(row(1, urgency=Urgency.URGENT))

    assert ended == [True]
    assert str(publisher.failure) == "no space left"
