"""Each kind of sink is opened with a stable name."""

from pathlib import Path

import pytest

from connectors.errors import UsageError
from connectors.settings.secret import Secret
from connectors.sinks.alertmanager.config import AlertmanagerSection
from connectors.sinks.console import ConsoleSection
from connectors.sinks.jsonl import JsonlSection
from connectors.sinks.sink import DeliveryMode, Sink
from connectors.sinks.sink_config import MessageLinks, PeopleSection, SinkSection
from connectors.sinks.webhook import WebhookSection
from rules.finding import Severity
from rules.notifications.route import Route


def opened(section: SinkSection, tmp_path: Path, name: str | None = None) -> Sink:
    keys = {
        "name": name,
        "min_severity": Severity.CRITICAL,
        **({"repeat": 60} if isinstance(section, PeopleSection) else {}),
    }
    return section.model_copy(update=keys).open(MessageLinks(), tmp_path)


def test_a_record_has_a_stable_name_and_repeats_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert opened(ConsoleSection(), tmp_path).options.name == "console"
    file = opened(JsonlSection(path=Path("a:b.jsonl")), tmp_path).options
    assert (file.name, file.mode, file.repeat_s) == (f"jsonl:{tmp_path}/a:b.jsonl", DeliveryMode.TRANSITIONS, None)
    assert file.route == Route(min_severity=Severity.CRITICAL)
    assert (tmp_path / "a:b.jsonl").exists()


def test_the_name_of_a_sink_for_people_has_no_secret(tmp_path: Path) -> None:
    config = WebhookSection(url=Secret(text="https://eva:hunter2@hooks.example.com:8443/s3cret"))
    options = opened(config, tmp_path).options
    assert options.name == "webhook:hooks.example.com:8443"
    assert (options.mode, options.repeat_s) == (DeliveryMode.INCIDENTS, 60)
    assert "hunter2" not in repr(config)
    assert opened(config, tmp_path, name="pager").options.name == "pager"


def test_only_in_alertmanager_an_incident_ends_that_is_not_sent_again(tmp_path: Path) -> None:
    alertmanager = AlertmanagerSection(url=Secret(text="http://alertmanager:9093"))
    webhook = WebhookSection(url=Secret(text="https://hooks.example.com"))
    assert [opened(each, tmp_path).options.expires for each in (alertmanager, webhook)] == [True, False]


def test_an_unusable_config_is_reported_at_start_up(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"jsonl:/no/such/folder/x cannot be written: No such file"):
        opened(JsonlSection(path=Path("/no/such/folder/x")), tmp_path)
    with pytest.raises(UsageError, match="cannot read /no/such/file: no such file or directory"):
        opened(WebhookSection(url=Secret(file=Path("/no/such/file"))), tmp_path)
    with pytest.raises(UsageError, match="write https://HOST/PATH") as refused:
        (tmp_path / "url").write_text("ftp://eva:hunter2@x/")
        opened(WebhookSection(url=Secret(file=tmp_path / "url")), tmp_path)
    assert "hunter2" not in str(refused.value)
