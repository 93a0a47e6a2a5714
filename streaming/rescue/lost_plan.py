"""`rescue plan --lost`: a quorum of the voters that are left, what it may lose, and the steps to it and back.

What is lost is not known: only the disks that are gone had it. The plan says what the disks that are left surely hold,
and what brokers' copies have beyond the log that is continued.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Final

from connectors.errors import UsageError
from connectors.logdir.log_dir_files import PARTITION, QUORUM_STATE, ElectionState, open_files
from connectors.metadata.dump_log import DumpedRecord, dump_records
from connectors.process.wall_clock import wall_ms
from rules.formatting import and_join, ms_text, numbered, plural, utc_text
from rules.model.identifiers import Epoch, NodeId, Offset, ReplicaKey
from rules.model.membership import Voter
from rules.rescue.lost_majority import NewQuorum, cannot_continue, new_quorum
from rules.rescue.node_decisions import NodeAction, NodeDecision, held_by_majority
from rules.rescue.voter_override import OverrideOutcome, compare, initial_controllers, parse_controllers
from streaming.rescue.rescue_plan import AssessedDisk, RescuePlan, controllers

PLAN_FILE: Final = "rescue-plan.json"
"""The file with the plan that each command compares its node with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRequest:
    """What `--lost` and its options say."""

    nodes: tuple[NodeId, ...]
    accept_loss: bool = False
    log_of: NodeId | None = None
    """A broker whose log is continued instead of a voter's."""


