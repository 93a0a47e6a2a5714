"""KIP-1347: its override on the disks of a stopped real quorum: the plan writes nothing, and apply adds one snapshot.

Brokers keep the old endpoints too, and a rescue or update that is half done leaves mixed endpoints.
"""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from connectors.errors import UsageError
from connectors.logdir.log_dir_files import PARTITION
from connectors.logdir.stopped_node import StoppedNode
from connectors.metadata.batch_writer import ControlRecordType, control_record
from connectors.metadata.batches import RecordBatch, scan, write_crc
from connectors.metadata.dump_log import DumpedRecord, dump_records
from rules.model.quorum import Quorum
from rules.rescue.node_decisions import NodeAction
from streaming.query.from_log_dir import replay_log_dir
from streaming.rescue import rescue_plan as planning
from streaming.rescue.apply_voters import apply_voters
from streaming.rescue.plan_output import plan_json, plan_text, steps
from streaming.rescue.rescue_plan import RescuePlan, make_plan
from tests.present import present
from tests.situation.commands import situation
from tests.unit.connectors.logdir.dynamic_log import DIRECTORY, VOTER, dynamic_log
from tests.unit.connectors.logdir.log_dirs import noops, stopped_quorum, write_log_dir
from tests.unit.connectors.metadata.metadata_bytes import batch
from tests.unit.streaming.status.statuses import status

NODES = (1, 2, 3, 101)
DIRECTORIES = {1: "AaorEeDFTeqhbYUKWjaZFw", 2: "wPvHPGZoRSmdGaO9smPpMQ", 3: "Q6ZWoxLOS3O_aT7VKTK-sg"}
RECORDED = ",".join(
    f"{node}@127.0.0.1:{port}:{DIRECTORIES[node]}" for node, port in ((1, 28223), (2, 26108), (3, 25578))
)
NEW = ",".join(f"{node}@c{node}.new-domain:9093:{directory}" for node, directory in DIRECTORIES.items())
TWO = "AgICAgICAgICAgICAgICAg"
SNAPSHOT = "00000000000000000037-0000000001.checkpoint"


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    return stopped_quorum(tmp_path)


def rescue_plan(folder: Path, *nodes: int, wanted: str | None = NEW) -> RescuePlan:
    """Returns the plan for the disks of these nodes, or of all."""
    return make_plan([replay_log_dir(folder / f"node-{node}") for node in nodes or NODES], wanted)


def has_warning(rescue_plan: RescuePlan, *words: str) -> bool:
    return any(all(word in warning for word in words) for warning in rescue_plan.warnings)


def rewritten(path: Path, old: bytes, new: bytes) -> None:
    """Replaces bytes in the first batch by others of the same length, with a valid CRC, as another tool may."""
    content = bytearray(path.read_bytes())
    first = next(iter(scan(bytes(content))))
    assert isinstance(first, RecordBatch)
    assert old in content[: first.end]
    assert len(old) == len(new)
    content[: first.end] = bytes(content[: first.end]).replace(old, new)
    write_crc(memoryview(content)[: first.end])
    path.write_bytes(content)


