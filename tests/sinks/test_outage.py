"""A sink that is away for an hour loses nothing, and repeats nothing once it is back; the job restarts in the midst.

The hour is simulated: a delivery is given its clock. The places are real servers on loopback that take only what the
real ones do; Alertmanager is Debian's where that is there; the topic's broker is in tests/kafka/test_kafka_sink.py.
"""

import errno
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from connectors.delivery.dispatcher import Delivery
from connectors.delivery.ledger import Ledger
from connectors.durable_file import append
from connectors.secret import Secret
from connectors.sinks import jsonl
from connectors.sinks.alert_json import key_of
from connectors.sinks.sink import Sink, Style
from connectors.sinks.sink_config import Alertmanager, Jsonl, Wanted
from connectors.sinks.sink_factory import open_sink
from rules.alert import Alert
from rules.finding import Severity
from rules.model.identifiers import Millis
from tests.sinks.real_alertmanager import RealAlertmanager
from tests.sinks.server import Answer, Behaviour, Request, Reset, Server, serving
from tests.sinks.subjects import SUBJECTS, Subject
from tests.unit.connectors.kafka.certificates import Authority, authority
from tests.unit.connectors.sinks.sink_alerts import alert

_MINUTE_MS = 60_000
GONE, BACK, RESTART, END = 1, 62, 31, 80
"""Minutes of the story."""
OpenSinks = Callable[[], Sequence[Sink]]
Switch = Callable[[bool], None]
"""Lets the places be there, or not."""


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def certificate(trusted: Authority) -> ssl.SSLContext:
    return trusted.server(trusted.issue("server"))


@pytest.fixture(autouse=True)
def _libraries_trust_it(trusted: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that take no authorities of ours."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", trusted.file)


class Place:
    """A server that is away for a while, and what it took while it was there."""

    def __init__(self, subject: Subject, server: Server, ca_file: Path, memory: Path) -> None:
        self.subject = subject
        self.there = True
        self.taken: list[str] = []
        self._refusals = 0
        self._server, self._ca_file, self._memory = server, ca_file, memory
        server.behave = self._behave

    def open(self) -> Sink:
        return self.subject.open(self._server.url, self._ca_file, self._memory)

    def _behave(self, request: Request) -> Behaviour:
        if not self.there:
            self._refusals += 1
            return Reset() if self._refusals % 2 else Answer(status=503)
        answer = self.subject.taken(request)
        self.taken.append(request.body.decode())
        return answer


@contextmanager
def placed(subject: Subject, certificate: ssl.SSLContext, trusted: Authority, memory: Path) -> Iterator[Place]:
    with serving(certificate) as server:
        yield Place(subject, server, Path(trusted.file), memory)


def of(cluster: str, *, minute: float, began_ms: int, began: float, **changed: Any) -> Alert:
    """An alert whose subject is called after its cluster, which makes it an incident of its own."""
    return alert(
        f"subject {cluster}",
        cluster=cluster,
        cluster_id=cluster,
        started_at_ms=began_ms + round(began * _MINUTE_MS),
        observed_at_ms=Millis(began_ms + round(minute * _MINUTE_MS)),
        **changed,
    )


def story(began_ms: int) -> Mapping[int, Sequence[Alert]]:
    """What happens, by minute."""

    def at(minute: int, cluster: str, *, began: int, **changed: Any) -> Alert:
        return of(cluster, minute=minute, began_ms=began_ms, began=began, **changed)

    return {
        0: [
            at(0, "ends", began=0),
            at(0, "worsens", began=0, severity=Severity.WARNING),
            at(0, "stands", began=0),
        ],
        10: [at(10, "worsens", began=0)],
        20: [at(20, "came-and-went", began=20)],
        35: [at(35, "came-and-went", began=20, resolved=True)],
        45: [at(45, "ends", began=0, resolved=True)],
        50: [at(50, "began", began=50)],
    }


TRANSITIONS = 5
"""What happens while the places are away."""
INCIDENTS = {"ends", "worsens", "came-and-went", "began"}
"""Whose: of `stands` nothing is new."""


def patient(ledger: Ledger, sinks: Sequence[Sink]) -> Delivery:
    """A batch waits for the answers, so that each belongs to its minute however busy the machine is."""
    return Delivery(ledger, sinks, deadline_s=60, patience_s=60)


