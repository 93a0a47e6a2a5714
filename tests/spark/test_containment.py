"""A fault in one cluster, on a real Spark: the query and the other cluster's alerts go on, also after a restart."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.errors import UsageError
from connectors.observations.observation import Observation, ObservationKind, to_json
from connectors.sinks.jsonl import JsonlSink
from connectors.store.collection import quarantine_of
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import job_database
from rules.evaluate import thresholds_for
from rules.finding import Thresholds
from rules.model.monitoring import Reason, Vantage
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.query import Query
from streaming.pipeline.step import Step
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.status_store import StatusStore
from tests.eventually import eventually
from tests.unit.streaming.replay.log_script import failed, poll, replica

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::ResourceWarning")]

START_MS = 1_800_000_000_000
BOOTSTRAP = ("c1:9093", "c2:9093", "c3:9093")
ALL = thresholds_for({})
BROKEN: Mapping[str, Thresholds] = {rule: numbers for rule, numbers in ALL.items() if rule != "no-leader"}
"""With them no rule can be evaluated."""


class TwoClusters:
    """A journal with rows of `prod`, which is healthy, and of `liar`, on whose rows the step fails."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.checkpoint = Checkpoint(folder=folder / "checkpoint")
        self.alerts_file = folder / "alerts.jsonl"
        self.spark = spark
        self.now_ms = START_MS
        self.query: Query | None = None
        self.store = StatusStore(["prod", "liar"])
        self.writer = JournalWriter(self.checkpoint.journal)
        self.writer.__enter__()

    def start(self, broken: Mapping[str, Thresholds], *, cluster_id: str = "cluster-id") -> None:
        ledger = Ledger(job_database(self.checkpoint.folder))
        dispatcher = Dispatcher(ledger, [JsonlSink(self.alerts_file)], deadline_s=120)
        deliver = Deliver(
            lambda: dispatcher,
            ledger,
            quarantine_of(job_database(self.checkpoint.folder)),
            store=self.store,
            request_poll=lambda *_: None,
        )
        self.query = Query(self.spark, self.checkpoint, deliver)
        thresholds = {"prod": ALL, "liar": broken}
        self.query.start(
            Step(
                {
                    name: ClusterSettings(
                        name=name,
                        cluster_id=cluster_id,
                        bootstrap=BOOTSTRAP,
                        vantage=Vantage.INSIDE,
                        thresholds=numbers,
                    )
                    for name, numbers in thresholds.items()
                }
            )
        )

    def stop(self) -> None:
        if self.query is not None:
            self.query.stop()

    def observe(self, *, leader: bool) -> None:
        healthy = (ObservationKind.QUORUM, to_json(poll(*map(replica, ("1-a", "2-b", "3-c")), hw=90)))
        leaderless = [(ObservationKind.FAILED, to_json(failed(Reason.NO_LEADER, place))) for place in BOOTSTRAP]
        rows = [
            Observation(cluster=cluster, kind=kind, observed_at_ms=self.now_ms, payload=payload)
            for cluster in ("liar", "prod")
            for kind, payload in ([healthy] if leader else leaderless)
        ]
        # Its offset overflows the column of Arrow.
        batch = bytes(61)
        rows.append(
            Observation(
                cluster="liar",
                kind=ObservationKind.RECORDS,
                observed_at_ms=self.now_ms,
                base_offset=2**63 - 1,
                last_offset=2**63 - 1,
                payload=batch,
            )
        )
        self.writer.append(rows)
        self.writer.publish()
        self.now_ms += 1_000

    def alerts(self, cluster: str) -> set[tuple[str, str]]:
        assert self.query is not None
        self.query.wait(1)
        lines = self.alerts_file.read_text().split("\n")[:-1] if self.alerts_file.exists() else []
        found = [json.loads(line) for line in lines]
        return {(alert["rule"], alert["state"]) for alert in found if alert["cluster"] == cluster}


@pytest.fixture
def clusters(spark: SparkSession, tmp_path: Path) -> Iterator[TwoClusters]:
    clusters = TwoClusters(spark, tmp_path)
    yield clusters
    clusters.stop()
    clusters.writer.__exit__(None, None, None)


def test_the_other_cluster_alerts_and_a_restart_goes_on(clusters: TwoClusters) -> None:
    clusters.start(BROKEN)
    for _ in range(4):
        clusters.observe(leader=True)
    for _ in range(8):
        clusters.observe(leader=False)

    def fired() -> None:
        assert clusters.alerts("prod") == {("no-leader", "firing")}
        assert ("data-contract-broken", "firing") in clusters.alerts("liar")

    eventually(fired, within_s=90)
    quarantined = quarantine_of(job_database(clusters.checkpoint.folder)).items()
    assert {fields["cluster"] for fields in quarantined.values()} == {"liar"}

    clusters.stop()
    clusters.start(ALL)
    for _ in range(14):
        clusters.observe(leader=True)

    def resolved() -> None:
        assert ("no-leader", "resolved") in clusters.alerts("prod")
        newest = clusters.store.newest("liar")
        assert newest is not None
        assert newest.status.leader_id == 1, "the cluster has recovered"

    eventually(resolved, within_s=90)


def test_state_of_another_cluster_is_refused_in_one_sentence(clusters: TwoClusters) -> None:
    clusters.start(ALL)
    clusters.observe(leader=True)

    def observed_at_ms() -> int:
        newest = clusters.store.newest("prod")
        assert newest is not None
        return newest.status.observed_at_ms or 0

    first_ms = eventually(observed_at_ms, within_s=90)
    # Spark plans the next batch once the state of this one is committed.
    clusters.observe(leader=True)
    eventually(lambda: observed_at_ms() > first_ms, within_s=90)
    clusters.stop()

    clusters.start(ALL, cluster_id="another-id")
    clusters.observe(leader=True)

    with pytest.raises(UsageError) as refused:
        eventually(lambda: bool(clusters.alerts("prod")), within_s=90)
    assert "cluster-id" in str(refused.value)
    assert "\n" not in str(refused.value)
