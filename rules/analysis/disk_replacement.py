"""Which replica replaces which voter after a controller's disk was replaced.

The sign is one node id that is a voter with an old directory id and an observer with a new one (KIP-856). After the
removal of the old key and before the addition of the new one, the old key is in `Quorum.removals`.
"""

from rules.analysis.replica_lag import same_replica
from rules.finding import Threshold, Thresholds
from rules.model.identifiers import ReplicaKey
from rules.model.quorum import Quorum
from rules.model.voter_set import VoterRemoval

HALF_DONE = Threshold(
    name="half_done",
    default=86_400.0,
    unit="s",
    meaning="for how long after a voter's removal the same node id with another directory id counts as its "
    "replacement that is not added yet; later it is an observer like any other. A day covers a repair that waited "
    "until the next morning",
)


def half_done(quorum: Quorum, key: ReplicaKey, thresholds: Thresholds) -> VoterRemoval | None:
    """Returns the removal that adding this replica would complete: same id, other directory id, within `half_done`."""
    removals = [
        removal
        for removal in quorum.removals
        if removal.key.id == key.id
        and not same_replica(removal.key, key)
        and quorum.now_ms - removal.removed_at_ms <= thresholds.ms(HALF_DONE.name)
    ]
    return removals[-1] if removals else None
