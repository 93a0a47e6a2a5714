"""Whether the proposed endpoints lead to the controllers that they name: `rescue plan` probes them without a list.

A node does not report its directory id. It reports its node id, and whether it is of this cluster.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from connectors.gather.endpoint_probe import probe_once
from connectors.gather.node_directory import ProbeTarget
from connectors.kafka.cluster_connection import ClusterConnection
from connectors.observations.observation import EndpointProbed
from rules.finding import Plain
from rules.model.identifiers import Endpoint, NodeId
from rules.model.membership import Voter
from rules.model.monitoring import Answer, Connection, Resolution
from streaming.rescue.rescue_plan import RescuePlan

WITHIN_S: Final = 5.0
"""All endpoints are probed at the same time, and no longer than this."""
_CONNECT_MS: Final = 2_000


class EndpointResult(StrEnum):
    """What answers at a proposed endpoint."""

    AS_PROPOSED = "as-proposed"
    """The controller that the list names."""
    ANOTHER = "another"
    """Something else: the list is wrong there."""
    NO_ANSWER = "no-answer"
    """Nothing: normal while the controller is stopped."""
    NOT_IDENTIFIED = "not-identified"
    """Something that does not report which node it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedEndpoint:
    """One proposed endpoint."""

    node: NodeId
    endpoint: Endpoint
    result: EndpointResult
    text: str
    """The result as a sentence without its end."""

    def as_json(self) -> dict[str, Plain]:
        """Returns an item of `probes` in `rescue plan --json`."""
        return {
            "node_id": self.node,
            "endpoint": str(self.endpoint),
            "result": self.result.value,
            "text": self.text,
        }


def proposal(plan: RescuePlan) -> tuple[Voter, ...]:
    """Returns the voters that a plan without a list proposes: as registered, else as recorded; none with a list."""
    if plan.provided is not None:
        return ()
    return plan.proposed or (plan.survival.voters.voters if plan.survival is not None else ())


def probed_endpoints(
    voters: Sequence[Voter], cluster_id: str | None, *, say: Callable[[str], None], within_s: float = WITHIN_S
) -> tuple[ProbedEndpoint, ...]:
    """Probes the first endpoint of each voter."""
    targets = [ProbeTarget(node=voter.key.id, endpoint=voter.endpoints[0]) for voter in voters if voter.endpoints]
    if not targets:
        return ()
    cluster = ClusterConnection(
        name="rescue",
        bootstrap=tuple((one.endpoint.host, one.endpoint.port) for one in targets),
        cluster_id=cluster_id,
        request_timeout_ms=_CONNECT_MS,
    )
    say(f"probing {len(targets)} endpoints for up to {within_s:g} s; --no-probe leaves this out")
    found = probe_once(cluster, targets, within_s=within_s)
    results = ((target, *_result(target.node, found.get(target))) for target in targets)
    return tuple(
        ProbedEndpoint(
            node=target.node, endpoint=target.endpoint, result=result, text=f"{target.endpoint} of {target.node} {text}"
        )
        for target, result, text in results
    )


def _result(node: NodeId, probe: EndpointProbed | None) -> tuple[EndpointResult, str]:
    stopped = "normal while the controller is stopped"
    if probe is None:
        return EndpointResult.NO_ANSWER, "does not answer in time"
    match probe.resolution:
        case Resolution.NAME_NOT_FOUND:
            return EndpointResult.NO_ANSWER, "does not resolve on this host: no other node could reach it either"
        case Resolution.RESOLVER_FAILED:
            return EndpointResult.NO_ANSWER, "was not probed: the resolver of this host failed"
        case Resolution.RESOLVED:
            pass
    match probe.connection:
        case Connection.REFUSED:
            return EndpointResult.NO_ANSWER, f"refuses connections: {stopped}"
        case Connection.TIMED_OUT | Connection.UNREACHABLE | Connection.NOT_TRIED:
            return EndpointResult.NO_ANSWER, f"does not answer: {stopped} or its host is down"
        case Connection.ACCEPTED:
            return _answer(node, probe)


def _answer(node: NodeId, probe: EndpointProbed) -> tuple[EndpointResult, str]:
    match probe.answer:
        case Answer.THIS_CLUSTER if probe.answered_by == node:
            return EndpointResult.AS_PROPOSED, f"answers as node {node} of this cluster, as it should"
        case Answer.THIS_CLUSTER:
            return EndpointResult.NOT_IDENTIFIED, "answers as a node of this cluster; which one is unknown"
        case Answer.OTHER_NODE:
            which = "another node" if probe.answered_by is None else f"node {probe.answered_by}"
            return EndpointResult.ANOTHER, f"answers as {which}: do not use this endpoint"
        case Answer.OTHER_CLUSTER:
            return EndpointResult.ANOTHER, "answers as a node of another cluster: do not use this endpoint"
        case Answer.NOT_KAFKA:
            return EndpointResult.ANOTHER, "is served by something that does not speak Kafka: do not use this endpoint"
        case Answer.NOT_ALLOWED:
            return EndpointResult.NOT_IDENTIFIED, "answers, and wants TLS or a login: which node it is is unknown"
        case Answer.NO_ANSWER | Answer.NOT_ASKED:
            return EndpointResult.NOT_IDENTIFIED, "accepts connections and does not answer"
