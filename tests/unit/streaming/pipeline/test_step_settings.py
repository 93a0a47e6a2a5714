"""The step's settings are pickled for every task: those of a thousand clusters must be small."""

import pickle

from rules.evaluate import thresholds_for
from rules.model.monitoring import Vantage
from streaming.pipeline.step import Step
from streaming.replay.cluster_settings import ClusterSettings


def settings(number: int) -> ClusterSettings:
    return ClusterSettings(
        name=f"cluster-{number}",
        cluster_id=f"id-{number}",
        bootstrap=tuple(f"controller-{node}.cluster-{number}.example:9093" for node in (1, 2, 3)),
        vantage=Vantage.INSIDE,
        thresholds=thresholds_for({"no-leader.hold": number % 2}),
    )


def test_settings_of_many_clusters_are_small_and_complete() -> None:
    clusters = {f"cluster-{number}": settings(number) for number in range(1_000)}

    pickled = pickle.dumps(Step(clusters))

    assert len(pickled) < 500 * len(clusters)
    assert pickle.loads(pickled)._clusters == clusters
