"""The systemd unit: parsed with systemd's rules, and verified by systemd where it is installed."""

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from streaming.pipeline.checkpoint import LOCK_WAIT_S
from tests.unit.test_project_layout import parse_command

ROOT = Path(__file__).parents[4]
UNIT = ROOT / "deploy" / "systemd" / "kraftwatch.service"


@pytest.fixture(scope="module")
def unit() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=True, comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's keys are case-sensitive
    parser.read_string(UNIT.read_text())
    return parser


def test_command_is_valid_and_its_checkpoint_is_in_the_state_directory(unit: configparser.RawConfigParser) -> None:
    service = unit["Service"]
    program, *words = shlex.split(service["ExecStart"])

    assert program == "/opt/kraftwatch/bin/kraftwatch"
    parse_command(words)
    assert f"--checkpoint %S/{service['StateDirectory']}/" in service["ExecStart"]
    assert int(service["TimeoutStopSec"].removesuffix("s")) > LOCK_WAIT_S
    assert service["RestartPreventExitStatus"] == "2", "an invalid configuration stays invalid"
    assert "MemoryDenyWriteExecute" not in service, "Java compiles code at run time"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit_and_its_hardening(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/kraftwatch/bin/kraftwatch", "/bin/true"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    security = ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(unit)]
    exposed = subprocess.run(security, capture_output=True, text=True, check=False)

    assert (verified.returncode, verified.stderr) == (0, "")
    assert exposed.returncode == 0, exposed.stdout[-300:]
