"""NodeFacts: what is known of one controller now. Each fact is a value, or unknown; nothing else decides it again.

Rules, remedies, resolved texts, evidence, status, what-if and safe-to-restart read these. Observations that are older
than `Quorum.ages` allow, or from before a gap, are not known here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from rules.model.acceptance import Accepts, accepts
from rules.model.ages import POLL_LATENCY_MS
from rules.model.endpoint_faults import (
    CURED_BY_RESTART,
    EndpointDoubt,
    EndpointFault,
    EndpointVerdict,
    certificate_doubt,
    endpoint_doubt,
    endpoint_faults,
    is_unanswered,
    is_unserved,
)
from rules.model.following import Following, fetching_replacement, following, same_replica, since_last_fetch_ms
from rules.model.identifiers import Endpoint, Millis, NodeId, ReplicaKey, at_listener
from rules.model.monitoring import (
    Answer,
    Connection,
    FailedObservation,
    LeaderView,
    ObservationSource,
    Probe,
    Reason,
    Resolution,
    Vantage,
)
from rules.model.replica import Replica

if TYPE_CHECKING:
    from rules.model.quorum import Quorum


class Process(StrEnum):
    """The state of a controller's process where the others dial it, as seen from the monitor's host."""

    RUNNING = "running"
    """It fetches, or a node of this cluster answers there."""
    HUNG = "hung"
    """It accepts connections and does not answer: a long pause, a deadlock, a stopped process or a blocked disk."""
    DOWN = "down"
    """Its endpoint refuses connections: no process listens there."""
    NOT_REACHED = "not reached"
    """Connections to it time out or have no route: its host is down or cut off, or it hangs and accepts no more."""
    UNKNOWN = "unknown"
    """Nothing current shows it, the monitor is rejected, or another process answers there."""


@dataclass(frozen=True, kw_only=True)
class NodeFacts:
    """One controller: a voter, or a node that registered as one."""

    quorum: "Quorum" = field(repr=False, compare=False)
    id: NodeId
    key: ReplicaKey
    """The directory with which it votes, or else fetches; without a directory id if none is known."""
    endpoint: Endpoint | None
    """Where the others dial it: recorded, configured, or else registered."""
    row: Replica | None
    """Its row in the newest poll, if that is current."""
    others: tuple[Replica, ...]
    """The rows of its other directories there."""
    probe: Probe | None
    """What is there by the newest observation of that endpoint, if it is current: see `newest_probe`."""
    view: LeaderView | None
    """What it answers there who leads, if that is current."""
    failures: tuple[FailedObservation, ...]
    """The attempts at that endpoint that failed within the age of probes."""

    @cached_property
    def following(self) -> Following:
        """How the node follows the leader with the directory `key`; unknown without a current poll."""
        poll = self.quorum.poll if self.quorum.has_current_poll else None
        return following(self.quorum, poll, self.key)

    @cached_property
    def process(self) -> Process:
        """The state of its process. The newest observation counts; one that fetches runs, wherever it listens."""
        probe = self.probe
        if self.fetched_since_probe:
            return Process.RUNNING
        if probe is None:
            return Process.UNKNOWN
        if probe.connection is Connection.REFUSED:
            return Process.DOWN
        if probe.connection in (Connection.TIMED_OUT, Connection.UNREACHABLE):
            return Process.NOT_REACHED if self.quorum.vantage is Vantage.INSIDE else Process.UNKNOWN
        if probe.connection is not Connection.ACCEPTED or self.served_by_another:
            return Process.UNKNOWN
        if probe.answer is Answer.NO_ANSWER:
            return Process.HUNG
        if self._timed_out:
            # From outside the network the path may be the reason.
            return Process.HUNG if self.quorum.vantage is Vantage.INSIDE else Process.UNKNOWN
        return Process.RUNNING if probe.answer is Answer.THIS_CLUSTER else Process.UNKNOWN

    @cached_property
    def accepts(self) -> Accepts:
        """What it answers there to the requests of the other voters: what it answers to the monitor."""
        return accepts(self)

    @cached_property
    def fetched_since_probe(self) -> bool:
        """Whether the node fetched after its endpoint was probed: what was found does not keep it from running."""
        poll, probe = self.quorum.poll, self.probe
        if poll is None or probe is None or not self.following.fetches:
            return False
        age = since_last_fetch_ms(self.quorum, poll, self.key)
        return age is not None and poll.observed_at_ms - age > probe.observed_at_ms + POLL_LATENCY_MS

    @property
    def followed(self) -> Following:
        """How the node followed at the newest poll, however old that is."""
        current = self.quorum.has_current_poll
        return self.following if current else following(self.quorum, self.quorum.poll, self.key)

    @cached_property
    def replacement(self) -> ReplicaKey | None:
        """Another directory of its node that fetches now, without a vote."""
        return fetching_replacement(self.quorum, self.quorum.poll if self.quorum.has_current_poll else None, self.key)

    @cached_property
    def registered(self) -> Endpoint | None:
        """The endpoint of the same listener in its newest registration; None if its directory was replaced.

        None also of a static quorum: its list may name a controller otherwise than the registration does.
        """
        registration = self.quorum.controllers.get(self.id)
        if self.endpoint is None or registration is None or self.quorum.is_static or self.replacement is not None:
            return None
        return at_listener(registration.endpoints, self.endpoint.listener)

    @cached_property
    def faults(self) -> tuple[EndpointFault, ...]:
        """What is known to be wrong with its endpoint: the others do not reach it there."""
        return tuple(endpoint_faults(self))

    @cached_property
    def doubt(self) -> EndpointDoubt | None:
        """Why a probe did not show whether the endpoint reaches its node; None also without a probe."""
        return endpoint_doubt(self)

    @cached_property
    def certificate_doubt(self) -> EndpointDoubt | None:
        """Why it is unknown whether other controllers accept the certificate; None if that is known."""
        return certificate_doubt(self)

    @cached_property
    def unserved(self) -> bool:
        """Whether a new connection is not answered, and the path is not to blame: a fault once it has fetched."""
        return is_unserved(self)

    @property
    def is_known(self) -> bool:
        """Whether a probe showed if the endpoint reaches its node."""
        return self.probe is not None and self.doubt is None

    @property
    def endpoint_verdict(self) -> EndpointVerdict:
        """Whether the endpoint reaches its node; down: it refuses, and the voter did not fetch at the newest poll."""
        if self.faults:
            return EndpointVerdict.STALE
        if self.refused and not self.followed.fetches:
            return EndpointVerdict.DOWN
        return EndpointVerdict.OK if self.is_known else EndpointVerdict.UNKNOWN

    @property
    def refused(self) -> bool:
        """Whether the node's endpoint refuses connections: no process listens there."""
        return self.probe is not None and self.probe.connection is Connection.REFUSED

    @property
    def reachable(self) -> bool:
        """Whether no known fault keeps another voter from reaching it at its endpoint."""
        return not self.faults and not self.refused

    @property
    def can_lead(self) -> bool:
        """Whether other replicas could fetch from it. A controller announces its endpoint when it is elected, wherever
        it is, but it presents the same certificate everywhere.
        """
        return CURED_BY_RESTART.isdisjoint(self.faults)

    @property
    def only_its_restart_helps(self) -> bool:
        """Whether all that is wrong ends with its restart: the other voters need no change."""
        return bool(self.faults) and CURED_BY_RESTART.issuperset(self.faults)

    @property
    def answered(self) -> bool:
        """Whether a node of this cluster answers a new connection to its endpoint."""
        probe = self.probe
        return probe is not None and probe.connection is Connection.ACCEPTED and probe.answer is Answer.THIS_CLUSTER

    @property
    def unanswered(self) -> bool:
        """Whether no new connection is answered there, and it is unknown whether the path or the voter is at fault."""
        return not self.faults and self.doubt is not None and self.probe is not None and is_unanswered(self.probe)

    @property
    def unverified(self) -> bool:
        """Whether the monitor does not accept its certificate, and it is unknown whether other controllers do."""
        return self.can_lead and self.probe is not None and self.probe.certificate_fault is not None

    @property
    def served_by_another(self) -> bool:
        """Whether another process answers where the others dial it."""
        return self.probe is not None and self.probe.served_by_another

    @property
    def is_unobserved(self) -> bool:
        """Whether nothing current shows what is at its endpoint: its name is not resolved or it is not reached."""
        return self.probe is None or self.probe.connection not in (Connection.ACCEPTED, Connection.REFUSED)

    @cached_property
    def refuses_elsewhere(self) -> tuple[str, ...]:
        """HOST:PORT of the other addresses at which it answered, if all of them refuse connections, and its endpoint
        cannot be observed: it is down."""
        failed = [
            failure
            for failure in self.quorum.failures
            if failure.node == self.id
            and failure.endpoint != str(self.endpoint)
            and failure.source in (ObservationSource.LOG, ObservationSource.QUORUM)
            and self.quorum.is_current(failure.last_at_ms, Millis(self.quorum.ages.probe_ms))
        ]
        refused = self.is_unobserved and {failure.reason for failure in failed} == {Reason.REFUSED}
        return tuple(sorted({failure.endpoint for failure in failed})) if refused else ()

    @property
    def is_down(self) -> bool:
        """Whether no process listens where the others dial it, or at any other address where it answered before."""
        return self.process is Process.DOWN or bool(self.refuses_elsewhere)

    @property
    def _timed_out(self) -> bool:
        """Whether a request for the log or a poll timed out there."""
        return any(
            failure.reason is Reason.TIMED_OUT and failure.source is not ObservationSource.PROBE
            for failure in self.failures
        )


