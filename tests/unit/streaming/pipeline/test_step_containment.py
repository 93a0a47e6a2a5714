"""Nothing that one cluster's rows or state hold ends the query: it becomes that cluster's violated data contract."""

import base64
import json
import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pandas as pd
import pytest

from connectors.errors import UsageError
from connectors.observations.log_event import Undecodable
from connectors.observations.observation import Event, Observation, ObservationKind
from rules.evaluate import thresholds_for
from rules.finding import Thresholds
from rules.model.identifiers import Millis
from rules.model.monitoring import Reason, Vantage
from streaming.pipeline import step as step_module
from streaming.pipeline.schema import group_of, pack, pack_states, unpack_states
from streaming.pipeline.step import Step
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.decoded_row import DecodedRow
from tests.unit.rules.situation import present
from tests.unit.streaming.replay.log_script import failed, poll, replica

NOW = 1_800_000_000_000
BOOTSTRAP = ("c1:9093", "c2:9093", "c3:9093")


@dataclass
class SparkState:
    """Stands for Spark's GroupState of a group with one cluster: its state outlives a batch."""

    blob: bytes | None = None

    @property
    def exists(self) -> bool:
        return self.blob is not None

    @property
    def get(self) -> tuple[bytes]:
        assert self.blob is not None
        return (pack_states({"prod": self.blob}),)

    def update(self, value: tuple[bytes]) -> None:
        (self.blob,) = unpack_states(value[0]).values()


def decoded(row: Observation) -> DecodedRow:
    """Replaces the decoder: the payload is pickled events, so also events that no payload is decoded to."""
    return DecodedRow(row.sequence, Millis(row.observed_at_ms), pickle.loads(row.payload))


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
            name="prod",
            cluster_id="cluster-id",
            bootstrap=BOOTSTRAP,
            vantage=Vantage.INSIDE,
            thresholds=self.thresholds,
        )
        for frame in self.pass_to(Step({"prod": settings}), pd.concat(frames)):
            self.output += list(frame.itertuples(index=False))

    def pass_to(self, step: Step, frame: pd.DataFrame) -> list[pd.DataFrame]:
        """Passes rows that `frame` made to a step; returns its output."""
        state: Any = self.state
        with patch("streaming.pipeline.step.decoded_row", decoded):
            return [*step((group_of("prod"),), iter([frame]), state)]

    def frame(self, events: Iterable[Event], observed_at_ms: int | None = None) -> pd.DataFrame:
        self.sequence += 1
        now_ms = NOW + 1_000 * self.sequence if observed_at_ms is None else observed_at_ms
        row = Observation(
            cluster="prod",
            kind=ObservationKind.RECORDS,
            observed_at_ms=now_ms,
            payload=pickle.dumps([*events]),
            sequence=self.sequence,
        )
        return pack([row]).to_pandas()

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


def test_a_row_that_cannot_be_decoded_is_quarantined() -> None:
    cluster = OneCluster()
    cluster.batch([Undecodable(offset=None, reason="a quorum row is no event", length=3)])

    (quarantined,) = cluster.taken("quarantine")
    assert quarantined.name == "0-0"
    assert json.loads(quarantined.body)["reason"] == "a quorum row is no event"
    assert cluster.alerts() == [("data-contract-broken", "every-record-decodes", "firing")]
    assert len(cluster.taken("status")) == 1


def test_changed_thresholds_apply_to_a_state_that_the_worker_keeps() -> None:
    cluster = OneCluster(thresholds_for({"no-leader.hold": 3_600}))
    for _ in range(8):
        cluster.batch(leaderless(), restarted=False)
    assert cluster.alerts() == []

    cluster.thresholds = thresholds_for({"no-leader.hold": 1})
    cluster.batch(leaderless(), restarted=False)
    assert cluster.alerts() == [("no-leader", "quorum", "firing")]


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


@pytest.mark.parametrize("render", ["_alert", "_due"], ids=["the alert", "the time of the next poll"])
def test_what_cannot_be_rendered_is_reported_although_the_status_can(
    monkeypatch: pytest.MonkeyPatch, render: str
) -> None:
    rendered = getattr(step_module, render)

    def raising(cluster: str, value: Any) -> Any:
        if getattr(value, "rule", "no-leader") == "no-leader":
            raise ValueError
        return rendered(cluster, value)

    monkeypatch.setattr(step_module, render, raising)
    cluster = OneCluster()
    for _ in range(9):
        cluster.batch(leaderless())

    assert cluster.taken("status")
    assert ("data-contract-broken", "every-status-can-be-rendered", "firing") in cluster.alerts()


def test_a_damaged_state_is_kept_in_quarantine_and_the_cluster_starts_with_a_new_one() -> None:
    cluster = OneCluster()
    for _ in range(8):
        cluster.batch(leaderless())
    assert cluster.alerts() == [("no-leader", "quorum", "firing")]
    damaged = cluster.state.blob = present(cluster.state.blob)[:-1]
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
    cluster.state.blob = present(cluster.state.blob)[:end]
    for _ in range(8):
        cluster.batch(leaderless())

    assert {alert[0] for alert in cluster.alerts()} == {"data-contract-broken", "no-leader"}


def test_a_state_of_another_version_is_refused() -> None:
    """An operator's mistake, by which nothing is lost."""
    cluster = OneCluster()
    cluster.batch(leaderless())
    cluster.state.blob = present(cluster.state.blob)[:3] + b"\xff" + present(cluster.state.blob)[4:]

    with pytest.raises(UsageError, match="run the kraftwatch that wrote it"):
        cluster.batch(leaderless())
