"""The known addresses of one cluster's nodes, by source, and the current leader. Pure.

The configuration contains some controllers, Fetch responses the leader, DescribeQuorum and the log all voters. Any of
them may be stale: an address is used only as long as requests to it succeed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError

from connectors.kafka.cluster_connection import Address
from connectors.observations.log_event import VotersReplaced
from connectors.observations.observation import Event
from rules.model.history import REBUILT_EPOCHS
from rules.model.identifiers import Endpoint, NodeId, ReplicaKey, in_dial_order
from rules.model.membership import ControllerRegistration, is_same_quorum
from rules.model.replica import Poll

if TYPE_CHECKING:
    from connectors.kafka.messages import FetchResult


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ProbeTarget:
    """An endpoint to probe and the node that should answer there."""

    node: NodeId
    endpoint: Endpoint


T = TypeVar("T")
MAX_NODES = 40
"""Nodes that are contacted, and registrations and leaders that are kept. Kafka's quorums have fewer than ten; a node
may report any number in each answer, and all clusters share the threads that resolve names."""
OTHER_QUORUM = "the node leads another quorum with this cluster id"
"""Why its answers are not used."""
Endpoints: TypeAlias = Mapping[NodeId, tuple[Endpoint, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEndpoints:
    """A cluster's endpoints as reported by log and polls. The journal holds them.

    A restarted gatherer resumes the log at its last position, so it does not read the VotersRecord with the endpoints
    again; and no node reports them while the quorum is down.
    """

    voters: Endpoints = field(default_factory=dict)
    """From the newest VotersRecord."""
    registered: Endpoints = field(default_factory=dict)
    """From the newest RegisterControllerRecord of each controller."""
    polled: Endpoints = field(default_factory=dict)
    """From the newest DescribeQuorum response."""
    quorum: tuple[ReplicaKey, ...] = ()
    """The voters in that response: they identify the quorum."""
    answering: Mapping[str, NodeId | None] = field(default_factory=dict)
    """The controller that answered at each configured HOST:PORT that nothing reports; None where several did."""


@cache
def endpoints_json() -> TypeAdapter[KnownEndpoints]:
    """Returns how the journal holds them."""
    return TypeAdapter(KnownEndpoints)


def stored_endpoints(text: str | None) -> KnownEndpoints:
    """Returns the endpoints that the journal holds; none if it holds none of the cluster, or if they are damaged."""
    try:
        return KnownEndpoints() if text is None else endpoints_json().validate_json(text)
    except ValidationError:
        return KnownEndpoints()


class NodeDirectory:
    """The directory of one cluster, shared by its log follower, polls and probe."""

    def __init__(
        self, *, configured: tuple[Address, ...], cluster_id: str | None, known_endpoints: KnownEndpoints | None = None
    ) -> None:
        """`known_endpoints`: from the journal, because the log is not read again for them."""
        self.configured = configured
        self.cluster_id = cluster_id
        known_endpoints = known_endpoints or KnownEndpoints()
        self.leader: Address | None = None
        """Address of the leader; None if unknown."""
        self.leader_epoch = 0
        """Leader epoch to send in requests; 0 until a node reported one."""
        self._leaders: dict[NodeId, Address] = {}
        self._voters = dict(known_endpoints.voters)
        self._registered = dict(known_endpoints.registered)
        self._polled = dict(known_endpoints.polled)
        self._quorum = frozenset(known_endpoints.quorum)
        self._answering = dict(known_endpoints.answering)
        self._known: KnownEndpoints | None = None
        """What `known_endpoints` returned, until it changes."""
        self.others: dict[Address, frozenset[ReplicaKey]] = {}
        """Controllers that lead another quorum with this cluster id, and its voters."""
        self.verified: Address | None = None
        """The address that last reported voters of the gathered quorum."""
        self.views_at = 0.0
        """When a controller last answered which leader it follows (the loop's clock)."""
        self.other_quorums = 0
        """How often the gatherer went over to another quorum: one whose voters are others."""
        self._left: frozenset[ReplicaKey] = frozenset()
        """The voters of the quorum that is no longer gathered, until a poll shows which one is gathered instead."""

    @property
    def known_endpoints(self) -> KnownEndpoints:
        """The endpoints to store in the journal: the same object as before, if nothing has changed."""
        if self._known is None:
            self._known = KnownEndpoints(
                voters=dict(self._voters),
                registered=dict(self._registered),
                polled=dict(self._polled),
                quorum=tuple(sorted(self._quorum)),
                answering=dict(self._answering),
            )
        return self._known

    def leads_this_quorum(self, address: Address, polled: Poll) -> bool:
        """Returns whether a controller that answers this leads the gathered quorum, and remembers it if not.

        The cluster id does not tell: it is the same if a disk was formatted with --standalone by mistake. The first
        quorum that answers anything is the gathered one, so that log and polls are of one quorum.
        """
        voters = polled.voter_keys
        if not self._quorum:
            self._quorum, self._known = voters, None
        if not voters or _may_lead(self._quorum, polled):
            self.others.pop(address, None)
            self.verified = address
            return True
        self.others[address] = voters
        if len(self.others) > MAX_NODES:
            del self.others[next(iter(self.others))]
        if self.leader == address:
            self.leader = None
        return False

    def gather_another_quorum(self, voters: frozenset[ReplicaKey] = frozenset()) -> None:
        """Gathers the quorum of these voters, which most controllers follow now; without voters, the next to answer."""
        self._left = self._quorum or self._left
        self._quorum, self._known = voters, None
        self.others.clear()

    def update_from_fetch(self, response: "FetchResult") -> Address | None:
        """Updates leader and epoch from a Fetch response; returns the reported leader's address, if it is known."""
        if response.leader_epoch is not None:
            self.leader_epoch = response.leader_epoch
        if response.leader_id is not None and response.leader is not None:
            _keep(self._leaders, response.leader_id, response.leader)
        return self.leader_address(response)

    def leader_address(self, response: "FetchResult") -> Address | None:
        """Returns the address of the leader that a Fetch response reports, without an update."""
        if response.leader_id is None:
            return None
        return response.leader or self.address_of(response.leader_id)

    def update_from_event(self, event: Event) -> None:
        """Updates endpoints from an event of the log or a poll; ignores other events."""
        match event:
            case VotersReplaced():
                self._voters = {voter.key.id: voter.endpoints for voter in event.voters}
                self._known = None
            case ControllerRegistration():
                _keep(self._registered, event.id, event.endpoints)
                self._known = None
            case Poll():
                if (self._polled, self._quorum) != (event.nodes, event.voter_keys):
                    self._polled, self._quorum, self._known = dict(event.nodes), event.voter_keys, None
                self.other_quorums += bool(self._left) and not _may_lead(self._left, event)
                self._left = frozenset()
            case _:
                pass

    def address_of(self, node: NodeId) -> Address | None:
        """Returns the node's address at the listener of the configured addresses; None if unknown."""
        name = self._listener()
        for known in (self._polled, self._registered, self._voters):
            endpoints = known.get(node, ())
            endpoint = next((one for one in endpoints if name is None or one.listener == name), None)
            if endpoint is not None:
                return Address(endpoint.host, endpoint.port)
        return self._leaders.get(node)

    def candidates(self) -> tuple[Address, ...]:
        """Returns the known addresses, at most MAX_NODES, to search the leader: the configured ones first."""
        known = (*self.configured, *(address for address, _ in self._reported()), *self._leaders.values())
        own = [address for address in known if address not in self.others]
        return tuple(dict.fromkeys(own or known))[: max(MAX_NODES, len(self.configured))]

    def controllers(self) -> Mapping[Address, NodeId | None]:
        """Returns each controller's address with its node id; None for a configured address whose node is not known."""
        return {**dict.fromkeys(self.configured), **dict(islice(self._reported(), MAX_NODES))}

    def node_at(self, address: Address) -> NodeId | None:
        """Returns the node at an address: reported there, or else the one that answered there; None if not known."""
        node = self.controllers().get(address)
        return self._answering.get(str(address)) if node is None else node

    def named_at(self, address: Address) -> NodeId | None:
        """Returns the node at an address, also if only another node's answer, which named it as leader, says so."""
        named = (node for node, one in self._leaders.items() if one == address)
        known = self.node_at(address)
        return next(named, None) if known is None else known

    def answered_as(self, address: Address, node: NodeId) -> None:
        """Notes which controller answered at a configured address that nothing reports.

        Where another one answered before, connections are distributed among several: the address is no controller's.
        """
        place = str(address)
        same = self._answering.get(place, node) == node
        if address in self.configured and (place not in self._answering or not same):
            self._answering[place], self._known = node if same else None, None

    def _reported(self) -> Iterator[tuple[Address, NodeId]]:
        for node in dict.fromkeys((*sorted(self._voters), *sorted(self._polled), *self._registered)):
            if (address := self.address_of(node)) is not None:
                yield address, node

    def probe_targets(self) -> tuple[ProbeTarget, ...]:
        """Returns the endpoints to probe: those that voters dial, and polled or registered ones that differ; at most
        MAX_NODES.
        """
        default = next((self._registered[node] for node in sorted(self._registered)), ())
        dialled = {
            node: in_dial_order(endpoints, self._registered.get(node, default))[0]
            for node, endpoints in self._voters.items()
            if endpoints
        }
        listeners = {endpoint.listener for endpoint in dialled.values()}
        targets = {ProbeTarget(node=node, endpoint=endpoint) for node, endpoint in dialled.items()}
        for reported in (self._polled, self._registered):
            for node, endpoints in reported.items():
                if reported is self._registered and listeners and node not in dialled and node not in self._polled:
                    continue  # a controller that is not a voter yet: no voter connects to it
                same_listener = [endpoint for endpoint in endpoints if not listeners or endpoint.listener in listeners][
                    :1
                ]
                targets |= {
                    ProbeTarget(node=node, endpoint=endpoint)
                    for endpoint in same_listener
                    if not _same_address(endpoint, dialled.get(node))
                }
        return tuple(sorted(targets)[:MAX_NODES])

    def _listener(self) -> str | None:
        all_endpoints = [*self._polled.values(), *self._registered.values(), *self._voters.values()]
        ports = {address.port for address in self.configured}
        by_port: str | None = None
        for endpoint in chain.from_iterable(all_endpoints):
            if Address(endpoint.host, endpoint.port) in self.configured:
                return endpoint.listener
            if by_port is None and endpoint.port in ports:
                # The configuration may name a controller by its IP address or by an alias.
                by_port = endpoint.listener
        return by_port


def _keep(known: dict[NodeId, T], node: NodeId, value: T) -> None:
    known[node] = value
    if len(known) > MAX_NODES:
        del known[next(iter(known))]


def _same_address(one: Endpoint, other: Endpoint | None) -> bool:
    return other is not None and (one.host, one.port) == (other.host, other.port)


def _may_lead(voters: frozenset[ReplicaKey], polled: Poll) -> bool:
    """Returns whether the leader that answers this can lead the quorum of these voters, earlier or later.

    In a static quorum, `rescue apply --lost` leaves fewer voters than most, which are more again later: their epochs
    are those of no quorum that was formatted by mistake.
    """
    ids, now = ({key.id for key in keys} for keys in (voters, polled.voter_keys))
    rescued = polled.leader_epoch >= REBUILT_EPOCHS and (now <= ids or ids <= now)
    static = all(key.directory_id is None for key in (*voters, *polled.voter_keys))
    return is_same_quorum(voters, polled.voter_keys) or (static and rescued)
