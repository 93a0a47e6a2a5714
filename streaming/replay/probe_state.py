"""ProbeState: the observations that fail now, and the newest probe and leader view of each endpoint."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from rules.model.ages import LATE_MS
from rules.model.identifiers import START, Millis, NodeId, host_of
from rules.model.monitoring import (
    NO_LEADER_REASONS,
    ConnectionResult,
    DamagedBatch,
    FailedObservation,
    LeaderView,
    ObservationSource,
    Probe,
    ProbeAnswer,
    Reason,
    Resolution,
    probe_key,
)
from rules.model.witness import DialStep, Reached, WitnessRow

FAILURE_MS = Millis(60_000)
"""A failure expires if it is not repeated for this long: the endpoint is no longer observed."""
LOST_MS = Millis(3_600_000)
"""A loss of committed metadata and a damaged log are kept this long: no later success undoes them."""
PROBE_MS = Millis(600_000)
"""A probe or a leader view expires if it is not repeated for this long."""
WITNESS_MS = Millis(3_600_000)
"""How long a row of a controller's host is kept that no newer one follows: what it showed is unknown soon, and not
over."""
GAPS = frozenset({Reason.INTERRUPTED, Reason.CLOCK_STEPPED})
"""What is no observation, but the report that there was none before."""
REFUSES_MS = Millis(30_000)
"""How old a probe may be that shows that an endpoint refuses connections."""
RETURNS_MS = Millis(86_400_000)
"""How long it is kept when an endpoint accepted connections again."""
RETURNS = 32
"""The maximum number of these times of one endpoint, the newest ones."""
SAME_PROCESS_MS = 1_000
"""By how much the age of a process may be wrong: hosts count in ticks, from a second."""
_LASTING = {Reason.METADATA_LOST: " lost", Reason.LOG_DAMAGED: " damaged"}
"""How the names of the failures end that no later success ends."""
_T = TypeVar("_T")
_UNANSWERED = frozenset({DialStep.NAME, DialStep.CONNECTION, DialStep.ANSWER})
"""The steps at which a dial ends of which the voter says nothing."""
_GAP = "gap"
"""The name of the failure that reports it."""


MOST_PLACES = 256
"""The maximum number of probes, of leader views and of failures, the newest ones: a node may name others each time. No
quorum has so many controllers."""
MOST_DAMAGED = 16
"""The maximum number of damaged places of one endpoint, the first ones."""
LATE_KEPT_MS = Millis(60_000)
"""How long it is kept that an address answered late."""
MOST_HOSTS = 1_000
"""The number of hosts, the last ones that were probed, whose addresses are kept."""


class ListedEndpoints(NamedTuple):
    """Nodes with the HOST:PORT that something lists for them."""

    endpoints: Collection[tuple[NodeId, str]]
    hosts: Collection[str]

    @classmethod
    def of(cls, endpoints: Collection[tuple[NodeId, str]]) -> "ListedEndpoints":
        """Returns the endpoints with their hosts."""
        return cls(endpoints, {host_of(endpoint) for _, endpoint in endpoints})


@dataclass(slots=True, kw_only=True)
class ProbeState:
    """Failures by data source and endpoint, probes by `NODE@HOST:PORT`, leader views, and resolved addresses."""

    failures: dict[str, FailedObservation] = field(default_factory=dict)
    probes: dict[str, Probe] = field(default_factory=dict)
    addresses: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The addresses each host last resolved to. Kept when the name no longer resolves: the fix is to restore them."""
    leader_views: dict[str, LeaderView] = field(default_factory=dict)
    """By the polled HOST:PORT."""
    unanswered_since: dict[str, Millis] = field(default_factory=dict)
    """When the first attempt at an address timed out since it last answered, by HOST:PORT."""
    late_answers: dict[str, Millis] = field(default_factory=dict)
    """When an address last answered late."""
    witnesses: dict[str, WitnessRow] = field(default_factory=dict)
    """The newest row of each controller's host, by the node's id."""
    watched_since_ms: Millis = START
    """When the newest gap in the observations ended; 0 without one."""

    def expire(self, now_ms: Millis) -> None:
        """Drops failures, probes and leader views that were not repeated for too long."""
        old = [name for name, failure in self.failures.items() if now_ms - failure.last_at_ms > _kept_ms(failure)]
        for name in old:
            del self.failures[name]
        if old and self.unanswered_since:
            asked = {failure.endpoint for failure in self.failures.values()}
            self.unanswered_since = {at: since for at, since in self.unanswered_since.items() if at in asked}
        if any(now_ms - at_ms > LATE_KEPT_MS for at_ms in self.late_answers.values()):
            self.late_answers = {at: late for at, late in self.late_answers.items() if now_ms - late <= LATE_KEPT_MS}
        if any(now_ms - probe.observed_at_ms > PROBE_MS for probe in self.probes.values()):
            # `addresses` are kept: an operator who looks an hour later still needs the addresses to restore.
            self.probes = {n: probe for n, probe in self.probes.items() if now_ms - probe.observed_at_ms <= PROBE_MS}
        if any(now_ms - view.observed_at_ms > PROBE_MS for view in self.leader_views.values()):
            views = self.leader_views.items()
            self.leader_views = {name: view for name, view in views if now_ms - view.observed_at_ms <= PROBE_MS}
        if any(now_ms - row.observed_at_ms > WITNESS_MS for row in self.witnesses.values()):
            rows = self.witnesses.items()
            self.witnesses = {node: row for node, row in rows if now_ms - row.observed_at_ms <= WITNESS_MS}

    def gap_ended(self, event: FailedObservation, now_ms: Millis) -> bool:
        """Applies the report of a gap; returns False if nothing succeeded since the one before.

        A gatherer that only restarts, again and again, is a failure to observe.
        """
        first = _GAP not in self.failures
        self.watched_since_ms = now_ms
        self.observation_failed(event, now_ms)
        return first

    def observation_failed(self, event: FailedObservation, now_ms: Millis) -> None:
        """Starts or continues the run of failures of this data source at this endpoint."""
        name = _name(event.source, event.endpoint, event.reason)
        if event.damage is not None:
            name = _name_of_damage(event.source, event.endpoint, event.damage)
            damaged = [
                failure for failure in self.failures.values() if failure.damage and failure.endpoint == event.endpoint
            ]
            if name not in self.failures and len(damaged) >= MOST_DAMAGED:
                return
        if event.reason is Reason.TIMED_OUT:
            since_ms = self.unanswered_since.get(event.endpoint, now_ms)
            self.unanswered_since = _put({**self.unanswered_since}, event.endpoint, since_ms)
        elif event.reason in NO_LEADER_REASONS:
            self._answered(event.endpoint, now_ms)
        elif event.reason is Reason.REFUSED:
            self._ended(event.endpoint)
        previous = self.failures.get(name)
        first_at_ms = now_ms if previous is None else previous.first_at_ms
        _put(self.failures, name, replace(event, first_at_ms=first_at_ms, last_at_ms=now_ms))

    def log_fetched(self) -> None:
        """Ends every failure to fetch the log: a fetch succeeded, and the log is fetched from one node at a time."""
        for name, failure in list(self.failures.items()):
            if failure.source is ObservationSource.LOG and failure.reason not in _LASTING:
                del self.failures[name]

    def quorum_polled(self, endpoint: str, now_ms: Millis) -> None:
        """Ends the failures of DescribeQuorum at an endpoint that answered, and the report of a gap."""
        self._answered(endpoint, now_ms)
        self._end_failures(ObservationSource.QUORUM, endpoint)
        self.failures.pop(_GAP, None)

    def endpoint_probed(self, event: Probe, now_ms: Millis) -> None:
        """Stores a probe, whatever its result."""
        key = probe_key(event.node, event.endpoint)
        before = self.probes.get(key)
        probe = replace(
            event,
            observed_at_ms=now_ms,
            former_reason=_former_reason(before, event),
            returned_at_ms=_returns(before, event, now_ms),
            starting=before is not None and before.starting and event.connection is not ConnectionResult.ACCEPTED,
            newest_certificate=event.certificate or (None if before is None else before.newest_certificate),
            certificate_since_ms=_certificate_since_ms(before, event, now_ms),
        )
        self.probes = _put({**self.probes}, key, probe)
        if event.resolution is Resolution.RESOLVED and self.addresses.get(event.endpoint.host) != event.addresses:
            self.addresses = {**self.addresses, event.endpoint.host: event.addresses}
            if len(self.addresses) > MOST_HOSTS:
                del self.addresses[next(iter(self.addresses))]
        self._end_failures(ObservationSource.PROBE, str(event.endpoint))
        if event.connection is ConnectionResult.REFUSED:
            self._ended(str(event.endpoint))
        elif event.answer is ProbeAnswer.LATE:
            self.late_answers = _put({**self.late_answers}, str(event.endpoint), now_ms)
        elif _is_answered(event) and before is not None and not _is_answered(before):
            # A probe that repeats the answer before it may not have asked again.
            self._answered(str(event.endpoint), now_ms)

    def fetched_again(self, node: NodeId, now_ms: Millis) -> None:
        """Keeps that a voter fetches again after a pause whose endpoint refuses connections: its process started."""
        for key, probe in self.probes.items():
            refuses = probe.connection is ConnectionResult.REFUSED and now_ms - probe.observed_at_ms <= REFUSES_MS
            if probe.node == node and refuses and not _started_since(probe):
                returned = replace(probe, starting=True, returned_at_ms=(*probe.returned_at_ms, now_ms)[-RETURNS:])
                self.probes = {**self.probes, key: returned}

    def leader_view_polled(self, event: LeaderView, now_ms: Millis) -> None:
        """Stores the leader that a controller reports."""
        previous = self.leader_views.get(event.endpoint)
        same = previous is not None and (
            (previous.leader_id, previous.leader_epoch) == (event.leader_id, event.leader_epoch)
        )
        since_ms = previous.since_ms if previous is not None and same else now_ms
        view = replace(event, observed_at_ms=now_ms, since_ms=since_ms)
        self.leader_views = _put({**self.leader_views}, event.endpoint, view)
        self._end_failures(ObservationSource.LEADER_VIEW, event.endpoint)
        self._answered(event.endpoint, now_ms)

    def host_witnessed(self, event: WitnessRow, now_ms: Millis) -> None:
        """Stores what a controller's host saw, as of when it began to dial."""
        before = self.witnesses.get(str(event.node))
        denied_by = _denied_by(event, () if before is None else before.denied_by)
        at_ms = Millis(now_ms - event.took_ms)
        row = replace(
            event,
            observed_at_ms=at_ms,
            denied_by=denied_by,
            process_since_ms=event.process_since_ms or (None if before is None else before.process_since_ms),
            processes_at_ms=_processes(before, event, at_ms),
        )
        self.witnesses = _put({**self.witnesses}, str(event.node), row)

    def keep_known_endpoints(self, *known: ListedEndpoints) -> None:
        """Drops probes and addresses of endpoints that no voter, registration or polled node lists any more."""

        def is_known(probe: Probe) -> bool:
            endpoint = (probe.node, str(probe.endpoint))
            return any(endpoint in endpoints.endpoints for endpoints in known)

        def is_known_host(host: str) -> bool:
            return any(host in endpoints.hosts for endpoints in known)

        if not all(map(is_known, self.probes.values())):
            self.probes = {name: probe for name, probe in self.probes.items() if is_known(probe)}
        if not all(map(is_known_host, self.addresses)):
            self.addresses = {host: addresses for host, addresses in self.addresses.items() if is_known_host(host)}

    @property
    def sorted_failures(self) -> tuple[FailedObservation, ...]:
        """The failures, ordered by data source, endpoint, reason."""
        return tuple(self.failures[name] for name in sorted(self.failures))

    def _answered(self, endpoint: str, now_ms: Millis) -> None:
        """Notes an answer, and whether it was late."""
        if (since_ms := self.unanswered_since.get(endpoint)) is None:
            return
        self.unanswered_since = _without(self.unanswered_since, endpoint)
        if now_ms - since_ms >= LATE_MS:
            self.late_answers = _put({**self.late_answers}, endpoint, now_ms)

    def _ended(self, endpoint: str) -> None:
        """Notes that no process listens there: the next one is another one."""
        if endpoint in self.unanswered_since:
            self.unanswered_since = _without(self.unanswered_since, endpoint)
        if endpoint in self.late_answers:
            self.late_answers = _without(self.late_answers, endpoint)

    def _end_failures(self, source: ObservationSource, endpoint: str) -> None:
        for name in (endpoint, ""):
            self.failures.pop(_name(source, name), None)


