"""Several partitions of the state on a real Spark: the same alerts, and another number after a stop changes none."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streaming.job.spark_state import read_states, set_state_aside
from streaming.pipeline.schema import GROUPS, group_of
from tests.spark.pipeline_run import PipelineRun

pytestmark = [
    pytest.mark.spark,
    pytest.mark.live,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

CLUSTERS = [f"c{number}" for number in range(8)]
PARTITIONS = "spark.sql.shuffle.partitions"


class Fleet(PipelineRun):
    """Eight clusters in one journal; every second one loses its leader."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(spark, folder, CLUSTERS)

    def start_with(self, partitions: int) -> None:
        self.spark.conf.set(PARTITIONS, str(partitions))
        if (why := self.checkpoint.why_no_state(partitions)) is not None:
            assert "It is built again from the journal;" in set_state_aside(self.checkpoint, why)
        self.start()

    def close(self) -> None:
        super().close()
        self.spark.conf.set(PARTITIONS, "1")

    def seconds(self, count: int, *, leaders: bool) -> None:
        """Writes one poll of each cluster a second; without `leaders` every second cluster has none."""
        for _ in range(count):
            (self.have_a_leader if leaders else self.lose_the_leader)(*CLUSTERS[::2], seconds=0)
            self.have_a_leader(*CLUSTERS[1::2])

    def sent(self) -> list[tuple[str, ...]]:
        keys = ("cluster", "rule", "state", "started_at", "observed_at")
        return sorted(tuple(one[key] for key in keys) for name in CLUSTERS for one in self.alerts(name))


@pytest.fixture
def fleet(spark: SparkSession, tmp_path: Path) -> Iterator[Fleet]:
    created = Fleet(spark, tmp_path)
    yield created
    created.close()


def outage(fleet: Fleet, *, first: int, then: int) -> list[tuple[str, ...]]:
    """Half of the clusters lose their leader and get one again; between the two, the number of partitions changes."""
    fleet.start_with(first)
    fleet.seconds(3, leaders=True)
    fleet.wait_until_committed()
    fleet.seconds(40, leaders=False)
    fleet.wait_until_committed()
    fleet.stop()
    fleet.start_with(then)
    fleet.seconds(60, leaders=True)
    fleet.wait_until_committed()
    fleet.stop()
    return fleet.sent()


def expected() -> set[tuple[str, str, str]]:
    return {(cluster, "no-leader", state) for cluster in CLUSTERS[::2] for state in ("firing", "resolved")}


@pytest.mark.long
def test_alerts_are_the_same_with_one_and_four_partitions_and_after_each_change(
    spark: SparkSession, tmp_path: Path
) -> None:
    runs = {"one": (1, 1), "four": (4, 4), "more": (1, 4)}
    alerts = {}
    for name, (first, then) in runs.items():
        fleet = Fleet(spark, tmp_path / name)
        try:
            alerts[name] = outage(fleet, first=first, then=then)
        finally:
            fleet.close()
    assert {one[:3] for one in alerts["one"]} >= expected()
    for name, found in alerts.items():
        assert found == alerts["one"], name


@pytest.mark.parametrize("partitions", [2, 4, 64])
def test_groups_of_clusters_are_spread_evenly(spark: SparkSession, partitions: int) -> None:
    numbers = {group_of(f"cluster-{number}") for number in range(2_000)}
    assert len(numbers) == GROUPS
    frame = spark.createDataFrame([(number,) for number in numbers], schema="group int")
    spread = frame.repartition(partitions, "group").groupBy(F.spark_partition_id()).count().collect()
    assert [row[1] for row in spread] == [GROUPS // partitions] * partitions


def test_a_state_of_another_number_of_partitions_is_set_aside_and_built_again(fleet: Fleet) -> None:
    fleet.start_with(1)
    fleet.seconds(2, leaders=True)
    fleet.wait_until_committed()
    fleet.stop()
    assert fleet.checkpoint.why_no_state(1) is None
    assert fleet.checkpoint.why_no_state(4) == "its state has 1 partition, and pipeline.partitions is 4"
    before = read_states(fleet.spark, fleet.checkpoint.location)

    fleet.start_with(4)

    fleet.seconds(2, leaders=True)
    fleet.wait_until_committed()
    assert read_states(fleet.spark, str(fleet.checkpoint.folder / "spark.before-1")) == before
    assert fleet.checkpoint.spark_files.partitions == 4
