"""A query of a cluster that answers over the wire."""

from collections.abc import Sequence

from connectors.kafka.cluster_connection import ClusterConnection
from rules.model.identifiers import Millis
from streaming.query.live import query_clusters
from streaming.query.query_target import QueryTarget
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.cluster_status import ClusterState
from tests.farm.farm import address
from tests.farm.farm_answers import NODES
from tests.farm.farm_process import running_farm
from tests.present import present

ASKED = 4


def test_each_answer_of_a_query_is_of_then_where_only_time_passes() -> None:
    polled_ms = list[Millis]()

    def asked_again(states: Sequence[ClusterState]) -> bool:
        polled_ms.extend(present(state.quorum.poll).observed_at_ms for state in states)
        return len(polled_ms) < ASKED

    with running_farm(1) as farm:
        controllers = [(address(0, node), farm.port) for node in NODES]
        cluster = ClusterConnection(name="a", bootstrap=tuple(controllers))
        settings = ClusterSettings(name="a", bootstrap=tuple(f"{host}:{port}" for host, port in controllers))
        query_clusters([QueryTarget(cluster=cluster, settings=lambda: settings)], timeout_s=20, each=asked_again)

    assert sorted({*polled_ms}) == polled_ms, "a newer poll each second"
