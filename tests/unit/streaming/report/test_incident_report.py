"""Reports from a journal and a ledger."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connectors.delivery.ledger import Ledger
from connectors.errors import StoreError, UsageError
from connectors.store.collection import SilenceStore
from connectors.store.tables import sqlite_database
from rules.formatting import iso
from rules.model.identifiers import Millis
from rules.notifications.route import Silence
from streaming.web.templating import asset, digest
from tests.cli.program import kraftwatch
from tests.unit.connectors.logdir.log_dirs import AT
from tests.unit.connectors.sinks.sink_alerts import alert
from tests.unit.streaming.query.status_journal import journal, observed, polled
from tests.unit.streaming.report.recorded_incident import recording, written

EVIL = "</script><script>alert(1)</script>"


def test_rules_are_evaluated_again_without_a_ledger(tmp_path: Path) -> None:
    made = written(recording(tmp_path / "journal"))
    assert (made.cluster, made.from_ms, made.to_ms) == ("a", AT - 60_000, AT + 119_000)
    assert "critical no-leader, quorum: No leader since" in made.html
    assert "there is no ledger beside the journal" in made.html
    assert "controller 1 was elected, epoch 1" in made.html


def test_unreadable_ledger_is_refused(tmp_path: Path) -> None:
    recording(tmp_path / "journal")
    sqlite_database(tmp_path).path.write_bytes(b"x" * 20_000)
    with pytest.raises(StoreError, match=r"kraftwatch\.db cannot be used: file is not a database"):
        written(tmp_path)


def test_report_holds_the_ledgers_alerts_up_to_its_end(tmp_path: Path) -> None:
    recording(tmp_path / "journal")
    ledger = Ledger(sqlite_database(tmp_path))
    ledger.record(
        [
            alert("quorum", cluster="a", started_at_ms=AT + 60_000),
            alert("quorum", cluster="a", started_at_ms=AT + 60_000, resolved=True, observed_at_ms=Millis(AT + 90_000)),
            alert("elsewhere", cluster="b", started_at_ms=AT + 60_000),
        ],
        Millis(AT),
    )

    whole, middle = written(tmp_path), written(tmp_path, to_s=80)

    assert ">Resolved</h3>" in whole.html
    assert "elsewhere" not in whole.html
    assert ">Resolved</h3>" not in middle.html
    assert "No leader elected." in middle.html
    assert len(ledger.record([alert("quorum", cluster="c")], Millis(AT))) == 1, "a running job may be writing it"


@pytest.mark.parametrize("given", ["", "journal"], ids=["the checkpoint", "the journal in it"])
def test_report_shows_silences(tmp_path: Path, given: str) -> None:
    recording(tmp_path / "journal")
    times: dict[str, Any] = {"starts_at_ms": Millis(AT + 50_000), "ends_at_ms": Millis(AT + 500_000)}
    silence = Silence(id="1", cluster="a", rule="no-leader", **times, author="ana", comment="a known outage")
    of_another = replace(silence, id="2", cluster="b*", comment="work on b")
    SilenceStore(sqlite_database(tmp_path)).add(silence, of_another, now_ms=Millis(AT))
    made = written(tmp_path / given)
    assert "a known outage" in made.html
    assert "work on b" not in made.html


def test_report_shows_the_state_at_its_end(tmp_path: Path) -> None:
    recording(tmp_path / "journal")
    title = f"<title>a, {iso(Millis(AT))} to {iso(Millis(AT + 40_000))}"
    assert title in written(tmp_path, from_s=0, to_s=40).html
    assert "this page shows the last known state" not in written(tmp_path, to_s=40).html
    assert "this page shows the last known state" in written(tmp_path).html


def test_only_the_inline_style_and_script_are_allowed_and_nothing_is_loaded(tmp_path: Path) -> None:
    html = written(recording(tmp_path / "journal", cluster=EVIL)).html
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)
    for kind, name in (("style", "kraftwatch.css"), ("script", "kraftwatch.js")):
        (inside,) = re.findall(rf"<{kind}>(.*?)</{kind}>", html, re.DOTALL)
        assert inside == asset(name)
        assert f"{kind}-src &#39;{digest(inside)}&#39;" in policy
    assert re.findall(r'(?:src|href)="([^"#]+)"', html) == []
    assert EVIL not in html


def test_cluster_must_be_chosen_when_the_journal_holds_several(tmp_path: Path) -> None:
    journal(tmp_path / "journal", [observed(polled(), AT, name) for name in ("a", "b")])
    with pytest.raises(UsageError, match=r"a report covers one cluster, but .* holds a, b: select one with --only"):
        written(tmp_path)
    with pytest.raises(UsageError, match="holds nothing of cluster c; it holds: a, b"):
        written(tmp_path, cluster="c")


@pytest.mark.parametrize(
    ("span", "says"),
    [
        ((100, 50), "--from .*: the start must be before the end"),
        ((None, 500), "--to .*: the journal of cluster a ends with"),
        ((None, -5), "--to .*: the journal of cluster a begins with"),
    ],
)
def test_span_outside_the_journal_is_refused(tmp_path: Path, span: tuple[int | None, int | None], says: str) -> None:
    recording(tmp_path / "journal")
    with pytest.raises(UsageError, match=says):
        written(tmp_path, from_s=span[0], to_s=span[1])


def test_command_writes_one_file_and_prints_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recording(tmp_path / "journal", cluster="a/b")
    done = kraftwatch("report", "--checkpoint", tmp_path)
    name = f"kraftwatch-a_b-{iso(Millis(AT + 119_000))[:19].replace(':', '')}.html"
    assert (done.exit_code, done.stdout) == (0, f"{name}\n")
    assert (tmp_path / done.stdout.strip()).read_text().startswith("<!DOCTYPE html>")
