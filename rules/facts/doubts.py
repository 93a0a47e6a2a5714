"""Doubts: what is not known of a controller, each with its reason and with the one thing to do to find out.

A doubt proves neither that the controller takes part in the quorum nor that it does not. What is known against one is
no doubt: an endpoint that does not reach it, another disk, a list without voters (`Facts.without_vote`).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum, unique

from rules.facts.acceptance import Acceptance, denied_last
from rules.facts.damaged_log import HIDDEN
from rules.facts.endpoint_text import doubt_text, find_out_text
from rules.facts.likeness import unlike, untried
from rules.facts.node import NodeFacts, Nodes, Process
from rules.facts.static_voters import WITHOUT_LIST
from rules.facts.unlike_listeners import UnlikeListener
from rules.facts.unreplayable import ReplayEnd
from rules.model.ages import REGISTERS_MS
from rules.model.identifiers import NodeId, ReplicaKey
from rules.model.membership import Voter
from rules.model.monitoring import ConnectionResult, LeaderView, Reason
from rules.model.quorum import Quorum

COMPARE = (
    "compare the listeners, certificates, logins, authorizer.class.name and super.users of the controllers: the log of "
    "each names whom it rejects"
)
"""How to find out whether a controller that is unlike the others accepts what they send."""


@unique
class About(IntEnum):
    """What a doubt is about, the most important first."""

    ENDPOINT = 0
    """Whether the others reach it where they dial it, or accept its certificate."""
    ACCEPTS_LESS = 1
    """It rejects the monitor, which other controllers answer."""
    LISTENER = 2
    """Its listeners are not those of the others."""
    UNLIKE_OTHERS = 3
    """It presents another kind of certificate than the others, or has other settings."""
    UNTRIED = 4
    """It has started or changed its certificate, and no other controller has dialled it since."""
    LIST = 5
    """It may count votes by another list of voters."""
    VIEW = 6
    """It reports another leader, or none."""
    ACCEPTS = 7
    """All controllers reject the monitor alike: that others fetch shows of the leader alone that it accepts them."""
    TIMERS = 8
    """It may not notice that the leader is lost: its clock may have been set back."""
    HIDDEN = 9
    """Its registration may be in a damaged part of the log."""
    START = 10
    """It may begin with a snapshot before a record that Kafka cannot replay. It runs on: only a start is in doubt."""


UNLIKE = frozenset({About.ACCEPTS_LESS, About.LISTENER, About.UNLIKE_OTHERS})
"""The others may not be able to use it: it does not accept what the monitor sends, while others do, or has another
listener, certificate or setting."""
IN_DOUBT = frozenset({*UNLIKE, About.LIST, About.VIEW})
"""It may not take part now: neither that it votes nor that the others fetch from it is known, although it fetches."""
_SHOWN_BY_PEERS = frozenset({About.ACCEPTS_LESS, About.UNLIKE_OTHERS, About.UNTRIED, About.ACCEPTS})
"""Whether the others can use it: their own dials show it, whatever the monitor sees."""
UNPROVED = frozenset({*UNLIKE, About.UNTRIED, About.ACCEPTS, About.HIDDEN})
"""Nothing shows that it accepts what the others send, or that it has a vote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """What is not known of one controller."""

    node: NodeId
    about: About
    why: str
    """Why it is not known: the rest of a sentence about the controller; of an endpoint, a sentence of its own."""
    find_out: str
    """The one thing to do to find out, as the end of a sentence."""
    detail: str = ""
    """Of an endpoint: why, with its address. Of a voter that is unlike the others: what differs."""
    denies: bool = False
    """Whether its authorizer may deny what the others send: each controller that it denies ends."""

    @property
    def clause(self) -> str:
        """Why it is not known, with a subject."""
        return self.why if self.about is About.ENDPOINT else f"it {self.why}"


def of_start(end: ReplayEnd | None, node: NodeId) -> Doubt | None:
    """Returns the doubt about a start of this controller; None without one."""
    if end is None or end.lasts or node in end.past:
        return None
    return Doubt(
        node=node,
        about=About.START,
        why=f"may have no snapshot past {end.short}, which Kafka cannot replay: then its start ends",
        find_out="look for a .checkpoint that ends after it in its __cluster_metadata-0",
    )


