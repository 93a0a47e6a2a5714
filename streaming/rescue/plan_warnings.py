"""The warnings of a rescue plan."""

from collections.abc import Iterable, Sequence

from rules.formatting import and_join, plural
from rules.model.identifiers import NodeId
from rules.model.voter_set import Voter, VoterSet
from rules.rescue.surviving_disks import DiskSurvival, overrides_in
from rules.rescue.voter_override import (
    initial_controllers,
    renamed_suffix,
)
from streaming.rescue.assessed_disk import AssessedDisk


def plan_warnings(
    disks: Sequence[AssessedDisk], survived: DiskSurvival | None, provided: Sequence[Voter] | None
) -> Iterable[str]:
    """Yields what an operator must know before an override.

    Args:
        disks: the assessed disks.
        survived: what the voters' disks together hold; None where no disk is a voter's.
        provided: the new voters; None without a list.
    """
    if survived is None:
        yield "none of these disks belongs to a voter: brokers cannot elect a leader"
    elif not survived.holds_all_committed:
        have, need = plural(len(survived.present), "voter's disk"), survived.needed
        lacking = {"not given": survived.absent, "damaged": survived.damaged}
        yield (
            f"{have} of {len(survived.voters.voters)} do not prove that no committed record is lost ({need} needed); "
            + "; ".join(f"{why}: {and_join(keys)}" for why, keys in lacking.items() if keys)
        )
    if survived is not None and not survived.electable:
        yield (
            "these voters are not a majority: with new endpoints alone they cannot elect a leader, and records of the "
            "other voters may be lost"
        )
    yield from _ends(disks, None if survived is None else survived.voters)
    yield from _views(disks)
    for one in disks:
        yield from _of_disk(one)
    old = disks[0].voters.voters
    suffix = None if provided is None else renamed_suffix(old, {each.key.id: each.endpoints[0] for each in provided})
    if suffix:
        yield f"all names change from {suffix[0]} to {suffix[1]}: a renamed domain is the single cause"


def _ends(disks: Sequence[AssessedDisk], voters: VoterSet | None) -> Iterable[str]:
    ends = {one.key: (one.epoch, one.disk.end_offset) for one in disks}
    if len(set(ends.values())) > 1:
        text = and_join((f"{key.id} at {end} in epoch {epoch}" for key, (epoch, end) in ends.items()), 20)
        yield f"the logs end at different offsets ({text})"
    below = max(one.disk.committed_below or 0 for one in disks)
    if voters is not None:
        # What a majority of the voters holds is committed, or will be by the next leader.
        ends_of_voters = sorted((one.disk.end_offset for one in disks if one.key in voters.keys), reverse=True)
        if len(ends_of_voters) >= voters.majority:
            below = max(below, ends_of_voters[voters.majority - 1])
    end = max(one.disk.end_offset for one in disks)
    if below < end:
        yield f"records from offset {below} to {end - 1} may be uncommitted: too few of these disks hold them"


def _views(disks: Sequence[AssessedDisk]) -> Iterable[str]:
    """Yields a warning when nodes hold different voters: an override was done on some nodes only."""
    views: dict[str, list[NodeId]] = {}
    for one in disks:
        views.setdefault(initial_controllers(one.voters.voters) or "", []).append(one.key.id)
    if len(views) > 1:
        text = "; ".join(f"{and_join(nodes)}: {voters}" for voters, nodes in views.items())
        same = len({one.voters.keys for one in disks}) == 1
        what = "endpoints" if same else "VOTERS, not only endpoints"
        yield (
            f"the nodes hold different {what} ({text}): they connect to different endpoints and may elect different "
            "leaders"
        )


def _of_disk(one: AssessedDisk) -> Iterable[str]:
    node, disk = one.key.id, one.disk
    sets = [(each.voters, each.in_snapshot) for each in disk.voter_sets]
    for change in overrides_in(sets, disk.log_from):
        where = f"{node}'s snapshot that ends at offset {change.after.offset + 1}"
        if change.identities_changed:
            what = "holds other voters than the log below it, by id or directory id"
            yield f"CRITICAL: {where} {what}: {_sets(change.before, change.after)}"
        else:
            yield f"{where} holds other endpoints than the log below it: an override was done already"
    for each in disk.damaged:
        yield f"{node}: {each.file} is ignored from byte {each.position} on: {each.reason}"
    if not disk.whole:
        yield f"{node}: the log begins at offset {disk.first_offset}, and no whole snapshot covers the earlier records"
    for voter, lost in sorted(one.difference.lost_listeners.items()) if one.difference else ():
        names = and_join(each.listener for each in lost)
        yield f"{node}: voter {voter} would lose its listeners {names}: the list holds one endpoint for each voter"


def _sets(before: VoterSet, after: VoterSet) -> str:
    return f"{and_join(sorted(before.keys), 20)} became {and_join(sorted(after.keys), 20)}"
