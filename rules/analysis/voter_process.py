"""Whether the process of a voter runs, by the probes of its recorded endpoint and by what it does not answer."""

from enum import StrEnum

from rules.analysis.endpoint_status import other_responder
from rules.analysis.freshness import PROBE_AGE
from rules.model.identifiers import Endpoint, NodeId
from rules.model.monitoring import Answer, Connection, ObservationSource, Reason, probe_key
from rules.model.quorum import Quorum

_PROBE_AGE_MS = round(PROBE_AGE.default * 1000)


class VoterProcess(StrEnum):
    """The state of a voter's process, as seen from the monitor's host."""

    DOWN = "down"
    """Its recorded endpoint refuses connections: no process listens there."""
    HUNG = "hung"
    """It accepts connections and does not answer: a long pause, a deadlock, a stopped process or a blocked disk."""
    RUNNING = "running"
    """A node of this cluster answers there."""
    UNKNOWN = "unknown"


def recorded_endpoint(quorum: Quorum, node: NodeId) -> Endpoint | None:
    """Returns the endpoint that the other voters dial; None on a static quorum, or if the node is not a voter."""
    voter = quorum.committed.by_id(node) if quorum.committed else None
    return voter.endpoints[0] if voter and voter.endpoints else None


def voter_process(quorum: Quorum, node: NodeId) -> VoterProcess:
    """Returns the state of a voter's process by the newest probe, unless that is older than 30 s.

    A probe identifies the node only once a minute, so a request to the endpoint that timed out since counts too.
    """
    endpoint = recorded_endpoint(quorum, node)
    probe = quorum.probes.get(probe_key(node, endpoint)) if endpoint else None
    if probe is None or quorum.now_ms - probe.observed_at_ms > _PROBE_AGE_MS:
        return VoterProcess.UNKNOWN
    if probe.connection is Connection.REFUSED:
        return VoterProcess.DOWN
    if probe.connection is not Connection.ACCEPTED or other_responder(probe):
        return VoterProcess.UNKNOWN
    if probe.answer is Answer.NO_ANSWER or _times_out(quorum, str(endpoint)):
        return VoterProcess.HUNG
    return VoterProcess.RUNNING if probe.answer is Answer.THIS_CLUSTER else VoterProcess.UNKNOWN


def _times_out(quorum: Quorum, endpoint: str) -> bool:
    return any(
        each.endpoint == endpoint
        and each.reason is Reason.TIMED_OUT
        and each.source is not ObservationSource.PROBE
        and quorum.now_ms - each.last_at_ms <= _PROBE_AGE_MS
        for each in quorum.failures
    )
