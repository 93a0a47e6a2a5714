"""Opening the sinks of a configuration: whatever is wrong with one, the configuration is refused in one sentence."""

from pathlib import Path

import pytest

from connectors.errors import UsageError
from connectors.settings.secret import Secret
from connectors.sinks.apprise import AppriseSection
from connectors.sinks.console import ConsoleSection, ConsoleSink
from connectors.sinks.sink_config import MessageLinks
from connectors.sinks.sink_entry import SinkEntry
from connectors.store.store_place import StorePlace
from streaming.config import Config, checked
from streaming.job.start_up import open_sinks

SECRET = "do-not-print-me"


class FailingSection(ConsoleSection):
    """A sink whose library fails for its keys."""

    def open(self, links: MessageLinks, store: StorePlace) -> ConsoleSink:
        raise TypeError(f"'NoneType' object is not subscriptable: {SECRET}")


def config_with(folder: Path, *entries: SinkEntry) -> Config:
    config = checked({"clusters": [{"name": "a", "bootstrap": ["h:1"]}], "checkpoint": str(folder)}, "test")
    return config.model_copy(update={"sinks": entries})


@pytest.mark.parametrize("url", [f"windows://{SECRET}]", f"json://[{SECRET}", "mailto://x]:1", f"tgram://{SECRET}"])
def test_a_url_that_apprise_cannot_parse_is_refused(url: str, tmp_path: Path) -> None:
    config = config_with(tmp_path, SinkEntry(apprise=AppriseSection(url=Secret(text=url))))

    with pytest.raises(UsageError, match=r"^sinks\.0: Apprise does not accept the URL that begins with '") as refused:
        open_sinks(config, ())

    assert SECRET not in str(refused.value)


def test_a_sink_that_fails_in_any_way_is_refused(tmp_path: Path) -> None:
    config = config_with(tmp_path, SinkEntry(console=ConsoleSection()), SinkEntry(console=FailingSection()))

    with pytest.raises(UsageError) as refused:
        open_sinks(config, ())

    assert str(refused.value) == "sinks.1: console cannot be opened (TypeError): correct its keys"
