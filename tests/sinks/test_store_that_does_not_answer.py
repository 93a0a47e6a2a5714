"""The server of the store stops answering between what the ledger records and what a sink reads of an incident."""

from pathlib import Path
from unittest.mock import patch

from connectors.errors import UnavailableStoreError
from connectors.process.wall_clock import wall_ms
from connectors.settings.secret import Secret
from connectors.sinks.sink_config import MessageLinks
from connectors.store.collection import Collection
from rules.finding import Severity
from rules.notifications import planner
from tests.eventually import eventually
from tests.sinks.pagerduty_double import PagerdutyDouble
from tests.sinks.responding_job import RespondingJob, lagging
from tests.sinks.server import HttpDouble, HttpReply, ReceivedRequest
from tests.sinks.sink_kind import SECRET, local_pagerduty, local_slack
from tests.sinks.slack_double import SlackDouble
from tests.unit.connectors.kafka.certificates import CertificateAuthority


def test_nothing_is_opened_twice_and_nothing_stays_open(
    server: HttpDouble, trusted: CertificateAuthority, tmp_path: Path
) -> None:
    slack, pagerduty, ca_file = SlackDouble(), PagerdutyDouble(), Path(trusted.file)

    def reply(request: ReceivedRequest) -> HttpReply:
        return (slack if request.path.startswith("/api/") else pagerduty).reply(request)

    server.behave = reply
    sections = (
        local_slack(ca_file, channel="#kafka", token=Secret(text=SECRET), api_url=f"{server.url}/api/"),
        local_pagerduty(server.url, ca_file, SECRET),
    )
    job = RespondingJob(tmp_path, lambda: [each.open(MessageLinks(), tmp_path) for each in sections])
    job.fire(lagging())
    job.acknowledgements.add(job.notifying.ledger.firing(), by="Ana", now_ms=wall_ms())
    job.notifying.send()
    # PagerDuty's alert gets another key: the sink remembers it.
    job.acknowledgements.end([one.alert_id for one in job.notifying.ledger.firing()], now_ms=wall_ms())
    job.notifying.send()
    (_, open_there), (message,) = pagerduty.alerts, slack.channel_messages

    with patch.object(Collection, "get", side_effect=UnavailableStoreError("the store does not answer")):
        job.fire(lagging(severity=Severity.CRITICAL))
    assert job.notifying.ledger.pending_count("pagerduty") == job.notifying.ledger.pending_count("slack:#kafka") == 1

    def escalated() -> None:
        job.notifying.send()
        assert (open_there.state, len(pagerduty.alerts)) == ("resolved", 3)
        assert ("CRITICAL" in message.body["text"], slack.channel_messages) == (True, [message])

    eventually(escalated, within_s=60)
    with patch.object(planner, "RECOVERY_MS", 0):
        job.fire()
    assert {one.state for one in pagerduty.alerts} == {"resolved"}
    assert "RESOLVED" in message.body["text"]
