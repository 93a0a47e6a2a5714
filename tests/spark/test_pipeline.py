"""The pipeline on a real Spark: observations from a journal become alerts in a file, each once and in order."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from pyspark.sql import SparkSession

from connectors.sinks.sink_config import SinkSpec, open_sink
from connectors.sinks.webhook import WebhookSection
from tests.eventually import eventually
from tests.sinks.server import HttpDouble, NoReply, serving
from tests.sinks.sink_kind import local_slack
from tests.sinks.slack_double import SlackDouble
from tests.spark.pipeline_run import START_MS, PipelineRun
from tests.unit.connectors.kafka.certificates import authority

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::ResourceWarning")]

FIRING, RESOLVED = ("no-leader", "firing"), ("no-leader", "resolved")


@pytest.fixture
def pipeline(spark: SparkSession, tmp_path: Path) -> Iterator[PipelineRun]:
    pipeline = PipelineRun(spark, tmp_path)
    yield pipeline
    pipeline.close()


def page_history_is(pipeline: PipelineRun, *expected: tuple[str, str]) -> None:
    """Checks the alerts of the page; it gets them after the sinks."""
    delivery = pipeline.store.delivery
    assert delivery is not None
    assert [(alert.rule, alert.state.value) for alert in delivery.history] == list(expected)


def test_no_leader_fires_after_hold_and_resolves_after_clear(pipeline: PipelineRun) -> None:
    pipeline.start()
    pipeline.lose_the_leader(times=3)
    # The step requests a poll for the end of the hold.
    eventually(lambda: ("prod", START_MS + 5_000) in pipeline.requested_polls, within_s=60)
    assert pipeline.alerts() == []
    pipeline.lose_the_leader(times=5)
    pipeline.wait_for_transitions(FIRING)

    pipeline.have_a_leader(times=14)
    pipeline.wait_for_transitions(FIRING, RESOLVED)

    newest = pipeline.store.newest("prod")
    assert newest is not None
    assert (newest.status.leader_id, newest.status.source) == (1, "live")
    eventually(lambda: page_history_is(pipeline, FIRING, RESOLVED), within_s=60)

    firing, resolved = pipeline.alerts()
    assert firing["severity"] == "critical"
    assert firing["cluster_id"] == "id-of-prod"
    assert firing["fingerprint"] == resolved["fingerprint"]
    assert firing["started_at"] == resolved["started_at"] == "2027-01-15T08:00:00.000Z"


def sent_states(server: HttpDouble) -> list[str]:
    return [json.loads(request.body)["state"] for request in server.requests]


def test_hanging_sink_delays_neither_other_sinks_nor_the_stream(pipeline: PipelineRun, tmp_path: Path) -> None:
    ca = authority(tmp_path / "ca")
    slack = SlackDouble(token="xoxb-1")
    with serving() as webhook, serving() as hanging, serving(ca.server(ca.issue("server"))) as api:
        api.behave = slack.reply
        hanging.behave = lambda _: NoReply()
        channel = local_slack(Path(ca.file), channel="#kafka", token=SecretStr("xoxb-1"), api_url=f"{api.url}/api/")
        specs = [
            SinkSpec(section=WebhookSection(url=SecretStr(webhook.url), name="webhook")),
            SinkSpec(section=WebhookSection(url=SecretStr(hanging.url), name="hanging")),
            SinkSpec(section=channel),
        ]
        pipeline.start(*(open_sink(spec, store=tmp_path) for spec in specs))
        pipeline.lose_the_leader(times=8)

        pipeline.wait_for_transitions(FIRING)
        eventually(lambda: sent_states(webhook) == ["firing"], within_s=60)
        eventually(lambda: len(slack.channel_messages) == 1, within_s=60)
        eventually(lambda: hanging.requests != [], within_s=60)
        assert "no-leader" in json.dumps(json.loads(webhook.requests[0].body)["alerts"])

        pipeline.have_a_leader(times=14)
        pipeline.wait_for_transitions(FIRING, RESOLVED)
        eventually(lambda: sent_states(webhook) == ["firing", "resolved"], within_s=60)
        eventually(lambda: len(slack.replies) == 1, within_s=60)

        assert len(slack.channel_messages) == 1, "one message, edited"
        assert slack.invalid == []
        delivery = pipeline.store.delivery
        assert delivery is not None
        assert delivery.sinks["hanging"].pending, "the sink gets its alerts when it answers"
