"""`rescue apply`: writes other voter endpoints into one stopped node, as KIP-1347's override would; and undoes it.

The node's log stays as it is. One file is added: a snapshot that ends where the log ends and holds the new voters.
At each point at which this process may be killed or a disk may fail, the node is either as before or finished.
"""

import io
import re
import shlex
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from rich.text import Text

from connectors.errors import UsageError, os_errors
from connectors.logdir import log_dir_backup
from connectors.logdir.complete_log import CompleteLog, read_complete_log, snapshot_batches, with_endpoints, with_voters
from connectors.logdir.log_dir_files import (
    LogDirFiles,
    SnapshotFile,
    checkpoint_name,
    open_files,
    open_regular_file,
)
from connectors.logdir.stopped_node import StoppedNode, stopped_node
from connectors.metadata.field_readers import Values
from connectors.process.kafka_home import class_path_of
from connectors.store.stored_json import parse_json
from rules.finding import Plain
from rules.formatting import and_join, plural, visible
from rules.model.identifiers import Epoch, NodeId, Offset
from rules.model.membership import Voter
from rules.rescue.node_decisions import NodeAction
from rules.rescue.voter_override import OverrideOutcome, initial_controllers
from streaming.query.from_log_dir import replay_log_dir
from streaming.rescue.planned_quorum import PlannedQuorum, read_planned_quorum
from streaming.rescue.rescue_plan import AssessedDisk, make_plan, transcript

_CLASSES: Final = ("org.apache.kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments")
"""The newest name first; Kafka 3.x has the second one."""
_TIMEOUT_S: Final = 600
_RECORD: Final = re.compile(r"^\| offset: ", re.MULTILINE)
_INVALID: Final = "isvalid: false"


@dataclass(frozen=True, slots=True, kw_only=True)
class RescueResult:
    """What was done to one node, or would be done."""

    partition: Path
    outcome: OverrideOutcome
    transcript: tuple[str, ...]
    """What KIP-1347's tool would print."""
    written: bool = False
    snapshot: str | None = None
    """The file that was written or would be; None if there is nothing to do."""
    backup: Path | None = None
    records: int = 0
    """Metadata records in the snapshot."""
    has_voters: bool = True
    """Whether the snapshot has voters: that of a static quorum has none."""
    notes: tuple[str, ...] = ()
    """What was ignored or not checked."""


def apply_voters(
    log_dir: Path,
    wanted: str,
    *,
    write: bool,
    backup: Path | None = None,
    kafka_home: Path | None = None,
    plan_file: Path | None = None,
) -> RescueResult:
    """Writes the wanted endpoints into one node's metadata log directory, or says what would be written.

    Args:
        log_dir: the node's metadata.log.dir (or the first of its log.dirs), or the partition's folder in it.
        wanted: all voters, as `kafka-storage --initial-controllers` takes them.
        backup: the folder for the copy of the old files; None: beside the log directory.
        plan_file: a plan of all nodes, with which this one is compared.
        kafka_home: an installation of Kafka, with whose reader the snapshot is checked too.

    Raises:
        UsageError: the node runs, the list may not be applied, or a file cannot be read or written.
    """
    class_path = None if kafka_home is None else class_path_of(kafka_home, "--kafka-home")
    options = {"--backup": backup, "--kafka-home": kafka_home, "--plan": plan_file}
    command = [*_command("apply", log_dir, options), "--initial-controllers", wanted, *(["--yes"] if write else [])]
    with stopped_node(log_dir, write=write, command=command) as node:
        partition = node.partition
        plan = make_plan([replay_log_dir(partition)], wanted)
        (disk,), provided = plan.disks, plan.provided
        assert provided is not None and plan.outcome is not None
        printed = tuple(transcript(disk, provided))
        if plan.outcome is OverrideOutcome.NO_CHANGE:
            if write:
                # An earlier call may have been killed before it synced the name of its snapshot.
                _sync(node, f"{partition} already holds these voters")
            return RescueResult(partition=partition, outcome=plan.outcome, transcript=printed)
        _require_applicable(disk, plan.outcome)
        if plan.other_ids:
            raise UsageError(f"{disk.disk.folder}: {plan.refusal}")
        if plan_file is not None:
            _require_planned(plan_file, disk, plan.cluster_id, provided)
        log = _read(node, disk)
        wanted_voters = with_endpoints(log.voters, {voter.key.id: voter.endpoints[0] for voter in provided})
        done = _add_snapshot(
            node,
            log,
            wanted_voters,
            backup=backup,
            class_path=class_path,
            write=write,
            undo_it=shlex.join(_command("undo", log_dir, {"--backup": backup})),
        )
        notes = tuple(_notes(log, class_path, plan_file))
    return replace(done, transcript=printed, notes=notes)


