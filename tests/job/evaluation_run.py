"""EvaluationRun: injects the faults one after the other into a quorum that the real job monitors, and measures each."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from deploy.lab import LabError
from streaming.demo.fault import ExpectedAlert, Fault, Nodes
from streaming.demo.job_process import JobProcessError, JsonlLine
from streaming.demo.scenarios import Print
from tests.chaos.counted_sinks import CountedSinks, Marks
from tests.job.configured_job import ConfiguredJob
from tests.job.conftest import await_fetches_of_all_voters
from tests.job.evaluated_faults import THRESHOLDS, EvaluatedFault, one_of_each_rule
from tests.job.job_state import wait_until_delivered, wait_until_resolved
from tests.job.kafka_view import NodeReadings, describe_status, metrics_view
from tests.lab import Lab

RESOLVED_S = 60.0
QUIET_S = 15.0
"""How long is waited for a notification that must not come."""


@dataclass(slots=True, kw_only=True)
class Evaluated:
    """What one fault showed; its texts are cells of the table."""

    alerts: list[str] = field(default_factory=list)
    after_hold: list[str] = field(default_factory=list)
    kafka: Sequence[str] = ("", "")
    """What Kafka's tool printed, and the alerts of its metrics."""
    notified: str = ""
    problems: list[str] = field(default_factory=list)

    @contextmanager
    def stores_problems(self) -> Iterator[None]:
        """Stores why a fault did not go as expected, so that the others are evaluated too."""
        try:
            yield
        except (JobProcessError, LabError, AssertionError) as problem:
            self.problems.append(str(problem).split("\n")[0])

    def cells(self) -> Sequence[str]:
        """Returns the cells of its row, without the first and the last one."""
        lists = ("<br>".join(each) for each in (self.alerts or ["none"], self.after_hold))
        return [*lists, self.notified, *self.kafka]


@dataclass(slots=True, kw_only=True)
class EvaluationRun:
    """One quorum, one job and its sinks."""

    lab: Lab
    job: ConfiguredJob
    sinks: CountedSinks
    say: Print
    _readings: NodeReadings = field(default_factory=dict)
    """The metrics during the fault before."""

    def run(self, fault: EvaluatedFault) -> Evaluated:
        """Injects a fault, observes, fixes it and waits for its end."""
        since, marks = len(self.job.alerts()), self.sinks.marks()
        found, ended = Evaluated(), list[tuple[Fault, Nodes, tuple[str, ...]]]()
        with found.stores_problems():
            for one in fault.faults:
                began, nodes = time.time(), one.nodes(self.lab)
                ended.append((one, nodes, ()))
                one.inject(self.lab, nodes)
                alerts = [self._await(found, expected, since, began) for expected in one_of_each_rule(one, nodes)]
                ended[-1] = one, nodes, alerts[0].remedy if alerts else ()
                if not alerts:
                    wait_until_delivered(self.job, after_s=QUIET_S)
                # It is observed before it gets worse by hand.
                if one is fault.faults[0]:
                    found.kafka = self._kafka_view()
        with found.stores_problems():
            for one, nodes, remedy in reversed(ended):
                one.end(self.lab, nodes, remedy)
            await_fetches_of_all_voters(self.lab)
            wait_until_resolved(self.job, within_s=RESOLVED_S)
            # No sink has anything left to send: nothing is notified late.
            wait_until_delivered(self.job)
            self.sinks.await_end(marks)
        self._count(found, fault, since, marks)
        return found

    def _await(self, found: Evaluated, expected: ExpectedAlert, since: int, began: float) -> JsonlLine:
        """Waits for an alert and its notification, and compares its text."""
        hold = THRESHOLDS.get(f"{expected.rule}.hold", 0.0)
        alert = self.job.wait_for(
            expected.rule,
            subject=expected.subject,
            severity=expected.severity,
            since=since,
            within_s=hold + expected.within_s,
        )
        after_hold = max(0.0, self._received(alert, began) - alert.started_at - hold)
        summary = str(alert.line["summary"])
        found.alerts.append(f"{alert.severity} [{alert.rule}](rules/{alert.rule}.md)")
        found.after_hold.append(f"{after_hold:.1f} s")
        found.problems += expected.problems(severity=alert.severity, summary=summary, remedy=alert.remedy)
        return alert

    def _received(self, alert: JsonlLine, began: float) -> float:
        """Waits until the webhook got a notification with this alert; returns when."""
        deadline = time.monotonic() + RESOLVED_S
        while time.monotonic() < deadline:
            for document in self.sinks.webhook.documents:
                sent_at = datetime.fromisoformat(document["sent_at"]).timestamp()
                if sent_at >= began and any(one["rule"] == alert.rule for one in document["alerts"]):
                    return sent_at
            time.sleep(0.05)
        raise JobProcessError(f"the webhook got no notification of {alert.rule} {alert.subject}")

    def _kafka_view(self) -> Sequence[str]:
        """Returns what Kafka's own tools show at this moment."""
        with ThreadPoolExecutor(max_workers=2) as pool:
            tool = pool.submit(describe_status, self.lab)
            metrics = pool.submit(metrics_view, self.lab, self._readings)
            shown, self._readings = metrics.result()
            return tool.result(), "<br>".join(shown) or "nothing"

    def _count(self, found: Evaluated, fault: EvaluatedFault, since: int, marks: Marks) -> None:
        counts = self.sinks.notifications(marks)
        found.notified = f"{counts['begin']}/{counts['worse']}/{counts['end']}"
        # After a minute a text that advises something else is sent once, and pages nobody.
        restated = counts.pop("other")
        if counts != fault.notifications or restated > 1:
            found.problems.append(f"notifications {counts}, {restated} restated, expected {fault.notifications}")
        lines = self.job.alerts()[since:]
        fired = {each.rule for each in lines if each.state == "firing"}
        found.problems += [f"{rule} fired" for one in fault.faults for rule in {*one.never} & fired]
        found.problems += [f"a call that the service refuses: {text}" for text in self.sinks.refused]
        self.say(f"other sinks: {self.sinks.by_sink(marks)}")
        for each in lines:
            self.say(f"{each.state} {each.severity} {each.rule} {each.subject}")
        for document in self.sinks.webhook.documents[marks[0] :]:
            rules = ", ".join(each["rule"] for each in document["alerts"])
            self.say(f"{document['reason']} {document['severity']}: {rules}")