def test_the_dry_run_prints_every_line_of_the_override_and_writes_nothing(stopped: Path) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in stopped.rglob("*"))
    found = rescue_plan(stopped, 2)

    lines = [*planning.transcript(found.disks[0], present(found.provided))]
    assert lines[0] == f"Storage directory {stopped / 'node-2'} is already formatted."
    assert lines[1] == "Override voters mode enabled, checking if VoterSet needs updating..."
    assert lines[2].startswith(
        f"Persisted VoterSet: VoterSet(voters=[VoterNode(voterKey=ReplicaKey(id=1, directoryId={DIRECTORIES[1]})"
    )
    assert "CONTROLLER://127.0.0.1:28223" in lines[2]
    assert lines[3].startswith("Provided VoterSet (from --initial-controllers): VoterSet(voters=[")
    assert [f"CONTROLLER://c{node}.new-domain:9093" in lines[3] for node in (1, 2, 3)] == [True] * 3
    assert lines[4:] == [
        "Changes detected: VoterSetDiff{hasVoterIdChanges=false, hasDirectoryIdChanges=false, "
        "endpointChanges={1=c1.new-domain:9093, 2=c2.new-domain:9093, 3=c3.new-domain:9093}}",
        "Validation: PASSED (only endpoints changed, safe operation)",
        "Would create complete snapshot at offset 61, epoch 1 with updated VotersRecord",
        "Would be called: 00000000000000000061-0000000001.checkpoint",
    ]
    verdicts = []
    for wanted in (RECORDED, RECORDED.rpartition(",")[0]):
        other = rescue_plan(stopped, 2, wanted=wanted)
        verdicts.append([*planning.transcript(other.disks[0], present(other.provided))][-1])
    assert verdicts == [
        "No changes detected (VoterSets are equivalent). Override operation skipped, already up to date.",
        "Error: --override-voters cannot be used for changing node IDs or directory IDs.",
    ]
    warning: dict[str, Any] = plan_json(found)
    assert (warning["outcome"], warning["written"]) == ("passed", False)
    assert "nothing was written" in plan_text(found).plain
    assert not apply_voters(stopped / "node-2", NEW, write=False).written
    assert sorted((path, path.stat().st_mtime_ns) for path in stopped.rglob("*")) == before


def test_only_new_endpoints_are_accepted(stopped: Path) -> None:
    def outcome(wanted: str) -> object:
        return plan_json(rescue_plan(stopped, 1, wanted=wanted))["outcome"]

    assert outcome(RECORDED) == "no-change", (
        "the state is snapshot and log: the newest endpoints, not the formatted ones"
    )
    assert outcome(RECORDED.replace("28223", "23627")) == "passed"
    assert outcome(RECORDED.rpartition(",")[0]) == "rejected"
    assert outcome(f"{RECORDED},4@127.0.0.1:9:{TWO}") == "rejected", "nobody may be added either"
    assert outcome(RECORDED.replace(DIRECTORIES[3], "Q6ZWoxLOS3O_aT7VKTK-sA")) == "rejected"
    assert [*steps(rescue_plan(stopped, 1, wanted=RECORDED))] == [], "one of three voters cannot be started alone"
    three = [*steps(rescue_plan(stopped, 1, 2, 3, wanted=RECORDED))]
    assert three == ["# No rescue is needed: start controllers 1, 2 and 3"]


def test_snapshot_and_later_records_equal_the_whole_log(stopped: Path) -> None:
    """Controller 1 has only the snapshot of its formatting, controller 2 has one up to offset 36."""

    def state(quorum: Quorum) -> dict[str, object]:
        return {
            "features": (quorum.kraft_version, quorum.metadata_version),
            "controllers": {node: one.endpoints for node, one in quorum.controllers.items()},
            "brokers": {node: (one.endpoints, one.fenced) for node, one in quorum.brokers.items()},
            "voters": quorum.committed.voters if quorum.committed else None,
            "recovering": quorum.recovering,
            "end": quorum.last_offset,
        }

    whole, behind = replay_log_dir(stopped / "node-1"), replay_log_dir(stopped / "node-2")

    assert (whole.first_offset, behind.first_offset) == (0, 37)
    assert state(whole.machine.quorum()) == state(behind.machine.quorum())
    logs = [read.machine.log.partitions.topics for read in (whole, behind)]
    held = [
        {(topic, number): (one.leader, one.isr) for topic, of in log.items() for number, one in of.partitions.items()}
        for log in logs
    ]
    assert held[0] == held[1]
    assert state(whole.machine.quorum())["features"] == (1, 30), "also by a snapshot alone"
    histories = [[one.voters for one in read.voter_sets if not one.in_snapshot] for read in (whole, behind)]
    assert histories[0] == histories[1]
    assert [one.offset for one in histories[0]] == [2, 36], "and the history of the voters"
    in_order = [(one.voters.offset, one.in_snapshot) for one in behind.voter_sets]
    assert in_order == [(-1, True), (2, False), (36, False), (36, True)]
    features = whole.machine.quorum().features
    assert features == behind.machine.quorum().features
    assert features["metadata.version"] == 30
    assert len(features) > 1
    assert len(held[0]) == 3, "a topic of three partitions"