def apply_quorum(
    log_dir: Path,
    lost: Sequence[NodeId],
    *,
    write: bool,
    plan_file: Path,
    log_of: Path | None = None,
    backup: Path | None = None,
    kafka_home: Path | None = None,
) -> RescueResult:
    """Writes a quorum without the lost voters into one of its voters, or says what would be written.

    The snapshot ends where the log does, and has an epoch that no lost voter has reached: Kafka starts with it, and
    drops every log of an earlier epoch for it, its own, those of brokers, and those of lost voters that come back.

    Args:
        log_dir: as for `apply_voters`.
        lost: the lost voters, as in the plan.
        plan_file: the plan of all nodes; it has the new voters and their epoch.
        log_of: the log directory of the broker whose log is continued, if the plan says so.
        backup: as for `apply_voters`.
        kafka_home: as for `apply_voters`.

    Raises:
        UsageError: the node runs, the plan refuses it or is of other logs, or a file cannot be read or written.
    """
    class_path = None if kafka_home is None else class_path_of(kafka_home, "--kafka-home")
    options = {"--log-of": log_of, "--plan": plan_file, "--backup": backup, "--kafka-home": kafka_home}
    command = [*_command("apply", log_dir, options), "--lost", ",".join(map(str, lost)), *(["--yes"] if write else [])]
    with stopped_node(log_dir, write=write, command=command) as node:
        planned = read_planned_quorum(plan_file, lost)
        found = replay_log_dir(node.partition)
        planned.require_node(found)
        if found.damage is None and (found.end_offset, found.epoch) == (planned.end_of(found), planned.epoch):
            if write:
                _sync(node, f"{node.partition} already has the new quorum")
            return RescueResult(partition=node.partition, outcome=OverrideOutcome.NO_CHANGE, transcript=())
        planned.require_unchanged(found)
        log = _log_of(node, planned, log_of)
        voters = with_voters(log.voters, planned.endpoints) if log.kraft_version else log.voters
        done = _add_snapshot(
            node,
            replace(log, epoch=planned.epoch),
            voters,
            backup=backup,
            class_path=class_path,
            write=write,
            undo_it=shlex.join(_command("undo", log_dir, {"--backup": backup})),
        )
        return replace(done, notes=tuple(_notes(log, class_path, plan_file)))


def _log_of(node: StoppedNode, planned: PlannedQuorum, log_of: Path | None) -> CompleteLog:
    """Reads the log that is continued: the node's own, or that of a broker."""
    if planned.of_broker != (log_of is not None):
        what = (
            f"that of broker {planned.log_node}: give its directory with --log-of" if planned.of_broker else "its own"
        )
        raise UsageError(f"{planned.file}: the log to continue is {what}")
    if log_of is None:
        with open_files(node.partition, node.folder) as files:
            log = read_complete_log(files, static=planned.static)
            _require_newest(files, log)
            return log
    source = replay_log_dir(log_of)
    planned.require_source(source)
    with open_files(source.folder) as files:
        return read_complete_log(files, static=planned.static)


