"""`kraftwatch audit`: exit codes, messages, and an HTML page that loads nothing from elsewhere."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

from typer.testing import Result

from connectors.alert_json import to_line
from connectors.observations.observation import Observation, ObservationKind, to_json
from connectors.store.audit_results import AuditResults
from connectors.store.journal_file import journal_file
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import job_database
from rules.model.identifiers import Millis
from rules.model.monitoring import FailedObservation, ObservationSource, Reason
from tests.cli.program import kraftwatch
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

NOW = 1_800_000_000_000
FAILED_FETCH = to_json(FailedObservation(source=ObservationSource.LOG, endpoint="", reason=Reason.TIMED_OUT, detail=""))


def audit(*words: str, exit_code: int) -> Result:
    ended = kraftwatch("audit", *words)
    assert ended.exit_code == exit_code, f"{ended.output} {ended.exception}"
    return ended


def write_journal(folder: Path, *rows: Observation) -> None:
    with JournalWriter(folder / "journal") as writer:
        writer.append(list(rows))
        writer.publish()


def observation(cluster: str = "prod", kind: ObservationKind = ObservationKind.FAILED) -> Observation:
    return Observation(cluster=cluster, kind=kind, observed_at_ms=NOW, payload=FAILED_FETCH)


def damage(folder: Path) -> None:
    """Makes the last row one of no kind."""
    with closing(sqlite3.connect(journal_file(folder / "journal"))) as database, database:
        database.execute(
            "UPDATE observations SET kind = 'none' WHERE sequence = (SELECT max(sequence) FROM observations)"
        )


def test_violated_contracts_are_reported_with_examples_and_a_page(folder: Path) -> None:
    write_journal(
        folder, observation(), observation(kind=ObservationKind.PROBE), observation("lab"), observation("lab")
    )
    damage(folder)
    (folder / "alerts.jsonl").write_bytes(to_line(alert(), Millis(NOON_MS + 9_000)) + b"nonsense\n")

    ended = audit("--checkpoint", ".", "--alerts", "alerts.jsonl", "--docs", "pages", "--json", exit_code=1)

    output = json.loads(ended.stdout)
    by_name = {one["contract"]: one for one in output["broken"]}
    assert {"rows-are-whole", "observation-is-of-its-kind", "alert-has-its-fields"} <= set(by_name)
    assert by_name["observation-is-of-its-kind"]["examples"] == [
        {"cluster": "prod", "sequence": 1, "misfiled": "observation-failed"}
    ]
    assert output["rows"]["observations"] == 4
    (page,) = (folder / "pages").iterdir()
    html = page.read_text()
    assert "Every published row of the journal exists and is undamaged" in html
    assert re.search(r"<(script|link|img)|url\(|https?:", html) is None


def test_audit_of_one_cluster_ignores_the_rows_of_others(folder: Path) -> None:
    write_journal(folder, observation(), observation("lab", kind=ObservationKind.PROBE), observation())

    ended = audit("--checkpoint", ".", "--cluster", "prod", exit_code=0)

    assert ended.stdout == ""
    assert "no contract is violated; checked: 2 observations, 2 events, 0 alerts" in ended.stderr
    assert {path.name for path in folder.iterdir()} == {"journal"}


def test_recorded_results_are_in_the_store(folder: Path) -> None:
    write_journal(folder, observation(), observation(kind=ObservationKind.PROBE))
    (folder / "kraftwatch.yaml").write_text("clusters: [{name: prod, bootstrap: [c1:9093]}]\ncheckpoint: .\n")

    audit("--config", "kraftwatch.yaml", "--record", exit_code=1)

    results = {one.contract: one.broken_rows for one in AuditResults(job_database(folder)).newest()}
    assert (results["observation-is-of-its-kind"], results["offsets-ascend"]) == (1, 0)
