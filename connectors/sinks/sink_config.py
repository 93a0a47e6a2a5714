"""Sink configs: the kind of a sink and its destination, as plain values that the configuration produces."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from connectors.secret import Secret
from connectors.sinks.links import MessageLinks
from rules.notifications.route import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """The job's stderr."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jsonl:
    """A file with one line for each transition."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Any HTTP server."""

    url: Secret
    headers: tuple[tuple[str, Secret], ...] = ()
    signing_key: Secret | None = None
    """Signs each document (HMAC-SHA-256)."""
    ca_file: Path | None = None
    """Certificate authorities to trust instead of the system's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alertmanager:
    """One Alertmanager."""

    url: Secret
    """Without /api/v2/alerts."""
    username: str | None = None
    password: Secret | None = None
    token: Secret | None = None
    """A bearer token."""
    ca_file: Path | None = None
    """Certificate authorities to trust instead of the system's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackBot:
    """A channel that a bot posts to."""

    channel: str
    """The channel's id, or `#name`."""
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
    """Any service that Apprise supports, by its URL."""

    url: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTopic:
    """A topic of a Kafka cluster, reached through its brokers."""

    bootstrap: tuple[str, ...]
    """HOST:PORT of brokers."""
    topic: str
    create: bool = False
    """Whether a missing topic is created, with compaction."""
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
    """For OAUTHBEARER."""


SinkConfig: TypeAlias = (
    Console | Jsonl | Webhook | Alertmanager | SlackBot | SlackWebhook | Pagerduty | Apprise | KafkaTopic
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSpec:
    """A sink config, and what all kinds of sinks have in common."""

    config: SinkConfig
    links: MessageLinks = field(default_factory=MessageLinks)
    """The links in its messages."""
    name: str | None = None
    """The identity in the ledger; None for the name that follows from the config."""
    route: Route = field(default_factory=Route)
    repeat_s: float | None = None
    """The repeat interval of a sink that notifies people; None for never."""
