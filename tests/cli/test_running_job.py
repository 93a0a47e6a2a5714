"""Commands that ask the page of a running job; `transcripts/running_job.txt` has those on its machine."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from connectors.process.wall_clock import wall_ms
from connectors.settings.secret import Secret
from connectors.store.journal_writer import JournalWriter
from rules.evaluate import thresholds_for
from rules.facts.quorum import Facts
from rules.model.identifiers import Endpoint, Millis, NodeId
from rules.model.quorum import Quorum
from rules.model.replica import Poll
from streaming.cli import recorded_states
from streaming.cli.job_page import JobPageError
from streaming.config import Config
from streaming.pipeline.checkpoint import Checkpoint
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.build_status import job_cluster_status
from streaming.status.status_store import StatusStore
from streaming.web.api import api
from streaming.web.fleet_view import FleetView
from streaming.web.page_access import PageAccess
from streaming.web.past_states import PastStates
from streaming.web.server import Server
from tests.cli.program import kraftwatch, usage_error
from tests.in_background import in_background
from tests.situation.commands import situation
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


AMPLE = ("--timeout", "8s")
"""For a page that replays what the job knows, on a busy machine too."""


def answer(verb: str, *more: str, cluster: str = "a=127.0.0.1:1") -> dict[str, Any]:
    ended = kraftwatch(verb, "--timeout", "1s", *more, "--cluster", cluster, "--json")
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    found: dict[str, Any] = json.loads(ended.stdout)
    return {**found, "exit_code": ended.exit_code, "stderr": ended.stderr}


def rules(answered: dict[str, Any]) -> set[str]:
    return {one["rule"] for one in answered["findings"]}


def test_the_checkpoint_of_the_service_is_found_from_any_folder(
    runs: Checkpoint, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_states, "SERVICE_CHECKPOINT", runs.folder)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))

    assert "no-leader" in rules(answer("check"))


class Page(Server):
    """The API of a job that is not on this machine."""

    def __init__(self, journal: Path, quorum: Quorum | None = None) -> None:
        """`quorum`: of which the job has a status now."""
        self._past = PastStates(journal, lambda name: SETTINGS if name == "a" else None)
        view = FleetView(store=StatusStore(["a"]), past=self._past)
        if quorum is not None:
            status = job_cluster_status(Facts(quorum), thresholds_for({}))
            view.store.put_status(replace(status, cluster="a"), at_ms=quorum.now_ms)
            view = replace(view, now_ms=lambda: Millis(quorum.now_ms - 60_000))
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
    checked = answer("check", *page, *AMPLE)

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
        status = json.loads(kraftwatch("status", *page, *AMPLE, "--json").stdout)
        asked = kraftwatch("safe-to-restart", "1", "--after", *page, *AMPLE, "--json")

    assert (status["cluster"], status["leader_epoch"]) == ("a", 7)
    assert status["missing"] == ["the metadata log was not answered"], "the job of this test reads none"
    assert asked.stdout, (asked.output, asked.exception)
    back = json.loads(asked.stdout)
    assert (back["back"], back["unknown"]) == (None, ["nothing of the metadata log has been read yet"])


def test_the_job_answers_whether_a_node_may_be_restarted(job: Checkpoint, folder: Path) -> None:
    (folder / "token").write_text(TOKEN)
    with Page(job.journal, situation("restarts 2 4 every 2m", "brokers 101")) as server:
        page = "--job", f"http://127.0.0.1:{server.port}", "--job-token-file", str(folder / "token"), *AMPLE
        refused = json.loads(kraftwatch("safe-to-restart", "1", *page, "--json").stdout)
        despite = kraftwatch("safe-to-restart", "1", *page, "--despite", "node-restarting")
        broker = kraftwatch("safe-to-restart", "101", *page)
        unknown = usage_error("safe-to-restart", "9", *page)
        never = usage_error("safe-to-restart", "1", *page, "--despite", "no-majority")

    assert (refused["safe"], [one["name"] for one in refused["reasons"]]) == (False, ["node-restarting"])
    assert refused["reasons"][0]["until"] == "controller 2 is in sync and has run for 4 min"
    assert (despite.exit_code, despite.stdout.splitlines()[0]) == (0, " SAFE  a, controller 1")
    assert "left out by --despite node-restarting: Controller 2 restarts again" in despite.stdout
    assert (broker.exit_code, broker.stdout.splitlines()[0]) == (0, " SAFE  a, broker 101")
    assert unknown.endswith(": cluster a has no node 9")
    assert never == "no-majority would cost the leader or records: it is never left out"


def test_a_job_that_has_observed_nothing_since_is_no_answer(page: tuple[str, ...]) -> None:
    ended = kraftwatch("check", *page, *AMPLE)

    assert isinstance(ended.exception, JobPageError)
    assert "the job has recorded nothing of cluster a since 20" in str(ended.exception)


def test_the_token_of_a_page_is_required(page: tuple[str, ...]) -> None:
    assert usage_error("status", *page[:2]).endswith("the page needs its token: give --job-token-file FILE")


def test_a_job_without_a_journal_says_what_to_give_instead(folder: Path) -> None:
    (folder / "token").write_text(TOKEN)
    with Page(folder / "none") as server:
        url = f"http://127.0.0.1:{server.port}"
        page = ("--job", url, "--job-token-file", str(folder / "token"))
        said = {
            usage_error(*verb, *page)
            for verb in (("check",), ("status",), ("safe-to-restart", "1", "--after"), ("what-if",))
        }

    assert said == {
        f"--job {url}: this job has no journal of the cluster, as with source: kafka, where a relay gathers; "
        "without --job, give --config with the job's configuration, or --cluster NAME=HOST:PORT"
    }


def test_the_default_checkpoint_is_that_of_a_job() -> None:
    assert str(recorded_states.DEFAULT_CHECKPOINT) == Config.model_fields["checkpoint"].default
