"""What all kinds of sinks have in common: their keys in the configuration, and what a kind supplies to use them.

A kind of sink is one module with its section of the configuration (`SinkSection`, or `PeopleSection` for a sink that
notifies people), which opens the sink and says what the doctor and the test notification need, and with the sink.
`sink_entry` registers it. `SinkMemory` keeps what a sink must remember.
"""

import logging
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import Field, TypeAdapter
from requests.utils import get_environ_proxies, select_proxy

from connectors.errors import StoreError, UnavailableStoreError, UsageError
from connectors.settings.secret import Secret
from connectors.settings.sections import Duration, Form, Section, url_problem
from connectors.sinks.http_request import error_text, tls_context
from connectors.sinks.sink import DeliveryMode, DeliveryOptions, Sink
from connectors.store.store_place import StorePlace
from rules.alert import Alert
from rules.evaluate import ALL_RULES
from rules.finding import Severity
from rules.model.job_state import JOB_CLUSTER_ID
from rules.notifications.route import Route

TIMEOUT_S = 5.0
TEST_RULE = "test"
"""In place of a rule's id in a test notification."""
_REPEAT_S = 4 * 3_600.0
_LOG = logging.getLogger(__name__)
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkServer:
    """One server that a sink connects to."""

    host: str
    port: int
    tls: bool = False
    """Whether the connection begins with a TLS handshake whose certificate is verified as the sink does."""
    ca_file: Path | None = None
    proxy: bool = False
    """The HTTP proxy of the environment, through which the sink reaches its server."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'proxy ' if self.proxy else ''}{host}:{self.port}"

    def problem(self) -> str | None:
        """Connects; returns why the server cannot be reached, None if it can."""
        try:
            with socket.create_connection((self.host, self.port), timeout=TIMEOUT_S) as connection:
                if self.tls:
                    tls_context(self.ca_file).wrap_socket(connection, server_hostname=self.host).close()
        except OSError as error:
            return error_text(error)
        return None


def url_server(url: Secret, ca_file: Path | None = None) -> SinkServer:
    """Returns the server of a URL, or the HTTP proxy through which it is reached.

    Raises UsageError if the URL cannot be read, or it or that of the proxy is invalid.
    """
    text = url.read()
    if (problem := url_problem(text)) is not None:
        raise UsageError(f"invalid url{url.place}: {problem}")
    proxy = select_proxy(text, get_environ_proxies(text))
    try:
        parts = urlsplit(proxy or text)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise UsageError("the proxy of the environment is not a URL: correct HTTPS_PROXY or HTTP_PROXY") from None
    if proxy:
        return SinkServer(host=parts.hostname or "", port=port, proxy=True)
    return SinkServer(host=parts.hostname or "", port=port, tls=parts.scheme == "https", ca_file=ca_file)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLinks:
    """The links in messages: base URLs for the whole job. Without a URL, messages have no such link."""

    docs_url: str | None = None
    """The URL of the documentation; its rule pages are at `rules/ID/` below it."""
    page_url: str | None = None
    """The URL of the job's page; a cluster's page is at `clusters/NAME` below it."""

    def rule(self, rule: str) -> str | None:
        """Returns the URL of the rule's page: in the documentation, or as the job serves it.

        For a notification of no rule, such as a test, that of the list of all rules.
        """
        name = quote(rule, safe="") if rule in ALL_RULES else ""
        if self.docs_url is not None:
            return "/".join(filter(None, (self.docs_url.rstrip("/"), "rules", name))) + "/"
        return None if self.page_url is None else "/".join(filter(None, (self.page_url.rstrip("/"), "rules", name)))

    def of(self, alert: Alert, about_rule: str = "What it means") -> Iterator[tuple[str, str]]:
        """Yields what there is of both for a message about an alert: each URL with its label."""
        for url, label in ((self.rule(alert.rule), about_rule), (self.cluster(alert.cluster), "Cluster status")):
            if url is not None:
                yield url, label

    def cluster(self, cluster: str) -> str | None:
        """Returns the URL of the cluster's page; for an alert about the job itself, of the overview."""
        if self.page_url is None:
            return None
        root = self.page_url.rstrip("/")
        return f"{root}/" if cluster == JOB_CLUSTER_ID else f"{root}/clusters/{quote(cluster, safe='')}"


_SINK_NAME = Form(
    r"^[A-Za-z0-9#@][A-Za-z0-9#@._:/-]*$",
    "write letters, digits and any of # @ . _ : / -, without a blank, beginning with a letter, a digit, # or @",
)


