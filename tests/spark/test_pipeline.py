"""The pipeline on a real Spark: observations from a journal become alerts in a file, each once and in order."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from pyspark.sql import SparkSession

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.observations.observation import (
    BrokenContract,
    Observation,
    ObservationFailed,
    ObservationKind,
    ObservationsAudited,
    QuorumPolled,
    to_json,
)
from connectors.sinks.jsonl import JsonlSink
from connectors.sinks.sink import Sink
from connectors.sinks.sink_config import SinkSpec, open_sink
from connectors.sinks.webhook import WebhookSection
from connectors.store.collection import quarantine_of
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import job_database
from rules.evaluate import thresholds_for
from rules.model.identifiers import Epoch, NodeId, Offset, ReplicaKey
from rules.model.monitoring import ObservationSource, Reason, Vantage
from rules.model.quorum import Replica
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.query import Query
from streaming.pipeline.step import Step
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.status_store import StatusStore
from tests.eventually import eventually
from tests.sinks.server import HttpDouble, NoReply, serving
from tests.sinks.sink_kind import local_slack
from tests.sinks.slack_double import SlackDouble
from tests.unit.connectors.kafka.certificates import authority

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::ResourceWarning")]

START_MS = 1_800_000_000_000
BOOTSTRAP = ("c1:9093", "c2:9093", "c3:9093")


class Pipeline:
    """A journal that a test writes to, and the query that reads its published rows."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder = folder
        self.checkpoint = Checkpoint(folder=folder / "checkpoint")
        self.spark = spark
        self.now_ms = START_MS
        self.query: Query | None = None
        self.requested_polls: list[tuple[str, int]] = []
        self.store = StatusStore(["prod"])
        self.writer = JournalWriter(self.checkpoint.journal)
        self.writer.__enter__()

    def start(self, *more: Sink) -> None:
        ledger = Ledger(job_database(self.checkpoint.folder))
        # After a shorter deadline a busy machine would send an alert again: the sink would get it twice.
        dispatcher = Dispatcher(ledger, [JsonlSink(self.folder / "alerts.jsonl"), *more], deadline_s=120)
        thresholds = thresholds_for({"data-contract-broken.stands": 10})
        settings = ClusterSettings(
            name="prod", cluster_id="id", bootstrap=BOOTSTRAP, vantage=Vantage.INSIDE, thresholds=thresholds
        )
        quarantine = quarantine_of(job_database(self.checkpoint.folder))
        deliver = Deliver(
            lambda: dispatcher,
            ledger,
            quarantine,
            store=self.store,
            request_poll=lambda cluster, due: self.requested_polls.append((cluster, due)),
        )
        self.query = Query(self.spark, self.checkpoint, deliver)
        self.query.start(Step({"prod": settings}))

    def stop(self) -> None:
        if self.query is not None:
            self.query.stop()
        self.writer.__exit__(None, None, None)

    def observe(
        self,
        kind: ObservationKind,
        *events: ObservationFailed | QuorumPolled | ObservationsAudited | bytes,
        seconds: float = 1,
    ) -> None:
        """Writes rows with the same time, publishes them, and moves the time on by `seconds`."""
        payloads = [event if isinstance(event, bytes) else to_json(event) for event in events]
        rows = [
            Observation(cluster="prod", kind=kind, observed_at_ms=self.now_ms, payload=payload) for payload in payloads
        ]
        self.writer.append(rows)
        self.writer.publish()
        self.now_ms += round(seconds * 1000)

    def alerts(self) -> list[dict[str, object]]:
        assert self.query is not None
        self.query.wait(1)
        path = self.folder / "alerts.jsonl"
        # The last line may be half written.
        return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


@pytest.fixture
def pipeline(spark: SparkSession, tmp_path: Path) -> Iterator[Pipeline]:
    pipeline = Pipeline(spark, tmp_path)
    yield pipeline
    pipeline.stop()


def poll_without_leader(endpoint: str) -> ObservationFailed:
    return ObservationFailed(
        source=ObservationSource.QUORUM, endpoint=endpoint, reason=Reason.NO_LEADER, detail="knows no leader"
    )


def poll_with_leader() -> QuorumPolled:
    key = ReplicaKey(id=NodeId(1), directory_id=None)
    row = Replica(key=key, log_end_offset=Offset(9), last_fetch_ms=None, last_caught_up_ms=None)
    return QuorumPolled(
        cluster_id="id",
        endpoint="c1:9093",
        leader_id=NodeId(1),
        leader_epoch=Epoch(3),
        high_watermark=Offset(9),
        voters=(row,),
        observers=(),
        nodes=(),
    )


