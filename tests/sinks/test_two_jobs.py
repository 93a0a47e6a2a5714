"""Two jobs on one cluster, at two sites: services that deduplicate by a key get the same one from both."""

from pathlib import Path

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.sinks.sink_config import SinkSection, SinkSpec, open_sink
from connectors.store.tables import job_database
from rules.alert import Alert
from rules.finding import Severity
from rules.model.identifiers import Millis
from tests.sinks.pagerduty_double import PagerdutyDouble
from tests.sinks.server import HttpDouble
from tests.sinks.sink_kind import local_pagerduty
from tests.unit.connectors.kafka.certificates import CertificateAuthority
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

KEY = "0123456789abcdef0123456789abcdef"
LATER_MS = 700
"""How much later the second job observes the same condition."""


def dispatcher(config: SinkSection, folder: Path) -> Dispatcher:
    folder.mkdir()
    sink = open_sink(SinkSpec(section=config), store=folder)
    return Dispatcher(Ledger(job_database(folder)), [sink], deadline_s=60, patience_s=60)


def tolerance(severity: Severity, seconds: int, *, later_ms: int = 0, resolved: bool = False) -> Alert:
    """An alert that becomes worse while it fires."""
    return alert(
        "quorum",
        rule="failure-tolerance",
        severity=severity,
        resolved=resolved,
        started_at_ms=NOON_MS + later_ms,
        observed_at_ms=Millis(NOON_MS + 1_000 * seconds + later_ms),
    )


def test_an_incident_of_two_jobs_that_becomes_critical_pages_once_more(
    server: HttpDouble, trusted: CertificateAuthority, tmp_path: Path
) -> None:
    double = PagerdutyDouble()
    server.behave = double.reply
    config = local_pagerduty(server.url, Path(trusted.file), KEY)
    jobs = {"first": 0, "second": LATER_MS}
    dispatchers = {name: dispatcher(config, tmp_path / name) for name in jobs}
    for severity, seconds in ((Severity.WARNING, 5), (Severity.CRITICAL, 600)):
        for each in double.alerts:
            each.state = "acknowledged"
        for name, later_ms in jobs.items():
            at_ms = Millis(NOON_MS + 1_000 * seconds + 900)
            dispatchers[name].deliver([tolerance(severity, seconds, later_ms=later_ms)], at_ms)

    key = tolerance(Severity.WARNING, 5).fingerprint
    assert [(each.key, each.state, each.pages) for each in double.alerts] == [
        (key, "resolved", 1),
        (f"{key}-1", "triggered", 1),
    ]
    for name, later_ms in jobs.items():
        end = tolerance(Severity.CRITICAL, 700, later_ms=later_ms, resolved=True)
        dispatchers[name].deliver([end], Millis(NOON_MS + 701_000))
    assert [each.state for each in double.alerts] == ["resolved"] * 2