def doubts(
    nodes: Nodes,
    *,
    views: Collection[LeaderView],
    lists: Mapping[NodeId, str],
    listeners: Collection[UnlikeListener],
    timers: Mapping[NodeId, str],
    hides_records: bool,
    dialled_by_all: Collection[NodeId],
) -> Mapping[NodeId, tuple[Doubt, ...]]:
    """Returns what is not known of each controller, the most important first; one without a doubt is not in it.

    Args:
        nodes: each controller.
        views: what controllers reported that do not follow the only leader of the newest epoch.
        lists: the voters of a static quorum that may not vote as the leader counts, and why.
        listeners: the voters whose listeners are not those of the others.
        timers: the voters whose timers may stand still, and why.
        hides_records: whether damaged batches of the log were skipped.
        dialled_by_all: the voters of which each other voter's host shows whether it reaches them.
    """
    found = [
        *(doubt for voter in nodes.voters if (doubt := _of_endpoint(voter)) is not None),
        *_of_views(views),
        *(_of_list(node, why) for node, why in lists.items()),
        *(Doubt(node=one.voter.key.id, about=About.LISTENER, why=one.why, find_out=COMPARE) for one in listeners),
        *_of_likeness(nodes),
        *_of_acceptance(nodes),
        *_of_timers(timers),
        *(_of_hidden(nodes) if hides_records else ()),
    ]
    by_node: dict[NodeId, list[Doubt]] = {}
    for doubt in sorted(found, key=lambda one: one.about):
        if doubt.about in _SHOWN_BY_PEERS and doubt.node in dialled_by_all:
            continue
        by_node.setdefault(doubt.node, []).append(doubt)
    return {node: tuple(of_node) for node, of_node in sorted(by_node.items())}


def _of_endpoint(voter: NodeFacts) -> Doubt | None:
    detail = None if voter.faults and not voter.unverified else doubt_text(voter)
    if detail is None:
        return None
    why = detail
    if voter.unanswered:
        why = "no new connection of the monitor is answered"
    elif voter.unverified:
        why = "the monitor does not accept the certificate"
    return Doubt(node=voter.id, about=About.ENDPOINT, why=why, find_out=find_out_text(voter), detail=detail)


def _of_views(views: Collection[LeaderView]) -> Iterator[Doubt]:
    for view in views:
        if view.node is None:
            continue
        if view.this_cluster:
            why = f"reports {'no leader' if view.leader_id is None else f'leader {view.leader_id}'}"
            find_out = f"read in the log of controller {view.node} which leader it follows"
        else:
            why = f"is not the node that answers at {view.endpoint}: that is one of another cluster"
            find_out = f"check what {view.endpoint} leads to from another controller's host"
        yield Doubt(node=view.node, about=About.VIEW, why=why, find_out=find_out)


def _of_list(node: NodeId, why: str) -> Doubt:
    find_out = f"compare controller.quorum.voters in the configuration of controller {node} with the leader's"
    return Doubt(node=node, about=About.LIST, why=why, find_out=find_out)


def _of_likeness(nodes: Nodes) -> Iterator[Doubt]:
    for one in unlike(nodes):
        why = f"{one.why}: whether they accept each other is not known"
        yield Doubt(node=one.node, about=About.UNLIKE_OTHERS, why=why, find_out=COMPARE, detail=one.why)
    for one in untried(nodes):
        yield Doubt(
            node=one.node,
            about=About.UNTRIED,
            why=one.why,
            find_out="on the host of another controller, with its properties, run `kafka-configs.sh "
            f"--bootstrap-controller {nodes[one.node].endpoint} --command-config $NODE_PROPERTIES --entity-type "
            f"brokers --entity-name {one.node} --describe`: it must answer without an error",
            denies=True,
        )


def _of_acceptance(nodes: Nodes) -> Iterator[Doubt]:
    """Yields a doubt of each controller that does not accept what the monitor sends; those that deny it among them."""
    alike = not any(controller.answers_monitor for controller in nodes.values())
    for node, controller in nodes.items():
        if not controller.accepts.why:
            continue
        starts = controller.probe is not None and controller.probe.reason is Reason.NOT_READY
        reached = controller.accepts.answer is not Acceptance.UNKNOWN
        yield Doubt(
            node=node,
            about=About.ACCEPTS if alike else About.ACCEPTS_LESS,
            why=controller.accepts.why,
            find_out=COMPARE if reached else _WAIT if starts else _LOOK_FROM_INSIDE,
            denies=controller.accepts.answer is Acceptance.DENIED,
        )


