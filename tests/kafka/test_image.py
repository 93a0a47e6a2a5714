"""Our replay against Kafka's own MetadataImage, field by field: of histories that Kafka's classes wrote.

And of the log and the snapshots that a real quorum wrote itself, after it was hurt.
"""

import re
import socket
import struct
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from streaming.replay import registrations, voters
from streaming.replay.log import Log
from streaming.replay.partitions import Partitions
from tests.kafka.conftest import MakeLab
from tests.kafka.metadata_image import big, by_key, differences, history, kafkas
from tests.kafka.parity import made_files
from tests.kafka.replay_output import Case, Fact, facts
from tests.kips.test_thresholds import BACKOFF_MAX_MS, DEFAULTS, ELECTION_TIMEOUT_MS, FETCH_TIMEOUT_MS

RECORDS = 8_000
WRITTEN = {
    "ABORT_TRANSACTION_RECORD",
    "BEGIN_TRANSACTION_RECORD",
    "BROKER_REGISTRATION_CHANGE_RECORD",
    "CLEAR_ELR_RECORD",
    "END_TRANSACTION_RECORD",
    "FEATURE_LEVEL_RECORD",
    "FENCE_BROKER_RECORD",
    "NO_OP_RECORD",
    "PARTITION_CHANGE_RECORD",
    "PARTITION_RECORD",
    "PRODUCER_IDS_RECORD",
    "REGISTER_BROKER_RECORD",
    "REGISTER_CONTROLLER_RECORD",
    "REMOVE_TOPIC_RECORD",
    "TOPIC_RECORD",
    "UNFENCE_BROKER_RECORD",
    "UNREGISTER_BROKER_RECORD",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A history, whole and from a snapshot on, and what Kafka says of each."""

    written: dict[str, int]
    whole: tuple[Case, list[Fact]]
    resumed: tuple[Case, list[Fact]]
    made: list[tuple[Case, list[Fact]]]


@pytest.fixture(scope="module")
def told(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("image")
    log, snapshots = folder / "00000000000000000000.log", folder / "snapshots"
    snapshots.mkdir()
    written = history(log, seed=20, records=RECORDS)
    cases = [Case(paths=(log,), snapshot=(snapshots, RECORDS // 2)), Case(paths=(snapshots, log))]
    made = [Case(paths=(path,)) for path in made_files(folder)]
    whole, resumed, *others = zip(cases + made, kafkas(cases + made), strict=True)
    return Told(written=written, whole=whole, resumed=resumed, made=others)


def state(told: list[Fact]) -> list[Fact]:
    """What holds at the end, without how it came about."""
    return [fact for fact in told if fact["fact"] not in {"voters", "leader"}]


@pytest.mark.lab
def test_a_log_and_its_snapshot_with_the_tail_come_to_kafkas_image(told: Told) -> None:
    for case, kafka in (told.whole, told.resumed, *told.made):
        assert [*differences(by_key(kafka), by_key(facts(case)))] == []

    whole, resumed = facts(told.whole[0]), facts(told.resumed[0])
    assert [*differences(by_key(state(whole)), by_key(state(resumed)))] == [], "and they come to the same"


@pytest.mark.lab
def test_the_history_holds_all_that_can_go_wrong_in_replay(told: Told) -> None:
    assert told.written.keys() == WRITTEN
    case, kafka = told.whole
    kinds = Counter(fact["fact"] for fact in kafka)
    assert kinds.keys() == {
        "end", "kraft.version", "features", "topic", "partition", "broker", "controller", "voters", "leader",
    }  # fmt: skip
    assert min(kinds["voters"], kinds["leader"], kinds["controller"], kinds["broker"]) >= 4
    partitions = [fact for fact in kafka if fact["fact"] == "partition"]
    assert len(partitions) > 500
    for some in ("recovering", "elr", "last_known_elr", "leader_epoch", "partition_epoch"):
        assert sum(bool(fact[some]) for fact in partitions) > 10, some
    assert sum(fact["leader"] is None for fact in partitions) > 10
    assert len(facts(case)) == len(kafka)


VOTER_SET = voters.voter_set
FAULTS: list[tuple[object, str, Any, str]] = [
    (Log, "_end", lambda log, ended: setattr(log, "transaction", None), "is known to Kafka and not to us"),
    (Log, "_hold_or_apply", Log._data, "is known to us and not to Kafka"),
    (Partitions, "remove", lambda partitions, topic_id: None, "is known to us and not to Kafka"),
    (Partitions, "clear_elr", lambda partitions, name: None, "elr is [] for Kafka"),
    (registrations, "with_change", lambda known, event, origin: known, "fenced is"),
    (registrations, "with_controller", lambda known, event, origin: known, "controller 1 is known to Kafka"),
    (
        voters,
        "voter_set",
        lambda event, origin: VOTER_SET(event=replace(event, voters=event.voters[1:]), origin=origin),
        "voters 2: voters is",
    ),
]


@pytest.mark.lab
@pytest.mark.parametrize(("where", "name", "fault", "said"), FAULTS, ids=[f"{fault[1]}" for fault in FAULTS])
def test_a_fault_planted_in_replay_is_a_difference(
    told: Told, monkeypatch: pytest.MonkeyPatch, where: object, name: str, fault: Any, said: str
) -> None:
    case, kafka = told.whole
    monkeypatch.setattr(where, name, fault)

    found = [*differences(by_key(kafka), by_key(facts(case)))]

    assert any(said in each for each in found), found[:5]


@pytest.mark.lab
def test_a_fault_planted_in_any_field_of_any_fact_is_a_difference(told: Told) -> None:
    case, kafka = told.whole
    ours = by_key(facts(case))
    for kind in {fact["fact"] for fact in kafka}:
        key = next(key for key in ours if key[0] == kind)
        for name in ours[key].keys() - {"fact", "offset", "id", "topic_id"}:
            changed = {**ours, key: {**ours[key], name: "planted"}}
            (found,) = differences(by_key(kafka), changed)
            assert found.startswith(" ".join(map(str, key)))
            assert f": {name} is " in found
            assert found.endswith(" for Kafka, planted for us")
        (missing,) = differences(by_key(kafka), {each: ours[each] for each in ours if each != key})
        assert missing.endswith("is known to Kafka and not to us")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hurt:
    """A real quorum's own files after a topic was removed, brokers died, and its only controller was restarted."""

    node_ids: list[int]
    written: Path
    """The snapshot it was formatted with, and its newest one, lie beside its log."""
    served: set[int]
    """The API keys that its controller serves."""
    timers_ms: dict[str, int]
    """What its nodes take for controller.quorum.*.ms, of which this quorum sets none."""


@pytest.fixture(scope="module")
def hurt(shared_lab: MakeLab) -> Hurt:
    properties = {"broker.session.timeout.ms": "6000", "metadata.log.max.record.bytes.between.snapshots": "3000"}
    quorum = shared_lab(controllers=1, brokers=2, properties=properties)
    quorum.create_topic("gone", partitions=3, replication=2)
    admin = AdminClient({"bootstrap.servers": ",".join(quorum.broker_bootstrap), "log_level": 0})
    admin.delete_topics(["gone"])["gone"].result(30)
    broker = ConfigResource(ResourceType.BROKER, str(quorum.brokers[0]))
    settings = admin.describe_configs([broker])[broker].result(30)
    quorum.strand_recovering("orders", partitions=2)
    quorum.stop(*quorum.controllers)
    quorum.start(*quorum.controllers)
    # It takes connections before it leads, and is killed next: its second election is to be on its disk.
    quorum.await_state(lambda state: state.high_watermark >= 0, what="a commit of the second epoch")
    served = api_keys(quorum.bootstrap[0])
    quorum.kill(*quorum.controllers)
    (controller,) = quorum.controllers
    return Hurt(
        node_ids=quorum.controllers,
        written=quorum.node(controller).metadata_log,
        served=served,
        timers_ms={
            name: int(settings[name].value) for name in settings if re.fullmatch(r"controller\.quorum.*\.ms", name)
        },
    )


def api_keys(address: str) -> set[int]:
    """What a node says to ApiVersions version 0."""
    host, _, port = address.rpartition(":")
    asked = struct.pack(">hhih", 18, 0, 1, -1)
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(struct.pack(">i", len(asked)) + asked)
        with connection.makefile("rb") as answer:
            (size,) = struct.unpack(">i", answer.read(4))
            said = answer.read(size)
    _, error, count = struct.unpack_from(">ihi", said)
    assert error == 0
    return {struct.unpack_from(">h", said, 10 + 6 * number)[0] for number in range(count)}


@pytest.mark.lab
@pytest.mark.kip("D014")
def test_a_quorums_own_log_and_snapshots_come_to_kafkas_image(hurt: Hurt) -> None:
    logs = sorted(hurt.written.glob("0*.log"))
    formatted, *_, newest = sorted(hurt.written.glob("0*.checkpoint"))
    cases = [Case(paths=(formatted, *logs)), Case(paths=(newest, *logs))]

    for case, kafka in zip(cases, kafkas(cases), strict=True):
        assert [*differences(by_key(kafka), by_key(facts(case)))] == []

    told = facts(cases[0])
    assert {fact["name"] for fact in told if fact["fact"] == "topic"} == {"orders"}, "and the other was removed"
    assert sum(fact["fact"] == "leader" for fact in told) == 2
    assert {fact["fenced"] for fact in told if fact["fact"] == "broker"} == {True, False}
    partitions = [fact for fact in told if fact["fact"] == "partition"]
    assert [fact["recovering"] for fact in partitions] == [True, True]
    assert all(fact["partition_epoch"] > fact["leader_epoch"] > 0 for fact in partitions)
    *_, voters = (fact["voters"] for fact in told if fact["fact"] == "voters")
    assert [voter["id"] for voter in voters] == hurt.node_ids, "the node id is the voter id"


@pytest.mark.lab
@pytest.mark.kip("D029")
def test_a_controller_serves_the_four_requests_of_raft(hurt: Hurt) -> None:
    fetch, vote, begin_quorum_epoch, end_quorum_epoch = 1, 52, 53, 54

    assert {fetch, vote, begin_quorum_epoch, end_quorum_epoch} <= hurt.served


@pytest.mark.lab
@pytest.mark.kip("D011", "D012", "K035")
def test_a_request_of_raft_that_fails_and_its_repetition_take_less_than_what_we_call_silence(hurt: Hurt) -> None:
    timers = hurt.timers_ms
    request_ms, retry_ms = timers["controller.quorum.request.timeout.ms"], timers["controller.quorum.retry.backoff.ms"]

    assert (request_ms, retry_ms) == (2_000, 20)
    assert timers["controller.quorum.fetch.timeout.ms"] == FETCH_TIMEOUT_MS
    assert timers["controller.quorum.election.timeout.ms"] == ELECTION_TIMEOUT_MS
    assert timers["controller.quorum.election.backoff.max.ms"] == BACKOFF_MAX_MS
    assert DEFAULTS["no-leader"].ms("hold") > request_ms + retry_ms
    assert DEFAULTS["stale-voter-endpoint"].ms("silent") > FETCH_TIMEOUT_MS + request_ms + retry_ms


@pytest.mark.lab
@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_a_million_records(kafka_jars: Path, tmp_path: Path) -> None:
    compared = big(tmp_path, seed=1, records=1_000_000)

    assert compared.differences == []
    assert compared.facts > 100_000
