"""Random interleavings of what people do in kraftwatch, Slack, PagerDuty and Alertmanager: all agree in the end.

Each seed is one sequence of steps; a failure names it. The doubles are HTTP servers, and the clock is simulated.
"""

import json
import random
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qs

import pytest

from connectors.settings.secret import Secret
from connectors.sinks.alertmanager import silences
from connectors.sinks.alertmanager.config import AlertmanagerSection
from connectors.sinks.alertmanager.send import AlertmanagerSink
from connectors.sinks.pagerduty.send import PagerdutySink
from connectors.sinks.sink import OpenIncident
from connectors.sinks.sink_config import MessageLinks
from connectors.sinks.slack import buttons
from connectors.store import sqlite_file
from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.firing import Firing
from rules.formatting import iso
from rules.model.identifiers import Millis
from streaming.job import responses
from streaming.pipeline import notifying
from tests.sinks.pagerduty_double import PagerdutyDouble
from tests.sinks.responding_job import RespondingJob
from tests.sinks.server import HttpDouble, HttpReply, ReceivedRequest, serving
from tests.sinks.sink_kind import SECRET, local_pagerduty, local_slack
from tests.sinks.slack_double import ChannelMessage, SlackDouble
from tests.unit.connectors.kafka.certificates import CertificateAuthority
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

STEPS = 14
NODES = (1, 2, 3)
SECOND, MINUTE = 1_000, 60_000
FAST = 20
"""Seeds of the ordinary tests; the others are long."""


class AlertmanagerDouble:
    """Alerts and silences as Alertmanager has them at a time."""

    def __init__(self) -> None:
        self.now_ms: int = NOON_MS
        self.alerts: dict[str, dict[str, Any]] = {}
        self.silences: dict[str, dict[str, Any]] = {}

    def active(self) -> list[dict[str, Any]]:
        ends = ((one, datetime.fromisoformat(one["endsAt"]).timestamp() * 1_000) for one in self.alerts.values())
        return [one for one, ends_ms in ends if ends_ms > self.now_ms]

    def reply(self, request: ReceivedRequest) -> HttpReply:
        path, _, query = request.path.partition("?")
        if request.method == "POST":
            for one in json.loads(request.body):
                self.alerts[json.dumps(one["labels"], sort_keys=True)] = one
            return HttpReply()
        if path.endswith("/silences"):
            return HttpReply(body=json.dumps([*self.silences.values()]).encode())
        found = [{**one, "status": {"silencedBy": self._silenced_by(one["labels"])}} for one in self.active()]
        if parse_qs(query).get("active") == ["false"]:
            found = [one for one in found if one["status"]["silencedBy"]]
        return HttpReply(body=json.dumps(found).encode())

    def silence(self, name: str, value: str) -> None:
        id_ = str(len(self.silences))
        self.silences[id_] = {
            "id": id_,
            "status": {"state": "active"},
            "matchers": [{"name": name, "value": value, "isRegex": False, "isEqual": True}],
            "startsAt": iso(Millis(self.now_ms)),
            "endsAt": iso(Millis(self.now_ms + 600 * MINUTE)),
            "createdBy": "eva",
            "comment": "",
        }

    def _silenced_by(self, labels: dict[str, str]) -> list[str]:
        return [
            id_
            for id_, one in self.silences.items()
            if one["status"]["state"] == "active"
            and all(labels.get(each["name"], "") == each["value"] for each in one["matchers"])
        ]


