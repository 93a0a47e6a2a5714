"""A SimulatedGatherer: the observations of a log follower, a poll per second and probes of the simulated quorum.

It observes only nodes that the network lets it reach: a replaced leader that does not know it answers as a leader.
It has its own clock. Polls and probes may be answered after a later fetch of the log.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

from connectors.observations.log_event import LogAdvanced, LogEvent, Undecodable, UnknownRecords
from connectors.observations.observation import Event
from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.monitoring import (
    CONTROLLER_LOGIN,
    CertificateFault,
    ConnectionResult,
    DamagedBatch,
    FailedObservation,
    LeaderLog,
    LeaderView,
    ObservationSource,
    Probe,
    ProbeAnswer,
    Reason,
    Resolution,
    ServerCertificate,
    Snapshot,
)
from rules.model.replica import Poll, Replica
from rules.model.witness import DialStep, PeerDial, Reached, WitnessRow
from streaming.replay.decoded_row import DecodedRow
from tests.quiet_rows import RowUrgency
from tests.record_image import snapshot
from tests.simulation.controller import ReplicaProgress, SimulatedController
from tests.simulation.network import EndpointState, Network

MONITOR_ID = 0
OBSERVED_MS = 300_000
"""How long a leader lists an observer that stopped fetching."""
RESPONSE_RECORDS = 60
WITNESS_MS = 20_000
"""How often each controller's host reports what it sees of the others, if there are witnesses."""


