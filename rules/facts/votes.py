"""Which voters count for a majority now: in sync, with a vote, and served where the others dial them."""

from collections import Counter
from collections.abc import Mapping

from rules.facts.acceptance import Acceptance, denied_last
from rules.facts.damaged_log import HIDDEN, hides_records
from rules.facts.endpoint_text import doubt_text
from rules.facts.following import Following
from rules.facts.freshness import fresh_poll
from rules.facts.leadership import disagreeing_views, leaderless
from rules.facts.missing_voter import replaced_disks
from rules.facts.node import Nodes, Process
from rules.facts.static_voters import WITHOUT_LIST, with_doubtful_list, without_list
from rules.facts.unlike_listeners import unlike_listeners
from rules.model.ages import REGISTERS_MS
from rules.model.identifiers import NodeId
from rules.model.membership import Voter
from rules.model.monitoring import Connection


def without_vote(nodes: Nodes) -> Mapping[NodeId, str]:
    """Returns the voters that grant no vote, however they follow, and why."""
    replaced = {node: f"runs with another disk, {key}" for node, key in replaced_disks(nodes).items()}
    # Below metadata.version 3.7 no controller registers.
    voters = nodes.dialled.voters if nodes.quorum.controllers and nodes.dialled else ()
    brokers = {voter.key.id: "runs no controller" for voter in voters if runs_no_controller(nodes, voter)}
    return {**replaced, **brokers, **dict.fromkeys(without_list(nodes), WITHOUT_LIST)}


def in_doubt(nodes: Nodes) -> Mapping[NodeId, str]:
    """Returns the voters of which it is unknown whether they take part, and why: as the rest of a sentence about each.

    They report another leader, have another list of voters, or are `unlike` the others.
    """
    views = {
        view.node: f"reports {'no leader' if view.leader_id is None else f'leader {view.leader_id}'}"
        if view.this_cluster
        else f"is not the node that answers at {view.endpoint}: that is one of another cluster"
        for view in disagreeing_views(nodes.quorum)
        if view.node is not None
    }
    return {**views, **with_doubtful_list(nodes), **unlike(nodes)}


def unlike(nodes: Nodes) -> Mapping[NodeId, str]:
    """Returns the controllers that the others may not be able to use, and why: as the rest of a sentence about each.

    They do not accept what the monitor sends, while others do, or have another listener, protocol or certificate
    authority.
    """
    listeners = {listener.voter.key.id: listener.why for listener in unlike_listeners(nodes)}
    alike = not any(controller.answers_monitor for controller in nodes.values())
    rejecting = {} if alike else _not_accepting(nodes)
    return {**_unlike_authorities(nodes), **listeners, **rejecting}


def unproved(nodes: Nodes) -> Mapping[NodeId, str]:
    """Returns the same, controllers that all reject the monitor alike, and those whose registration may be hidden.

    Whether they accept what the others send is not known then; that the others fetch shows it of the leader alone.
    """
    return {**_hidden(nodes), **_not_accepting(nodes), **unlike(nodes)}


def _hidden(nodes: Nodes) -> Mapping[NodeId, str]:
    """Returns the voters that are not registered and do not answer, while a part of the log is hidden."""
    quorum = nodes.quorum
    voters = nodes.dialled.voters if quorum.controllers and nodes.dialled and hides_records(quorum) else ()
    unregistered = (voter.key.id for voter in voters if voter.key.id not in quorum.controllers)
    return {node: HIDDEN for node in unregistered if nodes.process(node) is not Process.RUNNING}


def _not_accepting(nodes: Nodes) -> dict[NodeId, str]:
    return {node: controller.accepts.why for node, controller in nodes.items() if controller.accepts.why}


def denying(nodes: Nodes) -> frozenset[NodeId]:
    """Returns the controllers that may deny what others send: every other one that asks one of them ends."""
    return frozenset(node for node, controller in nodes.items() if controller.accepts.answer is Acceptance.DENIED)


def denied_before_outage(nodes: Nodes) -> Mapping[NodeId, str]:
    """Returns the voters that deny, or denied when they last answered, what others send, while a leader served the log.

    As the rest of a sentence about each. A controller that one of them denies ends, so it is why no election is won.
    """
    if nodes.quorum.log_fetched_at_ms is None:
        return {}
    voting, now = nodes.quorum.voting_ids, denying(nodes)
    said = {
        node: controller.accepts.why if node in now else denied_last(controller) for node, controller in nodes.items()
    }
    return {node: why for node, why in said.items() if why and node in voting}


def _unlike_authorities(nodes: Nodes) -> Mapping[NodeId, str]:
    """Returns the voters whose certificate another authority issued than those of most, or of the leader."""
    quorum = nodes.quorum
    voting = quorum.voting_ids
    presented = {
        node: controller.probe.certificate.authority
        for node, controller in nodes.items()
        if node in voting and controller.probe is not None and controller.probe.certificate is not None
    }
    issued = {node: authority for node, authority in presented.items() if authority is not None}
    counts, leaders = Counter(issued.values()), None if quorum.leader_id is None else issued.get(quorum.leader_id)
    usual = max(sorted(counts), key=lambda name: (counts[name], name == leaders), default=None)
    return {
        node: f"presents a certificate of {authority}, others of {usual}: whether they trust each other is not known"
        for node, authority in issued.items()
        if authority != usual
    }


def runs_no_controller(nodes: Nodes, voter: Voter) -> bool:
    """Returns whether a node runs without the controller that has this vote: registered otherwise, or fetching."""
    quorum = nodes.quorum
    node = voter.key.id
    controller, broker = quorum.controllers.get(node), quorum.brokers.get(node)
    if controller is None and hides_records(quorum):
        return False
    if controller is None:
        return broker is not None or nodes[node].following.fetches
    probe = quorum.probe(node, voter.endpoint)
    listens = probe is not None and probe.connection is Connection.ACCEPTED
    return broker is not None and not listens and broker.at.timestamp_ms - controller.at.timestamp_ms > REGISTERS_MS


def voters_that_count(nodes: Nodes) -> frozenset[NodeId] | None:
    """Returns the voters of the leader's latest set that may acknowledge, vote and lead now, as far as that is proved.

    None while nothing current shows it: without a leader, without a current poll, or without its own row in it.
    """
    voting = in_sync_with_vote(nodes)
    return None if voting is None else voting - in_doubt(nodes).keys()


def in_sync_with_vote(nodes: Nodes) -> frozenset[NodeId] | None:
    """Returns the voters that are in sync, have a vote and serve connections, those in doubt with them."""
    poll = fresh_poll(nodes.quorum)
    if poll is None or poll.leader is None or leaderless(nodes) is not None:
        return None
    lost = {*without_vote(nodes), *(voter.id for voter in nodes.voters if not voter.can_lead)}
    in_sync = {row.key.id for row in poll.voters if nodes[row.key.id].following is Following.IN_SYNC}
    return frozenset(in_sync - lost)


def doubtful(nodes: Nodes) -> Mapping[NodeId, str]:
    """Returns the voters of which it is unknown whether others reach them, or they take part, and why."""
    unknown = {**unproved(nodes), **in_doubt(nodes)}
    found = {node: f"it {why}" for node, why in unknown.items()}
    for voter in nodes.voters:
        if voter.unanswered:
            found[voter.id] = "no new connection of the monitor is answered"
        elif voter.unverified:
            found[voter.id] = "the monitor does not accept the certificate"
        elif not voter.faults and (why := doubt_text(voter)) is not None:
            found[voter.id] = why
    return found
