"""A sink that is unreachable for an hour loses nothing and repeats nothing afterwards; the job restarts in between.

The hour is simulated: a delivery gets the clock as an argument. The services are real servers on loopback that accept
only what the real ones accept; test_alertmanager uses a real one, and tests/kafka/test_kafka_sink.py tests the topic.
"""

import time
from pathlib import Path

import pytest

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.store.tables import job_database
from rules.alert import Alert
from rules.finding import Severity
from rules.model.identifiers import Millis
from tests.sinks.server import Behaviour, ConnectionReset, HttpDouble, HttpReply, ReceivedRequest
from tests.sinks.sink_kind import SinkKind
from tests.sinks.subjects import SINK_KINDS
from tests.unit.connectors.kafka.certificates import CertificateAuthority
from tests.unit.connectors.sinks.sink_alerts import alert

OUTAGE, RESTART, END = range(1, 62), 31, 80
"""Minutes of the scenario."""
INCIDENTS = {"ends", "worsens", "came-and-went", "began"}
"""The clusters whose alerts change during the outage: that of `still-firing` does not."""
BEGAN_MS = round(time.time() * 1000)


def at_minute(minute: int) -> Millis:
    return Millis(BEGAN_MS + 60_000 * minute)


def of(cluster: str, minute: int, *, began: int = 0, resolved: bool = False, warning: bool = False) -> Alert:
    """Returns a transition of an alert with its own cluster, which makes it a separate incident."""
    return alert(
        f"subject {cluster}",
        cluster=cluster,
        cluster_id=cluster,
        severity=Severity.WARNING if warning else Severity.CRITICAL,
        resolved=resolved,
        started_at_ms=at_minute(began),
        observed_at_ms=at_minute(minute),
    )


TRANSITIONS = {
    0: [of("ends", 0), of("worsens", 0, warning=True), of("still-firing", 0)],
    10: [of("worsens", 10)],
    20: [of("came-and-went", 20, began=20)],
    # Spark repeats a batch that was not committed before the restart.
    RESTART: [of("came-and-went", 20, began=20)],
    35: [of("came-and-went", 35, began=20, resolved=True)],
    45: [of("ends", 45, resolved=True)],
    50: [of("began", 50, began=50)],
}
"""By minute."""


@pytest.mark.parametrize("subject", [one for one in SINK_KINDS if one.kind != "alertmanager"], ids=str)
def test_a_sink_for_people_after_an_outage(
    subject: SinkKind,
    server: HttpDouble,
    trusted: CertificateAuthority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # For a library that has no option for certificate authorities.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", trusted.file)
    accepted: list[str] = []

    def accept(request: ReceivedRequest) -> Behaviour:
        accepted.append(request.body.decode())
        return subject.reply(request)

    def refuse(request: ReceivedRequest) -> Behaviour:
        return ConnectionReset() if len(server.requests) % 2 else HttpReply(status=503)

    def job() -> Dispatcher:
        sink = subject.open(server.url, Path(trusted.file), tmp_path)
        # It waits for all outcomes, so that each belongs to its minute on a busy machine too.
        return Dispatcher(Ledger(job_database(tmp_path)), [sink], deadline_s=60, patience_s=60)

    dispatcher, delivered, pending = job(), 0, 0
    for minute in range(END):
        if minute == RESTART:
            dispatcher = job()
        if minute == OUTAGE.stop:
            accepted.clear()
        server.behave = refuse if minute in OUTAGE else accept
        (result,) = dispatcher.deliver(TRANSITIONS.get(minute, ()), at_minute(minute)).sinks.values()
        assert not result.rejected
        assert result.delivered == 0 or minute not in OUTAGE
        delivered += result.delivered if minute >= OUTAGE.stop else 0
        pending = result.pending

    assert pending == 0, "nothing is lost"
    assert delivered == len(INCIDENTS), "each incident once, with all its new transitions"
    since = "".join(accepted)
    # PagerDuty only gets a resolve for an incident that already ended.
    expected = INCIDENTS - {"came-and-went"} if subject.kind == "pagerduty" else INCIDENTS
    assert {cluster for cluster in INCIDENTS if f"subject {cluster}" in since} >= expected - {"ends"}
    assert "subject still-firing" not in since
