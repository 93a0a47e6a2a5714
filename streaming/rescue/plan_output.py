"""The output of `rescue plan`, as text and as JSON: the procedure, and what answers at the proposed endpoints.

A node that is probed does not report its directory id. It reports its node id, and whether it is of this cluster.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from shlex import quote
from typing import Final

from rich.text import Text

from connectors.errors import UsageError
from connectors.gather.endpoint_probe import probe_once
from connectors.gather.node_directory import ProbeTarget
from connectors.kafka.cluster_connection import ClusterConnection
from connectors.logdir.log_dir_files import META_PROPERTIES
from rules.finding import Plain
from rules.formatting import and_join, iso, numbered, printable_step, visible
from rules.model.identifiers import Endpoint, NodeId
from rules.model.membership import Voter
from rules.model.monitoring import ConnectionResult, Probe, ProbeAnswer, Resolution
from rules.rescue.lost_majority import NewQuorum
from rules.rescue.node_decisions import DiskSurvival, NodeAction, start_order
from rules.rescue.voter_override import OverrideOutcome, initial_controllers
from streaming.rescue.lost_plan import PLAN_FILE, log_dir, lost_steps
from streaming.rescue.rescue_plan import AssessedDisk, RescuePlan, controllers, recorded_voters, transcript
from streaming.status.log_dir_status import EmptyLogDir
from streaming.status.status_tables import remedy_line

_HEADLINES = {
    OverrideOutcome.PASSED: (" PASSED ", "bold black on green", "only endpoints change"),
    OverrideOutcome.NO_CHANGE: (" NO CHANGE ", "bold black on green", "the disks already hold these voters"),
    OverrideOutcome.REJECTED: (" REJECTED ", "bold white on red", "node ids or directory ids change"),
}
WITHIN_S: Final = 5.0
"""All endpoints are probed at the same time, and no longer than this."""
_CONNECT_MS: Final = 2_000


class EndpointResult(StrEnum):
    """What answers at a proposed endpoint."""

    AS_PROPOSED = "as-proposed"
    """The controller that the list names."""
    ANOTHER = "another"
    """Something else: the list is wrong there."""
    NO_ANSWER = "no-answer"
    """Nothing: normal while the controller is stopped."""
    NOT_IDENTIFIED = "not-identified"
    """Something that does not report which node it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedEndpoint:
    """One proposed endpoint."""

    node: NodeId
    endpoint: Endpoint
    result: EndpointResult
    text: str
    """The result as a sentence without its end."""

    def as_json(self) -> dict[str, Plain]:
        """Returns an item of `probes` in `rescue plan --json`."""
        return {
            "node_id": self.node,
            "endpoint": str(self.endpoint),
            "result": self.result.value,
            "text": self.text,
        }


def plan_text(plan: RescuePlan, probes: Sequence[ProbedEndpoint] = ()) -> Text:
    """Returns headline, disks, warnings, what the override would print for each disk, and the steps."""
    word, style, why = _headline(plan)
    out = Text.assemble((word, style), (f" cluster {visible(plan.cluster_id or 'unknown')}: {why}", "bold"))
    out.append("; nothing was written\n", "dim")
    for disk in plan.disks:
        out.append(f"  {_disk(disk)}\n")
    for empty in plan.empty:
        of = empty.key or "unknown node"
        what = "empty, with the directory id of a voter" if plan.keeps_id(empty) else "empty: not a voter"
        out.append(f"  {visible(f'{of} ({what}, {empty.folder})')}\n")
    if plan.survival is not None:
        best = and_join(plan.survival.best)
        held = "every committed record" if plan.survival.holds_all_committed else _held(plan.survival)
        each = "it holds" if len(plan.survival.best) == 1 else "each holds"
        out.append(f"  continue with {visible(best)}: {each} {held}\n", "bold")
        recorded = recorded_voters(plan.survival.voters)
        where = "controller.quorum.voters (static), nodes" if plan.static else "--initial-controllers"
        out.append(f"  recorded: {where} {visible(recorded)}\n")
    for probed in probes:
        style = "yellow" if probed.result is EndpointResult.ANOTHER else ""
        out.append(f"  probe: {visible(probed.text)}\n", style)
    for warning in plan.warnings:
        out.append(f"  warning: {visible(warning)}\n", "yellow")
    for line in _transcripts(plan):
        out.append(f"{line}\n", "dim")
    for step in steps(plan):
        line, style = remedy_line(step)
        out.append(f"  {line}\n", style)
    out.rstrip()
    return out


