"""What shows whether a voter of a static quorum (kraft.version 0) takes part by its own controller.quorum.voters.

From Kafka 3.9 on a controller also runs with controller.quorum.bootstrap.servers alone. In a static quorum it is an
observer then: it fetches with the id of a voter, so the leader counts it, but it is no candidate, and it refuses every
pre-vote for as long as it knows a leader, also one that is down (KIP-996). It does not find the active controller, so
it does not register. Seen with Kafka 4.3.1: no leader is elected without the only other voter.
"""

import re
from collections.abc import Mapping

from rules.facts.freshness import fresh_poll
from rules.facts.node import Nodes
from rules.formatting import utc_text
from rules.model.ages import REGISTERS_MS
from rules.model.identifiers import Millis, NodeId
from rules.model.membership import majority
from rules.model.quorum import Quorum

WITHOUT_LIST = "has an empty controller.quorum.voters"
_VOTER = re.compile(r"(?P<id>[0-9]{1,10})(@.+:(?P<port>[0-9]{1,5}))?", re.DOTALL)


def listed_voters(text: str) -> frozenset[tuple[NodeId, int]]:
    """Returns id and port of each voter in a list such as `1@c1:9093,2@c2:9093`; a host has several names.

    The port of a voter without an address, as in `1,2,3`, is 0.
    """
    found = (_VOTER.fullmatch(each.strip()) for each in text.split(","))
    return frozenset((NodeId(int(each["id"])), int(each["port"] or 0)) for each in found if each)


def voter_lists(quorum: Quorum) -> Mapping[NodeId, str]:
    """Returns controller.quorum.voters of each controller of a static quorum that has one and is known, by node id.

    The leader's answer shows by which voters it leads: their ids stand for its list, where that is not known and
    another list has other voters. Empty without a current poll.
    """
    poll = fresh_poll(quorum)
    if quorum.kraft_version != 0 or poll is None:
        return {}
    lists = {
        probe.node: probe.quorum_voters
        for _, probe in sorted(quorum.probes.items())
        if probe.quorum_voters and quorum.is_current(probe.observed_at_ms, quorum.ages.probe_ms)
    }
    led = poll.voter_ids
    if poll.leader_id not in lists and any(_ids(text) != led for text in lists.values()):
        lists[poll.leader_id] = ",".join(map(str, sorted(led)))
    return lists


def two_majorities(lists: Mapping[NodeId, str]) -> bool:
    """Returns whether two majorities without a common voter are possible, because controllers have different lists."""
    ids = {_ids(text) for text in lists.values()}
    return any(majority(len(one)) + majority(len(other)) <= len(one | other) for one in ids for other in ids - {one})


def _ids(text: str) -> frozenset[NodeId]:
    return frozenset(node for node, _ in listed_voters(text))


def without_list(nodes: Nodes) -> frozenset[NodeId]:
    """Returns the voters of a static quorum that answer that their own list is empty."""
    return frozenset(node for node in _voters(nodes.quorum) if _own_list(nodes, node) == "")


def with_doubtful_list(nodes: Nodes) -> Mapping[NodeId, str]:
    """Returns the voters of a static quorum that may not vote as the leader counts, and why: by another list, or maybe
    by none, where it is not known.
    """
    quorum = nodes.quorum
    voters, found = _voters(quorum), {}
    for node in voters - {quorum.poll.leader_id if quorum.poll else None}:
        own, started_ms = _own_list(nodes, node), unregistered_since(nodes, node)
        if own and _ids(own) != voters:
            found[node] = "has another controller.quorum.voters than the leader"
        elif own is None and started_ms is not None:
            found[node] = (
                f"has not registered since its start, seen at {utc_text(started_ms)}: its controller.quorum.voters may "
                "be empty"
            )
    return found


def unregistered_since(nodes: Nodes, node: NodeId) -> Millis | None:
    """Returns when the process of a controller was last seen to start, if it has not registered since; else None."""
    quorum = nodes.quorum
    probe, registration = nodes[node].probe, quorum.controllers.get(node)
    newest, started_ms = quorum.newest_timestamp_ms, max(probe.returned_at_ms, default=None) if probe else None
    if registration is None or newest is None or started_ms is None:
        return None
    # Ages, because one is of the log's clock and the other of the monitor's.
    running, registered = quorum.now_ms - started_ms, newest - registration.at.timestamp_ms
    return started_ms if running > REGISTERS_MS and registered - running > REGISTERS_MS else None


def _voters(quorum: Quorum) -> frozenset[NodeId]:
    if quorum.kraft_version != 0 or quorum.poll is None:
        return frozenset()
    return quorum.poll.voter_ids


def _own_list(nodes: Nodes, node: NodeId) -> str | None:
    probe = nodes[node].probe
    return None if probe is None else probe.quorum_voters
