"""What is published at once, and what waits for the second."""

from collections.abc import Iterator

import pytest

from connectors.errors import JournalError
from connectors.event import Audited, BrokenContract
from connectors.gather.control_messages import Found, Wish, from_line, to_line
from connectors.gather.publisher import Recording
from connectors.kafka.event_loop import Loop
from connectors.observation import Kind, Observation


class Appended:
    """A recorder that remembers what it was told."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.published: list[int] = []

    def append(self, observations: list[Observation], /) -> None:
        self.rows += [row.observed_at_ms for row in observations]

    def publish(self) -> int:
        self.published.append(len(self.rows))
        return len(self.rows)


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


def row(at_ms: int, cluster: str = "a") -> Observation:
    return Observation(cluster=cluster, kind=Kind.QUORUM, observed_at_ms=at_ms)


def turn(loop: Loop) -> None:
    """Lets the loop do what waits for its next turn."""
    loop.run(lambda: loop.sleep(0.001))


def test_what_matters_is_published_at_once_and_brings_along_what_waited(loop: Loop) -> None:
    recorder = Appended()
    recording = Recording(recorder, loop, failed=lambda: None)

    recording.add(row(1), urgent=False)
    turn(loop)
    assert recorder.published == []

    recording.add(row(2), urgent=True)
    recording.add(row(3), urgent=True)
    turn(loop)
    assert recorder.published == [3], "one sync for both"


def test_a_wished_row_is_urgent_once_and_only_in_its_cluster(loop: Loop) -> None:
    recorder = Appended()
    recording = Recording(recorder, loop, failed=lambda: None)
    recording.wish("a", 100)

    recording.add(row(99), urgent=False)
    recording.add(row(100, "b"), urgent=False)
    turn(loop)
    assert recorder.published == []

    recording.add(row(100), urgent=False)
    turn(loop)
    assert recorder.published == [3]

    recording.add(row(101), urgent=False)
    turn(loop)
    assert recorder.published == [3]


def test_a_journal_that_cannot_be_written_ends_the_gathering(loop: Loop) -> None:
    class Full(Appended):
        def append(self, observations: list[Observation], /) -> None:
            raise JournalError("no space left")

    ended: list[bool] = []
    recording = Recording(Full(), loop, failed=lambda: ended.append(True))

    recording.add(row(1), urgent=True)

    assert ended == [True]
    assert str(recording.failure) == "no space left"


def test_a_wish_travels_as_a_line() -> None:
    wish = Wish(cluster="prod", at_ms=1_800_000_000_000)

    line = to_line(wish)

    assert line.count(b"\n") == 1
    assert from_line(line) == wish


@pytest.mark.parametrize("line", [b"", b"\n", b"{}", b"prod 5", b'{"cluster": "a", "at_ms": "soon"}'])
def test_what_is_no_wish_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="validation error"):
        from_line(line)


def test_what_an_audit_found_travels_as_a_line_too() -> None:
    broken = BrokenContract(
        contract="offsets-ascend", promise="…", grave=False, rows=1, example="row 12: \n", sequence=12
    )
    found = Found(cluster="prod", audited=Audited(rows=3, first_sequence=10, last_sequence=12, broken=(broken,)))

    line = to_line(found)

    assert line.count(b"\n") == 1
    assert from_line(line) == found