def test_the_written_snapshot_has_header_kraft_version_voters_records_and_footer(stopped: Path) -> None:
    result = apply_voters(stopped / "node-2", NEW, write=True)

    assert result.snapshot == "00000000000000000061-0000000001.checkpoint"
    content = (stopped / "node-2" / PARTITION / result.snapshot).read_bytes()
    types = [one.type for one in dump_records(content) if isinstance(one, DumpedRecord)]
    assert (types[:3], types[-1]) == (["SnapshotHeader", "KRaftVersion", "KRaftVoters"], "SnapshotFooter")
    assert len(types) == 4 + result.records
    header = present(next(one for one in dump_records(content) if isinstance(one, DumpedRecord)).data)
    newest_ms = replay_log_dir(stopped / "node-1").newest_ms
    assert header["lastContainedLogTimestamp"] == newest_ms, "node 1 has the same log"
    batches = [one for one in scan(content, expected=0) if isinstance(one, RecordBatch)]
    assert {one.leader_epoch for one in batches} == {1}
    assert [one.is_control for one in batches] == [True, *[False] * (len(batches) - 2), True]
    assert (batches[0].max_timestamp, batches[-1].max_timestamp) == (newest_ms, newest_ms)
    assert batches[-1].end == len(content), "no gap between the offsets of the batches"


def test_different_log_ends_and_possibly_uncommitted_records_are_reported(stopped: Path) -> None:
    found = rescue_plan(stopped, 2, 3)

    assert has_warning(found, "the logs end at different offsets", "2 at 61", "3 at 57")
    assert has_warning(found, "records from offset 57 to 60 may be uncommitted")
    survival = present(found.survival)
    assert ([one.id for one in survival.best], survival.holds_all_committed) == ([2], True)
    alone = rescue_plan(stopped, 3)
    assert has_warning(alone, "1 voter's disk of 3", "(2 needed)", DIRECTORIES[1], DIRECTORIES[2])
    assert has_warning(alone, "these voters are not a majority")


def test_a_damaged_log_does_not_count_as_evidence_of_committed_records(stopped: Path) -> None:
    log = stopped / "node-1" / PARTITION / "00000000000000000000.log"
    content = log.read_bytes()
    third = [batch for batch in scan(content) if isinstance(batch, RecordBatch)][3]
    log.write_bytes(content[: third.position + 70] + b"\xff" + content[third.position + 71 :])

    found = rescue_plan(stopped, 1, 2)

    survival = present(found.survival)
    assert ([one.id for one in survival.best], survival.holds_all_committed) == ([2], False)
    assert has_warning(found, "2 voter's disks of 3 do not prove", f"damaged: 1-{DIRECTORIES[1]}")


def test_a_broker_has_the_same_voters_as_the_controllers(stopped: Path) -> None:
    broker, controller = (replay_log_dir(stopped / f"node-{node}") for node in (101, 1))

    assert broker.voter_sets[-1].voters.voters == controller.voter_sets[-1].voters.voters
    assert broker.machine.quorum().committed == controller.machine.quorum().committed is not None
    assert not any(one.is_voter for one in rescue_plan(stopped, 101).disks)


def test_the_steps_stop_all_controllers_and_then_change_controllers_before_brokers(stopped: Path) -> None:
    lines = [*steps(rescue_plan(stopped, 1, 2, 3, 101))]

    def command(node: int) -> str:
        folder = stopped / f"node-{node}"
        return f"kraftwatch rescue apply --log-dir {folder} --initial-controllers {NEW} --plan rescue-plan.json --yes"

    log_dirs = " ".join(f"--log-dir {stopped / f'node-{node}'}" for node in (1, 2, 3, 101))
    plan = f"kraftwatch rescue plan {log_dirs} --initial-controllers {NEW} --json > rescue-plan.json"
    at = "c1.new-domain:9093,c2.new-domain:9093,c3.new-domain:9093"
    status, replicas = (
        f"kafka-metadata-quorum.sh --bootstrap-controller {at} describe --{what}" for what in ("status", "replication")
    )
    commands = [line for line in lines if not line.startswith("# ")]
    changes = [command(1), command(2), command(3)]
    assert commands == [plan, *changes, status, command(101), replicas], "the voter whose log is behind last"
    assert "Stop every controller (1, 2 and 3), all of them before the first one is changed" in lines[0]
    assert "# Start controllers 1, 2 and 3, the most complete log first, and wait for a leader" in lines
    settings = "controller.quorum.bootstrap.servers and advertised.listeners of every node"
    assert f"# Put the new endpoints into {settings}" in lines
    assert "# LeaderId must be one of 1, 2 and 3, and CurrentVoters must show the new endpoints" in lines
    assert "# Start each broker; it is unfenced after it has read the metadata log" in lines
    assert any("Brokers (101 among them) hold the old voters and connect to them, whatever" in line for line in lines)


