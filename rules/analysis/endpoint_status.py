"""Where each voter is recorded to be, and whether that still leads to it.

A voter's endpoint is *stale* when its name is gone, or it leads elsewhere (another node, another cluster,
no Kafka), or the controller registered itself with another endpoint, or it refuses connections although
the voter fetches, that is lives. Refused while not fetching is *down*. A resolver that fails, a
time-out, a login that is refused say nothing against the endpoint: they say that we cannot see it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from rules.analysis.freshness import fresh_probe
from rules.analysis.replica_lag import Liveness, liveness, same, silence_ms
from rules.finding import Thresholds
from rules.model.identifiers import Endpoint, NodeId
from rules.model.monitoring import Answer, Connection, Probe, Resolution, Vantage, probe_key
from rules.model.poll import Poll
from rules.model.quorum import Quorum
from rules.model.voter_set import Voter

_SLACK_MS = 500
"""What a poll takes on its way: a fetch must be later than the look by more than this to be after it."""


class Flaw(StrEnum):
    """What makes an endpoint stale."""

    NAME_GONE = "name-gone"
    LEADS_ELSEWHERE = "leads-elsewhere"
    REGISTRATION_DIFFERS = "registration-differs"
    REFUSED_WHILE_FETCHING = "refused-while-fetching"

    @property
    def by_probe(self) -> bool:
        """Seen by probing from where the monitor stands, as opposed to told by the log."""
        return self is not Flaw.REGISTRATION_DIFFERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Everything that is known of one voter's recorded endpoint."""

    voter: Voter
    endpoint: Endpoint | None
    """The one other voters dial; None when the VotersRecord names none."""
    registered: Endpoint | None
    """The endpoint of the same listener in the controller's newest registration."""
    probe: Probe | None
    """The newest look, if fresh."""
    liveness: Liveness
    flaws: tuple[Flaw, ...]
    blind: str | None
    """Why the look tells nothing, where it does not."""

    @property
    def refused(self) -> bool:
        """Nobody listens there."""
        return self.probe is not None and self.probe.connection is Connection.REFUSED

    @property
    def leads(self) -> bool:
        """Nothing is known that would keep another voter from reaching this one there."""
        return not self.flaws and not self.refused

    @property
    def subject(self) -> str:
        """The name of this voter in findings: it outlives a change of directory."""
        return f"voter {self.voter.key.id}"


def dialled_first(endpoints: tuple[Endpoint, ...], registered: Iterable[Endpoint]) -> tuple[Endpoint, ...]:
    """A controller's endpoints, before all others the one that controllers dial.

    They dial the first of `controller.listener.names`. A registration lists its listeners in that order (Kafka's
    ListenerInfo), VotersRecord and DescribeQuorum list them in any (the HashMap in Kafka's Endpoints). So does a
    registration in a snapshot (the HashMap in ControllerRegistration): from one, this finds out nothing.

    Args:
        endpoints: of one controller, by a VotersRecord or a DescribeQuorum.
        registered: the endpoints of its newest registration, or of another controller's where it has none.
    """
    if len(endpoints) < 2:
        return endpoints
    order = {each.listener.lower(): place for place, each in enumerate(registered)}
    return tuple(sorted(endpoints, key=lambda each: order.get(each.listener.lower(), len(order))))


def looks(quorum: Quorum, poll: Poll | None, thresholds: Thresholds) -> tuple[Look, ...]:
    """One look for each committed voter, in order of node id.

    Args:
        quorum: with its committed voter set.
        poll: by which to judge who fetches: a fresh one, or None.
        thresholds: `silent` and `probe_age`.
    """
    voters = quorum.committed.voters if quorum.committed else ()
    ordered = sorted(voters, key=lambda voter: voter.key.id)
    return tuple(_look(quorum, poll, voter, thresholds) for voter in ordered)


def remembered(quorum: Quorum, thresholds: Thresholds) -> tuple[Look, ...]:
    """The voters' endpoints as they look now, and who was alive when the quorum was last described."""
    return tuple(
        replace(look, liveness=liveness(quorum, quorum.poll, look.voter.key, thresholds))
        for look in looks(quorum, None, thresholds)
    )


def _look(quorum: Quorum, poll: Poll | None, voter: Voter, thresholds: Thresholds) -> Look:
    alive = liveness(quorum, poll, voter.key, thresholds)
    if not voter.endpoints:
        return Look(
            voter=voter,
            endpoint=None,
            registered=None,
            probe=None,
            liveness=alive,
            flaws=(),
            blind="the VotersRecord names no endpoint for it",
        )
    endpoint = voter.endpoints[0]
    probe = fresh_probe(quorum, probe_key(voter.key.id, endpoint), thresholds)
    fetched_since = alive is Liveness.FETCHING and _fetched_since(quorum, poll, voter, probe)
    registered = None if _moved_in(quorum, poll, voter, thresholds) else _registered(quorum, voter.key.id, endpoint)
    return Look(
        voter=voter,
        endpoint=endpoint,
        registered=registered,
        probe=probe,
        liveness=alive,
        flaws=_flaws(endpoint, registered, probe, fetched_since=fetched_since),
        blind=_blind(probe, quorum.vantage) or _undecided(probe, alive, fetched_since=fetched_since),
    )


