"""KIP-1347: brokers keep the old endpoints too, and a rescue or update that is half done leaves mixed endpoints."""

import re
import shutil
from pathlib import Path

import pytest

from connectors.errors import UsageError
from connectors.logdir.log_dir_files import PARTITION
from connectors.metadata.batch_writer import ControlRecordType, control_record
from streaming.rescue.apply_voters import apply_voters
from streaming.rescue.plan_output import plan_text, steps
from streaming.rescue.rescue_plan import RescuePlan, make_plan
from streaming.status.from_log_dir import replay_log_dir
from tests.kips.test_kip_1347_rescue import NEW, TWO, has_warning
from tests.unit.connectors.logdir.log_dirs import noops, stopped_quorum, write_log_dir
from tests.unit.connectors.logdir.test_complete_log import DIRECTORY, VOTER, dynamic_log
from tests.unit.connectors.metadata.metadata_bytes import batch

NODES = (1, 2, 3, 101)


def endpoints(folder: Path, node: int) -> set[str]:
    """Returns the voters' endpoints by the newest voter set on this node's disk."""
    committed = replay_log_dir(folder / f"node-{node}").machine.quorum().committed
    assert committed is not None
    return {str(voter.endpoints[0]) for voter in committed.voters}


def plan(folder: Path) -> RescuePlan:
    return make_plan([replay_log_dir(folder / f"node-{node}") for node in NODES], NEW)


@pytest.mark.kip("E038")
def test_a_broker_holds_the_old_endpoints_until_the_override_is_applied_to_its_disk_too(tmp_path: Path) -> None:
    stopped_quorum(tmp_path)
    old = {node: endpoints(tmp_path, node) for node in NODES}
    assert all(endpoint.startswith("127.0.0.1:") for node in NODES for endpoint in old[node])
    new = {f"c{node}.new-domain:9093" for node in (1, 2, 3)}

    for node in (1, 2, 3):
        assert apply_voters(tmp_path / f"node-{node}", NEW, write=True).written

    assert [endpoints(tmp_path, node) for node in NODES] == [new, new, new, old[101]]
    assert has_warning(
        plan(tmp_path), "hold different endpoints", "1, 2 and 3: 1@c1.new-domain:9093", "101: 1@127.0.0.1"
    )
    commands = [line for line in steps(plan(tmp_path)) if not line.startswith("#")]
    apply = f"kraftwatch rescue apply --log-dir {tmp_path / 'node-101'} --initial-controllers {NEW}"
    assert f"{apply} --plan rescue-plan.json --yes" in commands

    other = tmp_path / "node-102"
    shutil.copytree(tmp_path / "node-101", other)
    meta = other / "meta.properties"
    meta.write_text(
        re.sub(r"(?m)^(node|directory)\.id=.*", r"", meta.read_text()) + f"node.id=102\ndirectory.id={TWO}\n"
    )
    both = [*steps(make_plan([replay_log_dir(tmp_path / f"node-{node}") for node in (*NODES, 102)], NEW))]
    assert any("Brokers (101 and 102 among them) hold the old voters" in line for line in both)
    for node in (101, 102):
        assert sum(f"rescue apply --log-dir {tmp_path / f'node-{node}'} " in line for line in both) == 1

    assert apply_voters(tmp_path / "node-101", NEW, write=True).written
    assert endpoints(tmp_path, 101) == new
    assert not has_warning(plan(tmp_path), "hold different endpoints")
    assert list((tmp_path / "node-101" / PARTITION).glob("*.checkpoint"))


@pytest.mark.kip("E037", "E070")
def test_broker_with_records_that_no_majority_has_gets_a_new_copy_of_the_log(tmp_path: Path) -> None:
    """Brokers fetch records before they are committed."""
    stopped_quorum(tmp_path)
    log = tmp_path / "node-101" / PARTITION / "00000000000000000000.log"
    log.write_bytes(log.read_bytes() + noops(61, 3))

    lines = [*steps(plan(tmp_path))]

    at = next(number for number, line in enumerate(lines) if line.startswith("# Do not change broker 101: no majority"))
    assert "has its records from offset 61 to 63, so they are not committed. It must fetch the log again" in lines[at]
    moved = f"{tmp_path / 'node-101'}.metadata-before-rescue"
    assert lines[at + 1] == f"mv {tmp_path / 'node-101' / PARTITION} {moved}"
    assert not any(line.startswith("kraftwatch rescue apply") and "node-101" in line for line in lines)


@pytest.mark.kip("E038", "E070")
def test_broker_whose_disk_is_not_given_is_not_written_to(tmp_path: Path) -> None:
    """Without its log, nobody knows whether it holds records that were never committed."""
    stopped_quorum(tmp_path)
    controllers = make_plan([replay_log_dir(tmp_path / f"node-{node}") for node in (1, 2, 3)], NEW)

    lines = [*steps(controllers)]

    assert lines[0].startswith("# No broker's log directory is given: with a --log-dir for each, this plan has")
    assert 'mv "$METADATA_LOG_DIR/__cluster_metadata-0" "$METADATA_LOG_DIR.metadata-before-rescue"' in lines
    assert sum("rescue apply" in line for line in lines) == 3
    assert not any("No broker's log directory" in line for line in steps(plan(tmp_path)))


