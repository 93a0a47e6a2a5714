"""Every contract with a row that violates it and no other; the cluster of a bad row has the contract's name."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from connectors.observations.log_event import PartitionSet, Undecodable, VotersReplaced
from connectors.observations.observation import Event, Observation, ObservationKind, to_json
from connectors.sinks.alert_json import to_object
from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey, TopicId
from rules.model.membership import RecordPosition, Voter
from rules.model.monitoring import Reason
from rules.model.replica import Poll, Replica
from streaming.data_quality.suite_rows import (
    CLOCK_SKEW_MS,
    JOURNAL,
    PAYLOAD_BYTES_MAX,
    SKEW_MS,
    AlertRows,
    ObservationRows,
    Row,
    event_rows,
)
from streaming.replay.decoded_row import decode_observation
from tests.scripts.log_script import failed, poll
from tests.unit.connectors.metadata.metadata_bytes import batch, data, text
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert
from tests.unit.streaming.data_quality.contract_rows import NOW, records

WELL = "well"


def violating_clusters(suite: str, rows: Sequence[Row]) -> dict[str, set[object]]:
    """Returns the clusters that violate each contract."""
    # Imported here and below: Great Expectations takes seconds, in each process that collects the tests.
    from streaming.data_quality.audit import Audit

    audit = Audit()
    audit.tables[suite].extend(rows)
    audit.evaluate()
    return {one.contract.name: {each.get("cluster") for each in one.examples} for one in audit.broken}


def each_by_its_own_cluster(suite: str, **more: object) -> dict[str, set[object]]:
    from streaming.data_quality.audit import CONTRACTS

    named: dict[str, set[object]] = {name: {name} for name in CONTRACTS[suite]}
    return {**named, **{name.replace("_", "-"): {cluster} for name, cluster in more.items()}}


def piece(cluster: str, number: int, end: int = 50) -> Observation:
    return Observation(
        cluster=cluster,
        kind=ObservationKind.SNAPSHOT,
        observed_at_ms=NOW,
        base_offset=end,
        last_offset=number,
        leader_epoch=2,
    )


def failed_observation(
    cluster: str, reason: Reason = Reason.TIMED_OUT, *, kind: ObservationKind = ObservationKind.FAILED
) -> Observation:
    return Observation(cluster=cluster, kind=kind, observed_at_ms=NOW, payload=to_json(failed(reason)))


def observed(*rows: Observation) -> list[Row]:
    table = ObservationRows()
    return [
        table.row(replace(row, sequence=sequence), next(iter(decode_observation(row).events()), None))
        for sequence, row in enumerate(rows)
    ]


SECRET = data(4, 0, b"\x04" + text("1") + text("ssl.keystore.password") + text("hunter2") + b"\0")
BAD_ROWS = (
    records("", 0, 1),
    records("observed-at-plausible", 0, 1, observed_at_ms=12),
    *(records("time-never-goes-back", 2 * at, 2 * at + 1, observed_at_ms=NOW - at) for at in range(2)),
    records("secrets-are-blanked", 0, 0, payload=batch([SECRET], base_offset=0)),
    *(records("offsets-ascend", 0, 4) for _ in range(2)),
    *(records("no-offset-is-passed-over", 10 * at, 10 * at + 4) for at in range(2)),
    records("only-committed-rows", 0, 9, hw=9),
    *(records("log-epoch-never-falls", at, at, epoch=9 - at) for at in range(2)),
    *(piece("snapshot-pieces-in-order", number) for number in (0, 2)),
    records("payload-within-bounds", 0, 0, payload=bytes(PAYLOAD_BYTES_MAX + 1)),
    failed_observation("observation-is-of-its-kind", kind=ObservationKind.PROBE),
)
GOOD_ROWS = (
    records(WELL, 0, 4),
    records(WELL, 5, 4, payload=b"", epoch=4),
    records(WELL, 5, 9),
    records(WELL, 10, 11, epoch=4, hw=12),
    failed_observation(WELL),
    # Committed metadata was lost, and the log is read again.
    failed_observation(WELL, Reason.METADATA_LOST),
    records(WELL, 0, 2, epoch=2),
    # A snapshot that is begun again, and what comes behind it.
    *(piece(WELL, number) for number in (0, 1, 0, 1, 2)),
    records(WELL, 50, 51),
)


def test_each_contract_of_observations() -> None:
    rows = [*observed(*BAD_ROWS, *GOOD_ROWS), {"cluster": JOURNAL, "read_error": "a frame is cut short"}]

    found = violating_clusters("observations", rows)

    assert found == each_by_its_own_cluster("observations", cluster_named=None, rows_are_whole=JOURNAL)


def test_a_sample_may_begin_in_the_middle_of_a_snapshot() -> None:
    begun = observed(*(piece(WELL, number) for number in (7, 8)), records(WELL, 50, 51))
    left_out = observed(*(piece(WELL, number) for number in (7, 9)))

    assert violating_clusters("observations", begun) == {}
    assert violating_clusters("observations", left_out) == {"snapshot-pieces-in-order": {WELL}}


KEY = ReplicaKey(id=NodeId(1), directory_id=DirectoryId("AAAAAAAAAAAAAAAAAAAAAw"))


def at(offset: int, epoch: int = 3, timestamp_ms: int = NOW) -> RecordPosition:
    return RecordPosition(offset=Offset(offset), leader_epoch=Epoch(epoch), timestamp_ms=Millis(timestamp_ms))


def partition(place: RecordPosition | None = None, **more: Any) -> PartitionSet:
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


def voters(key: ReplicaKey = KEY, port: int = 9093) -> VotersReplaced:
    endpoint = Endpoint(listener="CONTROLLER", host="c1", port=port)
    return VotersReplaced(at=at(6), voters=(Voter(key=key, endpoints=(endpoint,)),))


def polled(high_watermark: int = 90, **more: Any) -> Poll:
    row = Replica(key=KEY, log_end_offset=Offset(100), last_fetch_ms=None, last_caught_up_ms=None)
    return poll(row, hw=high_watermark, **more)


BOTH = (Replica(key=KEY, log_end_offset=None, last_fetch_ms=None, last_caught_up_ms=None),)
BAD_EVENTS: dict[str, tuple[Event, ...]] = {
    "every-record-decodes": (Undecodable(offset=Offset(4), reason="the CRC-32C does not match", length=9),),
    "record-not-before-its-row": (partition(at(-1)),),
    "record-not-after-its-row": (partition(at(10)),),
    "record-offsets-ascend": (partition(at(5)), partition(at(5))),
    "record-epoch-never-falls": (partition(at(5)), partition(at(6, epoch=2))),
    "record-time-plausible": (partition(at(5, timestamp_ms=0)),),
    "record-not-from-the-future": (partition(at(5, timestamp_ms=NOW + SKEW_MS + 1)),),
    "topic-id-well-formed": (partition(topic_id=TopicId("orders")),),
    "directory-ids-well-formed": (voters(replace(KEY, directory_id=DirectoryId("newDir"))),),
    "isr-within-replicas": (partition(isr=(1, 7)),),
    "elr-apart-from-isr": (partition(elr=(2, 3)),),
    "leader-in-isr": (partition(leader=3),),
    "voter-endpoints-dialable": (voters(port=0),),
    "voter-or-observer": (polled(observers=BOTH),),
    "high-watermark-within-the-log": (polled(101),),
}
GOOD_EVENTS: tuple[Event, ...] = (
    partition(),
    voters(),
    polled(90),
)


def test_each_contract_of_events() -> None:
    rows = [
        row
        for sequence, (name, events) in enumerate({**BAD_EVENTS, WELL: GOOD_EVENTS}.items())
        for row in event_rows(replace(records(name, 0, 9), sequence=sequence), events)
    ]

    assert violating_clusters("events", rows) == each_by_its_own_cluster("events")


def sent_alert(cluster: str, *, resolved: bool = False, at_ms: int = NOON_MS, **more: Any) -> dict[str, Any]:
    fields = to_object(
        alert(cluster=cluster, subject=cluster, started_at_ms=at_ms, resolved=resolved), Millis(at_ms + 9_000)
    )
    return {**fields, **more}


def test_each_contract_of_alerts() -> None:
    late = to_object(alert(cluster="x"), Millis(NOON_MS - CLOCK_SKEW_MS))["sent_at"]
    lines = [
        sent_alert(WELL),
        sent_alert(WELL, severity="warning"),
        sent_alert(WELL, resolved=True),
        # It fired before this file began.
        sent_alert(WELL, resolved=True, at_ms=NOON_MS - 60_000),
        {**sent_alert("alert-has-its-fields"), "colour": "red"},
        {**to_object(alert(cluster="alert-of-a-known-rule", rule="gut-feeling"), Millis(NOON_MS + 9_000))},
        sent_alert("alert-severity-known", severity="fatal"),
        sent_alert("alert-state-known", state="acknowledged"),
        sent_alert(""),
        sent_alert("fingerprint-of-its-parts", fingerprint="0123456789abcdef"),
        sent_alert("alert-time-plausible", at_ms=0),
        sent_alert("observed-after-it-started", observed_at="2026-11-20T05:01:02.344Z"),
        sent_alert("sent-after-it-was-observed", sent_at=late),
        sent_alert("resolved-follows-firing", resolved=True, at_ms=NOON_MS + 60_000),
        sent_alert("summary-of-one-line", summary="No leader elected.\nReally."),
        sent_alert(
            "remedy-can-be-typed", remedy=["kafka-metadata-quorum.sh --bootstrap-controller $CONTROLLER describe"]
        ),
    ]
    table = AlertRows()
    rows = [table.row(number, line) for number, line in enumerate(lines, start=1)]

    found = violating_clusters("alerts", rows)
    not_as_documented = found.pop("alert-has-its-fields")

    assert {**found, "alert-has-its-fields": {"alert-has-its-fields"}} == each_by_its_own_cluster(
        "alerts", alert_names_its_cluster=None
    )
    documented = {"alert-severity-known", "alert-state-known", None}
    assert not_as_documented == {"alert-has-its-fields", *documented}, "the schema says more of these"
