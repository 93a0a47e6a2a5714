"""Every contract, and a row that breaks it and no other: the cluster of a bad row is called after what it breaks."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connectors.decode_observation import events_of
from connectors.delivery.ledger import Ledger
from connectors.event import (
    At,
    Event,
    ObservationFailed,
    PartitionSet,
    QuorumPolled,
    Undecodable,
    VotersSet,
    to_json,
)
from connectors.observation import Kind, Observation
from connectors.sinks.alert_json import to_object
from rules.evaluate import thresholds_for
from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey, TopicId
from rules.model.monitoring import ObservationSource, Reason
from rules.model.poll import Replica
from rules.model.voter_set import Voter
from streaming.data_quality.alert_contracts import FIELDS, PATIENCE_MS, Alerts, Line, of_the_ledger
from streaming.data_quality.contract import Suite
from streaming.data_quality.contract_table import Table
from streaming.data_quality.event_contracts import SKEW_MS, Events
from streaming.data_quality.expectations import CONTRACTS, Validator
from streaming.data_quality.observation_contracts import JOURNAL, PAYLOAD_BYTES_MAX, Observations
from streaming.data_quality.state_contracts import States
from streaming.status.cluster_status import portrait
from tests.unit.connectors.metadata.metadata_bytes import batch, data, noop, text
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert
from tests.unit.rules.situation import healthy, recovering

NOW = 1_800_000_000_000
WELL = "well"


@pytest.fixture(scope="module")
def validator() -> Validator:
    return Validator()


def breakers(validator: Validator, suite: Suite, table: Table) -> dict[str, set[object]]:
    """The clusters that break each contract."""
    _, broken = validator.validate(suite, table)
    return {one.contract.name: {each.get("cluster") for each in one.examples} for one in broken}


def by_its_own(suite: Suite, **more: object) -> dict[str, set[object]]:
    named: dict[str, set[object]] = {contract.name: {contract.name} for contract in CONTRACTS[suite]}
    return {**named, **{name.replace("_", "-"): {cluster} for name, cluster in more.items()}}


def records(cluster: str, base: int, last: int, *, hw: int = 1_000, epoch: int = 3, **more: Any) -> Observation:
    payload = b"".join(batch([noop()], base_offset=offset, epoch=max(epoch, 0)) for offset in range(base, last + 1))
    stated: dict[str, Any] = {
        "cluster": cluster,
        "kind": Kind.RECORDS,
        "observed_at_ms": NOW,
        "base_offset": base,
        "last_offset": last,
        "leader_epoch": epoch,
        "high_watermark": hw,
        "payload": payload,
    }
    return Observation(**{**stated, **more})


def piece(cluster: str, number: int, end: int = 50) -> Observation:
    return Observation(
        cluster=cluster, kind=Kind.SNAPSHOT, observed_at_ms=NOW, base_offset=end, last_offset=number, leader_epoch=2
    )


def unseen(cluster: str, reason: Reason = Reason.TIMED_OUT, *, kind: Kind = Kind.UNSEEN) -> Observation:
    event = ObservationFailed(sight=ObservationSource.LOG, endpoint="", reason=reason, detail="")
    return Observation(cluster=cluster, kind=kind, observed_at_ms=NOW, payload=to_json(event))


def observed(*rows: Observation) -> Observations:
    held = Observations()
    for sequence, row in enumerate(rows):
        held.add(replace(row, sequence=sequence), next(iter(events_of(row).events()), None))
    return held


SECRET = data(4, 0, b"\x04" + text("1") + text("ssl.keystore.password") + text("hunter2") + b"\0")
BAD_ROWS = (
    records("", 0, 1),
    records("observed-at-plausible", 0, 1, observed_at_ms=12),
    *(records("time-never-goes-back", 2 * at, 2 * at + 1, observed_at_ms=NOW - at) for at in range(2)),
    records("secrets-are-blanked", 0, 0, payload=batch([SECRET], base_offset=0)),
    *(records("offsets-ascend", 0, 4) for _ in range(2)),
    *(records("no-offset-is-passed-over", 10 * at, 10 * at + 4) for at in range(2)),
    records("range-not-reversed", 9, 7, payload=b""),
    records("only-committed-rows", 0, 9, hw=9),
    *(records("log-epoch-never-falls", at, at, epoch=9 - at) for at in range(2)),
    records("epoch-not-negative", 0, -1, payload=b"", epoch=-1),
    *(piece("snapshot-pieces-in-order", number) for number in (0, 2)),
    records("payload-within-bounds", 0, 0, payload=bytes(PAYLOAD_BYTES_MAX + 1)),
    unseen("look-is-of-its-kind", kind=Kind.PROBE),
)
GOOD_ROWS = (
    records(WELL, 0, 4),
    records(WELL, 5, 4, payload=b"", epoch=4),
    records(WELL, 5, 9),
    records(WELL, 10, 11, epoch=4, hw=12),
    unseen(WELL),
    # Committed metadata was lost, and the log is read anew.
    unseen(WELL, Reason.METADATA_LOST),
    records(WELL, 0, 2, epoch=2),
    # A snapshot that is begun again, and what comes behind it.
    *(piece(WELL, number) for number in (0, 1, 0, 1, 2)),
    records(WELL, 50, 51),
)


def test_each_contract_of_observations(validator: Validator) -> None:
    held = observed(*BAD_ROWS, *GOOD_ROWS)
    held.table.add({"cluster": "kind-known", "kind": "hearsay"})
    held.add_damaged("a frame is cut short at byte 9")

    found = breakers(validator, Suite.OBSERVATIONS, held.table)

    assert found == by_its_own(Suite.OBSERVATIONS, cluster_named=None, rows_are_whole=JOURNAL)


def test_rows_may_begin_in_the_midst_of_a_snapshot_and_are_counted_from_there(validator: Validator) -> None:
    begun = observed(*(piece(WELL, number) for number in (7, 8)), records(WELL, 50, 51))
    left_out = observed(*(piece(WELL, number) for number in (7, 9)))

    assert breakers(validator, Suite.OBSERVATIONS, begun.table) == {}
    assert breakers(validator, Suite.OBSERVATIONS, left_out.table) == {"snapshot-pieces-in-order": {WELL}}


KEY = ReplicaKey(id=NodeId(1), directory_id=DirectoryId("AAAAAAAAAAAAAAAAAAAAAw"))


def at(offset: int, epoch: int = 3, timestamp_ms: int = NOW) -> At:
    return At(offset=Offset(offset), leader_epoch=Epoch(epoch), timestamp_ms=Millis(timestamp_ms))


def partition(place: At | None = None, **more: Any) -> PartitionSet:
    stated: dict[str, Any] = {
        "at": place or at(5),
        "topic_id": TopicId("AAAAAAAAAAAAAAAAAAAAAg"),
        "partition": 0,
        "replicas": (1, 2, 3),
        "isr": (1, 2),
        "elr": (3,),
        "leader": 1,
        "partition_leader_epoch": 1,
        "recovering": False,
    }
    return PartitionSet(**{**stated, **more})


def voters(key: ReplicaKey = KEY, port: int = 9093) -> VotersSet:
    endpoint = Endpoint(listener="CONTROLLER", host="c1", port=port)
    return VotersSet(at=at(6), voters=(Voter(key=key, endpoints=(endpoint,)),))


def polled(high_watermark: int = 90, epoch: int = 3, observers: tuple[Replica, ...] = ()) -> QuorumPolled:
    row = Replica(key=KEY, log_end_offset=Offset(100), last_fetch_ms=None, last_caught_up_ms=None)
    return QuorumPolled(
        cluster_id="id",
        endpoint="c1:9093",
        leader_id=NodeId(1),
        leader_epoch=Epoch(epoch),
        high_watermark=Offset(high_watermark),
        voters=(row,),
        observers=observers,
        nodes=(),
    )


BOTH = (Replica(key=KEY, log_end_offset=None, last_fetch_ms=None, last_caught_up_ms=None),)
BAD_EVENTS: dict[str, tuple[Event, ...]] = {
    "every-record-decodes": (Undecodable(offset=Offset(4), reason="the CRC-32C does not match", length=9),),
    "record-within-its-row": (partition(at(10)),),
    "record-offsets-ascend": (partition(at(5)), partition(at(5))),
    "record-epoch-never-falls": (partition(at(5)), partition(at(6, epoch=2))),
    "record-time-plausible": (partition(at(5, timestamp_ms=0)),),
    "record-not-from-the-future": (partition(at(5, timestamp_ms=NOW + SKEW_MS + 1)),),
    "topic-id-well-formed": (partition(topic_id=TopicId("orders")),),
    "directory-ids-well-formed": (voters(replace(KEY, directory_id=DirectoryId("newDir"))),),
    "node-ids-possible": (partition(replicas=(1, 2, 3, -1)),),
    "replicas-differ": (partition(replicas=(1, 2, 3, 3)),),
    "isr-within-replicas": (partition(isr=(1, 7)),),
    "elr-apart-from-isr": (partition(elr=(2, 3)),),
    "leader-in-isr": (partition(leader=3),),
    "voter-endpoints-dialable": (voters(port=0),),
    "voter-or-observer": (polled(observers=BOTH),),
    "high-watermark-never-falls": (polled(90), polled(89)),
    "high-watermark-within-the-log": (polled(101),),
}
GOOD_EVENTS: tuple[Event, ...] = (
    partition(),
    voters(),
    polled(90),
    # Another epoch's leader may know less at first, and a leader of before that was not told answers late.
    polled(80, epoch=4),
    polled(70, epoch=3),
    polled(80, epoch=4),
)


def test_each_contract_of_events(validator: Validator) -> None:
    held = Events()
    for sequence, (name, events) in enumerate({**BAD_EVENTS, WELL: GOOD_EVENTS}.items()):
        held.add(replace(records(name, 0, 9), sequence=sequence), events)
    held.table.add({"cluster": "event-type-known", "type": "rumour"})

    assert breakers(validator, Suite.EVENTS, held.table) == by_its_own(Suite.EVENTS)


def state(cluster: str, **more: Any) -> dict[str, Any]:
    quorum = replace(recovering(healthy(), 0), cluster=cluster)
    plain: dict[str, Any] = json.loads(json.dumps(portrait(quorum, thresholds_for({}))))
    return {**plain, **more}


def test_each_contract_of_states(validator: Validator) -> None:
    held = States()
    good = state(WELL)
    (lost,) = good["recovering"]
    voter = good["committed_voters"]["voters"][0]
    for bad in (
        good,
        state("state-time-plausible", now_ms=0, described_at_ms=None, log_seen_at_ms=None),
        *(state("state-time-never-goes-back", now_ms=good["now_ms"] + more) for more in (9, 8)),
        state("nothing-seen-in-the-future", described_at_ms=good["now_ms"] + 1),
        state("state-epoch-possible", leader_epoch=-1),
        state("majority-of-the-voters", votes_needed=1),
        state("voters-differ", committed_voters={"voters": [voter, voter]}),
        state("state-ids-well-formed", current_voters=[{"id": 1, "directory_id": "newDir"}]),
        state("recovering-isr-within-replicas", recovering=[{**lost, "isr": [9]}]),
        state("findings-of-known-rules", findings=[{"rule": "gut-feeling", "severity": "warning"}]),
    ):
        held.add(bad, 7)

    assert breakers(validator, Suite.STATES, held.table) == by_its_own(Suite.STATES)


def told(cluster: str, *, resolved: bool = False, at_ms: int = NOON_MS, **more: Any) -> dict[str, Any]:
    said = to_object(
        alert(cluster=cluster, subject=cluster, started_at_ms=at_ms, resolved=resolved), Millis(at_ms + 9_000)
    )
    return {**said, **more}


def test_each_contract_of_alerts(validator: Validator) -> None:
    late = to_object(alert(cluster="x"), Millis(NOON_MS - PATIENCE_MS))["sent_at"]
    lines = [
        told(WELL),
        told(WELL, severity="warning"),
        told(WELL, resolved=True),
        # It fired before this file began.
        told(WELL, resolved=True, at_ms=NOON_MS - 60_000),
        {**told("alert-has-its-fields"), "colour": "red"},
        {**to_object(alert(cluster="alert-of-a-known-rule", rule="gut-feeling"), Millis(NOON_MS + 9_000))},
        told("alert-severity-known", severity="fatal"),
        told("alert-state-known", state="acknowledged"),
        told(""),
        told("fingerprint-of-its-parts", fingerprint="0123456789abcdef"),
        told("alert-time-plausible", at_ms=0),
        told("told-after-it-began", observed_at="2026-11-20T05:01:02.344Z"),
        told("sent-after-it-was-observed", sent_at=late),
        told("resolved-follows-firing", resolved=True, at_ms=NOON_MS + 60_000),
        told("summary-of-one-line", summary="Nobody leads.\nReally."),
        told("remedy-can-be-typed", remedy=["kafka-metadata-quorum.sh --bootstrap-controller $CONTROLLER describe"]),
    ]
    held = Alerts()
    for number, line in enumerate(lines, start=1):
        held.add(Line(number=number, told=line))

    assert breakers(validator, Suite.ALERTS, held.table) == by_its_own(Suite.ALERTS, alert_names_its_cluster=None)


def test_an_end_whose_beginning_the_ledger_has_forgotten_breaks_nothing(validator: Validator, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl", keep_entries=2)
    ledger.open_sink("people")
    # Lines that are of no more use: the ledger is written anew, without what was forgotten.
    ledger.told("people", [], heard={f"incident {number}": Millis(NOON_MS) for number in range(1_100)})
    one_minute = 60_000
    for at, (subject, resolved) in enumerate((("stands", False), ("ended", False), ("other", False), ("ended", True))):
        began = NOON_MS + (0 if subject == "stands" else 3 * one_minute)
        ledger.record([alert(subject, started_at_ms=began, resolved=resolved)], Millis(NOON_MS + (at + 2) * one_minute))
    ledger.close()
    held = Alerts()
    for line in of_the_ledger(tmp_path / "ledger.jsonl"):
        held.add(line)

    assert len(held.table) == 3
    assert breakers(validator, Suite.ALERTS, held.table) == {}


def test_the_fields_of_an_alert_are_those_of_the_published_schema() -> None:
    published = json.loads((Path(__file__).parents[4] / "docs" / "alert.schema.json").read_text())

    assert set(FIELDS) == set(published["properties"]) == set(published["required"])


def test_each_contract_says_why_and_is_named_once() -> None:
    every = [contract for contracts in CONTRACTS.values() for contract in contracts]

    assert len({contract.name for contract in every}) == len(every)
    assert all(contract.why.endswith(".") and not contract.promise.endswith(".") for contract in every)
    assert [contract.name for contract in every if not contract.source] == []
