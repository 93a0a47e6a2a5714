"""The keys of a Slack sink."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import model_validator

from connectors.settings.secret import Secret
from connectors.settings.sections import ConfiguredSecret, Form, SecretUrl, ValidUrl
from connectors.sinks.sink import Sink
from connectors.sinks.sink_config import MessageLinks, PeopleSection, SinkServer, url_server
from connectors.sinks.slack.send import SlackPlace, SlackSink, SlackWebhookSink
from connectors.store.store_place import StorePlace
from rules.finding import Severity

_API_URL = "https://slack.com/api/"
_API_FORM = Form(r"^https://[^\s]+/$", "write https://HOST/PATH/, with a slash at its end")
_CHANNEL = Form(r"^(#[^\s<>&|]{1,80}|[CDG][A-Z0-9]{8,})$", "write #NAME, or the id of a channel, such as C0123456789")


class SlackSection(PeopleSection):
    """Slack: a bot token and a channel, or an incoming webhook, which cannot edit messages or use threads."""

    form = "slack:WEBHOOK-URL"
    text_key = "webhook_url"
    ca_file: ClassVar[Path | None] = None
    socket_port: ClassVar[int] = 443
    """To another one the SDK would connect without TLS."""

    token: ConfiguredSecret | None = None
    """A bot token (`xoxb-…`) with the scope `chat:write`; invite the app to the channel."""
    app_token: ConfiguredSecret | None = None
    """An app-level token (`xapp-…`) with the scope `connections:write`: messages have the buttons *Acknowledge* and
    *Silence 1 h*. No other job may use the app."""
    channel: Annotated[str, _CHANNEL] | None = None
    """`#name` (in quotation marks: # begins a YAML comment), or the channel's id, which a rename does not change."""
    webhook_url: SecretUrl | None = None
    """https://hooks.slack.com/services/…, instead of a token and a channel."""
    api_url: Annotated[str, _API_FORM, ValidUrl] = _API_URL
    """Slack's API; GovSlack has another address."""

    @model_validator(mode="after")
    def _bot_or_webhook(self) -> "SlackSection":
        bot = self.token is not None
        if bot == (self.webhook_url is not None):
            raise ValueError("give a token and a channel, or a webhook_url")
        if not bot and self.app_token is not None:
            raise ValueError("app_token needs a token and a channel: the messages of a webhook have no buttons")
        if bot != (self.channel is not None):
            raise ValueError("token and channel go together; a webhook has its channel in Slack")
        return self

    def default_name(self) -> str:
        """Returns the name in the ledger."""
        return "slack" if self.channel is None else f"slack:{self.channel}"

    def open(self, links: MessageLinks, store: StorePlace) -> Sink:
        """Opens the sink."""
        if self.channel is None or self.token is None:
            assert self.webhook_url is not None
            return SlackWebhookSink(self.options, links, self.webhook_url, self.ca_file)
        place = SlackPlace(
            channel=self.channel,
            token=self.token,
            app_token=self.app_token,
            api_url=self.api_url,
            ca_file=self.ca_file,
            socket_port=self.socket_port,
        )
        return SlackSink(self.options, links, place, store)

    def expectation(self, name: str, severity: Severity) -> str:
        """Returns what a person should see after a test."""
        if self.channel is None:
            return "the webhook's channel has two new messages: firing and resolved"
        return f"channel {self.channel} has a new message, edited to resolved"

    def servers(self) -> Sequence[SinkServer]:
        """Returns the server of the API, or of the webhook's URL."""
        return [url_server(self.webhook_url or Secret(text=self.api_url), self.ca_file)]
