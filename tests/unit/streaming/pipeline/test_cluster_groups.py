"""Clusters of one group do not affect each other: alerts and states are those of each cluster alone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.observations.observation import Observation
from connectors.store.alert_codec import FIRING
from rules.alert import Alert
from streaming.pipeline import cluster_processor
from streaming.pipeline.cluster_processor import ClusterProcessor
from streaming.pipeline.evaluation_budget import EvaluationBudget
from streaming.pipeline.output_rows import OutputRow
from streaming.pipeline.schema import GROUPS, group_of, pack, pack_states, unpack_states
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from tests.recordings import BROKER_RESTART, TWO_CLUSTERS, RecordedJournal
from tests.unit.streaming.pipeline.quiet_cluster import OneState, cluster_names, quiet_second, settings_of
from tests.unit.streaming.pipeline.recorded_alerts import RecordedAlerts

GROUP = 5


@pytest.fixture(autouse=True)
def no_former_states(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Also: no row waits for the next batch because the machine is slow."""
    monkeypatch.setattr(cluster_processor, "EvaluationBudget", lambda: EvaluationBudget(lambda: 0.0))
    ClusterProcessor._cache.clear()
    yield
    ClusterProcessor._cache.clear()


@dataclass
class OneGroup:
    """Calls the processor as Spark does, with the rows of several clusters as one group."""

    clusters: Mapping[str, ClusterSettings]
    state: OneState = field(default_factory=OneState)
    output: list[OutputRow] = field(default_factory=list)

    def batch(self, rows: Iterable[Observation]) -> None:
        state: Any = self.state
        for frame in ClusterProcessor(self.clusters)((GROUP,), iter([pack([*rows]).to_pandas()]), state):
            self.output += [(*row,) for row in frame.itertuples(index=False)]

    @property
    def states(self) -> Mapping[str, bytes]:
        assert self.state.value is not None
        return unpack_states(self.state.value)

    def alerts(self, cluster: str) -> list[Alert]:
        recorded = RecordedAlerts()
        found = (body for kind, name, _, body in self.output if (kind, name) == ("firing", cluster))
        return [alert for body in found for alert in recorded.add(FIRING.validate_json(body))]

    def quarantined(self) -> list[tuple[str, str]]:
        return [(cluster, name) for kind, cluster, name, _ in self.output if kind == "quarantine"]


def seconds(names: Sequence[str], first: int, end: int) -> Iterator[Observation]:
    """Yields the rows of quiet clusters, numbered as in a journal."""
    for second in range(first, end):
        rows = [row for name in names for row in quiet_second(name, second)]
        for number, row in enumerate(rows):
            yield replace(row, sequence=1_000 * second + number)


def quiet_group(names: Sequence[str]) -> OneGroup:
    return OneGroup({name: settings_of(name) for name in names})


@pytest.mark.parametrize(
    ("journal", "restarted"),
    [
        pytest.param(TWO_CLUSTERS, False, id="two clusters, same worker"),
        pytest.param(BROKER_RESTART, True, id="restart of a broker, restarted worker"),
        pytest.param(TWO_CLUSTERS, True, id="two clusters, restarted worker", marks=pytest.mark.long),
        pytest.param(BROKER_RESTART, False, id="restart of a broker, same worker", marks=pytest.mark.long),
    ],
)
def test_alerts_of_a_recording_are_those_of_each_cluster_alone(journal: RecordedJournal, restarted: bool) -> None:
    clusters = {cluster: journal.monitor(cluster).settings for cluster in journal.cluster_ids}
    rows, chooser = journal.observations(), Random(7)
    together, alone = OneGroup(clusters), {cluster: OneGroup(clusters) for cluster in clusters}
    at = 0
    while at < len(rows):
        until = at + chooser.randint(1, 400)
        together.batch(rows[at:until])
        at = until
        if restarted:
            ClusterProcessor._cache.clear()
    for cluster, group in alone.items():
        ClusterProcessor._cache.clear()
        of_cluster = [row for row in rows if row.cluster == cluster]
        for first in range(0, len(of_cluster), 500):
            group.batch(of_cluster[first : first + 500])

    for cluster, group in alone.items():
        monitor = journal.monitor(cluster)
        expected = [alert for row in journal.rows(cluster) for alert in monitor.apply([row]).alerts]
        assert expected
        assert keys(together.alerts(cluster)) == keys(group.alerts(cluster)) == keys(expected)
        assert set(group.states) == {cluster}
        assert restored(clusters[cluster], together).tracked == restored(clusters[cluster], group).tracked


