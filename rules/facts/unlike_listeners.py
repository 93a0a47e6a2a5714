"""The voters whose listeners are not those of the others: after a restart they cannot connect to each other.

A controller dials the others by the name of its own first listener, with its own protocol. VotersRecord and
registrations name the listeners of each voter, registrations also their security protocols.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rules.facts.likeness import most_frequent
from rules.facts.node import Nodes
from rules.finding import Plain
from rules.formatting import and_join
from rules.model.identifiers import NodeId, at_listener
from rules.model.membership import Voter, VoterSet
from rules.model.quorum import Quorum


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlikeListener:
    """One voter that others cannot dial, or that cannot dial others, after a restart."""

    voter: Voter
    why: str
    """What differs, as the rest of a sentence about the voter."""
    consequence: str
    """Who cannot connect to whom, as a sentence."""
    keep_running: frozenset[NodeId]
    """The voters that must not restart with the settings that they have."""
    details: Mapping[str, Plain] = field(default_factory=dict)
    """The names and protocols that were compared."""


def unlike_listeners(nodes: Nodes) -> tuple[UnlikeListener, ...]:
    """Returns the voters that differ from the most, by node id; none if their endpoints are not known."""
    return () if nodes.dialled is None else tuple(_listeners(nodes.quorum, nodes.dialled))


def _listeners(quorum: Quorum, committed: VoterSet) -> Iterator[UnlikeListener]:
    dialled = {voter.key.id: name for voter in committed.voters if (name := _dialled(quorum, voter)) is not None}
    leader = quorum.leader_id
    usual = most_frequent(dialled, leader)
    usual_protocols = {name: most_frequent(_protocols(quorum, committed, name), leader) for name in {*dialled.values()}}
    for voter in sorted(committed.voters, key=lambda voter: voter.key.id):
        node, recorded = voter.key.id, voter.endpoint
        registration = quorum.controllers.get(node)
        if registration is None or recorded is None:
            continue
        if at_listener(registration.endpoints, recorded.listener) is None:
            yield UnlikeListener(
                voter=voter,
                why=f"is recorded with listener {recorded.listener}, which its registration does not have",
                consequence="Other voters cannot dial it after a restart.",
                keep_running=committed.ids - {node},
                details=_names(quorum, node),
            )
            continue
        own = dialled.get(node, usual)
        if usual is not None and at_listener(registration.endpoints, usual) is None:
            yield _not_dialled(quorum, voter, usual, [one for one, name in dialled.items() if name == usual])
        elif own is not None and own != usual and (lacking := _without(quorum, committed, own)):
            yield _dials_in_vain(quorum, voter, own, lacking)
        else:
            different = (
                (endpoint, protocol)
                for name, protocol in sorted(usual_protocols.items())
                if (endpoint := at_listener(registration.endpoints, name)) and endpoint.protocol and protocol
            )
            found = next((one for one in different if one[0].protocol != one[1]), None)
            if found is not None:
                endpoint, usual_protocol = found
                protocols = sorted(_protocols(quorum, committed, endpoint.listener).items())
                yield UnlikeListener(
                    voter=voter,
                    why=f"registered listener {endpoint.listener} with protocol {endpoint.protocol}, other voters with "
                    f"{usual_protocol}",
                    consequence="They cannot connect to each other after a restart.",
                    keep_running=committed.ids,
                    details={"registered_protocols": {str(one): protocol for one, protocol in protocols}},
                )


def _dialled(quorum: Quorum, voter: Voter) -> str | None:
    """Returns the name of the listener at which a controller dials the others, in capitals; None if it is not known.

    It is the first one of a registration in the log. A registration in a snapshot does not keep the order.
    """
    registration = quorum.controllers.get(voter.key.id)
    if voter.endpoint is None or registration is None:
        return None
    known = len(registration.endpoints) == 1 or not registration.at.snapshot
    return voter.endpoint.listener.upper() if known else None


def _without(quorum: Quorum, committed: VoterSet, listener: str) -> list[NodeId]:
    registered = {node: registration.endpoints for node, registration in quorum.controllers.items()}
    return sorted(
        voter.key.id
        for voter in committed.voters
        if at_listener(registered.get(voter.key.id, voter.endpoints), listener) is None
    )


def _protocols(quorum: Quorum, committed: VoterSet, listener: str) -> dict[NodeId, str]:
    """Returns the protocol with which each voter registered a listener of this name."""
    registrations = [registration for node, registration in sorted(quorum.controllers.items()) if node in committed.ids]
    found = {registration.id: at_listener(registration.endpoints, listener) for registration in registrations}
    return {node: endpoint.protocol for node, endpoint in found.items() if endpoint is not None and endpoint.protocol}


def _not_dialled(quorum: Quorum, voter: Voter, listener: str, by: list[NodeId]) -> UnlikeListener:
    voters = f"voter {by[0]} dials" if len(by) == 1 else f"voters {and_join(sorted(by))} dial"
    return UnlikeListener(
        voter=voter,
        why=f"has no listener {listener}, which {voters}",
        consequence="They cannot connect to it after a restart.",
        keep_running=quorum.voting_ids - {voter.key.id},
        details={"dialled_listener": listener, "dialled_by": [*sorted(by)], **_names(quorum, voter.key.id)},
    )


def _dials_in_vain(quorum: Quorum, voter: Voter, listener: str, lacking: list[NodeId]) -> UnlikeListener:
    have, them = f"voter {lacking[0]} does not", f"voter {lacking[0]}"
    if len(lacking) > 1:
        have, them = f"voters {and_join(lacking)} do not", "them"
    return UnlikeListener(
        voter=voter,
        why=f"dials listener {listener}, which {have} have",
        consequence=f"It cannot connect to {them} after a restart.",
        keep_running=frozenset({voter.key.id}),
        details={"dialled_listener": listener, "voters_without_it": [*lacking], **_names(quorum, voter.key.id)},
    )


def _names(quorum: Quorum, node: NodeId) -> dict[str, Plain]:
    return {
        "registered_listeners": [
            f"{endpoint.listener} at {endpoint}" for endpoint in quorum.controllers[node].endpoints
        ]
    }
