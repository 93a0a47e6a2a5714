"""Nothing that one cluster's rows or state hold ends the query: it becomes that cluster's violated data contract."""

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from connectors.errors import UsageError
from connectors.event import Event
from connectors.event_columns import EventColumns
from connectors.log_event import LeaderChanged, LogAdvanced, RecordPosition
from connectors.observation import ObservationKind
from rules.evaluate import thresholds_for
from rules.finding import Thresholds
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.monitoring import Reason, Vantage
from streaming.pipeline.decode import EVENT_ARROW, decode_batches, event_table
from streaming.pipeline.packed_events import HEADER, pack
from streaming.pipeline.schema import OBSERVATION
from streaming.pipeline.step import ClusterSettings, Step
from tests.unit.streaming.replay.log_script import failed, poll, replica

NOW = 1_800_000_000_000
BOOTSTRAP = ("c1:9093", "c2:9093", "c3:9093")


@dataclass
class SparkState:
    """Stands for Spark's GroupState: one blob per cluster that outlives a batch."""

    blob: bytes | None = None

    @property
    def exists(self) -> bool:
        return self.blob is not None

    @property
    def get(self) -> tuple[bytes | None]:
        return (self.blob,)

    def update(self, value: tuple[bytes]) -> None:
        (self.blob,) = value


@dataclass
class OneCluster:
    """Calls the step as Spark does, batch by batch."""

    thresholds: Mapping[str, Thresholds] = field(default_factory=lambda: thresholds_for({}))
    state: SparkState = field(default_factory=SparkState)
    sequence: int = -1
    output: list[Any] = field(default_factory=list)

    def batch(self, *rows: Iterable[Event], restarted: bool = True) -> None:
        frames = [self.frame(row) for row in rows]
        if restarted:
            Step._cache.clear()
        settings = ClusterSettings(
            cluster_id="cluster-id", bootstrap=BOOTSTRAP, vantage=Vantage.INSIDE, thresholds=self.thresholds
        )
        state: Any = self.state
        for frame in Step({"prod": settings})(("prod", 0), iter([pd.concat(frames)]), state):
            self.output += list(frame.itertuples(index=False))

    def frame(self, events: Iterable[Event], observed_at_ms: int | None = None) -> pd.DataFrame:
        self.sequence += 1
        now_ms = NOW + 1_000 * self.sequence if observed_at_ms is None else observed_at_ms
        row = {"cluster": "prod", "sequence": self.sequence, "observed_at_ms": now_ms}
        return pack(event_table(row, EventColumns(events))).to_pandas()

    def taken(self, kind: str) -> list[Any]:
        rows = [row for row in self.output if row.kind == kind]
        self.output = [row for row in self.output if row.kind != kind]
        return rows

    def alerts(self) -> list[tuple[str, str, str]]:
        alerts = [json.loads(row.body) for row in self.taken("alert")]
        return [(alert["rule"], alert["subject"], alert["state"]) for alert in alerts]


def healthy() -> list[Event]:
    return [poll(*map(replica, ("1-a", "2-b", "3-c")), hw=90)]


def leaderless() -> list[Event]:
    return [failed(Reason.NO_LEADER, place) for place in BOOTSTRAP]


def in_the_year_12000() -> list[Event]:
    at = RecordPosition(offset=Offset(0), leader_epoch=Epoch(1), timestamp_ms=Millis(316_500_000_000_000))
    read = LogAdvanced(
        last_offset=Offset(0), leader_epoch=Epoch(1), high_watermark=Offset(1), newest_timestamp_ms=at.timestamp_ms
    )
    return [LeaderChanged(at=at, leader_id=NodeId(1), voter_ids=()), read]


def test_a_row_whose_columns_are_no_events_is_undecodable() -> None:
    cluster = OneCluster()
    damaged = cluster.frame(healthy())
    damaged["events"] = [damaged["events"][0][:HEADER] + b"\0\0\0\1{"]
    settings = ClusterSettings(cluster_id="cluster-id", bootstrap=BOOTSTRAP, vantage=Vantage.INSIDE)
    state: Any = cluster.state
    (frame,) = Step({"prod": settings})(("prod", 0), iter([damaged]), state)
    cluster.output += list(frame.itertuples(index=False))

    (quarantined,) = cluster.taken("quarantine")
    assert quarantined.name == "0-0"
    reason = json.loads(quarantined.body)["reason"]
    assert reason.startswith("its events cannot be read: ValidationError in connectors.event, line ")
    assert cluster.alerts() == [("data-contract-broken", "every-record-decodes", "firing")]
    assert len(cluster.taken("status")) == 1


@pytest.mark.parametrize("restarted", [True, False], ids=["restarted worker", "same worker"])
def test_a_failing_rule_blinds_no_other_rule(restarted: bool) -> None:
    cluster = OneCluster({**thresholds_for({}), "voter-lagging": Thresholds(values={"hold": 0, "clear": 10})})
    for _ in range(8):
        cluster.batch(leaderless(), restarted=restarted)
    for _ in range(2):
        cluster.batch(healthy(), restarted=restarted)

    assert cluster.alerts() == [
        ("no-leader", "quorum", "firing"),
        ("data-contract-broken", "every-rule-can-be-evaluated", "firing"),
    ]
    (quarantined,) = cluster.taken("quarantine")
    body = json.loads(quarantined.body)
    assert (quarantined.name, body["sequence"]) == ("8-1", 8)
    assert body["reason"].startswith("could not be evaluated: rule voter-lagging: KeyError in rules.")


