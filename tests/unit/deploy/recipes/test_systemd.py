"""The systemd unit: read as systemd reads it, and by systemd itself where there is one."""

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from streaming.pipeline.checkpoint import LOCK_WAIT_S
from tests.unit.test_project_layout import parse_command

UNIT = Path(__file__).parents[4] / "deploy" / "systemd" / "kraftwatch.service"


@pytest.fixture(scope="module")
def unit() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=True, comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's keys have capitals
    parser.read_string(UNIT.read_text())
    return parser


def test_it_runs_a_command_that_there_is(unit: configparser.RawConfigParser) -> None:
    program, *words = shlex.split(unit["Service"]["ExecStart"])

    assert program == "/opt/kraftwatch/bin/kraftwatch"
    parse_command(words)


def test_it_is_started_again_for_ever_but_not_after_a_mistake_in_what_was_given(
    unit: configparser.RawConfigParser,
) -> None:
    service = unit["Service"]

    assert service["Restart"] == "always"
    assert service["RestartPreventExitStatus"] == "2"
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"
    assert service["KillMode"] == "mixed", "the job ends its children itself"
    assert int(service["TimeoutStopSec"].removesuffix("s")) > LOCK_WAIT_S


def test_it_keeps_its_checkpoint_where_systemd_lets_it_write(unit: configparser.RawConfigParser) -> None:
    service = unit["Service"]

    assert f"--checkpoint %S/{service['StateDirectory']}/" in service["ExecStart"]
    assert service["ProtectSystem"] == "strict"
    assert service["User"] != "root"
    assert "MemoryDenyWriteExecute" not in service, "Java compiles while it runs"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_takes_it_and_finds_it_well_locked_up(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/kraftwatch/bin/kraftwatch", "/bin/true"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    security = ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(unit)]
    exposed = subprocess.run(security, capture_output=True, text=True, check=False)

    assert (verified.returncode, verified.stderr) == (0, "")
    assert exposed.returncode == 0, exposed.stdout[-300:]