def test_a_lost_majority_is_refused_and_the_plan_says_what_remains(stopped: Path) -> None:
    found = rescue_plan(stopped, 3, 101)

    assert "only 1 of 3 voters' disks are given, 2 are needed" in present(found.refusal)
    lines = [*steps(found)]
    text = "\n".join(lines)
    assert "Find controllers 1 and 2, or their disks: with 1 more the quorum can be started or rescued" in text
    assert "New endpoints cannot replace a lost majority" in text
    assert "most complete log that remains is of controller 3, up to offset 57 of epoch 1" in text
    assert "The log of broker 101 goes further, to offset 61 of epoch 1" in text
    assert all(line.startswith("# ") for line in lines), "no command"


def test_records_of_one_node_alone_are_not_made_permanent(stopped: Path) -> None:
    """Controller 1 has ten records more than the two others."""
    log = stopped / "node-1" / PARTITION / "00000000000000000000.log"
    log.write_bytes(log.read_bytes() + noops(61, 10))

    found = rescue_plan(stopped, 1, 2, 3)

    assert [one.action for one in found.decisions] == [NodeAction.LEAVE, NodeAction.APPLY, NodeAction.APPLY]
    lines = [*steps(found)]
    assert "Do not change controller 1: no majority of the voters has its records from offset 61 to 70" in "\n".join(
        lines
    )
    apply = f"kraftwatch rescue apply --log-dir {stopped / 'node-1'} --initial-controllers {NEW}"
    assert [line for line in lines if line.startswith(apply)] == [f"{apply} --yes"], "once, and not as planned"
    then = lines.index("# Then start controller 1: it replaces the end of its log by the leader's")
    assert lines[then + 1].endswith("describe --replication")
    assert lines[then + 2 : then + 6] == [
        "# Controller 1 must be listed with Lag 0",
        "# Then stop controller 1 and write the new endpoints into it too: its log may lack them",
        f"{apply} --yes",
        "# Start controller 1 again",
    ]


def test_without_a_list_a_lost_majority_is_reported_too(stopped: Path) -> None:
    lines = [*steps(rescue_plan(stopped, 3, 101, wanted=None))]

    assert lines[0].startswith("# No rescue: only 1 of 3 voters' disks are given, 2 are needed")
    assert "most complete log that remains is of controller 3, up to offset 57 of epoch 1" in "\n".join(lines)


def test_an_incomplete_override_is_reported_as_different_endpoints(stopped: Path) -> None:
    """The broker has the voter set from before controller 1 moved."""
    partition = stopped / "node-101" / PARTITION
    (partition / SNAPSHOT).unlink()
    log = partition / "00000000000000000000.log"
    content = log.read_bytes()
    end = next(batch.position for batch in scan(content) if isinstance(batch, RecordBatch) and batch.base_offset == 36)
    log.write_bytes(content[:end])

    assert not has_warning(rescue_plan(stopped, 1, 2, 3), "the nodes hold different")
    assert has_warning(
        rescue_plan(stopped, 1, 2, 101),
        "hold different endpoints",
        "1 and 2: 1@127.0.0.1:28223",
        "101: 1@127.0.0.1:23627",
    )


