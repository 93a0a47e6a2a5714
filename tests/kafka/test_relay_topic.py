"""The relay on a real quorum and a real topic: nothing is left out, whatever happens to the brokers or the relay."""

import json
import os
import signal
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import NewPartitions, NewTopic

from connectors.errors import UsageError
from connectors.kafka.cluster_id_lookup import identify
from connectors.observations.observation import Observation, ObservationKind
from connectors.process.signals import SignalFlag
from connectors.process.wall_clock import wall_ms
from connectors.relay import topic_client
from connectors.relay.forwarder import Forwarder
from connectors.relay.relay_message import Baseline, RelayMessage, SurveyedCluster
from connectors.relay.topic_survey import survey_topic
from connectors.settings.sections import TopicSection
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from deploy.lab.addresses import Ports
from rules.formatting import iso
from rules.model.identifiers import Millis
from streaming.config import checked
from streaming.doctor.topic_checks import check_topics
from streaming.job.relay_job import Relay
from streaming.pipeline.checkpoint import Checkpoint
from tests.cli.program import kraftwatch
from tests.eventually import eventually
from tests.job.configured_job import section
from tests.job.relay_process import RelayProcess, counted, is_accepted
from tests.kafka.conftest import MakeLab
from tests.kafka.gatherer_run import cluster_of
from tests.lab import Lab
from tests.sinks.server import HttpDouble, serving
from tests.unit.streaming.metrics.exposition import samples
from tests.unit.streaming.metrics.otlp_metrics import as_samples, metrics, received

pytestmark = [pytest.mark.lab, pytest.mark.live, pytest.mark.timeout(900)]
SURVEYED = 400


@pytest.fixture(scope="module")
def kafka(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=1, brokers=0)


@pytest.fixture(scope="module")
def topic_lab(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=0, combined=1, brokers=0)


@pytest.fixture
def relay(tmp_path: Path, kafka: Lab, topic_lab: Lab, request: pytest.FixtureRequest) -> Iterator[RelayProcess]:
    relay = RelayProcess(tmp_path, topic_lab, topic=request.node.name, clusters=[section("test", kafka)])
    yield relay
    relay.stop()


@pytest.fixture
def receiver() -> Iterator[HttpDouble]:
    """A receiver of OTLP."""
    with serving() as receiver:
        yield receiver


def test_rows_of_a_broker_outage_and_of_a_killed_relay_are_written_later(
    relay: RelayProcess, topic_lab: Lab, receiver: HttpDouble
) -> None:
    ports = Ports()
    address = f"127.0.0.1:{ports.claim()}"
    relay.keys = {"otlp": {"url": f"{receiver.url}/v1/metrics", "every": 1}}
    relay.start("--listen", address)
    relay.wait_for_rows(5)
    (node,) = topic_lab.brokers
    stopped_ms = wall_ms()
    topic_lab.stop(node)

    def failing() -> None:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as page:
            found = samples(page.read().decode())
        assert found[("relay_failing", ())] == 1
        # Some of them were observed before the broker stopped.
        assert found[("relay_waiting_rows", ())] > 12

    eventually(failing, within_s=60, every_s=1)
    failed_ms = wall_ms()
    eventually(lambda: as_samples(metrics(received(receiver)[-1]))[("relay_failing", ())] == 1, within_s=60)
    assert relay.log.count("no row can be written to the topic") == 1
    relay.kill()
    relay.start()
    topic_lab.start(node)
    before = len(relay.raw_messages())

    eventually(lambda: len(relay.raw_messages()) > before + 20, within_s=90, every_s=1)
    assert relay.stop() == 0
    messages = counted(relay.messages())
    assert len({one.baseline for one in messages}) == 1
    polled = [one for one in messages if stopped_ms < one.observation.observed_at_ms < failed_ms]
    assert len(polled) > 5, "what was observed meanwhile is written"


