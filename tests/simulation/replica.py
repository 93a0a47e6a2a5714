"""A SimulatedReplica: a log on a disk, which follows the leader by fetching (KIP-595).

Directory id, log, epoch and vote are on disk and survive a crash. All other state is lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.membership import RecordPosition, Voter
from tests.simulation.ground_truth import GroundTruth
from tests.simulation.metadata_log import MetadataLog
from tests.simulation.network import FetchRequest, FetchResponse, Message, Network

FETCH_TIMEOUT_MS = 2_000
ELECTION_MS = (1_000, 2_000)
SNAPSHOT_INTERVAL_MS = 30_000
SNAPSHOT_NEWEST_MS = 15_000
"""A snapshot is due with a new record: it contains none that is much older than the leaders' clocks differ."""
FAULTS: dict[str, str] = {
    "double-vote": "grants every requested vote, several times in an epoch",
    "old-epoch": "starts an election without raising its epoch",
    "minority-commit": "a leader commits records that only it has",
    "forgets-committed": "a crash loses the newest records of the log, also committed ones",
    "isr-grows": "the active controller grows the ISR of a partition that stays RECOVERING",
    "leader-alone": "the active controller changes the leader of a RECOVERING partition without its ISR",
}
"""Faults that tests can plant in the simulated quorum, by name."""


@dataclass(slots=True)
class ReplicaProgress:
    """A replica's progress, as its leader has it. Times are the leader's clock."""

    end_offset: int
    fetched_at_ms: int
    caught_up_at_ms: int


@dataclass(slots=True)
class SnapshotWriter:
    """A controller's snapshots, one every half minute (KIP-630); the newest has the records below `end_offset`."""

    end_offset: int = 0
    written_ms: int = 0
    fails: bool = False

    def write_if_due(self, now_ms: int, log: MetadataLog, high_watermark: int) -> None:
        """Writes a snapshot of the committed records after the interval."""
        if self.fails or now_ms - self.written_ms < SNAPSHOT_INTERVAL_MS:
            return
        end = log.stable_end(high_watermark)
        if end > self.end_offset and now_ms - log.entries[end - 1].timestamp_ms < SNAPSHOT_NEWEST_MS:
            self.end_offset, self.written_ms = end, now_ms

    def newest_end(self, log: MetadataLog) -> int:
        """Returns the end offset of the newest snapshot, also of one that was fetched from a leader."""
        return min(max(self.end_offset, log.start), len(log))


