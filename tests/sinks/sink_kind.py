"""SinkKind: what the tests of the contract need of one kind of sink that uses HTTP."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.settings.secret import Secret
from connectors.sinks.pagerduty.config import PagerdutySection
from connectors.sinks.sink import Sink
from connectors.sinks.sink_config import MessageLinks, SinkSection
from connectors.sinks.slack.config import SlackSection
from connectors.store.store_place import StorePlace
from tests.sinks.server import HttpReply, ReceivedRequest

SECRET = "s3cr3t-d0-n0t-sh0w-0123456789abc"


def local_pagerduty(url: str, ca_file: Path, key: str, **keys: Any) -> PagerdutySection:
    """PagerDuty at another address."""

    class LocalPagerduty(PagerdutySection):
        pass

    LocalPagerduty.servers_of_regions, LocalPagerduty.ca_file = {"us": url}, ca_file
    LocalPagerduty.rest_of_regions = {"us": url}
    return LocalPagerduty(routing_key=Secret(text=key), **keys)


def local_slack(ca_file: Path, **keys: Any) -> SlackSection:
    """Slack with another certificate authority."""

    class LocalSlack(SlackSection):
        pass

    LocalSlack.ca_file = ca_file
    return LocalSlack(**keys)


def accept_all(request: ReceivedRequest) -> HttpReply:
    return HttpReply()


@dataclass(frozen=True, kw_only=True)
class SinkKind:
    """One kind of sink."""

    kind: str
    section: Callable[[str, Path], SinkSection]
    """Returns its section for the server's URL and CA file; SECRET is in every field that can be secret."""
    reply: Callable[[ReceivedRequest], HttpReply] = accept_all
    """Returns the reply of the real service; asserts that the service would accept the request."""

    def open(self, url: str, ca_file: Path, store: StorePlace) -> Sink:
        return self.section(url, ca_file).open(MessageLinks(), store)

    def __str__(self) -> str:
        return self.kind
