"""Faults on a real quorum with the real job: which alerts fire, which must not, and what the job costs the quorum."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from deploy.grafana.charts import ROWS
from deploy.lab.lab import Lab
from streaming.demo.job_process import AlertLine, JobProcess
from tests.eventually import eventually
from tests.job.conftest import every_voter_fetches, holding
from tests.job.elections import worth_telling
from tests.job.job_state import of_cluster, scraped, wait_until_delivered, wait_until_resolved
from tests.job.process_output import written
from tests.job.prometheus import scraping

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.timeout(900)]


QUIET = {
    *("kraftwatch_rule_firing", "kraftwatch_cannot_tell"),
    *("kraftwatch_election_latency_max_seconds", "kraftwatch_gather_errors_total"),
}
"""Absent while nothing fires, everything can be alerts, no election was seen, and no look failed lately."""


@pytest.fixture(scope="module")
def settings() -> dict[str, float]:
    return holding("no-leader", "observer-could-be-voter")


def spoken(lab: Lab, job: JobProcess, since: int) -> list[AlertLine]:
    """What fires since then, without what is true of a machine that was too slow for its quorum."""
    churn = worth_telling(lab) - {"no-leader"}
    return [alert for alert in job.alerts()[since:] if alert.state == "firing" and alert.rule not in churn]


def test_the_quorum_does_not_notice_that_it_is_watched(lab: Lab, job: JobProcess) -> None:
    wait_until_delivered(job)
    nodes = [lab.node(node) for node in (*lab.controllers, *lab.brokers)]
    known = {(str(node.id), node.directory_id) for node in nodes}

    def nobody_else_is_listed() -> None:
        # A leader that is new lists an observer from its first fetch on; the job, were it one, fetches all the time.
        assert {(row["NodeId"], row["DirectoryId"]) for row in lab.describe_replication()} == known

    eventually(nobody_else_is_listed, within_s=60, every_s=1)


def test_its_metrics_say_what_the_quorums_own_tool_says(lab: Lab, job: JobProcess) -> None:
    def read() -> None:
        state = lab.await_state(lambda state: True, what="a leader")
        wait_until_delivered(job)
        alerts = scraped(job)
        plain = of_cluster(alerts).get
        assert (plain("current_leader"), plain("current_epoch")) == (state.leader_id, state.leader_epoch)
        assert (plain("number_of_voters"), plain("number_of_observers")) == (len(state.voter_ids), len(lab.brokers))
        assert plain("high_watermark", -1) >= state.high_watermark
        ends = {dict(labels)["node_id"] for name, labels in alerts if name == "log_end_offset"}
        assert ends == {str(node) for node in (*lab.controllers, *lab.brokers)}
        assert plain("append_records_rate", 0) > 0, "NoOps"
        assert (plain("failure_tolerance"), plain("uncommitted_voter_change"), plain("log_lag_records")) == (1, 0, 0)

    eventually(read, within_s=60)


@pytest.mark.debian("prometheus")
def test_a_real_prometheus_scrapes_it_and_answers_every_question_of_the_dashboard(
    job: JobProcess, folder: Path
) -> None:
    def answers() -> None:
        exprs = [one.expr for _, charts in ROWS for chart in charts for one in chart.asks]
        silent = [expr for expr in exprs if not prometheus.ask(expr.replace("$cluster", ".*"))]
        # Of what did not happen here there is nothing to tell.
        assert {re.findall(r"kraftwatch_\w+", expr)[0] for expr in silent} <= QUIET
        assert prometheus.values("kraftwatch_watchdog") == [1]
        assert prometheus.values("kraftwatch_number_of_voters") == [3]
        assert prometheus.firing() == {"KraftwatchWatchdog"}

    with scraping(job.address, folder / "prometheus") as prometheus:
        # A scrape that took too long is one without any answer.
        eventually(answers, within_s=60, every_s=1)


def test_the_leader_killed_is_an_election_and_no_alarm(lab: Lab, job: JobProcess) -> None:
    since = len(job.alerts())

    def killed() -> float:
        before = lab.await_state(lambda state: True, what="a leader")
        lab.kill(before.leader_id)
        lab.await_state(lambda state: state.leader_epoch > before.leader_epoch, what="another leader")
        lab.start(before.leader_id)
        every_voter_fetches(lab)
        wait_until_delivered(job)
        # It is not measured where the newest record that the job had seen before is seconds older.
        assert "election_latency_max_seconds" in of_cluster(scraped(job))
        return of_cluster(scraped(job))["election_latency_max_seconds"]

    longest = eventually(killed, within_s=60)
    assert [alert.rule for alert in spoken(lab, job, since)] == []
    # Nobody appended anything until the others had missed their leader and voted.
    assert longest > 0.5


def test_one_endpoint_moved_heals_without_a_critical_alert(lab: Lab, job: JobProcess) -> None:
    since = len(job.alerts())
    leader = lab.await_state(lambda state: True, what="a leader").leader_id
    node = next(node for node in lab.controllers if node != leader)

    lab.stop(node)
    lab.move_endpoint(node)
    lab.start(node)
    lab.await_state(
        lambda state: lab.node(node).endpoint in state.endpoints.get(node, ()), what=f"voter {node}'s new endpoint"
    )
    wait_until_delivered(job)
    wait_until_resolved(job, within_s=180)

    assert {alert.severity for alert in spoken(lab, job, since)} <= {"warning"}


def test_the_majority_stopped_and_continued(lab: Lab, job: JobProcess) -> None:
    since = len(job.alerts())
    leader = lab.await_state(lambda state: True, what="a leader").leader_id
    stopped = [leader, next(node for node in lab.controllers if node != leader)]

    lab.pause(*stopped)
    alert = job.wait_for("no-leader", since=since, within_s=180)
    lab.resume(*stopped)
    wait_until_resolved(job, within_s=180)

    assert alert.severity == "critical"
    assert {each.rule for each in spoken(lab, job, since)} <= {"no-leader"}


def test_a_waiting_controller_is_promoted_with_the_printed_commands(lab: Lab, job: JobProcess) -> None:
    since = len(job.alerts())
    node = lab.new_controller()

    alert = job.wait_for("observer-could-be-voter", subject=str(node), since=since, within_s=180)
    for line in alert.remedy:
        lab.run_remedy(line, node_properties=lab.node(node).properties_file)
    job.wait_for("observer-could-be-voter", "resolved", subject=str(node), since=since, within_s=180)

    assert node in lab.await_state(lambda state: True, what="a leader").voter_ids
    assert {each.rule for each in spoken(lab, job, since)} == {"observer-could-be-voter"}


def test_no_secret_of_the_log_is_in_any_file_that_the_job_wrote(lab: Lab, job: JobProcess) -> None:
    admin = AdminClient({"bootstrap.servers": ",".join(lab.broker_bootstrap)})
    password = ConfigEntry("my.custom.password", "planted-password", incremental_operation=AlterConfigOpType.SET)
    broker = ConfigResource(ResourceType.BROKER, str(lab.brokers[0]), incremental_configs=[password])
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    scram = UserScramCredentialUpsertion("planted-user", info, b"planted-scram-password", b"planted-salt")
    for future in [
        *admin.incremental_alter_configs([broker]).values(),
        *admin.alter_user_scram_credentials([scram]).values(),
    ]:
        future.result(20)

    def recorded() -> None:
        files = (job.checkpoint / "journal").glob("*.seg")
        assert any(b"my.custom.password" in path.read_bytes() for path in files)

    eventually(recorded, within_s=60)
    wait_until_delivered(job)

    for path, content in written(job.folder):
        assert b"planted-password" not in content, path
        assert b"planted-salt" not in content, path


def test_it_asks_no_more_than_it_may(job: JobProcess) -> None:
    stats = json.loads((job.checkpoint / "log" / "gather-stats.json").read_text())

    # Over everything that the scenes above did to the quorum, its majority stopped included.
    assert stats["clusters"]["test"]["busiest_second"] <= 20


def test_an_idle_cluster_is_asked_at_most_eight_times_a_second(job: JobProcess) -> None:
    def stats() -> dict[str, Any]:
        read: dict[str, Any] = json.loads((job.checkpoint / "log" / "gather-stats.json").read_text())
        return read

    def idle() -> tuple[dict[str, Any], dict[str, Any]]:
        """The statistics before and after 15 s in which no look failed: what fails is looked at once more."""
        before = stats()
        eventually(lambda: stats()["at_ms"] - before["at_ms"] > 15_000, within_s=60)
        after = stats()
        assert after["clusters"]["test"]["unseen"] == before["clusters"]["test"]["unseen"]
        return before, after

    before, after = eventually(idle, within_s=60)
    sent = after["clusters"]["test"]["requests_sent"] - before["clusters"]["test"]["requests_sent"]
    assert sent / (after["at_ms"] - before["at_ms"]) * 1000 <= 8