def test_nodes_with_different_voters_are_distinguished_from_nodes_with_different_endpoints(stopped: Path) -> None:
    """The snapshot of node 2 has another directory id of voter 2."""
    rewritten(stopped / "node-2" / PARTITION / SNAPSHOT, b"\0\0\0\x02\xc0\xfb\xc7", b"\0\0\0\x02\xc0\xfb\xc8")
    (stopped / "node-2" / PARTITION / "00000000000000000000.log").write_bytes(b"")

    assert has_warning(rescue_plan(stopped, 1, 2), "the nodes hold different VOTERS, not only endpoints")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"127.0.0.1", b"127.0.0.9", ("an override was done already",)),
        (
            b"\0\0\0\x02\xc0\xfb\xc7",
            b"\0\0\0\x02\xc0\xfb\xc8",
            (
                "CRITICAL: 2's",
                f", 2-{DIRECTORIES[2]} and 3-{DIRECTORIES[3]} became 1-",
                ", 2-wPvIPGZoRSmdGaO9smPpMQ and 3-",
            ),
        ),
    ],
    ids=["endpoints", "a directory id"],
)
def test_voters_that_a_snapshot_changed_are_reported(
    stopped: Path, old: bytes, new: bytes, words: tuple[str, ...]
) -> None:
    assert not has_warning(rescue_plan(stopped, 2), "than the log below it")

    rewritten(stopped / "node-2" / PARTITION / SNAPSHOT, old, new)

    found = rescue_plan(stopped, 2)
    assert has_warning(found, "snapshot that ends at offset 37", "than the log below it", *words), found.warnings


def test_the_list_of_the_recorded_voters_is_reported_also_when_the_quorum_is_down() -> None:
    down = status(situation("probe 1,2 refused", "leaderless 3"))

    assert down["initial_controllers"] == "1@c1:9093:dir1,2@c2:9093:dir2,3@c3:9093:dir3"


@pytest.mark.parametrize("wanted", [None, NEW])
def test_a_plan_has_the_recorded_voters_as_a_list(stopped: Path, wanted: str | None) -> None:
    found = rescue_plan(stopped, wanted=wanted)

    assert f"recorded: --initial-controllers {RECORDED}\n" in plan_text(found).plain
    assert plan_json(found)["initial_controllers"] == RECORDED


def test_disks_of_different_clusters_or_versions_are_refused(stopped: Path) -> None:
    with pytest.raises(UsageError, match="is given twice"):
        rescue_plan(stopped, 2, 2)
    with pytest.raises(UsageError, match="--initial-controllers: 'x' is not ID@HOST:PORT:DIRECTORY_ID"):
        rescue_plan(stopped, 2, wanted="x")
    meta = stopped / "node-3" / "meta.properties"
    meta.write_text(meta.read_text().replace("vUKL8329QBu98AEWDcwiEw", "another"))
    with pytest.raises(UsageError, match="the disks belong to 2 clusters"):
        rescue_plan(stopped, 2, 3)
    shutil.rmtree(stopped / "node-1" / PARTITION)
    with pytest.raises(UsageError, match="no metadata log is in"):
        rescue_plan(stopped, 1)


def endpoints(folder: Path, node: int) -> set[str]:
    """Returns the voters' endpoints by the newest voter set on this node's disk."""
    committed = replay_log_dir(folder / f"node-{node}").machine.quorum().committed
    assert committed is not None
    return {str(voter.endpoints[0]) for voter in committed.voters}


def test_a_broker_holds_the_old_endpoints_until_the_override_is_applied_to_its_disk_too(stopped: Path) -> None:
    old = {node: endpoints(stopped, node) for node in NODES}
    assert all(endpoint.startswith("127.0.0.1:") for node in NODES for endpoint in old[node])
    new = {f"c{node}.new-domain:9093" for node in (1, 2, 3)}

    for node in (1, 2, 3):
        assert apply_voters(stopped / f"node-{node}", NEW, write=True).written

    assert [endpoints(stopped, node) for node in NODES] == [new, new, new, old[101]]
    assert has_warning(
        rescue_plan(stopped), "hold different endpoints", "1, 2 and 3: 1@c1.new-domain:9093", "101: 1@127.0.0.1"
    )
    commands = [line for line in steps(rescue_plan(stopped)) if not line.startswith("#")]
    apply = f"kraftwatch rescue apply --log-dir {stopped / 'node-101'} --initial-controllers {NEW}"
    assert f"{apply} --plan rescue-plan.json --yes" in commands

    other = stopped / "node-102"
    shutil.copytree(stopped / "node-101", other)
    meta = other / "meta.properties"
    meta.write_text(
        re.sub(r"(?m)^(node|directory)\.id=.*", r"", meta.read_text()) + f"node.id=102\ndirectory.id={TWO}\n"
    )
    both = [*steps(rescue_plan(stopped, *NODES, 102))]
    assert any("Brokers (101 and 102 among them) hold the old voters" in line for line in both)
    for node in (101, 102):
        assert sum(f"rescue apply --log-dir {stopped / f'node-{node}'} " in line for line in both) == 1

    assert apply_voters(stopped / "node-101", NEW, write=True).written
    assert endpoints(stopped, 101) == new
    assert not has_warning(rescue_plan(stopped), "hold different endpoints")
    assert list((stopped / "node-101" / PARTITION).glob("*.checkpoint"))


