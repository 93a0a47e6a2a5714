"""`kraftwatch ack` and `kraftwatch unack`."""

from dataclasses import replace
from pathlib import Path

import pytest

from connectors.delivery.ledger import Ledger
from connectors.process.wall_clock import wall_ms
from connectors.store.acknowledgements import AcknowledgementStore
from connectors.store.tables import job_database
from rules.finding import Severity
from rules.model.identifiers import Millis
from tests.cli.program import json_lines, kraftwatch, usage_error
from tests.recordings import recorded_checkpoint
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

LAGGING = alert("voter 1", rule="voter-lagging", cluster="prod", severity=Severity.WARNING)
OTHER = alert("voter 2", rule="voter-lagging", cluster="prod")
LAB = alert("cluster", rule="no-leader", cluster="lab")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint with three firing alerts, and one that has resolved."""
    over = [alert("broker 4", rule="broker-fenced", cluster="prod", resolved=one) for one in (False, True)]
    Ledger(job_database(tmp_path)).record([LAGGING, OTHER, LAB, *over], NOON_MS)
    return tmp_path


def acknowledged(folder: Path) -> dict[str, str]:
    """Returns by whom which subject is acknowledged."""
    subjects = {one.alert_id: one.subject for one in (LAGGING, OTHER, LAB)}
    stored = AcknowledgementStore(job_database(folder)).read()
    return {subjects[one.alert_id]: one.by for one in stored if one.active(wall_ms())}


@pytest.mark.parametrize(
    ("words", "subjects"),
    [
        ([LAGGING.fingerprint], ["voter 1"]),
        (["voter-lagging/voter 2"], ["voter 2"]),
        (["voter-lagging"], ["voter 1", "voter 2"]),
        (["--cluster", "la*"], ["cluster"]),
        (["no-leader", "--cluster", "lab", "--cluster", "prod"], ["cluster"]),
    ],
    ids=str,
)
def test_the_selected_alerts_are_acknowledged_until_that_is_ended(
    folder: Path, words: list[str], subjects: list[str]
) -> None:
    job = ("--checkpoint", folder)
    done = kraftwatch("ack", *words, "--by", "Ana", *job)
    assert done.exit_code == 0
    assert acknowledged(folder) == dict.fromkeys(subjects, "Ana")
    assert " ".join(done.stderr.split()).count("acknowledged by Ana: ") == len(subjects)
    assert kraftwatch("unack", *words, *job).exit_code == 0
    assert acknowledged(folder) == {}


def test_an_acknowledgement_has_an_end_and_a_comment(folder: Path) -> None:
    job = ("--checkpoint", folder)
    kraftwatch("ack", "no-leader", "--for", "90m", "--comment", "INC-1 ", *job)
    (one,) = AcknowledgementStore(job_database(folder)).read()
    assert one.until_ms is not None
    assert (one.until_ms - one.at_ms, one.comment) == (5_400_000, "INC-1")
    refused = usage_error("ack", "no-leader", "--until", "2099-01-01T12:00:00Z", *job)
    assert refused.startswith("an acknowledgement may last at most 366 days")


def test_a_text_that_cannot_be_shown_or_stored_and_two_ends_are_refused(folder: Path) -> None:
    acknowledge = ("ack", "no-leader", "--checkpoint", folder)
    assert usage_error(*acknowledge, "--by", "Ana\udcff") == "--by: 'Ana\\udcff' is not UTF-8"
    assert usage_error(*acknowledge, "--comment", "\udcff") == "--comment: '\\udcff' is not UTF-8"
    assert usage_error(*acknowledge, "--by", "x" * 201) == "--by: 201 characters: give at most 200"
    two_ends = usage_error(*acknowledge, "--for", "1h", "--until", "2027-01-01T12:00:00Z")
    assert two_ends == "give --for DURATION or --until TIME, not both"
    assert acknowledged(folder) == {}


def test_an_acknowledgement_without_a_name_has_that_of_the_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "eva")
    kraftwatch("ack", "no-leader", "--by", " ", "--checkpoint", folder)
    assert acknowledged(folder) == {"cluster": "eva"}


def test_what_fires_or_is_acknowledged_is_named_where_nothing_matches(folder: Path) -> None:
    job = ("--checkpoint", folder)
    firing = "voter-lagging/voter 1 of prod, voter-lagging/voter 2 of prod and no-leader/cluster of lab"
    assert usage_error("ack", "broker-fenced", *job) == f"no such alert is firing; firing: {firing}"
    assert usage_error("unack", "no-leader", *job) == "no such alert is acknowledged; acknowledged: none"
    assert usage_error("ack", *job) == "give an alert, or --cluster for all alerts of a cluster"


def test_status_shows_which_alerts_are_acknowledged(tmp_path: Path) -> None:
    checkpoint = recorded_checkpoint(tmp_path)
    status = ("status", "--journal", checkpoint.folder)
    before, *_ = json_lines(kraftwatch(*status, "--json"))
    assert before["acknowledged"] == []
    firing = replace(LAGGING, cluster=before["cluster"], started_at_ms=Millis(NOON_MS + 1))
    Ledger(job_database(checkpoint.folder)).record([firing], NOON_MS)
    kraftwatch("ack", firing.fingerprint, "--by", "Ana", "--comment", "INC-1", "--checkpoint", checkpoint.folder)

    after, *others = json_lines(kraftwatch(*status, "--json"))
    assert all(one["acknowledged"] == [] for one in others)
    (shown,) = after["acknowledged"]

    assert {**shown, "at": None} == {
        "rule": "voter-lagging",
        "subject": "voter 1",
        "by": "Ana",
        "at": None,
        "until": None,
        "comment": "INC-1",
    }
    printed = kraftwatch(*status).stdout
    assert "voter-lagging · voter 1 · fires, since " in printed
    assert "acknowledged by Ana: INC-1" in printed


@pytest.mark.parametrize(
    ("environment", "signed"),
    [
        ({"SUDO_USER": "ana", "USER": "root", "LOGNAME": "root"}, "ana"),
        ({"USER": "kafka"}, "kafka"),
        # As in a container.
        ({}, "root on pager-1"),
        ({"uid": "4242"}, "uid 4242 on pager-1"),
    ],
    ids=["sudo", "login", "root of a container", "user of a container without a name"],
)
def test_an_acknowledgement_has_the_name_of_the_user(
    folder: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], signed: str
) -> None:
    for name in ("SUDO_USER", "USER", "LOGNAME"):
        monkeypatch.delenv(name, raising=False)
    uid = int(environment.get("uid", 0))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("os.getuid", lambda: uid)
    monkeypatch.setattr("streaming.cli.options.gethostname", lambda: "pager-1")

    assert kraftwatch("ack", "no-leader", "--checkpoint", folder).exit_code == 0
    assert acknowledged(folder) == {"cluster": signed}
