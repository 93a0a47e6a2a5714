"""Recording: observations that were recorded, by time: in the journal of a job, or by relays in a topic.

Look-back, timeline, report, back-test and audit read it; what they need is the same in both.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from connectors.errors import JournalError, UsageError
from connectors.gather.node_directory import KnownEndpoints, stored_endpoints
from connectors.observations.observation import Observation
from connectors.store.bundle_file import unpacked_bundle
from connectors.store.journal_reader import JournalReader
from rules.formatting import ms_text, utc_text
from rules.model.identifiers import Millis

if TYPE_CHECKING:
    from connectors.relay.topic_recording import TopicRecording

Recording: TypeAlias = "JournalRecording | TopicRecording"
"""Rows of one or several clusters: both have the same methods."""
_SAY_EVERY_S = 2.0
_CLOCK_EVERY_ROWS = 1_000


class JournalRecording:
    """The journal of a job or a relay, or the one in a bundle. A running gatherer is not disturbed."""

    kind = "journal"

    def __init__(self, reader: JournalReader, place: str) -> None:
        """`place`: as it was given."""
        self.reader = reader
        self.place = place
        self._restarted_at = reader.restarted_at()

    def newest_ms(self) -> Millis:
        """Returns the time of the newest row; 0 if there is none.

        Raises:
            JournalError: the journal is damaged.
        """
        span = journal_span(self.reader)
        return Millis(0) if span is None else span[1]

    def rows(
        self,
        *,
        since_ms: Millis | None = None,
        until_ms: Millis | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> Iterator[Observation]:
        """Yields all rows but those that a repair has made unnecessary; clusters share the sequence.

        Args:
            since_ms: the rows may begin where each log is read from its start or a snapshot before this time. None:
                with the oldest rows with which a state is whole.
            until_ms: the rows may end with the first one after this time; here they do not.
            say: prints progress, every two seconds.

        Raises:
            JournalError: the journal is damaged.
        """
        first, end = self._first(since_ms), self.reader.published_end()
        began = said_at = time.monotonic()
        for row in self.reader.read(first, end):
            if row.sequence % _CLOCK_EVERY_ROWS == 0 and (now := time.monotonic()) - said_at > _SAY_EVERY_S:
                said_at, done = now, row.sequence - first
                left = ms_text(Millis(round(1000 * (now - began) * (end - first - done) / max(1, done))))
                percent = 100 * done // (end - first)
                say(
                    f"reading the journal: {percent} % of {end - first} rows, up to {utc_text(row.observed_at_ms)}; "
                    f"{left} left"
                )
            yield row

    def endpoints(self) -> Mapping[str, str]:
        """Returns what the gatherer has stored of each cluster's endpoints, by cluster."""
        return self.reader.endpoints()

    def restarts_logs(self, row: Observation) -> bool:
        """Returns whether a log may be read again from the newest row on that was yielded."""
        if self._restarted_at is None or row.sequence < self._restarted_at:
            return False
        self._restarted_at = None
        return True

    def _first(self, since_ms: Millis | None) -> int:
        beginning = self.reader.beginning()
        if since_ms is None or beginning >= self.reader.published_end():
            return beginning
        whole = next(self.reader.read(beginning, beginning + 1))
        return beginning if whole.observed_at_ms < since_ms else self.reader.first_sequence()


def open_journal(folder: Path, option: str = "--journal") -> JournalRecording:
    """Returns the journal of a checkpoint folder, the journal that the folder is, or the one in a bundle.

    Args:
        option: that of the command line which gave the folder.

    Raises:
        UsageError: there is none.
    """
    given = folder
    if folder.is_file():
        folder = unpacked_bundle(folder)
    for place in _places(folder):
        journal = JournalReader(place.absolute())
        if journal.created:
            return JournalRecording(journal, str(given))
    raise UsageError(f"{option} {folder}: no journal is there; give the --checkpoint folder of `kraftwatch run`")


def has_journal(folder: Path) -> bool:
    """Whether there is a journal."""
    return any(JournalReader(place.absolute()).created for place in _places(folder))


def recorded_endpoints(folder: Path) -> Mapping[str, KnownEndpoints]:
    """Returns the endpoints of each cluster in a journal; none where there is no journal, or it cannot be read."""
    try:
        found = open_journal(folder).reader.endpoints()
    except (UsageError, JournalError):
        return {}
    return {name: stored_endpoints(text) for name, text in found.items()}


def journal_span(journal: JournalReader) -> tuple[Millis, Millis] | None:
    """Returns the times of the first and the newest row of a journal; None where it has none.

    Raises:
        JournalError: there is no journal, or it is damaged.
    """
    first, end = journal.first_sequence(), journal.published_end()
    if first >= end:
        return None
    oldest, newest = next(journal.read(first, first + 1)), next(journal.read(end - 1, end))
    return Millis(oldest.observed_at_ms), Millis(newest.observed_at_ms)


def _places(folder: Path) -> tuple[Path, Path]:
    return folder / "journal", folder