def _registered(quorum: Quorum, node: NodeId, endpoint: Endpoint) -> Endpoint | None:
    registration = quorum.controllers.get(node)
    named = registration.endpoints if registration else ()
    return next((each for each in named if each.listener.lower() == endpoint.listener.lower()), None)


def _moved_in(quorum: Quorum, poll: Poll | None, voter: Voter, thresholds: Thresholds) -> bool:
    """Another directory under this id fetches: the registration is that one's, not this voter's."""
    rows = poll.observers if poll else ()
    return any(
        row.key.id == voter.key.id
        and not same(row.key, voter.key)
        and liveness(quorum, poll, row.key, thresholds) is Liveness.FETCHING
        for row in rows
    )


def _fetched_since(quorum: Quorum, poll: Poll | None, voter: Voter, probe: Probe | None) -> bool:
    """The voter fetched after that look: it lived, whatever the look found. Killed a moment ago it did not."""
    silence = silence_ms(quorum, poll, voter.key) if poll else None
    if poll is None or probe is None or silence is None:
        return False
    return poll.observed_at_ms - silence > probe.observed_at_ms + _SLACK_MS


def _flaws(
    endpoint: Endpoint, registered: Endpoint | None, probe: Probe | None, *, fetched_since: bool
) -> tuple[Flaw, ...]:
    flaws = []
    if registered and (registered.host.lower(), registered.port) != (endpoint.host.lower(), endpoint.port):
        flaws.append(Flaw.REGISTRATION_DIFFERS)
    if probe is None:
        return tuple(flaws)
    if probe.resolution is Resolution.NAME_GONE:
        flaws.append(Flaw.NAME_GONE)
    if probe.connection is Connection.REFUSED and fetched_since:
        flaws.append(Flaw.REFUSED_WHILE_FETCHING)
    if elsewhere(probe):
        flaws.append(Flaw.LEADS_ELSEWHERE)
    return tuple(flaws)


def elsewhere(probe: Probe) -> str | None:
    """Who else answers at this endpoint, in words; None when nobody else is known to."""
    match probe.answer:
        case Answer.OTHER_CLUSTER:
            return "a node of another cluster"
        case Answer.OTHER_NODE:
            return "another node" if probe.answered_by is None else f"node {probe.answered_by}"
        case Answer.NOT_KAFKA:
            return "something that does not speak Kafka"
        case Answer.THIS_CLUSTER:
            other = probe.answered_by is not None and probe.answered_by != probe.node
            return f"node {probe.answered_by}" if other else None
        case Answer.NO_ANSWER | Answer.NOT_ALLOWED | Answer.NOT_ASKED:
            return None


def seen_there(look: Look) -> str:
    """What the newest look at a voter's recorded endpoint found, in words."""
    probe = look.probe
    if probe is None:
        return "not looked at lately"
    if probe.resolution is Resolution.NAME_GONE:
        return "the name is gone"
    if probe.resolution is Resolution.RESOLVER_FAILED:
        return "the resolver here failed"
    if probe.connection is Connection.ACCEPTED:
        return f"{elsewhere(probe)} answers" if elsewhere(probe) else "accepts connections"
    return {
        Connection.REFUSED: "refuses connections",
        Connection.TIMED_OUT: "connecting timed out",
        Connection.UNREACHABLE: "unreachable",
    }.get(probe.connection, "not tried")


def _undecided(probe: Probe | None, alive: Liveness, *, fetched_since: bool) -> str | None:
    """A refusal is stale if the voter fetches, down if it is silent, and neither until that is known."""
    if probe is None or probe.connection is not Connection.REFUSED or fetched_since or alive is Liveness.SILENT:
        return None
    return f"{probe.endpoint} refuses connections, and whether the voter still fetches is not known yet"


def _blind(probe: Probe | None, vantage: Vantage) -> str | None:
    if probe is None:
        return "no recent look at its endpoint"
    if probe.resolution is Resolution.RESOLVER_FAILED:
        return f"the resolver here failed on {probe.endpoint.host}"
    unconnected = probe.connection in (Connection.TIMED_OUT, Connection.UNREACHABLE)
    if unconnected and vantage is Vantage.INSIDE:
        return f"{probe.endpoint}: {probe.connection.value} from here"
    # From outside a connection is not expected to succeed: resolution alone is judged.
    return None
