"""ChaosOutages: what is said of total outages of a real quorum, and when.

Each is one incident: its first page comes within 15 s of its hold, it does not resolve before something is committed,
and a command that begins in the middle of it says what the job's alert says.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typer.testing import Result

from connectors.delivery.ledger import Ledger
from connectors.sinks.sink import DeliveryMode
from connectors.sinks.slack.blocks import headline
from connectors.store.tables import job_database
from deploy.lab import LabError
from rules.alert import Alert, AlertState
from rules.claims.claim import NO, Question
from rules.evaluate import thresholds_for
from rules.finding import HOLD, Severity
from rules.model.identifiers import Millis
from streaming.status.build_status import job_cluster_status
from streaming.status.status_store import ReceivedStatus
from streaming.web.cluster_view import ClusterView
from tests.chaos.chaos_lab import ChaosLab
from tests.chaos.outages import OUTAGES, Outage
from tests.cli import program
from tests.eventually import eventually
from tests.kafka.gatherer_run import NAME, cluster_of, run_gatherer
from tests.kafka.monitored_cluster import MonitoredCluster, monitored_cluster_of
from tests.recording_dispatcher import RecordingDispatcher
from tests.unit.connectors.sinks.sink_alerts import RecordingSink

RULE = "no-leader"
BLIND = "monitor-blind"
"""What fires instead where the monitor reaches no controller either, so that it cannot know."""
DEFAULTS = thresholds_for({})
LATE_S = 15.0
"""The first page comes so long after the hold at the latest."""
FORM_S = 30.0
"""How long each form of an outage lasts: longer than leaders come and go, and than an alert takes to clear."""
ENDS_S = 90.0
NEW_RECORDS = 2
_HEALTHY_S = 120.0
_UNKNOWN = 3
_CLEAR_S = 10.0
_BEGINNING = 60
"""So many characters of a long summary are in Slack's header in any case."""


