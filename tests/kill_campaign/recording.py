"""A recording: the rows of several churning clusters, and the transitions that they cause, found without Spark."""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from connectors.observations.observation import Observation
from rules.alert import Alert
from rules.evaluate import RULES, thresholds_for
from rules.model.identifiers import Millis
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.decoded_row import DecodedRow, decode_observation
from tests.day_of_life.churning_cluster import ChurningCluster
from tests.simulation.simulation import START_MS

CLUSTERS = ("amber", "birch", "cedar", "delta")
PACE = 20.0
"""Of the churn: faults last seconds, longer than the hold and clear times of the recording."""
SHORTEST_S = {"hold": 3.0, "clear": 2.0, "answer_age": 4.0, "poll_age": 4.0, "fetch_age": 4.0, "caught_up_age": 4.0}
"""Thresholds of every rule are at most these: a condition that lasts ten rows fires and resolves."""
CALM_S = 60
"""At the end of a recording."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Rows in the order in which they are appended to the journal."""

    clusters: Sequence[ChurningCluster]
    rows: Sequence[Observation]
    transitions: Sequence[tuple[int, Alert]]
    """The transitions, each with the number of the row that causes it, by a replay of one row after the other."""

    def rows_before(self, transitions: int) -> int:
        """Returns how many rows cause so many transitions; all rows if there are not so many."""
        if transitions >= len(self.transitions):
            return len(self.rows)
        return self.transitions[transitions][0]


def thresholds() -> Mapping[str, Mapping[str, float]]:
    """Returns the thresholds of the recording, by rule and name."""
    return {
        rule.id: {
            each.name: min(each.default, SHORTEST_S[each.name]) for each in rule.thresholds if each.name in SHORTEST_S
        }
        for rule in RULES.values()
    }


def record(seed: int, *, transitions: int) -> Recording:
    """Returns the recording of a seed, with at least so many transitions."""
    clusters = [ChurningCluster(name, seed + number, START_MS, pace=PACE) for number, name in enumerate(CLUSTERS)]
    monitors = [_monitor(cluster) for cluster in clusters]
    rows: list[Observation] = []
    found: list[tuple[int, Alert]] = []
    calm_s = 0
    while calm_s < CALM_S:
        calm_s += len(found) >= transitions
        for cluster, monitor in zip(clusters, monitors, strict=True):
            cluster.calm = calm_s > 0
            for row in cluster.advance():
                number, at_ms = len(rows), Millis(row.observed_at_ms)
                decoded = DecodedRow(number, at_ms, tuple(decode_observation(row).events()))
                found += [(number, alert) for alert in monitor.apply((decoded,)).alerts]
                rows.append(row)
    return Recording(clusters=clusters, rows=rows, transitions=found)


def write(recording: Recording, file: Path) -> None:
    """Writes the rows for the process that replays them."""
    file.write_bytes(pickle.dumps(recording.rows))


def read(file: Path) -> Sequence[Observation]:
    """Returns the rows that `write` wrote."""
    rows: Sequence[Observation] = pickle.loads(file.read_bytes())
    return rows


def _monitor(cluster: ChurningCluster) -> ClusterMonitor:
    overrides = {f"{rule}.{name}": value for rule, values in thresholds().items() for name, value in values.items()}
    settings = ClusterSettings(
        name=cluster.name,
        cluster_id=f"{cluster.name}-id",
        bootstrap=cluster.bootstrap,
        thresholds=thresholds_for(overrides),
    )
    return ClusterMonitor(settings)
