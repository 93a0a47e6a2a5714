"""Two relays of one cluster on a real topic: one writes, the other takes over, and nothing is lost or counted twice."""

import signal
from collections.abc import Iterator
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from connectors.relay.relay_message import RelayMessage
from connectors.wall_clock import wall_ms
from deploy.lab.lab import Lab
from tests.eventually import eventually
from tests.job.configured_job import section
from tests.job.relay_process import RelayProcess, counted
from tests.kafka.conftest import MakeLab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

TAKES_OVER_S = 30
"""A relay that no longer writes is replaced within this time."""


@pytest.fixture(scope="module")
def kafka(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=1, brokers=0)


@pytest.fixture(scope="module")
def topic_lab(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=0, combined=1, brokers=0)


class Pair:
    """Two relays of one cluster."""

    def __init__(self, first: RelayProcess, second: RelayProcess) -> None:
        self.first, self.second = first, second

    def writer(self) -> str:
        """Returns the name of the relay that writes."""
        return counted(self.first.messages())[-1].epoch.relay

    def wait_until_written_by(self, relay: RelayProcess, *, rows: int = 5) -> list[RelayMessage]:
        """Waits until the newest rows are those of a relay; returns all."""

        def written() -> list[RelayMessage]:
            messages = counted(self.first.messages())
            assert {one.epoch.relay for one in messages[-rows:]} == {relay.name}
            return messages

        return eventually(written, within_s=90, every_s=1)


@pytest.fixture
def pair(tmp_path: Path, kafka: Lab, topic_lab: Lab, request: pytest.FixtureRequest) -> Iterator[Pair]:
    first, second = (
        RelayProcess(tmp_path / name, topic_lab, topic=request.node.name, clusters=[section("test", kafka)])
        for name in ("first", "second")
    )
    yield Pair(first, second)
    first.stop()
    second.stop()


def start_both(pair: Pair) -> None:
    """Starts the first relay, which writes, and then the second one, which stands by."""
    pair.first.start()
    pair.first.wait_for_rows(5)
    pair.second.start()
    pair.second.wait_until_acknowledged()
    assert pair.writer() == pair.first.name


def epochs(messages: list[RelayMessage]) -> list[str]:
    """Returns the relays in the order in which they wrote."""
    return [relay for relay, _ in groupby(one.epoch.relay for one in messages)]


def longest_pause_ms(messages: list[RelayMessage]) -> int:
    times = [one.observation.observed_at_ms for one in messages]
    return max(after - before for before, after in pairwise(times))


def test_a_killed_relay_is_replaced_without_a_new_baseline(pair: Pair) -> None:
    start_both(pair)

    pair.first.kill()
    killed_ms = wall_ms()
    messages = pair.wait_until_written_by(pair.second)

    taken = next(one for one in messages if one.epoch.relay == pair.second.name)
    assert wall_ms() - killed_ms < TAKES_OVER_S * 1_000 + 5_000
    assert taken.observation.observed_at_ms < killed_ms + 2_000, "the standby has observed what the other one did not"
    assert longest_pause_ms(messages) < 5_000
    assert len({one.baseline for one in messages}) == 1
    counted(messages)


def test_a_stopped_relay_that_continues_writes_nothing_that_counts(pair: Pair) -> None:
    start_both(pair)

    pair.first.send_signal(signal.SIGSTOP)
    pair.wait_until_written_by(pair.second)
    pair.first.send_signal(signal.SIGCONT)
    eventually(lambda: "this one stands by" in pair.first.log, within_s=60)
    messages = pair.wait_until_written_by(pair.second, rows=10)

    assert epochs(messages) == [pair.first.name, pair.second.name]
    assert len({one.baseline for one in messages}) == 1
    counted(messages)


@pytest.mark.long
def test_rows_of_a_cluster_stay_in_their_partition_when_partitions_are_added(
    pair: Pair, topic_lab: Lab, request: pytest.FixtureRequest
) -> None:
    admin = AdminClient({"bootstrap.servers": ",".join(topic_lab.broker_bootstrap), "log_level": 0})
    topic = request.node.name
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    start_both(pair)

    admin.create_partitions([NewPartitions(topic, 7)])[topic].result(60)
    eventually(lambda: "has 7 partitions now" in pair.first.log, within_s=60, every_s=1)
    before = len(pair.first.raw_messages())
    eventually(lambda: len(pair.first.raw_messages()) > before + 10, within_s=60, every_s=1)
    pair.first.kill()
    pair.wait_until_written_by(pair.second)
    pair.second.stop()
    pair.first.start()
    messages = pair.wait_until_written_by(pair.first)

    assert {one.partition() for one in pair.first.raw_messages()} == {0}
    counted(messages)
