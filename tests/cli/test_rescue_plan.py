"""`kraftwatch rescue plan`: the dry run as text and JSON, its exit codes, and the commands of docs/rescue.md."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import Result

from connectors.errors import UsageError
from tests.cli.program import kraftwatch, log_dirs
from tests.unit.connectors.logdir.log_dirs import MOVED

PAGE = Path(__file__).parents[2] / "docs" / "rescue.md"
_BLOCK = re.compile(r"```console\n\$ kraftwatch (?P<command>.*)\n(?P<output>(?:.*\n)+?)```")


def rescue_plan(stopped: Path, nodes: tuple[int, ...], *more: str) -> Result:
    return kraftwatch("rescue", "plan", *log_dirs(stopped, *nodes), *more)


def test_commands_name_a_copy_of_the_partition_alone(stopped: Path) -> None:
    """A copy of `__cluster_metadata-0` under another name, with its meta.properties."""
    for node in (1, 2):
        partition = stopped / f"node-{node}" / "__cluster_metadata-0"
        (partition.parent / "meta.properties").rename(partition / "meta.properties")
        partition.rename(stopped / f"copy-{node}")
    copies = ("--log-dir", str(stopped / "copy-1"), "--log-dir", str(stopped / "copy-2"))

    ended = kraftwatch("rescue", "plan", *copies, "--initial-controllers", MOVED, "--json")

    steps = json.loads(ended.stdout)["steps"]
    again = next(one for one in steps if one.startswith("kraftwatch rescue plan"))
    assert kraftwatch(*shlex.split(again.partition(" > ")[0])[1:]).exit_code == 0
    assert sum(f"rescue apply --log-dir {stopped / 'copy-1'} " in one for one in steps) == 1


def test_an_ipv6_address_in_a_command_is_quoted_for_the_shell(stopped: Path) -> None:
    """Some shells refuse a command with brackets that match no file."""
    new = MOVED.replace("c1.new", "[fd00::1]")

    ended = rescue_plan(stopped, (1, 2, 3), "--initial-controllers", new, "--json")

    commands = [one for one in json.loads(ended.stdout)["steps"] if "fd00::1" in one]
    listed, at = f"'{new}'", "'[fd00::1]:9093,c2.new:9093,c3.new:9093'"
    assert {one.startswith("kafka-metadata-quorum.sh") for one in commands} == {True, False}
    assert all((at if one.startswith("kafka-metadata-quorum.sh") else listed) in one for one in commands)


def test_other_directory_id_is_rejected_with_exit_code_2(stopped: Path) -> None:
    ended = rescue_plan(stopped, (2,), "--json", "--initial-controllers", MOVED.replace("wPvH", "aaaa"))

    assert ended.exit_code == 2
    output = json.loads(ended.stdout)
    assert (output["outcome"], output["steps"]) == ("rejected", [])
    assert output["disks"][0]["difference"].startswith(
        "VoterSetDiff{hasVoterIdChanges=false, hasDirectoryIdChanges=true"
    )


def test_without_a_list_only_the_disks_are_assessed(stopped: Path) -> None:
    ended = rescue_plan(stopped, (3, 101), "--json")

    assert ended.exit_code == 0
    output = json.loads(ended.stdout)
    assert (output["outcome"], output["holds_all_committed"], output["electable"]) == (None, False, False)
    assert output["go_on_with"] == ["3-Q6ZWoxLOS3O_aT7VKTK-sg"]
    assert output["initial_controllers"].startswith("1@127.0.0.1:28223:AaorEeDFTeqhbYUKWjaZFw,2@")
    assert [one["voter"] for one in output["disks"]] == [True, False]


def test_every_command_of_the_page_prints_what_the_page_shows(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands are for the disks of the same quorum."""
    monkeypatch.chdir(stopped)
    blocks = [*_BLOCK.finditer(PAGE.read_text())]

    for block in blocks:
        ended = kraftwatch(*shlex.split(block["command"]))
        assert ended.exception is None or isinstance(ended.exception, SystemExit), block["command"]
        assert block["output"] in ended.stdout, block["command"]
    assert len(blocks) == 7


@pytest.mark.parametrize("kind", ["new", "formatted", "started"])
def test_an_empty_log_directory_is_not_a_voter_and_the_others_are_assessed(stopped: Path, kind: str) -> None:
    folder = stopped / "node-3"
    partition = folder / "__cluster_metadata-0"
    for file in partition.iterdir():
        file.unlink()
    if kind == "started":
        (partition / f"{0:020}.log").touch()
        (partition / "quorum-state").touch()
    else:
        partition.rmdir()
    if kind == "new":
        for file in folder.iterdir():
            file.unlink()
        (folder / "lost+found").mkdir()

    as_json, text = rescue_plan(stopped, (1, 2, 3), "--json"), rescue_plan(stopped, (1, 2, 3))

    output = json.loads(as_json.stdout)
    assert (as_json.exit_code, text.exit_code) == (0, 0)
    assert [one["node_id"] for one in output["disks"]] == [1, 2]
    assert output["empty"][0]["node_id"] == (None if kind == "new" else 3)
    assert output["electable"]
    assert output["absent_voters"] == ["3-Q6ZWoxLOS3O_aT7VKTK-sg"]
    assert "(empty: not a voter," in " ".join(text.stdout.split())
    assert any(step.startswith("# Start ") and "only after a leader is elected" in step for step in output["steps"])


def test_only_empty_log_directories_are_refused_in_one_sentence(tmp_path: Path) -> None:
    ended = kraftwatch("rescue", "plan", "--log-dir", str(tmp_path))

    assert isinstance(ended.exception, UsageError)
    assert str(ended.exception) == f"{tmp_path}: empty, not a voter: no log directory with a record is given"


def test_a_folder_with_other_things_is_no_log_directory(stopped: Path, tmp_path: Path) -> None:
    other = tmp_path / "home"
    other.mkdir()
    (other / "notes.txt").touch()

    ended = kraftwatch("rescue", "plan", *log_dirs(stopped, 1), "--log-dir", str(other))

    assert isinstance(ended.exception, UsageError)
    assert str(ended.exception).startswith(f"no metadata log is in {other}")