def newest_probe(quorum: "Quorum", node: NodeId, endpoint: Endpoint | None) -> Probe | None:
    """Returns what is at an endpoint of a node now: its newest probe, with what later requests to it met.

    A probe is made every five seconds, and identifies the node every half minute. A request that is refused later, or
    that a node of another cluster answers, shows more. None if nothing current is known.
    """
    if endpoint is None:
        return None
    probe, place = quorum.probe(node, endpoint), str(endpoint)
    if probe is not None and not quorum.is_current(probe.observed_at_ms, quorum.ages.probe_ms):
        probe = None
    view = quorum.leader_views.get(place)
    other = view is not None and not view.this_cluster and quorum.is_current(view.observed_at_ms, quorum.ages.view_ms)
    if other and probe is not None and probe.connection not in (Connection.REFUSED, Connection.NOT_TRIED):
        probe = replace(probe, connection=Connection.ACCEPTED, answer=Answer.OTHER_CLUSTER)
    refused = [failure for failure in quorum.failures if failure.endpoint == place and failure.reason is Reason.REFUSED]
    at_ms = max(
        (failure.last_at_ms for failure in refused if failure.source is not ObservationSource.PROBE), default=None
    )
    if at_ms is None or not quorum.is_current(at_ms, quorum.ages.probe_ms):
        return probe
    if probe is not None and probe.observed_at_ms > at_ms:
        return probe
    if probe is None:
        probe = Probe(
            node=node,
            endpoint=endpoint,
            resolution=Resolution.RESOLVED,
            addresses=quorum.addresses.get(endpoint.host, ()),
            connection=Connection.REFUSED,
            answer=Answer.NOT_ASKED,
        )
    return replace(
        probe,
        observed_at_ms=at_ms,
        # A name that was not found before resolves by now: something refuses.
        resolution=Resolution.RESOLVED,
        connection=Connection.REFUSED,
        answer=Answer.NOT_ASKED,
    )


