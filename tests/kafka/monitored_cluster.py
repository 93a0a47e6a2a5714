"""Monitors a real quorum in a test: a gatherer process, and in this process the pure part of the job's step.

The step decodes, applies and evaluates rows without Spark, so that a scenario takes only the seconds that Kafka needs.
The state of the quorum is kept from scenario to scenario; alerts start empty in each, with the scenario's thresholds.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from connectors.decode_observation import decode_observation
from connectors.observation import ObservationKind
from deploy.lab.lab import Lab
from rules.alert import Alert, AlertState
from rules.evaluate import RULES, thresholds_for
from rules.finding import Thresholds
from rules.lifecycle import TrackedConditions
from rules.model.identifiers import Millis
from rules.model.monitoring import Vantage
from streaming.replay.cluster_monitor import ClusterMonitor, DecodedRow
from streaming.replay.machine import Machine
from tests.eventually import eventually
from tests.kafka.gatherer_run import NAME, GathererRun, cluster_of, run_gatherer

CLEAR_S = 1.0
"""The clear duration of every rule in a scenario."""
SLOW_START_S = 300.0
"""The hold of rules whose conditions hold while a JVM starts slowly or the machine stalls: they do not fire in
scenarios of other rules, even if an election or the restart of a killed controller takes long."""
_SLOW_START_RULES = ("no-leader", "high-watermark-stalled", "stale-voter-endpoint", "monitor-blind")


@dataclass(kw_only=True)
class MonitoredCluster:
    """The alerts of one quorum, scenario by scenario."""

    gatherer: GathererRun
    machine: Machine
    kinds: frozenset[ObservationKind] = frozenset(ObservationKind)
    """The kinds of observations to apply."""
    alerts: list[Alert] = field(default_factory=list)
    """The alerts of this scenario, oldest first."""
    _tracked: TrackedConditions = field(default_factory=TrackedConditions)
    _thresholds: Mapping[str, Thresholds] = field(default_factory=lambda: thresholds_for({}))
    _read: int = 0

    def start_scenario(self, thresholds: Mapping[str, float]) -> None:
        """Starts a scenario with these thresholds (`RULE.NAME` -> value); others are the defaults and `SLOW_START_S`.

        Returns once a leader was observed after the call, so that the previous scenario causes no alert.
        """
        self.set_thresholds(thresholds)
        since = time.time() * 1000
        eventually(lambda: self._assert_leader_observed(since), within_s=30)
        self._tracked, self.alerts = TrackedConditions(), []

    def set_thresholds(self, thresholds: Mapping[str, float]) -> None:
        """Changes the thresholds within a scenario, as after a restart. A shorter duration replaces waiting."""
        clears = {f"{each}.clear": CLEAR_S for each in RULES}
        holds = {f"{each}.hold": SLOW_START_S for each in _SLOW_START_RULES}
        self._thresholds = thresholds_for({**clears, **holds, **thresholds})

    def wait_for(self, rule: str, state: str = "firing", *, subject: str = "", within_s: float = 30) -> Alert:
        """Waits until the newest alert of the rule (whose subject contains `subject`) is in this state; returns it.

        The newest, not the first: an alert that fired and resolved is not active.
        """

        def newest_alert() -> Alert:
            self._read_rows()
            matching = [each for each in self.alerts if each.rule == rule and subject in each.subject]
            assert matching, f"no alert of {rule} {subject}; alerts: {self.alert_lines()}"
            assert matching[-1].state is AlertState(state), self.alert_lines()
            return matching[-1]

        return eventually(newest_alert, within_s=within_s)

    @property
    def rules(self) -> set[str]:
        """The rules that had an alert in this scenario, in any state."""
        self._read_rows()
        return {each.rule for each in self.alerts}

    def alert_lines(self) -> list[str]:
        """The alerts of this scenario, one line each."""
        return [f"{each.state} {each.severity} {each.rule} {each.subject}: {each.summary}" for each in self.alerts]

    def _read_rows(self) -> None:
        until = self.gatherer.journal.published_end()
        for row in self.gatherer.journal.read(self._read, until):
            if row.kind in self.kinds:
                decoded = DecodedRow(row.sequence, Millis(row.observed_at_ms), decode_observation(row).events())
                monitor = ClusterMonitor(self.machine, self._tracked, self._thresholds)
                alerts = monitor.observe([decoded])
                self._tracked = monitor.tracked
                self.alerts += alerts
        self._read = until

    def _assert_leader_observed(self, since_ms: float) -> None:
        self._read_rows()
        quorum = self.machine.quorum()
        assert quorum.leader_id is not None
        assert quorum.poll is not None
        assert quorum.poll.observed_at_ms > since_ms
        if ObservationKind.RECORDS in self.kinds:
            assert quorum.log_seen_at_ms is not None
            assert quorum.log_seen_at_ms > since_ms


@contextmanager
def monitor_cluster(lab: Lab, folder: Path) -> Iterator[MonitoredCluster]:
    """Runs a new gatherer and monitors its observations until the block ends."""
    with run_gatherer(folder, cluster_of(lab)) as gatherer:
        yield monitored_cluster_of(lab, gatherer)


def monitored_cluster_of(
    lab: Lab, gatherer: GathererRun, kinds: frozenset[ObservationKind] = frozenset(ObservationKind)
) -> MonitoredCluster:
    """Monitors the rows of a gatherer from the first one, all or only these kinds."""
    machine = Machine(NAME, lab.cluster_id, tuple(lab.bootstrap), Vantage.INSIDE)
    return MonitoredCluster(gatherer=gatherer, machine=machine, kinds=kinds)


@contextmanager
def pause_nodes(lab: Lab, *nodes: int) -> Iterator[None]:
    """Stops these nodes (SIGSTOP) during the block, and resumes them also after a failure."""
    lab.pause(*nodes)
    try:
        yield
    finally:
        lab.resume(*nodes)
