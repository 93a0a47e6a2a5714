"""The first record that a controller which starts now could not replay, and which nodes begin with a snapshot past it.

A controller replays its log from its newest snapshot on. Each node writes its own, and only the leader's is reported.
"""

from dataclasses import dataclass

from rules.model.identifiers import NodeId, Offset
from rules.model.quorum import Quorum
from rules.model.unreplayable import UnreplayableRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayEnd:
    """A record at which a start ends, as far as no snapshot past it is known."""

    record: UnreplayableRecord
    past: frozenset[NodeId]
    """The nodes whose newest snapshot is past it."""

    @property
    def lasts(self) -> bool:
        """Whether no node is known to have a snapshot past it; otherwise it is not known of the others."""
        return not self.past

    @property
    def short(self) -> str:
        """Returns `record 50`, or `a record of the snapshot`."""
        return "a record of the snapshot" if self.record.snapshot else f"record {self.record.offset}"


def replay_end(quorum: Quorum) -> ReplayEnd | None:
    """Returns the first such record that no known snapshot is past, else the first one at all; None without one."""
    found = [ReplayEnd(record=record, past=_past(quorum, record)) for record in quorum.unreplayable]
    return next((one for one in found if one.lasts), found[0] if found else None)


def _past(quorum: Quorum, record: UnreplayableRecord) -> frozenset[NodeId]:
    if record.snapshot:
        # Which one holds it is not known: the next one may have been written from the same state.
        return frozenset()
    logs = {view.leader_id: view.log for view in quorum.leader_views.values() if view.log is not None}
    return frozenset(
        node
        for node, log in logs.items()
        if node is not None and log.snapshot is not None and log.snapshot.end_offset > Offset(record.offset)
    )
