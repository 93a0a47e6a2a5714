"""Values that the configuration refuses, each in one sentence with its line and without a secret."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from connectors.errors import UsageError
from streaming.config import load
from streaming.config.cluster_section import ClusterDefaults

SECRET = "do-not-print-me"
PROD = 'clusters:\n- {name: prod, bootstrap: ["c1:9093"]}\n'
TWO = PROD + '- {name: staging, bootstrap: ["s1:9093"]}\n'
WINDOW = 'from: "22:00", for: 4h, comment: CHG-1'
DEFAULTS = ClusterDefaults.model_fields
NOT_SOON = "expected seconds or a duration such as 30s, 5m, 1h"
FILES: dict[str, str] = {
    "- prod": "line 1: a configuration must be a mapping with at least the key 'clusters'",
    "sinks: [console]": "line 1: clusters is missing",
    "clusters: {name: prod}": "line 1: clusters: expected a list: begin each entry with `- `, or write [A, B]",
    "clusters: [": "line 1: not YAML: expected the node content, but found '<stream end>'",
    "clusters:\n- prod=c1:9093": "line 2: clusters.0: expected a mapping: write KEY: VALUE",
    "clusters:\n- {name: {{ cluster }}}": "line 2: a key must be a plain text: put a text that begins with { or [",
    'clusters: [{name: a, bootstrap: ["${C1:9"]}]': "invalid '${': write ${NAME}, ${NAME:-default}, or $${ for a",
    f"defaults: {{sasl_mecanism: PLAIN}}\n{PROD}": "line 1: defaults.sasl_mecanism: unknown key; did you mean 'sasl_me",
    f"defaults:\n  name: a\n{PROD}": f"line 2: defaults.name: unknown key; known keys: {', '.join(DEFAULTS)}",
    f"defaults:\n  security_protocol: TLS\n{TWO}": "line 2: defaults.security_protocol: should be 'PLAINTEXT', 'SSL'",
    PROD * 2: "line 3: the key 'clusters' is given twice",
    f"{PROD}- {{name: prod, bootstrap: [a:1]}}": (
        "line 3: clusters.1.name: two clusters are named prod: give each its own name"
    ),
    f"{PROD}- {{name: a, bootstrap: [C1:9093]}}": (
        "line 3: clusters.1.bootstrap.0: C1:9093 is also in the bootstrap of cluster prod: give each cluster its own"
    ),
    f"{TWO}watch: {{include: [dev-*]}}": "line 4: watch.include.0: 'dev-*' matches no cluster; known: prod, staging",
    f"{TWO}watch: {{exclude: ['*']}}": (
        "line 4: watch: excludes all clusters (prod, staging): correct its include and exclude"
    ),
}
KEYS: dict[str, str] = {
    "sink: [console]": "sink: unknown key; did you mean 'sinks'?",
    "sinks: console": "sinks: expected a list: begin each entry with `- `, or write [A, B]",
    f"sinks: [console, {{webhook: {{ulr: {SECRET}}}}}]": "sinks.1.webhook.ulr: unknown key; did you mean 'url'?",
    f"sinks: [{{pagerduty: {{routing_key: *{SECRET} }}}}]": (
        "not YAML: found undefined alias: put a text that begins with * or ! in quotation marks"
    ),
    f"sinks: [{{pagerduty: {{routing_key: !{SECRET} }}}}]": "put a text that begins with ! in quotation marks",
    "sinks: [{pagerduty: {routing_key: abc}}]": (
        "sinks.0.pagerduty.routing_key: has 3 characters, but an integration key has 32 letters and digits: copy it "
        'from the integration "Events API v2" of the service'
    ),
    "sinks: [{alertmanager: {url: http://am:9093/api/v2/alerts}}]": (
        "sinks.0.alertmanager.url: is not the address of an Alertmanager: write http://HOST:9093, without /api, ? or #"
    ),
    f"sinks: [{{webhook: {{url: {SECRET}, repeat: so}}}}]": f"sinks.0.webhook.repeat: invalid value 'so': {NOT_SOON}",
    f"sinks: [{{webhook: {{url: https://hooks/{SECRET}, clusters: [prod, prd*]}}}}]": (
        "sinks.0.webhook.clusters.1: 'prd*' matches no cluster; did you mean 'prod'?"
    ),
    "thresholds: {no-leader: 5s}": "thresholds.no-leader: expected a mapping: write KEY: VALUE",
    "thresholds: {no-leader: {holds: 3}}": "thresholds.no-leader.holds: rule 'no-leader' has no threshold 'holds': did",
    "thresholds: {no-leader: {hold: soon}}": f"thresholds.no-leader.hold: invalid value 'soon': {NOT_SOON}",
    "thresholds: {no-leader: {hold: true}}": f"thresholds.no-leader.hold: invalid value 'true': {NOT_SOON}",
    "pipeline: {partitions: true}": "pipeline.partitions: should be a valid integer",
    "maintenance: [{from: '22:00', for: 24h, comment: a}]": (
        "maintenance.0: the window lasts until it begins again, so it never ends: shorten `for` or remove days"
    ),
    "maintenance: [{from: 22, for: 4h, comment: a}]": 'maintenance.0.from: invalid time of day: write "22:00"',
    f"maintenance: [{{{WINDOW}, days: [saturday]}}]": "maintenance.0.days.0: should be 'mon', 'tue',",
    f"maintenance: [{{{WINDOW}, timezone: Berlin}}]": (
        "maintenance.0.timezone: unknown time zone 'Berlin': write one such as Europe/Berlin or UTC"
    ),
    f"maintenance: [{{{WINDOW}, zone: UTC}}]": "maintenance.0.zone: unknown key; did you mean 'timezone'?",
    f"maintenance: [{{{WINDOW}, clusters: [prd]}}]": "maintenance.0.clusters.0: 'prd' matches no cluster; did you mean",
    f"maintenance: [{{{WINDOW}, rules: [no-leadr]}}]": "maintenance.0.rules.0: 'no-leadr' matches no rule; did you",
    "source: kafka": "source: kafka reads the relay's topic: add relay with its bootstrap and topic",
    "listen_keyfile: page.key": "listen_keyfile: is given without listen_certfile: give both, or only listen_certfile",
    'listen_token_file: "\\0"': "a value has a NUL character: remove it",
    **{
        f"{key}: http://[": f"{key}: write https://HOST/PATH or http://HOST/PATH, without a blank"
        for key in ("docs_url", "page_url")
    },
    "heartbeat: {url: 'http://['}": "heartbeat.url: write https://HOST/PATH or http://HOST/PATH, without a blank",
    "store: postgresql://[": "store: is not a URL: write postgresql://USER@HOST:PORT/DATABASE",
    "checkpoint: s3a://[": "checkpoint: expected a URI such as s3a://BUCKET/PATH or hdfs://HOST:PORT/PATH",
    "listen: http://[": "listen: 'http://[' is not HOST:PORT",
    **{
        f"sinks: [{{{kind}: {{{key}: 'http://['}}}}]": f"sinks.0.{kind}.{key}: {sentence}"
        for kind, key, sentence in (
            ("webhook", "url", "write https://HOST/PATH or http://HOST/PATH, without a blank"),
            ("slack", "webhook_url", "write https://HOST/PATH or http://HOST/PATH, without a blank"),
            ("alertmanager", "url", "is not the address of an Alertmanager: write http://HOST:9093, without"),
        )
    },
    "sinks: [{slack: {token: t, channel: '#a', api_url: 'https://[/'}}]": "sinks.0.slack.api_url: write https://HOST/",
}
"""Of a file with the cluster `prod`: its line 3."""
CLUSTER: dict[str, str] = {
    "bootstraps: [c2:9093]": "unknown key; did you mean 'bootstrap'?",
    "bootstrap: [c1]": "'c1' is not HOST:PORT",
    "bootstrap: [c1:99999]": "'c1:99999' is not HOST:PORT",
    "bootstrap: c1:9093": "expected a list: begin each entry with `- `, or write [A, B]",
    "cluster_id: MkU3 NTJE": "must be one word, without quotes and =: copy cluster.id from a node's meta.properties",
    "thresholds: {no-leder: {hold: 3}}": "unknown rule 'no-leder' in 'no-leder.hold': did you mean 'no-leader'?",
    "ssl_password: '${NOT_SET}'": "the environment variable NOT_SET is not set: set it, or write ${NOT_SET:-default}",
    f"ssl_password: {SECRET}, ssl_password_file: x": "give ssl_password or ssl_password_file, not both",
    f"sasl_plain_password: {SECRET}, sasl_plain_password_file: x": "give sasl_plain_password or sasl_plain_pass",
    "security_protocol: SASL_SSL": "needs sasl_mechanism (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI)",
    "security_protocol: SASL_SSL, sasl_mechanism: OAUTHBEARER": "OAUTHBEARER needs sasl_oauth_token_file",
    "security_protocol: SASL_SSL, sasl_mechanism: PLAIN, sasl_plain_username: u": (
        "sasl_mechanism PLAIN needs sasl_plain_username and sasl_plain_password (or sasl_plain_password_file)"
    ),
    f"sasl_mechanism: PLAIN, sasl_plain_username: u, sasl_plain_password: {SECRET}": (
        "sasl_mechanism is given, but security_protocol PLAINTEXT never logs in: set SASL_SSL (or SASL_PLAINTEXT)"
    ),
}
"""Of the only cluster of a file, after its name in line 2."""
RELAY: dict[str, Any] = {"bootstrap": ["k1:9092"], "topic": "observations"}
KAFKA = {"source": "kafka", "relay": RELAY}
LOGIN = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_plain_username": "u"}
BOTH = {"sasl_plain_password": SECRET, "sasl_plain_password_file": "/x"}
HEADERS = {"url": f"https://hooks/{SECRET}", "headers": {"a": SECRET}, "header_files": {"A": "x"}}
DATA: list[tuple[dict[str, Any], str]] = [
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
    ({"pipeline": {"trigger": "11s"}}, "pipeline.trigger: should be less than or equal to 10"),
    ({"spark": {"spark.sql.shuffle.partitions": "4"}}, "set pipeline.partitions instead"),
    ({"checkpoint": "gs://bucket/x"}, "checkpoint: gs://bucket/x is for Spark's files alone: set work_dir to a"),
    ({"checkpoint": "gs:///x"}, "checkpoint: expected a path below it, such as s3a://BUCKET/kraftwatch"),
    ({"checkpoint": f"wasbs://me:{SECRET}@h/x", "work_dir": "/w", **KAFKA}, "checkpoint: expected no login in it"),
    ({"checkpoint": "s3a:bucket/x"}, "checkpoint: expected a path below it, such as s3a://BUCKET/kraftwatch"),
    ({"checkpoint": "s3a://b/x", **KAFKA}, "checkpoint: s3a://b/x is for Spark's files alone: set work_dir to a"),
    ({"checkpoint": "s3a://b/x", "work_dir": "/w"}, "work_dir: needs source: kafka, because a gatherer's"),
    ({"checkpoint": f"s3a://KEY:{SECRET}@b/x", "work_dir": "/w", **KAFKA}, "checkpoint: expected no login in it"),
    ({"docs_url": "javascript:alert(1)"}, "docs_url: write https://HOST/PATH or http://HOST/PATH, without a blank"),
    ({"heartbeat": {"every": "5m"}}, "heartbeat: url (or url_file) is missing"),
    ({"heartbeat": {"url": f"https://hc.test/{SECRET}", "url_file": "x"}}, "give url or url_file, not both"),
    ({"heartbeat": {"url": f"hc.test/{SECRET}"}}, "heartbeat.url: write https://HOST/PATH or http://HOST/PATH"),
    ({"heartbeat": {"url": f"https://hc.test/{SECRET}", "every": 0}}, "heartbeat.every: should be greater than 0"),
    ({"otlp": {"every": "15s"}}, "otlp: url (or url_file) is missing"),
    ({"otlp": {"url": f"otel.test:4318/{SECRET}"}}, "otlp.url: write https://HOST/PATH or http://HOST/PATH"),
    (
        {"otlp": {"url": f"http://{SECRET}@otel.test:4318/"}},
        "otlp.url: write the whole URL: that of a collector is http://HOST:4318/v1/metrics",
    ),
    (
        {"otlp": {"url": "http://o.test/v1", "headers": {"X-Key": SECRET}, "header_files": {"x-key": "x"}}},
        "otlp: the header x-key is in headers and in header_files: give it once",
    ),
    ({"rules": {"no-leadr": {"enabled": False}}}, "rules.no-leadr: 'no-leadr' matches no rule; did you mean"),
    ({"rules": {"no-leader": {"severity": "loud"}}}, "rules.no-leader.severity: should be 'critical', 'warning' or"),
    ({"rules": {"no-leader": {"hold": "5s"}}}, "rules.no-leader.hold: unknown key; known keys: severity, enabled"),
]
SINKS: list[tuple[Any, str]] = [
    (f"pager:https://eva:{SECRET}@x", "'pager' is not a kind of sink; the kinds are console, jsonl:PATH, webhook:URL"),
    (SECRET, "this text is not a kind of sink; the kinds are console"),
    ("slack:", "slack needs a value; the kinds are console"),
    ("console:red", "console takes no value"),
    ([7], "an entry is a text as --sink takes it, or one kind with its keys: `- slack: {…}`"),
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


REFUSED = {
    **FILES,
    **{PROD + keys: f"line 3: {sentence}" for keys, sentence in KEYS.items()},
    **{
        f"clusters:\n- {{name: a, {'' if 'bootstrap:' in keys else 'bootstrap: [c1:1], '}{keys}}}": sentence
        for keys, sentence in CLUSTER.items()
    },
    **{
        yaml.safe_dump({"clusters": [{"name": "a", "bootstrap": ["h:1"]}], **keys}): sentence
        for keys, sentence in (*DATA, *(({"sinks": [sink]}, sentence) for sink, sentence in SINKS))
    },
}


@pytest.mark.parametrize(("text", "sentence"), REFUSED.items(), ids=REFUSED.values())
def test_invalid_value_is_refused_in_one_sentence_with_its_line_and_without_its_secret(
    text: str, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "kraftwatch.yaml"
    path.write_text(text)

    with pytest.raises(UsageError) as refused:
        load(path)

    error = str(refused.value)
    assert re.match(rf"{re.escape(str(path))}: line \d+: ", error), "every error names its line"
    assert sentence in error
    assert "\n" not in error
    assert SECRET not in error
