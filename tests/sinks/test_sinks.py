"""The contract of every sink that speaks HTTP, whatever its place does."""

import logging
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry, Sink
from rules.alert import Alert
from rules.notifications.notification import Notice, NotifyReason
from tests.sinks.server import Answer, Behaviour, Drip, Request, Reset, ResetMidAnswer, Server, Silent, serving
from tests.sinks.subjects import SECRET, SUBJECTS, Subject
from tests.unit.connectors.kafka.certificates import Authority, authority
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

DEADLINE_S = 60.0
GRACE_S = 30.0
"""Nothing here is about speed: an answer after the deadline and this is one that was not bounded at all."""


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def certificate(trusted: Authority) -> ssl.SSLContext:
    return trusted.server(trusted.issue("server"))


@pytest.fixture
def server(certificate: ssl.SSLContext) -> Iterator[Server]:
    with serving(certificate) as server:
        yield server


@pytest.fixture(params=SUBJECTS, ids=str)
def subject(request: pytest.FixtureRequest) -> Subject:
    found: Subject = request.param
    return found


@dataclass
class Contract:
    """A sink, the server that it tells, and what is expected of both."""

    subject: Subject
    sink: Sink
    server: Server

    def tell(self, *notices: Notice, deadline_s: float = DEADLINE_S) -> Sequence[Outcome]:
        asked = notices or (notice(),)
        began = time.monotonic()
        outcomes = self.sink.tell(asked, sent_at_ms=NOON_MS, deadline_s=deadline_s)
        assert time.monotonic() - began < deadline_s + GRACE_S
        assert len(outcomes) == len(asked)
        for outcome in outcomes:
            if not isinstance(outcome, Delivered):
                assert_says_why(outcome)
        return outcomes

    def answers(self, behaviour: Behaviour) -> None:
        self.server.behave = lambda _: behaviour

    def takes(self) -> None:
        self.server.behave = self.subject.taken


