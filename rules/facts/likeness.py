"""Likeness: what shows that the controllers accept each other, other than that they accept the monitor.

A node that answers the monitor may reject its peers: they use another login, trust other authorities and agree on other
cipher suites. Three things are known of them. A leader that a majority follows is dialled by them: they accept each
other. Who presents and is configured with the same as that leader is accepted as it is. And who has granted the vote by
which a leader was elected, since it started and changed its certificate, has been dialled with what it has now
(LeaderChangeMessage.GrantingVoters). That others were elected shows nothing: a voter that rejects BeginQuorumEpoch
learns who leads from the answer to its own Fetch.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rules.facts.node import NodeFacts, Nodes
from rules.formatting import and_join, utc_text
from rules.model.ages import CONTROLLER_REGISTERS_MS, STARTED_LATELY_MS
from rules.model.identifiers import Millis, NodeId
from rules.model.membership import majority
from rules.model.monitoring import COMPARED_SETTINGS, HIDDEN, ServerCertificate
from rules.model.quorum import Quorum

_CERTIFICATE = ("presents a certificate", "present one")
_FURTHER = ("presents its certificate", "present theirs")
_VERBS: Mapping[str, tuple[str, str]] = {
    "authority": _CERTIFICATE,
    "key": _CERTIFICATE,
    "usages": _CERTIFICATE,
    "chain": _FURTHER,
    "suite": ("answers", "answer"),
}
"""What a voter does with each property that is compared, and what others do; they have a setting."""


class Unshown(NamedTuple):
    """Why it is not known whether a voter and the others accept each other, as the rest of a sentence about it."""

    node: NodeId
    why: str


def unlike(nodes: Nodes) -> Iterator[Unshown]:
    """Yields the voters that present, or are configured with, another thing than a leader that is followed.

    Without such a leader: another one than most voters, or of two that are as frequent than the leader.
    """
    quorum = nodes.quorum
    followed = quorum.leader_id if _is_followed(nodes) else None
    compared = {node: _compared(nodes[node]) for node in sorted(quorum.voting_ids & nodes.keys())}
    found = set[NodeId]()
    for name in dict.fromkeys(name for of_node in compared.values() for name in of_node):
        values = {node: of_node[name] for node, of_node in compared.items() if name in of_node}
        most = None if followed is None else values.get(followed)
        most = most or most_frequent(values, quorum.leader_id)
        one_does, others_do = _VERBS.get(name, ("has", "have"))
        for node, value in values.items():
            if value != most and node not in found:
                found.add(node)
                yield Unshown(node, f"{one_does} {value}, others {others_do} {most}")


def untried(nodes: Nodes) -> Iterator[Unshown]:
    """Yields the controllers that no other one is known to have dialled since they started or changed.

    Also those without a vote: a voter that starts may ask one of them who leads, and ends if it denies that. For ten
    minutes: a roll of restarts is over then. After that nothing shows it either, and the answers say from where it is
    seen.
    """
    quorum = nodes.quorum
    newest_ms = quorum.newest_timestamp_ms
    if quorum.access.anonymous or nodes.poll is None or newest_ms is None:
        return
    opened = quorum.open_transaction
    starts = {start.id: start for start in (*quorum.history.starts, *(opened.starts if opened else ()))}
    for node in sorted(nodes.keys()):
        start, changed_ms = starts.get(node), _certificate_since_ms(nodes[node])
        if changed_ms is not None and _is_later(quorum.now_ms - changed_ms, _since_vote_ms(quorum, node)):
            yield Unshown(node, f"presents another certificate since {utc_text(changed_ms)}{_NOT_DIALLED}")
        elif start is not None and _is_later(
            newest_ms - start.timestamp_ms, _since_vote_ms(quorum, node, formed=start.replaced_incarnation_id is None)
        ):
            yield Unshown(node, f"registered after a start at {utc_text(start.timestamp_ms)}{_NOT_DIALLED}")


_NOT_DIALLED = (
    ", and no leader was elected by its vote since: nothing shows that it accepts the other controllers, whose login "
    "is not the monitor's"
)


def _is_later(age_ms: int, since_vote: int | None) -> bool:
    return age_ms <= STARTED_LATELY_MS and (since_vote is None or age_ms < since_vote)


def _is_followed(nodes: Nodes) -> bool:
    """Returns whether a majority follows the leader by connections to what it presents now."""
    quorum, poll = nodes.quorum, nodes.poll
    if poll is None or poll.leader_id not in nodes or quorum.leader_id != poll.leader_id:
        return False
    follow = sum(voter.following.fetches for voter in nodes.polled_voters if voter.id != poll.leader_id)
    if 1 + follow < majority(len(poll.voters)):
        return False
    changed_ms, since_vote = _certificate_since_ms(nodes[poll.leader_id]), _since_vote_ms(quorum, poll.leader_id)
    return changed_ms is None or (since_vote is not None and since_vote < quorum.now_ms - changed_ms)


def _since_vote_ms(quorum: Quorum, node: NodeId, *, formed: bool = False) -> int | None:
    """Returns how long ago this node was last elected, or a leader by its vote; None if never.

    It is an age, because the log has the clock of the controllers. A vote before the registration may be that of the
    process before. `formed`: it is the first process of this node. The quorum's first election, after which all
    register, counts for it.
    """
    newest_ms = quorum.newest_timestamp_ms
    voted_ms = [
        one.timestamp_ms for one in quorum.history.elections if node in {one.leader_id, *one.granting_voter_ids}
    ]
    if formed:
        voted_ms += [
            Millis(one.timestamp_ms + CONTROLLER_REGISTERS_MS)
            for one in quorum.history.elections
            if one.previous_leader_id is None
        ]
    return newest_ms - max(voted_ms) if newest_ms is not None and voted_ms else None


def _certificate_since_ms(node: NodeFacts) -> Millis | None:
    return None if node.probe is None else node.probe.certificate_since_ms


def _compared(node: NodeFacts) -> Mapping[str, str]:
    """Returns what is compared of a voter, in words, as far as it is known, in the order of its importance."""
    probe = node.probe
    if probe is None:
        return {}
    presented = {} if probe.certificate is None else _presented(probe.certificate)
    settings = {} if probe.settings is None else {name: _setting(probe.settings, name) for name in COMPARED_SETTINGS}
    return presented | settings


def _presented(certificate: ServerCertificate) -> dict[str, str]:
    known = {} if certificate.authority is None else {"authority": f"of {certificate.authority}"}
    if certificate.key is None:
        return known
    uses = f"for use as {and_join(certificate.usages)}" if certificate.usages else "for any use"
    further = f"with further ones, issued by {and_join(certificate.chain)}" if certificate.chain else "alone"
    return known | {
        "key": f"with a key {certificate.key}",
        "usages": uses,
        "chain": further,
        "suite": f"by {certificate.suite}",
    }


def _setting(settings: Mapping[str, str], name: str) -> str:
    value = settings.get(name)
    return f"no {name}" if not value else name if value == HIDDEN else f"{name}={value}"


def most_frequent(values: Mapping[NodeId, str], leader: NodeId | None) -> str | None:
    """Returns what most voters have; of two that are as frequent, the leader's."""
    counts, leaders = Counter(values.values()), None if leader is None else values.get(leader)
    return max(sorted(counts), key=lambda name: (counts[name], name == leaders), default=None)
