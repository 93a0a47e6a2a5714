"""Whereabouts: where one cluster's nodes are said to be, by whom, and who is said to lead. Pure.

The configuration names some controllers, answers to Fetch name the leader, DescribeQuorum and the log name all
voters. Any of them may be stale: nothing here is believed for longer than it works.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from connectors.event import ControllerRegistered, Event, QuorumPolled, VotersSet
from connectors.kafka.client import Address
from connectors.kafka.messages import FetchAnswer
from rules.analysis.endpoint_status import dialled_first
from rules.model.identifiers import Endpoint, NodeId


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Place:
    """An endpoint and the node it should lead to."""

    node: NodeId
    endpoint: Endpoint


Endpoints: TypeAlias = Mapping[NodeId, tuple[Endpoint, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What log and polls said of a cluster's endpoints: what a gatherer that starts again must know."""

    voters: Endpoints = field(default_factory=dict)
    """By the newest VotersRecord."""
    registered: Endpoints = field(default_factory=dict)
    """By the newest RegisterControllerRecord of each controller."""
    polled: Endpoints = field(default_factory=dict)
    """By the newest DescribeQuorum."""


class Whereabouts:
    """One cluster's, shared by its follower, poll and probe."""

    def __init__(
        self, *, configured: tuple[Address, ...], cluster_id: str | None, learned: Learned | None = None
    ) -> None:
        """`learned` is what an earlier gatherer knew: the log is not read again for it."""
        self.configured = configured
        self.cluster_id = cluster_id
        learned = learned or Learned()
        self.leader: Address | None = None
        """Who leads as far as we know; None: ask around."""
        self.leader_epoch = 0
        """The epoch to put into requests; 0 until somebody told us."""
        self._hinted: dict[NodeId, Address] = {}
        self._voters = dict(learned.voters)
        self._registered = dict(learned.registered)
        self._polled = dict(learned.polled)

    @property
    def learned(self) -> Learned:
        """What is worth remembering."""
        return Learned(voters=dict(self._voters), registered=dict(self._registered), polled=dict(self._polled))

    def heard(self, answer: FetchAnswer) -> Address | None:
        """Take in who a controller says leads.

        Returns:
            The address of that leader, where the answer or anything we know tells it.
        """
        if answer.leader_epoch is not None:
            self.leader_epoch = answer.leader_epoch
        if answer.leader_id is not None and answer.leader is not None:
            self._hinted[NodeId(answer.leader_id)] = answer.leader
        return self.leader_of(answer)

    def leader_of(self, answer: FetchAnswer) -> Address | None:
        """Where the leader is that an answer names, as `heard`, without taking anything in."""
        if answer.leader_id is None:
            return None
        return answer.leader or self.address_of(NodeId(answer.leader_id))

    def learn(self, event: Event) -> None:
        """Take in what the log or a poll says about endpoints; other events are passed over."""
        match event:
            case VotersSet():
                self._voters = {voter.key.id: voter.endpoints for voter in event.voters}
            case ControllerRegistered():
                self._registered[event.id] = event.endpoints
            case QuorumPolled():
                self._polled = {node.id: node.endpoints for node in event.nodes}
            case _:
                pass

    def address_of(self, node: NodeId) -> Address | None:
        """Where we would ask this node: at the listener that our configured addresses are on."""
        name = self._listener()
        for said in (self._polled, self._registered, self._voters):
            endpoints = said.get(node, ())
            ours = next((one for one in endpoints if name is None or one.listener == name), None)
            if ours is not None:
                return Address(ours.host, ours.port)
        return self._hinted.get(node)

    def candidates(self) -> tuple[Address, ...]:
        """Everyone who may know the leader: the configured first, then those we learned of."""
        nodes = sorted({*self._voters, *self._polled, *self._registered})
        learned = (self.address_of(node) for node in nodes)
        known = (*self.configured, *(one for one in learned if one is not None), *self._hinted.values())
        return tuple(dict.fromkeys(known))

    def controllers(self) -> Mapping[Address, NodeId | None]:
        """Where to ask each controller itself: its node where that is known, None for a configured address alone."""
        nodes = sorted({*self._voters, *self._polled, *self._registered})
        known = {address: node for node in nodes if (address := self.address_of(node)) is not None}
        return {**dict.fromkeys(self.configured), **known}

    def places(self) -> tuple[Place, ...]:
        """What to probe: the endpoint that voters dial each other at, and where a poll or a registration differs."""
        some = next((self._registered[node] for node in sorted(self._registered)), ())
        dialled = {
            node: dialled_first(endpoints, self._registered.get(node, some))[0]
            for node, endpoints in self._voters.items()
            if endpoints
        }
        names = {endpoint.listener for endpoint in dialled.values()}
        found = {Place(node=node, endpoint=endpoint) for node, endpoint in dialled.items()}
        for said in (self._polled, self._registered):
            for node, endpoints in said.items():
                if said is self._registered and names and node not in dialled and node not in self._polled:
                    continue  # a controller that waits to become a voter: nobody dials it
                like = [one for one in endpoints if not names or one.listener in names][:1]
                found |= {Place(node=node, endpoint=one) for one in like if not _same(one, dialled.get(node))}
        return tuple(sorted(found))

    def _listener(self) -> str | None:
        everything = [*self._polled.values(), *self._registered.values(), *self._voters.values()]
        for endpoint in _flat(everything):
            if Address(endpoint.host, endpoint.port) in self.configured:
                return endpoint.listener
        return None


def _same(one: Endpoint, other: Endpoint | None) -> bool:
    return other is not None and (one.host, one.port) == (other.host, other.port)


def _flat(groups: Iterable[tuple[Endpoint, ...]]) -> Iterable[Endpoint]:
    return (endpoint for group in groups for endpoint in group)