def test_what_fires_does_not_end_because_its_clusters_state_is_damaged() -> None:
    """The rows after it begin in the middle of the log: they do not show that a broker is not fenced."""
    group = OneGroup({"lab": BROKER_RESTART.monitor("lab").settings})
    rows = BROKER_RESTART.observations()
    group.batch(rows[:300])
    assert ("broker-fenced", "broker 102", "firing") in states_of(group)
    group.state.value = pack_states({"lab": group.states["lab"][:-1]})
    ClusterProcessor._cache.clear()
    group.batch(rows[300:700])

    found = states_of(group)
    assert ("data-contract-broken", "every-state-can-be-read", "firing") in found
    assert [each for each in found if each[2] == "resolved"] == []


def states_of(group: OneGroup) -> list[tuple[str, str, str]]:
    return [(alert.rule, alert.subject, alert.state) for alert in group.alerts("lab")]


def keys(alerts: Iterable[Alert]) -> list[Any]:
    """Their texts and severities may be newer: those of the end of the batch."""
    return sorted({(each.rule, each.subject, each.started_at_ms, each.state) for each in alerts})


def restored(settings: ClusterSettings, group: OneGroup) -> ClusterMonitor:
    return ClusterMonitor.restored(group.states[settings.name], settings)


def test_a_cluster_without_rows_is_neither_decoded_nor_encoded() -> None:
    one, other = cluster_names(2)
    group = quiet_group([one, other])
    group.batch(seconds([one, other], 0, 3))
    before = group.states
    ClusterProcessor._cache.clear()

    with (
        patch.object(ClusterMonitor, "restored", wraps=ClusterMonitor.restored) as decodes,
        patch.object(ClusterMonitor, "to_bytes", autospec=True, side_effect=ClusterMonitor.to_bytes) as encodes,
    ):
        group.batch(seconds([one], 3, 4))

    assert [call.args[0] for call in decodes.call_args_list] == [before[one]]
    assert {call.args[0].settings.name for call in encodes.call_args_list} == {one}
    assert group.states[one] != before[one]
    assert group.states[other] == before[other]


def test_the_state_of_a_cluster_that_is_no_longer_configured_is_kept() -> None:
    one, other = cluster_names(2)
    group = quiet_group([one, other])
    group.batch(seconds([one, other], 0, 3))
    before = group.states[other]

    group.clusters = {one: settings_of(one)}
    group.batch(seconds([one, other], 3, 6))

    assert group.states[other] == before


def test_a_damaged_state_concerns_its_own_cluster_only() -> None:
    names = cluster_names(3)
    group = quiet_group(names)
    group.batch(seconds(names, 0, 3))
    states = {**group.states, names[1]: b"damaged"}
    group.state.value = pack_states(states)
    ClusterProcessor._cache.clear()
    group.output.clear()

    group.batch(seconds(names, 3, 6))

    assert {cluster for cluster, _ in group.quarantined()} == {names[1]}
    assert {(alert.rule, alert.subject) for alert in group.alerts(names[1])} == {
        ("data-contract-broken", "every-state-can-be-read"),
        ("data-contract-broken", "no-offset-is-passed-over"),
    }
    assert not group.alerts(names[0])
    assert not group.alerts(names[2])


@given(st.dictionaries(st.text(max_size=20), st.binary(max_size=200), min_size=1, max_size=5), st.data())
def test_states_of_a_group_are_those_that_were_packed(states: dict[str, bytes], data: st.DataObject) -> None:
    value = pack_states(states)
    end = data.draw(st.integers(len(pack_states(dict([*states.items()][:-1]))) + 1, len(value) - 1))

    assert unpack_states(value) == states
    with pytest.raises(ValueError, match="damaged"):
        unpack_states(value[:end])


def test_clusters_are_spread_over_all_groups() -> None:
    sizes = [0] * 256
    for name in cluster_names(1_000):
        sizes[group_of(name)] += 1

    assert sum(1 for size in sizes if size) == GROUPS
    assert max(sizes) <= 3 * 1_000 / GROUPS
