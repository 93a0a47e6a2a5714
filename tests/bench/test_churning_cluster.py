"""The churn of a day is what the job reads from a real cluster."""

from collections import Counter

from connectors.observations.observation import ObservationKind, event_type
from connectors.observations.partition_run import each_event
from rules.evaluate import thresholds_for
from rules.model.identifiers import Millis
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.decoded_row import DecodedRow, decode_observation
from tests.bench.churning_cluster import ChurningCluster

FROM_MS = 1_795_000_000_000
SECONDS = 1_200


def test_churn_is_decoded_and_applied_without_a_refused_row() -> None:
    cluster = ChurningCluster("amber", seed=1, now_ms=FROM_MS)
    settings = ClusterSettings(
        name="amber", cluster_id="amber-id", bootstrap=cluster.bootstrap, thresholds=thresholds_for({})
    )
    monitor = ClusterMonitor(settings, evaluates_from_ms=None)
    rows = [row for _ in range(SECONDS) for row in cluster.advance()]
    kinds: Counter[str] = Counter()
    for number, row in enumerate(rows):
        events = tuple(decode_observation(row).events())
        kinds.update(map(event_type, each_event(events)))
        outcome = monitor.apply([DecodedRow(number, Millis(row.observed_at_ms), events)])
        assert (outcome.failed, outcome.undecodable) == ((), ())

    assert {row.kind for row in rows} >= {ObservationKind.RECORDS, ObservationKind.QUORUM, ObservationKind.VIEW}
    assert kinds["topic-created"] > kinds["broker-registered"] > 0
    assert kinds["undecodable"] == 0
    quorum = monitor.evaluation()
    assert [each.rule for each in quorum.findings if "invariant" in each.rule or "contract" in each.rule] == []