@pytest.fixture
def contract(
    subject: Subject, server: Server, trusted: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Contract:
    # For a library that takes no authorities of ours.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", trusted.file)
    found = Contract(subject, subject.open(server.url, Path(trusted.file), tmp_path), server)
    found.takes()
    return found


@pytest.fixture(autouse=True)
def _no_log_shows_a_secret(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.INFO)
    yield
    assert SECRET not in caplog.text


def notice(subject: str = "voter 2", *, reason: NotifyReason = NotifyReason.FIRING, **changed: Any) -> Notice:
    told: Alert = alert(subject, resolved=reason is NotifyReason.RESOLVED, **changed)
    news = () if reason is NotifyReason.REPEATED else (told,)
    return Notice(incident=told.fingerprint, reason=reason, alerts=(told,), news=news)


def assert_says_why(outcome: Retry | Rejected) -> None:
    assert SECRET not in outcome.reason
    assert outcome.reason.strip()
    assert "\n" not in outcome.reason
    assert "Traceback" not in outcome.reason
    assert len(outcome.reason) < 300


def test_its_name_and_its_looks_show_no_secret(contract: Contract) -> None:
    assert SECRET not in contract.sink.terms.name
    assert SECRET not in repr(contract.sink)
    assert SECRET not in repr(contract.subject.place("https://x", Path("ca")))


def test_what_is_taken_is_delivered_in_order(contract: Contract) -> None:
    names = [f"voter {number}" for number in range(5)]
    assert contract.tell(*map(notice, names)) == [Delivered()] * 5
    bodies = [request.body.decode() for request in contract.server.requests]
    firsts = [next(at for at, body in enumerate(bodies) if name in body) for name in names]
    assert firsts == sorted(firsts)


def test_with_nothing_to_tell_nobody_is_asked(contract: Contract) -> None:
    assert contract.sink.tell([], sent_at_ms=NOON_MS, deadline_s=DEADLINE_S) == []
    assert contract.server.requests == []


def test_told_twice_is_told(contract: Contract) -> None:
    assert contract.tell() == contract.tell() == [Delivered()]


def test_the_whole_life_of_an_incident_is_taken(contract: Contract) -> None:
    for reason in (NotifyReason.FIRING, NotifyReason.CHANGED, NotifyReason.REPEATED, NotifyReason.RESOLVED):
        assert contract.tell(notice(reason=reason)) == [Delivered()]


def test_what_a_cluster_says_of_itself_is_data(contract: Contract) -> None:
    hostile = "<!channel> @here &amp; ``` \x1b[31m \u202e \ud800 *bold* <https://evil.example|click> \x00 "
    hostile += "x" * 9_000
    told = notice(hostile, summary=hostile, cluster=hostile, evidence={hostile: [hostile] * 50}, remedy=(hostile,) * 60)
    assert contract.tell(told) == [Delivered()]


def test_a_storm_of_alerts_is_one_message_that_is_taken(contract: Contract) -> None:
    alerts = tuple(alert(f"voter {number}", evidence={"line": "x" * 500}) for number in range(300))
    storm = Notice(incident="57" * 8, reason=NotifyReason.FIRING, alerts=alerts, news=alerts)
    assert contract.tell(storm) == [Delivered()]


@pytest.mark.parametrize("status", [302, 307, 400, 401, 403, 404, 405, 408, 410, 413, 422, 429, 500, 502, 503, 504])
def test_every_status_has_its_outcome(contract: Contract, status: int) -> None:
    elsewhere = {"Location": f"{contract.server.url}/elsewhere"}
    contract.answers(Answer(status=status, headers=elsewhere, body=f'{{"error": "{SECRET}"}}'.encode()))
    (outcome,) = contract.tell()
    assert isinstance(outcome, Rejected if status in contract.subject.never_taken else Retry)
    assert not [request for request in contract.server.requests if request.path == "/elsewhere"]
    if isinstance(outcome, Retry):
        assert len(contract.server.requests) == 1, "the ledger tries again, not the sink"
    contract.takes()
    assert contract.tell() == [Delivered()]


@pytest.mark.parametrize(("header", "after_s"), [("7", 7.0), ("soon", 0.0), ("-1", 0.0)])
def test_a_place_that_says_when_to_come_back_is_heard(contract: Contract, header: str, after_s: float) -> None:
    contract.answers(Answer(status=429, headers={"Retry-After": header}))
    first, second = contract.tell(notice("voter 1"), notice("voter 2"))
    assert isinstance(first, Retry)
    assert isinstance(second, Retry)
    if not contract.subject.hears_retry_after:
        return
    assert first.after_s == after_s
    if after_s:
        assert len(contract.server.requests) == 1, "it asked to be left alone"


def test_it_may_say_so_as_a_date(contract: Contract) -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    contract.answers(Answer(status=429, headers={"Retry-After": at}))
    (outcome,) = contract.tell()
    assert isinstance(outcome, Retry)
    if contract.subject.hears_retry_after:
        assert 3_000 < outcome.after_s <= 3_600


@pytest.mark.parametrize("behaviour", [Silent(), Drip()], ids=["silent", "a byte now and then"])
def test_the_deadline_holds_whatever_the_server_does(contract: Contract, behaviour: Behaviour) -> None:
    contract.answers(behaviour)
    outcomes = contract.tell(notice("voter 1"), notice("voter 2"), notice("voter 3"), deadline_s=1.0)
    assert [type(outcome) for outcome in outcomes] == [Retry] * 3


@pytest.mark.parametrize("behaviour", [Reset(), ResetMidAnswer()], ids=["at once", "in mid-answer"])
def test_a_connection_that_breaks_is_tried_again_later(contract: Contract, behaviour: Behaviour) -> None:
    contract.answers(behaviour)
    (outcome,) = contract.tell()
    assert isinstance(outcome, Retry)
    contract.takes()
    assert contract.tell() == [Delivered()]


def test_nobody_listens(contract: Contract) -> None:
    contract.server.close()
    (outcome,) = contract.tell()
    assert isinstance(outcome, Retry)


def test_an_answer_that_is_no_http(subject: Subject, trusted: Authority, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, serving() as server:
        del listening
        sink = subject.open(server.url.replace("http:", "https:"), Path(trusted.file), tmp_path)
        contract = Contract(subject, sink, server)
        (outcome,) = contract.tell(deadline_s=2.0)
        assert isinstance(outcome, Retry)


def test_a_certificate_that_is_not_trusted_is_told_nothing(subject: Subject, server: Server, tmp_path: Path) -> None:
    stranger = authority(tmp_path / "stranger")
    contract = Contract(subject, subject.open(server.url, Path(stranger.file), tmp_path), server)
    (outcome,) = contract.tell()
    assert isinstance(outcome, Retry)
    assert server.requests == []


def test_one_that_is_refused_does_not_hold_up_the_others(contract: Contract) -> None:
    def choosy(request: Request) -> Behaviour:
        return Answer(status=500) if b"voter 1" in request.body else contract.subject.taken(request)

    contract.server.behave = choosy
    outcomes = contract.tell(notice("voter 1"), notice("voter 2"))
    assert [type(outcome) for outcome in outcomes] == [Retry, Delivered]


def test_a_place_that_is_away_is_not_hammered(contract: Contract) -> None:
    contract.answers(Answer(status=500))
    outcomes = contract.tell(*(notice(f"voter {number}") for number in range(50)))
    assert [type(outcome) for outcome in outcomes] == [Retry] * 50
    assert len(contract.server.requests) == 2