def _transcripts(plan: RescuePlan) -> Iterable[str]:
    """Yields what the override would print for each disk, after an empty line."""
    for disk in plan.disks if plan.provided is not None and plan.quorum is None else ():
        unchanged = plan.refusal is not None or plan.decision(disk.key).action is not NodeAction.APPLY
        if plan.outcome is OverrideOutcome.PASSED and unchanged:
            # "Validation: PASSED" would contradict the plan, which does not change this node.
            continue
        yield ""
        yield from (f"  {visible(line)}" for line in transcript(disk, plan.provided or ()))


def _headline(plan: RescuePlan) -> tuple[str, str, str]:
    """Returns a word, its style, and a clause."""
    if plan.quorum is not None:
        return _headline_without(plan.quorum)
    if plan.must_be_repaired:
        return (" REPAIR FIRST ", "bold white on red", "too few voters would start with what is on their disks")
    if plan.newer_brokers and plan.outcome in (None, OverrideOutcome.NO_CHANGE):
        return (" OLDER THAN A BROKER ", "bold white on red", "a broker has records that no voter's disk has")
    if plan.other_ids and plan.outcome is not OverrideOutcome.REJECTED:
        return (" OTHER DIRECTORY IDS ", "bold black on yellow", "voters' logs are here, without their votes")
    if plan.startable:
        some = plan.damaged or plan.ending
        what = "start the voters with a sound log first" if some else "its voters only have to be started"
        return (" NO RESCUE IS NEEDED ", "bold black on green", what)
    if plan.damaged and plan.obstacle is not None:
        return (" DAMAGED ", "bold white on red", "no majority of the voters' logs is sound")
    if plan.outcome is None:
        return (" ASSESSED ", "bold white on blue", "no list was given")
    if plan.outcome is OverrideOutcome.PASSED and plan.refusal is not None:
        return (" REFUSED ", "bold white on red", plan.refusal)
    return _HEADLINES[plan.outcome]


def _headline_without(quorum: NewQuorum) -> tuple[str, str, str]:
    if quorum.refusal is not None:
        return (" REFUSED ", "bold white on red", quorum.refusal)
    of = f"a quorum of {controllers(quorum.voters)}"
    if quorum.data_safe:
        return (" DATA-SAFE ", "bold black on green", f"{of}, which hold every record that was committed")
    return (" LOSS ACCEPTED ", "bold black on yellow", f"{of}; records that were committed may be missing")


def _held(survival: DiskSurvival) -> str:
    return "what is left of the voters' records" if survival.outdated else "more than the other disks"


def _disk(one: AssessedDisk) -> str:
    disk = one.disk
    role = "voter" if one.key in one.voters.keys else "not a voter"
    if one.other_id:
        role = f"the log of voter {one.key} without its directory id"
    committed = f", committed below {disk.committed_below}" if disk.committed_below else ""
    ends = f"log ends at {disk.end_offset} in epoch {'unknown' if disk.epoch is None else disk.epoch}{committed}"
    newest = "no record read" if disk.newest_ms is None else f"newest record {iso(disk.newest_ms)}"
    return visible(f"{disk.key} ({role}, {disk.folder}): {ends}, {newest}")


def plan_json(plan: RescuePlan) -> dict[str, Plain]:
    """Returns the fields of `rescue plan --json`."""
    survived = plan.survival
    return {
        "cluster_id": plan.cluster_id,
        "outcome": None if plan.outcome is None else plan.outcome.value,
        "written": False,
        "go_on_with": [str(key) for key in survived.best] if survived else [],
        "holds_all_committed": survived.holds_all_committed if survived else False,
        "electable": survived.electable if survived else False,
        "refused": plan.refusal,
        "wanted": None if plan.provided is None else initial_controllers(plan.provided),
        "startable": [] if plan.other_ids else [str(key) for key in plan.startable],
        "proposed_initial_controllers": None if plan.proposed is None else initial_controllers(plan.proposed),
        "static": plan.static,
        "damaged_voters": [str(disk.key) for disk in plan.damaged],
        "lost": None if plan.quorum is None else _quorum_json(plan, plan.quorum),
        "absent_voters": [str(key) for key in survived.absent] if survived else [],
        "initial_controllers": initial_controllers(survived.voters.voters) if survived else None,
        "disks": [_disk_json(disk, plan) for disk in plan.disks],
        "empty": [_empty_json(one) for one in plan.empty],
        "warnings": [*plan.warnings],
        "steps": [*steps(plan)],
    }


