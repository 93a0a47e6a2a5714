"""EvaluationRun: injects the faults one after the other into a quorum that the real job monitors, and measures each."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from deploy.lab import LabError
from streaming.demo.job_process import AlertLine, JobProcessError
from streaming.demo.scenarios import Print, ScenarioContext
from tests.evaluation.counted_sinks import CountedSinks
from tests.evaluation.evaluated_fault import EvaluatedFault, ExpectedText, first_sentence
from tests.evaluation.fault_actions import await_whole_quorum
from tests.evaluation.kafka_view import NodeReadings, describe_status, metrics_view
from tests.evaluation.quorum_faults import THRESHOLDS
from tests.job.configured_job import ConfiguredJob
from tests.job.job_state import wait_until_delivered, wait_until_resolved
from tests.lab import Lab

RESOLVED_S = 60.0
QUIET_S = 15.0
"""How long is waited for a notification that must not come."""


@dataclass(slots=True, kw_only=True)
class EvaluationRun:
    """One quorum, one job and its sinks."""

    lab: Lab
    job: ConfiguredJob
    sinks: CountedSinks
    say: Print
    _readings: NodeReadings = field(default_factory=dict)
    """The metrics during the fault before."""

    def run(self, fault: EvaluatedFault) -> dict[str, Any]:
        """Injects a fault, observes, fixes it, waits for its end; returns what is stored."""
        context = ScenarioContext(lab=self.lab, job=self.job, say=self.say)
        since, marks = len(self.job.alerts()), self.sinks.marks()
        began = time.time()
        fault.inject(context)
        found: dict[str, Any] = {"name": fault.name, "injected_s": round(time.time() - began, 1), "problems": []}
        alerts: list[AlertLine] = []
        with _problems(found):
            self._await_alerts(found, fault, context, since, began, alerts)
        with _problems(found):
            fault.fix(context, alerts)
            await_whole_quorum(self.lab)
            wait_until_resolved(self.job, within_s=RESOLVED_S)
            # No sink has anything left to send: nothing is notified late.
            wait_until_delivered(self.job)
            self.sinks.await_end(marks)
        self._count(found, fault, since, marks)
        return found

    def _await_alerts(
        self,
        found: dict[str, Any],
        fault: EvaluatedFault,
        context: ScenarioContext,
        since: int,
        began: float,
        alerts: list[AlertLine],
    ) -> None:
        """Waits for all alerts of a fault, and observes it before it gets worse by hand, or else at its worst."""
        if fault.expected is None:
            wait_until_delivered(self.job, after_s=QUIET_S)
        else:
            alerts.append(self._await(found, fault.expected, since, began))
        if fault.worsen is not None:
            found |= self._observe()
            began = time.time()
            fault.worsen(context)
        alerts += [self._await(found, worse, since, began) for worse in fault.worse]
        if fault.worsen is None:
            found |= self._observe()

    def _await(self, found: dict[str, Any], expected: ExpectedText, since: int, began: float) -> AlertLine:
        """Waits for an alert and its notification, and compares its text."""
        hold = THRESHOLDS.get(f"{expected.rule}.hold", 0.0)
        alert = self.job.wait_for(
            expected.rule,
            subject=expected.subject,
            severity=expected.severity,
            since=since,
            within_s=hold + expected.within_s,
        )
        received = self._received(alert, began)
        text = {
            "rule": alert.rule,
            "severity": alert.severity,
            "hold_s": hold,
            "after_hold_s": round(max(0.0, received - alert.started_at - hold), 2),
            "after_fault_s": round(received - began, 1),
            "sentence": first_sentence(str(alert.line["summary"])),
            "sentence_is_right": expected.sentence_is_right(alert),
            "step": alert.remedy[0] if alert.remedy else "",
            "step_is_right": expected.step_is_right(alert),
        }
        found.setdefault("texts", []).append(text)
        return alert

    def _received(self, alert: AlertLine, began: float) -> float:
        """Waits until the webhook got a notification with this alert; returns when."""
        deadline = time.monotonic() + RESOLVED_S
        while time.monotonic() < deadline:
            for document in self.sinks.webhook.documents:
                sent_at = datetime.fromisoformat(document["sent_at"]).timestamp()
                if sent_at >= began and any(one["rule"] == alert.rule for one in document["alerts"]):
                    return sent_at
            time.sleep(0.05)
        raise JobProcessError(f"the webhook got no notification of {alert.rule} {alert.subject}")

    def _observe(self) -> dict[str, Any]:
        """Returns what Kafka's own tools show at this moment."""
        with ThreadPoolExecutor(max_workers=2) as pool:
            tool = pool.submit(describe_status, self.lab)
            metrics = pool.submit(metrics_view, self.lab, self._readings)
            shown, self._readings = metrics.result()
            return {"kafka_tool": tool.result(), "metrics": shown}

    def _count(
        self, found: dict[str, Any], fault: EvaluatedFault, since: int, marks: tuple[int, int, int, int]
    ) -> None:
        found["notifications"] = self.sinks.notifications(marks)
        found["sinks"] = self.sinks.by_sink(marks)
        fired = [each for each in self.job.alerts()[since:] if each.state == "firing"]
        found["rules"] = sorted({each.rule for each in fired})
        documents = self.sinks.webhook.documents[marks[0] :]
        ended = [each for each in documents if each["reason"] == "resolved"]
        found["resolved_sentence"] = first_sentence(ended[-1]["summary"]) if ended else ""
        if found["notifications"] != fault.notifications:
            found["problems"].append(f"notifications {found['notifications']}, expected {fault.notifications}")
        texts = found.get("texts", [])
        found["problems"] += [f"unexpected text: {one['sentence']}" for one in texts if not one["sentence_is_right"]]
        found["problems"] += [f"unexpected step: {one['step']}" for one in texts if not one["step_is_right"]]
        found["problems"] += [f"{rule} fired" for rule in set(fault.silent) & set(found["rules"])]
        found["problems"] += [f"a call that the service refuses: {text}" for text in self.sinks.refused]
        found["alerts"] = [
            f"{each.state} {each.severity} {each.rule} {each.subject}" for each in self.job.alerts()[since:]
        ]
        found["documents"] = [_document_line(each) for each in documents]


def _document_line(document: Any) -> str:
    rules: Sequence[str] = [each["rule"] for each in document["alerts"]]
    return f"{document['reason']} {document['severity']}: {', '.join(rules)}"


@contextmanager
def _problems(found: dict[str, Any]) -> Iterator[None]:
    """Stores why a fault did not go as expected, so that the others are evaluated too."""
    try:
        yield
    except (JobProcessError, LabError, AssertionError) as problem:
        found["problems"].append(str(problem).split("\n")[0])
