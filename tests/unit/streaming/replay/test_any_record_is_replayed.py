"""Any bytes, and records with any values, pass through decode, Arrow, replay, rules and status without an exception."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from connectors.metadata.record_schemas import record_schemas
from connectors.metadata.redaction import redact
from connectors.observations.log_event import LogAdvanced
from connectors.observations.observation import Observation, ObservationKind
from connectors.sinks.alert_json import iso
from rules.evaluate import BLIND, evaluate, thresholds_for
from rules.lifecycle import TrackedConditions, advance
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from streaming.dataframes.journal_dataframe import EVENT, arrow_rows
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.decoded_row import decode_observation
from streaming.replay.machine import Machine
from streaming.status.build_status import job_cluster_status
from streaming.status.cluster_status import ClusterStatus, from_json, to_bytes
from tests.unit.connectors.metadata.metadata_bytes import batch, control, data
from tests.unit.connectors.metadata.metadata_record_schemas import kafka_values, values, written

THRESHOLDS = thresholds_for({})
EVENT_SCHEMA = to_arrow_schema(EVENT, timezone="UTC")
NOW = 1_790_000_000_000
YEAR_9999, YEAR_10000 = 253_370_764_800_000, 253_402_300_800_000
TIMES = st.sampled_from([NOW, NOW + 5_000, 0, -1, YEAR_9999, YEAR_9999 + 1, YEAR_10000, 2**63 - 1, -(2**63)])
NUMBERS = st.sampled_from([None, 0, 1, 5, -1, 2**53, 2**62, 2**63 - 1, -(2**63)])
_BODIES = [
    (schema.type, version, st.one_of(values(fields), kafka_values(fields)), fields)
    for schema in record_schemas().records.values()
    for version, (fields, *_) in schema.versions.items()
]
_CONTROL = [
    (schema.type, version, st.one_of(values(fields), kafka_values(fields)), fields)
    for schema in record_schemas().control.values()
    for version, (fields, *_) in schema.versions.items()
]


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    """Draws batches whose offsets follow each other, of records with any values."""
    out, offset = b"", draw(st.sampled_from([0, 0, 0, 5, 2**53, 2**63 - 1]))
    for _ in range(draw(st.integers(0, 4))):
        timestamp, epoch = draw(TIMES), draw(st.sampled_from([1, 1, 2, 0, 2**31 - 1, -1]))
        if draw(st.booleans()):
            kind, version, strategy, fields = draw(st.sampled_from(_CONTROL))
            records: Any = [control(kind, written(fields, {**draw(strategy), "version": version}))]
        else:
            drawn = [draw(st.sampled_from(_BODIES)) for _ in range(draw(st.integers(1, 4)))]
            records = [data(key, version, written(fields, draw(strategy))) for key, version, strategy, fields in drawn]
        out += batch(records, base_offset=min(offset, 2**63 - 1), epoch=epoch, timestamp=timestamp)
        offset += len(records)
    return out


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    kind = draw(st.sampled_from([ObservationKind.RECORDS, ObservationKind.RECORDS, ObservationKind.SNAPSHOT]))
    return Observation(
        cluster="prod",
        kind=kind,
        observed_at_ms=NOW,
        base_offset=draw(st.sampled_from([None, 0]) | NUMBERS),
        last_offset=draw(NUMBERS),
        leader_epoch=draw(st.sampled_from([None, 1, 2, 0, -1, 2**31 - 1])),
        high_watermark=draw(st.sampled_from([None, 0, 1]) | NUMBERS),
        payload=draw(payloads() | st.binary(max_size=200)),
    )


def times(quorum: Quorum) -> list[int | None]:
    entries = (*quorum.history.elections, *quorum.history.starts, *quorum.recovering, *quorum.controllers.values())
    found = [getattr(one, "timestamp_ms", None) or getattr(one, "since_timestamp_ms", None) for one in entries]
    return [*found, quorum.newest_timestamp_ms, quorum.committed.timestamp_ms if quorum.committed else None]


@settings(max_examples=150, deadline=None)
@given(st.lists(observations(), min_size=1, max_size=5), st.booleans())
def test_no_record_stops_the_replay_the_rules_or_the_status(rows: list[Observation], blanked: bool) -> None:
    machine = Machine(ClusterSettings(name="prod", bootstrap=("c1.test:9093",)))
    tracked = TrackedConditions()

    for sequence, row in enumerate(rows):
        payload = redact(row.payload) if blanked else row.payload
        recorded = Observation(**{**_fields(row), "payload": payload, "sequence": sequence})
        events = [*decode_observation(recorded).events()]
        # A column that does not fit Arrow's schema raises.
        assert len(arrow_rows([recorded], EVENT_SCHEMA, events=True)) == len(events)
        assert row.kind is ObservationKind.SNAPSHOT or isinstance(events[-1], LogAdvanced)
        machine.apply(events, sequence=sequence, observed_at_ms=Millis(NOW + 60_000 * sequence))
        quorum = machine.quorum()
        evaluation = evaluate(quorum, THRESHOLDS)
        assert not [one.summary for one in evaluation.findings if one.rule == BLIND and "rule" in one.evidence]
        tracked, _ = advance(tracked, evaluation, quorum, THRESHOLDS)
        status = job_cluster_status(quorum, THRESHOLDS, evaluation, tracked)
        assert from_json(to_bytes(status)) == status
        assert isinstance(status, ClusterStatus)
        for at in times(quorum):
            iso(Millis((at or 0) + 86_400_000))
    restored = Machine.from_bytes(
        machine.to_bytes(), ClusterSettings(name="prod", bootstrap=machine.settings.bootstrap)
    )
    assert restored.quorum() == machine.quorum()


def _fields(row: Observation) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__dataclass_fields__}
