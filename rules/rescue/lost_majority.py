"""A quorum of the voters that are left when the disks of the others are gone for good, and what that may lose.

The operator names every voter whose disk is gone. The most complete log that is left (by epoch, then by offset) is
continued; the voters of the new quorum are those whose logs are a beginning of it. This loses nothing that was
committed if enough disks are left (`rules.rescue.disk_count`); otherwise it loses what only the lost disks had, and the
operator must accept that.

The new quorum begins with an epoch that none of the lost voters can have reached. So the log of a lost voter that comes
back is never as up to date as the new one (KIP-595, Vote): the new voters do not elect it, and it follows them. It may
still elect a leader together with other lost voters while none of the new ones answers them: they must stay down.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rules.formatting import and_join, numbered
from rules.model.history import REBUILT_EPOCHS
from rules.model.identifiers import Epoch, NodeId, Offset, ReplicaKey
from rules.model.membership import VoterSet
from rules.rescue.disk_count import DiskCount
from rules.rescue.node_decisions import StoppedDisk, is_beginning


@dataclass(frozen=True, slots=True, kw_only=True)
class NewQuorum:
    """The quorum that continues the best log that is left."""

    lost: tuple[NodeId, ...]
    """The voters whose disks are gone."""
    log: StoppedDisk
    """Whose records it begins with."""
    voters: tuple[ReplicaKey, ...]
    """Its voters."""
    others: tuple[ReplicaKey, ...]
    """Voters that are left and are none of its voters: their logs have diverged or cannot be read."""
    epoch: Epoch
    """Its first epoch."""
    left: DiskCount
    """How many of the former voters' disks are surely as these left them."""
    committed_below: Offset
    """Records below it are committed, by a snapshot of any disk."""
    accepted: bool
    """Whether the operator accepts that committed records are lost."""
    obstacle: str | None
    """Why it cannot be made, as a clause; None if it can."""

    @property
    def data_safe(self) -> bool:
        """Whether it surely has every record that was committed.

        A snapshot that ends after this log proves that the disks are older copies.
        """
        return self.left.holds_all and self.committed_below <= self.log.end_offset and self.obstacle is None

    @property
    def refusal(self) -> str | None:
        """Why nothing may be written, as a clause; None if it may."""
        if self.obstacle is not None or self.data_safe or self.accepted:
            return self.obstacle
        if self.committed_below > self.log.end_offset:
            return (
                f"the log ends at offset {self.log.end_offset}, and records below {self.committed_below} were committed"
            )
        disks, need = self.left.disks, self.left.needed
        return (
            f"{disks} of {self.left.voters} voters' disks {'is' if disks == 1 else 'are'} left, and {need} hold every "
            "record that was committed: others may be lost"
        )


def next_epoch(known: Iterable[Epoch]) -> Epoch:
    """Returns the first epoch of a new quorum; `known`: every epoch that any disk knows."""
    return Epoch((max(known, default=Epoch(0)) // REBUILT_EPOCHS + 1) * REBUILT_EPOCHS)


def require_lost(lost: Collection[NodeId], given: Collection[ReplicaKey], voters: VoterSet) -> None:
    """Returns if the lost voters and the voters whose disks are given are all voters, each once, and no majority.

    Raises:
        ValueError: one sentence about what is wrong with the list.
    """
    everyone, left = sorted(voters.ids), sorted(key.id for key in voters.keys if key in given)
    if strangers := sorted({*lost} - voters.ids):
        raise ValueError(f"{and_join(strangers)} is no voter: the voters are {and_join(everyone)}")
    if both := sorted({*lost} & {*left}):
        raise ValueError(f"the disk of voter {both[0]} is given, so it is not lost")
    if missing := [node for node in everyone if node not in {*lost, *left}]:
        others = [key for key in given if key.id == missing[0]]
        why = (
            f"; the disk of node {missing[0]} that is given has directory id {others[0].directory_id}" if others else ""
        )
        raise ValueError(
            f"voter {and_join(str(key) for key in voters.keys if key.id == missing[0])} is neither given nor lost: "
            f"give the disk of each voter that is left, and name each one whose disk is gone{why}"
        )
    if len(left) >= voters.majority:
        raise ValueError(
            f"{len(left)} of {len(everyone)} voters' disks are left, and {voters.majority} elect a leader: start "
            f"{numbered('controller', left)}, and then remove the lost voters with kafka-metadata-quorum.sh "
            "remove-controller"
        )


def new_quorum(
    logs: Sequence[StoppedDisk],
    voters: VoterSet,
    lost: Collection[NodeId],
    *,
    intact: DiskCount,
    committed_below: Offset,
    epochs: Iterable[Epoch],
    accepted: bool,
    log_of: NodeId | None = None,
) -> NewQuorum:
    """Returns the quorum of the voters that are left.

    Args:
        intact: how many of the voters' disks are surely as these left them.
        committed_below: where the newest snapshot of any disk ends: what is below is committed.
        epochs: every epoch that any disk knows, of brokers too.
        log_of: a broker whose log is continued instead of a voter's.

    Raises:
        ValueError: `require_lost`; or none of the voters is left, or the broker's log does not continue theirs.
    """
    require_lost(lost, {log.key for log in logs}, voters)
    of_voters = [log for log in logs if log.key in voters.keys]
    if not of_voters:
        raise ValueError("no voter's disk is left: a broker cannot become a voter")
    sound = [log for log in of_voters if log.damage is None and log.unreadable is None]
    best = max(sound or of_voters, key=lambda log: log.position)
    source = best if log_of is None else _broker(logs, log_of, best)
    kept = tuple(sorted(log.key for log in sound if is_beginning(log, source)))
    return NewQuorum(
        lost=tuple(sorted(lost)),
        log=source,
        voters=kept,
        others=tuple(sorted(log.key for log in of_voters if log.key not in kept)),
        epoch=next_epoch(epochs),
        left=intact,
        committed_below=committed_below,
        accepted=accepted,
        obstacle=None if sound else _obstacle(best),
    )


def _obstacle(best: StoppedDisk) -> str:
    """Returns why the log of no voter that is left can be continued."""
    why = best.unreadable or f"it is damaged {best.damage}"
    return f"the log of controller {best.key.id} cannot be continued: {why}"


def _broker(logs: Iterable[StoppedDisk], node: NodeId, best: StoppedDisk) -> StoppedDisk:
    """Returns a broker's log that goes on where the best voter's log ends."""
    found = next((log for log in logs if log.key.id == node), None)
    if found is None:
        raise ValueError(f"the log directory of broker {node} is not given")
    if why := cannot_continue(found, best):
        raise ValueError(f"the log of broker {node} cannot be continued: {why}")
    return found


def cannot_continue(log: StoppedDisk, best: StoppedDisk) -> str | None:
    """Returns why a broker's log is none to go on with, as a clause; None if it is.

    A broker fetches from a leader, so its log is one that a leader had. If the best voter's log is a beginning of it,
    nothing of that one is lost with it. If it is not, a voter would have to cut its log off to follow this one.
    """
    if log.unreadable is not None:
        return log.unreadable
    if log.damage is not None:
        return f"it is damaged {log.damage}"
    if log.position <= best.position:
        return f"it ends no later than that of controller {best.key.id}"
    if not is_beginning(best, log):
        return f"it does not begin with the log of controller {best.key.id}, which would have to be cut off"
    return None