def alerts_are(pipeline: Pipeline, *expected: tuple[str, str]) -> Callable[[], None]:
    def check() -> None:
        assert [(line["rule"], line["state"]) for line in pipeline.alerts()] == list(expected)

    return check


def poll_requested(pipeline: Pipeline, due_ms: int) -> Callable[[], None]:
    def check() -> None:
        assert pipeline.alerts() == []
        assert ("prod", due_ms) in pipeline.requested_polls

    return check


def page_history_is(pipeline: Pipeline, *expected: tuple[str, str]) -> Callable[[], None]:
    """Checks the alerts of the page; it gets them after the sinks."""

    def check() -> None:
        delivery = pipeline.store.delivery
        assert delivery is not None
        assert [(alert.rule, alert.state.value) for alert in delivery.history] == list(expected)

    return check


def test_no_leader_fires_after_hold_and_resolves_after_clear(pipeline: Pipeline) -> None:
    pipeline.start()
    for _ in range(3):
        pipeline.observe(ObservationKind.FAILED, *map(poll_without_leader, BOOTSTRAP))
    # The step requests a poll for the end of the hold.
    eventually(poll_requested(pipeline, START_MS + 5_000), within_s=60)
    for _ in range(5):
        pipeline.observe(ObservationKind.FAILED, *map(poll_without_leader, BOOTSTRAP))
    eventually(alerts_are(pipeline, ("no-leader", "firing")), within_s=60)

    for _ in range(14):
        pipeline.observe(ObservationKind.QUORUM, poll_with_leader())
    eventually(alerts_are(pipeline, ("no-leader", "firing"), ("no-leader", "resolved")), within_s=60)

    newest = pipeline.store.newest("prod")
    assert newest is not None
    assert (newest.status.leader_id, newest.status.source) == (1, "live")
    eventually(page_history_is(pipeline, ("no-leader", "firing"), ("no-leader", "resolved")), within_s=60)

    firing, resolved = pipeline.alerts()
    assert firing["severity"] == "critical"
    assert firing["cluster_id"] == "id"
    assert firing["fingerprint"] == resolved["fingerprint"]
    assert firing["started_at"] == resolved["started_at"] == "2027-01-15T08:00:00.000Z"


def test_audit_result_fires_and_resolves(pipeline: Pipeline) -> None:
    broken = BrokenContract(
        contract="offsets-ascend", promise="offsets ascend", grave=True, rows=2, example="row 4", sequence=4
    )
    pipeline.start()
    pipeline.observe(ObservationKind.QUORUM, poll_with_leader())
    pipeline.observe(
        ObservationKind.AUDIT, ObservationsAudited(rows=9, first_sequence=0, last_sequence=8, broken=(broken,))
    )
    eventually(alerts_are(pipeline, ("data-contract-broken", "firing")), within_s=60)

    for _ in range(10):
        pipeline.observe(ObservationKind.QUORUM, poll_with_leader(), seconds=2.5)

    eventually(
        alerts_are(pipeline, ("data-contract-broken", "firing"), ("data-contract-broken", "resolved")), within_s=60
    )
    firing, _ = pipeline.alerts()
    assert (firing["subject"], firing["severity"]) == ("offsets-ascend", "critical")


def sent_states(server: HttpDouble) -> list[str]:
    return [json.loads(request.body)["state"] for request in server.requests]


def test_hanging_sink_delays_neither_other_sinks_nor_the_stream(pipeline: Pipeline, tmp_path: Path) -> None:
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
        for _ in range(8):
            pipeline.observe(ObservationKind.FAILED, *map(poll_without_leader, BOOTSTRAP))

        eventually(alerts_are(pipeline, ("no-leader", "firing")), within_s=60)
        eventually(lambda: sent_states(webhook) == ["firing"], within_s=60)
        eventually(lambda: len(slack.channel_messages) == 1, within_s=60)
        eventually(lambda: hanging.requests != [], within_s=60)
        assert "no-leader" in json.dumps(json.loads(webhook.requests[0].body)["alerts"])

        for _ in range(14):
            pipeline.observe(ObservationKind.QUORUM, poll_with_leader())
        eventually(alerts_are(pipeline, ("no-leader", "firing"), ("no-leader", "resolved")), within_s=60)
        eventually(lambda: sent_states(webhook) == ["firing", "resolved"], within_s=60)
        eventually(lambda: len(slack.replies) == 1, within_s=60)

        assert len(slack.channel_messages) == 1, "one message, edited"
        assert slack.invalid == []
        delivery = pipeline.store.delivery
        assert delivery is not None
        assert delivery.sinks["hanging"].pending, "the sink gets its alerts when it answers"
