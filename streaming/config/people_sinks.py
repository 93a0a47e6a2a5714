"""The configuration of sinks for people: Slack, PagerDuty, and the services of Apprise."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from connectors.sinks import sink_config
from connectors.sinks.address_checks import routing_key_problem
from connectors.sinks.sink_config import SinkConfig
from streaming.config.placed_error import placed_error
from streaming.config.sink_options import PeopleSection

_PAGERDUTY = {"us": "https://events.pagerduty.com", "eu": "https://events.eu.pagerduty.com"}


class SlackSection(PeopleSection):
    """Slack: a bot token and a channel, or an incoming webhook, which cannot edit messages or use threads."""

    token: SecretStr | None = None
    """A bot token (`xoxb-…`) with the scope `chat:write`; invite the app to the channel."""
    token_file: Path | None = None
    channel: str | None = Field(default=None, pattern=r"^(#[^\s<>&|]{1,80}|[CDG][A-Z0-9]{8,})$")
    """`#name` (in quotation marks: # begins a YAML comment), or the channel's id, which a rename does not change."""
    webhook_url: SecretStr | None = None
    """https://hooks.slack.com/services/…, instead of a token and a channel."""
    webhook_url_file: Path | None = None
    api_url: str = Field(default="https://slack.com/api/", pattern=r"^https://[^\s]+/$")
    """Slack's API; GovSlack has another address."""

    @model_validator(mode="after")
    def _bot_or_webhook(self) -> "SlackSection":
        bot = self.secret("token") is not None
        if bot and self.secret("webhook_url") is not None:
            raise ValueError("give a token and a channel, or a webhook_url, not both")
        if not bot:
            self.require("webhook_url")
        if bot != (self.channel is not None):
            raise ValueError("token and channel go together; a webhook has its channel in Slack")
        return self

    def sink_config(self) -> SinkConfig:
        """Returns the settings of the sink's kind and address."""
        token, url = self.secret("token"), self.secret("webhook_url")
        if token is not None and self.channel is not None:
            return sink_config.SlackBot(channel=self.channel, token=token, api_url=self.api_url)
        assert url is not None
        return sink_config.SlackWebhook(url=url)


class PagerdutySection(PeopleSection):
    """PagerDuty: the integration "Events API v2" of a service."""

    routing_key: SecretStr | None = None
    """The integration key, 32 characters."""
    routing_key_file: Path | None = None
    region: Literal["us", "eu"] = "us"
    """The account's region: `eu` if its address ends in eu.pagerduty.com."""

    @model_validator(mode="after")
    def _whole(self) -> "PagerdutySection":
        self.require("routing_key")
        problem = None if self.routing_key is None else routing_key_problem(self.routing_key.get_secret_value())
        if problem is not None:
            raise placed_error(problem, "routing_key")
        return self

    def sink_config(self) -> SinkConfig:
        """Returns the settings of the sink's kind and address."""
        key = self.secret("routing_key")
        assert key is not None
        return sink_config.Pagerduty(routing_key=key, api_url=_PAGERDUTY[self.region])


class AppriseSection(PeopleSection):
    """A service that Apprise supports: mail, Telegram, Microsoft Teams, Matrix, …"""

    url: SecretStr | None = None
    """An Apprise URL such as `tgram://TOKEN/CHAT`; only its scheme is ever printed."""
    url_file: Path | None = None

    @model_validator(mode="after")
    def _whole(self) -> "AppriseSection":
        self.require("url")
        return self

    def sink_config(self) -> SinkConfig:
        """Returns the settings of the sink's kind and address."""
        url = self.secret("url")
        assert url is not None
        return sink_config.Apprise(url=url)
