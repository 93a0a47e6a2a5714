"""Several partitions of the state on a real Spark: the same alerts, and another number after a stop changes none."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from connectors.errors import UsageError
from streaming.job.checkpoint_repair import read_states
from streaming.job.checkpoint_repartition import partitions_to_change, repartition
from streaming.pipeline.schema import GROUPS, group_of, unpack_states
from tests.spark.pipeline_run import PipelineRun

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::ResourceWarning")]

CLUSTERS = [f"c{number}" for number in range(8)]
PARTITIONS = "spark.sql.shuffle.partitions"


class Fleet(PipelineRun):
    """Eight clusters in one journal; every second one loses its leader."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(spark, folder, CLUSTERS)

    def start_with(self, partitions: int) -> None:
        self.spark.conf.set(PARTITIONS, str(partitions))
        self.checkpoint.check_partitions(partitions)
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


def outage(fleet: Fleet, *, first: int, then: int, interrupted: bool = False) -> list[tuple[str, ...]]:
    """Half of the clusters lose their leader and get one again; between the two, the number of partitions changes."""
    fleet.start_with(first)
    fleet.seconds(3, leaders=True)
    fleet.wait_until_committed()
    fleet.seconds(40, leaders=False)
    fleet.wait_until_committed()
    fleet.stop()
    if then != first:
        if interrupted:
            # Killed while the last batch was running: it is planned, and not committed.
            newest = fleet.checkpoint.spark_files.commits[-1]
            (fleet.checkpoint.spark / "commits" / str(newest)).unlink()
        assert partitions_to_change(fleet.checkpoint, then) == first
        repartition(fleet.checkpoint, fleet.spark, then)
        assert partitions_to_change(fleet.checkpoint, then) is None
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
    runs = {"one": (1, 1, False), "four": (4, 4, False), "more": (1, 4, True), "fewer": (4, 1, False)}
    alerts = {}
    for name, (first, then, interrupted) in runs.items():
        fleet = Fleet(spark, tmp_path / name)
        try:
            alerts[name] = outage(fleet, first=first, then=then, interrupted=interrupted)
        finally:
            fleet.close()
    assert {one[:3] for one in alerts["one"]} >= expected()
    for name, found in alerts.items():
        assert found == alerts["one"], name


def test_the_command_starts_its_own_spark(fleet: Fleet) -> None:
    fleet.start_with(1)
    fleet.seconds(2, leaders=True)
    fleet.wait_until_committed()
    fleet.stop()
    before = read_states(fleet.spark, fleet.checkpoint.spark)
    command = [
        *(sys.executable, "-m", "streaming", "checkpoint", "repartition"),
        *("--checkpoint", str(fleet.checkpoint.folder), "--partitions", "4"),
    ]
    for said in ("the state has 4 partitions instead of 1", "the state has 4 partitions already"):
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert ended.returncode == 0, ended.stderr
        assert said in ended.stderr
    assert read_states(fleet.spark, fleet.checkpoint.spark) == before


def test_clusters_are_spread_over_the_partitions(fleet: Fleet) -> None:
    fleet.start_with(4)
    fleet.seconds(2, leaders=True)
    fleet.wait_until_committed()
    fleet.stop()
    assert fleet.checkpoint.spark_files.partitions == 4
    assert not fleet.checkpoint.spark_files.damaged()
    rows = fleet.spark.read.format("statestore").option("path", str(fleet.checkpoint.spark)).load().collect()
    assert {row.key.group for row in rows} == {group_of(cluster) for cluster in CLUSTERS}
    assert {cluster for row in rows for cluster in unpack_states(row.value.groupState.state)} == set(CLUSTERS)
    assert len({row.partition_id for row in rows}) > 1


@pytest.mark.parametrize("partitions", [2, 4, 64])
def test_groups_of_clusters_are_spread_evenly(spark: SparkSession, partitions: int) -> None:
    numbers = {group_of(f"cluster-{number}") for number in range(2_000)}
    assert len(numbers) == GROUPS
    frame = spark.createDataFrame([(number,) for number in numbers], schema="group int")
    spread = frame.repartition(partitions, "group").groupBy(F.spark_partition_id()).count().collect()
    assert [row[1] for row in spread] == [GROUPS // partitions] * partitions


def test_another_number_is_refused_with_the_command_and_an_interrupted_change_is_completed(fleet: Fleet) -> None:
    fleet.start_with(1)
    fleet.seconds(2, leaders=True)
    fleet.wait_until_committed()
    fleet.stop()
    with pytest.raises(UsageError, match=r"pipeline.partitions is 4, .* has 1: run `kraftwatch checkpoint repartition"):
        fleet.checkpoint.check_partitions(4)
    before = read_states(fleet.spark, fleet.checkpoint.spark)
    repartition(fleet.checkpoint, fleet.spark, 4)
    # Interrupted after the new state was written, and before it was committed, and in one partition not even that.
    (fleet.checkpoint.spark / "commits" / str(fleet.checkpoint.spark_files.commits[-1])).unlink()
    for number in (1, 4):
        with pytest.raises(UsageError, match=r"the change from 1 to 4 partitions was interrupted: run .* 4` again"):
            fleet.checkpoint.check_partitions(number)
    shutil.rmtree(fleet.checkpoint.spark / "state" / "0" / "2")
    assert partitions_to_change(fleet.checkpoint, 4) == 1
    repartition(fleet.checkpoint, fleet.spark, 4)
    fleet.checkpoint.check_partitions(4)
    assert read_states(fleet.spark, fleet.checkpoint.spark) == before
    fleet.start_with(4)
    fleet.seconds(2, leaders=True)
    fleet.wait_until_committed()
