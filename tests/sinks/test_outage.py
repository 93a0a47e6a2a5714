"""A sink that is unreachable for an hour loses nothing and repeats nothing afterwards; the job restarts in between.

The hour is simulated: a delivery gets the clock as an argument. The services are real servers on loopback that accept
only what the real ones accept; test_alertmanager uses a real one, and tests/kafka/test_kafka_sink.py tests the topic.
"""

import ssl
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from connectors.delivery.delivery_report import SinkResult
from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.sinks.sink import Sink
from connectors.store.store_place import StorePlace
from connectors.store.tables import job_database
from rules.alert import Alert
from rules.finding import Severity
from rules.model.identifiers import Millis
from tests.sinks.server import Behaviour, ConnectionReset, HttpDouble, HttpReply, ReceivedRequest, serving
from tests.sinks.sink_kind import SinkKind
from tests.sinks.subjects import SINK_KINDS
from tests.unit.connectors.kafka.certificates import CertificateAuthority
from tests.unit.connectors.sinks.sink_alerts import RecordingSink, alert

_MINUTE_MS = 60_000
OUTAGE_BEGINS, OUTAGE_ENDS, RESTART, END = 1, 62, 31, 80
"""Minutes of the scenario."""


@pytest.fixture(autouse=True)
def _libraries_trust_it(trusted: CertificateAuthority, monkeypatch: pytest.MonkeyPatch) -> None:
    """For libraries that have no option for certificate authorities."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", trusted.file)


class UnreliableService:
    """A server that can be made unreachable, and what it accepted."""

    def __init__(self, subject: SinkKind, server: HttpDouble, ca_file: Path, store: StorePlace) -> None:
        self.subject = subject
        self.reachable = True
        self.accepted: list[str] = []
        self._refusals = 0
        self._server, self._ca_file, self._store = server, ca_file, store
        server.behave = self._behave

    def open(self) -> Sink:
        return self.subject.open(self._server.url, self._ca_file, self._store)

    def _behave(self, request: ReceivedRequest) -> Behaviour:
        if not self.reachable:
            self._refusals += 1
            return ConnectionReset() if self._refusals % 2 else HttpReply(status=503)
        answer = self.subject.reply(request)
        self.accepted.append(request.body.decode())
        return answer


def of(cluster: str, *, minute: float, began_ms: int, began: float, **changed: Any) -> Alert:
    """Returns an alert with its own cluster, which makes it a separate incident."""
    return alert(
        f"subject {cluster}",
        cluster=cluster,
        cluster_id=cluster,
        started_at_ms=began_ms + round(began * _MINUTE_MS),
        observed_at_ms=Millis(began_ms + round(minute * _MINUTE_MS)),
        **changed,
    )


def transitions_by_minute(began_ms: int) -> Mapping[int, Sequence[Alert]]:
    """Returns the transitions of each minute."""

    def at(minute: int, cluster: str, *, began: int, **changed: Any) -> Alert:
        return of(cluster, minute=minute, began_ms=began_ms, began=began, **changed)

    return {
        0: [
            at(0, "ends", began=0),
            at(0, "worsens", began=0, severity=Severity.WARNING),
            at(0, "still-firing", began=0),
        ],
        10: [at(10, "worsens", began=0)],
        20: [at(20, "came-and-went", began=20)],
        35: [at(35, "came-and-went", began=20, resolved=True)],
        45: [at(45, "ends", began=0, resolved=True)],
        50: [at(50, "began", began=50)],
    }


INCIDENTS = {"ends", "worsens", "came-and-went", "began"}
"""The incidents of these transitions: `still-firing` has none."""


def patient_dispatcher(ledger: Ledger, sinks: Sequence[Sink]) -> Dispatcher:
    """Returns a dispatcher that waits for all outcomes, so that each belongs to its minute on a busy machine too."""
    return Dispatcher(ledger, sinks, deadline_s=60, patience_s=60)


def now_ms() -> int:
    return round(time.time() * 1000)


@pytest.mark.parametrize("subject", [one for one in SINK_KINDS if one.kind != "alertmanager"], ids=str)
def test_a_sink_for_people_after_an_outage(
    subject: SinkKind, certificate: ssl.SSLContext, trusted: CertificateAuthority, tmp_path: Path
) -> None:
    began_ms, delivered, result = now_ms(), 0, SinkResult()
    events = transitions_by_minute(began_ms)
    with serving(certificate) as server:
        service = UnreliableService(subject, server, Path(trusted.file), tmp_path)
        accepted_before: list[str] = []
        dispatcher = patient_dispatcher(Ledger(job_database(tmp_path)), [service.open()])
        for minute in range(END):
            if minute == RESTART:
                dispatcher = patient_dispatcher(Ledger(job_database(tmp_path)), [service.open()])
            if minute in (OUTAGE_BEGINS, OUTAGE_ENDS):
                service.reachable = minute == OUTAGE_ENDS
                accepted_before = [*service.accepted]
            # Spark repeats a batch that was not committed before the restart.
            transitions = [*events.get(minute, ()), *(events[20] if minute == RESTART else ())]
            (result,) = dispatcher.deliver(transitions, Millis(began_ms + minute * _MINUTE_MS)).sinks.values()
            assert not result.rejected
            assert result.delivered == 0 or not OUTAGE_BEGINS <= minute < OUTAGE_ENDS
            delivered += result.delivered if minute >= OUTAGE_ENDS else 0
        assert result.pending == 0, "nothing is lost"
    assert delivered == len(INCIDENTS), "each incident once, with all its new transitions"
    since = "".join(service.accepted[len(accepted_before) :])
    # PagerDuty only gets a resolve for an incident that already ended.
    expected = INCIDENTS - {"came-and-went"} if subject.kind == "pagerduty" else INCIDENTS
    assert {cluster for cluster in INCIDENTS if f"subject {cluster}" in since} >= expected - {"ends"}
    assert "subject still-firing" not in since


REFUSED = {"refused-one": 403, "refused-two": 500, "refused-three": 400}
"""Clusters whose documents the service answers with this status."""


def test_what_a_service_refuses_or_no_formatter_renders_delays_nothing_else(
    certificate: ssl.SSLContext, trusted: CertificateAuthority, tmp_path: Path
) -> None:
    (subject,) = (one for one in SINK_KINDS if one.kind == "webhook")
    began_ms, record, refused, accepted = now_ms(), RecordingSink("record"), dict(REFUSED), list[str]()

    def behave(request: ReceivedRequest) -> HttpReply:
        body = request.body.decode()
        status = next((code for cluster, code in refused.items() if cluster in body), 200)
        if status == 200:
            accepted.append(body)
        return HttpReply(status=status)

    with serving(certificate) as server:
        server.behave = behave
        sink = subject.open(server.url, Path(trusted.file), tmp_path)
        dispatcher = patient_dispatcher(Ledger(job_database(tmp_path)), [sink, record])

        def deliver(*alerts: Alert, seconds: range) -> SinkResult:
            found: list[SinkResult] = []
            for second in seconds:
                report = dispatcher.deliver(alerts if not found else (), Millis(began_ms + second * 1000))
                found.append(report.sinks[sink.options.name])
            return found[-1]

        def one(cluster: str, **changed: Any) -> Alert:
            return of(cluster, minute=0, began_ms=began_ms, began=0, **changed)

        def times(*clusters: str) -> list[int]:
            return [sum(f"subject {cluster}" in body for body in accepted) for cluster in clusters]

        # The refused ones are the worst, so they come first.
        odd = alert("subject odd", cluster="odd", cluster_id="odd", started_at_ms=10**17)
        deliver(*map(one, REFUSED), odd, one("accepted", severity=Severity.WARNING), seconds=range(10))
        assert times("accepted", "odd", *REFUSED) == [1, 1, 0, 0, 0]
        deliver(one("later"), seconds=range(100, 106))
        assert times("later") == [1]
        result = deliver(seconds=range(106, 400, 20))
        assert (result.set_aside, result.failing is not None) == (len(REFUSED), True)
        (reported,) = [each for each in record.transitions if each.rule == "monitor-blind"]
        assert "has not accepted 3 notifications since" in reported.summary
        assert {each.split()[0] for each in reported.evidence["not_accepted"]} == set(REFUSED)  # type: ignore[union-attr]
        refused.clear()
        result = deliver(seconds=range(400, 600, 60))
        assert (result.set_aside, result.failing, result.pending) == (0, None, 0)
        assert times(*REFUSED, "accepted", "later", "odd") == [1] * 6


def test_a_sink_that_rejects_every_document_is_failing(
    certificate: ssl.SSLContext, trusted: CertificateAuthority, tmp_path: Path
) -> None:
    record = RecordingSink("record")
    with serving(certificate) as server:
        server.behave = lambda _: HttpReply(status=400)
        sink = SINK_KINDS[0].open(server.url, Path(trusted.file), tmp_path)
        ledger = Ledger(job_database(tmp_path))
        dispatcher = patient_dispatcher(ledger, [sink, record])
        result = SinkResult()
        for second in range(0, 400, 10):
            new = [alert("one"), alert("two")] if second == 0 else []
            result = dispatcher.deliver(new, Millis(now_ms() + second * 1000)).sinks[sink.options.name]
        assert (result.failing, result.pending, result.set_aside) == ("HTTP 400", 2, 0)
        assert [(each.rule, each.state) for each in record.transitions[2:]] == [("monitor-blind", "firing")]
        assert "has failed since" in record.transitions[-1].summary
        assert record.transitions[-1].evidence["reason"] == "HTTP 400"
