"""Monitors a real quorum in a test: a gatherer process, and in this process the pure part of the job's processor.

The processor decodes, applies and evaluates rows without Spark, so that a scenario takes the seconds that Kafka needs.
The state of the quorum is kept from scenario to scenario; alerts start empty in each, with the scenario's thresholds.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

from rules.alert import Alert, AlertState
from rules.evaluate import thresholds_for
from rules.finding import Severity
from rules.lifecycle import TrackedConditions
from rules.model.quorum import Quorum
from streaming.demo.fault import ExpectedAlert
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.machine import Machine
from streaming.status.build_status import job_cluster_status
from streaming.status.cluster_status import ClusterStatus
from tests.agreement.agreement import assert_outputs_agree
from tests.eventually import eventually
from tests.faults import RESTARTED_OFTEN
from tests.in_background import in_background
from tests.kafka.gatherer_run import NAME, GathererRun, cluster_of, run_gatherer
from tests.lab import Lab
from tests.scripts.sent_notifications import SentNotifications
from tests.sinks.server import serving

CLEAR_S = 1.0
"""The clear duration of every rule in a scenario."""
SLOW_START_S = 300.0
"""The hold of rules whose conditions hold while a JVM starts slowly or the machine stalls: they do not fire in
scenarios of other rules, even if an election or the restart of a killed controller takes long."""
_SLOW_START_RULES = ("no-leader", "stale-voter-endpoint", "monitor-blind")
_SHARED_QUORUM = {**RESTARTED_OFTEN, "failure-tolerance.share": 101.0}
"""Scenarios share a quorum, which is never in sync for long."""


@dataclass(kw_only=True)
class MonitoredCluster:
    """The alerts of one quorum, scenario by scenario."""

    gatherer: GathererRun
    monitor: ClusterMonitor
    alerts: list[Alert] = field(default_factory=list)
    """The alerts of this scenario, oldest first."""
    _read: int = 0

    @property
    def machine(self) -> Machine:
        """The state of the quorum."""
        return self.monitor.machine

    def start_scenario(self, thresholds: Mapping[str, float]) -> None:
        """Starts a scenario with these thresholds (`RULE.NAME` -> value); others are the defaults and `SLOW_START_S`.

        Returns once a leader was observed after the call, so that the previous scenario causes no alert.
        """
        self.set_thresholds(thresholds)
        self.wait_until_observed()
        self.monitor.tracked, self.alerts = TrackedConditions(), []

    def set_thresholds(self, thresholds: Mapping[str, float]) -> None:
        """Changes the thresholds within a scenario, as after a restart. A shorter duration replaces waiting."""
        holds = {f"{each}.hold": SLOW_START_S for each in _SLOW_START_RULES}
        whole = thresholds_for({"alerts.clear": CLEAR_S, **holds, **_SHARED_QUORUM, **thresholds})
        settings = replace(self.monitor.settings, thresholds=whole)
        self.monitor = ClusterMonitor.restored(self.monitor.to_bytes(), settings)

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

        alert = eventually(newest_alert, within_s=within_s)
        self.assert_outputs_agree()
        return alert

    def expect(self, expected: ExpectedAlert) -> Alert:
        """Waits until this alert fires, and returns it; its severity and text are as expected."""
        alert = self.wait_for(expected.rule, subject=expected.subject)
        assert [*expected.problems(severity=alert.severity, summary=alert.summary, remedy=alert.remedy)] == []
        return alert

    def wait_for_quorum(self, condition: Callable[[Quorum], bool], *, within_s: float = 30) -> None:
        """Waits until the quorum, as it is observed, fulfils a condition."""

        def fulfilled() -> None:
            self._read_rows()
            assert condition(self.machine.quorum())

        eventually(fulfilled, within_s=within_s)
        self.assert_outputs_agree()

    def status(self) -> ClusterStatus:
        """Returns the status that a job publishes now."""
        self._read_rows()
        return job_cluster_status(self.monitor.facts, self.monitor.settings.thresholds)

    def assert_outputs_agree(self) -> None:
        """Asserts that no two outputs of this moment contradict each other, the alerts that fire among them."""
        tracked = self.monitor.tracked.conditions
        # What is not found any more keeps its text until it resolves.
        firing = [
            one
            for one in self.monitor.firing(None, ()).alerts
            if tracked[f"{one.rule} {one.subject}"].clearing_since_ms is None
        ]
        facts, _ = self.monitor.evaluated
        assert_outputs_agree(facts.quorum, thresholds=self.monitor.settings.thresholds, firing=firing)

    def wait_until_observed(self) -> None:
        """Waits until a leader answers a request that was sent after the call."""
        since = time.time() * 1000
        eventually(lambda: self._assert_leader_observed(since), within_s=30)

    @property
    def rules(self) -> set[str]:
        """The rules that had an alert in this scenario, in any state."""
        self._read_rows()
        return {each.rule for each in self.alerts}

    def alert_lines(self) -> list[str]:
        """The alerts of this scenario, one line each."""
        return [f"{each.state} {each.severity} {each.rule} {each.subject}: {each.summary}" for each in self.alerts]

    def sent(self, folder: Path, *, min_severity: Severity = Severity.INFO) -> list[str]:
        """Delivers the alerts of this scenario to a real HTTP sink; returns a line for each request that it got."""
        self._read_rows()
        start_ms = self.alerts[0].observed_at_ms
        with serving() as server:
            sent = SentNotifications(server, folder, start_ms=start_ms, min_severity=min_severity)
            for alert in self.alerts:
                sent.deliver((alert,), alert.observed_at_ms)
        return [line.split(" ", 1)[1] for line in sent.lines]

    def _read_rows(self) -> None:
        until = self.gatherer.journal.published_end()
        for row in self.gatherer.journal.read(self._read, until):
            self.alerts += self.monitor.apply((row,)).alerts
        self._read = until

    def _assert_leader_observed(self, since_ms: float) -> None:
        self._read_rows()
        quorum = self.machine.quorum()
        assert quorum.leader_id is not None
        assert quorum.poll is not None
        assert quorum.poll.observed_at_ms > since_ms
        assert quorum.log_fetched_at_ms is not None
        assert quorum.log_fetched_at_ms > since_ms


@contextmanager
def monitor_cluster(lab: Lab, folder: Path) -> Iterator[MonitoredCluster]:
    """Runs a new gatherer and monitors its observations until the block ends."""
    with run_gatherer(folder, cluster_of(lab)) as gatherer:
        yield monitored_cluster_of(lab, gatherer)


def monitored_cluster_of(lab: Lab, gatherer: GathererRun, *, name: str = NAME) -> MonitoredCluster:
    """Monitors the rows of a gatherer from the first one."""
    settings = ClusterSettings(name=name, cluster_id=lab.cluster_id, bootstrap=tuple(lab.bootstrap))
    return MonitoredCluster(gatherer=gatherer, monitor=ClusterMonitor(settings))


@contextmanager
def pause_nodes(lab: Lab, *nodes: int) -> Iterator[None]:
    """Stops these nodes (SIGSTOP) during the block, and resumes them also after a failure."""
    lab.pause(*nodes)
    try:
        yield
    finally:
        lab.resume(*nodes)


@contextmanager
def run_in_bursts(lab: Lab, *nodes: int, runs_s: float = 0.15, pauses_s: float = 1.55) -> Iterator[None]:
    """Lets these nodes run for a moment and stops them (SIGSTOP) for longer, all together, until the block ends."""

    def run(ended: Event) -> None:
        while not ended.is_set():
            with pause_nodes(lab, *nodes):
                ended.wait(pauses_s)
            ended.wait(runs_s)

    with in_background(run):
        yield