def test_broker_with_records_that_no_majority_has_gets_a_new_copy_of_the_log(stopped: Path) -> None:
    """Brokers fetch records before they are committed."""
    log = stopped / "node-101" / PARTITION / "00000000000000000000.log"
    log.write_bytes(log.read_bytes() + noops(61, 3))

    lines = [*steps(rescue_plan(stopped))]

    at = next(number for number, line in enumerate(lines) if line.startswith("# Do not change broker 101: no majority"))
    assert "has its records from offset 61 to 63, so they are not committed. It must fetch the log again" in lines[at]
    moved = f"{stopped / 'node-101'}.metadata-before-rescue"
    assert lines[at + 1] == f"mv {stopped / 'node-101' / PARTITION} {moved}"
    assert not any(line.startswith("kraftwatch rescue apply") and "node-101" in line for line in lines)


def test_broker_whose_disk_is_not_given_is_not_written_to(stopped: Path) -> None:
    """Without its log, nobody knows whether it holds records that were never committed."""
    controllers = rescue_plan(stopped, 1, 2, 3)

    lines = [*steps(controllers)]

    assert lines[0].startswith("# No broker's log directory is given: with a --log-dir for each, this plan has")
    assert 'mv "$METADATA_LOG_DIR/__cluster_metadata-0" "$METADATA_LOG_DIR.metadata-before-rescue"' in lines
    assert sum("rescue apply" in line for line in lines) == 3
    assert not any("No broker's log directory" in line for line in steps(rescue_plan(stopped)))


@pytest.mark.parametrize("applied", [(1,), (1, 2), (2, 3, 101)])
def test_disks_with_old_and_new_endpoints_at_once_are_reported(stopped: Path, applied: tuple[int, ...]) -> None:
    assert not has_warning(rescue_plan(stopped), "hold different endpoints")

    for node in applied:
        apply_voters(stopped / f"node-{node}", NEW, write=True)

    assert has_warning(rescue_plan(stopped), "hold different endpoints", "1@c1.new-domain:9093", "1@127.0.0.1:")


def test_voters_are_only_started_if_all_disks_hold_the_same_voters(stopped: Path) -> None:

    def startable(wanted: str | None = None) -> list[int]:
        disks = [replay_log_dir(stopped / f"node-{node}") for node in (2, 1, 3)]
        return [key.id for key in make_plan(disks, wanted).startable]

    assert startable() == [1, 2, 3]
    apply_voters(stopped / "node-3", NEW, write=True)
    assert startable() == []
    read = [replay_log_dir(stopped / f"node-{node}") for node in (3, 1, 2)]
    assert make_plan(read, None).proposed is None, "node 3's log is behind: the voters are those of the others"
    for node in (1, 2):
        apply_voters(stopped / f"node-{node}", NEW, write=True)
    assert startable(NEW) == [1, 2, 3]


def test_disks_with_three_different_endpoints_of_a_voter_are_reported(stopped: Path) -> None:
    apply_voters(stopped / "node-1", NEW, write=True)
    apply_voters(stopped / "node-2", NEW.replace("new-domain", "newer-domain"), write=True)

    assert has_warning(
        rescue_plan(stopped), "hold different endpoints", "c1.new-domain", "c1.newer-domain", "1@127.0.0.1:"
    )