class World(RespondingJob):
    """The job, the four systems and the alerts that fire."""

    def __init__(self, seed: int, servers: list[HttpDouble], ca_file: Path, folder: Path) -> None:
        self.random = random.Random(seed)
        self.now_ms: int = NOON_MS
        self.firing: dict[int, Alert] = {}
        self.slack, self.pagerduty = SlackDouble(token=SECRET), PagerdutyDouble(api_token=SECRET)
        self.alertmanager = AlertmanagerDouble()
        replies = (self.slack.reply, self.pagerduty.reply, self.alertmanager.reply)
        for server, reply in zip(servers, replies, strict=True):
            server.behave = reply
        urls = [server.url for server in servers]
        self._sections = (
            local_slack(
                ca_file,
                channel="#kafka",
                token=Secret(text=SECRET),
                app_token=Secret(text=SECRET),
                api_url=f"{urls[0]}/api/",
            ),
            local_pagerduty(urls[1], ca_file, SECRET, api_token=Secret(text=SECRET)),
            AlertmanagerSection(url=Secret(text=urls[2]), ca_file=ca_file),
        )
        self._folder = folder
        self.restart()

    # --- steps -------------------------------------------------------------------------------------------------------

    def restart(self) -> None:
        super().__init__(self._folder, lambda: [each.open(MessageLinks(), self._folder) for each in self._sections])

    def begin(self) -> None:
        self._set(self.random.choice(NODES), self.random.choice([Severity.WARNING, Severity.CRITICAL]))

    def worsen(self) -> None:
        if self.firing:
            self._set(self.random.choice([*self.firing]), Severity.CRITICAL)

    def resolve(self) -> None:
        if self.firing:
            del self.firing[self.random.choice([*self.firing])]

    def acknowledge(self) -> None:
        until = self.random.choice([None, Millis(self.now_ms + 5 * MINUTE)])
        self.acknowledgements.add(self._some(), by="Ana", now_ms=self._now(), until_ms=until)

    def end_acknowledgement(self) -> None:
        self.acknowledgements.end([one.alert_id for one in self._some()], now_ms=self._now())

    def press_in_slack(self) -> None:
        action = self.random.choice(["acknowledge", "end-acknowledgement", "silence"])
        for message in self.slack.channel_messages:
            for element in [each for one in message.blocks if one["type"] == "actions" for each in one["elements"]]:
                if element["action_id"] == action:
                    payload = {"user": {"id": "U1", "name": "ben"}, "actions": [element]}
                    buttons._apply(payload, self.responses)

    def acknowledge_in_pagerduty(self) -> None:
        for one in self.pagerduty.alerts:
            if one.state != "resolved":
                one.acknowledge("Eva", self.now_ms)

    def time_out_in_pagerduty(self) -> None:
        for one in self.pagerduty.alerts:
            if one.state == "acknowledged":
                one.time_out()

    def silence_in_alertmanager(self) -> None:
        for one in self.alertmanager.active()[:1]:
            name = self.random.choice(["incident", "subject", "cluster"])
            self.alertmanager.silence(name, one["labels"][name])

    def end_silences_in_alertmanager(self) -> None:
        for one in self.alertmanager.silences.values():
            one["status"]["state"] = "expired"

    def poll(self) -> None:
        _, pager, alertmanager = self.sinks
        assert isinstance(pager, PagerdutySink)
        assert isinstance(alertmanager, AlertmanagerSink)
        for poll in (pager._poll, alertmanager._silences):
            assert poll is not None
            poll._responses = self.responses
            poll.poll()

    def let_pass(self) -> None:
        self.pass_minutes(self.random.randint(1, 8))

    # --- time and state ----------------------------------------------------------------------------------------------

    def _now(self) -> Millis:
        return Millis(self.now_ms)

    def _set(self, node: int, severity: Severity) -> None:
        before = self.firing.get(node)
        if before is None or before.severity is not severity:
            self.firing[node] = alert(
                f"voter {node}",
                rule="voter-lagging",
                cluster="prod",
                severity=severity,
                started_at_ms=self._now() if before is None else before.started_at_ms,
                observed_at_ms=self._now(),
                due_at_ms=self._now(),
            )

    def _some(self) -> list[Alert]:
        known = self.notifying.ledger.firing()
        return self.random.sample(known, self.random.randint(0, len(known)))

    def send(self) -> None:
        self.now_ms += SECOND
        self.alertmanager.now_ms = self.now_ms
        firing = Firing(cluster="prod", evaluated_ms=self._now(), alerts=tuple(self.firing.values()))
        self.notifying.put(firing)
        self.notifying.send()

    def pass_minutes(self, minutes: int) -> None:
        for _ in range(minutes):
            self.now_ms += MINUTE
            self.send()

    def step(self) -> str:
        name = self.random.choice(
            [
                *("begin", "begin", "worsen", "resolve", "acknowledge", "acknowledge", "end_acknowledgement"),
                *("press_in_slack", "press_in_slack", "acknowledge_in_pagerduty", "time_out_in_pagerduty"),
                *("silence_in_alertmanager", "end_silences_in_alertmanager", "poll", "poll", "let_pass", "restart"),
            ]
        )
        self.now_ms += self.random.choice([0, 5, 20]) * SECOND
        getattr(self, name)()
        self.send()
        return name

    def settle(self) -> None:
        """Lets everybody learn what the others have done."""
        for _ in range(4):
            self.poll()
            self.pass_minutes(2)

    # --- what must be true -------------------------------------------------------------------------------------------

    def is_acknowledged(self, one: Alert) -> bool:
        now_ms = self._now()
        return any(each.matches(one) and each.active(now_ms) for each in self.acknowledgements.read())

    def is_silenced(self, one: Alert) -> bool:
        return any(each.matches(one) and each.active(self._now()) for each in self.active(self._now()))

    def incidents(self) -> dict[str, list[Alert]]:
        """Returns the firing alerts of each incident of which PagerDuty was notified."""
        firing = {one.alert_id: one for one in self.notifying.ledger.firing()}
        return {one.id: [firing[each] for each in one.alerts] for one in self.responses.open_incidents("pagerduty")}

    def check(self) -> None:
        ledger = self.notifying.ledger.firing()
        assert {one.subject: one.severity for one in ledger} == {
            one.subject: one.severity for one in self.firing.values()
        }
        assert (self.slack.invalid, self.pagerduty.invalid) == ([], [])
        self.check_pages(ledger)
        self.check_pagerduty()
        self.check_slack()
        active = {one["labels"]["subject"] for one in self.alertmanager.active()}
        delivered = {
            each.alert.subject
            for transitions in self.notifying.ledger.incidents(self.sinks[2].options.name).values()
            for each in transitions
            if each.delivered and each.alert.alert_id in {one.alert_id for one in ledger}
        }
        assert active == delivered

    def check_pages(self, ledger: Any) -> None:
        """No page is lost: what is neither acknowledged nor silenced is open there, and acknowledged by nobody."""
        known = {one.alert_id: incident for incident, alerts in self.incidents().items() for one in alerts}
        for one in ledger:
            if not self.is_acknowledged(one) and not self.is_silenced(one):
                assert one.alert_id in known, f"PagerDuty was not notified of {one.subject}"
                assert self.state_in_pagerduty(known[one.alert_id]) == "triggered", one.subject

    def state_in_pagerduty(self, incident: str) -> str:
        pager = self.sinks[1]
        assert isinstance(pager, PagerdutySink)
        (open_,) = [one for one in self.responses.open_incidents("pagerduty") if one.id == incident]
        assert isinstance(open_, OpenIncident)
        found = self.pagerduty.open(pager._key_of(open_))
        assert found is not None
        return found.state

    def check_pagerduty(self) -> None:
        incidents = self.incidents()
        for incident, alerts in incidents.items():
            if not any(self.is_silenced(one) for one in alerts):
                whole = all(self.is_acknowledged(one) for one in alerts)
                assert self.state_in_pagerduty(incident) == ("acknowledged" if whole else "triggered")
        assert sum(one.state != "resolved" for one in self.pagerduty.alerts) == len(incidents)

    def check_slack(self) -> None:
        shown = [one for one in self.slack.channel_messages if _is_open(one)]
        known = self.notifying.ledger.incidents(self.sinks[0].options.name)
        acknowledged = 0
        for transitions in known.values():
            newest = {each.alert.alert_id: each.alert for each in transitions if each.delivered}
            open_ = [one for one in newest.values() if one.state is AlertState.FIRING]
            acknowledged += bool(open_) and any(self.is_acknowledged(one) for one in open_)
        if not any(self.is_silenced(one) for one in self.firing.values()):
            assert sum("cknowledged by" in str(one.blocks) for one in shown) == acknowledged


def _is_open(message: ChannelMessage) -> bool:
    return any(one["type"] == "actions" for one in message.blocks)


@pytest.fixture
def servers(certificate: Any) -> Iterator[list[HttpDouble]]:
    with serving(certificate) as one, serving(certificate) as two, serving(certificate) as three:
        yield [one, two, three]


@pytest.mark.parametrize(
    "seed", [*range(FAST), *(pytest.param(each, marks=pytest.mark.long) for each in range(FAST, 200))]
)
def test_all_agree_in_the_end_and_no_page_is_lost(
    seed: int, servers: list[HttpDouble], trusted: CertificateAuthority, tmp_path: Path
) -> None:
    world = World(seed, servers, Path(trusted.file), tmp_path)
    clocks = [patch.object(module, "wall_ms", world._now) for module in (responses, notifying, silences)]
    with clocks[0], clocks[1], clocks[2], patch("os.fsync"), patch.object(sqlite_file, "SYNCHRONOUS", "OFF"):
        steps = [world.step() for _ in range(STEPS)]
        world.settle()
        try:
            world.check()
        except AssertionError as problem:
            raise AssertionError(f"seed {seed}: {' '.join(steps)}\n{problem}") from problem
