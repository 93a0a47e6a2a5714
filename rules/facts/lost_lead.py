"""Whether a controller starts again each time after it led: it ends when it loses the lead, or while it leads."""

from collections.abc import Iterable

from rules.model.history import Election
from rules.model.identifiers import Millis, NodeId
from rules.model.quorum import Quorum

_STARTED_MS = 120_000
"""A supervisor starts a process again within this time; Kubernetes waits longer only after several quick ends. No age:
both times are of the log."""


def lost_lead_text(quorum: Quorum, node: NodeId, started_ms: Iterable[Millis]) -> str:
    """Returns that a controller had lost the lead before each of these starts; empty if not, or only before one.

    Only the starts after the first known election count: elections are remembered for less long. A controller that
    voted for its successor ran when it lost the lead.
    """
    elections = quorum.history.elections
    known = [at_ms for at_ms in started_ms if elections and at_ms >= elections[0].timestamp_ms]
    spans = zip((Millis(0), *known), known, strict=False)
    lost = [one for since_ms, at_ms in spans if (one := _lost_between(elections, node, since_ms, at_ms)) is not None]
    if len(lost) < max(2, len(known)):
        return ""
    if all(node in election.granting_voter_ids for election in lost):
        return " Each time it had just lost the lead and voted for its successor: it ends whenever it loses the lead."
    return " Each time it had led until just before: it ends while it leads, or when it loses the lead."


def _lost_between(elections: Iterable[Election], node: NodeId, since_ms: Millis, at_ms: Millis) -> Election | None:
    """Returns the last election since the start before, shortly before this one, if another controller won it."""
    before = [
        election for election in elections if max(since_ms, at_ms - _STARTED_MS) <= election.timestamp_ms <= at_ms
    ]
    lost = [election for election in before if election.previous_leader_id == node != election.leader_id]
    return lost[-1] if lost else None
