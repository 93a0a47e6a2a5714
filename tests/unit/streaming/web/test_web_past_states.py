"""`/api/clusters/NAME?at=TIME`: the cluster as it was, by a recorded journal of two clusters."""

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from pydantic import TypeAdapter
from typer.testing import CliRunner

from connectors.delivery.ledger import stored_alerts
from connectors.settings.secret import Secret
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import job_database
from rules.evaluate import thresholds_for
from rules.formatting import iso
from rules.model.identifiers import Millis
from streaming.cli import app
from streaming.query.past_replay import PastReplay, StoredCluster
from streaming.query.recording import ReplayedJournal, journal_span, open_journal, replay_recording
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.status_store import NewestDelivery, StatusStore
from streaming.web.fleet_view import FleetView
from streaming.web.page_access import PageAccess
from streaming.web.past_states import PastStates
from tests.eventually import eventually
from tests.page_fixture import ServedPages
from tests.present import present
from tests.recordings import recorded_checkpoint

NAMES = ("prod", "staging")
WITHIN_S = 60
DIFFERENT = {"source", "age_ms", "firing"}
"""`status --journal` says how old the recorded state is now, and nothing of past alerts."""


def monitored(name: str) -> ClusterSettings | None:
    return ClusterSettings(name=name, thresholds=thresholds_for({})) if name in NAMES else None


class PastPage(ServedPages):
    """A server whose clusters have a journal and a ledger, and no present status."""

    def __init__(self, checkpoint: Path, *, access: PageAccess | None = None) -> None:
        self.checkpoint = checkpoint
        self.reader = JournalReader(checkpoint / "journal")
        span = present(journal_span(self.reader))
        self.first_ms, self.last_ms = span
        self.asked: list[str] = []
        """The clusters whose waiting rows were asked for."""
        self.past = PastStates(checkpoint / "journal", monitored, publish=self.asked.append)
        store = StatusStore(NAMES)
        alerts = stored_alerts(job_database(checkpoint))
        store.delivery = NewestDelivery(history=alerts, sinks={}, at_ms=Millis(self.last_ms))
        view = FleetView(store=store, now_ms=lambda: Millis(self.last_ms + 60_000), past=self.past)
        super().__init__(view, access=access)

    def __exit__(self, *_: object) -> None:
        self.past.__exit__()
        super().__exit__()

    def state(self, name: str, at: object) -> requests.Response:
        """Asks until the journal is replayed."""
        answers: list[requests.Response] = []

        def answered() -> bool:
            answers.append(self.get(f"/api/clusters/{name}?at={at}"))
            if answers[-1].status_code == 503:
                assert 0 <= answers[-1].json()["progress"] <= 1
                assert answers[-1].headers["Retry-After"] == "1"
            return answers[-1].status_code != 503

        eventually(answered, within_s=WITHIN_S)
        return answers[-1]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded_checkpoint(tmp_path_factory.mktemp("recorded")).folder


@pytest.fixture(scope="module")
def page(checkpoint: Path) -> Iterator[PastPage]:
    with PastPage(checkpoint) as page:
        yield page


def printed_status(checkpoint: Path, name: str, at_ms: int) -> dict[str, Any]:
    options = ["status", "--journal", str(checkpoint), "--at", iso(Millis(at_ms)), "--json", "--only", name]
    ended = CliRunner().invoke(app, options)
    assert ended.exit_code == 0, ended.output
    return {key: value for key, value in json.loads(ended.stdout).items() if key not in DIFFERENT}


@pytest.mark.parametrize("share", [0.9, 0.2, 0.5, 0.99, 0.51])
@pytest.mark.parametrize("name", NAMES)
def test_past_state_is_what_status_prints_for_the_same_time(page: PastPage, name: str, share: float) -> None:
    at_ms = int(page.first_ms + share * (page.last_ms - page.first_ms))
    answer = page.state(name, at_ms)

    assert answer.status_code == 200, answer.text
    status = answer.json()["status"]
    assert {key: value for key, value in status.items() if key not in DIFFERENT} == printed_status(
        page.checkpoint, name, at_ms
    )


def test_schema_is_that_of_the_present_state_and_alerts_are_those_of_the_time(page: PastPage) -> None:
    at_ms = (page.first_ms + page.last_ms) // 2
    past, present = page.state("prod", at_ms).json(), page.get("/api/clusters/prod").json()

    assert page.state("prod", iso(Millis(at_ms))).json() == past
    assert list(past) == list(present)
    times = [one["observed_at"] for one in past["history"]]
    assert times
    assert max(times) <= iso(Millis(at_ms)) < max(one["observed_at"] for one in present["history"])
    assert past["age_ms"] < 10_000, "the age is relative to the time"


