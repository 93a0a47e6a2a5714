"""The keys of an Alertmanager sink."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import model_validator

from connectors.settings.sections import ConfiguredSecret, checked_text
from connectors.sinks.alertmanager.send import LASTS_S, REPEAT_S, AlertmanagerSink
from connectors.sinks.alertmanager.server import AlertmanagerServer, check_url, url_problem
from connectors.sinks.sink_config import TEST_RULE, MessageLinks, SinkSection, SinkServer, url_server
from connectors.sinks.webhook import host_of
from connectors.store.store_place import StorePlace
from rules.finding import Severity
from rules.model.job_state import JOB_CLUSTER_ID


class AlertmanagerSection(SinkSection):
    """One Alertmanager. Each member of an Alertmanager cluster needs an entry, because each must be notified."""

    form = "alertmanager:URL"
    text_key = "url"
    fixed_repeat_s = REPEAT_S
    # Alertmanager notifies only of an alert that is still firing after `group_wait`.
    test_resolves = False

    url: Annotated[ConfiguredSecret, checked_text(url_problem)]
    """http://HOST:9093, without /api/v2/alerts; only the host is ever printed."""
    username: str | None = None
    """For basic authentication, with `password`."""
    password: ConfiguredSecret | None = None
    token: ConfiguredSecret | None = None
    """A bearer token, instead of a user name and a password."""
    ca_file: Path | None = None
    """PEM: trusted certificate authorities instead of the system's."""

    @model_validator(mode="after")
    def _whole(self) -> "AlertmanagerSection":
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password go together: give both or none")
        if self.password is not None and self.token is not None:
            raise ValueError("give a password or a token, not both")
        return self

    def default_name(self) -> str:
        """Returns the name in the ledger."""
        check_url(self.url)
        return f"alertmanager:{host_of(self.url)}"

    def open(self, links: MessageLinks, store: StorePlace) -> "AlertmanagerSink":
        """Opens the sink."""
        server = AlertmanagerServer(
            url=self.url,
            username=self.username,
            password=self.password,
            token=self.token,
            ca_file=self.ca_file,
        )
        return AlertmanagerSink(self.options, links, server)

    def expectation(self, name: str, severity: Severity) -> str:
        """Returns what a person should see after a test."""
        return (
            f"Alertmanager routes alertname {TEST_RULE}, cluster {JOB_CLUSTER_ID}, severity {severity}: its receiver "
            f"is notified after the route's group_wait (30 s by default); it ends after {LASTS_S / 60:.0f} min"
        )

    def servers(self) -> Sequence[SinkServer]:
        """Returns the server of the URL."""
        return [url_server(self.url, self.ca_file)]