@dataclass(slots=True, kw_only=True, eq=False)
class SimulatedReplica:
    """`faults` are names of FAULTS."""

    id: int
    directory: str
    port: int
    log: MetadataLog
    network: Network
    ground_truth: GroundTruth
    random: Random
    peers: "Sequence[SimulatedReplica]"
    faults: frozenset[str] = frozenset()
    static: bool = False
    """Formatted for controller.quorum.voters: its first leader writes no VotersRecord."""
    up: bool = True
    skew_ms: int = 0
    clock_ahead_ms: int = 0
    """How far its clock was set ahead or back, which only the gatherer notices: timers are not part of it."""
    incarnation: int = 0
    epoch: int = 0
    voted: ReplicaKey | None = None
    leader: int | None = None
    leads: bool = False
    candidate: bool = False
    prospective: bool = False
    high_watermark: int = 0
    epoch_start: int = 0
    deadline_ms: int = 0
    fetch_due_ms: int = 0
    begin_due_ms: int = 0
    votes: set[ReplicaKey] = field(default_factory=set)
    progress: dict[ReplicaKey, ReplicaProgress] = field(default_factory=dict)
    led_since_ms: int = 0
    protocol: str = "SASL_SSL"
    """Of its listener, as it registers it."""
    highest_level: int = 27
    """The highest metadata.version that it supports."""
    disk_full: bool = False
    """It fetches and appends nothing."""
    snapshots: SnapshotWriter = field(default_factory=SnapshotWriter)
    key: ReplicaKey = field(init=False)

    def __post_init__(self) -> None:
        self.key = ReplicaKey(id=NodeId(self.id), directory_id=DirectoryId(self.directory))

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(listener="CONTROLLER", host=f"c{self.id}.test", port=self.port)

    @property
    def voter(self) -> Voter:
        return Voter(key=self.key, endpoints=(self.endpoint,))

    def start(self, now_ms: int) -> None:
        self.stop()
        self.up, self.leader = True, None
        if "forgets-committed" in self.faults:
            self.log.truncate(max(0, self.high_watermark - 30))
        self.high_watermark = 0
        self.incarnation += 1
        self.progress.clear()
        self.deadline_ms = now_ms + FETCH_TIMEOUT_MS + self.random.randint(0, 1_000)

    def stop(self) -> None:
        self.up = self.leads = self.candidate = self.prospective = False
        self.network.disconnect(self.id)

    def suspended(self, ms: int) -> None:
        """Moves the times of its timers: the host was suspended, as all others were."""
        self.deadline_ms += ms
        self.fetch_due_ms += ms
        self.begin_due_ms += ms
        self.led_since_ms += ms
        for progress in self.progress.values():
            progress.fetched_at_ms += ms
            progress.caught_up_at_ms += ms if progress.caught_up_at_ms else 0

    def lose_disk(self, directory: str) -> None:
        """Formats an empty disk without initial controllers: another replica with the same node id."""
        self.stop()
        self.directory, self.log = directory, MetadataLog()
        self.key = replace(self.key, directory_id=DirectoryId(directory))
        self.snapshots = SnapshotWriter()
        self.epoch, self.voted, self.high_watermark = 0, None, 0

    def lose_records(self, end: int) -> None:
        """Restores the log from an older copy, which ended at this offset."""
        self.log.truncate(min(end, len(self.log)))
        self.snapshots.end_offset = min(end, self.snapshots.end_offset)

    def at(self, now_ms: int) -> RecordPosition:
        """Returns the position of the next record."""
        return RecordPosition(
            offset=Offset(len(self.log)), leader_epoch=Epoch(self.epoch), timestamp_ms=Millis(now_ms + self.skew_ms)
        )

    def _connect(self, now_ms: int, voter: Voter, message: Message) -> None:
        """Sends a message to a voter, only at its endpoint in the log."""
        peer = next((peer for peer in self.peers if peer.id == voter.key.id), None)
        endpoint = voter.endpoints[0]
        if peer is not None and peer.endpoint == endpoint and self.network.connect(self.id, peer.id, endpoint):
            self.network.send(now_ms, self.id, peer.id, message)

    def _become_unattached(self, now_ms: int, epoch: int) -> None:
        """Changes to a newer epoch without a known leader."""
        self.epoch, self.voted, self.leader = epoch, None, None
        self.leads = self.candidate = self.prospective = False
        self.deadline_ms = now_ms + self.random.randint(*ELECTION_MS)

    def _follow(self, now_ms: int, epoch: int, leader: int | None) -> None:
        if epoch > self.epoch:
            self._become_unattached(now_ms, epoch)
        if leader is not None and leader != self.id and not self.leads:
            self.leader, self.candidate, self.prospective = leader, False, False
            self.deadline_ms = now_ms + FETCH_TIMEOUT_MS + self.random.randint(0, 1_000)

    def _fetch(self, now_ms: int) -> None:
        self.fetch_due_ms = now_ms + self.random.randint(150, 400)
        target = self.random.choice(self.peers)
        if self.leader not in (None, self.id):
            target = next(peer for peer in self.peers if peer.id == self.leader)
        if target is not self and self.network.connect(self.id, target.id, target.endpoint):
            request = FetchRequest(self.key, self.epoch, len(self.log), self.log.last_epoch)
            self.network.send(now_ms, self.id, target.id, request)

    def _handle_fetch_response(self, now_ms: int, answer: FetchResponse) -> None:
        if answer.epoch < self.epoch or self.leads:
            return
        self._follow(now_ms, answer.epoch, answer.leader)
        if not answer.served or answer.epoch != self.epoch or self.disk_full:
            return
        log = self.log
        if (answer.offset, answer.last_epoch) != (len(log), log.last_epoch):
            return
        if answer.diverging is not None:
            epoch, end = answer.diverging
            end = min(end, log.end_of(epoch)[1])
            self.ground_truth.check_truncation(self, end)
            log.truncate(end)
            self.high_watermark = min(self.high_watermark, end)
        elif answer.snapshot is not None:
            if len(answer.snapshot) > len(log):
                log.replace(answer.snapshot)
                self.high_watermark = len(log)
        else:
            self.ground_truth.check_copied(self, answer.offset, answer.entries)
            log.append(answer.entries)
            self.high_watermark = max(self.high_watermark, min(answer.high_watermark, len(log)))
            self.fetch_due_ms = now_ms if answer.entries else self.fetch_due_ms
