"""Compares what the services and the file of a job got with the transitions of the ledger.

A transition is lost if no accepted notification reported it and the job did not discard it. It is doubled if the same
transition opened a second PagerDuty alert, or is in two lines of the file. A second Slack post is a duplicate; it is
explained by a kill between Slack's acceptance and the ledger's record of it.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from connectors.sinks.alert_json import key_of
from connectors.store.alert_store import AlertRecord, DeliveryStatus, SinkRecord
from rules.alert import Alert, AlertKey, AlertState
from rules.evaluate import ALL_RULES, BLIND
from rules.job.monitor_degraded import CUT_OFF
from rules.model.job_state import JOB_CLUSTER_ID
from rules.notifications.incident import deduplication_key
from tests.chaos import delivery_log
from tests.chaos.delivery_log import Attempt, DeliveryLog, key_text
from tests.chaos.kill_order import ExecutedKill
from tests.chaos.kill_point import Role
from tests.chaos.sink_services import PAGERDUTY, SLACK, AcceptedRequest, SinkServices
from tests.job.configured_job import ConfiguredJob

_NOTICED_S = 5.0
"""The driver notices within this time, also on a loaded machine, that Java or the planner was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkResult:
    """What one sink got of the transitions."""

    sink: str
    expected: int
    found: int = 0
    discarded: int = 0
    """Inhibited from beginning to end, or about the job itself."""
    lost: int = 0
    doubled: int = 0
    explained: tuple[str, ...] = ()
    """Duplicates in Slack that a kill between acceptance and ledger explains."""
    problems: tuple[str, ...] = ()

    def __str__(self) -> str:
        return (
            f"{self.sink}: {self.found} of {self.expected} transitions reported, {self.discarded} discarded, "
            f"{self.lost} lost, {self.doubled} doubled, {len(self.explained)} explained duplicates"
        )


Content = tuple[Sequence[AlertRecord], Mapping[str, SinkRecord]]
"""The transitions of the ledger, oldest first, and what it stores of each sink."""


def check_deliveries(
    content: Content, *, jsonl: Path, calls: Path, services: SinkServices, kills: Sequence[ExecutedKill]
) -> Sequence[SinkResult]:
    """Checks the file and both services of one job; `calls` is the folder with the log of its calls."""
    records, stored = content
    alerts = [record.alert for record in records]
    log = delivery_log.read(calls)
    results = [check_file(jsonl, alerts)]
    for sink in (PAGERDUTY, SLACK):
        status, service = stored[sink].status, services.named(sink)
        unsent = [one.alert for one in records if status[one.number] is DeliveryStatus.DISCARDED]
        check = PeopleSinkCheck(
            sink=sink,
            alerts=alerts,
            discarded={key_text(alert.key) for alert in unsent},
            log=log,
            accepted=service.accepted,
            refused=service.refused,
            kills=kills,
        )
        results.append(check.result())
    return results


def differences(job: ConfiguredJob, content: Content) -> list[str]:
    """Compares the beginnings and ends of alerts in the ledger with those of a replay of the journal.

    Not the severities: a batch says what fires at its end.
    """
    command = [sys.executable, "-m", "streaming", "replay", "--config", str(job.file), "--json"]
    printed = subprocess.run(command, capture_output=True, check=True).stdout
    wanted = {_begun_or_ended(key) for line in printed.splitlines() if (key := key_of(line)) is not None}
    found = {_begun_or_ended(one.alert.key) for one in content[0] if one.alert.cluster_id != JOB_CLUSTER_ID}
    lost, more = [key for key in wanted if key not in found], [key for key in found if key not in wanted]
    return [f"of a replay, and not in the ledger: {key}" for key in lost] + [
        f"in the ledger, and not of a replay: {key}" for key in more
    ]


def _begun_or_ended(key: AlertKey) -> tuple[object, ...]:
    cluster_id, rule, subject, started_at_ms, state, *_ = key
    return cluster_id, rule, subject, started_at_ms, state