class SinkSection(Section, ABC):
    """The keys of every kind of sink, and what the kind supplies."""

    form: ClassVar[str]
    """What `--sink` takes, for people: `jsonl:PATH`."""
    expected: ClassVar[str]
    """What `expectation` returns, with `{name}`, `{severity}` and keys as `{section.KEY}`."""
    text_key: ClassVar[str | None] = None
    """The key of the secret that the text after the kind sets, or its file: `@FILE`."""
    mode: ClassVar[DeliveryMode] = DeliveryMode.INCIDENTS
    fixed_repeat_s: ClassVar[float | None] = None
    """The repeat interval of a kind that people cannot set: an incident that is not sent again ends there by itself."""
    test_open_s: ClassVar[float] = 0.0
    """How long the test notification stays open: an alert in a pager that resolves at once may page nobody."""
    test_resolves: ClassVar[bool] = True
    """False if the test notification ends by itself."""

    name: Annotated[str, Field(max_length=100), _SINK_NAME] | None = None
    """The name in the ledger; two sinks at one address need one. A renamed sink is notified again of firing alerts; one
    whose address changes while its name stays, as `pagerduty` with another routing key, only of what changes."""
    min_severity: Severity = Severity.INFO
    """The lowest severity to send: `critical` for a pager. A sent alert is always resolved."""
    clusters: tuple[str, ...] = Field(default=("*",), min_length=1)
    """The clusters whose alerts are sent, as `watch` has them."""
    rules: tuple[str, ...] = Field(default=("*",), min_length=1)
    """The rules whose alerts are sent: ids or patterns; `["!version-drift"]` are all others."""

    @classmethod
    def keys_of_text(cls, text: str) -> Mapping[str, Any]:
        """Returns the keys that a text of `--sink` stands for, without its kind.

        Raises ValueError if the kind does not take this text, which may be a secret.
        """
        assert cls.text_key is not None
        return {cls.text_key: {"file": text[1:]} if text.startswith("@") else text}

    @property
    def kind(self) -> str:
        """The kind of sink, such as `slack`."""
        return self.form.partition(":")[0]

    @property
    def options(self) -> DeliveryOptions:
        """How the dispatcher delivers to the sink. Raises UsageError as `default_name`."""
        return DeliveryOptions(
            name=self.name or self.default_name(),
            mode=self.mode,
            repeat_s=self.fixed_repeat_s or self.repeat_s,
            expires=self.fixed_repeat_s is not None,
            route=self.route,
        )

    @property
    def route(self) -> Route:
        """Which alerts are sent."""
        return Route(min_severity=self.min_severity, clusters=self.clusters, rules=self.rules)

    @property
    def repeat_s(self) -> float | None:
        """The repeat interval of a sink that notifies people; None for never."""
        return None

    @abstractmethod
    def default_name(self) -> str:
        """Returns the name in the ledger of a sink without a configured one: the same after a restart, no secret.

        Raises UsageError if the address cannot be read, or is invalid.
        """

    @abstractmethod
    def open(self, links: MessageLinks, store: StorePlace) -> Sink:
        """Opens the sink. A library that is slow to load is imported here, so that only configured kinds load it.

        `links`: in its messages; `store`: the job's database, which holds what a sink remembers.

        Raises UsageError if the destination cannot be written, or a file of the section cannot be read.
        """

    def expectation(self, name: str, severity: Severity) -> str:
        """Returns what a person should see after a test notification of this severity, and where; `name` is the sink's.

        It contains no secret.
        """
        return self.expected.format(section=self, name=name, severity=severity)

    def servers(self) -> Sequence[SinkServer]:
        """Returns the servers that the doctor connects to; none if there are none, or only a library knows them.

        Raises UsageError if the URL cannot be read.
        """
        return []

    def created_file(self) -> Path | None:
        """Returns the file that opening the sink would create; None if there is none."""
        return None


class PeopleSection(SinkSection):
    """The further keys of a sink for people."""

    repeat: Duration | Literal["never"] = _REPEAT_S
    """How long after a notification the same firing incident is sent again: a duration such as `4h`, or `never`."""

    @property
    def repeat_s(self) -> float | None:
        """The repeat interval; None for never."""
        return None if self.repeat == "never" else self.repeat


class SinkMemory(Generic[ValueT]):
    """A value for each of the newest thousand incidents, or of so many as are kept."""

    def __init__(
        self, store: StorePlace, sink: str, values: TypeAdapter[ValueT], *, if_lost: str, keep: int = 1_000
    ) -> None:
        """Opens nothing yet; `if_lost`: what happens after a restart if a value could not be stored, as a clause."""
        # Commands that only read the configuration import this module: they do without SQLAlchemy (0.3 s).
        from connectors.store.collection import Collection
        from connectors.store.tables import job_database

        self._stored = Collection(job_database(store), f"sink {sink}", values, keep=keep)
        self._if_lost = if_lost
        self._unstored: dict[str, ValueT] = {}
        self._failed = False

    def get(self, incident: str) -> ValueT | None:
        """Returns the value of an incident; None if there is none or it is damaged.

        Raises UnavailableStoreError if it may be known in a moment: until then the sink cannot tell what to send.
        """
        if incident in self._unstored:
            return self._unstored[incident]
        try:
            return self._stored.get(incident)
        except UnavailableStoreError:
            raise
        except StoreError as problem:
            self._report(problem)
            return None

    def put(self, incident: str, value: ValueT) -> None:
        """Stores the value of an incident, on disk if possible: the notification was sent, and is not sent again."""
        with suppress(UnavailableStoreError):
            if self.get(incident) == value and incident not in self._unstored:
                return
        self._unstored[incident] = value
        try:
            self._stored.put(self._unstored)
        except StoreError as problem:
            self._report(problem)
        else:
            self._unstored, self._failed = {}, False

    def _report(self, problem: StoreError) -> None:
        if not self._failed:
            _LOG.warning("%s; after a restart, %s.", problem, self._if_lost)
        self._failed = True