def parse_lost(text: str) -> tuple[NodeId, ...]:
    """Parses `2,3`.

    Raises:
        UsageError: it is not a list of node ids, each once.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts) or len({*parts}) < len(parts):
        raise UsageError(f"--lost: '{text}' is not a list of node ids, each once, such as 2,3")
    return tuple(NodeId(int(part)) for part in parts)


def require_lost_options(given: Mapping[str, bool]) -> None:
    """Returns if no option is given that needs `--lost`; raises UsageError otherwise."""
    for option, is_given in given.items():
        if is_given:
            raise UsageError(f"{option} needs --lost: the voters whose disks are gone")


def lost_voters(plan: RescuePlan) -> tuple[Voter, ...]:
    """Returns the lost voters, as recorded."""
    assert plan.quorum is not None
    assert plan.survival is not None
    return tuple(voter for voter in plan.survival.voters.voters if voter.key.id in plan.quorum.lost)


def plan_without(plan: RescuePlan, request: LostRequest, wanted: str | None) -> RescuePlan:
    """Returns the plan for a quorum without the lost voters.

    Args:
        plan: the assessment of all disks that are left, without a list.
        wanted: its voters as `--initial-controllers` takes them, for new endpoints; None: as recorded.

    Raises:
        UsageError: the lost voters and the disks are not all voters, or the list is not that of the voters left.
    """
    survival = plan.survival
    if survival is None:
        raise UsageError("none of these disks belongs to a voter: a broker cannot become a voter")
    try:
        made = new_quorum(
            plan.disks,
            survival.voters,
            request.nodes,
            intact=survival.intact,
            committed_below=max(disk.disk.committed_below or Offset(0) for disk in plan.disks),
            epochs=_epochs(plan.disks),
            accepted=request.accept_loss,
            log_of=request.log_of,
        )
    except ValueError as problem:
        raise UsageError(f"--lost: {problem}") from None
    recorded = tuple(voter for voter in survival.voters.voters if voter.key in made.voters)
    provided = recorded if wanted is None else _provided(plan, recorded, wanted)
    return replace(
        plan,
        provided=provided,
        outcome=OverrideOutcome.PASSED,
        decisions=tuple(_decision(disk, made) for disk in sorted(plan.disks, key=lambda one: one.key)),
        proposed=None,
        quorum=made,
    )


def _epochs(disks: Iterable[AssessedDisk]) -> Iterable[Epoch]:
    for disk in disks:
        yield disk.epoch
        if isinstance(disk.disk.election, ElectionState):
            yield disk.disk.election.leader_epoch


def _provided(plan: RescuePlan, recorded: tuple[Voter, ...], wanted: str) -> tuple[Voter, ...]:
    if plan.static:
        raise UsageError(
            "--initial-controllers: these disks belong to a static quorum: its voters are in controller.quorum.voters, "
            "change them there"
        )
    try:
        provided = parse_controllers(wanted, recorded[0].endpoints[0].listener if recorded else "")
    except ValueError as problem:
        raise UsageError(f"--initial-controllers: {problem}") from None
    difference = compare(recorded, provided)
    if difference.outcome is OverrideOutcome.REJECTED:
        left = initial_controllers(recorded)
        raise UsageError(f"--initial-controllers: these are not the voters that are left: {left}")
    if difference.lost_listeners:
        raise UsageError("--initial-controllers: the list holds one endpoint for each voter, and others would be lost")
    return provided


def _decision(disk: AssessedDisk, made: NewQuorum) -> NodeDecision:
    if made.refusal is not None:
        return NodeDecision(key=disk.key, action=NodeAction.REFUSE, reason=made.refusal)
    if disk.key in made.voters:
        return NodeDecision(key=disk.key, action=NodeAction.APPLY, reason="a voter of the new quorum")
    if disk.key in made.others:
        why = disk.unreadable or disk.damage or "its log is no beginning of the log that is continued"
        return NodeDecision(key=disk.key, action=NodeAction.FETCH_AGAIN, reason=why)
    return NodeDecision(key=disk.key, action=NodeAction.LEAVE, reason="it fetches the snapshot of the new quorum")


def record_kinds(partition: Path, begin: Offset) -> Mapping[str, int]:
    """Returns how many records of each kind a log has from this offset on, the most frequent kind first."""
    kinds: Counter[str] = Counter()
    with open_files(partition) as files:
        following = [segment.base_offset for segment in files.segments[1:]]
        for segment, end in zip(files.segments, [*following, None], strict=True):
            if end is not None and end <= begin:
                continue
            kinds.update(
                one.type or "unreadable"
                for one in dump_records(segment.read())
                if isinstance(one, DumpedRecord) and one.offset >= begin
            )
    return dict(kinds.most_common())


def kinds_text(kinds: Mapping[str, int]) -> str:
    """Returns `3 records (2 TOPIC_RECORD, 1 NO_OP_RECORD)`."""
    return f"{plural(sum(kinds.values()), 'record')} ({', '.join(f'{count} {kind}' for kind, count in kinds.items())})"


def lost_steps(plan: RescuePlan, made: NewQuorum) -> Iterable[str]:
    """Yields what to do, in order: each item is one shell command, or a sentence that begins with `#`."""
    source = next(disk for disk in plan.disks if disk.key == made.log.key)
    yield from _held(plan, made, source)
    if made.refusal is not None:
        if made.obstacle is None:
            yield (
                f"# Look for other copies of the disks of {_nodes(made.lost)} first: detached volumes, snapshots of "
                "volumes, backups"
            )
            yield (
                f"# If there are none, --accept-loss is the only way on: what {_nodes(made.lost)} alone had is lost, "
                "and partitions go on with leaders and in-sync replicas as of the end of this log"
            )
        return
    yield from _apply_steps(plan, made)
    yield from (_static_ways_back(plan, made) if plan.static else _ways_back(plan, made))


def _nodes(nodes: Sequence[NodeId]) -> str:
    return numbered("controller", nodes, 20)


def _held(plan: RescuePlan, made: NewQuorum, source: AssessedDisk) -> Iterable[str]:
    """Yields what the log that is continued holds, and what may be missing."""
    of = "broker" if not source.is_voter else "controller"
    newest = source.disk.newest_ms
    written = "" if newest is None else f", written {utc_text(newest)}, {ms_text(wall_ms() - newest)} ago"
    yield (
        f"# The best log that is left is of {of} {source.key.id}: it ends at offset {source.end_offset} of epoch "
        f"{source.epoch}{written}"
    )
    uncommitted = max(made.committed_below, held_by_majority(plan.disks, source.voters))
    if uncommitted < source.end_offset:
        yield (
            f"# Its records from offset {uncommitted} to {source.end_offset - 1} may never have been committed: they "
            "become permanent"
        )
    if made.data_safe:
        yield (
            f"# Data-safe: {made.left.disks} of {made.left.voters} voters' disks are left, and "
            f"{made.left.held_text}: nothing that was committed is lost, if these disks are as their controllers left "
            "them and no older copies"
        )
        return
    below = min(made.committed_below, source.end_offset)
    surely = f"Committed records below offset {below} are in it (a snapshot ends there). " if below else ""
    yield (
        f"# {surely}Records that were committed from offset {source.end_offset} on may be missing, and how many is "
        f"unknown: only the disks of {_nodes(made.lost)} had all of them"
    )
    yield from _brokers_beyond(plan, made, source)


def _brokers_beyond(plan: RescuePlan, made: NewQuorum, source: AssessedDisk) -> Iterable[str]:
    """Yields what brokers' copies have beyond the log that is continued."""
    brokers = [disk for disk in plan.disks if not disk.is_voter and disk.key != source.key]
    for disk in brokers:
        if disk.position <= source.position:
            continue
        begin = min(source.end_offset, disk.end_offset)
        kinds = record_kinds(disk.disk.folder, begin)
        what = f"it has {kinds_text(kinds)} from offset {begin} on" if kinds else "its last epoch is a later one"
        why = cannot_continue(disk, source)
        further = (
            f"--log-of {disk.key.id} continues its log instead" if why is None else f"It cannot be continued: {why}"
        )
        yield (
            f"# The log of broker {disk.key.id} goes further, to offset {disk.end_offset} of epoch {disk.epoch}: "
            f"{what}, which would be lost. {further}"
        )
    known = {*source.disk.machine.quorum().brokers} - {disk.key.id for disk in plan.disks} - {*made.lost}
    if known:
        yield (
            f"# The logs of {numbered('broker', sorted(known), 20)} are not given, and may go further: give each "
            "broker's directory too"
        )
    elif brokers and not any(disk.position > source.position for disk in brokers):
        yield "# No broker's log that is given goes further, which does not prove that nothing is missing"