def _quorum_json(plan: RescuePlan, quorum: NewQuorum) -> dict[str, Plain]:
    """Returns what `rescue apply --lost` needs to know."""
    assert plan.survival is not None
    gone = [voter for voter in plan.survival.voters.voters if voter.key.id in quorum.lost]
    return {
        "node_ids": [*quorum.lost],
        "endpoints": [str(voter.endpoints[0]) if voter.endpoints else None for voter in gone],
        "data_safe": quorum.data_safe,
        "accepted": quorum.accepted,
        "epoch": quorum.epoch,
        "log_of": str(quorum.log.key),
        "end_offset": quorum.log.end_offset,
        "last_epoch": quorum.log.epoch,
        "voters": [str(key) for key in quorum.voters],
        "initial_controllers": None if plan.static else initial_controllers(plan.provided or ()),
        "listener": next((voter.endpoints[0].listener for voter in plan.provided or () if voter.endpoints), None),
    }


def _disk_json(one: AssessedDisk, plan: RescuePlan) -> dict[str, Plain]:
    disk, change = one.disk, one.difference
    decision = plan.decision(one.key)
    return {
        "folder": str(disk.folder),
        "node_id": one.key.id,
        "directory_id": None if one.key.directory_id is None else disk.key.directory_id,
        "recorded_directory_id": one.key.directory_id if one.key in one.voters.keys else None,
        "voter": not one.other_id and one.key in one.voters.keys,
        "log_end_offset": disk.end_offset,
        "last_epoch": disk.epoch,
        "committed_below": disk.committed_below,
        "newest_record_at": None if disk.newest_ms is None else iso(disk.newest_ms),
        "voters": initial_controllers(one.voters.voters),
        "voters_offset": one.voters.offset,
        "outcome": change.outcome.value if change else None,
        "difference": str(change) if change else None,
        "snapshot": one.snapshot if change and change.outcome is OverrideOutcome.PASSED else None,
        "damage": one.damage,
        "start_problems": [str(problem) for problem in disk.start_problems],
        "action": decision.action.value,
        "reason": decision.reason,
    }


def _empty_json(one: EmptyLogDir) -> dict[str, Plain]:
    key = one.key
    return {
        "folder": str(one.folder),
        "node_id": key.id if key else None,
        "directory_id": key.directory_id if key else None,
    }


def steps(plan: RescuePlan) -> Iterable[str]:
    """Yields what to do, in order: each item is one shell command, or a sentence that begins with `#`."""
    if plan.quorum is not None:
        repairs = _repairs(plan) if plan.refusal is None else ()
        return map(printable_step, (*repairs, *lost_steps(plan, plan.quorum)))
    return map(printable_step, _steps(plan))


def _steps(plan: RescuePlan) -> Iterable[str]:
    if plan.must_be_repaired:
        yield from _repairs(plan)
        yield "# Then plan again"
        return
    if plan.newer_brokers:
        yield from _newer_brokers(plan.newer_brokers)
    for one in plan.empty:
        if one.key is not None and plan.keeps_id(one):
            yield (
                f"# Before controller {one.key.id} starts, remove the line directory.id from "
                f"{one.folder / META_PROPERTIES}: the disk is empty, and with the id of voter {one.key} it would vote "
                "for a log that lacks what its former disk had"
            )
    yield from _other_ids(plan) if plan.other_ids else _steps_of_records(plan)
    yield from _repairs(plan)
    if plan.startable:
        for key in plan.observers:
            yield (
                f"# Start controller {key.id} only after a leader is elected: its directory id is no voter's. It is an "
                "observer then, and `kraftwatch check` has the commands that make it a voter"
            )
    if plan.survival is not None and plan.survival.electable:
        for one in plan.empty:
            node = f"node {one.key.id}" if one.key else f"the node of {one.folder}"
            yield (
                f"# Start {node} only after a leader is elected: its disk is empty. A controller is then an observer, "
                "and `kraftwatch check` has the commands that make it a voter"
            )