def test_a_state_that_cannot_be_evaluated_is_reported_and_keeps_its_last_status() -> None:
    complete = thresholds_for({})
    cluster = OneCluster({rule: complete[rule] for rule in complete if rule != "no-leader"})
    for _ in range(3):
        cluster.batch(leaderless())

    assert cluster.alerts() == [
        ("data-contract-broken", "every-row-can-be-applied", "firing"),
        ("data-contract-broken", "every-status-can-be-rendered", "firing"),
    ]
    assert cluster.taken("status") == []
    assert [row.name for row in cluster.taken("quarantine")] == ["0-3", "1-3", "2-3"]

    cluster.thresholds = complete
    for _ in range(8):
        cluster.batch(leaderless())
    assert ("no-leader", "quorum", "firing") in cluster.alerts()
    assert len(cluster.taken("status")) == 8


def test_alerts_go_out_if_the_status_cannot_be_rendered() -> None:
    cluster = OneCluster()
    cluster.batch(in_the_year_12000())
    for _ in range(8):
        cluster.batch(leaderless())

    assert ("no-leader", "quorum", "firing") in cluster.alerts()
    assert cluster.state.exists


def test_a_damaged_state_is_kept_in_quarantine_and_the_cluster_starts_with_a_new_one() -> None:
    cluster = OneCluster()
    for _ in range(8):
        cluster.batch(leaderless())
    assert cluster.alerts() == [("no-leader", "quorum", "firing")]
    assert cluster.state.blob is not None
    damaged = cluster.state.blob = cluster.state.blob[:-1]
    cluster.batch(leaderless())

    assert cluster.alerts() == [("data-contract-broken", "every-state-can-be-read", "firing")]
    (quarantined,) = cluster.taken("quarantine")
    assert base64.b64decode(json.loads(quarantined.body)["state"]) == damaged
    # The alert was readable, so it resolves when the quorum is healthy again.
    for _ in range(14):
        cluster.batch(healthy())
    assert ("no-leader", "quorum", "resolved") in cluster.alerts()
    assert cluster.taken("quarantine") == []


@pytest.mark.parametrize("end", [0, 3, 5, 40])
def test_a_state_of_which_nothing_can_be_read_ends_no_query(end: int) -> None:
    cluster = OneCluster()
    cluster.batch(leaderless())
    assert cluster.state.blob is not None
    cluster.state.blob = cluster.state.blob[:end]
    for _ in range(8):
        cluster.batch(leaderless())

    assert {alert[0] for alert in cluster.alerts()} == {"data-contract-broken", "no-leader"}


def test_a_state_of_another_version_is_refused() -> None:
    """An operator's mistake, by which nothing is lost."""
    cluster = OneCluster()
    cluster.batch(leaderless())
    assert cluster.state.blob is not None
    cluster.state.blob = cluster.state.blob[:3] + b"\xff" + cluster.state.blob[4:]

    with pytest.raises(UsageError, match="run the kraftwatch that wrote them"):
        cluster.batch(leaderless())


def observation(**more: object) -> dict[str, object]:
    row = {
        "cluster": "prod",
        "kind": ObservationKind.FAILED.value,
        "observed_at_ms": NOW,
        "payload": b"{",
        "sequence": 1,
    }
    return {**dict.fromkeys(OBSERVATION.fieldNames()), **row, **more}


def decoded(*rows: Mapping[str, object]) -> list[tuple[int, str]]:
    """Decodes rows as one batch: the sequence of each event, and the reason if it is undecodable."""
    (batch,) = decode_batches(iter([pa.RecordBatch.from_pylist(list(rows))]))
    assert batch.schema == EVENT_ARROW
    events = batch.to_pylist()
    reasons = [
        json.loads(event["body"]).get("reason", "") if event["type"] == "undecodable" else "" for event in events
    ]
    return [(event["sequence"], reason) for event, reason in zip(events, reasons, strict=True)]


def test_a_row_of_an_unknown_kind_is_undecodable_and_the_others_are_decoded() -> None:
    (unknown, records) = decoded(observation(kind="rumour"), observation(sequence=2, kind="records", payload=b""))

    assert unknown[0] == 1
    assert unknown[1].startswith("the row cannot be decoded: ValueError in streaming.pipeline.decode, line ")
    assert records == (2, "")


def test_a_row_whose_values_do_not_fit_the_columns_is_undecodable() -> None:
    too_long = observation(kind="records", payload=b"", leader_epoch=2**40)
    events = decoded(observation(sequence=2, kind="records", payload=b""), too_long)

    assert events[0] == (2, "")
    assert {sequence for sequence, _ in events} == {1, 2}
    assert [reason for sequence, reason in events if sequence == 1 and reason]