def two_listeners() -> bytes:
    """Returns a log in which the newest VotersRecord gives the voter a second listener."""
    listeners = [{"name": each, "host": "c1", "port": at} for each, at in (("CONTROLLER", 9093), ("INTERNAL", 9094))]
    changed = control_record(ControlRecordType.VOTERS, {"version": 0, "voters": [VOTER | {"endpoints": listeners}]})
    return dynamic_log() + batch([(changed.key or b"", changed.value)], base_offset=3)


def test_the_dry_run_warns_of_each_voter_that_would_lose_its_other_listeners(tmp_path: Path) -> None:

    def warned(name: str, log: bytes) -> list[str]:
        folder = write_log_dir(tmp_path / name, {0: log})
        (folder / "meta.properties").write_text("node.id=1\n")
        found = make_plan([replay_log_dir(folder)], f"1@c1.new-domain:9093:{DIRECTORY}")
        return [warning for warning in found.warnings if "listener" in warning]

    assert warned("one listener", dynamic_log()) == []
    assert warned("two listeners", two_listeners()) == [
        "1: voter 1 would lose its listeners INTERNAL: the list holds one endpoint for each voter"
    ]


def test_a_node_with_a_newer_snapshot_that_cannot_be_read_is_not_written_to(stopped: Path) -> None:
    """Kafka would load that one: it goes by the name."""
    (stopped / "node-1" / PARTITION / "00000000000000000070-0000000001.checkpoint").write_bytes(b"damaged")

    with pytest.raises(UsageError, match=r"0070-0000000001.checkpoint cannot be read and is newer than the rest"):
        apply_voters(stopped / "node-1", NEW, write=True)


def test_a_snapshot_that_is_not_read_back_as_it_was_written_gets_no_name(
    stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_part = StoppedNode.write_part

    def faulty(node: StoppedNode, name: str, content: bytes) -> str:
        part = write_part(node, name, content)
        rewritten(node.partition / part, b"c1.new-domain", b"c9.new-domain")
        return part

    monkeypatch.setattr(StoppedNode, "write_part", faulty)
    before = sorted((stopped / "node-1" / PARTITION).iterdir())
    with pytest.raises(UsageError, match="was not read back as it was written: the disk may be faulty"):
        apply_voters(stopped / "node-1", NEW, write=True)
    assert sorted((stopped / "node-1" / PARTITION).iterdir()) == before


def test_a_plan_refuses_a_list_that_apply_refuses_because_listeners_would_be_lost(tmp_path: Path) -> None:
    folder = write_log_dir(tmp_path / "node-1", {0: two_listeners()})
    (folder / "meta.properties").write_text(f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id={DIRECTORY}\n")
    wanted = f"1@c1.new-domain:9093:{DIRECTORY}"
    with pytest.raises(UsageError, match="recorded listeners would be lost"):
        apply_voters(folder, wanted, write=False)

    found = make_plan([replay_log_dir(folder)], wanted)

    assert found.refusal == "the list holds one endpoint for each voter, and other recorded listeners would be lost"
    assert [*steps(found)] == [f"# No rescue: {found.refusal}"]
    text = plan_text(found).plain
    assert "REFUSED" in text
    assert "PASSED" not in text


def test_a_controller_with_a_new_disk_is_no_voter_and_its_uncommitted_records_are_fetched_again(stopped: Path) -> None:
    third = stopped / "node-3"
    meta, log = third / "meta.properties", third / PARTITION / "00000000000000000000.log"
    meta.write_text(meta.read_text().replace("Q6ZWoxLOS3O_aT7VKTK-sg", "aaaaaaaaaaaaaaaaaaaaaa"))
    log.write_bytes(log.read_bytes() + noops(57, 10))

    found = rescue_plan(stopped, 1, 2, 3)

    disks: Any = plan_json(found)["disks"]
    assert [disk["directory_id"] for disk in disks] == [DIRECTORIES[1], DIRECTORIES[2], "aaaaaaaaaaaaaaaaaaaaaa"]
    assert "3-aaaaaaaaaaaaaaaaaaaaaa (not a voter" in plan_text(found).plain
    lines = [*steps(found)]
    again = next(at for at, line in enumerate(lines) if line.startswith("# Do not change controller 3: no majority"))
    assert lines[again + 1 : again + 3] == [
        f"mv {third / PARTITION} {third}.metadata-before-rescue",
        "# Then start controller 3",
    ]