def lived(open_sinks: OpenSinks, switch: Switch, ledger_file: Path, *, began_ms: int) -> Mapping[str, Sequence[int]]:
    """Live through the story; how much each sink was delivered in each minute from the return on."""
    events = story(began_ms)
    ledger = Ledger(ledger_file)
    delivery = patient(ledger, open_sinks())
    delivered: dict[str, list[int]] = {}
    for minute in range(END):
        if minute in (GONE, BACK):
            switch(minute == BACK)
        if minute == RESTART:
            ledger.close()
            ledger = Ledger(ledger_file)
            delivery = patient(ledger, open_sinks())
        now_ms = Millis(began_ms + minute * _MINUTE_MS)
        # A batch that was not committed before the restart comes again.
        happened = [*events.get(minute, ()), *(events[20] if minute == RESTART else ())]
        for name, tally in delivery.deliver(happened, now_ms).sinks.items():
            assert not tally.rejected
            if GONE <= minute < BACK:
                assert tally.delivered == 0
            if minute >= BACK:
                delivered.setdefault(name, []).append(tally.delivered)
    for name in delivered:
        assert not ledger.pending(name), "nothing is lost"
    ledger.close()
    return delivered


def now_ms() -> int:
    return round(time.time() * 1000)


@pytest.mark.parametrize("subject", [one for one in SUBJECTS if one.kind != "alertmanager"], ids=str)
def test_one_that_people_read(
    subject: Subject, certificate: ssl.SSLContext, trusted: Authority, tmp_path: Path
) -> None:
    with placed(subject, certificate, trusted, tmp_path) as place:
        taken_before: list[int] = []

        def switch(there: bool) -> None:
            place.there = there
            taken_before[:] = [len(place.taken)]

        (delivered,) = lived(lambda: [place.open()], switch, tmp_path / "ledger", began_ms=now_ms()).values()
        assert sum(delivered) == len(INCIDENTS), "each incident once, with all that is new of it"
        since = "".join(place.taken[taken_before[0] :])
        # A pager need not be told of what is over already.
        told = INCIDENTS - {"came-and-went"} if subject.kind == "pagerduty" else INCIDENTS
        assert {cluster for cluster in INCIDENTS if f"subject {cluster}" in since} >= told - {"ends"}
        assert "subject stands" not in since


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Switch]:
    there = [True]

    def write(descriptor: int, content: bytes, size: int) -> None:
        if not there[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(descriptor, content, size)

    monkeypatch.setattr(jsonl, "append", write)
    yield lambda now: there.__setitem__(0, now)


def test_a_file_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, began_ms = tmp_path / "alerts.jsonl", now_ms()
    with full_disk(monkeypatch) as switch:
        opened = Wanted(place=Jsonl(path=path))
        (delivered,) = lived(
            lambda: [open_sink(opened, memory=tmp_path)], switch, tmp_path / "ledger", began_ms=began_ms
        ).values()
    assert sum(delivered) == TRANSITIONS
    happened = [one.key for each in story(began_ms).values() for one in each]
    assert [key_of(line) for line in path.read_bytes().splitlines()] == happened


@pytest.mark.debian("prometheus-alertmanager")
def test_a_real_alertmanager(tmp_path: Path) -> None:
    with RealAlertmanager(tmp_path / "alertmanager") as running:
        opened = Wanted(place=Alertmanager(url=Secret(text=running.url)))

        def switch(there: bool) -> None:
            if there:
                running.start()
            else:
                running.stop()

        lived(
            lambda: [open_sink(opened, memory=tmp_path)],
            switch,
            tmp_path / "ledger",
            # The story ends now, because the real one goes by its own clock.
            began_ms=now_ms() - END * _MINUTE_MS,
        )
        critical = Severity.CRITICAL.value
        assert set(running.standing()) == {(f"subject {each}", critical) for each in ("worsens", "stands", "began")}


def test_all_at_once(
    certificate: ssl.SSLContext, trusted: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, began_ms = tmp_path / "alerts.jsonl", now_ms()
    with ExitStack() as stack, full_disk(monkeypatch) as disk:
        places = [stack.enter_context(placed(each, certificate, trusted, tmp_path)) for each in SUBJECTS]

        def switch(there: bool) -> None:
            disk(there)
            for place in places:
                place.there = there

        def opened() -> Sequence[Sink]:
            return [open_sink(Wanted(place=Jsonl(path=path)), memory=tmp_path), *(place.open() for place in places)]

        sinks = opened()
        delivered = lived(opened, switch, tmp_path / "ledger", began_ms=began_ms)
    for sink in sinks:
        since = delivered[sink.terms.name]
        if sink.terms.style is Style.INCIDENTS and sink.terms.repeat_s is None:
            assert sum(since[-5:]) == 0, "nothing is repeated"
    happened = [one.key for each in story(began_ms).values() for one in each]
    written = [key_of(line) for line in path.read_bytes().splitlines()]
    assert [key for key in written if key in happened] == happened
    assert len(written) == len(set(written))