@pytest.mark.long
def test_a_topic_that_is_created_again_gets_the_whole_log(
    relay: RelayProcess, topic_lab: Lab, request: pytest.FixtureRequest
) -> None:
    name, admin = request.node.name, topic_lab.admin
    topic_lab.create_topic(name, partitions=9)
    relay.start()
    relay.wait_for_rows(20)
    assert all(one.partition() > 0 for one in relay.raw_messages()), "the partition will not exist any more"
    admin.delete_topics([name])[name].result(60)
    eventually(lambda: create_again(admin, name), within_s=60, every_s=0.1)

    def has_the_log() -> None:
        rows = [one.observation for one in relay.messages()]
        assert 0 in {row.base_offset for row in rows if row.kind is ObservationKind.RECORDS}

    eventually(has_the_log, within_s=90, every_s=1)


def create_again(admin: Any, name: str) -> bool:
    """Returns whether the topic has one partition; the relay may have created it with another number."""
    with suppress(KafkaException):
        admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])[name].result(60)
        return True
    return False


@pytest.mark.long
def test_sighup_writes_a_new_baseline_and_past_states_are_read_from_the_topic_on_any_machine(
    relay: RelayProcess, kafka: Lab, tmp_path: Path
) -> None:
    """The relay's own journal has the same rows: both give the same answers."""
    relay.start()
    relay.wait_for_rows(12)
    at = iso(wall_ms())
    relay.send_signal(signal.SIGHUP)
    eventually(lambda: len({one.baseline for one in relay.messages()}) == 2, within_s=60, every_s=1)
    relay.wait_for_rows(len(relay.raw_messages()) + 12)
    relay.stop()
    job = {"clusters": [section("test", kafka)], "source": "kafka", "relay": {**relay.section, "folder": "/nowhere"}}
    config, journal = tmp_path / "job.yaml", ["--journal", relay.section["folder"]]
    config.write_text(yaml.safe_dump({**job, "work_dir": str(tmp_path / "none"), "checkpoint": "s3a://none/none"}))

    def both(*arguments: str) -> list[dict[str, Any]]:
        from_topic, from_journal = (printed(*arguments, *place) for place in (["--config", str(config)], journal))
        assert from_topic == from_journal != []
        return from_topic

    (past,) = both("status", "--at", at, "--json")
    assert (past["leader_id"], past["missing"]) == (kafka.controllers[0], [])
    (newest,) = both("status", "--at", iso(Millis(newest_ms(relay))), "--json")
    assert newest["high_watermark"] > past["high_watermark"]
    assert {one["kind"] for one in both("timeline", "--json")} >= {"election", "controller-start"}
    assert printed("replay", "--json", "--config", str(config), "--from", at) == []
    assert printed("data", "audit", "--json", "--config", str(config))[0]["kept"]
    (audited,) = printed("data", "audit", "--json", "--config", str(config), "--newest", "9")
    assert (audited["kept"], audited["rows"]["observations"]) == (True, 9)
    (tmp_path / "report").mkdir()
    report = kraftwatch("report", "--config", str(config), "--output", str(tmp_path / "report" / "a.html"))
    assert report.exit_code == 0, report.output
    refused = kraftwatch("status", "--at", "2026-01-01", "--config", str(config))
    assert isinstance(refused.exception, UsageError), refused.output
    assert "the topic of cluster test begins with" in str(refused.exception)
    assert_read_again_and_surveyed(relay, kafka)


def assert_read_again_and_surveyed(relay: RelayProcess, kafka: Lab) -> None:
    """Asserts that the newest baseline has the whole log, and that forged rows do not change what a survey finds."""
    messages = relay.messages()
    counted(messages)
    newest = max((one.baseline for one in messages), key=lambda one: one.sequence)
    again = [one.observation for one in messages if one.baseline == newest]
    assert min(again, key=lambda row: row.sequence).sequence == newest.sequence
    assert {row.base_offset for row in again if row.kind is ObservationKind.RECORDS} >= {0}
    surveyed = assert_surveyed(relay, kafka)
    assert surveyed.newest_baseline == newest.sequence
    beyond = replace(messages[-1], observation=replace(messages[-1].observation, sequence=(1 << 62) + 1))
    relay.write(
        replace(messages[-1], cluster_id="another"),
        replace(beyond, baseline=Baseline(sequence=1 << 62, at_ms=newest.at_ms)),
        # Nothing but its number shows that this one is forged.
        replace(messages[-1], baseline=Baseline(sequence=messages[-1].observation.sequence, at_ms=newest.at_ms)),
    )
    after = assert_surveyed(relay, kafka)
    assert (after.baseline, after.whole) == (surveyed.baseline, True), "most of the rows count"


