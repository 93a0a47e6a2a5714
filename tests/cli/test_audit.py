"""`kraftwatch audit`: exit codes, what it says, and pages that load nothing from elsewhere."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from connectors.errors import UsageError
from connectors.event import to_json
from connectors.journal import segment
from connectors.journal.writer import JournalWriter
from connectors.observation import Observation, ObservationKind
from connectors.observation_event import ObservationFailed
from connectors.sinks.alert_json import to_line
from rules.model.identifiers import Millis
from rules.model.monitoring import ObservationSource, Reason
from streaming.cli import app
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

NOW = 1_800_000_000_000
LOOK = to_json(ObservationFailed(source=ObservationSource.LOG, endpoint="", reason=Reason.TIMED_OUT, detail=""))


def audit(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "streaming", "audit", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=180)


def recorded(folder: Path, *rows: Observation) -> Path:
    with JournalWriter(folder / "journal") as recorder:
        recorder.append(list(rows))
        recorder.publish()
    return folder


def look(cluster: str = "prod", kind: ObservationKind = ObservationKind.FAILED) -> Observation:
    return Observation(cluster=cluster, kind=kind, observed_at_ms=NOW, payload=LOOK)


def damage(folder: Path) -> None:
    """One bit of the last row."""
    path = segment.path_of(folder / "journal", 0)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_where_the_machine_fails_no_contract_is_said_to_be_broken(tmp_path: Path) -> None:
    recorded(tmp_path, look())
    command = [sys.executable, "-W", "error", "-m", "streaming", "audit", "--checkpoint", str(tmp_path), "--json"]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=600)
    assert (ended.returncode, ended.stderr) == (3, "kraftwatch: no space left on device\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "nothing to audit: give --checkpoint DIR"),
        (["--checkpoint", "nowhere"], "--checkpoint nowhere: no journal is there"),
        (["--checkpoint", ".", "--journal", "."], "give --checkpoint or --journal, not both"),
        (["--checkpoint", ".", "--alerts", "nowhere"], "--alerts nowhere: no such file"),
        (["--checkpoint", ".", "--docs", "."], "--docs . holds other files"),
        (["--checkpoint", ".", "--docs", "journal/published/x"], "--docs journal/published/x: not a directory; name a"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_one_sentence(
    words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recorded(tmp_path, look()))

    problem = CliRunner().invoke(app, ["audit", *words]).exception

    assert isinstance(problem, UsageError)
    assert str(problem).startswith(sentence)


def test_what_is_kept_and_what_is_broken_and_the_pages_of_both(tmp_path: Path) -> None:
    checkpoint = recorded(tmp_path, look(), look(kind=ObservationKind.PROBE), look("lab"), look("lab"))
    damage(checkpoint)
    told = tmp_path / "alerts.jsonl"
    told.write_bytes(to_line(alert(), Millis(NOON_MS + 9_000)) + b"nonsense\n")

    ended = audit(tmp_path, "--checkpoint", ".", "--alerts", str(told), "--docs", "pages", "--json")

    assert ended.returncode == 1, ended.stderr
    said = json.loads(ended.stdout)
    by_name = {one["contract"]: one for one in said["broken"]}
    assert {"rows-are-whole", "look-is-of-its-kind", "alert-has-its-fields"} <= set(by_name)
    assert by_name["look-is-of-its-kind"]["examples"] == [{"cluster": "prod", "sequence": 1, "misfiled": "unseen"}]
    assert said["rows"]["observations"] == 4
    pages = [page.read_text() for page in (tmp_path / "pages").rglob("*.html")]
    assert len(pages) == 9
    assert [page for page in pages if re.search(r"<(script|link|img)[^>]*https?://|url\(.?https?:", page)] == []
    assert "Every published row of the journal is there" in (tmp_path / "pages" / "index.html").read_text()


def test_one_cluster_of_a_journal_keeps_every_contract(tmp_path: Path) -> None:
    recorded(tmp_path, look(), look("lab", kind=ObservationKind.PROBE), look())

    ended = audit(tmp_path, "--checkpoint", ".", "--cluster", "prod")

    assert (ended.returncode, ended.stdout) == (0, "")
    assert "every contract is kept; held: 2 observations, 2 events, 1 states, 0 alerts" in ended.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"journal"}