@dataclass(slots=True)
class SimulatedGatherer:
    """`position` is the next offset to read; `last_epoch` the epoch of the record before it."""

    random: Random
    nodes: list[SimulatedController]
    network: Network
    polls_only: bool = False
    position: int = 0
    last_epoch: int = 0
    leader_epoch: int = 0
    sequence: int = 0
    skew_ms: int = 0
    slow_probability: float = 0.05
    """The probability that a response is delayed to the next second."""
    delayed: list[list[Event]] = field(default_factory=list)
    urgency: RowUrgency = field(default_factory=RowUrgency)
    runs_from_ms: int = 0
    """It does not run before this time."""
    reports_gap: bool = False
    """Whether its next observation is that there was a gap."""
    log_denied: bool = False
    """The principal lacks CLUSTER_ACTION: only polls are answered."""
    resolver_fails: bool = False
    """The resolver of the monitor's host answers nothing, not even NXDOMAIN."""
    certificates_expire_at_ms: Millis | None = None
    """When the certificates of all controllers expire; None if they have none."""
    login: str | None = None
    """How the controllers log in to each other; None if the monitor may not read it."""
    damaged: bool = False
    """The next record that is read cannot be decoded."""
    disk_damaged: bool = False
    """The leader serves a batch that does not match its checksum."""
    upgraded: bool = False
    """It knows every type of records, and reads the log again."""
    knows_all: bool = False
    other_leader: NodeId | None = None
    """A controller that leads a quorum of its own, with the same cluster id."""
    clock_back_ms: int = 0
    """By how much the clock of its host was set back; the time of its rows goes on."""
    set_back_until_ms: int = 0
    """When that clock is as late as it was."""
    witnesses: bool = False
    """Whether the controllers' hosts report how they reach each other."""
    impostor: NodeId | None = None
    """A node that answers polls as the leader of the current epoch, and is not."""

    def stop_until(self, ms: int, *, restarts: bool) -> None:
        """Stops until then: the process restarts, which loses the answers under way, or is only paused."""
        self.runs_from_ms, self.reports_gap = ms, True
        if restarts:
            self.delayed.clear()

    def observe(self, now_ms: int) -> Iterator[DecodedRow]:
        """Yields the observations of one second."""
        polled_leader = self._leader()
        observations, self.delayed = self.delayed, []
        if self.reports_gap:
            self.reports_gap = False
            observations.insert(0, [_failed(ObservationSource.LOG, "", Reason.INTERRUPTED, "not running")])
        if polled_leader is None:
            observations += [
                [self._failure(source, node)]
                for node in self._configured
                for source in (ObservationSource.LOG, ObservationSource.QUORUM)
            ]
        else:
            if self.log_denied:
                denied = "CLUSTER_AUTHORIZATION_FAILED"
                observations += [[_failed(ObservationSource.LOG, _address(polled_leader), Reason.DENIED, denied)]]
            elif not self.polls_only and polled_leader.epoch >= self.leader_epoch:
                self.leader_epoch = polled_leader.epoch
                observations += [*self._after_upgrade(), *self._read(polled_leader)]
                observations += self._damaged(polled_leader)
            self._deliver_or_delay(observations, self._poll(now_ms, polled_leader))
        if now_ms // 1_000 % 5 == 0:
            for node, endpoint in self.recorded():
                self._deliver_or_delay(observations, self._probe(node, endpoint))
        if now_ms // 1_000 % 10 == 1 and not self.polls_only:
            observations += [[self._view(node)] for node in self._configured if self._is_running(node)]
            observations += [[_view_of_another_quorum(self.other_leader)]] if self.other_leader is not None else []
        if self.witnesses and now_ms % WITNESS_MS == 0:
            observations += [[self._witnessed(now_ms, node)] for node in self._configured]
        for events in observations:
            self.sequence += 1
            quiet = self.urgency.is_quiet(events, now_ms)
            yield DecodedRow(self.sequence, Millis(now_ms + self.skew_ms), events, quiet=quiet)

    def _deliver_or_delay(self, observations: list[list[Event]], event: Event) -> None:
        delayed = self.random.random() < self.slow_probability
        (self.delayed if delayed else observations).append([event])

    @property
    def bootstrap(self) -> tuple[str, ...]:
        return tuple(map(_address, self._configured))

    @property
    def _configured(self) -> list[SimulatedController]:
        return [node for node in self.nodes if not node.is_clone]

    def _leader(self) -> SimulatedController | None:
        """Returns a reachable controller that answers as a leader, not necessarily the newest."""
        asked = [*self.nodes]
        self.random.shuffle(asked)
        return next((node for node in asked if self._is_reachable(node) and node.leads), None)

    def _is_running(self, node: SimulatedController) -> bool:
        return node.up and self.network.open(MONITOR_ID, node.id)

    def _is_reachable(self, node: SimulatedController) -> bool:
        return self._is_running(node) and self._rejection(node) is None

    def _rejection(self, node: SimulatedController) -> Reason | None:
        """Returns why a controller that runs does not answer the monitor what others are answered; None if it does."""
        pair, network = (MONITOR_ID, node.id), self.network
        reasons = {
            Reason.TLS_FAILED: network.distrusted,
            Reason.NOT_AUTHENTICATED: network.rejected,
            Reason.DENIED: network.denied,
        }
        return next((reason for reason, pairs in reasons.items() if pair in pairs), None)

    def _view(self, node: SimulatedController) -> Event:
        rejection = self._rejection(node)
        if rejection is not None:
            failed = _failed(ObservationSource.LEADER_VIEW, _address(node), rejection, f"{rejection}")
            return replace(failed, node=NodeId(node.id))
        return LeaderView(
            endpoint=_address(node),
            node=NodeId(node.id),
            this_cluster=True,
            leader_id=None if node.leader is None else NodeId(node.leader),
            leader_epoch=Epoch(node.epoch),
            log=self._leader_log(node) if node.leads else None,
        )

    def _leader_log(self, node: SimulatedController) -> LeaderLog:
        """Returns what the leader answers to a fetch at the beginning of its log."""
        log, newest = node.log, None
        # Also a snapshot that was fetched from a leader.
        if end := min(max(node.snapshot_end, log.start), len(log)):
            epoch, newest_ms = Epoch(log.entries[end - 1].epoch), Millis(log.entries[end - 1].timestamp_ms)
            newest = Snapshot(end_offset=Offset(end), epoch=epoch, last_contained_timestamp_ms=newest_ms)
        return LeaderLog(
            start_offset=Offset(log.start),
            snapshot=newest,
            tells_absence=True,
            begins_timestamp_ms=Millis(log.entries[0].timestamp_ms) if log.entries else None,
        )

    def _failure(self, source: ObservationSource, node: SimulatedController) -> FailedObservation:
        if node.resumes_ms or not self.network.open(MONITOR_ID, node.id):
            reason = Reason.TIMED_OUT
        else:
            reason = (self._rejection(node) or Reason.NO_LEADER) if node.up else Reason.REFUSED
        return _failed(source, _address(node), reason, f"{reason}")

    def _damaged(self, leader: SimulatedController) -> Iterator[list[Event]]:
        if self.damaged:
            self.damaged, position = False, Offset(self.position)
            yield [Undecodable(offset=position, reason="a record of an unknown type", length=9)]
        if self.disk_damaged:
            self.disk_damaged, damage = (
                False,
                DamagedBatch(offset=Offset(0), last_offset=Offset(2), high_watermark=Offset(leader.high_watermark)),
            )
            failed = _failed(ObservationSource.LOG, _address(leader), Reason.LOG_DAMAGED, "damaged")
            yield [replace(failed, damage=damage)]

    def _after_upgrade(self) -> Iterator[list[Event]]:
        if self.upgraded:
            self.upgraded, self.knows_all, self.position, self.last_epoch = False, True, 0, 0
            yield [_failed(ObservationSource.LOG, "", Reason.RECORDS_KNOWN, "upgraded")]

    def _read(self, leader: SimulatedController) -> Iterator[list[Event]]:
        log = leader.log
        if self.position < log.start:
            yield from self._snapshot(leader)
        epoch, end = log.end_of(self.last_epoch)
        if self.position and (epoch != self.last_epoch or end < self.position):
            # DivergingEpoch, although only committed records were read.
            detail = f"the logs diverge at offset {end}"
            yield [_failed(ObservationSource.LOG, str(leader.endpoint), Reason.METADATA_LOST, detail)]
            self.position = self.last_epoch = 0
            return
        while True:
            end = min(self.position + RESPONSE_RECORDS, leader.high_watermark)
            entries = log.entries[self.position : end]
            self.position = max(self.position, end)
            self.last_epoch = log.entries[self.position - 1].epoch if self.position else 0
            events: list[Event] = [
                entry.event
                for entry in entries
                if entry.event is not None and not (self.knows_all and isinstance(entry.event, UnknownRecords))
            ]
            known = leader.high_watermark > leader.epoch_start
            noops = [entry for entry in entries if entry.event is None]
            yield [
                *events,
                LogAdvanced(
                    last_offset=Offset(self.position - 1) if entries else None,
                    leader_epoch=Epoch(leader.epoch),
                    high_watermark=Offset(leader.high_watermark) if known else None,
                    newest_timestamp_ms=Millis(entries[-1].timestamp_ms) if entries else None,
                    newest_noop_ms=Millis(noops[-1].timestamp_ms) if noops else None,
                ),
            ]
            if self.position >= leader.high_watermark:
                return

    def _snapshot(self, leader: SimulatedController) -> Iterator[list[Event]]:
        last = leader.log.entries[leader.log.start - 1]
        records: list[LogEvent] = [
            entry.event for entry in leader.log.entries[: leader.log.start] if entry.event is not None
        ]
        whole = snapshot(records, end_offset=leader.log.start, epoch=last.epoch, timestamp_ms=last.timestamp_ms)
        size = -(-len(whole) // 2)
        for start in range(0, len(whole), size):
            yield [*whole[start : start + size]]
        self.position, self.last_epoch = leader.log.start, last.epoch

    def _poll(self, now_ms: int, leader: SimulatedController) -> Poll:
        clock = now_ms + leader.skew_ms
        voters = leader.log.voters
        observers = [
            key
            for key, progress in leader.progress.items()
            if key not in leader.log.keys and clock - progress.fetched_at_ms < OBSERVED_MS
        ]
        known = leader.high_watermark > leader.epoch_start
        return Poll(
            cluster_id="simulated",
            endpoint=str(leader.endpoint),
            leader_id=leader.key.id if self.impostor is None else self.impostor,
            leader_epoch=Epoch(leader.epoch),
            high_watermark=Offset(leader.high_watermark) if known else None,
            voters=tuple(_row(leader, voter.key, clock) for voter in voters),
            observers=tuple(_row(leader, key, clock) for key in observers),
            nodes={voter.key.id: voter.endpoints for voter in voters},
            answer_ms=Millis(leader.answers_after_ms),
            clock_ahead_ms=Millis(self.clock_back_ms),
        )

    def _witnessed(self, now_ms: int, node: SimulatedController) -> WitnessRow:
        """Returns what the host of a controller sees with its properties, whether its process runs or not."""
        leader = next((peer for peer in self.nodes if peer.up and peer.leads), None)
        dials = {peer.id: self._dial(node, peer, endpoint) for peer, endpoint in self.recorded() if peer is not node}
        reached = leader is not None and (leader is node or self.network.open(node.id, leader.id))
        return WitnessRow(
            node=NodeId(node.id),
            cluster_id="simulated",
            at_ms=Millis(now_ms + node.skew_ms),
            every_ms=WITNESS_MS,
            login="PLAIN as User:ctl",
            peers=tuple(dials[each] for each in sorted(dials)),
            leader_ahead_ms=leader.skew_ms - node.skew_ms if leader is not None and reached else None,
        )

    def _dial(self, node: SimulatedController, peer: SimulatedController, endpoint: Endpoint) -> PeerDial:
        network, pair = self.network, (node.id, peer.id)
        place = network.endpoint_states.get(endpoint)
        opens = network.open(*pair) and network.open(peer.id, node.id)
        listens = (peer.up or bool(peer.resumes_ms)) and peer.endpoint == endpoint
        failing = {
            DialStep.NAME: place is EndpointState.NAME_NOT_FOUND or pair in network.unresolved,
            DialStep.CONNECTION: not opens or place is EndpointState.CLOSED or (place is None and not listens),
            DialStep.NODE: place is EndpointState.TAKEN,
            DialStep.ANSWER: not peer.up,
            DialStep.TLS: pair in network.distrusted,
            DialStep.LOGIN: pair in network.rejected,
            DialStep.PERMISSION: pair in network.denied,
        }
        step = next((step for step, fails in failing.items() if fails), None)
        return PeerDial(
            node=NodeId(peer.id),
            endpoint=str(endpoint),
            reached=Reached.YES if step is None else Reached.NO,
            step=step,
            why="" if step is None else f"{step} fails",
        )

    def recorded(self) -> list[tuple[SimulatedController, Endpoint]]:
        """Returns each voter with its endpoint in the newest voter set."""
        newest = max(self.nodes, key=lambda node: (node.epoch, len(node.log)))
        by_id = {node.id: node for node in self._configured}
        return [(by_id[voter.key.id], voter.endpoints[0]) for voter in newest.log.voters]

    def _probe(self, node: SimulatedController, endpoint: Endpoint) -> Probe:
        place = self.network.endpoint_states.get(endpoint)
        resolution, connection, answer, by = Resolution.RESOLVED, ConnectionResult.REFUSED, ProbeAnswer.NOT_ASKED, None
        resolver_fails = self.resolver_fails or (MONITOR_ID, node.id) in self.network.unresolved
        if place is EndpointState.NAME_NOT_FOUND and not resolver_fails:
            resolution, connection = Resolution.NAME_NOT_FOUND, ConnectionResult.NOT_TRIED
        elif resolver_fails:
            resolution, connection = Resolution.RESOLVER_FAILED, ConnectionResult.NOT_TRIED
        elif place is EndpointState.TAKEN:
            connection, answer, by = ConnectionResult.ACCEPTED, ProbeAnswer.OTHER_NODE, NodeId(99)
        elif not self.network.open(MONITOR_ID, node.id):
            connection = ConnectionResult.TIMED_OUT
        elif node.resumes_ms and node.endpoint == endpoint and place is None:
            connection, answer = ConnectionResult.ACCEPTED, ProbeAnswer.NO_ANSWER
        elif node.up and node.endpoint == endpoint and place is None:
            connection, answer, by = ConnectionResult.ACCEPTED, ProbeAnswer.THIS_CLUSTER, NodeId(node.id)
        certificate, expires_at_ms = None, self.certificates_expire_at_ms
        untrusted = (MONITOR_ID, node.id) in self.network.distrusted
        # The controllers use TLS where one of them does: its authority is another one than that of the others.
        own_authority = all(of != node.id for _, of in self.network.distrusted)
        if answer is ProbeAnswer.THIS_CLUSTER and (expires_at_ms is not None or self.network.distrusted):
            certificate = ServerCertificate(
                valid_from_ms=Millis(0),
                expires_at_ms=expires_at_ms,
                fault=CertificateFault.UNTRUSTED if untrusted else None,
                verified=not untrusted,
                authority="CN=own" if own_authority else f"CN=other {node.id}",
            )
        if answer is ProbeAnswer.THIS_CLUSTER and self._rejection(node) is not None:
            answer, by = ProbeAnswer.NOT_ALLOWED, None
        return Probe(
            node=NodeId(node.id),
            endpoint=endpoint,
            resolution=resolution,
            addresses=(f"10.0.0.{node.id}",) if resolution is Resolution.RESOLVED else (),
            connection=connection,
            answer=answer,
            answered_by=by,
            detail="",
            certificate=certificate,
            settings={CONTROLLER_LOGIN: self.login} if answer is ProbeAnswer.THIS_CLUSTER and self.login else None,
        )


def _address(node: SimulatedController) -> str:
    """Returns the address of a controller in the monitor's configuration."""
    return f"c{node.id}.test:9093"


def _view_of_another_quorum(leader: NodeId) -> LeaderView:
    voter = ReplicaKey(id=leader, directory_id=DirectoryId(f"own{leader}"))
    return LeaderView(
        endpoint=f"c{leader}.test:9093",
        node=None,
        this_cluster=True,
        leader_id=leader,
        leader_epoch=Epoch(1),
        log=None,
        other_voters=(voter,),
    )


def _failed(source: ObservationSource, endpoint: str, reason: Reason, detail: str) -> FailedObservation:
    return FailedObservation(source=source, endpoint=endpoint, reason=reason, detail=detail)


def _row(leader: SimulatedController, key: ReplicaKey, clock: int) -> Replica:
    """Returns what the leader answers of a replica; a voter of a static quorum has no directory id."""
    own = ReplicaProgress(len(leader.log), clock, clock, 0) if key == leader.key else None
    progress = own or leader.progress.get(key)
    if leader.log.static and key in leader.log.keys:
        key = replace(key, directory_id=None)
    if progress is None:
        return Replica(key=key, log_end_offset=None, last_fetch_ms=None, last_caught_up_ms=None)
    return Replica(
        key=key,
        log_end_offset=Offset(progress.end_offset),
        last_fetch_ms=Millis(progress.fetched_at_ms),
        last_caught_up_ms=Millis(progress.caught_up_at_ms) if progress.caught_up_at_ms else None,
    )
