"""One cluster whose rows a test passes to the processor, batch by batch, as Spark does; the decoder is left out."""

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import pandas as pd

from connectors.observations.observation import Event, Observation, ObservationKind
from connectors.store.alert_codec import FIRING
from rules.alert import Alert
from rules.evaluate import thresholds_for
from rules.finding import Thresholds
from rules.model.identifiers import Millis
from rules.model.monitoring import Reason, Vantage
from streaming.pipeline.cluster_processor import ClusterProcessor
from streaming.pipeline.schema import group_of, pack, pack_states, unpack_states
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.decoded_row import DecodedRow
from tests.present import present
from tests.scripts.log_script import failed, poll, replica
from tests.unit.streaming.pipeline.quiet_cluster import OneState
from tests.unit.streaming.pipeline.recorded_alerts import RecordedAlerts

NOW = 1_800_000_000_000
BOOTSTRAP = ("c1:9093", "c2:9093", "c3:9093")
SETTINGS = ClusterSettings(name="prod", cluster_id="cluster-id", bootstrap=BOOTSTRAP, vantage=Vantage.INSIDE)


def decoded(row: Observation) -> DecodedRow:
    """Replaces the decoder: the payload is pickled events, so also events that no payload is decoded to."""
    return DecodedRow(row.sequence, Millis(row.observed_at_ms), pickle.loads(row.payload))


@dataclass
class OneCluster:
    """Its rows are a second apart. `options`: those of the processor."""

    thresholds: Mapping[str, Thresholds] = field(default_factory=lambda: thresholds_for({}))
    options: Mapping[str, Any] = field(default_factory=dict)
    state: Any = field(default_factory=OneState)
    sequence: int = -1
    output: list[Any] = field(default_factory=list)
    recorded: RecordedAlerts = field(default_factory=RecordedAlerts)

    @property
    def blob(self) -> bytes:
        """The stored state."""
        return unpack_states(present(self.state.value))["prod"]

    @blob.setter
    def blob(self, blob: bytes) -> None:
        self.state.value = pack_states({"prod": blob})

    def batch(self, *rows: Iterable[Event], restarted: bool = True, at_ms: int | None = None) -> None:
        """Passes a batch to a worker that was restarted or not; `at_ms`: the time of the rows."""
        if restarted:
            ClusterProcessor._cache.clear()
        processor = ClusterProcessor({"prod": replace(SETTINGS, thresholds=self.thresholds)}, **self.options)
        frames = pd.concat([self._frame(row, at_ms) for row in rows])
        with patch("streaming.pipeline.cluster_processor.decoded_row", decoded):
            for frame in processor((group_of("prod"),), iter([frames]), self.state):
                assert len(frame), "no frame without a row"
                self.output += frame.itertuples(index=False)

    def _frame(self, events: Iterable[Event], at_ms: int | None) -> pd.DataFrame:
        self.sequence += 1
        row = Observation(
            cluster="prod",
            kind=ObservationKind.RECORDS,
            observed_at_ms=NOW + 1_000 * self.sequence if at_ms is None else at_ms,
            payload=pickle.dumps([*events]),
            sequence=self.sequence,
        )
        return pack([row]).to_pandas()

    def taken(self, kind: str) -> list[Any]:
        rows = [row for row in self.output if row.kind == kind]
        self.output = [row for row in self.output if row.kind != kind]
        return rows

    def transitions(self) -> list[Alert]:
        """Returns what a ledger would have recorded of what fired in the batches since the last call."""
        return [one for row in self.taken("firing") for one in self.recorded.add(FIRING.validate_json(row.body))]

    def alerts(self) -> list[tuple[str, str, str]]:
        return [(one.rule, one.subject, one.state.value) for one in self.transitions()]


def healthy() -> list[Event]:
    return [poll(*map(replica, ("1-a", "2-b", "3-c")), hw=100)]


def leaderless() -> list[Event]:
    return [failed(Reason.NO_LEADER, place) for place in BOOTSTRAP]
