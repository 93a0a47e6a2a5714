"""What is known of a voter that does not fetch: whether its process runs, and its recorded endpoint."""

from collections.abc import Mapping

from rules.facts.endpoint_text import faults_text
from rules.facts.following import Following, fetching_replacement, following, same_replica
from rules.facts.freshness import fresh_views
from rules.facts.node import Nodes
from rules.model.identifiers import Endpoint, NodeId, ReplicaKey
from rules.model.quorum import Quorum


def recorded_endpoint(quorum: Quorum, node: NodeId) -> Endpoint | None:
    """Returns the endpoint that the other voters dial; None on a static quorum, or if the node is not a voter."""
    voter = quorum.voter(node)
    return voter.endpoint if voter else None


def replaced_disks(nodes: Nodes) -> Mapping[NodeId, ReplicaKey]:
    """Returns the voters that run with another disk, by node id: the one that the newest poll listed instead, or with
    which it leads another quorum.

    Such a controller has no vote: a vote is that of a node id and a directory id (KIP-853).
    """
    quorum = nodes.quorum
    if nodes.dialled is None:
        return {}
    voters = {voter.key.id: voter.key for voter in nodes.dialled.voters}
    poll = quorum.poll
    missing = [key for key in voters.values() if following(quorum, poll, key) is Following.NOT_FETCHING]
    found = {key.id: fetching_replacement(quorum, poll, key) for key in missing}
    found |= {
        key.id: key
        for view in fresh_views(quorum)
        for key in view.other_voters
        if key.id == view.node and key.id in voters and not same_replica(key, voters[key.id])
    }
    return {node: key for node, key in found.items() if key is not None}


def endpoint_sentence(nodes: Nodes, node: NodeId) -> str:
    """Returns what is wrong with the voter's recorded endpoint, after a space; empty if no fault is known."""
    facts = nodes.get(node) if nodes.quorum.voter(node) else None
    return f" Its recorded endpoint {facts.endpoint} {faults_text(facts)}." if facts and facts.faults else ""
