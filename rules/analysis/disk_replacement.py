"""A controller's disk was replaced: which replica stands in for which voter.

The signature is one node id at once voter with an old directory and observer with a new one (KIP-856).
Half-way through the mending (removed, not yet added) the old key is in `Quorum.removals`.
"""

from rules.analysis.replica_lag import same
from rules.finding import Threshold, Thresholds
from rules.model.identifiers import ReplicaKey
from rules.model.quorum import Quorum
from rules.model.voter_set import VoterRemoval

HALF_DONE = Threshold(
    name="half_done",
    default=86_400.0,
    unit="s",
    meaning="for how long after a voter's removal the same node id with another directory is taken for its "
    "replacement, not yet added; later it is an observer like any other. A day covers a repair that waited for the "
    "morning",
)


def half_done(quorum: Quorum, key: ReplicaKey, thresholds: Thresholds) -> VoterRemoval | None:
    """The removal that this replica's promotion would complete: same id, other directory, not long ago."""
    fitting = [
        removal
        for removal in quorum.removals
        if removal.key.id == key.id
        and not same(removal.key, key)
        and quorum.now_ms - removal.removed_at_ms <= thresholds.ms(HALF_DONE.name)
    ]
    return fitting[-1] if fitting else None
