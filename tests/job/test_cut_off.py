"""The host of a job can no longer observe any of its clusters: one page, and no cluster is shown by its old warning."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.lab.lab import Lab
from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob, section
from tests.job.job_state import get_json, wait_until_delivered, wait_until_evaluated
from tests.sinks.server import HttpDouble

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

NAMES = ("first", "second", "third")


@pytest.fixture(scope="module")
def labs(folder: Path) -> Iterator[Mapping[str, Lab]]:
    """Three clusters of one controller."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(Lab(folder / name, controllers=1, brokers=0)) for name in NAMES}


@pytest.fixture
def job(folder: Path, labs: Mapping[str, Lab], webhook: HttpDouble) -> Iterator[ConfiguredJob]:
    """A job that monitors them; each has an open warning."""
    job = ConfiguredJob(folder=folder / "job", name=NAMES[0], bootstrap=())
    only = {"webhook": {"url": f"{webhook.url}/second", "name": "second", "clusters": ["second"]}}
    job.write_config(
        clusters=[section(name, lab) for name, lab in labs.items()],
        sinks=[f"jsonl:{job.jsonl}", {"webhook": {"url": f"{webhook.url}/all", "name": "all"}}, only],
        thresholds={"monitor-blind": {"hold": 15, "clear": 2}, "quorum-shape": {"hold": 1}},
        rules={"quorum-shape": {"severity": "warning"}},
    )
    with job:
        yield job


def sent(server: HttpDouble, path: str = "/all") -> list[tuple[str, str, str, str]]:
    """Returns what a webhook got: reason, severity, cluster, rule."""
    found = [json.loads(request.body) for request in server.requests if request.path == path]
    return [(each["reason"], each["severity"], each["cluster"], each["alerts"][0]["rule"]) for each in found]


def shown(job: ConfiguredJob) -> list[str]:
    """Returns the health of each cluster on the page."""
    return [each["health"] for each in get_json(job, "/api/clusters")["clusters"]]


def blind(job: ConfiguredJob) -> set[str]:
    """Returns the clusters of which nothing is observed, by the alerts; those of the host are of none."""
    return {each.line["cluster"] for each in job.alerts() if each.rule == "monitor-blind"} & {*NAMES}


def test_clusters_that_are_lost_at_once_are_one_page(
    labs: Mapping[str, Lab], job: ConfiguredJob, webhook: HttpDouble
) -> None:
    eventually(lambda: len(sent(webhook)) >= 3, within_s=120)
    assert {(reason, rule) for reason, _, _, rule in sent(webhook)} == {("firing", "quorum-shape")}
    assert shown(job) == ["warning"] * 3
    own = len(sent(webhook, "/second"))

    for lab in labs.values():
        lab.pause(*lab.controllers)
    eventually(lambda: blind(job) == {*NAMES}, within_s=120)
    eventually(lambda: len(sent(webhook)) >= 4, within_s=60)
    # The alerts of the clusters are held back: they stay pending.
    wait_until_evaluated(job, after_s=5)

    page = ("firing", "critical", "kraftwatch", "monitor-blind")
    assert sent(webhook)[3:] == [page]
    assert sent(webhook, "/second")[own:] == [page]
    newest = json.loads(webhook.requests[-1].body)["alerts"][0]
    assert newest["evidence"]["clusters"] == sorted(NAMES)
    assert newest["summary"].startswith("This host cannot observe 3 of 3 clusters since ")
    assert shown(job) == ["unknown"] * 3

    for lab in labs.values():
        lab.resume(*lab.controllers)
    eventually(lambda: len(sent(webhook)) >= 5, within_s=120)
    wait_until_delivered(job, after_s=5)
    assert sent(webhook)[4:] == [("resolved", *page[1:])]
    assert sent(webhook, "/second")[own + 1 :] == [("resolved", *page[1:])]
    eventually(lambda: shown(job) == ["warning"] * 3, within_s=60)