def _apply_steps(plan: RescuePlan, made: NewQuorum) -> Iterable[str]:
    by_key = {disk.key: disk for disk in plan.disks}
    lost, left = _nodes(made.lost), controllers(made.voters)
    yield (
        f"# Keep {lost} down, also if a disk is found again: with their old disks they still vote for each other. Wipe "
        "each one before it starts"
    )
    yield f"# Stop {left}, which may still run and wait for a leader"
    yield f"# Write this plan to {PLAN_FILE} and copy it to the hosts: each command compares its node with it"
    yield plan_command(plan, made)
    yield "# Where a folder in a command is a copy, give the node's own metadata.log.dir (or the first of its log.dirs)"
    for key in made.voters:
        yield f"# On the host of controller {key.id}, as the user that Kafka runs as"
        yield apply_command(plan, made, by_key[key])
    if plan.static:
        yield (
            f"# Put controller.quorum.voters={configured_voters(plan)} into the configuration of "
            f"{left} and of every broker"
        )
    elif compare_changed(plan):
        yield "# Put the new endpoints into controller.quorum.bootstrap.servers and advertised.listeners of every node"
    yield f"# Start {left}, and wait for a leader"
    yield quorum_command(plan, "describe --status")
    yield f"# LeaderId must be {_one_of(made.voters)}, and LeaderEpoch above {made.epoch}"
    if not plan.static and compare_changed(plan):
        yield "# On the host of each broker, with its metadata.log.dir: stop it, it must fetch the log again"
        yield f'mv "$METADATA_LOG_DIR/{PARTITION}" "$METADATA_LOG_DIR.metadata-before-rescue"'
    yield (
        "# Restart every broker, one after the other: it fetches the new snapshot in place of its log. The data of "
        "partitions that the new quorum does not know stays in directories that end in -stray"
    )
    yield quorum_command(plan, "describe --replication")
    yield "# Every broker must be listed with Lag 0"


def _one_of(keys: Sequence[ReplicaKey]) -> str:
    return f"{'one of ' if len(keys) > 1 else ''}{and_join(key.id for key in keys)}"


def _ways_back(plan: RescuePlan, made: NewQuorum) -> Iterable[str]:
    """Yields how the other controllers become voters again: those whose disks are gone, and those with other logs."""
    folders = {disk.key.id: disk.disk.folder for disk in plan.disks if disk.key in made.others}
    for node in (*made.lost, *folders):
        if folder := folders.get(node):
            yield f"# On the host of controller {node}, with its file as $NODE_PROPERTIES: it must fetch the log again"
            yield f"mv {quote(str(folder))} {quote(f'{folder.parent}.metadata-before-rescue')}"
        else:
            yield f"# On the host of controller {node}, with an empty metadata.log.dir and its file as $NODE_PROPERTIES"
            yield (
                f"kafka-storage.sh format --cluster-id {plan.cluster_id} --config $NODE_PROPERTIES "
                "--no-initial-controllers"
            )
        yield f"# Start controller {node}"
        yield quorum_command(plan, "describe --replication")
        yield f"# Controller {node} must be listed as an observer with Lag 0"
        yield "# On its host, unless controller.quorum.auto.join.enable is true there: then it has become a voter"
        yield quorum_command(plan, "add-controller", login="--command-config $NODE_PROPERTIES ")
    yield quorum_command(plan, "describe --status")
    yield "# CurrentVoters must list every controller"


