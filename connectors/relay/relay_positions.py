"""How the rows of a relay's journal are numbered in the topic, stored in relay.json. Pure but for reading and writing.

The sequence in the topic is that in the journal plus a base of each cluster, the time in microseconds at which this
relay took the cluster over. So a relay with a new folder, or on another machine, continues above the former one:
readers skip rows whose sequence they have already passed, and would otherwise skip all of its rows.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from connectors.durable_file import replace_file
from connectors.errors import UsageError
from connectors.relay.relay_message import Baseline
from connectors.stored_json import parse_json

_KEPT_BASELINES: Final = 16
"""Rows that are not sent yet may belong to an older baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNumbering:
    """How the rows of one cluster are numbered."""

    base: int
    """Added to a row's sequence in the journal."""
    baselines: tuple[Baseline, ...]
    """Oldest first; at least one."""

    def sequence(self, journal_sequence: int) -> int:
        """Returns a row's sequence in the topic."""
        return self.base + journal_sequence

    def baseline_of(self, sequence: int) -> Baseline:
        """Returns the newest baseline that begins at or before this sequence in the topic."""
        return next((one for one in reversed(self.baselines) if one.sequence <= sequence), self.baselines[0])


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
    new_base = now_ms * 1000 - end
    new = TopicNumbering(base=new_base, baselines=(Baseline(sequence=new_base + end, at_ms=now_ms),))
    return {name: before.get(name, new) for name in clusters}


def restated(before: Numberings, *, end: int, now_ms: int) -> Numberings:
    """Returns the numberings with a new baseline: from row `end` on, every log is read from its start."""
    return {
        name: replace(
            one,
            baselines=(*one.baselines, Baseline(sequence=one.sequence(end), at_ms=now_ms))[-_KEPT_BASELINES:],
        )
        for name, one in before.items()
    }


def load(path: Path) -> Numberings:
    """Returns the stored numberings; empty if there is no file.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        stored = parse_json(path.read_text(encoding="utf-8"))
        return {
            str(name): TopicNumbering(
                base=int(one["base"]),
                baselines=tuple(
                    Baseline(sequence=int(each["sequence"]), at_ms=int(each["at_ms"])) for each in one["baselines"]
                ),
            )
            for name, one in stored["clusters"].items()
            if one["baselines"]
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise UsageError(f"{path} cannot be read: delete it; the relay then reads every metadata log again") from None


def save(path: Path, numberings: Numberings) -> None:
    """Writes the numberings durably."""
    clusters = {
        name: {
            "base": one.base,
            "baselines": [{"sequence": each.sequence, "at_ms": each.at_ms} for each in one.baselines],
        }
        for name, one in sorted(numberings.items())
    }
    replace_file(path, json.dumps({"clusters": clusters}).encode())
