"""A Controller: a replica that stands for election, votes and leads, as KIP-595, KIP-853 and KIP-996 tell it."""

from dataclasses import dataclass

from connectors.event import KRaftVersionSet, LeaderChanged, LogEvent, VotersSet
from rules.model.identifiers import NodeId, ReplicaKey
from rules.model.voter_set import Voter
from tests.simulation.metadata_log import Entry
from tests.simulation.raft_messages import BeginQuorumEpoch, EndQuorumEpoch, Fetch, Fetched, Message, Vote, Voted
from tests.simulation.replica import ELECTION_MS, FETCH_TIMEOUT_MS, Replica
from tests.simulation.replica_progress import Progress

CHECK_QUORUM_MS = 3_000
ANSWER_RECORDS = 40


@dataclass(slots=True, kw_only=True, eq=False)
class Controller(Replica):
    """Awake while it is up; hears what others say."""

    def wake(self, now_ms: int) -> None:
        """Time passed."""
        if self.leads:
            self._lead_on(now_ms)
        elif now_ms >= self.deadline_ms and self.key in self.log.keys:
            self._ask(now_ms)
        elif now_ms >= self.fetch_due_ms and not self.candidate:
            if now_ms >= self.deadline_ms:
                # An observer stands for nothing; it looks for another leader, and may vote for one.
                self.leader = None
            self._fetch(now_ms)

    def hear(self, now_ms: int, sender: Replica, message: Message) -> None:
        match message:
            case Vote():
                self._vote(now_ms, sender, message)
            case Voted():
                self._voted(now_ms, message)
            case BeginQuorumEpoch():
                if message.voter == self.key and message.epoch >= self.epoch:
                    self._follow(now_ms, message.epoch, message.leader)
            case EndQuorumEpoch():
                self._succeed(now_ms, message)
            case Fetch():
                self.network.send(now_ms, self.id, sender.id, self._serve(now_ms, message))
            case Fetched():
                self._fetched(now_ms, message)

    def _ask(self, now_ms: int) -> None:
        """Prospective: would a majority vote for it? Else who cannot win disturbs those who can, for ever."""
        self.candidate, self.prospective, self.leader = False, True, None
        self._canvass(now_ms)

    def _stand(self, now_ms: int) -> None:
        self.epoch += 0 if self.epoch and "old-epoch" in self.faults else 1
        self.voted = self.key
        self.candidate, self.prospective, self.leader = True, False, None
        self._canvass(now_ms)

    def _canvass(self, now_ms: int) -> None:
        self.votes = {self.key}
        self.deadline_ms = now_ms + self.random.randint(*ELECTION_MS)
        for voter in self.log.voters:
            if voter.key != self.key:
                where = (self.epoch, self.log.last_epoch, len(self.log))
                self._dial(now_ms, voter, Vote(self.key, voter.key, *where, pre=self.prospective))
        self._count(now_ms)

    def _vote(self, now_ms: int, sender: Replica, asked: Vote) -> None:
        if asked.voter != self.key:
            return
        if asked.epoch > self.epoch:
            self._become(now_ms, asked.epoch)
        current = (asked.last_epoch, asked.end_offset) >= (self.log.last_epoch, len(self.log))
        free = self.voted in (None, asked.candidate) and self.leader is None
        if asked.pre:
            free = self.leader is None
        free = free or "double-vote" in self.faults
        granted = asked.epoch == self.epoch and current and free
        if "refuses-strangers" in self.faults:
            granted = granted and {self.key, asked.candidate} <= self.log.keys
        if granted and not asked.pre:
            self.voted = asked.candidate
            self.deadline_ms = now_ms + FETCH_TIMEOUT_MS + self.random.randint(0, 1_000)
        self.network.send(now_ms, self.id, sender.id, Voted(self.key, self.epoch, granted, asked.pre))

    def _voted(self, now_ms: int, answer: Voted) -> None:
        if answer.epoch > self.epoch:
            self._become(now_ms, answer.epoch)
        elif (self.prospective if answer.pre else self.candidate) and answer.epoch == self.epoch and answer.granted:
            self.votes.add(answer.voter)
            self._count(now_ms)

    def _count(self, now_ms: int) -> None:
        keys = self.log.keys
        if len(self.votes & keys) < len(keys) // 2 + 1:
            return
        if self.prospective:
            self._stand(now_ms)
            return
        self.candidate, self.leads, self.leader = False, True, self.id
        self.epoch_start, self.led_since_ms, self.begin_due_ms = len(self.log), now_ms, now_ms
        self.progress.clear()
        self.truth.elected(self)
        first = not self.log.entries
        self.write(now_ms, LeaderChanged(at=self.at(now_ms), leader_id=NodeId(self.id), voter_ids=()))
        if first and not self.static:
            self.write(now_ms, KRaftVersionSet(at=self.at(now_ms), version=1))
            self.write(now_ms, VotersSet(at=self.at(now_ms), voters=self.log.bootstrap))
        self._commit()

    def _succeed(self, now_ms: int, ended: EndQuorumEpoch) -> None:
        """The first successor stands at once, each further one waits longer for those before it."""
        if ended.voter == self.key and ended.epoch == self.epoch and not self.leads:
            self.leader = None
            place = ended.successors.index(self.key) if self.key in ended.successors else len(ended.successors)
            self.deadline_ms = now_ms + (place and (ELECTION_MS[0] >> max(0, len(ended.successors) - place)))

    def write(self, now_ms: int, event: LogEvent | None) -> None:
        """The active controller appends a record; None is a NoOp."""
        entry = Entry(self.epoch, now_ms + self.skew_ms, event)
        self.log.append((entry,))
        self.truth.wrote(self, len(self.log) - 1, entry)
        self._commit()

    def change_voters(self, now_ms: int, voters: tuple[Voter, ...]) -> bool:
        """One change at a time, and none before the leader committed an entry of its own epoch (KIP-853)."""
        if not self.leads or self.log.static or self.high_watermark <= self.epoch_start:
            return False
        if self.log.sets[-1][0] >= self.high_watermark and "two-changes" not in self.faults:
            return False
        self.write(now_ms, VotersSet(at=self.at(now_ms), voters=voters))
        return True

    def _lead_on(self, now_ms: int) -> None:
        voters = self.log.keys
        heard = sum(key == self.key or self.hears(key, now_ms) for key in voters)
        removed = self.key not in voters and self.log.sets[-1][0] < self.high_watermark
        if removed or (heard < len(voters) // 2 + 1 and now_ms - self.led_since_ms > CHECK_QUORUM_MS):
            # A leader that hears no majority resigns, and so does one whose removal is committed.
            self.resign(now_ms)
            return
        if now_ms >= self.begin_due_ms:
            self.begin_due_ms = now_ms + FETCH_TIMEOUT_MS // 2
            for voter in self.log.voters:
                if voter.key != self.key:
                    self._dial(now_ms, voter, BeginQuorumEpoch(voter.key, self.id, self.epoch))

    def resign(self, now_ms: int) -> None:
        """Lead no more, and tell who should: an election then needs no time-out."""
        known = {key: one.end_offset for key, one in self.progress.items() if key in self.log.keys}
        successors = tuple(sorted(known, key=lambda key: (-known[key], key.id)))
        for voter in self.log.voters:
            if voter.key != self.key:
                self._dial(now_ms, voter, EndQuorumEpoch(voter.key, self.epoch, successors))
        self.leads, self.leader = False, None
        self.deadline_ms = now_ms + self.random.randint(*ELECTION_MS)

    def hears(self, key: ReplicaKey, now_ms: int) -> bool:
        """Whether this replica fetched lately."""
        progress = self.progress.get(key)
        return progress is not None and now_ms + self.skew_ms - progress.fetched_at_ms <= CHECK_QUORUM_MS

    def _serve(self, now_ms: int, asked: Fetch) -> Fetched:
        if not self.leads or asked.epoch != self.epoch:
            return Fetched(self.leader, self.epoch)
        if asked.offset < self.log.start:
            whole = tuple(self.log.entries[: self.log.start])
            return Fetched(self.id, self.epoch, asked.offset, asked.last_epoch, snapshot=whole, served=True)
        epoch, end = self.log.end_of(asked.last_epoch)
        if asked.offset and (epoch != asked.last_epoch or end < asked.offset):
            return Fetched(self.id, self.epoch, asked.offset, asked.last_epoch, diverging=(epoch, end), served=True)
        clock = now_ms + self.skew_ms
        caught_up = clock if asked.offset >= len(self.log) else 0
        held = self.progress.get(asked.replica)
        self.progress[asked.replica] = Progress(asked.offset, clock, caught_up or (held.caught_up_at_ms if held else 0))
        self._commit()
        entries = tuple(self.log.entries[asked.offset : asked.offset + ANSWER_RECORDS])
        return Fetched(self.id, self.epoch, asked.offset, asked.last_epoch, entries, self.high_watermark, served=True)

    def _commit(self) -> None:
        ends = sorted(
            len(self.log) if key == self.key else (self.progress[key].end_offset if key in self.progress else 0)
            for key in self.log.keys
        )
        end = ends[(len(ends) - 1) // 2] if ends else 0
        if "minority-commit" in self.faults:
            end = len(self.log)
        if end > self.epoch_start and end > self.high_watermark:
            self.truth.commit(self, end)
            self.high_watermark = end