def _add_snapshot(
    node: StoppedNode,
    log: CompleteLog,
    voters: Values,
    *,
    backup: Path | None,
    class_path: str | None,
    write: bool,
    undo_it: str,
) -> RescueResult:
    """Adds the snapshot of a log with these voters to a node, after a copy of its files was made."""
    content = b"".join(snapshot_batches(log, voters))
    name = checkpoint_name(log.end_offset, log.epoch)
    place = backup or log_dir_backup.default_backup(node.log_dir, name)
    _require_outside(node, place)
    if write:
        log_dir_backup.make_backup(node, place, name, content)
        _write(node, name, content, log, voters, class_path)
        _sync(node, f"the snapshot {node.partition / name} is in place", f", or remove the snapshot: {undo_it}")
    return RescueResult(
        partition=node.partition,
        outcome=OverrideOutcome.PASSED,
        written=write,
        snapshot=name,
        backup=place,
        records=log.records,
        has_voters=bool(log.kraft_version),
        transcript=(),
    )


def undo(log_dir: Path, backup: Path | None = None) -> tuple[Path, bool]:
    """Puts a node back to what it was before `apply_voters`, while it was not started since.

    Returns the backup, by default the newest one beside the log directory, and whether anything was changed.

    Raises:
        UsageError: the node runs or was started, there is no backup, or a file cannot be written.
    """
    with stopped_node(log_dir, write=True, command=_command("undo", log_dir, {"--backup": backup})) as node:
        with os_errors(f"cannot restore {node.partition}", ": nothing was changed"):
            place = backup or log_dir_backup.find_backup(node.log_dir)
            if place is None:
                raise UsageError(f"there is no backup beside {node.log_dir}: name it with --backup")
            changed = log_dir_backup.restore_backup(node, place)
        _sync(node, f"{node.partition} is as before the rescue")
        return place, changed


def _command(verb: str, log_dir: Path, options: Mapping[str, Path | None]) -> list[str]:
    given = [word for name, value in options.items() if value is not None for word in (name, str(value))]
    return ["kraftwatch", "rescue", verb, "--log-dir", str(log_dir), *given]


def _sync(node: StoppedNode, done: str, advice: str = "") -> None:
    """Makes the change durable; a refusal says that the change was made."""
    try:
        node.sync()
    except OSError as problem:
        raise UsageError(
            f"{done}, but the disk did not confirm it ({(problem.strerror or 'unusable').lower()}), so a power failure "
            f"may revert it: check the disk, and run this command again before the node is started{advice}"
        ) from None


def _require_applicable(disk: AssessedDisk, outcome: OverrideOutcome) -> None:
    assert disk.difference is not None
    if outcome is OverrideOutcome.REJECTED:
        raise UsageError(
            f"{disk.disk.folder}: node ids or directory ids change ({disk.difference}): only hosts and ports may change"
        )
    if disk.difference.lost_listeners:
        lost = and_join(
            f"{endpoint.listener} of voter {node}"
            for node, all_ in disk.difference.lost_listeners.items()
            for endpoint in all_
        )
        raise UsageError(
            f"{disk.disk.folder}: the list has one endpoint for each voter, so these recorded listeners would be "
            f"lost: {lost}"
        )


def _read(node: StoppedNode, disk: AssessedDisk) -> CompleteLog:
    with open_files(node.partition, node.folder) as files:
        log = read_complete_log(files)
        _require_newest(files, log)
    _require_same_voters(disk, log)
    return log


def _require_outside(node: StoppedNode, backup: Path) -> None:
    if any(backup.resolve().is_relative_to(folder.resolve()) for folder in (node.log_dir, node.partition)):
        raise UsageError(
            f"--backup {backup} is inside of the log directory, in which Kafka refuses unknown folders: name another"
        )


def _require_newest(files: LogDirFiles, log: CompleteLog) -> None:
    """Refuses a damaged snapshot that is newer than the log: Kafka would load that one, because it goes by name."""
    newer = [
        snapshot.name
        for snapshot in files.snapshots
        if (snapshot.epoch, snapshot.end_offset) > (log.epoch, log.end_offset)
    ]
    if newer:
        raise UsageError(
            f"{newer[-1]} cannot be read and is newer than the rest of the log, which ends at offset {log.end_offset} "
            f"in epoch {log.epoch}: this node does not hold what it once held; rescue the other nodes, it fetches the "
            "log from them"
        )


