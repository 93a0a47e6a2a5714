"""`safe-to-restart` of brokers in each Kafka version, in static and dynamic quorums: what it says, tried."""

import json
from pathlib import Path
from typing import Any

import pytest

from deploy.lab import LabError
from tests.cli.program import kraftwatch
from tests.kafka.conftest import MakeLab
from tests.kafka.version_table import DYNAMIC_KAFKAS, STATIC_KAFKAS

pytestmark = [pytest.mark.lab, pytest.mark.long]


def asked(config: Path, node: int, *options: str) -> dict[str, Any]:
    ended = kraftwatch("safe-to-restart", node, "--json", "--config", config, *options)
    assert ended.stdout, f"{ended.output} {ended.exception}"
    answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return answer


def reasons(answer: dict[str, Any]) -> set[str]:
    return {reason["name"] for reason in answer["reasons"]}


@pytest.mark.parametrize(
    ("kafka", "static"),
    [*((kafka, True) for kafka in STATIC_KAFKAS), *((kafka, False) for kafka in DYNAMIC_KAFKAS)],
)
def test_what_is_said_of_a_broker_is_what_its_producers_see(
    kafka: str, static: bool, lab: MakeLab, tmp_path: Path
) -> None:
    quorum = lab(controllers=1, brokers=2, version=kafka, static=static)
    first, second = quorum.brokers
    quorum.create_topic("orders", partitions=2, replication=2, configs={"min.insync.replicas": "1"})
    config = tmp_path / "kraftwatch.yaml"
    cluster = {"name": "lab", "cluster_id": quorum.cluster_id, "bootstrap": quorum.bootstrap}
    config.write_text(json.dumps({"clusters": [cluster]}))

    safe = asked(config, first, "--wait", "1m")
    assert (safe["safe"], safe["roles"]) == (True, ["broker"]), safe["unknown"]
    quorum.stop(first)
    quorum.produce("orders", 12)
    last = asked(config, second)
    quorum.start(first)
    back = asked(config, first, "--after", "--wait", "2m")
    quorum.create_topic("payments", partitions=2, replication=2, configs={"min.insync.replicas": "2"})
    below = asked(config, first, "--wait", "5s")
    left_out = asked(config, first, "--despite", "below-min-isr", "--wait", "1m")
    quorum.stop(first)

    assert (last["safe"], reasons(last)) == (False, {"last-replica"}), last
    assert f"broker {first} is back and in sync" in last["reasons"][0]["until"]
    assert back["back"], back
    assert (below["safe"], reasons(below)) == (False, {"below-min-isr"}), below
    assert left_out["safe"], left_out
    quorum.produce("orders", 12)
    with pytest.raises(LabError):
        quorum.produce("payments", 12)
