"""The Truth: what really was committed and who really led; and the laws that the quorum itself must keep.

K043: epochs never decrease, one leader an epoch, one entry at (offset, epoch). K044: a high watermark never goes back,
is within the log, and moves only over an entry of the leader's own epoch. K045: one uncommitted voter change at most,
committed sets differ by one voter, their majorities overlap. K046: voter sets revert with truncation, committed ones
never. K047: a RECOVERING partition has its leader alone in sync, or neither leader nor ISR.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from connectors.event import VotersSet
from rules.model.identifiers import ReplicaKey
from rules.model.voter_set import Voter
from tests.simulation.metadata_log import Entry, MetadataLog
from tests.simulation.oracle import Oracle

if TYPE_CHECKING:
    from tests.simulation.replica import Replica


class Broken(AssertionError):
    """A law was broken: by the quorum, or by what the monitor says of it."""


class Truth:
    """Invariant: `committed` only ever grows."""

    def __init__(self, *, strict: bool = True) -> None:
        self.strict = strict
        """False: the laws are not enforced, so that one sees what the monitor makes of their breaking."""
        self.committed: list[Entry] = []
        self.leaders: dict[int, int] = {}
        self.epochs: dict[ReplicaKey, int] = {}
        self.marks: dict[tuple[ReplicaKey, int], int] = {}
        self.entries: dict[tuple[int, int], Entry] = {}
        self.oracle = Oracle()
        self.broken: list[str] = []
        self.cuts = 0

    def law(self, kept: bool, sentence: str) -> None:
        if not kept:
            self.broken.append(sentence)
            if self.strict:
                raise Broken(sentence)

    def elected(self, node: "Replica") -> None:
        known = self.leaders.setdefault(node.epoch, node.id)
        self.law(known == node.id, f"K043: epoch {node.epoch} has the leaders {known} and {node.id}")
        complete = self._holds_committed(node.log)
        self.law(complete, f"leader completeness: {node.key} leads epoch {node.epoch} and lacks committed records")

    def wrote(self, node: "Replica", offset: int, entry: Entry) -> None:
        known = self.entries.setdefault((offset, entry.epoch), entry)
        self.law(known is entry, f"K043: two records at offset {offset} in epoch {entry.epoch}")
        if isinstance(entry.event, VotersSet) and node.high_watermark > node.epoch_start:
            pending = [at for at, _ in node.log.sets if at >= node.high_watermark]
            self.law(len(pending) <= 1, f"K045: uncommitted voter sets at {pending} in the log of {node.key}")

    def touched(self, node: "Replica") -> None:
        """The laws that hold for a controller after every step."""
        before = self.epochs.get(node.key, 0)
        if node.epoch < before:
            self.law(False, f"K043: epoch of {node.key} goes from {before} to {node.epoch}")
        self.epochs[node.key] = node.epoch
        if node.high_watermark > len(node.log):
            self.law(False, f"K044: high watermark of {node.key} is beyond its log")
        if node.leads:
            mark = self.marks.get((node.key, node.epoch), 0)
            if node.high_watermark < mark:
                self.law(False, f"K044: high watermark of leader {node.key} goes back from {mark}")
            self.marks[node.key, node.epoch] = node.high_watermark

    def copied(self, node: "Replica", offset: int, entries: Iterable[Entry]) -> None:
        for place, entry in enumerate(entries, offset):
            known = self.entries.get((place, entry.epoch))
            self.law(known is entry, f"log matching: {node.key} holds another record at ({place}, {entry.epoch})")

    def truncating(self, node: "Replica", end: int) -> None:
        self.law(end >= node.high_watermark, f"{node.key} cuts its log at {end}, below what it knows to be committed")

    def truncated(self, log: MetadataLog) -> None:
        self.cuts += 1
        sets = [(at, entry.event.voters) for at, entry in enumerate(log.entries) if isinstance(entry.event, VotersSet)]
        self.law(sets == log.sets, "K046: the voter-set history is not what the truncated log says")

    def commit(self, node: "Replica", end: int) -> None:
        """A leader moves its high watermark: what it holds up to there is committed, for ever."""
        self.law(node.log.entries[end - 1].epoch == node.epoch, f"K044: {node.key} commits up to another epoch's entry")
        overlap = min(end, len(self.committed))
        same = not overlap or node.log.entries[overlap - 1] is self.committed[overlap - 1]
        self.law(same, f"committed offset {overlap - 1} was rewritten by {node.key} in epoch {node.epoch}")
        for entry in node.log.entries[len(self.committed) : end]:
            if isinstance(entry.event, VotersSet):
                self._reconfigured(entry.event.voters)
            self.committed.append(entry)
            self.oracle.apply(entry.event)
        for where, one in self.oracle.recovering.items():
            alone = one.isr == (one.leader,) or (one.leader is None and len(one.isr) <= 1)
            self.law(alone, f"K047: {where} is RECOVERING with leader {one.leader} and ISR {one.isr}")

    def inspect(self, nodes: Iterable["Replica"]) -> None:
        """Log matching, wholly: up to the last entry that two logs share, they are one."""
        logs = [node.log.entries for node in nodes]
        for number, one in enumerate(logs):
            for other in logs[:number]:
                end = min(len(one), len(other))
                while end and one[end - 1].epoch != other[end - 1].epoch:
                    end -= 1
                same = all(a is b for a, b in zip(one[:end], other[:end], strict=True))
                self.law(same, f"log matching: two logs differ below offset {end}")

    def _reconfigured(self, voters: tuple[Voter, ...]) -> None:
        before, after = self.oracle.voters, frozenset(voter.key for voter in voters)
        if before is not None:
            changed = len(before ^ after)
            self.law(changed <= 1, f"K045: committed voter sets differ by {changed} voters")

    def _holds_committed(self, log: MetadataLog) -> bool:
        end = len(self.committed)
        return end <= len(log) and (not end or log.entries[end - 1] is self.committed[end - 1])
