"""Leadership: who leads, by the newest evidence, and the high watermark with it.

Evidence is a LeaderChangeMessage of the log, an answered poll, or an answer of the log itself; a higher
epoch wins over a lower one. Against it stand nodes that say that they know no leader.
"""

from dataclasses import dataclass, field

from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.monitoring import NO_LEADER_REASONS, Reason

OUTLIVED_MS = Millis(30_000)
"""After this long without a word from its epoch, evidence of a lower epoch is believed: epochs do go back when
a quorum is restored from an older disk, and whoever reads no log is not told of it."""
NOBODY = NO_LEADER_REASONS | {Reason.REFUSED}
"""A place that shows no leader: its node knows none, or no node runs there. A time-out shows nothing."""


DOUBT_MS = Millis(60_000)
"""A doubt that was not repeated for this long is over: nobody looks there any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """What a place showed instead of a leader, and when it last did."""

    reason: Reason
    at_ms: Millis


@dataclass(slots=True, kw_only=True)
class Leadership:
    """The leader as it was last seen, and the doubts since then.

    Invariant: `doubts` holds only what was said after the last sight of a leader.
    """

    known: NodeId | None = None
    epoch: Epoch | None = None
    high_watermark: Offset | None = None
    high_watermark_since_ms: Millis | None = None
    """When this high watermark was first seen; at the latest when its epoch was."""
    heard_at_ms: Millis | None = None
    doubts: dict[str, Doubt] = field(default_factory=dict)
    """By the HOST:PORT that was asked."""

    def leader(self, places: int) -> NodeId | None:
        """The leader; None when nothing is known, or when a majority of places shows none and one of them says so.

        Args:
            places: how many places are asked by configuration.
        """
        none = len(self.doubts)
        said = any(doubt.reason in NO_LEADER_REASONS for doubt in self.doubts.values())
        return None if said and none >= max(1, places // 2 + 1) else self.known

    def hear(self, *, leader: NodeId, epoch: Epoch, high_watermark: Offset | None, now_ms: Millis) -> bool:
        """Take evidence of a leader in an epoch; False when newer evidence refutes it."""
        if self.epoch is not None and epoch < self.epoch and not self._outlived(now_ms):
            return False
        if epoch != self.epoch:
            # A new leader's high watermark is true even when it is lower: that is what a restored disk looks like.
            self.high_watermark, self.high_watermark_since_ms = high_watermark, now_ms
        else:
            self.advance(high_watermark, now_ms)
        self.known, self.epoch, self.heard_at_ms = leader, epoch, now_ms
        self.doubts.clear()
        return True

    def read(self, *, leader: NodeId | None, epoch: Epoch | None) -> None:
        """Take a LeaderChangeMessage of the log: history, unless its epoch is newer than all else."""
        if leader is not None and epoch is not None and (self.epoch is None or epoch > self.epoch):
            self.known, self.epoch = leader, epoch

    def distrust(self) -> None:
        """Committed metadata was lost: epochs and high watermark may be lower from now on."""
        self.heard_at_ms = self.high_watermark = self.high_watermark_since_ms = None

    def answered(self, high_watermark: Offset | None, now_ms: Millis) -> None:
        """The log was served: only a leader serves it, so whoever said there is none is outdated."""
        self.doubts.clear()
        self.advance(high_watermark, now_ms)

    def advance(self, high_watermark: Offset | None, now_ms: Millis) -> None:
        """Within one epoch the high watermark never goes back."""
        if high_watermark is not None and (self.high_watermark is None or high_watermark > self.high_watermark):
            self.high_watermark, self.high_watermark_since_ms = high_watermark, now_ms

    def doubt(self, place: str, reason: Reason, now_ms: Millis) -> None:
        """A look at a place failed. A time-out shows nothing, and so takes nothing back."""
        if reason in NOBODY:
            self.doubts[place] = Doubt(reason=reason, at_ms=now_ms)

    def forget(self, now_ms: Millis) -> None:
        """Drop doubts that are too old to speak of now."""
        for place in [place for place, doubt in self.doubts.items() if now_ms - doubt.at_ms > DOUBT_MS]:
            del self.doubts[place]

    def _outlived(self, now_ms: Millis) -> bool:
        return self.heard_at_ms is None or now_ms - self.heard_at_ms > OUTLIVED_MS