@pytest.mark.parametrize("name", NAMES)
def test_newest_state_that_a_command_continues_is_that_of_the_whole_journal(page: PastPage, name: str) -> None:
    answers: list[requests.Response] = []

    def answered() -> None:
        answers.append(page.get(f"/api/recorded/{name}"))
        assert answers[-1].status_code == 200, answers[-1].text

    eventually(answered, within_s=WITHIN_S)
    stored = TypeAdapter(StoredCluster).validate_python(answers[-1].json())
    restored = ReplayedJournal.restored(stored.state, stored.settings, stored.newest_ms)
    whole = replay_recording(open_journal(page.checkpoint), monitored)[name]

    assert (stored.settings, stored.newest_ms) == (present(monitored(name)), whole.newest_ms)
    assert restored.machine.quorum() == whole.machine.quorum()
    assert restored.known_endpoints == whole.known_endpoints
    assert {*page.asked} >= {name}, "a query waits for what the job observes"
    assert page.past._recent == {} or all(one.result().stored is None for one in page.past._recent.values()), (
        "it is large: no copy stays"
    )


def test_newest_state_follows_the_journal(checkpoint: Path, tmp_path: Path) -> None:
    rows = [*JournalReader(checkpoint / "journal").read(0, 600)]
    with JournalWriter(tmp_path) as writer:
        replay = PastReplay(tmp_path, present(monitored("prod")))
        for part in (rows[:400], rows[400:]):
            writer.append(part)
            writer.publish()
            newest = replay.newest()
            whole = replay_recording(open_journal(tmp_path), monitored)["prod"]
            assert newest.newest_ms == whole.newest_ms
            assert newest.machine.quorum() == whole.machine.quorum()


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        ("yesterday", "at=yesterday: expected a time such as 2026-11-20T08:15:00Z, or milliseconds"),
        ("99999999999999999999999", "expected a time"),
        ("0001-01-01T00:00:00", "expected a time"),
        ("2001-01-01T00:00:00Z", "at=2001-01-01T00:00:00.000Z: the journal holds 2026-"),
        ("9000-01-01T00:00:00Z", "at=9000-01-01T00:00:00.000Z: the journal holds 2026-"),
    ],
)
def test_time_that_is_not_held_is_one_sentence_with_the_range(page: PastPage, at: str, reason: str) -> None:
    answer = page.get(f"/api/clusters/prod?at={at}")
    assert answer.status_code == 400
    assert list(answer.json()) == ["status"]
    assert reason in answer.json()["status"]
    if "holds" in reason:
        assert f"{iso(Millis(page.first_ms))} to {iso(Millis(page.last_ms))}" in answer.json()["status"]
    shown = page.get(f"/clusters/prod?at={at}")
    assert shown.status_code == 400
    assert "Back to live" in shown.text


def test_unknown_cluster_is_not_found(page: PastPage) -> None:
    assert page.get(f"/api/clusters/other?at={page.last_ms}").status_code == 404
    assert page.get(f"/clusters/other?at={page.last_ms}").status_code == 404
    assert page.get("/api/recorded/other").status_code == 404


def test_job_without_a_journal_has_no_past_states(tmp_path: Path) -> None:
    past = PastStates(tmp_path / "journal", monitored)
    view = FleetView(store=StatusStore(NAMES), past=past)
    with ServedPages(view) as server:
        for path in ("/api/clusters/prod?at=1", "/api/recorded/prod"):
            answer = server.get(path)
            assert answer.status_code == 400
            assert "no journal" in answer.json()["status"]
        assert 'id="at"' not in server.get("/clusters/prod").text


def test_present_pages_are_served_while_past_states_are_replayed_and_a_replay_that_died_is_started_again(
    checkpoint: Path,
) -> None:
    """The process that replays is stopped, so every past state never ends."""
    with PastPage(checkpoint) as page:
        page.state("prod", page.last_ms)
        process = present(page.past._process)
        os.kill(process.pid, signal.SIGSTOP)

        def scrub(step: int) -> int:
            return page.get(f"/api/clusters/prod?at={page.last_ms - 1_000 * step - 1}").status_code

        with ThreadPoolExecutor(12) as pool:
            waiting = [pool.submit(scrub, step) for step in range(12)]
            while not all(one.done() for one in waiting):
                assert page.get("/api/clusters").status_code == 200
        assert {one.result() for one in waiting} == {503}

        process.kill()
        process.wait()
        assert page.state("prod", page.last_ms - 500).status_code == 200


def test_past_states_need_the_token(checkpoint: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("canary-token\n")
    with PastPage(checkpoint, access=PageAccess(token=Secret(file=token))) as page:
        for path in ("/api/clusters/prod", "/clusters/prod", "/api/recorded/prod"):
            assert page.get(f"{path}?at={page.last_ms}").status_code == 401
        assert page.past._process is None
        allowed = page.get(f"/api/clusters/prod?at={page.last_ms}", Authorization="Bearer canary-token")
        assert allowed.status_code in (200, 503)


def test_page_of_a_past_state_works_without_a_script(page: PastPage) -> None:
    at_ms = (page.first_ms + page.last_ms) // 2
    page.state("prod", at_ms)
    html = page.get(f"/clusters/prod?at={at_ms}&span=15m").text
    shown = iso(Millis(at_ms))[:19].replace("T", " ")

    assert f">{shown}</time> UTC, not live.</strong>" in html
    assert 'href="?span=15m">Back to live</a>' in html
    assert 'name="at" min="' in html
    assert f'value="{at_ms}"' in html
    assert 'data-live="&' not in html
    assert '<main id="main" data-past>' in html
    assert 'http-equiv="refresh"' not in html
    assert " style=" not in html
