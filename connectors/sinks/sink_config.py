"""A Place: which kind of sink, and where: the plain values that the configuration comes to."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from connectors.secret import Secret
from connectors.sinks.links import Links
from rules.notifications.route import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """The job's stderr."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jsonl:
    """A file with one line a transition."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Any HTTP server."""

    url: Secret
    headers: tuple[tuple[str, Secret], ...] = ()
    signing_key: Secret | None = None
    """Signs each document (HMAC-SHA-256)."""
    ca_file: Path | None = None
    """Authorities to trust instead of the system's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alertmanager:
    """One Alertmanager."""

    url: Secret
    """Without /api/v2/alerts."""
    username: str | None = None
    password: Secret | None = None
    token: Secret | None = None
    """A bearer's."""
    ca_file: Path | None = None
    """Authorities to trust instead of the system's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackBot:
    """A channel that a bot posts to."""

    channel: str
    """Its id, or `#name`."""
    token: Secret
    api_url: str = "https://slack.com/api/"
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackWebhook:
    """An incoming webhook of Slack."""

    url: Secret
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pagerduty:
    """An integration of a service (Events API v2)."""

    routing_key: Secret
    api_url: str = "https://events.pagerduty.com"
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Apprise:
    """Any service that Apprise knows, by its URL."""

    url: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTopic:
    """A topic of an ordinary Kafka cluster, reached at its brokers."""

    bootstrap: tuple[str, ...]
    """HOST:PORT of brokers."""
    topic: str
    create: bool = False
    """Create the topic, compacted, where it is not there."""
    security_protocol: str = "PLAINTEXT"
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    key_password: Secret | None = None
    crl_file: Path | None = None
    check_hostname: bool = True
    mechanism: str | None = None
    username: str | None = None
    password: Secret | None = None
    token: Secret | None = None
    """OAUTHBEARER's."""


Place: TypeAlias = Console | Jsonl | Webhook | Alertmanager | SlackBot | SlackWebhook | Pagerduty | Apprise | KafkaTopic


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A place, and what every kind of sink has in common."""

    place: Place
    links: Links = field(default_factory=Links)
    """Where messages send their reader."""
    name: str | None = None
    """Its identity in the ledger, if not the one its place gives it."""
    route: Route = field(default_factory=Route)
    repeat_s: float | None = None
    """For a sink that tells people; None for never."""
