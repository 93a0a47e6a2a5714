"""A dry run of a rescue (KIP-1347): what each disk holds, which one to continue with, and what new voters would change.

Nothing is written. No released Kafka has the override: this is what an operator must know before doing it by hand.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from connectors.errors import UsageError
from rules.formatting import and_join
from rules.model.identifiers import ReplicaKey
from rules.model.voter_set import Voter, VoterSet
from rules.rescue.node_decisions import NodeAction, NodeDecision, node_decisions
from rules.rescue.surviving_disks import DiskSurvival, disk_survival
from rules.rescue.voter_override import (
    OverrideOutcome,
    compare,
    parse_controllers,
    registered_voters,
    voter_set_text,
)
from streaming.rescue.assessed_disk import AssessedDisk, assess
from streaming.rescue.plan_warnings import plan_warnings
from streaming.status.from_log_dir import ReplayedLogDir


@dataclass(frozen=True, slots=True, kw_only=True)
class RescuePlan:
    """The assessment of all disks, and what the given list would change."""

    cluster_id: str | None
    disks: tuple[AssessedDisk, ...]
    survival: DiskSurvival | None
    provided: tuple[Voter, ...] | None
    outcome: OverrideOutcome | None
    """The worst of all disks; None without a list."""
    warnings: tuple[str, ...]
    decisions: tuple[NodeDecision, ...]
    """What a rescue does with each node."""
    proposed: tuple[Voter, ...] | None
    """Without a list: the voters with the endpoints that the controllers registered, where these differ from the
    recorded ones; None if they are the same."""

    @property
    def refusal(self) -> str | None:
        """Why nothing may be written to any node; None if it may, or if there is nothing to write."""
        if self.outcome is OverrideOutcome.REJECTED:
            return "node ids or directory ids change"
        return self.obstacle if self.outcome is OverrideOutcome.PASSED else None

    @property
    def obstacle(self) -> str | None:
        """Why no list could be written to any node, as a clause; None if one could."""
        return min((one.reason for one in self.decisions if one.action is NodeAction.REFUSE), default=None)

    def decision(self, key: ReplicaKey) -> NodeDecision:
        """Returns what a rescue does with one of the nodes."""
        return next(one for one in self.decisions if one.key == key)

    @property
    def startable(self) -> tuple[ReplicaKey, ...]:
        """The voters that only have to be started: no endpoint changes, and a majority of them is there."""
        survival = self.survival
        unchanged = self.outcome is OverrideOutcome.NO_CHANGE or (self.provided is None and self.proposed is None)
        same = len({one.voters.voters for one in self.disks}) == 1
        return survival.present if survival is not None and survival.electable and unchanged and same else ()


def make_plan(disks: Sequence[ReplayedLogDir], wanted: str | None) -> RescuePlan:
    """Assesses the disks of one cluster.

    Args:
        disks: of controllers and brokers, each once.
        wanted: the new voters as `--initial-controllers` takes them; None: only the disks are assessed.

    Raises:
        UsageError: a disk belongs to a static quorum, to an unknown node or to another cluster; or the list is invalid.
    """
    known = [_known(read) for read in disks]
    cluster_ids = sorted({read.machine.cluster_id or "unknown" for read in disks})
    if len(cluster_ids) > 1:
        raise UsageError(
            f"the disks belong to {len(cluster_ids)} clusters ({and_join(cluster_ids)}): give those of one"
        )
    twice = sorted({key for key, _ in known if [one for one, _ in known].count(key) > 1})
    if twice:
        raise UsageError(f"{and_join(twice)} is given twice: give each disk once")
    listener = known[0][1].voters[0].endpoints[0].listener
    provided = None if wanted is None else _provided(wanted, listener)
    assessed = tuple(
        assess(read, key, voters, None if provided is None else compare(voters.voters, provided))
        for read, (key, voters) in zip(disks, known, strict=True)
    )
    outcomes = {one.difference.outcome for one in assessed if one.difference}
    order = (OverrideOutcome.REJECTED, OverrideOutcome.PASSED, OverrideOutcome.NO_CHANGE)
    survived = disk_survival(one.survivor for one in assessed)
    best = max(assessed, key=lambda one: one.survivor.position)
    return RescuePlan(
        cluster_id=disks[0].machine.cluster_id,
        disks=assessed,
        survival=survived,
        provided=provided,
        outcome=next((outcome for outcome in order if outcome in outcomes), None),
        warnings=tuple(plan_warnings(assessed, survived, provided)),
        decisions=node_decisions([one.log for one in assessed], best.voters),
        proposed=None if provided is not None else _proposed(best),
    )


def transcript(one: AssessedDisk, provided: Sequence[Voter]) -> Iterable[str]:
    """Yields what `kafka-storage format --override-voters` would print for this disk, up to where it would write."""
    assert one.difference is not None
    yield f"Storage directory {one.disk.folder.parent} is already formatted."
    yield "Override voters mode enabled, checking if VoterSet needs updating..."
    yield f"Persisted VoterSet: {voter_set_text(one.voters.voters)}"
    yield f"Provided VoterSet (from --initial-controllers): {voter_set_text(provided)}"
    match one.difference.outcome:
        case OverrideOutcome.NO_CHANGE:
            yield "No changes detected (VoterSets are equivalent). Override operation skipped, already up to date."
        case OverrideOutcome.REJECTED:
            yield f"Changes detected: {one.difference}"
            yield "Error: --override-voters cannot be used for changing node IDs or directory IDs."
        case OverrideOutcome.PASSED:
            yield f"Changes detected: {one.difference}"
            yield "Validation: PASSED (only endpoints changed, safe operation)"
            end, epoch = one.disk.end_offset, one.epoch
            yield f"Would create complete snapshot at offset {end}, epoch {epoch} with updated VotersRecord"
            yield f"Would be called: {one.snapshot}"


def _known(read: ReplayedLogDir) -> tuple[ReplicaKey, VoterSet]:
    folder = read.contents.folder
    key = read.contents.meta_properties.key if read.contents.meta_properties else None
    if key is None:
        raise UsageError(f"{folder}: the node is unknown: copy its meta.properties too")
    quorum = read.machine.quorum()
    if not quorum.kraft_version:
        raise UsageError(
            f"{folder} belongs to a static quorum: its voters are in controller.quorum.voters, change them there"
        )
    if quorum.committed is None or not all(voter.endpoints for voter in quorum.committed.voters):
        raise UsageError(f"{folder} holds no voter set with endpoints: it cannot be assessed")
    return key, quorum.committed


def _proposed(disk: AssessedDisk) -> tuple[Voter, ...] | None:
    voters = registered_voters(disk.voters.voters, disk.replayed.machine.quorum().controllers)
    return voters if voters != disk.voters.voters else None


def _provided(text: str, listener: str) -> tuple[Voter, ...]:
    try:
        return parse_controllers(text, listener)
    except ValueError as problem:
        raise UsageError(f"--initial-controllers: {problem}") from None
