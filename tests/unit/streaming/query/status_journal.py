"""A journal of which a status is read."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from connectors.observations.observation import Event, Observation, ObservationKind, to_json
from connectors.store.journal_writer import JournalWriter
from rules.model.identifiers import Millis
from rules.model.replica import Poll
from tests.scripts.log_script import poll, replica
from tests.unit.connectors.logdir.log_dirs import leader_change, noops
from tests.unit.connectors.store import journal_rows

AT = 1_790_000_000_000
PLACE = "c1:9093"


def polled(epoch: int = 7) -> Poll:
    rows = (replace(replica(name), last_fetch_ms=Millis(AT), last_caught_up_ms=Millis(AT)) for name in ("1-a", "2-b"))
    return poll(*rows, epoch=epoch, hw=100, endpoint=PLACE, nodes={})


def observed(event: Event, at_ms: int, cluster: str = "a") -> Observation:
    kind = ObservationKind.QUORUM if isinstance(event, Poll) else ObservationKind.FAILED
    return Observation(cluster=cluster, kind=kind, observed_at_ms=at_ms, payload=to_json(event))


def records(first: int, last: int, at_ms: int) -> Observation:
    """A leader's first batch, where it begins with 0, and NoOps."""
    begins = first == 0
    batches = (leader_change(timestamp=at_ms) if begins else b"", noops(first + begins, last - first + 1 - begins))
    return journal_rows.records(*batches, base=first, last=last, at_ms=at_ms, cluster="a")


def journal(folder: Path, rows: Iterable[Observation]) -> Path:
    with JournalWriter(folder) as recorder:
        recorder.append(list(rows))
        recorder.publish()
    return folder
