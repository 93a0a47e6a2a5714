"""The pipeline on a real Spark: observations from a journal become alerts in a file, once, in order."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.event import to_json
from connectors.journal.writer import JournalWriter
from connectors.observation import Observation, ObservationKind
from connectors.observation_event import BrokenContract, ObservationFailed, ObservationsAudited, QuorumPolled
from connectors.secret import Secret
from connectors.sinks.jsonl import JsonlSink
from connectors.sinks.sink import Sink
from connectors.sinks.sink_config import SinkSpec, SlackBot, Webhook
from connectors.sinks.sink_factory import open_sink
from rules.evaluate import thresholds_for
from rules.model.identifiers import Epoch, NodeId, Offset, ReplicaKey
from rules.model.monitoring import ObservationSource, Reason, Vantage
from rules.model.poll import Replica
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.deliver import Deliver, Quarantine
from streaming.pipeline.query import Query
from streaming.pipeline.step import ClusterSettings, Step
from streaming.status.status_store import StatusStore
from tests.eventually import eventually
from tests.sinks.server import HttpDouble, NoReply, serving
from tests.sinks.slack_double import SlackDouble
from tests.unit.connectors.kafka.certificates import authority

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::ResourceWarning")]

START_MS = 1_800_000_000_000
BOOTSTRAP = ("c1:9093", "c2:9093", "c3:9093")


class Pipeline:
    """A recorder that a test writes to, and the query that reads what it publishes."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder = folder
        self.checkpoint = Checkpoint(folder=folder / "checkpoint")
        self.spark = spark
        self.now_ms = START_MS
        self.query: Query | None = None
        self.expected: list[tuple[str, int]] = []
        self.store = StatusStore(["prod"])
        self.recorder = JournalWriter(self.checkpoint.journal)
        self.recorder.__enter__()

    def go(self, *more: Sink) -> None:
        ledger = Ledger(self.checkpoint.ledger)
        # A place that a busy machine keeps waiting would be told again, and have it twice.
        delivery = Dispatcher(ledger, [JsonlSink(self.folder / "alerts.jsonl"), *more], deadline_s=120)
        thresholds = thresholds_for({"data-contract-broken.stands": 10})
        settings = ClusterSettings(cluster_id="id", bootstrap=BOOTSTRAP, vantage=Vantage.INSIDE, thresholds=thresholds)
        quarantine = Quarantine(self.checkpoint.quarantine)
        deliver = Deliver(
            delivery,
            quarantine,
            store=self.store,
            request_poll=lambda cluster, due: self.expected.append((cluster, due)),
            history=ledger.history,
        )
        self.query = Query(self.spark, self.checkpoint, deliver)
        self.query.start(Step({"prod": settings}))

    def stop(self) -> None:
        if self.query is not None:
            self.query.stop()
        self.recorder.__exit__(None, None, None)

    def observe(
        self,
        kind: ObservationKind,
        *events: ObservationFailed | QuorumPolled | ObservationsAudited | bytes,
        seconds: float = 1,
    ) -> None:
        """Record these at one moment, publish, and let time pass."""
        payloads = [event if isinstance(event, bytes) else to_json(event) for event in events]
        rows = [
            Observation(cluster="prod", kind=kind, observed_at_ms=self.now_ms, payload=payload) for payload in payloads
        ]
        self.recorder.append(rows)
        self.recorder.publish()
        self.now_ms += round(seconds * 1000)

    def told(self) -> list[dict[str, object]]:
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


def leaderless(endpoint: str) -> ObservationFailed:
    return ObservationFailed(
        source=ObservationSource.QUORUM, endpoint=endpoint, reason=Reason.NO_LEADER, detail="knows no leader"
    )


def led() -> QuorumPolled:
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


def told_is(pipeline: Pipeline, *expected: tuple[str, str]) -> Callable[[], None]:
    def check() -> None:
        assert [(line["rule"], line["state"]) for line in pipeline.told()] == list(expected)

    return check


def expected(pipeline: Pipeline, due_ms: int) -> Callable[[], None]:
    def check() -> None:
        assert pipeline.told() == []
        assert ("prod", due_ms) in pipeline.expected

    return check


def shown_is(pipeline: Pipeline, *expected: tuple[str, str]) -> Callable[[], None]:
    """What the page knows: it is told when the sinks were."""

    def check() -> None:
        told = pipeline.store.delivery
        assert told is not None
        assert [(alert.rule, alert.state.value) for alert in told.history] == list(expected)

    return check


