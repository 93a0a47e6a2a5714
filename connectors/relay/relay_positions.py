"""How the rows of a relay's journal are numbered in the topic, stored in relay.json. Pure but for reading and writing.

Each baseline is numbered from the time on at which it begins, in microseconds; its rows follow as in the journal. So a
relay with a new folder, or on another machine, continues above the former one: readers skip rows whose sequence they
have already passed, and would otherwise skip all of its rows.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connectors.errors import UsageError
from connectors.relay.relay_message import AHEAD_MS, Baseline
from connectors.store.durable_file import replace_file
from connectors.store.stored_json import parse_json

_KEPT_BASELINES: Final = 16
"""Rows that are not sent yet may belong to an older baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalBaseline:
    """A baseline, and where it begins in the journal."""

    first: int
    """The sequence of its first row in the journal."""
    baseline: Baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNumbering:
    """How the rows of one cluster are numbered."""

    baselines: tuple[JournalBaseline, ...]
    """Oldest first; at least one."""

    def numbered(self, journal_sequence: int) -> tuple[int, Baseline] | None:
        """Returns the sequence of a row in the topic, and its baseline; None for a row of an older baseline."""
        one = next((one for one in reversed(self.baselines) if one.first <= journal_sequence), None)
        return None if one is None else (one.baseline.sequence + journal_sequence - one.first, one.baseline)


Numberings = Mapping[str, TopicNumbering]
"""By cluster name."""


def with_clusters(before: Numberings, clusters: Collection[str], *, end: int, now_ms: int) -> Numberings:
    """Returns the numberings of exactly these clusters; a new one is numbered from the time on.

    Args:
        before: the stored ones. A cluster that is no longer relayed is forgotten: another relay may have it.
        clusters: their names.
        end: the sequence of the journal's next row.
        now_ms: the wall clock.
    """
    new = JournalBaseline(first=end, baseline=Baseline(sequence=now_ms * 1000, at_ms=now_ms))
    return {name: before.get(name, TopicNumbering(baselines=(new,))) for name in clusters}


def restated(before: Numberings, *, end: int, now_ms: int) -> Numberings:
    """Returns the numberings with a new baseline: from row `end` on, every log is read from its start."""

    def one(numbering: TopicNumbering) -> TopicNumbering:
        after, _ = numbering.numbered(end) or (0, None)
        new = JournalBaseline(first=end, baseline=Baseline(sequence=max(after, now_ms * 1000), at_ms=now_ms))
        return TopicNumbering(baselines=(*numbering.baselines, new)[-_KEPT_BASELINES:])

    return {name: one(numbering) for name, numbering in before.items()}


def usable(before: Numberings, now_ms: int) -> Numberings:
    """Returns the numberings but those that begin in the future: the clock was wrong, and readers refuse their rows."""
    latest_ms = now_ms + AHEAD_MS // 2
    return {name: one for name, one in before.items() if one.baselines[-1].baseline.at_ms <= latest_ms}


def load(path: Path, topic: str) -> Numberings:
    """Returns the stored numberings; empty if there is no file, or if the rows before went to another topic.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        stored = parse_json(path.read_text(encoding="utf-8"))
        if stored["topic"] != topic:
            return {}
        return {
            str(name): TopicNumbering(
                baselines=tuple(
                    JournalBaseline(
                        first=int(one["first"]),
                        baseline=Baseline(sequence=int(one["sequence"]), at_ms=int(one["at_ms"])),
                    )
                    for one in baselines
                )
            )
            for name, baselines in stored["clusters"].items()
            if baselines
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise UsageError(f"{path} cannot be read: delete it; the relay then reads every metadata log again") from None


def save(path: Path, topic: str, numberings: Numberings) -> None:
    """Writes the numberings of the rows in this topic durably."""
    clusters = {
        name: [
            {"first": each.first, "sequence": each.baseline.sequence, "at_ms": each.baseline.at_ms}
            for each in one.baselines
        ]
        for name, one in sorted(numberings.items())
    }
    replace_file(path, json.dumps({"topic": topic, "clusters": clusters}).encode())
