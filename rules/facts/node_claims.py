"""What the facts of the nodes claim: how a voter follows, what answers at its endpoint, who leads."""

from collections.abc import Iterable, Mapping
from functools import partial

from rules.claims.claim import NO, YES, At, Claim, Follows, Question, claim
from rules.facts.endpoint import EndpointFault, EndpointVerdict
from rules.facts.following import Following
from rules.facts.node import NodeFacts, Nodes
from rules.model.identifiers import Millis
from rules.model.monitoring import ConnectionResult, ProbeAnswer, Resolution

_FOLLOWS: Mapping[Following, Follows] = {
    Following.IN_SYNC: Follows.IN_SYNC,
    Following.LAGGING: Follows.LAGGING,
    Following.NOT_FETCHING: Follows.NOT_FETCHING,
    Following.UNKNOWN: Follows.NOT_FETCHING,
}
"""A voter that a current poll lists and of which it shows no fetch does not fetch."""
_AT: Mapping[EndpointFault, tuple[At, ...]] = {
    EndpointFault.NAME_NOT_FOUND: (At.UNRESOLVED,),
    EndpointFault.OTHER_RESPONDER: (At.OTHER,),
    EndpointFault.REFUSED_WHILE_FETCHING: (At.REFUSES,),
    EndpointFault.NOT_SERVING: (At.HANGS, At.UNREACHED),
}
"""What a fault says of what answers there."""


def in_sync_count(voters: Iterable[NodeFacts]) -> int:
    """Returns how many of the voters are in sync."""
    return sum(voter.following is Following.IN_SYNC for voter in voters)


def in_sync_claim(nodes: Nodes) -> Claim:
    """Returns the claim how many voters of the newest poll are in sync."""
    voters = nodes.polled_voters
    return claim(Question.IN_SYNC, in_sync_count(voters), of=len(voters), observed_at_ms=_polled_ms(nodes))


def leader_claim(nodes: Nodes) -> Claim:
    """Returns the claim who leads, by the newest poll."""
    answer = () if nodes.poll is None else (nodes.poll.leader_id,)
    return claim(Question.LEADER, *answer, observed_at_ms=_polled_ms(nodes))


def follows_claim(nodes: Nodes, voter: NodeFacts) -> Claim:
    """Returns the claim how a voter follows, by the newest poll."""
    return claim(Question.FOLLOWS, _FOLLOWS[voter.following], node=voter.id, observed_at_ms=_polled_ms(nodes))


def fault_claims(node: NodeFacts) -> tuple[Claim, ...]:
    """Returns what the known faults of a voter's endpoint claim: the others do not reach it there. None without one."""
    of_node = partial(claim, node=node.id, observed_at_ms=_probed_ms(node))
    claims = [of_node(Question.REACHES, NO)] if node.faults else []
    claims += [of_node(Question.ENDPOINT, *_AT[fault]) for fault in node.faults if fault in _AT]
    claims += [] if node.can_lead else [of_node(Question.VOTES, NO)]
    return tuple(claims)


def answers_claim(node: NodeFacts) -> tuple[Claim, ...]:
    """Returns the claim what answers at a voter's endpoint, by the newest probe; none if that is not known."""
    found = _answers(node)
    return (claim(Question.ENDPOINT, *found, node=node.id, observed_at_ms=_probed_ms(node)),) if found else ()


def _answers(node: NodeFacts) -> tuple[At, ...]:
    probe = node.probe
    if probe is None or probe.resolution is Resolution.RESOLVER_FAILED:
        return ()
    if probe.resolution is Resolution.NAME_NOT_FOUND:
        return (At.UNRESOLVED,)
    if probe.connection is ConnectionResult.REFUSED:
        return (At.REFUSES,)
    if probe.connection in (ConnectionResult.TIMED_OUT, ConnectionResult.UNREACHABLE):
        return (At.UNREACHED, At.HANGS)
    if probe.connection is not ConnectionResult.ACCEPTED or probe.certificate_fault is not None:
        return ()
    if probe.served_by_another:
        return (At.OTHER,)
    # A probe identifies the node every half minute only: it may have begun to hang since.
    return (At.HANGS,) if probe.answer is ProbeAnswer.NO_ANSWER else (At.LISTENS, At.HANGS)


def reached_claim(node: NodeFacts) -> tuple[Claim, ...]:
    """Returns the claim whether the others reach a voter at its endpoint; none if that is not known."""
    if node.endpoint_verdict is EndpointVerdict.UNKNOWN:
        return ()
    answer = YES if node.endpoint_verdict is EndpointVerdict.OK else NO
    return (claim(Question.REACHES, answer, node=node.id, observed_at_ms=_probed_ms(node)),)


def _polled_ms(nodes: Nodes) -> Millis | None:
    return None if nodes.poll is None else nodes.poll.observed_at_ms


def _probed_ms(node: NodeFacts) -> Millis | None:
    return None if node.probe is None else node.probe.observed_at_ms
