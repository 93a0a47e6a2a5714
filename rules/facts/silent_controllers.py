"""The voters that do not answer the monitor, although other voters answer the same requests."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rules.facts.freshness import fresh_views
from rules.facts.node import Nodes
from rules.model.identifiers import Millis, NodeId, ReplicaKey
from rules.model.monitoring import NO_LEADER_REASONS, ConnectionResult, ObservationSource, Probe, ProbeAnswer, Reason
from rules.model.quorum import Quorum


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentController:
    """One voter that does not answer."""

    key: ReplicaKey
    endpoint: str
    reason: Reason | ProbeAnswer | ConnectionResult
    """Why the leader view fails, or else what the probe found."""
    detail: str
    since_ms: Millis | None = None
    """The start of the unbroken run of failures, if known."""
    answering: Sequence[NodeId]
    """The voters that answer. If none does, the reason may be the monitor's access and not this controller."""


def silent_controllers(nodes: Nodes) -> Iterable[SilentController]:
    """Yields the voters whose leader view fails, or else whose probe fails while that of another voter is answered."""
    quorum = nodes.quorum
    voters = {row.key.id: row.key for row in quorum.poll.voters} if quorum.poll else {}
    views = {
        failure.node: failure
        for failure in quorum.failures
        if failure.source is ObservationSource.LEADER_VIEW
        and quorum.is_current(failure.last_at_ms, quorum.ages.repeated_ms)
    }
    viewed = {each.node for each in fresh_views(quorum) if each.this_cluster} - views.keys()
    probes = _newest_probes(quorum, quorum.ages.probe_ms)
    viewed_voters = sorted(node for node in voters if node in viewed)
    probed_voters = sorted(
        node for node in voters if node in probes and probes[node].answer is ProbeAnswer.THIS_CLUSTER
    )
    for node, key in sorted(voters.items()):
        if nodes[node].refused:
            # An older failure says less: it has ended since, or ends again and again.
            continue
        view, probe = views.get(node), probes.get(node)
        fails = view is not None and view.reason not in NO_LEADER_REASONS
        unanswered = probe is not None and node not in viewed and _unanswered(probe) and bool(probed_voters)
        if view is not None and fails and (viewed_voters or not unanswered):
            yield SilentController(
                key=key,
                endpoint=view.endpoint,
                reason=view.reason,
                detail=view.detail,
                since_ms=view.first_at_ms,
                answering=viewed_voters,
            )
        elif probe is not None and unanswered:
            yield SilentController(
                key=key,
                endpoint=str(probe.endpoint),
                reason=probe.answer if probe.connection is ConnectionResult.ACCEPTED else probe.connection,
                detail=probe.detail,
                answering=probed_voters,
            )


def _newest_probes(quorum: Quorum, age_ms: Millis) -> dict[NodeId, Probe]:
    """Returns the newest probe of each node, at whichever endpoint; none that is older than this."""
    current = (probe for probe in quorum.probes.values() if quorum.is_current(probe.observed_at_ms, age_ms))
    return {each.node: each for each in sorted(current, key=lambda each: each.observed_at_ms)}


def _unanswered(probe: Probe) -> bool:
    if probe.connection is ConnectionResult.ACCEPTED:
        return probe.answer in (ProbeAnswer.NOT_ALLOWED, ProbeAnswer.NO_ANSWER, ProbeAnswer.LATE)
    return probe.connection in (ConnectionResult.TIMED_OUT, ConnectionResult.UNREACHABLE)
