"""Whatever reads a text from outside takes a time in proportion to its length, whatever the text contains.

A text that holds the interpreter stops the whole driver: the page, delivery and the heartbeat.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient
from sqlalchemy.exc import DBAPIError

from connectors.errors import KraftwatchError
from connectors.kafka.resolver import read_hosts
from connectors.logdir.log_dir_files import read_election_state, read_meta_properties
from connectors.observations.observation import ObservationKind
from connectors.observations.point_in_time import parse_time
from connectors.relay.relay_message import parse_message
from connectors.settings.secret import Secret, excerpt, redact
from connectors.settings.sections import host_port, parse_seconds, uri_scheme
from connectors.sinks import apprise, console, webhook
from connectors.sinks.alert_json import compact_json, key_of, to_line
from connectors.sinks.alertmanager import send as alertmanager
from connectors.sinks.http_request import HttpResponse, outcome_of_response, seconds_of
from connectors.sinks.notification_text import alert_text
from connectors.sinks.pagerduty import send as pagerduty
from connectors.sinks.sink_config import MessageLinks, url_server
from connectors.sinks.slack.blocks import slack_document
from connectors.store.postgres import PostgresDatabase
from connectors.store.store_place import PostgresPlace
from connectors.store.stored_json import parse_json
from rules.alert import Alert
from rules.finding import Severity
from rules.notifications.notification import Notification, single_alert_notification
from rules.rescue.voter_override import parse_controllers
from streaming.config import checked
from streaming.config.yaml_lines import parse_yaml
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.query import Query
from streaming.replay.decoded_row import decode_observation
from streaming.status.status_store import StatusStore
from streaming.web.api import api
from streaming.web.application import application
from streaming.web.fleet_view import FleetView
from streaming.web.page_access import PageAccess
from streaming.web.pages import pages
from streaming.web.templating import render
from tests.hostile.monitored_path import MonitoredPath
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

BAITS = (
    *("a.", "://", "a://", "a@", "token=", "password ", "bearer ", '"', "'", "\\", "(", "[", "{a: ", "${a:-", "- "),
    *(
        "&a ",
        "*a ",
        ": ",
        "/",
        "%",
        "1",
        "1:",
        "=",
        ",",
        "a;q=1,",
        'W/"',
        " ",
        "\n",
        "\x00",
        "\u2028",
        "\u202e",
        "\ud800",
    ),
    *("<", "```", "Error ", "\nat ", 'role "', 'version "1', "expected 1", "1@h:1:"),
    "Record at topic a partition 1 offset 1 has timestamp value ",
)
"""What a text repeats: beginnings of what is looked for, which never ends."""
CLUSTER = {"name": "a", "bootstrap": ["h:1"]}
LINKS = MessageLinks(docs_url="https://docs.test", page_url="https://page.test")
AUTHORIZED = {"Authorization": "Bearer token", "Host": "localhost"}
Read: TypeAlias = Callable[[str], object]
ALLOWED_S = 0.1
GROWTH = 8.0
"""Of four times the text: 4 where each character costs the same, 16 where each costs one of the others."""


def hostile(text: str) -> Alert:
    evidence = {text: [text, text], "rows": [{text: text}]}
    return alert(text, summary=text, cluster=text, evidence=evidence, remedy=(text, f"# {text}"))


def in_bytes(read: Callable[[bytes], object]) -> Read:
    return lambda text: read(text.encode("utf-8", "surrogatepass"))


def in_config(*keys: str, **more: object) -> Read:
    """Returns the reader of a configuration that has the text as the value of these keys."""

    def check(text: str) -> object:
        given: dict[str, object] = {"clusters": [CLUSTER], **more}
        for key in keys:
            prefix = {"store": "postgresql://", "checkpoint": "s3a://"}.get(key, "https://")
            with suppress(KraftwatchError):
                checked({**given, key: prefix + text}, "x")
        return None

    return check


@dataclass(frozen=True, kw_only=True)
class Product:
    """What readers need of the product."""

    folder: Path
    client: FlaskClient
    monitored: MonitoredPath

    def file(self, name: str, read: Callable[[Path], object]) -> Read:
        def written_and_read(text: str) -> object:
            (self.folder / name).write_bytes(text.encode("utf-8", "surrogatepass"))
            return read(self.folder)

        return written_and_read

    def get(self, path: str) -> Read:
        return lambda text: self.client.get(path + quote(text.encode("utf-8", "surrogatepass")), headers=AUTHORIZED)

    def header(self, name: str, before: str = "") -> Read:
        def requested(text: str) -> object:
            value = " ".join((before + text).split("\n")).encode("utf-8", "replace").decode("latin-1")
            return self.client.get("/", headers={**AUTHORIZED, name: value})

        return requested

    def row(self, text: str) -> object:
        payload = text.encode("utf-8", "surrogatepass")
        return decode_observation(self.monitored.row(ObservationKind.QUORUM, payload)).events()

    def error_of_spark(self, text: str) -> object:
        unused: Any = None
        return Query(Checkpoint(folder=self.folder), unused)._failure("failed", Exception(text))


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    folder = tmp_path_factory.mktemp("read")
    (folder / "token").write_text("token")
    view = FleetView(store=StatusStore(["a"]))
    access = PageAccess(token=Secret(file=folder / "token"))
    app = application([pages(view), api(view)], host="h", page_url=lambda: "https://page.test", access=access)
    monitored = MonitoredPath()
    yield Product(folder=folder, client=app.test_client(), monitored=monitored)
    monitored.close()


def error_of_postgres(text: str) -> object:
    place = PostgresPlace(url="postgresql://user@host/database", password=None)
    return PostgresDatabase(place)._error(DBAPIError("", {}, Exception(text)))


def answer(status: int) -> Read:
    def read(text: str) -> object:
        headers = {"Retry-After": text, "Content-Type": f"html{text}"}
        response = HttpResponse(status=status, headers=headers, body=text.encode())
        url, secrets = "https://host.test/a-secret-path", ["another secret"]
        outcome_of_response(response, url, secrets)
        return outcome_of_response(response, url, secrets, server="S", accepted=lambda one: one.json == 1)

    return read


def alert_for_alertmanager(text: str) -> object:
    times = {"sent_at_ms": NOON_MS, "ends_at_ms": NOON_MS}
    return alertmanager.postable_alert(hostile(text), Severity.CRITICAL, text, links=LINKS, **times)


def of_alert(write: Callable[[Notification], object]) -> Read:
    return lambda text: write(single_alert_notification(hostile(text)))


def relay_message(content: bytes) -> object:
    return parse_message(content, content, [("epoch", content)])


def key_of_config(text: str) -> object:
    return checked({text: 1, "clusters": [CLUSTER]}, "x")


LONG, MEDIUM, SHORT = 65_536, 16_384, 4_096
READERS: Mapping[str, tuple[Callable[[Product], Read], int]] = {
    "redaction": (lambda _: redact, LONG),
    "redaction of secrets": (lambda _: lambda text: redact(text, "a.a.a.a.", text[:40], "://a"), LONG),
    "excerpt": (lambda _: excerpt, LONG),
    "Retry-After": (lambda _: lambda text: seconds_of({"Retry-After": text, "Date": text}), LONG),
    "error of a sink": (lambda _: answer(500), LONG),
    "answer of a sink": (lambda _: answer(200), LONG),
    "error of Spark": (lambda product: product.error_of_spark, LONG),
    "error of PostgreSQL": (lambda _: error_of_postgres, LONG),
    "alert as text": (lambda _: lambda text: alert_text(hostile(text)), SHORT),
    "alert for Slack": (lambda _: of_alert(lambda one: slack_document(one, LINKS)), SHORT),
    "alert for Apprise": (lambda _: of_alert(lambda one: apprise.body(one, LINKS)), SHORT),
    "alert for PagerDuty": (lambda _: of_alert(lambda one: pagerduty.event(one, LINKS)), SHORT),
    "alert for Alertmanager": (lambda _: alert_for_alertmanager, SHORT),
    "alert for a webhook": (
        lambda _: of_alert(lambda one: compact_json(webhook.document(one, NOON_MS, LINKS))),
        SHORT,
    ),
    "alert for the console": (lambda _: lambda text: console.rendered(hostile(text)), SHORT),
    "line of a file": (lambda _: lambda text: key_of(to_line(hostile(text), NOON_MS)), SHORT),
    "any line of a file": (lambda _: in_bytes(key_of), LONG),
    "JSON": (lambda _: parse_json, LONG),
    "row of the journal": (lambda product: product.row, SHORT),
    "message of a relay": (lambda _: in_bytes(relay_message), LONG),
    "YAML": (lambda _: lambda text: parse_yaml(text, {}), SHORT),
    "text in YAML": (lambda _: lambda text: parse_yaml(f"a: '{text.replace(chr(39), chr(34))}'", {}), SHORT),
    "address": (lambda _: host_port, LONG),
    "duration": (lambda _: parse_seconds, LONG),
    "scheme": (lambda _: uri_scheme, LONG),
    "time": (lambda _: parse_time, LONG),
    "URL of a sink": (lambda _: lambda text: webhook.host_of(Secret(text=f"https://{text}")), LONG),
    "server of a URL": (lambda _: lambda text: url_server(Secret(text=f"https://{text}")), LONG),
    "list of voters": (lambda _: lambda text: parse_controllers(text, "CONTROLLER"), LONG),
    "URLs in the configuration": (lambda _: in_config("docs_url", "page_url", "store", "checkpoint"), MEDIUM),
    "key of the configuration": (lambda _: key_of_config, MEDIUM),
    "sink in the configuration": (lambda _: lambda text: checked({"sinks": [text], "clusters": [CLUSTER]}, "x"), LONG),
    "cluster in the configuration": (lambda _: lambda text: checked({"clusters": [{"name": text}]}, "x"), LONG),
    "meta.properties": (lambda product: product.file("meta.properties", read_meta_properties), MEDIUM),
    "quorum-state": (lambda product: product.file("quorum-state", read_election_state), MEDIUM),
    "hosts file": (lambda product: product.file("hosts", lambda at: read_hosts(at / "hosts", "h")), MEDIUM),
    "text on the page": (
        lambda _: lambda text: render("no_past_state.html", name=text, reason=text, replaying=False, back=text),
        SHORT,
    ),
    "search of the page": (lambda product: product.get("/?q="), SHORT),
    "time of the page": (lambda product: product.get("/clusters/a?at="), SHORT),
    "topic of the page": (lambda product: product.get("/clusters/a?topic="), SHORT),
    "path of the page": (lambda product: product.get("/"), SHORT),
    "login of the page": (lambda product: product.header("Authorization", "Basic "), SHORT),
    "Host of the page": (lambda product: product.header("Host"), SHORT),
    "Authorization of the page": (lambda product: product.header("Authorization"), SHORT),
    "If-None-Match of the page": (lambda product: product.header("If-None-Match"), SHORT),
    "Accept-Encoding of the page": (lambda product: product.header("Accept-Encoding"), SHORT),
    "Cookie of the page": (lambda product: product.header("Cookie"), SHORT),
}
"""How each is made of the product, and the length of the long text that it reads."""


def cpu_s(read: Read, text: str) -> float:
    began = time.thread_time()
    with suppress(KraftwatchError, ValueError):
        read(text)
    return time.thread_time() - began


def grows_in_proportion(read: Read, bait: str, length: int) -> bool:
    def text(size: int) -> str:
        return (bait * (size // len(bait) + 1))[:size]

    return cpu_s(read, text(length)) <= GROWTH * cpu_s(read, text(length // 4)) + ALLOWED_S


@pytest.mark.parametrize("name", READERS)
def test_the_time_to_read_a_text_grows_with_its_length(product: Product, name: str) -> None:
    make, length = READERS[name]
    read = make(product)

    # A busy machine may slow one measurement down, but not three.
    slow = [bait for bait in BAITS if not any(grows_in_proportion(read, bait, length) for _ in range(3))]

    assert slow == []


def test_a_reader_whose_time_grows_with_the_square_is_noticed() -> None:
    def quadratic(text: str) -> object:
        return [text.count(text[at:]) for at in range(0, len(text), 4)]

    assert not any(grows_in_proportion(quadratic, "a.", 65_536) for _ in range(3))