def _require_same_voters(disk: AssessedDisk, log: CompleteLog) -> None:
    """Refuses a voter set that the comparison with the wanted one did not see: the folder changed meanwhile."""
    compared = {
        (voter.key.id, voter.key.directory_id, tuple(map(str, voter.endpoints))) for voter in disk.voters.voters
    }
    written = {
        (
            voter["voter_id"],
            voter["voter_directory_id"],
            tuple(f"{one['host']}:{one['port']}" for one in voter["endpoints"]),
        )
        for voter in log.voters["voters"]
    }
    if compared != written:
        raise UsageError(
            f"{disk.disk.folder}: its newest voter set is not the one that was compared: nothing was changed; try again"
        )


def _write(
    node: StoppedNode, name: str, content: bytes, log: CompleteLog, voters: Values, class_path: str | None
) -> None:
    """Writes, reads back, and gives the file its name."""
    path = node.partition / name
    with os_errors(f"cannot write {path}", ": nothing was changed"):
        part = node.write_part(name, content)
        try:
            _require_same(node, part, name, log, voters)
            if class_path is not None:
                _require_kafka_reads(node.partition / part, name, log.records + _control_records(log), class_path)
            node.require_unmoved()
            node.publish(part)
        except BaseException:
            with suppress(OSError):
                node.remove(part)
            raise


def _control_records(log: CompleteLog) -> int:
    """Returns how many control records its snapshot has: header and footer, and of a dynamic quorum two more."""
    return 4 if log.kraft_version else 2


def _require_same(node: StoppedNode, part: str, name: str, log: CompleteLog, voters: Values) -> None:
    """Reads the written file back: every record of the log, and the wanted voters."""

    def bodies(one: CompleteLog) -> Sequence[bytes]:
        # Without base offset, length and epoch, which depend on the batch's place.
        return [batch.content[16:] for batch in one.batches]

    with open_regular_file(part, folder=node.folder) as written:
        file = io.BytesIO(written.read())
    snapshot = SnapshotFile(name=name, end_offset=Offset(log.end_offset), epoch=Epoch(log.epoch), file=file)
    found = read_complete_log(LogDirFiles(segments=(), snapshots=(snapshot,)), static=not log.kraft_version)
    same = (found.end_offset, found.epoch, found.kraft_version) == (log.end_offset, log.epoch, log.kraft_version)
    if not same or found.voters != voters or bodies(found) != bodies(log):
        raise UsageError(
            f"{node.partition / part} was not read back as it was written: the disk may be faulty; nothing was changed"
        )


def _notes(log: CompleteLog, class_path: str | None, plan_file: Path | None) -> Iterable[str]:
    for file in log.damaged:
        yield f"{file.file} is ignored from byte {file.position} on, as Kafka would do: {file.reason}"
    if class_path is None:
        yield "Kafka's own reader does not check the snapshot: --kafka-home was not given"
    if plan_file is None:
        yield "the other nodes' logs are not compared with this one: --plan was not given"


def _require_planned(file: Path, disk: AssessedDisk, cluster_id: str | None, provided: tuple[Voter, ...]) -> None:
    """Returns if the plan has this node rescued with this list, and the node is as it was when the plan was made.

    `rescue plan --json` wrote the file. A node alone does not know the other logs. The plan does: which node is left as
    it is, and which log is more complete.
    """
    try:
        with os_errors(f"cannot read the plan {file}"):
            plan = parse_json(file.read_bytes())
        if plan["cluster_id"] != cluster_id:
            raise UsageError(f"{file} is a plan of cluster {plan['cluster_id']}, and this node is of {cluster_id}")
        if plan["refused"] is not None:
            raise UsageError(f"{file}: the plan refuses the rescue: {plan['refused']}")
        if plan["wanted"] != initial_controllers(provided):
            raise UsageError(f"{file} is a plan for other voters: {plan['wanted']}; make the plan again for this list")
        node = (disk.key.id, disk.key.directory_id)
        planned = [one for one in plan["disks"] if (one["node_id"], one["directory_id"]) == node]
        if not planned:
            raise UsageError(f"{file} does not have node {disk.key}: make the plan again with its log directory")
        _require_unchanged(file, planned[0], disk)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{file} is not a plan: write it with `kraftwatch rescue plan --json`") from None


