"""A SimulatedController: a replica that can be elected, votes and leads (KIP-595, KIP-853, KIP-996)."""

from collections.abc import Callable
from dataclasses import dataclass

from connectors.observations.log_event import KRaftVersionSet, LeaderChanged, LogEvent, VotersReplaced
from rules.model.identifiers import NodeId, ReplicaKey
from rules.model.membership import FeatureRange, Voter
from tests.simulation.metadata_log import LogEntry
from tests.simulation.network import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    FetchRequest,
    FetchResponse,
    Message,
    VoteRequest,
    VoteResponse,
)
from tests.simulation.replica import ELECTION_MS, FETCH_TIMEOUT_MS, ReplicaProgress, SimulatedReplica

CHECK_QUORUM_MS = 3_000
RESPONSE_RECORDS = 40


@dataclass(slots=True, kw_only=True, eq=False)
class SimulatedController(SimulatedReplica):
    """A controller; it acts on its timers and on messages."""

    def tick(self, now_ms: int) -> None:
        """Acts on expired timers."""
        if self.leads:
            self._check_leadership(now_ms)
        elif now_ms >= self.deadline_ms and self.key in self.log.keys:
            self._start_pre_vote(now_ms)
        elif now_ms >= self.fetch_due_ms and not self.candidate:
            if now_ms >= self.deadline_ms:
                # An observer starts no election; it looks for another leader, and may vote.
                self.leader = None
            self._fetch(now_ms)

    def receive(self, now_ms: int, sender: SimulatedReplica, message: Message) -> None:
        match message:
            case VoteRequest():
                self._handle_vote_request(now_ms, sender, message)
            case VoteResponse():
                self._handle_vote_response(now_ms, message)
            case BeginQuorumEpoch():
                if message.voter == self.key and message.epoch >= self.epoch:
                    self._follow(now_ms, message.epoch, message.leader)
            case EndQuorumEpoch():
                self._handle_end_epoch(now_ms, message)
            case FetchRequest():
                self.network.send(now_ms, self.id, sender.id, self.handle_fetch(now_ms, message))
            case FetchResponse():
                self._handle_fetch_response(now_ms, message)

    def _start_pre_vote(self, now_ms: int) -> None:
        """Starts a pre-vote (KIP-996): otherwise a controller that cannot win would disrupt the quorum."""
        self.candidate, self.prospective, self.leader = False, True, None
        self._request_votes(now_ms)

    def _start_election(self, now_ms: int) -> None:
        self.epoch += 0 if self.epoch and "old-epoch" in self.faults else 1
        self.voted = self.key
        self.candidate, self.prospective, self.leader = True, False, None
        self._request_votes(now_ms)

    def _request_votes(self, now_ms: int) -> None:
        self.votes = {self.key}
        self.deadline_ms = now_ms + self.random.randint(*ELECTION_MS)
        for voter in self.log.voters:
            if voter.key != self.key:
                position = (self.epoch, self.log.last_epoch, len(self.log))
                self._connect(now_ms, voter, VoteRequest(self.key, voter.key, *position, pre=self.prospective))
        self._count_votes(now_ms)

    def _handle_vote_request(self, now_ms: int, sender: SimulatedReplica, asked: VoteRequest) -> None:
        if asked.voter != self.key:
            return
        if asked.epoch > self.epoch:
            self._become_unattached(now_ms, asked.epoch)
        current = (asked.last_epoch, asked.end_offset) >= (self.log.last_epoch, len(self.log))
        free = self.voted in (None, asked.candidate) and self.leader is None
        if asked.pre:
            free = self.leader is None
        free = free or "double-vote" in self.faults
        granted = asked.epoch == self.epoch and current and free
        if granted and not asked.pre:
            self.voted = asked.candidate
            self.deadline_ms = now_ms + FETCH_TIMEOUT_MS + self.random.randint(0, 1_000)
        self.network.send(now_ms, self.id, sender.id, VoteResponse(self.key, self.epoch, granted, asked.pre))

    def _handle_vote_response(self, now_ms: int, answer: VoteResponse) -> None:
        if answer.epoch > self.epoch:
            self._become_unattached(now_ms, answer.epoch)
        elif (self.prospective if answer.pre else self.candidate) and answer.epoch == self.epoch and answer.granted:
            self.votes.add(answer.voter)
            self._count_votes(now_ms)

    def _count_votes(self, now_ms: int) -> None:
        keys = self.log.keys
        if len(self.votes & keys) < len(keys) // 2 + 1:
            return
        if self.prospective:
            self._start_election(now_ms)
            return
        self.candidate, self.leads, self.leader = False, True, self.id
        self.epoch_start, self.led_since_ms, self.begin_due_ms = len(self.log), now_ms, now_ms
        self.progress.clear()
        self.ground_truth.record_leader(self)
        first = not self.log.entries
        voted = {
            name: tuple(sorted(key.id for key in keys))
            for name, keys in (("voter_ids", self.log.keys), ("granting_voter_ids", self.votes & self.log.keys))
        }
        self.write_record(now_ms, LeaderChanged, leader_id=NodeId(self.id), **voted)
        if first and not self.static:
            self.write_record(now_ms, KRaftVersionSet, version=1)
            self.write_record(now_ms, VotersReplaced, voters=self.log.bootstrap)
        self._commit()

    def _handle_end_epoch(self, now_ms: int, ended: EndQuorumEpoch) -> None:
        """The first preferred successor starts an election at once; each further one waits longer."""
        if ended.voter == self.key and ended.epoch == self.epoch and not self.leads:
            self.leader = None
            place = ended.successors.index(self.key) if self.key in ended.successors else len(ended.successors)
            self.deadline_ms = now_ms + (place and (ELECTION_MS[0] >> max(0, len(ended.successors) - place)))

    def write(self, now_ms: int, event: LogEvent | None) -> None:
        """Appends a record as the active controller; None is a NoOp."""
        entry = LogEntry(self.epoch, now_ms + self.skew_ms, event, self.clock_ahead_ms)
        self.log.append((entry,))
        self.ground_truth.record_written(self, len(self.log) - 1, entry)
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

    def _check_leadership(self, now_ms: int) -> None:
        voters = self.log.keys
        heard = sum(key == self.key or self.is_fetching(key, now_ms) for key in voters)
        removed = self.key not in voters and self.log.sets[-1][0] < self.high_watermark
        if removed or (heard < len(voters) // 2 + 1 and now_ms - self.led_since_ms > CHECK_QUORUM_MS):
            # A leader without fetches from a majority resigns, and so does one whose removal is committed.
            self.resign(now_ms)
            return
        if now_ms >= self.begin_due_ms:
            self.begin_due_ms = now_ms + FETCH_TIMEOUT_MS // 2
            for voter in self.log.voters:
                if voter.key != self.key:
                    self._connect(now_ms, voter, BeginQuorumEpoch(voter.key, self.id, self.epoch))

    def resign(self, now_ms: int) -> None:
        """Resigns and names the preferred successors: an election then needs no timeout."""
        known = {key: one.end_offset for key, one in self.progress.items() if key in self.log.keys}
        successors = tuple(sorted(known, key=lambda key: (-known[key], key.id)))
        for voter in self.log.voters:
            if voter.key != self.key:
                self._connect(now_ms, voter, EndQuorumEpoch(voter.key, self.epoch, successors))
        self.leads, self.leader = False, None
        self.deadline_ms = now_ms + self.random.randint(*ELECTION_MS)

    def is_fetching(self, key: ReplicaKey, now_ms: int) -> bool:
        """Returns whether this replica fetched recently."""
        progress = self.progress.get(key)
        return progress is not None and now_ms + self.skew_ms - progress.fetched_at_ms <= CHECK_QUORUM_MS

    def handle_fetch(self, now_ms: int, asked: FetchRequest) -> FetchResponse:
        if not self.leads or asked.epoch != self.epoch:
            return FetchResponse(self.leader, self.epoch)
        if asked.offset < self.log.start:
            whole = tuple(self.log.entries[: self.log.start])
            return FetchResponse(self.id, self.epoch, asked.offset, asked.last_epoch, snapshot=whole, served=True)
        epoch, end = self.log.end_of(asked.last_epoch)
        if asked.offset and (epoch != asked.last_epoch or end < asked.offset):
            return FetchResponse(
                self.id, self.epoch, asked.offset, asked.last_epoch, diverging=(epoch, end), served=True
            )
        clock = now_ms + self.skew_ms
        caught_up = clock if asked.offset >= len(self.log) else 0
        held = self.progress.get(asked.replica)
        self.progress[asked.replica] = ReplicaProgress(
            asked.offset, clock, caught_up or (held.caught_up_at_ms if held else 0)
        )
        self._commit()
        entries = tuple(self.log.entries[asked.offset : asked.offset + RESPONSE_RECORDS])
        return FetchResponse(
            self.id, self.epoch, asked.offset, asked.last_epoch, entries, self.high_watermark, served=True
        )

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


def supporting(metadata_version: int) -> tuple[FeatureRange, ...]:
    """Returns the feature levels that a node up to this metadata.version supports."""
    return (
        FeatureRange(name="kraft.version", lowest=0, highest=1),
        FeatureRange(name="metadata.version", lowest=7, highest=metadata_version),
    )
