"""`kraftwatch data audit`: exit codes, messages, and an HTML page that loads nothing from elsewhere."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import Result

from connectors.observations.observation import Observation, ObservationKind, to_json
from connectors.sinks.alert_json import to_line
from connectors.store.audit_results import AuditResults
from connectors.store.journal_file import journal_file
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import job_database
from rules.model.identifiers import Millis
from rules.model.monitoring import FailedObservation, ObservationSource, Reason
from tests.cli.program import kraftwatch, usage_error
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert
from tests.unit.streaming.data_quality.contract_rows import records

NOW = 1_800_000_000_000
FAILED_FETCH = to_json(FailedObservation(source=ObservationSource.LOG, endpoint="", reason=Reason.TIMED_OUT, detail=""))


def audit(*words: str, exit_code: int) -> Result:
    ended = kraftwatch("data", "audit", *words)
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

    ended = audit("--checkpoint", ".", "--alerts", "alerts.jsonl", "--output", "pages", "--json", exit_code=1)

    output = json.loads(ended.stdout)
    by_name = {one["contract"]: one for one in output["broken"]}
    assert {"rows-are-whole", "observation-is-of-its-kind", "alert-has-its-fields"} <= set(by_name)
    assert by_name["observation-is-of-its-kind"]["examples"] == [
        {"cluster": "prod", "sequence": 1, "event": "observation-failed", "event_of_kind": "endpoint-probed"}
    ]
    assert output["rows"]["observations"] == 4
    (page,) = (folder / "pages").iterdir()
    html = page.read_text()
    assert "Every published row of the journal exists and is undamaged" in html
    assert re.search(r"<(script|link|img)|url\(|https?:", html) is None


def test_audit_of_one_cluster_ignores_the_rows_of_others(folder: Path) -> None:
    write_journal(folder, observation(), observation("lab", kind=ObservationKind.PROBE), observation())

    ended = audit("--checkpoint", ".", "--only", "pr*", exit_code=0)

    assert ended.stdout == ""
    assert "no contract is violated; checked: 2 observations, 2 events, 0 alerts" in ended.stderr
    assert {path.name for path in folder.iterdir()} == {"journal"}


def test_recorded_results_are_in_the_store(folder: Path) -> None:
    write_journal(folder, observation(), observation(kind=ObservationKind.PROBE), observation("lab"))
    (folder / "kraftwatch.yaml").write_text("clusters: [{name: prod, bootstrap: [c1:9093]}]\ncheckpoint: .\n")
    job_database(folder).create()

    audit("--config", "kraftwatch.yaml", "--record", exit_code=1)

    newest = {one.contract: one for one in AuditResults(job_database(folder)).newest()}
    found = newest["observation-is-of-its-kind"]
    assert (found.suite, found.checked_rows, found.broken_rows, found.clusters) == ("observations", 3, 1, ("prod",))
    assert found.example == "row 1, event observation-failed, event_of_kind endpoint-probed"
    assert newest["offsets-ascend"].broken_rows == 0, "a kept contract is a row too"
    assert {one.suite for one in newest.values()} == {"observations", "events"}, "no alert was sent"


def test_results_are_not_recorded_where_no_job_reads_them(folder: Path) -> None:
    write_journal(folder, observation())

    message = usage_error("data", "audit", "--checkpoint", ".", "--record")

    assert message.startswith("--record: . holds no kraftwatch.db: give the --checkpoint folder of a job")
    assert {path.name for path in folder.iterdir()} == {"journal"}


def test_an_audit_of_the_newest_rows_does_not_see_older_ones(folder: Path) -> None:
    write_journal(folder, observation(kind=ObservationKind.PROBE), observation(), observation("lab"))

    newest = audit("--checkpoint", ".", "--newest", "2", "--json", exit_code=0)
    audit("--checkpoint", ".", "--newest", "3", exit_code=1)

    assert json.loads(newest.stdout)["rows"] == {"observations": 2, "events": 2, "alerts": 0}


@pytest.fixture
def read_again(folder: Path) -> Path:
    """Returns a job's folder whose journal has logs that were read again from offset 0, where the epoch is lower."""
    begin, end = records("prod", 0, 9, epoch=1), records("prod", 10, 19, epoch=2)
    write_journal(folder, begin, end, records("lab", 0, 3, epoch=1))
    with JournalWriter(folder / "journal") as writer:
        writer.read_logs_again()
        writer.append([begin, records("prod", 10, 24, epoch=2)])
    return folder


def violated(*words: str, exit_code: int) -> set[str]:
    ended = audit("--checkpoint", ".", "--json", *words, exit_code=exit_code)
    return {one["contract"] for one in json.loads(ended.stdout)["broken"]}


@pytest.mark.parametrize("words", [(), ("--newest", "5")], ids=["all rows", "the newest"])
class TestLogsThatWereReadAgain:
    def test_violate_no_contract(self, read_again: Path, words: tuple[str, ...]) -> None:
        assert violated(*words, exit_code=0) == set()

    def test_violate_contracts_if_no_repair_caused_it(self, read_again: Path, words: tuple[str, ...]) -> None:
        with closing(sqlite3.connect(journal_file(read_again / "journal"))) as database, database:
            database.execute("UPDATE journal SET restarted_at = NULL")

        assert violated(*words, exit_code=1) == {"offsets-ascend", "log-epoch-never-falls"}

    def test_violate_contracts_if_they_go_back_later(self, read_again: Path, words: tuple[str, ...]) -> None:
        assert JournalReader(read_again / "journal").beginning() == 3
        write_journal(read_again, records("prod", 5, 6, epoch=2))

        assert violated(*words, exit_code=1) == {"offsets-ascend"}
