"""Two real jobs on one real quorum: a first one, and a standby that notifies people only while that one is gone."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from deploy.lab.lab import Lab
from rules.notifications.incident import deduplication_key
from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob, section
from tests.sinks.server import HttpDouble, HttpReply, ReceivedRequest, serving

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

FIRE_SOON = {"failure-tolerance": {"hold": 3600}, "quorum-shape": {"hold": 1, "clear": 1}}
"""quorum-shape fires for a quorum of one voter, until its rule is turned off."""
OFF = {"quorum-shape": {"enabled": False}}


@pytest.fixture(scope="module")
def lab(folder: Path) -> Iterator[Lab]:
    with Lab(folder / "lab", controllers=1, brokers=0) as lab:
        yield lab


@dataclass
class People:
    """What each job notified people of, by a webhook: (rule, reason), in order."""

    received: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {"first": [], "standby": []})

    def reply(self, request: ReceivedRequest) -> HttpReply:
        self.received[request.path.removeprefix("/")].append(json.loads(request.body))
        return HttpReply()

    def of(self, job: str) -> list[tuple[str, str]]:
        return [(each["alerts"][0]["rule"], each["reason"]) for each in self.received[job]]


@pytest.fixture
def people() -> Iterator[tuple[People, HttpDouble]]:
    people = People()
    with serving() as server:
        server.behave = people.reply
        yield people, server


def recorded(job: ConfiguredJob) -> list[tuple[str, str]]:
    lines = job.jsonl.read_text().split("\n")[:-1] if job.jsonl.exists() else []
    return [(line["rule"], line["state"]) for line in map(json.loads, lines)]


def test_standby_notifies_only_while_the_first_job_is_gone(
    folder: Path, lab: Lab, people: tuple[People, HttpDouble]
) -> None:
    notified, server = people
    first = ConfiguredJob(folder=folder / "first", bootstrap=())
    standby = ConfiguredJob(folder=folder / "standby", bootstrap=())
    configured = {"clusters": [section("prod", lab)], "thresholds": FIRE_SOON}

    def configure(job: ConfiguredJob, name: str, **keys: Any) -> None:
        sinks = [f"jsonl:{job.jsonl}", {"webhook": {"url": f"{server.url}/{name}", "repeat": "never"}}]
        job.write_config(**configured, sinks=sinks, **keys)

    configure(first, "first")
    configure(standby, "standby", standby=True, standby_after="10m")
    both = [("quorum-shape", "firing")]
    with first, standby:
        configure(first, "first", heartbeat={"url": f"http://{standby.address}/heartbeat", "every": 1})
        eventually(lambda: assert_equal(recorded(standby), both), within_s=180)
        eventually(lambda: assert_equal(notified.of("first"), both), within_s=180)
        eventually(lambda: assert_heartbeats(standby), within_s=60)
        switch = {"standby": True, "standby_after": "8s"}
        configure(standby, "standby", **switch)
        eventually(lambda: assert_logged(standby, "changed standby_after"), within_s=60)
        assert ("quorum-shape", "firing") not in notified.of("standby")

        first.kill()
        eventually(lambda: assert_equal(quorum_only(notified.of("standby")), both), within_s=120)
        # The first job is gone: the two alerts may be sent in either order.
        eventually(lambda: assert_reported(notified, ("monitor-blind", "firing")), within_s=60)
        (ours,), (theirs,) = (shared(notified.received[name]) for name in ("first", "standby"))
        assert ours == theirs, "fingerprint and deduplication key"

        configure(standby, "standby", **switch, rules=OFF)
        ended = [*both, ("quorum-shape", "resolved")]
        eventually(lambda: assert_equal(quorum_only(notified.of("standby")), ended), within_s=120)

        first.start()
        eventually(lambda: assert_reported(notified, ("monitor-blind", "resolved")), within_s=180)
        configure(standby, "standby", **switch)
        fired_again = [("quorum-shape", state) for state in ("firing", "resolved", "firing")]
        eventually(lambda: assert_equal(quorum_only(recorded(standby)), fired_again), within_s=120)
        count = batches(standby)
        eventually(lambda: assert_more_batches(standby, count), within_s=60)

    assert quorum_only(notified.of("standby")) == ended, "silent again, and nothing twice"


def quorum_only(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [each for each in found if each[0] == "quorum-shape"]


def shared(received: list[dict[str, Any]]) -> set[tuple[str, str]]:
    found = [each for each in received if each["alerts"][0]["rule"] == "quorum-shape"]
    return {(each["alerts"][0]["fingerprint"], deduplication_key(each["incident"])) for each in found}


def metric(job: ConfiguredJob, name: str) -> float:
    lines = requests.get(f"http://{job.address}/metrics", timeout=30).text.splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(name))


def batches(job: ConfiguredJob) -> float:
    return metric(job, "kraftwatch_batches_total")


def assert_more_batches(job: ConfiguredJob, count: float) -> None:
    assert batches(job) > count + 3


def assert_heartbeats(job: ConfiguredJob) -> None:
    assert metric(job, "kraftwatch_standby_silent") == 1
    assert metric(job, "kraftwatch_standby_heartbeats_total") > 0


def assert_logged(job: ConfiguredJob, text: str) -> None:
    assert text in job.log.read_text()


def assert_reported(people: People, expected: tuple[str, str]) -> None:
    assert expected in people.of("standby")


def assert_equal(actual: object, expected: object) -> None:
    assert actual == expected