def _static_ways_back(plan: RescuePlan, made: NewQuorum) -> Iterable[str]:
    """Yields how a static quorum gets its other voters back: each begins with a copy of the new quorum's log.

    An empty disk must not: two empty ones of three would elect each other.
    """
    disk = next(one for one in plan.disks if one.key == made.voters[0])
    others = _nodes(sorted({*made.lost, *(key.id for key in made.others)}))
    yield f"# The way back to all voters: stop {controllers(made.voters)}. Others must begin with a copy of this log"
    yield "# Put all voters into controller.quorum.voters of every node again, as before"
    yield f"# On the host of controller {disk.key.id}"
    yield f"tar -C {log_dir(disk)} --exclude={QUORUM_STATE} -cf metadata-log.tar {PARTITION}"
    yield f"# Copy metadata-log.tar to {others}. On each, with an empty metadata.log.dir as $METADATA_LOG_DIR"
    yield f"kafka-storage.sh format --cluster-id {plan.cluster_id} --config $NODE_PROPERTIES"
    yield 'tar -C "$METADATA_LOG_DIR" -xf metadata-log.tar'
    yield "# Start every controller, and wait for a leader"
    yield quorum_command(plan, "describe --status")
    yield "# CurrentVoters must list every controller"
    yield "# Restart every broker, one after the other"


def compare_changed(plan: RescuePlan) -> bool:
    """Returns whether the list has other endpoints than the recorded ones."""
    assert plan.survival is not None
    return {*(plan.provided or ())} - {*plan.survival.voters.voters} != set()


def configured_voters(plan: RescuePlan) -> str:
    """Returns the voters of a static quorum as controller.quorum.voters takes them."""
    return ",".join(
        f"{voter.key.id}@{voter.endpoints[0] if voter.endpoints else 'HOST:PORT'}" for voter in plan.provided or ()
    )


def plan_command(plan: RescuePlan, made: NewQuorum) -> str:
    """Returns the command that writes this plan to a file."""
    directories = " ".join(f"--log-dir {log_dir(disk)}" for disk in plan.disks)
    return f"kraftwatch rescue plan {directories} {_options(plan, made)} --json > {PLAN_FILE}"


def _options(plan: RescuePlan, made: NewQuorum) -> str:
    words = ["--lost", ",".join(map(str, made.lost))]
    if not made.data_safe:
        words.append("--accept-loss")
    if made.log.key not in made.voters:
        words += ["--log-of", str(made.log.key.id)]
    if compare_changed(plan):
        words += ["--initial-controllers", quote(initial_controllers(plan.provided or ()) or "")]
    return " ".join(words)


def apply_command(plan: RescuePlan, made: NewQuorum, disk: AssessedDisk) -> str:
    """Returns the command that writes the new quorum into one node."""
    lost = ",".join(map(str, made.lost))
    source = next(one for one in plan.disks if one.key == made.log.key)
    of = "" if source.is_voter else f" --log-of {log_dir(source)}"
    return f"kraftwatch rescue apply --log-dir {log_dir(disk)} --lost {lost}{of} --plan {PLAN_FILE} --yes"


def quorum_command(plan: RescuePlan, what: str, *, login: str = "") -> str:
    """Returns Kafka's command for the new quorum."""
    known = [str(voter.endpoints[0]) for voter in plan.provided or () if voter.endpoints]
    at = quote(",".join(known)) if known else "$BOOTSTRAP"
    return f"kafka-metadata-quorum.sh {login}--bootstrap-controller {at} {what}"


def log_dir(one: AssessedDisk) -> str:
    """Returns a node's log directory, quoted for a shell."""
    folder = one.disk.folder
    return quote(str(folder.parent if folder.name == PARTITION else folder))