def node_facts(quorum: "Quorum") -> Mapping[NodeId, NodeFacts]:
    """Returns the facts of each voter, and of each registered controller, by node id."""
    poll = quorum.poll if quorum.has_current_poll else None
    listed = {voter.key.id: voter.key for voter in quorum.voters}
    polled = quorum.poll
    if polled is not None:
        listed |= {row.key.id: row.key for row in polled.voters if row.key.id not in listed}
    ids = sorted({*listed, *quorum.controllers})
    return {node: _facts(quorum, node, listed.get(node), poll.rows_by_id.get(node, ()) if poll else ()) for node in ids}


def _facts(quorum: "Quorum", node: NodeId, voting: ReplicaKey | None, rows: Iterable[Replica]) -> NodeFacts:
    rows = tuple(rows)
    key = voting or (rows[0].key if rows else ReplicaKey(id=node, directory_id=None))
    row = next((replica for replica in rows if same_replica(replica.key, key)), None)
    endpoint = _dialled(quorum, node)
    place = "" if endpoint is None else str(endpoint)
    view = quorum.leader_views.get(place)
    return NodeFacts(
        quorum=quorum,
        id=node,
        key=key,
        endpoint=endpoint,
        row=row,
        others=tuple(replica for replica in rows if replica is not row),
        probe=newest_probe(quorum, node, endpoint),
        view=view if view and quorum.is_current(view.observed_at_ms, quorum.ages.view_ms) else None,
        failures=tuple(
            failure
            for failure in quorum.failures
            if failure.endpoint == place and quorum.is_current(failure.last_at_ms, Millis(quorum.ages.probe_ms))
        ),
    )


def _dialled(quorum: "Quorum", node: NodeId) -> Endpoint | None:
    """Returns where the others dial a node: by the VotersRecord, else by the newest poll, else by its registration."""
    voter = quorum.voter(node)
    if voter is not None:
        return voter.endpoint
    polled = quorum.poll.nodes.get(node, ()) if quorum.poll else ()
    registered = quorum.controllers[node].endpoints if node in quorum.controllers else ()
    return next(iter(polled or registered), None)