_WAIT = "wait until its start is complete"
_LOOK_FROM_INSIDE = "run `kraftwatch check` on a host in the network of the controllers"


def _of_timers(timers: Mapping[NodeId, str]) -> Iterator[Doubt]:
    for node, why in timers.items():
        find_out = (
            f"read on the host of controller {node}, in the log of its time service, whether its clock was set back; "
            "or restart the controller, which begins its timers again"
        )
        yield Doubt(node=node, about=About.TIMERS, why=why, find_out=find_out)


def _of_hidden(nodes: Nodes) -> Iterator[Doubt]:
    """Yields a doubt of each voter that is not registered and does not answer, while a part of the log is hidden."""
    quorum = nodes.quorum
    for voter in nodes.voters if quorum.controllers else ():
        if voter.id not in quorum.controllers and voter.process is not Process.RUNNING:
            find_out = f"read process.roles in the configuration of node {voter.id}"
            yield Doubt(node=voter.id, about=About.HIDDEN, why=HIDDEN, find_out=find_out)


def about(known: Mapping[NodeId, tuple[Doubt, ...]], which: Collection[About]) -> Mapping[NodeId, Doubt]:
    """Returns the most important doubt about one of these of each controller that has one."""
    first = {node: next((one for one in of_node if one.about in which), None) for node, of_node in known.items()}
    return {node: doubt for node, doubt in first.items() if doubt is not None}


def denying(known: Mapping[NodeId, tuple[Doubt, ...]]) -> Mapping[NodeId, Doubt]:
    """Returns the controllers that may deny what others send: every other one that asks one of them ends."""
    return {one.node: one for of_node in known.values() for one in of_node if one.denies}


def without_vote(
    nodes: Nodes, *, replaced_disks: Mapping[NodeId, ReplicaKey], without_list: Collection[NodeId], hides_records: bool
) -> Mapping[NodeId, str]:
    """Returns the voters that grant no vote, however they follow, and why."""
    replaced = {node: f"runs with another directory id, {key}" for node, key in replaced_disks.items()}
    # Below metadata.version 3.7 no controller registers.
    voters = nodes.dialled.voters if nodes.quorum.controllers and nodes.dialled else ()
    brokers = {
        voter.key.id: "runs no controller"
        for voter in voters
        if runs_no_controller(nodes, voter, hides_records=hides_records)
    }
    return {**replaced, **brokers, **dict.fromkeys(without_list, WITHOUT_LIST)}


def denied_before_outage(nodes: Nodes, denying: Collection[NodeId]) -> Mapping[NodeId, str]:
    """Returns the voters that deny, or denied when they last answered, what others send, while a leader served the log.

    As the rest of a sentence about each. A controller that one of them denies ends, so it is why no election is won.
    """
    if nodes.quorum.log_fetched_at_ms is None:
        return {}
    voting = nodes.quorum.voting_ids
    said = {
        node: controller.accepts.why if node in denying else denied_last(controller)
        for node, controller in nodes.items()
    }
    return {node: why for node, why in said.items() if why and node in voting}


def runs_no_controller(nodes: Nodes, voter: Voter, *, hides_records: bool) -> bool:
    """Returns whether a node runs without the controller that has this vote: registered otherwise, or fetching."""
    quorum = nodes.quorum
    node = voter.key.id
    controller, broker = quorum.controllers.get(node), quorum.brokers.get(node)
    if controller is None:
        return not hides_records and (broker is not None or nodes[node].following.fetches)
    return broker is not None and _without_controller(
        quorum, voter, broker.at.timestamp_ms - controller.at.timestamp_ms
    )


def _without_controller(quorum: Quorum, voter: Voter, later_ms: int) -> bool:
    probe = quorum.probe(voter.key.id, voter.endpoint)
    listens = probe is not None and probe.connection is ConnectionResult.ACCEPTED
    return not listens and later_ms > REGISTERS_MS
