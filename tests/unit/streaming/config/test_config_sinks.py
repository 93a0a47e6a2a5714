"""What may stand under `sinks`, and what `--sink` takes."""

from pathlib import Path
from typing import Any

import pytest

from connectors.settings.secret import Secret
from connectors.sinks.alertmanager.config import AlertmanagerSection
from connectors.sinks.apprise import AppriseSection
from connectors.sinks.console import ConsoleSection
from connectors.sinks.jsonl import JsonlSection
from connectors.sinks.pagerduty.config import PagerdutySection
from connectors.sinks.sink_config import SinkSection
from connectors.sinks.slack.config import SlackSection
from connectors.sinks.webhook import WebhookSection
from rules.finding import Severity
from rules.notifications.route import Route
from streaming.config import Config, checked

HOURS_S = 3_600.0
SECRET = "do-not-print-me"
ROUTING_KEY = "0123456789abcdef0123456789abcdef"


def configured(*sinks: Any, **more: Any) -> Config:
    return checked({"clusters": [{"name": "prod-eu", "bootstrap": ["h:1"]}], "sinks": list(sinks), **more}, "file.yaml")


def wanted(sink: Any) -> SinkSection:
    (found,) = configured(sink).sinks
    return found.section


@pytest.mark.parametrize(
    ("text", "section"),
    [
        ("console", ConsoleSection()),
        ("jsonl:a:b.jsonl", JsonlSection(path=Path("a:b.jsonl"))),
        ("jsonl:@odd", JsonlSection(path=Path("@odd"))),
        ("webhook:https://example.com/x", WebhookSection(url=Secret(text="https://example.com/x"))),
        ("webhook:@/run/secrets/url", WebhookSection(url=Secret(file=Path("/run/secrets/url")))),
        ("alertmanager:http://am:9093", AlertmanagerSection(url=Secret(text="http://am:9093"))),
        ("slack:https://hooks.slack.com/s/1", SlackSection(webhook_url=Secret(text="https://hooks.slack.com/s/1"))),
        ("pagerduty:@/run/secrets/key", PagerdutySection(routing_key=Secret(file=Path("/run/secrets/key")))),
        ("apprise:tgram://1/2", AppriseSection(url=Secret(text="tgram://1/2"))),
    ],
)
def test_a_text_names_kind_and_address(text: str, section: SinkSection) -> None:
    assert wanted(text) == section


def test_a_kind_with_its_keys() -> None:
    slack = wanted({"slack": {"channel": "#kafka", "token": {"file": "/run/secrets/slack"}}})
    assert isinstance(slack, SlackSection)
    assert slack.token == Secret(file=Path("/run/secrets/slack"))
    assert slack.default_name() == "slack:#kafka"
    eu = wanted({"pagerduty": {"routing_key": ROUTING_KEY, "region": "eu"}})
    assert isinstance(eu, PagerdutySection)
    assert eu.api_url == "https://events.eu.pagerduty.com"
    webhook = {"url": "https://x", "headers": {"A": "1", "B": {"file": "/b"}}, "signing_key": "s"}
    section = wanted({"webhook": webhook})
    assert isinstance(section, WebhookSection)
    assert section.headers == {"A": Secret(text="1"), "B": Secret(file=Path("/b"))}
    # YAML's `- console:` has nothing behind it.
    assert wanted({"console": None}) == ConsoleSection()


def test_every_kind_takes_the_common_keys() -> None:
    common = {"name": "pager", "min_severity": "critical", "clusters": ["prod-*"], "repeat": "90m"}
    found = wanted({"pagerduty": {"routing_key": ROUTING_KEY, **common}})
    assert (found.name, found.repeat_s) == ("pager", 5_400)
    assert found.route == Route(min_severity=Severity.CRITICAL, clusters=("prod-*",))


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
    assert wanted(sink).repeat_s == repeat_s


def test_a_printed_configuration_has_no_secret() -> None:
    sink = {"webhook": {"url": f"https://hooks/{SECRET}", "headers": {"a": SECRET}, "signing_key": SECRET}}
    config = configured(sink, defaults={"sasl_plain_password": SECRET})
    for one in (config, config.sinks[0].section, config.clusters[0].cluster()):
        assert SECRET not in repr(one)
    assert SECRET not in config.model_dump_json()


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
    links = config.links
    assert (links.rule("no-leader"), links.cluster("prod")) == (rule, cluster)


@pytest.mark.parametrize(
    ("rules", "route"),
    [
        (["no-leader", "voter-*"], Route(rules=("no-leader", "voter-*"))),
        (["voter-*", "!*-lagging"], Route(rules=("voter-*", "!*-lagging"))),
    ],
)
def test_sink_may_get_the_alerts_of_some_rules_only(rules: Any, route: Route) -> None:
    assert wanted({"jsonl": {"path": "alerts.jsonl", "rules": rules}}).route == route
