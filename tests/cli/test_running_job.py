"""Commands on the machine of a running job, of whose cluster no controller runs any more."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from connectors.gather.node_directory import KnownEndpoints, endpoints_json
from connectors.process.wall_clock import wall_ms
from connectors.settings.secret import Secret
from connectors.store.journal_writer import JournalWriter
from rules.model.identifiers import Endpoint, NodeId
from rules.model.replica import Poll
from streaming.cli import recorded_states
from streaming.cli.job_page import JobPageError
from streaming.config import Config
from streaming.pipeline.checkpoint import Checkpoint
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.status_store import StatusStore
from streaming.web.api import api
from streaming.web.fleet_view import FleetView
from streaming.web.page_access import PageAccess
from streaming.web.past_states import PastStates
from streaming.web.server import Server
from tests.cli.program import kraftwatch, usage_error
from tests.in_background import in_background
from tests.sinks.server import serving
from tests.unit.streaming.query.status_journal import journal, observed, polled

CLUSTER_ID, TOKEN = "cluster-id", "canary-token-7d1e"
SETTINGS = ClusterSettings(name="a", cluster_id=CLUSTER_ID, bootstrap=("127.0.0.1:1",))


@pytest.fixture
def job(folder: Path) -> Checkpoint:
    """The checkpoint of a job, in the working directory: two seconds ago controller 1 led in epoch 7."""
    checkpoint = Checkpoint(folder=folder / "kraftwatch-checkpoint")
    journal(checkpoint.journal, [observed(answer_of_leader(), wall_ms() - 2_000)])
    checkpoint.record_cluster_ids({"a": CLUSTER_ID})
    return checkpoint


def answer_of_leader() -> Poll:
    nodes = {NodeId(node): (Endpoint(listener="CONTROLLER", host="127.0.0.1", port=node),) for node in (1, 2)}
    return replace(polled(7), nodes=nodes)


@pytest.fixture
def runs(job: Checkpoint) -> Iterator[Checkpoint]:
    with job.held():
        yield job


def answer(verb: str, *more: str, cluster: str = "a=127.0.0.1:1") -> dict[str, Any]:
    ended = kraftwatch(verb, *more, "--cluster", cluster, "--timeout", "1s", "--json")
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    found: dict[str, Any] = json.loads(ended.stdout)
    return {**found, "exit_code": ended.exit_code, "stderr": ended.stderr}


def rules(answered: dict[str, Any]) -> set[str]:
    return {one["rule"] for one in answered["findings"]}


def test_check_and_status_name_the_outage(runs: Checkpoint) -> None:
    checked, status = answer("check"), answer("status")

    assert (checked["exit_code"], checked["source"], status["source"]) == (2, "journal", "journal")
    assert "no-leader" in rules(checked) & rules(status)
    assert checked["recorded_at"] is not None
    assert f"cluster a: known from the job in {runs.folder.name} until " in checked["stderr"]


def test_safe_to_restart_and_what_if_answer_of_what_the_job_knows(runs: Checkpoint) -> None:
    restart, prediction = answer("safe-to-restart", "1"), answer("what-if", "--lose", "2")

    assert restart["against"] == ["no controller leads the quorum (all refuse connections): fix that first"]
    assert prediction["assumed"][0].endswith(" old: no leader answered now")


def test_a_job_that_has_ended_is_not_asked_by_default(job: Checkpoint) -> None:
    checked = answer("check")

    assert (checked["exit_code"], checked["source"], rules(checked)) == (3, "none", {"monitor-blind"})


def test_a_cluster_that_the_job_knows_by_another_name_is_found_by_its_id(
    runs: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.query.live.identify", lambda *_: CLUSTER_ID)
    checked = answer("check", cluster="other=127.0.0.1:1")

    assert (checked["cluster"], checked["source"]) == ("other", "journal")
    assert "no-leader" in rules(checked)


def test_a_cluster_whose_id_no_node_reports_is_found_by_a_recorded_address(runs: Checkpoint) -> None:
    known = KnownEndpoints(polled=answer_of_leader().nodes)
    with JournalWriter(runs.journal) as writer:
        writer.append([observed(answer_of_leader(), wall_ms())])
        writer.note_endpoints({"a": endpoints_json().dump_json(known).decode()})
        writer.publish()

    assert "no-leader" in rules(answer("check", cluster="other=127.0.0.1:2"))


def test_what_a_job_recorded_of_another_cluster_is_not_used(runs: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.query.live.identify", lambda *_: "another-id")
    checked = answer("check", "--timeout", "1")

    assert (checked["source"], rules(checked)) == ("none", {"monitor-blind"})
    assert "cluster a has the id another-id, and the job in " in checked["stderr"]
    assert "is of another cluster and is not used" in checked["stderr"]


def test_the_checkpoint_of_the_service_is_found_from_any_folder(
    runs: Checkpoint, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_states, "SERVICE_CHECKPOINT", runs.folder)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))

    assert "no-leader" in rules(answer("check"))


class Page(Server):
    """The API of a job that is not on this machine."""

    def __init__(self, journal: Path) -> None:
        self._past = PastStates(journal, lambda name: SETTINGS if name == "a" else None)
        view = FleetView(store=StatusStore(["a"]), past=self._past)
        super().__init__(("127.0.0.1", 0), [api(view)], access=PageAccess(token=Secret(text=TOKEN)))

    def __exit__(self, *_: object) -> None:
        self._past.__exit__()
        super().__exit__()


@pytest.fixture
def page(job: Checkpoint, folder: Path) -> Iterator[tuple[str, ...]]:
    """The options that name the page."""
    (folder / "token").write_text(TOKEN)
    with Page(job.journal) as server:
        yield "--job", f"http://127.0.0.1:{server.port}", "--job-token-file", str(folder / "token")


def test_a_query_continues_what_the_job_at_a_page_knows(page: tuple[str, ...]) -> None:
    checked = answer("check", *page)

    assert (checked["exit_code"], checked["source"]) == (2, "journal")
    assert "no-leader" in rules(checked)


def test_without_a_cluster_the_job_alone_is_asked_for_what_it_has_observed_since(
    page: tuple[str, ...], job: Checkpoint
) -> None:
    def observe(ended: Event) -> None:
        with JournalWriter(job.journal) as writer:
            while not ended.wait(0.5):
                writer.append([observed(answer_of_leader(), wall_ms())])
                writer.publish()

    with in_background(observe):
        status = json.loads(kraftwatch("status", *page, "--timeout", "2", "--json").stdout)
        restart = json.loads(kraftwatch("safe-to-restart", "1", *page, "--timeout", "2", "--json").stdout)

    assert (status["cluster"], status["leader_epoch"]) == ("a", 7)
    assert status["missing"] == ["the metadata log was not answered"], "the job of this test reads none"
    assert (restart["safe"], restart["unknown"]) == (None, ["nothing of the metadata log has been read yet"])


def test_a_job_that_has_observed_nothing_since_is_no_answer(page: tuple[str, ...]) -> None:
    ended = kraftwatch("check", *page, "--timeout", "2")

    assert isinstance(ended.exception, JobPageError)
    assert "the job has recorded nothing of cluster a since 20" in str(ended.exception)


def test_the_token_of_a_page_is_required(page: tuple[str, ...]) -> None:
    assert usage_error("status", *page[:2]).endswith("the page needs its token: give --job-token-file FILE")


def test_a_job_without_a_journal_says_what_to_give_instead(folder: Path) -> None:
    (folder / "token").write_text(TOKEN)
    with Page(folder / "none") as server:
        url = f"http://127.0.0.1:{server.port}"
        page = ("--job", url, "--job-token-file", str(folder / "token"))
        said = {usage_error(*verb, *page) for verb in (("check",), ("status",), ("safe-to-restart", "1"), ("what-if",))}

    assert said == {
        f"--job {url}: this job has no journal of the cluster, as with source: kafka, where a relay gathers; "
        "without --job, give --config with the job's configuration, or --cluster NAME=HOST:PORT"
    }


def test_a_server_that_is_no_job_is_named_and_the_query_goes_on(folder: Path) -> None:
    with serving() as server:
        checked = answer("check", "--job", server.url, "--timeout", "1")

    assert checked["source"] == "none"
    assert "the answer is not that of a job of this version: check the URL" in checked["stderr"]


def test_a_page_is_not_combined_with_a_past_state(folder: Path) -> None:
    assert "do not combine it with --journal" in usage_error("status", "--job", "http://h", "--journal", folder)


def test_the_default_checkpoint_is_that_of_a_job() -> None:
    assert str(recorded_states.DEFAULT_CHECKPOINT) == Config.model_fields["checkpoint"].default