@dataclass(kw_only=True)
class ChaosOutages:
    """A run in a folder with so many controllers."""

    folder: Path
    controllers: int
    say: Callable[[str], None]
    only: tuple[str, ...] = ()
    rows: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _lab: ChaosLab = field(init=False)
    _monitor: MonitoredCluster = field(init=False)

    def run(self) -> None:
        """Runs each outage."""
        with ExitStack() as stack:
            self._lab = stack.enter_context(ChaosLab(self.folder / "lab", controllers=self.controllers, brokers=0))
            cluster = cluster_of(self._lab, hosts_file=str(self._lab.monitor_hosts_file))
            gatherer = stack.enter_context(run_gatherer(self.folder / "monitor", cluster))
            self._monitor = monitored_cluster_of(self._lab, gatherer)
            for outage in OUTAGES:
                if not self.only or any(word in outage.name for word in self.only):
                    try:
                        self._judge(outage)
                    except (LabError, AssertionError) as error:
                        self.problems.append(f"{outage.name}: {str(error)[:2_000]}")

    def _judge(self, outage: Outage) -> None:
        lab, monitor = self._lab, self._monitor
        lab.await_state(
            lambda state: len(state.voters) == self.controllers and _in_sync(state.voters, state.high_watermark),
            what="all voters",
            timeout_s=_HEALTHY_S,
        )
        defaults = {f"{rule}.hold": DEFAULTS[rule].ms(HOLD) / 1_000 for rule in (RULE, BLIND)}
        defaults |= {"alerts.clear": _CLEAR_S, "restarts-without-end.rounds": 99.0}
        monitor.start_scenario(defaults)
        before = lab.await_state(lambda _: True, what="a leader").high_watermark
        began_ms = time.time() * 1_000
        steps = outage.steps(lab)
        forms = 0
        checked = ""
        for _ in steps:
            forms += 1
            self._observe(FORM_S, before)
            checked = checked or self._check(outage)
            self._compare_headlines(outage)
            self._print_views(f"{outage.name}, form {forms}")
        ended_ms = time.time() * 1_000

        def resolved() -> None:
            self._read(before)
            assert self._fired()[-1].state is AlertState.RESOLVED, monitor.alert_lines()

        eventually(resolved, within_s=ENDS_S)
        alerts = self._fired()
        first = alerts[0]
        hold_ms = first.due_at_ms - first.started_at_ms
        # A controller with a full disk commits for a while.
        after_s = (first.observed_at_ms - max(began_ms, self._committed_at_ms(first))) / 1_000
        if after_s > hold_ms / 1_000 + LATE_S:
            self.problems.append(f"{outage.name}: the first page came after {after_s:.0f} s: {first.summary}")
        if any(one.state is AlertState.RESOLVED and one.observed_at_ms < ended_ms for one in alerts):
            self.problems.append(f"{outage.name}: resolved while it lasted: {monitor.alert_lines()}")
        sent = monitor.sent(self.folder / f"sent-{len(self.rows)}", min_severity=Severity.CRITICAL)
        pages = [line for line in sent if line.startswith("firing")]
        if len(pages) != 1:
            self.problems.append(f"{outage.name}: {len(pages)} pages: {sent}")
        self._compare_headers(outage)
        row = (
            f"{outage.name}: {forms} forms, page after {after_s:.1f} s, {len(pages)} pages; {checked}; {first.summary}"
        )
        self.rows.append(row)
        self.say(row)

    def _compare_headlines(self, outage: Outage) -> None:
        """The first that the page and the commands say is the outage, if they say it at all."""
        monitor, now_ms = self._monitor.monitor, Millis(round(time.time() * 1_000))
        facts, evaluation = monitor.evaluated
        status = job_cluster_status(facts, monitor.settings.thresholds, evaluation, monitor.tracked)
        received = ReceivedStatus(status=status, received_at_ms=now_ms)
        page = ClusterView(name=NAME, now_ms=now_ms, received=received, history=tuple(self._monitor.alerts))
        outages = [page.summary_of(alert) for alert in page.firing if alert.rule == RULE]
        if outages and page.headline != outages[0]:
            self.problems.append(f"{outage.name}: the page begins with {page.headline}")
        for verb in ("check", "status"):
            found = [one["rule"] for one in json.loads(self._run(verb, "--json").stdout)["findings"]]
            if RULE in found[1:]:
                self.problems.append(f"{outage.name}: {verb} begins with {found}")

    def _compare_headers(self, outage: Outage) -> None:
        """Each message in Slack about an incident with the outage begins with it while it fires."""
        sink = RecordingSink(mode=DeliveryMode.INCIDENTS)
        folder = self.folder / f"slack-{len(self.rows)}"
        folder.mkdir()
        ledger = Ledger(job_database(folder))
        dispatcher = RecordingDispatcher(ledger, [sink])
        for alert in self._monitor.alerts:
            dispatcher.deliver((alert,), alert.observed_at_ms)
        for one in sink.notifications:
            outages = [alert.summary[:_BEGINNING] for alert in one.firing if alert.rule == RULE]
            if outages and outages[0] not in headline(one):
                self.problems.append(f"{outage.name}: Slack's message begins with {headline(one)}")

    def _run(self, verb: str, *words: str) -> Result:
        return program.kraftwatch(verb, *self._options, *words)

    def _print_views(self, name: str) -> None:
        """Writes into a file what the job's alert and the commands say now, for people."""
        job = self._monitor.monitor.firing(None, ()).alerts
        texts = ["\n".join((f"{one.severity} {one.rule} {one.subject}: {one.summary}", *one.remedy)) for one in job]
        for verb in ("check", "status", "doctor"):
            ended = self._run(verb)
            texts.append(f"$ kraftwatch {verb}: {ended.exit_code}\n{ended.stdout}")
        (self.folder / f"{name}.txt").write_text("\n\n".join(texts), encoding="utf-8")

    @property
    def _options(self) -> list[str]:
        cluster = f"{NAME}={','.join(self._lab.bootstrap)}"
        return ["--cluster", cluster, "--hosts-file", str(self._lab.monitor_hosts_file)]

    def _observe(self, seconds: float, before: int) -> None:
        until = time.monotonic() + seconds

        def is_over() -> None:
            self._read(before)
            assert time.monotonic() >= until

        eventually(is_over, within_s=seconds + LATE_S)

    def _read(self, before: int) -> None:
        """Reads what the job would; an alert that resolves while nothing has been committed is a problem."""
        known = len(self._monitor.alerts)
        _ = self._monitor.rules
        for alert in self._monitor.alerts[known:]:
            if (alert.rule, alert.state) == (RULE, AlertState.RESOLVED):
                state = self._lab.state
                if state is None or state.high_watermark <= before + NEW_RECORDS:
                    self.problems.append(f"resolved although nothing is committed: {alert.summary}")

    def _committed_at_ms(self, first: Alert) -> Millis:
        """Returns when something was last committed, as the alert says; 0: it does not."""
        at_ms = first.evidence.get("high_watermark_since_ms") or first.evidence.get("last_leader_answer_at_ms")
        return Millis(at_ms) if isinstance(at_ms, int) else Millis(0)

    def _fired(self) -> list[Alert]:
        found = [alert for alert in self._monitor.alerts if alert.rule in (RULE, BLIND)]
        assert found, f"nothing fired: {self._monitor.alert_lines()}"
        return found

    def _check(self, outage: Outage) -> str:
        """Returns what a command says that begins now; what the job knows and it does not is a problem."""
        ended = self._run("check", "--json")
        findings = json.loads(ended.stdout)["findings"]
        found = next((one for one in findings if one["rule"] == RULE), None)
        if found is None:
            said = sorted(one["rule"] for one in findings)
            if ended.exit_code != _UNKNOWN:
                self.problems.append(f"{outage.name}: check ends with {ended.exit_code} and says {said}")
            return f"check: {ended.exit_code}, {', '.join(said)}"
        text = " ".join([found["summary"], *found["remedy"]])
        job = self._monitor.monitor.firing(None, ()).alerts
        known = {node for one in job if one.rule == RULE for node in _against(one)} - _against_json(found)
        # Without a leader it reads no voters: it knows their addresses.
        missing = [node for node in sorted(known) if self._lab.node(node).endpoint not in text]
        if missing:
            self.problems.append(f"{outage.name}: check says nothing against {missing}: {text}")
        return f"check: the same{f', of {sorted(known)} by address' if known else ''}"


def _against(alert: Alert) -> Iterator[int]:
    """Yields the voters that take no part by this alert."""
    for one in alert.claims:
        if one.question is Question.VOTES and one.answer == (NO,) and one.node is not None:
            yield one.node


def _against_json(finding: dict[str, Any]) -> set[int]:
    return {
        one["node"] for one in finding["claims"] if (one["question"], one["answer"]) == (Question.VOTES.value, [NO])
    }


def _in_sync(voters: Any, high_watermark: int) -> bool:
    return all(voter.log_end_offset >= high_watermark - 20 for voter in voters)
