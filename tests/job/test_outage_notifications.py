"""Two of three controllers stop and start again: two notifications, and all views agree during the outage."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.job.configured_job import ConfiguredJob, section
from tests.job.conftest import await_fetches_of_all_voters, short_thresholds
from tests.job.job_state import wait_until_delivered, wait_until_resolved
from tests.lab import Lab
from tests.sinks.server import HttpDouble, serving

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def server() -> Iterator[HttpDouble]:
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def job(folder: Path, lab: Lab, server: HttpDouble) -> Iterator[ConfiguredJob]:
    job = ConfiguredJob(folder=folder / "job", name="test", bootstrap=())
    thresholds: dict[str, dict[str, float]] = {}
    for key, value in short_thresholds("no-leader", "stale-voter-endpoint").items():
        rule, _, name = key.partition(".")
        thresholds.setdefault(rule, {})[name] = value
    job.write_config(
        clusters=[section("test", lab)],
        sinks=[f"jsonl:{job.jsonl}", f"webhook:{server.url}/hook"],
        thresholds=thresholds,
    )
    with job:
        yield job


def sent(server: HttpDouble) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in server.requests]


def test_an_outage_is_two_notifications_and_the_views_agree(lab: Lab, job: ConfiguredJob, server: HttpDouble) -> None:
    wait_until_delivered(job)
    assert sent(server) == []
    stopped = list(lab.controllers)[1:]

    lab.kill(*stopped)
    job.wait_for("no-leader", within_s=180)
    wait_until_delivered(job, after_s=15)
    with urllib.request.urlopen(f"http://{job.address}/api/clusters/test", timeout=60) as answer:
        page = json.loads(answer.read())
    status, check = job.printed("status"), job.printed("check")

    assert [(one["reason"], one["severity"]) for one in sent(server)] == [("firing", "critical")]
    assert page["health"] == check["health"] == "critical"
    assert [one["rule"] for one in page["firing"]] == ["no-leader"]
    rules = [[one["rule"] for one in view["findings"]] for view in (page["status"], status, check)]
    assert rules == [["no-leader"]] * 3
    for view in (page["status"], status):
        assert (view["leader_id"], view["electable"], view["voters_fetching"]) == (None, False, None)

    lab.start(*stopped)
    await_fetches_of_all_voters(lab)
    wait_until_resolved(job, within_s=180)
    wait_until_delivered(job, after_s=65)

    assert [one["reason"] for one in sent(server)] == ["firing", "resolved"]