def _repairs(plan: RescuePlan) -> Iterable[str]:
    """Yields what keeps each node from its start, and what to do about it before it is started."""
    for disk in plan.ending:
        role = "controller" if disk.is_voter else "broker"
        for problem in disk.disk.start_problems:
            yield f"# Before you start {role} {disk.key.id}: {problem.with_step}"


def _newer_brokers(brokers: Sequence[AssessedDisk]) -> Iterable[str]:
    of = numbered("broker", [one.key.id for one in brokers], 20)
    yield (
        "# Before you start anything, copy every log directory, and find newer copies of the controllers' logs: these "
        f"lack records of {of}"
    )
    yield (
        "# Without newer ones the records that only brokers have are lost. Then move __cluster_metadata-0 of every "
        "broker away before it starts: it fetches the log of the controllers, and the data of partitions that they do "
        "not know stays in directories that end in -stray"
    )


def _other_ids(plan: RescuePlan) -> Iterable[str]:
    """Yields how voters get their directory ids back; what else is to be done is planned then."""
    survival = plan.survival
    assert survival is not None
    of = controllers(disk.key for disk in plan.other_ids)
    formatted = "meta.properties was formatted again over them, or directory.id is missing there"
    if survival.proved:
        yield f"# The logs of {of} are not lost: {formatted}. Write the recorded directory ids back"
    else:
        yield (
            f"# If {formatted}, the logs of {of} are not lost: write the recorded directory ids back. This is so if "
            "partition.metadata in __cluster_metadata-0 is older than meta.properties"
        )
        yield (
            "# If not, a disk was replaced, and the new one fetched the log: find the former one first. Committed "
            "records may be on it alone"
        )
    yield f"# Stop every controller ({and_join(sorted(survival.voters.ids))})"
    yield "# Where a folder in a command is a copy, give the node's own metadata.log.dir (or the first of its log.dirs)"
    for disk in plan.other_ids:
        of, directory = log_dir(disk), disk.key.directory_id
        yield f"# On the host of controller {disk.key.id}, as the user that Kafka runs as: copy the file, and change it"
        yield f"cp -p {of}/meta.properties {of}.meta.properties-before-rescue"
        yield f"sed -i -e '/^directory\\.id/d' -e '$a directory.id={directory}' {of}/meta.properties"
    if plan.startable:
        yield from _start(plan)
    else:
        yield "# Plan again with the same directories before you start a controller"


def _start(plan: RescuePlan) -> Iterable[str]:
    wait = ", and wait for a leader" if plan.damaged or plan.ending else ""
    then = "Then" if plan.other_ids or plan.newer_brokers else "No rescue is needed:"
    yield f"# {then} start {controllers(plan.startable)}{wait}"
    for disk in plan.damaged:
        yield f"# Do not start controller {disk.key.id} with them: its log is damaged {disk.damage}"
        yield from _start_damaged(disk)


def _steps_of_records(plan: RescuePlan) -> Iterable[str]:
    if plan.startable:
        yield from _start(plan)
        return
    unsound = plan.damaged and plan.outcome is OverrideOutcome.NO_CHANGE
    if plan.obstacle is not None and (plan.outcome is None or unsound):
        yield from _refused(plan, plan.obstacle)
    elif plan.proposed is not None:
        yield (
            "# The controllers registered other endpoints than the recorded ones. If these are right, plan again with "
            f"--initial-controllers {initial_controllers(plan.proposed)}"
        )
    elif plan.refusal is not None and plan.outcome is OverrideOutcome.PASSED:
        yield from _refused(plan, plan.refusal)
    elif plan.outcome is OverrideOutcome.PASSED and plan.provided is not None:
        yield from _rescue(plan, plan.provided)


