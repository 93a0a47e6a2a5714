"""The job is killed after a service accepted a notification and before the ledger recorded that: the incident ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.sinks.sink import Sink
from connectors.sinks.sink_config import SinkSpec, open_sink
from connectors.store.tables import job_database
from rules.model.identifiers import Millis
from rules.notifications.route import Silence
from tests.eventually import eventually
from tests.sinks.pagerduty_double import PagerdutyDouble
from tests.sinks.server import Behaviour, HttpDouble, NoReply, ReceivedRequest
from tests.sinks.sink_kind import local_pagerduty
from tests.unit.connectors.kafka.certificates import CertificateAuthority
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

KEY = "0123456789abcdef0123456789abcdef"
FIRING = alert()
RESOLVED = alert(resolved=True, observed_at_ms=NOON_MS + 60_000)
SILENCE = Silence(
    id="1n",
    rule="no-leader",
    starts_at_ms=Millis(NOON_MS + 5_000),
    ends_at_ms=Millis(NOON_MS + 600_000),
    author="eva",
    comment="CHG-1234",
)


def pagerduty_sink(url: str, ca_file: Path, folder: Path) -> Sink:
    config = local_pagerduty(url, ca_file, KEY)
    return open_sink(SinkSpec(section=config), store=folder)


def deliver_firing(url: str, ca_file: Path, folder: Path) -> None:
    """Runs in another process, which is killed while it waits for the response."""
    sink = pagerduty_sink(url, ca_file, folder)
    Dispatcher(Ledger(job_database(folder)), [sink], deadline_s=600, patience_s=600).deliver([FIRING], NOON_MS)


def kill_after_acceptance(server: HttpDouble, double: PagerdutyDouble, ca_file: Path, folder: Path) -> None:
    """Delivers FIRING in a process that is killed once PagerDuty has it."""

    def accept_without_response(request: ReceivedRequest) -> Behaviour:
        double.reply(request)
        return NoReply()

    server.behave = accept_without_response
    code = (
        "import sys; from pathlib import Path; from tests.sinks.test_killed_delivery import deliver_firing; "
        "deliver_firing(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))"
    )
    process = subprocess.Popen([sys.executable, "-c", code, server.url, str(ca_file), str(folder)])
    try:
        eventually(lambda: len(double.alerts) == 1, within_s=60)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    server.behave = double.reply


@pytest.mark.parametrize("silences", [(), (SILENCE,)], ids=["not silenced", "silenced after the kill"])
def test_an_incident_that_was_accepted_before_a_kill_is_resolved(
    server: HttpDouble, trusted: CertificateAuthority, tmp_path: Path, silences: tuple[Silence, ...]
) -> None:
    double, ca_file = PagerdutyDouble(), Path(trusted.file)
    kill_after_acceptance(server, double, ca_file, tmp_path)
    dispatcher = Dispatcher(
        Ledger(job_database(tmp_path)),
        [pagerduty_sink(server.url, ca_file, tmp_path)],
        silences=lambda _: silences,
        deadline_s=120,
        patience_s=120,
    )

    dispatcher.deliver([], Millis(NOON_MS + 10_000))
    dispatcher.deliver([RESOLVED], Millis(NOON_MS + 60_000))

    assert [(each.state, each.pages) for each in double.alerts] == [("resolved", 1)]
    assert double.dropped == []