def test_no_leader_is_told_after_its_hold_and_resolved_after_its_clear(pipeline: Pipeline) -> None:
    pipeline.go()
    for _ in range(3):
        pipeline.observe(ObservationKind.FAILED, *map(leaderless, BOOTSTRAP))
    # An observation is asked for when the hold ends.
    eventually(expected(pipeline, START_MS + 5_000), within_s=60)
    for _ in range(5):
        pipeline.observe(ObservationKind.FAILED, *map(leaderless, BOOTSTRAP))
    eventually(told_is(pipeline, ("no-leader", "firing")), within_s=60)

    for _ in range(14):
        pipeline.observe(ObservationKind.QUORUM, led())
    eventually(told_is(pipeline, ("no-leader", "firing"), ("no-leader", "resolved")), within_s=60)

    newest = pipeline.store.newest("prod")
    assert newest is not None
    assert (newest.status.leader_id, newest.status.source) == (1, "live")
    eventually(shown_is(pipeline, ("no-leader", "firing"), ("no-leader", "resolved")), within_s=60)

    firing, resolved = pipeline.told()
    assert firing["severity"] == "critical"
    assert firing["cluster_id"] == "id"
    assert firing["fingerprint"] == resolved["fingerprint"]
    assert firing["started_at"] == resolved["started_at"] == "2027-01-15T08:00:00.000Z"


def test_a_query_that_starts_again_tells_nothing_twice_and_forgets_nothing(
    spark: SparkSession, pipeline: Pipeline
) -> None:
    pipeline.go()
    for _ in range(8):
        pipeline.observe(ObservationKind.FAILED, *map(leaderless, BOOTSTRAP))
    eventually(told_is(pipeline, ("no-leader", "firing")), within_s=60)
    assert pipeline.query is not None
    pipeline.query.stop()

    for _ in range(14):
        pipeline.observe(ObservationKind.QUORUM, led())
    pipeline.go()

    eventually(told_is(pipeline, ("no-leader", "firing"), ("no-leader", "resolved")), within_s=60)


def test_what_does_not_decode_goes_to_quarantine_is_told_and_the_stream_goes_on(pipeline: Pipeline) -> None:
    pipeline.go()
    pipeline.observe(ObservationKind.QUORUM, b"{")
    for _ in range(8):
        pipeline.observe(ObservationKind.FAILED, *map(leaderless, BOOTSTRAP))

    eventually(told_is(pipeline, ("data-contract-broken", "firing"), ("no-leader", "firing")), within_s=60)

    (bad,) = pipeline.checkpoint.quarantine.iterdir()
    said = json.loads(bad.read_text())
    assert bad.name == "prod-0-0.json"
    assert said["length"] == 1
    assert "a quorum row is no event" in said["reason"]


def test_what_an_audit_finds_is_told_and_resolves_in_time(pipeline: Pipeline) -> None:
    found = BrokenContract(
        contract="offsets-ascend", promise="the log goes on", grave=True, rows=2, example="row 4", sequence=4
    )
    pipeline.go()
    pipeline.observe(ObservationKind.QUORUM, led())
    pipeline.observe(
        ObservationKind.AUDIT, ObservationsAudited(rows=9, first_sequence=0, last_sequence=8, broken=(found,))
    )
    eventually(told_is(pipeline, ("data-contract-broken", "firing")), within_s=60)

    for _ in range(10):
        pipeline.observe(ObservationKind.QUORUM, led(), seconds=2.5)

    eventually(told_is(pipeline, ("data-contract-broken", "firing"), ("data-contract-broken", "resolved")), within_s=60)
    firing, _ = pipeline.told()
    assert (firing["subject"], firing["severity"]) == ("offsets-ascend", "critical")


def states(server: HttpDouble) -> list[str]:
    return [json.loads(request.body)["state"] for request in server.requests]


def test_two_places_are_told_and_the_stream_goes_on_while_a_third_takes_the_connection_and_hangs(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    trusted = authority(tmp_path / "ca")
    slack = SlackDouble(token="xoxb-1")
    with serving() as hooked, serving() as hanging, serving(trusted.server(trusted.issue("server"))) as api:
        api.behave = slack.reply
        hanging.behave = lambda _: NoReply()
        channel = SlackBot(
            channel="#kafka", token=Secret(text="xoxb-1"), api_url=f"{api.url}/api/", ca_file=Path(trusted.file)
        )
        wanted = [
            SinkSpec(config=Webhook(url=Secret(text=hooked.url)), name="hooked"),
            SinkSpec(config=Webhook(url=Secret(text=hanging.url)), name="hanging"),
            SinkSpec(config=channel),
        ]
        pipeline.go(*(open_sink(one, state_folder=tmp_path) for one in wanted))
        for _ in range(8):
            pipeline.observe(ObservationKind.FAILED, *map(leaderless, BOOTSTRAP))

        eventually(told_is(pipeline, ("no-leader", "firing")), within_s=60)
        eventually(lambda: states(hooked) == ["firing"], within_s=60)
        eventually(lambda: len(slack.channel_messages) == 1, within_s=60)
        eventually(lambda: hanging.requests != [], within_s=60)
        assert "no-leader" in json.dumps(json.loads(hooked.requests[0].body)["alerts"])

        for _ in range(14):
            pipeline.observe(ObservationKind.QUORUM, led())
        eventually(told_is(pipeline, ("no-leader", "firing"), ("no-leader", "resolved")), within_s=60)
        eventually(lambda: states(hooked) == ["firing", "resolved"], within_s=60)
        eventually(lambda: len(slack.replies) == 1, within_s=60)

        assert len(slack.channel_messages) == 1, "one message, edited"
        assert slack.invalid == []
        told = pipeline.store.delivery
        assert told is not None
        assert told.sinks["hanging"].pending, "it is told when it answers"