def _rescue(plan: RescuePlan, provided: Sequence[Voter]) -> Iterable[str]:
    by_key = {one.key: one for one in plan.disks}
    first = [key for key in start_order(plan.decisions, plan.disks) if by_key[key].is_voter]
    left = [decision for decision in plan.decisions if decision.action is NodeAction.LEAVE]
    ids = and_join(voter.key.id for voter in provided)
    if all(one.is_voter for one in plan.disks):
        yield "# No broker's log directory is given: with a --log-dir for each, this plan has the commands for them too"
    yield f"# Stop every controller ({ids}), all of them before the first one is changed"
    yield "# Put the new endpoints into controller.quorum.bootstrap.servers and advertised.listeners of every node"
    yield f"# Write this plan to {PLAN_FILE} and copy it to the nodes' hosts: each command compares its node with it"
    yield _plan_command(plan, provided)
    yield "# Where a folder in a command is a copy, give the node's own metadata.log.dir (or the first of its log.dirs)"
    for key in first:
        yield f"# On the host of controller {key.id}, as the user that Kafka runs as"
        yield _command(by_key[key], provided)
    for one in left:
        yield f"# Do not change controller {one.key.id}: {one.reason}"
    yield f"# Start {controllers(first)}, the most complete log first, and wait for a leader"
    yield _quorum_command(provided, "--status")
    ids = and_join(key.id for key in first)
    yield f"# LeaderId must be one of {ids}, and CurrentVoters must show the new endpoints"
    for one in left:
        yield from _left(by_key[one.key], provided)
    for disk in plan.disks:
        # A controller whose directory id is no voter's, such as one with a new disk.
        if disk.is_voter and plan.decision(disk.key).action is NodeAction.FETCH_AGAIN:
            yield from _fetch_again(plan, disk, "controller")
            yield f"# Then start controller {disk.key.id}"
    yield from _brokers(plan, provided)


def _start_damaged(disk: AssessedDisk) -> Iterable[str]:
    """Yields how a controller whose log is damaged joins a leader that has all committed records."""
    node, damage = disk.key.id, disk.disk.damage
    yield f"# Copy the log directory of controller {node}: its start changes it"
    if damage is not None and damage.undamaged:
        # LogSegment.recover compares checksums: neither offset nor epoch is covered.
        yield (
            f"# When there is a leader, move {visible(str(disk.disk.folder))} away: Kafka's start does not find this "
            "damage, or ends with an exception"
        )
        yield f"# Then start controller {node}: it fetches the log again"
    else:
        yield (
            f"# When there is a leader, start controller {node}: its start cuts the log off at offset "
            f"{disk.end_offset}, and it fetches what follows"
        )
    yield f"# Check the disk of controller {node}'s host, and replace it if it shows errors"


def _left(disk: AssessedDisk, provided: Sequence[Voter]) -> Iterable[str]:
    """Yields how a controller joins that was not changed: it truncates its log to the leader's, and is then rescued.

    Only the rescued nodes' snapshots hold the new endpoints, not the leader's log. It gets them from the next
    VotersRecord. The leader writes one when a controller whose own endpoint is new asks for it (UpdateRaftVoter,
    KIP-853). A controller whose endpoint stays does not ask, and Kafka 3.9.2 did not for 80 seconds.
    """
    node = disk.key.id
    if disk.damage is None:
        yield f"# Then start controller {node}: it replaces the end of its log by the leader's"
    else:
        yield from _start_damaged(disk)
    yield _quorum_command(provided, "--replication")
    yield f"# Controller {node} must be listed with Lag 0"
    yield f"# Then stop controller {node} and write the new endpoints into it too: its log may lack them"
    yield _command(disk, provided, planned=False)
    yield f"# Start controller {node} again"


def _brokers(plan: RescuePlan, provided: Sequence[Voter]) -> Iterable[str]:
    given = [disk for disk in plan.disks if not disk.is_voter]
    known = f" ({and_join(disk.key.id for disk in given)} among them)" if given else ""
    yield f"# Brokers{known} hold the old voters and connect to them, whatever their configuration says: stop each"
    for one in given:
        if plan.decision(one.key).action is NodeAction.APPLY:
            yield f"# On the host of broker {one.key.id}, as the user that Kafka runs as"
            yield _command(one, provided)
        else:
            yield from _fetch_again(plan, one, "broker")
    if not given:
        # Not `rescue apply`: without the plan, nobody knows whether the broker holds records that were never committed.
        yield "# On the host of each broker, with its metadata.log.dir (or first log.dirs): it must fetch the log again"
        yield 'mv "$METADATA_LOG_DIR/__cluster_metadata-0" "$METADATA_LOG_DIR.metadata-before-rescue"'
    yield "# Start each broker; it is unfenced after it has read the metadata log"
    yield _quorum_command(provided, "--replication")
    yield "# Every controller and broker must be listed with Lag 0"


