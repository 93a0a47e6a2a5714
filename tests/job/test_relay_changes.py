"""A job on a relay's topic when its configuration or the topic changes: a new cluster, and rows that were deleted."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from streaming.demo.job_process import JobProcessError
from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob, second_section, section
from tests.job.relay_process import RelayProcess
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1_200)]

LAB = {"controllers": 1, "brokers": 0}
FIRE_SOON = {"quorum-shape": {"hold": 1}}
"""quorum-shape fires for a quorum of one voter after an hour by default."""


@pytest.fixture
def relay(lab: Lab, topic_lab: Lab, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RelayProcess]:
    clusters = [section("first", lab), second_section("second", lab, tmp_path / "hosts")]
    relay = RelayProcess(tmp_path / "relay", topic_lab, topic=request.node.name, clusters=clusters)
    relay.start()
    relay.wait_for_rows(10)
    yield relay
    relay.stop()


def test_cluster_that_is_added_to_a_running_job_begins_with_the_next_baseline(
    lab: Lab, relay: RelayProcess, tmp_path: Path
) -> None:
    job = ConfiguredJob(folder=tmp_path / "job", bootstrap=(), name="first")
    common = {"source": "kafka", "relay": relay.section, "thresholds": FIRE_SOON}
    job.write_config(clusters=[section("first", lab)], **common)
    with job:
        assert job.wait_for("quorum-shape").line["cluster"] == "first"
        both = [section("first", lab), second_section("second", lab, tmp_path / "hosts")]
        job.write_config(clusters=both, **common)
        eventually(lambda: job.logged("was reloaded: changed clusters"), within_s=60, every_s=1)
        relay.send_signal(signal.SIGHUP)

        assert job.wait_for("quorum-shape", since=1).line["cluster"] == "second"
        fired = [(alert.line["cluster"], alert.state) for alert in job.alerts() if alert.rule == "quorum-shape"]
        assert fired == [("first", "firing"), ("second", "firing")]


def test_after_rows_that_were_deleted_unread_a_new_state_begins_with_the_next_baseline(
    lab: Lab, topic_lab: Lab, relay: RelayProcess, tmp_path: Path
) -> None:
    job = ConfiguredJob(folder=tmp_path / "job", bootstrap=(), name="first")
    job.write_config(clusters=[section("first", lab)], source="kafka", relay=relay.section, thresholds=FIRE_SOON)
    with job:
        job.wait_for("quorum-shape")
    written = len(relay.raw_messages())
    eventually(lambda: len(relay.raw_messages()) > written + 20, within_s=60, every_s=1)
    delete_all_rows(topic_lab, relay)

    with pytest.raises(JobProcessError):
        job.start()
    sentence = job.log.read_text().strip().splitlines()[-1]
    assert "no longer has rows that were not read" in sentence
    assert "and a new one cannot begin: cluster first: " in sentence

    relay.send_signal(signal.SIGHUP)
    eventually(lambda: any(one.observation.base_offset == 0 for one in relay.messages()), within_s=60, every_s=1)
    with job:
        assert job.logged("is set aside: the topic ")
        job.wait_for("quorum-shape")
    assert [alert.state for alert in job.alerts() if alert.rule == "quorum-shape"] == ["firing"], "it is not sent again"


def test_relays_with_topics_of_their_own_do_not_reach_each_other(lab: Lab, topic_lab: Lab, tmp_path: Path) -> None:
    sections = [section("first", lab), second_section("second", lab, tmp_path / "hosts")]
    topics = {"first": "of-first", "second": "of-second"}
    first, second = (
        RelayProcess(tmp_path / each["name"], topic_lab, topic=topics[each["name"]], clusters=[each])
        for each in sections
    )
    job = ConfiguredJob(folder=tmp_path / "job", bootstrap=(), name="first")
    common = {"source": "kafka", "relay": {**first.section, "topics": topics}, "thresholds": FIRE_SOON}
    try:
        first.start()
        first.wait_for_rows(10)
        job.write_config(clusters=sections[:1], **common)
        with job:
            assert job.wait_for("quorum-shape").line["cluster"] == "first"
        second.start()
        second.wait_for_rows(10)
        job.write_config(clusters=sections, **common)
        with job:
            # The topic is new to the checkpoint.
            assert job.wait_for("quorum-shape", since=1).line["cluster"] == "second"

            second.write(first.messages()[-1])
            refused = job.wait_for("monitor-degraded", subject="rows of first: topic")
            assert refused.line["evidence"]["topic_partition"].startswith("topic of-second partition ")
            first.kill()
            job.wait_for("monitor-degraded", subject="relay of first")
            first.start()
            job.wait_for("monitor-degraded", "resolved", subject="relay of first")
    finally:
        first.stop()
        second.stop()


def delete_all_rows(topic_lab: Lab, relay: RelayProcess) -> None:
    newest = {one.partition(): one.offset() for one in relay.raw_messages()}
    ends = [TopicPartition(relay.section["topic"], number, offset + 1) for number, offset in newest.items()]
    admin = topic_lab.admin
    for future in admin.delete_records(ends).values():
        future.result(60)
