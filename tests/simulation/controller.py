"""A SimulatedController: a log on a disk. It votes, leads, or copies what its leader has (KIP-595, KIP-853).

The model of Raft is coarse: no request is in transit. An election is decided in one step among the voters that the
candidate reaches. Directory id, log and epoch are on disk and survive a crash; all other state is lost.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from random import Random

from connectors.observations.log_event import KRaftVersionSet, LeaderChanged, LogEvent, VotersReplaced
from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.membership import RecordPosition, Voter
from tests.simulation.ground_truth import GroundTruth
from tests.simulation.metadata_log import LogEntry, MetadataLog
from tests.simulation.network import Network

FETCH_TIMEOUT_MS = (2_000, 3_000)
ELECTION_MS = (1_000, 2_000)
CHECK_QUORUM_MS = 3_000
SNAPSHOT_INTERVAL_MS = 30_000
SNAPSHOT_NEWEST_MS = 15_000
"""A snapshot is due with a new record: it contains none that is much older than the leaders' clocks differ."""
FAULTS: dict[str, str] = {
    "double-vote": "an election does not raise the epoch, and every voter votes again in it",
    "minority-commit": "a leader commits records that only it has",
    "forgets-committed": "a crash loses the newest records of the log, also committed ones",
    "isr-grows": "the active controller grows the ISR of a partition that stays RECOVERING",
    "leader-alone": "the active controller changes the leader of a RECOVERING partition without its ISR",
}
"""Faults that tests can plant in the simulated quorum, by name."""


@dataclass(slots=True)
class ReplicaProgress:
    """A replica's progress, as its leader has it. Its times are the leader's clock, which may be wrong."""

    end_offset: int
    fetched_at_ms: int
    caught_up_at_ms: int
    elapsed_from_ms: int
    """When it fetched last, by the clock that no one sets: the leader's timers use it."""


