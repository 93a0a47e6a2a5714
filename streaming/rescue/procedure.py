"""The procedure of a rescue, in order: what to stop, what to write into which node, what to start and to check."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote

from rules.formatting import and_join
from rules.model.identifiers import ReplicaKey
from rules.model.voter_set import Voter
from rules.rescue.node_decisions import NodeAction, start_order
from rules.rescue.voter_override import OverrideOutcome, initial_controllers
from streaming.rescue.assessed_disk import AssessedDisk
from streaming.rescue.rescue_plan import RescuePlan


def steps(plan: RescuePlan) -> Iterable[str]:
    """Yields what to do, in order: each item is one shell command, or a sentence that begins with `#`."""
    if plan.startable:
        yield f"# No rescue is needed: start {_controllers(plan.startable)}"
        return
    if plan.proposed is not None:
        yield (
            "# The controllers registered other endpoints than the recorded ones. If these are right, plan again with "
            f"--initial-controllers {initial_controllers(plan.proposed)}"
        )
        return
    if plan.outcome is OverrideOutcome.REJECTED or plan.provided is None:
        return
    if plan.refusal is not None:
        yield from _refused(plan)
        return
    if plan.outcome is OverrideOutcome.PASSED:
        yield from _rescue(plan, plan.provided)


def _rescue(plan: RescuePlan, provided: Sequence[Voter]) -> Iterable[str]:
    by_key = {one.key: one for one in plan.disks}
    first = [key for key in start_order(plan.decisions, [one.log for one in plan.disks]) if by_key[key].is_voter]
    left = [one for one in plan.decisions if one.action is NodeAction.LEAVE]
    ids = and_join(voter.key.id for voter in provided)
    yield f"# Stop every controller ({ids}), all of them before the first one is changed"
    yield "# Put the new endpoints into controller.quorum.bootstrap.servers and advertised.listeners of every node"
    for key in first:
        yield f"# On the host of controller {key.id}, as the user that Kafka runs as"
        yield _command(by_key[key], provided)
    for one in left:
        yield f"# Do not change controller {one.key.id}: {one.reason}"
    yield f"# Start {_controllers(first)}, the most complete log first, and wait for a leader"
    at = ",".join(str(voter.endpoints[0]) for voter in provided)
    yield f"kafka-metadata-quorum.sh --bootstrap-controller {at} describe --status"
    ids = and_join(key.id for key in first)
    yield f"# LeaderId must be one of {ids}, and CurrentVoters must show the new endpoints"
    if left:
        yield f"# Then start {_controllers([one.key for one in left])}: the leader tells the new endpoints"
    yield from _brokers(plan, provided)


def _brokers(plan: RescuePlan, provided: Sequence[Voter]) -> Iterable[str]:
    given = [one for one in plan.disks if not one.is_voter]
    known = f" ({and_join(one.key.id for one in given)} among them)" if given else ""
    yield f"# Brokers{known} hold the old voters and connect to them, whatever their configuration says: stop each"
    for one in given:
        decision = plan.decision(one.key)
        if decision.action is NodeAction.APPLY:
            yield f"# On the host of broker {one.key.id}"
            yield _command(one, provided)
        else:
            yield (
                f"# Broker {one.key.id}: {decision.reason}. Move {one.disk.folder} out of its log directory: the "
                "broker fetches the metadata log again. The KIP rejects this as the general procedure"
            )
    if not given:
        yield "# On the host of each broker, with its metadata.log.dir (or the first of its log.dirs)"
        yield _command_line("$METADATA_LOG_DIR", provided)
    yield "# Start each broker; it is unfenced after it has read the metadata log"


def _refused(plan: RescuePlan) -> Iterable[str]:
    survival = plan.survival
    yield f"# No rescue: {plan.refusal}"
    if survival is None or survival.electable:
        return
    more = survival.voters.majority - len(survival.present)
    yield (
        f"# Find {_controllers(survival.absent)}, or their disks: with {more} more the quorum can be started or "
        "rescued. New endpoints cannot replace a lost majority (KIP-1347)"
    )
    best = next(one for one in plan.disks if one.key == survival.best[0])
    yield (
        f"# The most complete log that remains is of controller {best.key.id}, up to offset {best.disk.end_offset} of "
        f"epoch {best.epoch}. Records that were committed after it are on the lost disks only: keep copies of all disks"
    )
    yield (
        "# Kafka has no tool that makes a quorum of a minority. What it offers is a new cluster (kafka-storage.sh "
        "format), into which topics must be restored from backups or other clusters"
    )


def _command(one: AssessedDisk, provided: Sequence[Voter]) -> str:
    folder = one.disk.folder
    return _command_line(quote(str(folder.parent if folder != Path() else folder)), provided)


def _command_line(log_dir: str, provided: Sequence[Voter]) -> str:
    return f"kraftwatch rescue apply --log-dir {log_dir} --initial-controllers {initial_controllers(provided)} --yes"


def _controllers(keys: Iterable[ReplicaKey]) -> str:
    ids = [key.id for key in keys]
    return f"controller {ids[0]}" if len(ids) == 1 else f"controllers {and_join(ids)}"