def _require_unchanged(file: Path, planned: dict[str, Any], disk: AssessedDisk) -> None:
    if planned["action"] != NodeAction.APPLY:
        raise UsageError(f"{file}: node {disk.key.id} is not to be changed: {planned['reason']}")
    before, now = (planned["log_end_offset"], planned["last_epoch"]), (disk.disk.end_offset, disk.disk.epoch)
    if before != now:
        raise UsageError(
            f"{file}: the log of node {disk.key.id} ended at offset {before[0]} in epoch {before[1]} when the plan was "
            f"made, and ends at {now[0]} in epoch {now[1]} now: make the plan again"
        )


def result_text(result: RescueResult) -> Text:
    """Returns what was done or would be done, as text for a terminal."""
    out = Text()
    for line in result.transcript:
        out.append(f"  {visible(line)}\n", "dim")
    for note in result.notes:
        out.append(f"  note: {visible(note)}\n", "yellow")
    if result.snapshot is None:
        out.append(" NOTHING TO DO ", "bold black on green")
        out.append(f" {visible(str(result.partition))} already holds these voters.")
        return out
    path = visible(str(result.partition / result.snapshot))
    held = f"{plural(result.records, 'record')}{' and the new voters' if result.has_voters else ''}"
    if result.written:
        out.append(" DONE ", "bold black on green")
        out.append(f" wrote {path} with {held}.\n")
        out.append(f"  The files before are in {visible(str(result.backup))}.\n")
        out.append("  Before this node is started, `kraftwatch rescue undo` restores them.")
    else:
        out.append(" DRY RUN ", "bold white on blue")
        out.append(f" --yes would write {path} with {held},\n")
        out.append(f"  after a copy of all files to {visible(str(result.backup))}. Nothing was written.")
    return out


def result_json(result: RescueResult) -> dict[str, Plain]:
    """Returns the fields of `rescue apply --json`."""
    return {
        "outcome": result.outcome.value,
        "written": result.written,
        "snapshot": None if result.snapshot is None else str(result.partition / result.snapshot),
        "backup": None if result.backup is None else str(result.backup),
        "records": result.records,
        "notes": [*result.notes],
    }


def _require_kafka_reads(snapshot: Path, name: str, records: int, class_path: str) -> None:
    """Reads a snapshot with Kafka's reader, which must see `name`: it reads a `.checkpoint` differently."""
    with TemporaryDirectory(prefix="kraftwatch-") as folder:
        link = Path(folder) / name
        link.symlink_to(snapshot.resolve())
        newest, older = (
            ["java", "-cp", class_path, each, "--cluster-metadata-decoder", "--files", str(link)] for each in _CLASSES
        )
        ended = _run(newest)
        if "ClassNotFoundException" in ended.stderr:
            ended = _run(older)
        if ended.returncode != 0 or _INVALID in ended.stdout:
            reason = (ended.stderr.strip().splitlines() or ["a batch is not valid"])[0]
            raise UsageError(f"Kafka's own reader refuses the snapshot that would be written: {reason}")
        found = len(_RECORD.findall(ended.stdout))
    if found != records:
        raise UsageError(f"Kafka's own reader finds {found} of {records} records in {snapshot}: nothing was changed")


def _run(command: list[str]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise UsageError("--kafka-home needs Java: the command java is not found in PATH") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"Kafka's own reader did not end within {_TIMEOUT_S} s") from None