def _former_reason(previous: Probe | None, event: Probe) -> Reason | None:
    """Returns why the last answer at an endpoint was an error, if it does not answer this probe.

    A process that ends may accept a last connection that it does not answer.
    """
    if previous is None or _is_answered(event):
        return None
    return previous.reason if _is_answered(previous) else previous.former_reason


def _denied_by(event: WitnessRow, before: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
    """Returns the voters that deny a controller, or did when they last answered its host: what they deny ends it."""
    return tuple(
        peer.node
        for peer in event.peers
        if peer.node is not None
        and (
            peer.step is DialStep.PERMISSION
            or (peer.node in before and (peer.step in _UNANSWERED or peer.reached is Reached.UNKNOWN))
        )
    )


def _certificate_since_ms(previous: Probe | None, event: Probe, now_ms: Millis) -> Millis | None:
    """Returns when the newest certificate was first seen instead of another one. How it is verified does not count."""
    if previous is None or event.certificate is None or previous.newest_certificate is None:
        return None if previous is None else previous.certificate_since_ms
    same = event.certificate.presented == previous.newest_certificate.presented
    return previous.certificate_since_ms if same else now_ms


def _is_answered(probe: Probe) -> bool:
    return probe.connection is ConnectionResult.ACCEPTED and probe.answer not in (
        ProbeAnswer.NO_ANSWER,
        ProbeAnswer.LATE,
    )


def _returns(previous: Probe | None, event: Probe, now_ms: Millis) -> tuple[Millis, ...]:
    """Returns the times at which an endpoint accepted connections again, after this probe."""
    if previous is None:
        return ()
    known = tuple(at_ms for at_ms in previous.returned_at_ms if now_ms - at_ms <= RETURNS_MS)
    refused = previous.connection is ConnectionResult.REFUSED and not _started_since(previous)
    # One that fetched before it listens has started once.
    if event.connection is not ConnectionResult.ACCEPTED or not refused or previous.starting:
        return known
    return (*known, now_ms)[-RETURNS:]


def _processes(previous: WitnessRow | None, event: WitnessRow, at_ms: Millis) -> tuple[Millis, ...]:
    """Returns when the processes of a node began that replaced another one, as its host has seen them until then.

    By its age a process seems to be another one if its row came late, and by its time if the host's clock was set.
    """
    if previous is None:
        return ()
    known = tuple(began_ms for began_ms in previous.processes_at_ms if at_ms - began_ms <= RETURNS_MS)
    if previous.process_since_ms is None or event.process_since_ms is None:
        return known
    began_ms = Millis(at_ms - max(0, event.at_ms - event.process_since_ms))
    later_ms = began_ms - (previous.observed_at_ms - max(0, previous.at_ms - previous.process_since_ms))
    later_by_host_ms = event.process_since_ms - previous.process_since_ms
    is_other = began_ms > previous.observed_at_ms + SAME_PROCESS_MS or min(later_ms, later_by_host_ms) > SAME_PROCESS_MS
    return (*known, began_ms)[-RETURNS:] if is_other else known


def _started_since(probe: Probe) -> bool:
    """Returns whether the process of an endpoint is known to have started after this probe: one start counts once."""
    return bool(probe.returned_at_ms) and probe.returned_at_ms[-1] > probe.observed_at_ms


def _without(places: dict[str, _T], name: str) -> dict[str, _T]:
    return {place: value for place, value in places.items() if place != name}


def _put(places: dict[str, _T], name: str, value: _T) -> dict[str, _T]:
    """Adds or replaces a value as the newest one, and drops the oldest beyond MOST_PLACES; returns the same mapping.

    A loss of metadata and a damaged log are not dropped.
    """
    places.pop(name, None)
    places[name] = value
    if len(places) > MOST_PLACES:
        del places[next(place for place in places if not place.endswith((*_LASTING.values(),)))]
    return places


def _name(source: ObservationSource, endpoint: str, reason: Reason | None = None) -> str:
    # What lasts has its own name: otherwise the newest failure at the same endpoint would overwrite it.
    if reason in GAPS:
        return _GAP
    return f"{source} {endpoint}{'' if reason is None else _LASTING.get(reason, '')}"


def _name_of_damage(source: ObservationSource, endpoint: str, damage: DamagedBatch) -> str:
    # Each damaged place has its own: what was found before is kept.
    snapshot = damage.snapshot
    place = damage.offset if snapshot is None else f"{snapshot.end_offset}-{snapshot.epoch} {damage.position}"
    return f"{source} {endpoint} {place}{_LASTING[Reason.LOG_DAMAGED]}"


def _kept_ms(failure: FailedObservation) -> Millis:
    return LOST_MS if failure.reason in _LASTING else FAILURE_MS