def test_survey_of_hundreds_of_clusters_takes_seconds_and_reports_its_progress(
    topic_lab: Lab, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer of the brokers about one cluster must not wait for the end of a fetch."""
    name, now_ms = request.node.name, wall_ms()
    topic_lab.create_topic(name, partitions=4)
    writer = RelayProcess(Path(), topic_lab, topic=name, clusters=[])
    clusters = {f"cluster-{number}": "an-id" for number in range(SURVEYED)}
    for baseline_ms in (now_ms - 60_000, now_ms):
        # Each cluster has begun at another time.
        writer.write(*(first_row(name, baseline_ms + 97 * at) for at, name in enumerate(clusters)))
    monkeypatch.setattr(topic_client, "_SAY_EVERY_S", 0.05)
    printed: list[str] = []
    topic = TopicSection(bootstrap=tuple(topic_lab.broker_bootstrap), topic=name)

    began = time.monotonic()
    survey = survey_topic(topic, clusters, within_s=15, say=printed.append)
    took_s = time.monotonic() - began

    assert survey.clusters.keys() == clusters.keys()
    assert took_s < SURVEYED / 50, f"{SURVEYED} clusters: {took_s:.1f} s"
    assert f"reading the topic {name}: " in printed[0]
    assert f"of {SURVEYED} clusters" in printed[-1]


def first_row(cluster: str, at_ms: int) -> RelayMessage:
    """Returns a message of a cluster whose baseline begins at this time."""
    row = Observation(
        cluster=cluster,
        kind=ObservationKind.RECORDS,
        observed_at_ms=wall_ms(),
        base_offset=5,
        last_offset=4,
        leader_epoch=3,
        high_watermark=None,
        payload=b"",
        sequence=1_000 * at_ms,
    )
    return RelayMessage(
        observation=row,
        cluster_id="an-id",
        baseline=Baseline(sequence=1_000 * at_ms, at_ms=at_ms),
        relay="host-1",
    )


def newest_ms(relay: RelayProcess) -> int:
    return max(one.observation.observed_at_ms for one in relay.messages())


def printed(*arguments: str) -> list[dict[str, Any]]:
    """Returns the lines of JSON that a verb prints, without the age of a recorded state."""
    ended = kraftwatch(*arguments)
    assert ended.exit_code == 0, ended.output
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    return [{name: value for name, value in line.items() if name not in ("age_ms", "taken_at")} for line in lines]


def assert_surveyed(relay: RelayProcess, kafka: Lab) -> SurveyedCluster:
    config = checked({"clusters": [section("test", kafka)], "relay": relay.section}, "test")
    assert config.relay is not None
    assert {one.name: (one.status, one.message) for one in check_topics(config)} == {
        "topic": ("ok", "the brokers set the times of its messages"),
        "permissions": ("ok", "a relay needs READ, WRITE, DESCRIBE"),
        "settings": ("ok", "4 partitions, rows are kept 7 days, messages of up to 16777216 bytes"),
        "waiting rows": ("ok", "0 rows wait for the topic"),
    }
    survey = survey_topic(config.relay, {"test": None, "missing": None}, within_s=4)
    (surveyed,) = survey.clusters.values()
    assert (surveyed.cluster_id, surveyed.whole) == (kafka.cluster_id, True)
    known = survey_topic(config.relay, {"test": "of-another-cluster"}, within_s=2)
    assert (known.clusters, "gathers cluster id" in known.refused["test"]) == ({}, True)
    return surveyed


def test_relay_whose_clock_was_ahead_gives_up_the_rows_of_that_time(relay: RelayProcess) -> None:
    relay.start()
    relay.wait_for_rows(3)
    relay.stop()
    before = relay.messages()
    ahead = replace(before[-1].observation, observed_at_ms=wall_ms() + 7_200_000, sequence=-1)
    write_row(relay, ahead)

    relay.start()
    eventually(lambda: "the clock of this host went back" in relay.log, within_s=60)
    eventually(lambda: is_accepted(relay.messages()[-1]), within_s=60, every_s=1)
    relay.wait_for_rows(len(before) + 10)
    relay.stop()

    messages = [one for one in relay.messages() if is_accepted(one)]
    counted(messages)
    # A relay that had begun to write before it noticed reads the log again: then a new baseline follows.
    first, *following = dict.fromkeys(one.baseline for one in messages)
    assert first == before[0].baseline
    assert len(following) <= 1


def write_row(relay: RelayProcess, row: Observation) -> None:
    """Writes a row to the journal of a stopped relay."""
    with JournalWriter(Path(relay.section["folder"]) / "journal") as journal:
        journal.append([row])
        journal.publish()


def test_more_than_the_buffer_is_given_up_and_the_log_is_read_again(
    kafka: Lab, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    relay = {"bootstrap": ["127.0.0.1:1"], "folder": str(tmp_path)}
    config = checked({"clusters": [section("a", kafka)], "relay": relay}, "test")
    assert config.relay is not None
    folder = Checkpoint(folder=tmp_path)
    cluster = cluster_of(kafka)
    assert identify(cluster, 30) == kafka.cluster_id
    running = Relay(config.relay, folder, {"a": cluster}, "relay-of-the-test", SignalFlag(), buffer_bytes=1)
    try:

        def given_up() -> None:
            running.run_once()
            assert running.now().dropped_rows > 0

        eventually(given_up, within_s=60)
        assert running.now().restated >= 1
        assert "more than 1 bytes wait: the waiting rows are given up" in caplog.text
        assert "no broker is reachable" in (running.now().forwarder.counts.failing or "")
    finally:
        running.stop()


def test_large_rows_need_the_size_of_a_created_topic(topic_lab: Lab, tmp_path: Path) -> None:
    topic_lab.create_topic("small")
    row = Observation(
        cluster="a", kind=ObservationKind.SNAPSHOT, observed_at_ms=wall_ms(), base_offset=1, last_offset=0
    )
    poll = replace(row, kind=ObservationKind.QUORUM, payload=b"{}")
    with JournalWriter(tmp_path / "journal") as journal:
        journal.append([replace(row, payload=os.urandom(8_000_000)), poll])
        journal.publish()

    def forwarder(topic: str) -> Forwarder:
        connection = TopicSection(bootstrap=tuple(topic_lab.broker_bootstrap), topic=topic, create=True)
        return Forwarder(JournalReader(tmp_path / "journal"), connection, {"a": "id"}, "relay-1")

    refused, accepted = forwarder("small"), forwarder("large")

    def is_refused() -> None:
        refused.forward(0.5)
        assert "a row is larger than the topic small accepts" in (refused.counts.failing or "")

    eventually(is_refused, within_s=60)
    refused.close(0)
    assert refused.waiting_rows == 2

    def all_accepted() -> None:
        accepted.forward(0.5)
        assert accepted.waiting_rows == 0

    eventually(all_accepted, within_s=60)
    assert accepted.counts.rows == 2
    accepted.close(0)


def test_doctor_names_what_is_wrong_with_a_topic_and_its_fix(kafka: Lab, topic_lab: Lab, tmp_path: Path) -> None:
    wrong = {"retention.ms": "60000", "cleanup.policy": "compact", "max.message.bytes": "1000000"}
    topic_lab.create_topic("wrong", partitions=2, configs=wrong)
    relay = {"bootstrap": list(topic_lab.broker_bootstrap), "topic": "wrong", "folder": str(tmp_path / "none")}
    config = checked({"clusters": [section("test", kafka)], "relay": relay}, "test")

    found = {one.name: one for one in check_topics(config)}
    assert {name: one.status.value for name, one in found.items()} == {
        "topic": "ok",
        "permissions": "ok",
        "retention": "fails",
        "cleanup": "fails",
        "message size": "warning",
        "settings": "ok",
    }
    assert found["retention"].message.startswith("retention.ms is 60 s")
    assert found["cleanup"].remedy[0].endswith("--entity-name wrong --add-config cleanup.policy=delete")


def test_a_transaction_that_a_killed_relay_has_left_open_is_ended_by_the_next_one(
    relay: RelayProcess, topic_lab: Lab, request: pytest.FixtureRequest
) -> None:
    name = request.node.name
    topic_lab.create_topic(name)
    killed = Producer(
        {
            "bootstrap.servers": ",".join(topic_lab.broker_bootstrap),
            "transactional.id": f"kraftwatch-{name}/test",
            "transaction.timeout.ms": 600_000,
            "log_level": 0,
        }
    )
    killed.init_transactions(60)
    killed.begin_transaction()
    killed.produce(name, b"never committed", b"test")
    assert killed.flush(60) == 0

    relay.start()
    relay.wait_for_rows(5)
    relay.stop()
    assert relay.messages(), "what was not committed is not read"
    with pytest.raises(KafkaException, match="fenced"):
        killed.commit_transaction(60)


class Pair:
    """Two relays of one cluster."""

    def __init__(self, first: RelayProcess, second: RelayProcess) -> None:
        self.first, self.second = first, second

    def writer(self) -> str:
        """Returns the name of the relay that writes."""
        return counted(self.first.messages())[-1].relay

    def wait_until_written_by(self, relay: RelayProcess, *, rows: int = 5) -> list[RelayMessage]:
        """Waits until the newest rows are those of a relay; returns all."""

        def written() -> list[RelayMessage]:
            messages = counted(self.first.messages())
            assert {one.relay for one in messages[-rows:]} == {relay.name}
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


def test_a_stopped_relay_that_continues_stands_by_and_replaces_a_killed_one_without_a_new_baseline(pair: Pair) -> None:
    start_both(pair)

    pair.first.send_signal(signal.SIGSTOP)
    pair.wait_until_written_by(pair.second)
    pair.first.send_signal(signal.SIGCONT)
    eventually(lambda: "this one stands by" in pair.first.log, within_s=60)
    pair.wait_until_written_by(pair.second, rows=10)
    messages = pair.first.messages()
    assert len(counted(messages)) == len(messages), "the brokers refuse what the stopped one has sent"
    assert writers(messages) == [pair.first.name, pair.second.name]

    pair.second.kill()
    messages = pair.wait_until_written_by(pair.first)
    newest_ms = {one.relay: one.observation.observed_at_ms for one in messages}
    written = {one.observation.observed_at_ms for one in messages if one.relay == pair.first.name}
    journal = JournalReader(Path(pair.first.section["folder"]) / "journal")
    rows = journal.read(0, journal.published_end())
    # The other one may have written the same records a moment before.
    gathered = (row.observed_at_ms for row in rows if row.kind is not ObservationKind.RECORDS)
    meanwhile = {at for at in gathered if newest_ms[pair.second.name] < at <= newest_ms[pair.first.name]}
    assert meanwhile <= written, "the standby writes all that it has observed and the other one has not written"
    assert len({one.baseline for one in messages}) == 1
    assert writers(messages) == [pair.first.name, pair.second.name, pair.first.name]


def writers(messages: list[RelayMessage]) -> list[str]:
    """Returns the names of the relays in the order in which they wrote."""
    return [relay for relay, _ in groupby(one.relay for one in messages)]


def test_of_two_relays_that_begin_together_one_writes(pair: Pair) -> None:
    pair.first.start()
    pair.second.start()
    pair.first.wait_for_rows(30)

    (writer,) = {one.relay for one in pair.first.messages()[-10:]}
    messages = counted(pair.first.messages())
    assert writers(messages)[-1] == writer
    assert len(writers(messages)) <= 2, "none fences back"
    assert len({one.baseline for one in messages}) == 1


@pytest.mark.long
def test_rows_of_a_cluster_stay_in_their_partition_when_partitions_are_added(
    pair: Pair, topic_lab: Lab, request: pytest.FixtureRequest
) -> None:
    topic, admin = request.node.name, topic_lab.admin
    topic_lab.create_topic(topic)
    start_both(pair)

    admin.create_partitions([NewPartitions(topic, 7)])[topic].result(60)
    eventually(lambda: "has 7 partitions now" in pair.first.log, within_s=60, every_s=1)
    before = len(pair.first.raw_messages())
    eventually(lambda: len(pair.first.raw_messages()) > before + 10, within_s=60, every_s=1)
    pair.first.kill()
    pair.wait_until_written_by(pair.second)
    pair.second.stop()
    pair.first.start()
    pair.wait_until_written_by(pair.first)

    assert {one.partition() for one in pair.first.raw_messages()} == {0}
