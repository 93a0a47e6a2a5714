"""A combined node is a controller and a broker in one process, with one disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.evaluation.counted_sinks import CountedSinks, counted_sinks
from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob, section
from tests.job.conftest import HOLDS, await_fetches_of_all_voters
from tests.job.job_state import wait_until_delivered, wait_until_resolved
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


LAB = {"controllers": 2, "combined": 1, "brokers": 1, "properties": {"broker.session.timeout.ms": "3000"}}


@pytest.fixture(scope="module")
def sinks(folder: Path) -> Iterator[CountedSinks]:
    with counted_sinks(folder) as sinks:
        yield sinks


@pytest.fixture(scope="module")
def job(folder: Path, lab: Lab, sinks: CountedSinks) -> Iterator[ConfiguredJob]:
    environment = sinks.services.instrument(folder)
    job = ConfiguredJob(folder=folder / "job", name="test", bootstrap=(), environment=environment)
    configure(job, lab, sinks, "voter-disk-replaced", "no-leader")
    with job:
        yield job


def configure(job: ConfiguredJob, lab: Lab, sinks: CountedSinks, *rules: str, **holds: float) -> None:
    """Writes the configuration with short holds for these rules, and with others; a running job reads it again."""
    values = {rule: HOLDS[rule] for rule in rules} | {name.replace("_", "-"): hold for name, hold in holds.items()}
    job.write_config(
        clusters=[section("test", lab)],
        sinks=[f"jsonl:{job.jsonl}", *sinks.entries],
        thresholds={rule: {"hold": hold, "clear": 3.0} for rule, hold in values.items()},
    )


def test_a_combined_node_that_dies_is_one_page_and_a_lost_quorum_is_another(
    lab: Lab, job: ConfiguredJob, sinks: CountedSinks
) -> None:
    await_fetches_of_all_voters(lab)
    wait_until_delivered(job)
    marks, since = sinks.marks(), len(job.alerts())
    pagerduty = sinks.services.pagerduty.double
    paged = len(pagerduty.alerts)
    # The fenced broker is sent more than 15 s after the failure: what becomes critical then is another fault. The alert
    # about the quorum names the failed node once its last fetch is 10 s old, also by a leader that was elected since.
    configure(job, lab, sinks, "no-leader", failure_tolerance=15.0, broker_fenced=30.0)
    node = combined_node(lab)

    lab.kill(node)
    job.wait_for("failure-tolerance", since=since)
    job.wait_for("broker-fenced", since=since)
    wait_until_delivered(job)

    assert documents(sinks, marks) == [
        ("firing", "warning", ["failure-tolerance"]),
        ("changed", "warning", ["broker-fenced", "failure-tolerance"]),
    ]
    assert [each.pages for each in pagerduty.alerts[paged:]] == [1]
    assert sinks.by_sink(marks)["Slack"] == {"edit": 1, "message": 1, "reply": 1}
    pagerduty.alerts[-1].state = "acknowledged"

    lab.kill(next(each for each in lab.controllers if each != node))
    job.wait_for("no-leader", since=since)
    wait_until_delivered(job)

    assert documents(sinks, marks)[2:] == [("firing", "critical", ["no-leader"])]
    states = [(each.state, each.events[0]["payload"]["severity"]) for each in pagerduty.alerts[paged:]]
    assert states == [("acknowledged", "warning"), ("triggered", "critical")]
    assert sinks.by_sink(marks)["Slack"]["message"] == 2

    lab.start(*(each for each in lab.controllers if not lab.node(each).running))
    await_fetches_of_all_voters(lab)
    wait_until_resolved(job)
    eventually(lambda: assert_all_resolved(sinks), within_s=60)
    assert len(pagerduty.alerts[paged:]) == 2
    assert sinks.refused == []


def combined_node(lab: Lab) -> int:
    (node,) = (node for node in lab.controllers if node in lab.brokers)
    return node


def documents(sinks: CountedSinks, marks: tuple[int, int, int, int]) -> list[tuple[str, str, list[str]]]:
    """Returns what the webhook got: reason, severity and the rules of the alerts, sorted: which began first depends on
    when the leader last heard of the broker."""
    found = sinks.webhook.documents[marks[0] :]
    return [(each["reason"], each["severity"], sorted(alert["rule"] for alert in each["alerts"])) for each in found]


def assert_all_resolved(sinks: CountedSinks) -> None:
    assert {each.state for each in sinks.services.pagerduty.double.alerts} == {"resolved"}