@pytest.mark.kip("A009", "E069")
@pytest.mark.parametrize("applied", [(1,), (1, 2), (2, 3, 101)])
def test_disks_with_old_and_new_endpoints_at_once_are_reported(tmp_path: Path, applied: tuple[int, ...]) -> None:
    stopped_quorum(tmp_path)
    assert not has_warning(plan(tmp_path), "hold different endpoints")

    for node in applied:
        apply_voters(tmp_path / f"node-{node}", NEW, write=True)

    assert has_warning(plan(tmp_path), "hold different endpoints", "1@c1.new-domain:9093", "1@127.0.0.1:")


@pytest.mark.kip("A009")
def test_voters_are_only_started_if_all_disks_hold_the_same_voters(tmp_path: Path) -> None:
    stopped_quorum(tmp_path)

    def startable(wanted: str | None = None) -> list[int]:
        disks = [replay_log_dir(tmp_path / f"node-{node}") for node in (2, 1, 3)]
        return [key.id for key in make_plan(disks, wanted).startable]

    assert startable() == [1, 2, 3]
    apply_voters(tmp_path / "node-3", NEW, write=True)
    assert startable() == []
    read = [replay_log_dir(tmp_path / f"node-{node}") for node in (3, 1, 2)]
    assert make_plan(read, None).proposed is None, "node 3's log is behind: the voters are those of the others"
    for node in (1, 2):
        apply_voters(tmp_path / f"node-{node}", NEW, write=True)
    assert startable(NEW) == [1, 2, 3]


@pytest.mark.kip("E079")
def test_disks_with_three_different_endpoints_of_a_voter_are_reported(tmp_path: Path) -> None:
    stopped_quorum(tmp_path)
    apply_voters(tmp_path / "node-1", NEW, write=True)
    apply_voters(tmp_path / "node-2", NEW.replace("new-domain", "newer-domain"), write=True)

    assert has_warning(plan(tmp_path), "hold different endpoints", "c1.new-domain", "c1.newer-domain", "1@127.0.0.1:")


@pytest.mark.kip("E041")
def test_the_dry_run_warns_of_each_voter_that_would_lose_its_other_listeners(tmp_path: Path) -> None:
    several = [{"name": name, "host": "c1", "port": port} for name, port in (("CONTROLLER", 9093), ("INTERNAL", 9094))]
    changed = control_record(ControlRecordType.VOTERS, {"version": 0, "voters": [VOTER | {"endpoints": several}]})
    more = batch([(changed.key or b"", changed.value)], base_offset=3)

    def warned(name: str, log: bytes) -> list[str]:
        folder = write_log_dir(tmp_path / name, {0: log})
        (folder / "meta.properties").write_text("node.id=1\n")
        found = make_plan([replay_log_dir(folder)], f"1@c1.new-domain:9093:{DIRECTORY}")
        return [warning for warning in found.warnings if "listener" in warning]

    assert warned("one listener", dynamic_log()) == []
    assert warned("two listeners", dynamic_log() + more) == [
        "1: voter 1 would lose its listeners INTERNAL: the list holds one endpoint for each voter"
    ]


@pytest.mark.kip("E029")
def test_a_plan_refuses_a_list_that_apply_refuses_because_listeners_would_be_lost(tmp_path: Path) -> None:
    several = [{"name": name, "host": "c1", "port": port} for name, port in (("CONTROLLER", 9093), ("INTERNAL", 9094))]
    changed = control_record(ControlRecordType.VOTERS, {"version": 0, "voters": [VOTER | {"endpoints": several}]})
    more = batch([(changed.key or b"", changed.value)], base_offset=3)
    folder = write_log_dir(tmp_path / "node-1", {0: dynamic_log() + more})
    (folder / "meta.properties").write_text(f"node.id=1\ndirectory.id={DIRECTORY}\n")
    wanted = f"1@c1.new-domain:9093:{DIRECTORY}"
    with pytest.raises(UsageError, match="recorded listeners would be lost"):
        apply_voters(folder, wanted, write=False)

    found = make_plan([replay_log_dir(folder)], wanted)

    assert found.refusal == "the list holds one endpoint for each voter, and other recorded listeners would be lost"
    assert [*steps(found)] == [f"# No rescue: {found.refusal}"]
    text = plan_text(found).plain
    assert "REFUSED" in text
    assert "PASSED" not in text


def test_a_controller_with_a_new_disk_is_no_voter_and_its_uncommitted_records_are_fetched_again(tmp_path: Path) -> None:
    stopped = stopped_quorum(tmp_path)
    third = stopped / "node-3"
    meta, log = third / "meta.properties", third / PARTITION / "00000000000000000000.log"
    meta.write_text(meta.read_text().replace("Q6ZWoxLOS3O_aT7VKTK-sg", "aaaaaaaaaaaaaaaaaaaaaa"))
    log.write_bytes(log.read_bytes() + noops(57, 10))

    found = make_plan([replay_log_dir(stopped / f"node-{node}") for node in (1, 2, 3)], NEW)

    assert "3-aaaaaaaaaaaaaaaaaaaaaa (not a voter" in plan_text(found).plain
    lines = [*steps(found)]
    again = next(at for at, line in enumerate(lines) if line.startswith("# Do not change controller 3: no majority"))
    assert lines[again + 1 : again + 3] == [
        f"mv {third / PARTITION} {third}.metadata-before-rescue",
        "# Then start controller 3",
    ]
