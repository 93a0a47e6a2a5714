"""A recording: the rows of several clusters, and the transitions that they cause, found without Spark.

Three clusters are scripted, so that many alerts fire, change their severity and resolve. Two come from a recorded
journal, whose rows are of every kind (record batches, snapshots).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random

from connectors.observations.observation import (
    EVENT_OF_KIND,
    Event,
    Observation,
    ObservationFailed,
    QuorumPolled,
    to_json,
)
from connectors.observations.partition_run import each_event
from rules.alert import Alert
from rules.evaluate import RULES, thresholds_for
from rules.model.identifiers import Millis
from rules.model.monitoring import Access, ObservationSource, Reason
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.decoded_row import DecodedRow, decode_observation
from tests.recordings import TWO_CLUSTERS, from_line
from tests.scripts.script_quorum import ScriptedQuorum
from tests.simulation.simulation import START_MS

SCRIPTED = ("amber", "birch", "cedar")
HEALTHY_S, FAULT_S = (5, 9), (7, 12)
"""Faults are longer than the short hold and clear times of the recording."""
HOLD_S, CLEAR_S = 3.0, 2.0
"""Of every rule, at most: a condition that lasts ten rows fires and resolves."""
AGE_S = 4.0
"""Of the thresholds after which an observation is too old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCluster:
    """What the configuration of the job says of one cluster."""

    name: str
    cluster_id: str
    bootstrap: tuple[str, ...]
    log: bool = False
    """Whether its rows contain the metadata log."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Rows in the order in which they are appended to the journal."""

    clusters: tuple[RecordedCluster, ...]
    rows: tuple[Observation, ...]

    @cached_property
    def transitions(self) -> Sequence[tuple[int, Alert]]:
        """The transitions, each with the number of the row that causes it, by a replay of one row after the other."""
        monitors = {cluster.name: _monitor(cluster) for cluster in self.clusters}
        found = []
        for number, row in enumerate(self.rows):
            decoded = DecodedRow(number, Millis(row.observed_at_ms), _events(row))
            found += [(number, alert) for alert in monitors[row.cluster].apply((decoded,)).alerts]
        return found

    def rows_before(self, transitions: int) -> int:
        """Returns how many rows cause so many transitions; all rows if there are not so many."""
        if transitions >= len(self.transitions):
            return len(self.rows)
        return self.transitions[transitions][0]


def thresholds() -> Mapping[str, Mapping[str, float]]:
    """Returns the thresholds of the recording, by rule and name."""
    shortest = {"hold": HOLD_S, "clear": CLEAR_S, "answer_age": AGE_S, "poll_age": AGE_S, "fetch_age": AGE_S}
    shortest["caught_up_age"] = AGE_S
    return {
        rule.id: {
            each.name: min(each.default, shortest[each.name]) for each in rule.thresholds if each.name in shortest
        }
        for rule in RULES.values()
    }


def record(seed: int, *, faults: int) -> Recording:
    """Returns the recording of a seed, with so many faults in each scripted cluster."""
    random = Random(seed)
    clusters, rows = [], []
    for name in SCRIPTED:
        script = RecordedScript(name, Random(random.random()))
        rows.append(script.rows(faults))
        clusters.append(RecordedCluster(name=name, cluster_id=f"{name}-id", bootstrap=script.quorum.bootstrap))
    stored = _stored_rows()
    rows.append(stored)
    clusters += [
        RecordedCluster(name=name, cluster_id=cluster_id, bootstrap=(f"{name}-c1.test:9093",), log=True)
        for name, cluster_id in TWO_CLUSTERS.cluster_ids.items()
    ]
    merged = sorted((row for each in rows for row in each), key=lambda row: row.observed_at_ms)
    return Recording(clusters=tuple(clusters), rows=tuple(merged))


def write(recording: Recording, file: Path) -> None:
    """Writes a recording for the process that replays it: one JSON object for each row."""
    with file.open("w", encoding="utf-8") as stream:
        for row in recording.rows:
            plain = {**asdict(row), "payload": row.payload.hex()}
            stream.write(json.dumps(plain, separators=(",", ":")) + "\n")


def read(file: Path) -> Sequence[Observation]:
    """Returns the rows that `write` wrote."""
    with file.open(encoding="utf-8") as stream:
        return [from_line(line) for line in stream]


class RecordedScript:
    """A scripted quorum of three voters in which faults begin and end, as a gatherer without the log observes it."""

    def __init__(self, name: str, random: Random) -> None:
        """`name` is the cluster's."""
        self._name, self._random = name, random
        self._rows: list[Observation] = []
        self.quorum = ScriptedQuorum(domain=f"{name}.test", log_denied=True)
        self.quorum.begin([1, 2, 3], [])

    def rows(self, faults: int) -> list[Observation]:
        """Returns the rows of so many phases with a fault, each between healthy phases."""
        inject = (self._voter_down, self._majority_down, self._disk_replaced, self._unreachable)
        self._advance(HEALTHY_S)
        for _ in range(faults):
            self._random.choice(inject)()
            self._advance(HEALTHY_S)
        self._advance((2 * HEALTHY_S[1], 2 * HEALTHY_S[1]))
        return self._rows

    def _voter_down(self) -> None:
        self.quorum.stop(3)
        self._advance(FAULT_S)
        self.quorum.start(3)

    def _majority_down(self) -> None:
        self.quorum.stop(2)
        self.quorum.stop(3)
        self._advance(FAULT_S)
        self.quorum.start(2)
        # The severity decreases before the alert resolves.
        self._advance(FAULT_S)
        self.quorum.start(3)

    def _disk_replaced(self) -> None:
        self.quorum.wipe(3, f"dir3-{len(self._rows)}")
        self._advance(FAULT_S)
        self.quorum.add(3)

    def _unreachable(self) -> None:
        self.quorum.observations_fail = Reason.TIMED_OUT
        self._advance(FAULT_S)
        self.quorum.observations_fail = None

    def _advance(self, seconds: tuple[int, int]) -> None:
        for _ in range(self._random.randint(*seconds)):
            for row in self.quorum.advance_one_second():
                (event,) = each_event(row.events)
                if not (isinstance(event, ObservationFailed) and event.source is ObservationSource.LOG):
                    self._rows.append(recorded(self._name, event, row.observed_at_ms))


def recorded(name: str, event: Event, at_ms: int) -> Observation:
    """Returns an event of the cluster with this name as a row."""
    event = replace(event, cluster_id=f"{name}-id") if isinstance(event, QuorumPolled) else event
    (kind,) = (kind for kind, type_ in EVENT_OF_KIND.items() if isinstance(event, type_))
    return Observation(cluster=name, kind=kind, observed_at_ms=at_ms, payload=to_json(event))


def _stored_rows() -> list[Observation]:
    """Returns the rows of the recorded journal, moved to the beginning of the recording."""
    rows = TWO_CLUSTERS.observations()
    shift_ms = START_MS - rows[0].observed_at_ms
    return [replace(row, observed_at_ms=row.observed_at_ms + shift_ms, sequence=-1) for row in rows]


def _monitor(cluster: RecordedCluster) -> ClusterMonitor:
    overrides = {f"{rule}.{name}": value for rule, values in thresholds().items() for name, value in values.items()}
    return ClusterMonitor(
        ClusterSettings(
            name=cluster.name,
            cluster_id=cluster.cluster_id,
            bootstrap=cluster.bootstrap,
            access=Access(log=cluster.log),
            thresholds=thresholds_for(overrides),
        ),
    )


def _events(row: Observation) -> Sequence[Event]:
    return tuple(decode_observation(row).events())