def _fetch_again(plan: RescuePlan, disk: AssessedDisk, role: str) -> Iterable[str]:
    yield f"# Do not change {role} {disk.key.id}: {plan.decision(disk.key).reason}. It must fetch the log again"
    yield f"mv {quote(str(disk.disk.folder))} {quote(f'{disk.disk.folder.parent}.metadata-before-rescue')}"


def _refused(plan: RescuePlan, reason: str) -> Iterable[str]:
    survival = plan.survival
    yield f"# No rescue: {reason}"
    if plan.damaged:
        yield from _too_few_sound(plan)
    if survival is None or survival.electable:
        return
    more = survival.voters.majority - len(survival.present)
    yield (
        f"# Find {controllers(survival.absent)}, or their disks: with {more} more the quorum can be started or "
        "rescued. New endpoints cannot replace a lost majority (KIP-1347)"
    )
    best = next(disk for disk in plan.disks if disk.key == survival.best[0])
    held = (
        "It has every record that was committed"
        if survival.holds_all_committed
        else "Records that were committed after it are on the lost disks only"
    )
    yield (
        f"# The most complete log that remains is of controller {best.key.id}, up to offset {best.disk.end_offset} of "
        f"epoch {best.epoch}. {held}: keep copies of all disks"
    )
    further = [disk for disk in plan.disks if not disk.is_voter and disk.position > best.position]
    for one in further:
        yield (
            f"# The log of broker {one.key.id} goes further, to offset {one.disk.end_offset} of epoch {one.epoch}: "
            "`kraftwatch data decode` shows its records. A broker cannot become a voter"
        )
    gone = ",".join(str(key.id) for key in survival.absent)
    what = "this loses nothing" if survival.holds_all_committed else "it says what that may lose"
    yield (
        f"# If their disks are gone for good, plan a quorum of the voters that are left with --lost {gone}: {what}. "
        "Kafka has no tool for it"
    )


def _too_few_sound(plan: RescuePlan) -> Iterable[str]:
    assert plan.survival is not None
    survival, damaged = plan.survival, [disk.key for disk in plan.damaged]
    more = survival.voters.majority - (len(survival.present) - len(damaged))
    yield (
        f"# Do not start {controllers(damaged)}: a start cuts off what follows the damage, which may be the only copy "
        "of committed records"
    )
    yield "# Copy the log directories of all controllers and brokers before anything else"
    yield (
        f"# Find {more} more sound {'log' if more == 1 else 'logs'}, of a voter that is not given or in a backup of a "
        "damaged one, and plan again"
    )
    yield "# `kraftwatch data decode` prints the records of a segment, those after the damage too"


def _command(one: AssessedDisk, provided: Sequence[Voter], *, planned: bool = True) -> str:
    plan_file = f" --plan {PLAN_FILE}" if planned else ""
    wanted = f"--initial-controllers {quote(initial_controllers(provided) or '')}"
    return f"kraftwatch rescue apply --log-dir {log_dir(one)} {wanted}{plan_file} --yes"


def _plan_command(plan: RescuePlan, provided: Sequence[Voter]) -> str:
    log_dirs = " ".join(f"--log-dir {log_dir(disk)}" for disk in plan.disks)
    wanted = f"--initial-controllers {quote(initial_controllers(provided) or '')}"
    return f"kraftwatch rescue plan {log_dirs} {wanted} --json > {PLAN_FILE}"


def _quorum_command(provided: Sequence[Voter], describe: str) -> str:
    at = quote(",".join(str(voter.endpoints[0]) for voter in provided))
    return f"kafka-metadata-quorum.sh --bootstrap-controller {at} describe {describe}"