@dataclass(slots=True, kw_only=True, eq=False)
class SimulatedController:
    """A controller acts on its timers. `faults` are names of FAULTS."""

    id: int
    directory: str = ""
    port: int = 9_093
    log: MetadataLog = field(default_factory=MetadataLog)
    network: Network
    ground_truth: GroundTruth
    random: Random
    peers: "Sequence[SimulatedController]"
    faults: frozenset[str] = frozenset()
    static: bool = False
    """Formatted for controller.quorum.voters: its first leader writes no VotersRecord."""
    up: bool = True
    skew_ms: int = 0
    """How far its clock is wrong; its timers are not."""
    timers_from_ms: int = 0
    """Its timers stand still until then: its clock was set back."""
    set_back_unseen: bool = False
    """The leader's clock was not set back with it: no observation of the monitor shows it."""
    resumes_ms: int = 0
    """When its suspended process goes on: until then it is not `up`, and keeps its state; 0: it is not suspended."""
    registers: bool = True
    """Whether it runs a controller, which registers."""
    incarnation: int = 0
    epoch: int = 0
    leader: int | None = None
    leads: bool = False
    high_watermark: int = 0
    epoch_start: int = 0
    deadline_ms: int = 0
    fetch_due_ms: int = 0
    progress: dict[ReplicaKey, ReplicaProgress] = field(default_factory=dict)
    led_since_ms: int = 0
    protocol: str = "SASL_SSL"
    """Of its listener, as it registers it."""
    highest_level: int = 27
    """The highest metadata.version that it supports."""
    ended: bool = False
    """Another one denied what it sent, since when it does not run."""
    disk_full: bool = False
    """It fetches and appends nothing."""
    pause_ms: int = 0
    """It stands still for so long after each time that it has fetched all; 0: it does not."""
    answers_after_ms: int = 0
    """How long a poll waits for its answer while it leads; 0: no time that is counted."""
    hangs: bool = False
    """Its event thread hangs: while it leads it appends nothing, and answers."""
    snapshot_end: int = 0
    """Its newest snapshot has the records below this offset; it writes one every half minute (KIP-630)."""
    snapshot_ms: int = 0
    snapshots_fail: bool = False
    key: ReplicaKey = field(init=False)

    def __post_init__(self) -> None:
        self.directory = self.directory or f"dir{self.id}"
        self.key = ReplicaKey(id=NodeId(self.id), directory_id=DirectoryId(self.directory))

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(listener="CONTROLLER", host=f"c{self.id}.test", port=self.port)

    @property
    def voter(self) -> Voter:
        return Voter(key=self.key, endpoints=(self.endpoint,))

    def at(self, now_ms: int) -> RecordPosition:
        """Returns the position of the next record."""
        return RecordPosition(
            offset=Offset(len(self.log)), leader_epoch=Epoch(self.epoch), timestamp_ms=Millis(now_ms + self.skew_ms)
        )

    # --- process and disk ----------------------------------------------------------------------------------------

    def start(self, now_ms: int) -> None:
        self.stop()
        self.up, self.ended, self.leader = True, False, None
        if "forgets-committed" in self.faults:
            self.log.truncate(max(0, self.high_watermark - 30))
        self.high_watermark = 0
        self.incarnation += 1
        self.progress.clear()
        self.deadline_ms, self.timers_from_ms = now_ms + self.random.randint(*FETCH_TIMEOUT_MS), 0

    def set_clock_back(self, now_ms: int, by_ms: int) -> None:
        """Sets its clock back: timers that run stand still until it is as late as it was; new ones do not."""
        self.skew_ms -= by_ms
        self.timers_from_ms = now_ms + by_ms if self.up or self.resumes_ms else 0

    def set_clock_forward(self, now_ms: int, by_ms: int) -> None:
        """Sets its clock forward: its timers expire, also those by which a leader counts the fetches of others."""
        self.skew_ms += by_ms
        self.timers_from_ms = max(0, self.timers_from_ms - by_ms)
        self.deadline_ms, self.led_since_ms = min(self.deadline_ms, now_ms), self.led_since_ms - by_ms
        for progress in self.progress.values():
            progress.elapsed_from_ms -= by_ms

    def suspend(self, until_ms: int) -> None:
        """Suspends the process: its connections stay, and its timers have expired when it goes on."""
        if self.up:
            self.up, self.resumes_ms = False, until_ms

    def resume_if_due(self, now_ms: int) -> None:
        if self.resumes_ms and now_ms >= self.resumes_ms:
            self.up, self.resumes_ms = True, 0

    def clone(self, of: "SimulatedController") -> None:
        """Becomes a second process of a controller, on another host, with a copy of its disk and with its ids."""
        self.directory, self.key, self.registers = of.directory, of.key, False
        self.log.append(of.log.entries)
        self.log.start, self.epoch = of.log.start, of.epoch

    @property
    def is_clone(self) -> bool:
        """Whether another process with its node id is the one at the recorded endpoint."""
        return self.key.id != self.id

    def stop(self) -> None:
        self.up = self.leads = self.hangs = self.set_back_unseen = False
        self.resumes_ms = 0
        self.network.disconnect(self.id)

    def lose_disk(self, directory: str) -> None:
        """Formats an empty disk without initial controllers: another replica with the same node id."""
        self.stop()
        self.directory, self.log = directory, MetadataLog()
        self.key = replace(self.key, directory_id=DirectoryId(directory))
        self.epoch = self.high_watermark = self.snapshot_end = self.snapshot_ms = 0

    def lose_records(self, end: int) -> None:
        """Restores the log from an older copy, which ended at this offset."""
        self.log.truncate(min(end, len(self.log)))
        self.snapshot_end = min(end, self.snapshot_end)

    def write_snapshot_if_due(self, now_ms: int) -> None:
        """Writes a snapshot of the committed records after the interval."""
        if self.snapshots_fail or now_ms - self.snapshot_ms < SNAPSHOT_INTERVAL_MS:
            return
        end = self.log.stable_end(self.high_watermark)
        if end > self.snapshot_end and now_ms - self.log.entries[end - 1].written_ms < SNAPSHOT_NEWEST_MS:
            self.snapshot_end, self.snapshot_ms = end, now_ms

    def copied(
        self, peers: "Sequence[SimulatedController]", network: Network, ground_truth: GroundTruth
    ) -> "SimulatedController":
        """Returns a controller in the same state among these peers, which does not change with this one."""
        copied = copy(self)
        copied.peers, copied.network, copied.ground_truth = peers, network, ground_truth
        copied.random, copied.log = network.random, self.log.copied()
        copied.progress = {key: copy(one) for key, one in self.progress.items()}
        return copied

    # --- follower and candidate ----------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        """Acts on expired timers."""
        expired = now_ms >= max(self.deadline_ms, self.timers_from_ms)
        if self.leads:
            self._check_leadership(now_ms)
        elif expired and self.key in self.log.keys:
            self._run_for_leader(now_ms)
        elif now_ms >= self.fetch_due_ms:
            if expired:
                # An observer starts no election; it looks for another leader, and may vote.
                self.leader = None
            self._fetch(now_ms)

    def _reached(self, voters: Sequence[Voter]) -> "list[SimulatedController]":
        """Returns the other voters that answer at their endpoints in the log."""
        by_voter = {peer.voter: peer for peer in self.peers if peer.up and peer is not self}
        found = [(by_voter[one], one.endpoints[0]) for one in voters if one in by_voter]
        return [peer for peer, endpoint in found if self.up and self._is_answered(peer, endpoint)]

    def _is_answered(self, peer: "SimulatedController", endpoint: Endpoint) -> bool:
        """Returns whether a request is answered. A controller that is denied ends (ClusterAuthorizationException)."""
        if self.network.answers(self.id, peer.id, endpoint):
            if (self.id, peer.id) not in self.network.denied:
                return True
            self.stop()
            self.ended = True
        return False

    def _run_for_leader(self, now_ms: int) -> None:
        """Leads if a majority grants a pre-vote, so that an election cannot disrupt a quorum (KIP-996), and a vote."""
        self.leader, self.deadline_ms = None, now_ms + self.random.randint(*ELECTION_MS)
        if self._votes(now_ms, pre=True):
            self.epoch += 0 if self.epoch and "double-vote" in self.faults else 1
            if votes := self._votes(now_ms, pre=False):
                self._lead(now_ms, votes)

    def _votes(self, now_ms: int, *, pre: bool) -> set[ReplicaKey]:
        """Returns the voters that vote for this controller; none if they are no majority."""
        asked = self._reached(self.log.voters)
        if not self.up:
            return set()
        votes = {self.key, *(peer.key for peer in asked if peer.votes_for(now_ms, self, pre=pre))}
        newest = max((peer.epoch for peer in asked), default=0)
        if newest > self.epoch:
            self.epoch = newest
            return set()
        return votes if len(votes) > len(self.log.keys) // 2 else set()

    def votes_for(self, now_ms: int, candidate: "SimulatedController", *, pre: bool) -> bool:
        """Returns whether this voter grants a (pre-)vote; in each epoch it grants one vote."""
        newer = candidate.epoch > self.epoch
        if newer:
            self._become_unattached(now_ms, candidate.epoch)
        free = (self.leader is None and (pre or newer)) or "double-vote" in self.faults
        current = (candidate.log.last_epoch, len(candidate.log)) >= (self.log.last_epoch, len(self.log))
        return candidate.epoch == self.epoch and current and free

    def _become_unattached(self, now_ms: int, epoch: int) -> None:
        """Changes to a newer epoch without a known leader."""
        self.epoch, self.leader, self.leads = epoch, None, False
        self.deadline_ms, self.timers_from_ms = now_ms + self.random.randint(*ELECTION_MS), 0
        self.set_back_unseen = False

    def _follow(self, now_ms: int, epoch: int, leader: int | None) -> None:
        if epoch > self.epoch:
            self._become_unattached(now_ms, epoch)
        if leader not in (None, self.id) and not self.leads:
            self.leader, self.deadline_ms = leader, now_ms + self.random.randint(*FETCH_TIMEOUT_MS)

    def _fetch(self, now_ms: int) -> None:
        """Fetches from the leader, or asks any other controller for it."""
        slow = self.random.random() < self.network.slow_probability
        self.fetch_due_ms = now_ms + (self.pause_ms or self.random.randint(*((100, 3_000) if slow else (150, 400))))
        target = next((peer for peer in self.peers if peer.id == self.leader), None) or self.random.choice(self.peers)
        if target is self or not target.up or target.epoch < self.epoch:
            return
        if self._is_answered(target, target.endpoint):
            if target.leads or target.epoch > self.epoch:
                # Of others in its epoch it believes no leader: they would tell each other of one that has resigned.
                self._follow(now_ms, target.epoch, target.leader)
            if target.leads:
                self._copy(now_ms, target)

    def _copy(self, now_ms: int, leader: "SimulatedController") -> None:
        """Copies what the leader has: its snapshot or its records, after it truncated where the logs diverge."""
        log, last_epoch = self.log, self.log.last_epoch
        epoch, end = leader.log.end_of(last_epoch)
        if len(log) < leader.log.start:
            if not self.disk_full:
                log.replace(leader.log.entries[: leader.log.start])
                self.high_watermark = len(log)
        elif len(log) and (epoch != last_epoch or end < len(log)):
            log.truncate(min(end, log.end_of(epoch)[1]))
            self.high_watermark = min(self.high_watermark, len(log))
        else:
            leader.record_fetch(now_ms, self.key, len(log))
            if not self.disk_full and (entries := leader.log.entries[len(log) :]):
                log.append(entries)
                self.fetch_due_ms = now_ms
            self.high_watermark = max(self.high_watermark, min(leader.high_watermark, len(log)))

    # --- leader --------------------------------------------------------------------------------------------------

    def _lead(self, now_ms: int, votes: set[ReplicaKey]) -> None:
        """Leads this epoch, tells the voters so, and writes its first records."""
        self.leads, self.leader = True, self.id
        self.epoch_start, self.led_since_ms = len(self.log), now_ms
        self.progress.clear()
        self.ground_truth.record_leader(self)
        for peer in self._reached(self.log.voters):
            if peer.epoch <= self.epoch:
                peer._follow(now_ms, self.epoch, self.id)
        if not self.up:
            return
        first, keys = not self.log.entries, self.log.keys
        # Kafka names only the votes that made the majority: those that came first.
        came = sorted(votes & keys, key=lambda key: (key != self.key, (key.id + self.epoch) % len(keys)))
        voted = {
            name: tuple(sorted(key.id for key in each))
            for name, each in (("voter_ids", keys), ("granting_voter_ids", came[: len(keys) // 2 + 1]))
        }
        self.write_record(now_ms, LeaderChanged, leader_id=self.key.id, **voted)
        if first and not self.static:
            self.write_record(now_ms, KRaftVersionSet, version=1)
            self.write_record(now_ms, VotersReplaced, voters=self.log.bootstrap)

    def _check_leadership(self, now_ms: int) -> None:
        """A leader without fetches from a majority resigns, and so does one whose removal is committed."""
        keys = self.log.keys
        heard = sum(key == self.key or self.is_fetching(key, now_ms) for key in keys)
        removed = self.key not in keys and self.log.sets[-1][0] < self.high_watermark
        if removed or (heard < len(keys) // 2 + 1 and now_ms - self.led_since_ms > CHECK_QUORUM_MS):
            self.resign(now_ms)

    def resign(self, now_ms: int) -> None:
        """Resigns and names the preferred successors, longest logs first: they start elections one after the other."""
        self.leads, self.leader = False, None
        self.deadline_ms = now_ms + self.random.randint(*ELECTION_MS)
        followers = [peer for peer in self._reached(self.log.voters) if peer.epoch == self.epoch]
        followers.sort(key=lambda peer: -self.progress[peer.key].end_offset if peer.key in self.progress else 0)
        for place, peer in enumerate(followers):
            peer.leader, peer.deadline_ms = None, now_ms + place * ELECTION_MS[0] // 4

    def write(self, now_ms: int, event: LogEvent | None) -> None:
        """Appends a record as the active controller; None is a NoOp."""
        self.log.append((LogEntry(self.epoch, now_ms, now_ms + self.skew_ms, event),))
        self._commit()

    def write_record(self, now_ms: int, record: Callable[..., LogEvent], **fields: object) -> None:
        """Appends a record of this type at the end of the log."""
        self.write(now_ms, record(at=self.at(now_ms), **fields))

    def change_voters(self, now_ms: int, voters: tuple[Voter, ...]) -> bool:
        """Writes a voter change: one at a time, and only after an entry of its epoch is committed (KIP-853)."""
        if not self.leads or self.log.static or self.high_watermark <= self.epoch_start:
            return False
        if self.log.sets[-1][0] >= self.high_watermark:
            return False
        self.write_record(now_ms, VotersReplaced, voters=voters)
        return True

    def is_fetching(self, key: ReplicaKey, now_ms: int) -> bool:
        """Returns whether this replica fetched recently."""
        progress = self.progress.get(key)
        return progress is not None and now_ms - progress.elapsed_from_ms <= CHECK_QUORUM_MS

    def record_fetch(self, now_ms: int, replica: ReplicaKey, offset: int) -> None:
        """Records that a replica has the log up to this offset, and commits what a majority has."""
        clock, held = now_ms + self.skew_ms, self.progress.get(replica)
        caught_up = clock if offset >= len(self.log) else (held.caught_up_at_ms if held else 0)
        self.progress[replica] = ReplicaProgress(offset, clock, caught_up, now_ms)
        self._commit()

    def _commit(self) -> None:
        ends = sorted(
            len(self.log) if key == self.key else (self.progress[key].end_offset if key in self.progress else 0)
            for key in self.log.keys
        )
        end = ends[(len(ends) - 1) // 2] if ends else 0
        if "minority-commit" in self.faults:
            end = len(self.log)
        if end > self.epoch_start and end > self.high_watermark:
            self.ground_truth.commit(self, end)
            self.high_watermark = end
