"""A sink whose answers are not those of its service is reported by the other sinks, and by the test notification."""

from pathlib import Path
from typing import Any

import pytest

from connectors.sinks.sink_config import MessageLinks
from rules.alert import AlertState
from streaming.doctor.sink_check import check_sink
from tests.sinks.server import HttpDouble, HttpReply
from tests.sinks.sink_kind import SinkKind
from tests.sinks.subjects import SINK_KINDS
from tests.unit.connectors.kafka.certificates import CertificateAuthority
from tests.unit.streaming.job.monitored_job import MonitoredJob

PORTAL = HttpReply(headers={"Content-Type": "text/html"}, body=b"<html>Welcome to the guest network")


@pytest.fixture(params=SINK_KINDS, ids=str)
def kind(request: pytest.FixtureRequest, trusted: CertificateAuthority, monkeypatch: pytest.MonkeyPatch) -> SinkKind:
    # For a library that has no option for certificate authorities.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", trusted.file)
    found: SinkKind = request.param
    return found


def test_sink_behind_a_portal_is_reported_by_another_one_and_gets_everything_afterwards(
    kind: SinkKind, server: HttpDouble, trusted: CertificateAuthority, tmp_path: Path
) -> None:
    server.behave = lambda _: PORTAL
    job = MonitoredJob(tmp_path)
    sink: Any = kind.open(server.url, Path(trusted.file), tmp_path)
    job.set_sinks(sink)
    job.after(0, *job.blinded("a"))
    assert job.after(290) == []

    (sent,) = job.after(15)

    assert (sent.rule, sent.state) == ("sink-failing", AlertState.FIRING)
    assert sent.summary.startswith(f"Delivery to the sink {sink.options.name} fails: ")
    assert "the answer is" in sent.summary
    assert job.record.transitions[-1].key == sent.key
    assert job.ledger.pending_count(sink.options.name) == 1

    server.behave = kind.reply
    (resolved,) = job.after(40)
    assert (resolved.rule, resolved.state) == ("sink-failing", AlertState.RESOLVED)
    assert job.ledger.pending_count(sink.options.name) == 0


def test_test_notification_to_a_sink_behind_a_portal_has_failed(
    kind: SinkKind, server: HttpDouble, trusted: CertificateAuthority
) -> None:
    server.behave = lambda _: PORTAL
    check = check_sink(kind.section(server.url, Path(trusted.file)), MessageLinks(), send_test=True)
    assert check.test_error is not None
    assert "the answer is" in check.test_error
    assert check.expect is None