def require_no_answer(probes: Iterable[ProbedEndpoint]) -> None:
    """Returns if no lost voter answers at its recorded endpoint; raises UsageError otherwise."""
    for probed in probes:
        if probed.result is EndpointResult.AS_PROPOSED:
            raise UsageError(
                f"--lost: controller {probed.node} answers at {probed.endpoint}: stop it, and give its disk if it has "
                "the log"
            )


def proposal(plan: RescuePlan) -> tuple[Voter, ...]:
    """Returns the voters that a plan without a list proposes: as registered, else as recorded; none with a list."""
    if plan.provided is not None:
        return ()
    return plan.proposed or (plan.survival.voters.voters if plan.survival is not None else ())


def probed_endpoints(
    voters: Sequence[Voter], cluster_id: str | None, *, say: Callable[[str], None], within_s: float = WITHIN_S
) -> tuple[ProbedEndpoint, ...]:
    """Probes the first endpoint of each voter."""
    targets = [ProbeTarget(node=voter.key.id, endpoint=voter.endpoints[0]) for voter in voters if voter.endpoints]
    if not targets:
        return ()
    cluster = ClusterConnection(
        name="rescue",
        bootstrap=tuple((target.endpoint.host, target.endpoint.port) for target in targets),
        cluster_id=cluster_id,
        request_timeout_ms=_CONNECT_MS,
    )
    say(f"probing {len(targets)} endpoints for up to {within_s:g} s; --no-probe leaves this out")
    found = probe_once(cluster, targets, within_s=within_s)
    results = ((target, *_result(target.node, found.get(target))) for target in targets)
    return tuple(
        ProbedEndpoint(
            node=target.node, endpoint=target.endpoint, result=result, text=f"{target.endpoint} of {target.node} {text}"
        )
        for target, result, text in results
    )


def _result(node: NodeId, probe: Probe | None) -> tuple[EndpointResult, str]:
    stopped = "normal while the controller is stopped"
    if probe is None:
        return EndpointResult.NO_ANSWER, "does not answer in time"
    match probe.resolution:
        case Resolution.NAME_NOT_FOUND:
            return EndpointResult.NO_ANSWER, "does not resolve on this host: no other node could reach it either"
        case Resolution.RESOLVER_FAILED:
            return EndpointResult.NO_ANSWER, "was not probed: the resolver of this host failed"
        case Resolution.RESOLVED:
            pass
    match probe.connection:
        case ConnectionResult.REFUSED:
            return EndpointResult.NO_ANSWER, f"refuses connections: {stopped}"
        case ConnectionResult.TIMED_OUT | ConnectionResult.UNREACHABLE | ConnectionResult.NOT_TRIED:
            return EndpointResult.NO_ANSWER, f"does not answer: {stopped} or its host is down"
        case ConnectionResult.ACCEPTED:
            return _answer(node, probe)


def _answer(node: NodeId, probe: Probe) -> tuple[EndpointResult, str]:
    match probe.answer:
        case ProbeAnswer.THIS_CLUSTER if probe.answered_by == node:
            return EndpointResult.AS_PROPOSED, f"answers as node {node} of this cluster, as it should"
        case ProbeAnswer.THIS_CLUSTER:
            return EndpointResult.NOT_IDENTIFIED, "answers as a node of this cluster; which one is unknown"
        case ProbeAnswer.OTHER_NODE:
            which = "another node" if probe.answered_by is None else f"node {probe.answered_by}"
            return EndpointResult.ANOTHER, f"answers as {which}: do not use this endpoint"
        case ProbeAnswer.OTHER_CLUSTER:
            return EndpointResult.ANOTHER, "answers as a node of another cluster: do not use this endpoint"
        case ProbeAnswer.NOT_KAFKA:
            return EndpointResult.ANOTHER, "is served by something that does not speak Kafka: do not use this endpoint"
        case ProbeAnswer.NOT_ALLOWED:
            return EndpointResult.NOT_IDENTIFIED, "answers, and wants TLS or a login: which node it is is unknown"
        case ProbeAnswer.NO_ANSWER | ProbeAnswer.LATE | ProbeAnswer.NOT_ASKED:
            return EndpointResult.NOT_IDENTIFIED, "accepts connections and does not answer"
