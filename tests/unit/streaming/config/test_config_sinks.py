"""What may stand under `sinks`, and what `--sink` takes."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from connectors.errors import UsageError
from connectors.secret import Secret
from connectors.sinks.alertmanager import AlertmanagerSection
from connectors.sinks.apprise import AppriseSection
from connectors.sinks.console import ConsoleSection
from connectors.sinks.jsonl import JsonlSection
from connectors.sinks.pagerduty import PagerdutySection
from connectors.sinks.sink_config import MessageLinks, SinkSection, SinkSpec
from connectors.sinks.slack import SlackSection
from connectors.sinks.webhook import WebhookSection
from rules.finding import Severity
from rules.notifications.route import Route
from streaming.config import Config, checked

HOURS_S = 3_600.0
SECRET = "do-not-print-me"
ROUTING_KEY = "0123456789abcdef0123456789abcdef"


def configured(*sinks: Any, **more: Any) -> Config:
    return checked({"clusters": [{"name": "prod-eu", "bootstrap": ["h:1"]}], "sinks": list(sinks), **more}, "file.yaml")


def wanted(sink: Any, **more: Any) -> SinkSpec:
    (found,) = configured(sink, **more).sink_specs()
    return found


@pytest.mark.parametrize(
    ("text", "section"),
    [
        ("console", ConsoleSection()),
        ("jsonl:a:b.jsonl", JsonlSection(path=Path("a:b.jsonl"))),
        ("jsonl:@odd", JsonlSection(path=Path("@odd"))),
        ("webhook:https://example.com/x", WebhookSection(url=SecretStr("https://example.com/x"))),
        ("webhook:@/run/secrets/url", WebhookSection(url_file=Path("/run/secrets/url"))),
        ("alertmanager:http://am:9093", AlertmanagerSection(url=SecretStr("http://am:9093"))),
        ("slack:https://hooks.slack.com/s/1", SlackSection(webhook_url=SecretStr("https://hooks.slack.com/s/1"))),
        ("pagerduty:@/run/secrets/key", PagerdutySection(routing_key_file=Path("/run/secrets/key"))),
        ("apprise:tgram://1/2", AppriseSection(url=SecretStr("tgram://1/2"))),
    ],
)
def test_a_text_names_kind_and_address(text: str, section: SinkSection) -> None:
    assert wanted(text).section == section


def test_a_kind_with_its_keys() -> None:
    slack = wanted({"slack": {"channel": "#kafka", "token_file": "/run/secrets/slack"}}).section
    assert slack.secret("token") == Secret(file=Path("/run/secrets/slack"))
    assert slack.default_name() == "slack:#kafka"
    eu = wanted({"pagerduty": {"routing_key": ROUTING_KEY, "region": "eu"}}).section
    assert isinstance(eu, PagerdutySection)
    assert eu.api_url == "https://events.eu.pagerduty.com"
    webhook = {"url": "https://x", "headers": {"A": "1"}, "header_files": {"B": "/b"}, "signing_key": "s"}
    section = wanted({"webhook": webhook}).section
    assert isinstance(section, WebhookSection)
    assert section.all_headers() == (("A", Secret(text="1")), ("B", Secret(file=Path("/b"))))
    # YAML's `- console:` has nothing behind it.
    assert wanted({"console": None}).section == ConsoleSection()


def test_every_kind_takes_the_common_keys() -> None:
    common = {"name": "pager", "min_severity": "critical", "clusters": ["prod-*"], "repeat": "90m"}
    found = wanted({"pagerduty": {"routing_key": ROUTING_KEY, **common}})
    assert (found.section.name, found.section.repeat_s) == ("pager", 5_400)
    assert found.section.route == Route(min_severity=Severity.CRITICAL, clusters=("prod-*",))


@pytest.mark.parametrize(
    ("sink", "repeat_s"),
    [
        ({"apprise": {"url": "x://"}}, 4 * HOURS_S),
        ({"apprise": {"url": "x://", "repeat": 60}}, 60.0),
        ({"apprise": {"url": "x://", "repeat": "never"}}, None),
        ("console", None),
    ],
)
def test_firing_alerts_are_repeated_to_people_sinks_only(sink: Any, repeat_s: float | None) -> None:
    assert wanted(sink).section.repeat_s == repeat_s


def test_links_apply_to_all_sinks() -> None:
    found = wanted("console", docs_url="https://docs.example.com", page_url="https://watch.example.com/")
    assert found.links == MessageLinks(docs_url="https://docs.example.com", page_url="https://watch.example.com/")
    assert found.links.rule("no-leader") == "https://docs.example.com/rules/no-leader/"
    assert found.links.cluster("a b") == "https://watch.example.com/clusters/a%20b"
    assert found.links.cluster("kraftwatch") == "https://watch.example.com/"


def test_equal_sinks_compare_equal() -> None:
    webhook = {"webhook": {"url": "https://x", "headers": {"A": "1"}}}
    assert wanted(webhook) == wanted(webhook) != wanted("console")


@pytest.mark.parametrize(
    ("sink", "sentence"),
    [
        (
            f"pager:https://eva:{SECRET}@x",
            "'pager' is not a kind of sink; the kinds are console, jsonl:PATH, webhook:URL",
        ),
        ("", "'' is not a kind of sink; the kinds are console"),
        (SECRET, "this text is not a kind of sink; the kinds are console"),
        ("jsonl", "jsonl needs a value; the kinds are console"),
        ("slack:", "slack needs a value; the kinds are console"),
        ("console:red", "console takes no value"),
        (7, "an entry is a text as --sink takes it, or one kind with its keys: `- slack: {…}`"),
        ({"slack": {}, "console": {}}, "an entry is one kind of sink with its keys"),
        ({"slakc": {}}, "unknown key 'sinks.0.slakc'; did you mean 'slack'?"),
        ({"slack": {"chanel": "#x"}}, "unknown key 'sinks.0.slack.chanel'; did you mean 'channel'?"),
        ({"slack": {"token": SECRET}}, "token and channel go together"),
        ({"slack": {"channel": "#kafka"}}, "webhook_url (or webhook_url_file) is missing"),
        ({"slack": {"token": SECRET, "channel": "kafka"}}, "sinks.0.slack.channel"),
        ({"slack": {"token": SECRET, "webhook_url": SECRET}}, "give a token and a channel, or a webhook_url, not both"),
        ({"pagerduty": {}}, "routing_key (or routing_key_file) is missing"),
        ({"pagerduty": {"routing_key": SECRET, "routing_key_file": "x"}}, "give routing_key or routing_key_file"),
        ({"apprise": {}}, "url (or url_file) is missing"),
        (
            {"webhook": {"url": SECRET, "headers": {"a": SECRET}, "header_files": {"A": "x"}}},
            "the header a is in headers and in header_files",
        ),
        (
            {"webhook": {"url": SECRET, "repeat": "soon"}},
            "invalid value 'soon': expected seconds or a duration such as 30s, 5m, 1h",
        ),
        ({"webhook": {"url": SECRET, "min_severity": "loud"}}, "sinks.0.webhook.min_severity"),
        ({"webhook": {"url": SECRET, "clusters": []}}, "sinks.0.webhook.clusters"),
        ({"webhook": {"url": SECRET, "name": "a b"}}, "sinks.0.webhook.name"),
    ],
)
def test_an_invalid_sink_is_reported_in_one_sentence_without_its_secret(sink: Any, sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        configured(sink)
    error = str(refused.value)
    assert error.startswith("file.yaml: ")
    assert sentence in error
    assert "\n" not in error
    assert SECRET not in error


def test_a_printed_configuration_has_no_secret() -> None:
    config = configured({"webhook": {"url": SECRET, "headers": {"a": SECRET}, "signing_key": SECRET}})
    assert SECRET not in repr(config)
    assert SECRET not in repr(config.sink_specs())


@pytest.mark.parametrize("key", ["docs_url", "page_url"])
def test_a_link_must_be_a_url(key: str) -> None:
    with pytest.raises(UsageError, match=key):
        configured("console", **{key: "javascript:alert(1)"})


@pytest.mark.parametrize(
    ("more", "rule", "cluster"),
    [
        ({}, None, None),
        (
            {"listen": "127.0.0.1:9847"},
            "http://127.0.0.1:9847/rules/no-leader",
            "http://127.0.0.1:9847/clusters/prod",
        ),
        ({"listen": "[::1]:9847"}, "http://[::1]:9847/rules/no-leader", "http://[::1]:9847/clusters/prod"),
        ({"listen": "0.0.0.0:9847"}, None, None),
        (
            {"listen": "0.0.0.0:9847", "page_url": "https://watch.example/"},
            "https://watch.example/rules/no-leader",
            "https://watch.example/clusters/prod",
        ),
        ({"docs_url": "https://docs.example"}, "https://docs.example/rules/no-leader/", None),
    ],
)
def test_a_notification_links_to_reachable_pages(more: dict[str, str], rule: str | None, cluster: str | None) -> None:
    config = checked({"clusters": [{"name": "prod", "bootstrap": ["c1:9093"]}], "sinks": ["console"], **more}, "test")
    links = config.sink_specs()[0].links
    assert (links.rule("no-leader"), links.cluster("prod")) == (rule, cluster)


@pytest.mark.parametrize(
    ("rules", "route"),
    [
        (["no-leader", "voter-*"], Route(rules=("no-leader", "voter-*"))),
        ({"include": ["voter-*"], "exclude": ["*-lagging"]}, Route(rules=("voter-*",), excluded_rules=("*-lagging",))),
        ({"exclude": ["version-drift"]}, Route(excluded_rules=("version-drift",))),
    ],
)
def test_sink_may_get_the_alerts_of_some_rules_only(rules: Any, route: Route) -> None:
    assert wanted({"jsonl": {"path": "alerts.jsonl", "rules": rules}}).section.route == route


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        (["no-leadr"], "sinks.0.console.rules.include.0: 'no-leadr' matches no rule; did you mean 'no-leader'?"),
        (
            {"exclude": ["drift"]},
            "sinks.0.console.rules.exclude.0: 'drift' matches no rule; did you mean 'version-drift'",
        ),
        ({"include": ["no-leader"], "exclude": ["no-*"]}, "sinks.0.console.rules: exclude leaves no rule of include"),
        ("no-leader", 'sinks.0.console.rules: expected a list, not a text: write ["no-leader"]'),
        ({"includes": ["no-leader"]}, "unknown key 'sinks.0.console.rules.includes'; did you mean 'include'?"),
    ],
)
def test_filter_of_rules_that_silences_the_sink_is_refused(rules: Any, sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        configured({"console": {"rules": rules}})
    assert sentence in str(refused.value)
