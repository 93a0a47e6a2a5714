"""The keys of a PagerDuty sink."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from connectors.settings.secret import Secret
from connectors.settings.sections import ConfiguredSecret, checked_text
from connectors.sinks.pagerduty.send import PagerdutyService, PagerdutySink, key_problem
from connectors.sinks.sink_config import MessageLinks, PeopleSection, SinkServer, url_server
from connectors.store.store_place import StorePlace


class PagerdutySection(PeopleSection):
    """PagerDuty: the integration "Events API v2" of a service."""

    form = "pagerduty:ROUTING-KEY"
    text_key = "routing_key"
    test_open_s = 30.0
    expected = (
        "PagerDuty pages for the service of this key: an alert of severity {severity}, open for "
        "{section.test_open_s:.0f} s and then resolved"
    )
    servers_of_regions: ClassVar[Mapping[str, str]] = {
        "us": "https://events.pagerduty.com",
        "eu": "https://events.eu.pagerduty.com",
    }
    rest_of_regions: ClassVar[Mapping[str, str]] = {
        "us": "https://api.pagerduty.com",
        "eu": "https://api.eu.pagerduty.com",
    }
    ca_file: ClassVar[Path | None] = None

    routing_key: Annotated[ConfiguredSecret, checked_text(key_problem)]
    """The integration key, 32 characters."""
    change_events: bool = True
    """Whether changes are sent to PagerDuty too, which shows them beside incidents and pages nobody: another voter set,
    another finalized feature, and kraftwatch with another version or configuration."""
    api_token: ConfiguredSecret | None = None
    """A read-only key of the REST API: who acknowledges in PagerDuty has acknowledged here."""
    region: Literal["us", "eu"] = "us"
    """The account's region: `eu` if its address ends in eu.pagerduty.com."""

    @property
    def api_url(self) -> str:
        """The Events API of the account's region."""
        return self.servers_of_regions[self.region]

    def default_name(self) -> str:
        """Returns the name in the ledger."""
        return "pagerduty"

    def open(self, links: MessageLinks, store: StorePlace) -> "PagerdutySink":
        """Opens the sink."""
        service = PagerdutyService(
            routing_key=self.routing_key,
            api_url=self.api_url,
            rest_url=self.rest_of_regions[self.region],
            api_token=self.api_token,
            change_events=self.change_events,
            ca_file=self.ca_file,
        )
        return PagerdutySink(self.options, links, service, store)

    def servers(self) -> Sequence[SinkServer]:
        """Returns the server of the Events API, and that of the REST API if it is read."""
        urls = [self.api_url, *([] if self.api_token is None else [self.rest_of_regions[self.region]])]
        return [url_server(Secret(text=url), self.ca_file) for url in urls]
