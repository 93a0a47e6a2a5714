"""ObservationSource: which looks fail now, and what the newest look at each endpoint showed."""

from collections.abc import Collection
from dataclasses import dataclass, field

from connectors.event import EndpointProbed, LeaderViewPolled, ObservationFailed
from rules.model.identifiers import Millis, NodeId, host_of
from rules.model.monitoring import (
    FailedObservation,
    LeaderView,
    ObservationSource,
    Probe,
    Reason,
    Resolution,
    probe_key,
)

FAILURE_MS = Millis(60_000)
"""A failure that was not seen again for this long is over: nobody looks there any more."""
LOST_MS = Millis(3_600_000)
"""Loss of committed metadata is no state that a later success mends: it is remembered this long."""
PROBE_MS = Millis(600_000)
"""A probe, or a view, that was not repeated for this long says nothing any more."""


@dataclass(slots=True, kw_only=True)
class Looks:
    """Failures by sight and endpoint, probes by `NODE@HOST:PORT`, and what the probed names last resolved to."""

    failures: dict[str, FailedObservation] = field(default_factory=dict)
    probes: dict[str, Probe] = field(default_factory=dict)
    addresses: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By host: kept when its name is gone, because somebody will have to give it back."""
    views: dict[str, LeaderView] = field(default_factory=dict)
    """By the HOST:PORT that was asked."""

    def forget(self, now_ms: Millis) -> None:
        """Drop what is too old to speak of now."""
        old = [name for name, failure in self.failures.items() if now_ms - failure.last_at_ms > _remembered(failure)]
        for name in old:
            del self.failures[name]
        if any(now_ms - probe.observed_at_ms > PROBE_MS for probe in self.probes.values()):
            # What the names resolved to is kept: whoever comes back after an hour must still know what to give back.
            self.probes = {n: probe for n, probe in self.probes.items() if now_ms - probe.observed_at_ms <= PROBE_MS}
        if any(now_ms - view.observed_at_ms > PROBE_MS for view in self.views.values()):
            self.views = {name: view for name, view in self.views.items() if now_ms - view.observed_at_ms <= PROBE_MS}

    def failed(self, event: ObservationFailed, now_ms: Millis) -> None:
        """A look failed: the run of failures of this sight at this endpoint begins or goes on."""
        name = _name(event.sight, event.endpoint, event.reason)
        held = self.failures.get(name)
        self.failures[name] = FailedObservation(
            sight=event.sight,
            endpoint=event.endpoint,
            reason=event.reason,
            detail=event.detail,
            first_at_ms=now_ms if held is None else held.first_at_ms,
            last_at_ms=now_ms,
        )

    def log_seen(self) -> None:
        """The log was served. It is followed at one place at a time, so this ends every failure to see it."""
        for name, failure in list(self.failures.items()):
            if failure.sight is ObservationSource.LOG and failure.reason is not Reason.METADATA_LOST:
                del self.failures[name]

    def quorum_seen(self, endpoint: str) -> None:
        """DescribeQuorum was answered at this endpoint."""
        self._succeeded(ObservationSource.QUORUM, endpoint)

    def probed(self, event: EndpointProbed, now_ms: Millis) -> None:
        """A look at an endpoint, whatever it showed, took place."""
        probe = Probe(
            observed_at_ms=now_ms,
            node=event.node,
            endpoint=event.endpoint,
            resolution=event.resolution,
            addresses=event.addresses,
            connection=event.connection,
            answer=event.answer,
            answered_by=event.answered_by,
            detail=event.detail,
        )
        self.probes = {**self.probes, probe_key(event.node, event.endpoint): probe}
        if event.resolution is Resolution.RESOLVED and self.addresses.get(event.endpoint.host) != event.addresses:
            self.addresses = {**self.addresses, event.endpoint.host: event.addresses}
        self._succeeded(ObservationSource.PROBE, str(event.endpoint))

    def viewed(self, event: LeaderViewPolled, now_ms: Millis) -> None:
        """A controller said who leads."""
        held = self.views.get(event.endpoint)
        same = held is not None and (held.leader_id, held.leader_epoch) == (event.leader_id, event.leader_epoch)
        view = LeaderView(
            observed_at_ms=now_ms,
            since_ms=held.since_ms if held is not None and same else now_ms,
            endpoint=event.endpoint,
            node=event.node,
            this_cluster=event.this_cluster,
            leader_id=event.leader_id,
            leader_epoch=event.leader_epoch,
            log=event.log,
        )
        self.views = {**self.views, event.endpoint: view}
        self._succeeded(ObservationSource.VIEW, event.endpoint)

    def keep_probes(self, known: Collection[tuple[NodeId, str]]) -> None:
        """Drop the probes, and the addresses, of endpoints that no voter, registration or node has any more."""
        if any((probe.node, str(probe.endpoint)) not in known for probe in self.probes.values()):
            self.probes = {n: probe for n, probe in self.probes.items() if (probe.node, str(probe.endpoint)) in known}
        hosts = {host_of(place) for _, place in known}
        if not hosts.issuperset(self.addresses):
            self.addresses = {host: found for host, found in self.addresses.items() if host in hosts}

    @property
    def standing(self) -> tuple[FailedObservation, ...]:
        """The failures, in the order of sight, endpoint, reason."""
        return tuple(self.failures[name] for name in sorted(self.failures))

    def _succeeded(self, sight: ObservationSource, endpoint: str) -> None:
        for place in (endpoint, ""):
            self.failures.pop(_name(sight, place), None)


def _name(sight: ObservationSource, endpoint: str, reason: Reason | None = None) -> str:
    # The loss of metadata stands beside the newest failure of its place, which would else hide it.
    return f"{sight} {endpoint} lost" if reason is Reason.METADATA_LOST else f"{sight} {endpoint}"


def _remembered(failure: FailedObservation) -> Millis:
    return LOST_MS if failure.reason is Reason.METADATA_LOST else FAILURE_MS