def check_file(path: Path, alerts: Sequence[Alert]) -> SinkResult:
    """Checks the jsonl sink: each transition once, in the order of the ledger."""
    result = SinkResult(sink="jsonl", expected=len(alerts))
    keys = [key_of(line) for line in path.read_bytes().splitlines()]
    expected = [alert.key for alert in alerts]
    lost = [key for key in expected if key not in set(keys)]
    doubled = [key for key, count in Counter(keys).items() if count > 1]
    problems = [f"jsonl: lost {key}" for key in lost] + [f"jsonl: twice {key}" for key in doubled]
    if not problems and keys != expected:
        problems.append("jsonl: the lines are not in the order of the ledger")
    found = len(set(keys) & set(expected))
    return replace(result, found=found, lost=len(lost), doubled=len(doubled), problems=tuple(problems))


@dataclass(frozen=True, kw_only=True)
class PeopleSinkCheck:
    """Checks a sink for people."""

    sink: str
    alerts: Sequence[Alert]
    """The transitions of the ledger."""
    discarded: Set[str]
    """The keys that the job never sends to this sink."""
    log: DeliveryLog
    accepted: Sequence[AcceptedRequest]
    refused: Sequence[str] = ()
    kills: Sequence[ExecutedKill] = ()

    def result(self) -> SinkResult:
        """Returns the counts, and a sentence for each broken promise."""
        problems = [f"{self.sink} refused a request: {text}" for text in self.refused]
        unreported = [key for key in self._by_key if key not in self._reported]
        lost = [key for key in unreported if key not in self.discarded]
        discarded = [key for key in unreported if key in self.discarded]
        problems += [f"{self.sink}: lost {key}" for key in lost]
        problems += [
            f"{self.sink}: discarded without a reason: {key}" for key in discarded if not self._may_discard(key)
        ]
        problems += self._wrong_ends()
        result = SinkResult(
            sink=self.sink,
            expected=len(self._by_key),
            found=len(self._reported & self._by_key.keys()),
            discarded=len(discarded),
            lost=len(lost),
        )
        if self.sink == PAGERDUTY:
            doubled = list(self._second_pages())
            return replace(result, doubled=len(doubled), problems=(*problems, *doubled))
        explained, unexplained = self._duplicate_posts()
        return replace(result, explained=tuple(explained), doubled=len(unexplained), problems=(*problems, *unexplained))

    @cached_property
    def _by_key(self) -> Mapping[str, Alert]:
        return {key_text(alert.key): alert for alert in self.alerts}

    @cached_property
    def _accepted(self) -> Sequence[tuple[AcceptedRequest, Attempt]]:
        """Each accepted request with its attempt: a sink makes one call at a time."""
        attempts = [attempt for attempt in self.log.attempts if attempt.sink == self.sink]
        return [
            (request, max((each for each in attempts if each.t <= request.t), key=lambda each: each.t))
            for request in self.accepted
        ]

    @cached_property
    def _reported(self) -> set[str]:
        return {key for _, attempt in self._accepted for key in attempt.keys}

    def _may_discard(self, key: str) -> bool:
        alert = self._by_key[key]
        if alert.cluster_id == JOB_CLUSTER_ID:
            return True
        if alert.rule == BLIND and any(each.about == CUT_OFF for each in self.alerts):
            return True
        fired = {each.rule for each in self.alerts if each.cluster_id == alert.cluster_id}
        return bool(fired & set(ALL_RULES[alert.rule].inhibited_by))

    def _wrong_ends(self) -> Iterator[str]:
        """Yields the incidents that are open in the service and not in the ledger, or the other way round."""
        newest = {(alert.fingerprint, alert.started_at_ms): alert.state for alert in self.alerts}
        by_incident: dict[str, list[Attempt]] = {}
        for _, attempt in self._accepted:
            by_incident.setdefault(attempt.incident, []).append(attempt)
        newest_of_key = {deduplication_key(incident): incident for incident in by_incident}
        for incident, attempts in by_incident.items():
            key = deduplication_key(incident)
            in_service = key if newest_of_key[key] == incident else None
            known = [self._by_key[key] for attempt in attempts for key in attempt.keys if key in self._by_key]
            firing = any(newest[(one.fingerprint, one.started_at_ms)] is AlertState.FIRING for one in known)
            if firing == (attempts[-1].reason == "resolved") or firing != self._open_in_service(in_service, attempts):
                stays = "is firing" if firing else "is resolved"
                rules = sorted({f"{one.cluster} {one.rule} {one.subject}" for one in known})
                newest_reason = attempts[-1].reason
                yield f"{self.sink}: incident {incident} ({rules}) {stays}; its newest notification is {newest_reason}"

    def _open_in_service(self, key: str | None, attempts: Sequence[Attempt]) -> bool:
        """`key` is PagerDuty's; None for an incident after which another one had the same key."""
        if self.sink == PAGERDUTY and key is not None:
            # An incident that escalates has a new alert, and the one before it is resolved.
            newest = {request.subject: request.effect for request in self.accepted}
            return any(each.partition("-")[0] == key and newest[each] in ("opened", "repeated") for each in newest)
        return attempts[-1].reason != "resolved"

    def _second_pages(self) -> Iterator[str]:
        """Yields the PagerDuty alerts that were opened again for a transition that had been reported."""
        reported: dict[str, set[str]] = {}
        opened: set[str] = set()
        for request, attempt in self._accepted:
            known = reported.setdefault(attempt.incident, set())
            if request.effect == "opened" and attempt.incident in opened and attempt.keys & known:
                yield f"PagerDuty: a second alert for incident {attempt.incident} at {self._last_kill(attempt.t)}"
            if request.effect == "opened":
                opened.add(attempt.incident)
            # Only complete notifications count: a trigger before a failed resolve is sent again.
            if request.effect != "opened" or attempt.reason != "resolved":
                known |= attempt.keys

    def _last_kill(self, t: float) -> str:
        return str(max((kill for kill in self.kills if kill.t <= t), key=lambda kill: kill.t, default="no kill"))

    def _duplicate_posts(self) -> tuple[list[str], list[str]]:
        """Returns the explained and the unexplained duplicates in Slack."""
        posts = [(request, attempt) for request, attempt in self._accepted if request.effect != "edit"]
        explained, unexplained = [], []
        for number, (request, attempt) in enumerate(posts):
            earlier = self._same_post(request, attempt, posts[:number])
            if earlier is None:
                continue
            kill = self._kill_between(earlier, attempt)
            text = f"Slack: {request.effect} of incident {attempt.incident} ({attempt.reason}) twice"
            if kill is None:
                unexplained.append(f"{text}, without a kill between acceptance and ledger")
            else:
                explained.append(f"{text}; {kill}")
        return explained, unexplained

    def _same_post(
        self, request: AcceptedRequest, attempt: Attempt, before: Sequence[tuple[AcceptedRequest, Attempt]]
    ) -> Attempt | None:
        """Returns the earlier attempt that posted the same; None for a new post."""
        same = [(r, a) for r, a in before if a.incident == attempt.incident]
        if request.effect == "message":
            return next((a for r, a in reversed(same) if r.effect == "message"), None)
        if attempt.reason == "repeated":
            earlier = next((a for _, a in reversed(same) if a.reason == "repeated"), None)
            return None if earlier is None or self._marked(earlier, until=attempt.t) else earlier
        covered = [a for _, a in same if a.keys >= attempt.keys]
        return covered[-1] if covered else None

    def _kill_between(self, earlier: Attempt, attempt: Attempt) -> ExecutedKill | None:
        """Returns the kill that ended the process of the earlier attempt before the ledger recorded its delivery."""
        if earlier.pid == attempt.pid:
            return None
        # The job survives a kill of the gatherer.
        ending = [kill for kill in self.kills if kill.victim != Role.GATHERER and earlier.t <= kill.t <= attempt.t]
        after = next((kill for kill in ending if not self._marked(earlier, until=kill.t)), None)
        if after is not None or self._marked(earlier, until=attempt.t):
            return after
        # A sink may be called for a moment after Java or the planner was killed, until the driver has noticed it.
        before = [kill for kill in self.kills if kill.victim in (Role.JAVA, Role.PLANNER) and kill.t < earlier.t]
        return next((kill for kill in reversed(before) if earlier.t - kill.t <= _NOTICED_S), None)

    def _marked(self, attempt: Attempt, *, until: float) -> bool:
        """Whether the ledger recorded the delivery of this attempt before `until`."""
        return any(
            mark.sink == self.sink
            and attempt.t <= mark.t <= until
            and (attempt.keys <= mark.keys and attempt.incident in mark.incidents)
            for mark in self.log.marks
        )
