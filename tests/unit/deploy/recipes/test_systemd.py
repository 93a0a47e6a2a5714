"""The systemd unit: parsed with systemd's rules, and verified by systemd where it is installed."""

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from streaming.pipeline.checkpoint import LOCK_WAIT_S
from tests.unit.command_line import parse_command

ROOT = Path(__file__).parents[4]
UNITS = ROOT / "deploy" / "systemd"


def parsed(name: str) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=True, comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's keys are case-sensitive
    parser.read_string((UNITS / name).read_text())
    return parser


@pytest.mark.parametrize("name", ["kraftwatch.service", "kraftwatch-audit.service"])
def test_command_is_valid_and_its_checkpoint_is_in_the_state_directory(name: str) -> None:
    service = parsed(name)["Service"]
    program, *words = shlex.split(service["ExecStart"])

    assert program == "/opt/kraftwatch/bin/kraftwatch"
    parse_command(words)
    assert f"--checkpoint %S/{service['StateDirectory']}/checkpoint" in service["ExecStart"]


def test_the_job_has_time_to_end_and_is_not_restarted_in_vain() -> None:
    service = parsed("kraftwatch.service")["Service"]

    assert int(service["TimeoutStopSec"].removesuffix("s")) > LOCK_WAIT_S
    assert service["RestartPreventExitStatus"] == "2", "an invalid configuration stays invalid"
    assert "MemoryDenyWriteExecute" not in service, "Java compiles code at run time"


def test_the_audit_is_the_jobs_user_and_as_restricted() -> None:
    job, audit = (parsed(name)["Service"] for name in ("kraftwatch.service", "kraftwatch-audit.service"))
    timer = parsed("kraftwatch-audit.timer")

    assert audit["SuccessExitStatus"] == "1", "violated contracts are a result, about which the job alerts"
    assert job["User"] == audit["User"]
    restricted = [key for key in job if key.startswith(("Protect", "Private", "Restrict", "System", "No", "Cap"))]
    assert {
        key: audit[key] for key in restricted if key not in ("RestrictAddressFamilies", "RestartPreventExitStatus")
    } == {key: job[key] for key in restricted if key not in ("RestrictAddressFamilies", "RestartPreventExitStatus")}
    assert timer["Timer"]["OnCalendar"] == "daily"
    assert "Unit" not in timer["Timer"], "it starts the service of its name"


def test_the_witness_is_kafkas_user_and_as_restricted_as_the_job() -> None:
    job, witness = (parsed(name)["Service"] for name in ("kraftwatch.service", "kraftwatch-witness.service"))
    program, *words = shlex.split(witness["ExecStart"])

    assert program == "/opt/kraftwatch/bin/kraftwatch"
    parse_command(words)
    assert words[words.index("--token-file") + 1] == f"%d/{witness['LoadCredential'].partition(':')[0]}"
    assert (witness["User"], witness["RestartPreventExitStatus"]) == ("kafka", "2")
    restricted = [key for key in job if key.startswith(("Protect", "Private", "Restrict", "System", "No", "Cap"))]
    assert {key: witness[key] for key in restricted} == {key: job[key] for key in restricted}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("name", ["kraftwatch.service", "kraftwatch-audit.service", "kraftwatch-witness.service"])
def test_systemd_accepts_the_unit_and_its_hardening(tmp_path: Path, name: str) -> None:
    unit = tmp_path / name
    unit.write_text((UNITS / name).read_text().replace("/opt/kraftwatch/bin/kraftwatch", "/bin/true"))
    (tmp_path / "kraftwatch-audit.timer").write_text((UNITS / "kraftwatch-audit.timer").read_text())
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    security = ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(unit)]
    exposed = subprocess.run(security, capture_output=True, text=True, check=False)

    assert (verified.returncode, verified.stderr) == (0, "")
    assert exposed.returncode == 0, exposed.stdout[-300:]
