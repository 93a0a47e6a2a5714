"""What may stand under `sinks`, and what `--sink` takes."""

from pathlib import Path
from typing import Any

import pytest

from connectors.errors import UsageError
from connectors.secret import Secret
from connectors.sinks.links import Links
from connectors.sinks.sink_config import (
    Alertmanager,
    Apprise,
    Console,
    Jsonl,
    Pagerduty,
    Place,
    SlackBot,
    SlackWebhook,
    Wanted,
    Webhook,
)
from rules.finding import Severity
from rules.notifications.route import Route
from streaming.config import Config, checked

HOURS_S = 3_600.0
SECRET = "do-not-print-me"


def configured(*sinks: Any, **more: Any) -> Config:
    return checked({"clusters": [{"name": "a", "bootstrap": ["h:1"]}], "sinks": list(sinks), **more}, "file.yaml")


def wanted(sink: Any, **more: Any) -> Wanted:
    (found,) = configured(sink, **more).wanted()
    return found


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("console", Console()),
        ("jsonl:a:b.jsonl", Jsonl(path=Path("a:b.jsonl"))),
        ("jsonl:@odd", Jsonl(path=Path("@odd"))),
        ("webhook:https://example.com/x", Webhook(url=Secret(text="https://example.com/x"))),
        ("webhook:@/run/secrets/url", Webhook(url=Secret(file=Path("/run/secrets/url")))),
        ("alertmanager:http://am:9093", Alertmanager(url=Secret(text="http://am:9093"))),
        ("slack:https://hooks.slack.com/s/1", SlackWebhook(url=Secret(text="https://hooks.slack.com/s/1"))),
        ("pagerduty:@/run/secrets/key", Pagerduty(routing_key=Secret(file=Path("/run/secrets/key")))),
        ("apprise:tgram://1/2", Apprise(url=Secret(text="tgram://1/2"))),
    ],
)
def test_a_text_is_a_kind_and_where(text: str, place: Place) -> None:
    assert wanted(text).place == place


def test_a_kind_with_its_keys() -> None:
    slack = {"channel": "#kafka", "token_file": "/run/secrets/slack"}
    assert wanted({"slack": slack}).place == SlackBot(channel="#kafka", token=Secret(file=Path("/run/secrets/slack")))
    eu = wanted({"pagerduty": {"routing_key": "k", "region": "eu"}}).place
    assert isinstance(eu, Pagerduty)
    assert eu.api_url == "https://events.eu.pagerduty.com"
    webhook = {"url": "https://x", "headers": {"A": "1"}, "header_files": {"B": "/b"}, "signing_key": "s"}
    assert wanted({"webhook": webhook}).place == Webhook(
        url=Secret(text="https://x"),
        headers=(("A", Secret(text="1")), ("B", Secret(file=Path("/b")))),
        signing_key=Secret(text="s"),
    )
    # YAML's `- console:` has nothing behind it.
    assert wanted({"console": None}).place == Console()


def test_what_every_kind_takes() -> None:
    common = {"name": "pager", "min_severity": "critical", "clusters": ["prod-*"], "repeat": "90m"}
    found = wanted({"pagerduty": {"routing_key": "k", **common}})
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
def test_what_stands_is_told_again_to_people_and_to_no_record(sink: Any, repeat_s: float | None) -> None:
    assert wanted(sink).repeat_s == repeat_s


def test_links_hold_for_all_sinks() -> None:
    found = wanted("console", docs_url="https://docs.example.com", page_url="https://watch.example.com/")
    assert found.links == Links(docs_url="https://docs.example.com", page_url="https://watch.example.com/")
    assert found.links.rule("no-leader") == "https://docs.example.com/rules/no-leader/"
    assert found.links.cluster("a b") == "https://watch.example.com/clusters/a%20b"
    assert found.links.cluster("kraftwatch") == "https://watch.example.com/"


def test_sinks_that_are_alike_are_equal_and_can_be_looked_up() -> None:
    webhook = {"webhook": {"url": "https://x", "headers": {"A": "1"}}}
    assert len({wanted(webhook), wanted(webhook), wanted("console")}) == 2


@pytest.mark.parametrize(
    ("sink", "sentence"),
    [
        (f"pager:https://eva:{SECRET}@x", "'pager' is not a kind of sink; known are console, jsonl:PATH, webhook:URL"),
        ("", "'' is not a kind of sink; known are console"),
        (SECRET, "that is not a kind of sink; known are console"),
        ("jsonl", "jsonl says not where; known are console"),
        ("slack:", "slack says not where; known are console"),
        ("console:red", "console takes nothing behind it"),
        (7, "an entry is a text, as --sink takes it, or one kind with its keys: `- slack: {…}`"),
        ({"slack": {}, "console": {}}, "one entry is one kind of sink with its keys under it"),
        ({"slakc": {}}, "unknown key 'sinks.0.slakc'; did you mean 'slack'?"),
        ({"slack": {"chanel": "#x"}}, "unknown key 'sinks.0.slack.chanel'; did you mean 'channel'?"),
        ({"slack": {"token": SECRET}}, "token and channel go together"),
        ({"slack": {"channel": "#kafka"}}, "webhook_url (or webhook_url_file) is missing"),
        ({"slack": {"token": SECRET, "channel": "kafka"}}, "sinks.0.slack.channel"),
        ({"slack": {"token": SECRET, "webhook_url": SECRET}}, "give a token and a channel, or a webhook_url, not both"),
        ({"pagerduty": {}}, "routing_key (or routing_key_file) is missing"),
        ({"pagerduty": {"routing_key": SECRET, "routing_key_file": "x"}}, "give routing_key or routing_key_file"),
        ({"apprise": {}}, "url (or url_file) is missing"),
        ({"webhook": {"url": SECRET, "headers": {"a": SECRET}, "header_files": {"A": "x"}}}, "the header a stands in"),
        ({"webhook": {"url": SECRET, "repeat": "soon"}}, "is no duration: write 90s, 30m, 4h or 3d"),
        ({"webhook": {"url": SECRET, "min_severity": "loud"}}, "sinks.0.webhook.min_severity"),
        ({"webhook": {"url": SECRET, "clusters": []}}, "sinks.0.webhook.clusters"),
        ({"webhook": {"url": SECRET, "name": "a b"}}, "sinks.0.webhook.name"),
    ],
)
def test_a_mistake_is_one_sentence_without_the_secret(sink: Any, sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        configured(sink)
    said = str(refused.value)
    assert said.startswith("file.yaml: ")
    assert sentence in said
    assert "\n" not in said
    assert SECRET not in said


def test_a_configuration_shows_no_secret() -> None:
    config = configured({"webhook": {"url": SECRET, "headers": {"a": SECRET}, "signing_key": SECRET}})
    assert SECRET not in repr(config)
    assert SECRET not in repr(config.wanted())


@pytest.mark.parametrize("key", ["docs_url", "page_url"])
def test_a_link_is_an_address(key: str) -> None:
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
def test_a_message_links_to_where_its_reader_can_go(
    more: dict[str, str], rule: str | None, cluster: str | None
) -> None:
    config = checked({"clusters": [{"name": "prod", "bootstrap": ["c1:9093"]}], "sinks": ["console"], **more}, "test")
    links = config.wanted()[0].links
    assert (links.rule("no-leader"), links.cluster("prod")) == (rule, cluster)
