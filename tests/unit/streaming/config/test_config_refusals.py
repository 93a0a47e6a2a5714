"""Values that the configuration refuses, each in one sentence without a secret; `bad_config` has whole files."""

from typing import Any

import pytest

from connectors.errors import UsageError
from streaming.config import checked

SECRET = "do-not-print-me"
RELAY: dict[str, Any] = {"bootstrap": ["k1:9092"], "topic": "observations"}
KAFKA = {"source": "kafka", "relay": RELAY}
LOGIN = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_plain_username": "u"}
BOTH = {"sasl_plain_password": SECRET, "sasl_plain_password_file": "/x"}
HEADERS = {"url": SECRET, "headers": {"a": SECRET}, "header_files": {"A": "x"}}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"relay": {"topic": "x"}}, "relay.bootstrap is missing"),
    ({"relay": {**RELAY, "topic": "a b"}}, "relay.topic: write letters, digits"),
    ({"relay": {**RELAY, "buffer": 1}}, "relay.buffer: unknown key; did you mean 'buffer_bytes'"),
    ({"relay": {**RELAY, "security_protocol": "SASL_SSL"}}, "needs sasl_mechanism"),
    ({"relay": {**RELAY, **LOGIN, **BOTH}}, "give sasl_plain_password or sasl_plain_password_file, not both"),
    ({**KAFKA, "relay": {**RELAY, "security_protocol": "SSL", "ssl_crlfile": "/x"}}, "does not support ssl_crlfile"),
    ({"relay": {**RELAY, "restate_every": "10s"}}, "relay.restate_every"),
    ({"relay": {**RELAY, "folder": "s3a://b/x"}}, "relay.folder: expected a local folder"),
    ({"source": "topic"}, "source: should be 'gatherer' or 'kafka'"),
    ({"pipeline": {"partitions": 257}}, "pipeline.partitions: should be less than or equal to 256"),
    ({"spark": {"spark.sql.shuffle.partitions": "4"}}, "set pipeline.partitions instead"),
    ({"checkpoint": "gs://bucket/x"}, "checkpoint: the scheme gs is not supported: give a local folder, hdfs://"),
    ({"checkpoint": "s3a:bucket/x"}, "checkpoint: expected a path below it, such as s3a://BUCKET/kraftwatch"),
    ({"checkpoint": "s3a://b/x", **KAFKA}, "checkpoint: s3a://b/x is for Spark's files alone: set work_dir to a"),
    ({"checkpoint": "s3a://b/x", "work_dir": "/w"}, "work_dir: needs source: kafka, because a gatherer's"),
    ({"checkpoint": f"s3a://KEY:{SECRET}@b/x", "work_dir": "/w", **KAFKA}, "checkpoint: expected no login in it"),
    ({"docs_url": "javascript:alert(1)"}, "docs_url: write https://HOST/PATH or http://HOST/PATH, without a blank"),
    ({"rules": {"no-leadr": {"enabled": False}}}, "rules.no-leadr: 'no-leadr' matches no rule; did you mean"),
    ({"rules": {"no-leader": {"severity": "loud"}}}, "rules.no-leader.severity: should be 'critical', 'warning' or"),
    ({"rules": {"no-leader": {"hold": "5s"}}}, "rules.no-leader.hold: unknown key; known keys: severity, enabled"),
]
SINKS: list[tuple[Any, str]] = [
    (f"pager:https://eva:{SECRET}@x", "'pager' is not a kind of sink; the kinds are console, jsonl:PATH, webhook:URL"),
    (SECRET, "this text is not a kind of sink; the kinds are console"),
    ("slack:", "slack needs a value; the kinds are console"),
    ("console:red", "console takes no value"),
    (7, "an entry is a text as --sink takes it, or one kind with its keys: `- slack: {…}`"),
    ({"slack": {}, "console": {}}, "an entry is one kind of sink with its keys"),
    ({"slakc": {}}, "sinks.0.slakc: unknown key; did you mean 'slack'?"),
    ({"slack": {"token": SECRET}}, "token and channel go together"),
    ({"slack": {"channel": "#kafka"}}, "webhook_url (or webhook_url_file) is missing"),
    ({"slack": {"token": SECRET, "channel": "kafka"}}, "channel: write #NAME, or the id of a channel"),
    ({"slack": {"token": SECRET, "webhook_url": SECRET}}, "give a token and a channel, or a webhook_url, not both"),
    ({"pagerduty": {}}, "routing_key (or routing_key_file) is missing"),
    ({"pagerduty": {"routing_key": SECRET, "routing_key_file": "x"}}, "give routing_key or routing_key_file"),
    ({"webhook": HEADERS}, "the header a is in headers and in header_files"),
    ({"webhook": {"url": SECRET, "clusters": []}}, "sinks.0.webhook.clusters"),
    ({"webhook": {"url": SECRET, "name": "a b"}}, "sinks.0.webhook.name: write"),
    ({"console": {"rules": ["no-leadr"]}}, "sinks.0.console.rules.include.0: 'no-leadr' matches no rule; did you mean"),
    ({"console": {"rules": {"exclude": ["drift"]}}}, "rules.exclude.0: 'drift' matches no rule; did you mean"),
    ({"console": {"rules": {"include": ["no-leader"], "exclude": ["no-*"]}}}, "exclude leaves no rule of include"),
    ({"console": {"rules": "no-leader"}}, 'sinks.0.console.rules: expected a list, not a text: write ["no-leader"]'),
]


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [*REFUSED, *(({"sinks": [sink]}, sentence) for sink, sentence in SINKS)],
    ids=[sentence for _, sentence in (*REFUSED, *SINKS)],
)
def test_invalid_value_is_refused_in_one_sentence_without_its_secret(keys: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        checked({"clusters": [{"name": "a", "bootstrap": ["h:1"]}], **keys}, "file.yaml")

    error = str(refused.value)
    assert error.startswith("file.yaml: ")
    assert sentence in error
    assert "\n" not in error
    assert SECRET not in error
