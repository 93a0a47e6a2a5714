"""Our replay against Kafka's own MetadataImage, field by field: of histories that Kafka's classes wrote.

A real quorum's own log has its turn in `test_look`, at the end of what is done to that quorum.
"""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from streaming.replay import registrations, voters
from streaming.replay.log import Log
from streaming.replay.partitions import Partitions
from tests.kafka.image import Case, Fact, big, by_key, differences, facts, history, kafkas
from tests.kafka.parity import made_files

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
        "end", "kraft.version", "metadata.version", "topic", "partition", "broker", "controller", "voters", "leader",
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
            assert found.endswith(f"{name} is {ours[key][name]} for Kafka, planted for us")
        (missing,) = differences(by_key(kafka), {each: ours[each] for each in ours if each != key})
        assert missing.endswith("is known to Kafka and not to us")


@pytest.mark.lab
@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_a_million_records(kafka_jars: Path, tmp_path: Path) -> None:
    compared = big(tmp_path, seed=1, records=1_000_000)

    assert compared.differences == []
    assert compared.facts > 100_000
