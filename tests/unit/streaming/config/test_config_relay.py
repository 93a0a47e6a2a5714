"""The section `relay` and the key `source`."""

from typing import Any

import pytest

from connectors.errors import UsageError
from connectors.secret import Secret
from streaming.cli.config_from_options import resolve_config
from streaming.cli.options import ConfigOptions
from streaming.config import Config, checked

SECRET = "do-not-print-me"
RELAY = {"bootstrap": ["k1:9092"], "topic": "observations"}
LOGIN = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_plain_username": "u"}


def configured(**more: Any) -> Config:
    return checked({"clusters": [{"name": "a", "bootstrap": ["h:1"]}], **more}, "file.yaml")


def test_a_relay_has_the_login_of_a_topic() -> None:
    relay = configured(relay={**RELAY, **LOGIN, "sasl_plain_password": SECRET}, source="kafka").relay

    assert relay is not None
    assert relay.secret("sasl_plain_password") == Secret(text=SECRET)
    assert SECRET not in repr(relay)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"source": "kafka"}, "add relay with its bootstrap and topic"),
        ({"source": "topic"}, "source"),
        ({"relay": {"topic": "x"}}, "relay.bootstrap is missing"),
        ({"relay": {**RELAY, "topic": "a b"}}, "relay.topic"),
        ({"relay": {**RELAY, "buffer": 1}}, "unknown key 'relay.buffer'; did you mean 'buffer_bytes'"),
        ({"relay": {**RELAY, "security_protocol": "SASL_SSL"}}, "needs sasl_mechanism"),
        (
            {"relay": {**RELAY, **LOGIN, "sasl_plain_password": SECRET, "sasl_plain_password_file": "/x"}},
            "give sasl_plain_password or sasl_plain_password_file, not both",
        ),
        (
            {"source": "kafka", "relay": {**RELAY, "security_protocol": "SSL", "ssl_crlfile": "/x"}},
            "does not support ssl_crlfile",
        ),
        ({"relay": {**RELAY, "restate_every": "10s"}}, "relay.restate_every"),
    ],
)
def test_invalid_relays_are_one_sentence(keys: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        configured(**keys)

    assert sentence in str(refused.value)
    assert SECRET not in str(refused.value)


def test_only_takes_several_names_and_patterns(tmp_path: Any) -> None:
    def watched(*only: str) -> list[str]:
        clusters = ["prod-eu=h:1", "prod-us=h:2", "test=h:3"]
        config = resolve_config(ConfigOptions(cluster=clusters, only=list(only)))
        return [section.name for section in config.watched]

    assert watched("prod-eu,test") == ["prod-eu", "test"]
    assert watched("prod-*, test") == ["prod-eu", "prod-us", "test"]
    assert watched("prod-us", "test") == ["prod-us", "test"]
    with pytest.raises(UsageError, match="--only staging matches none"):
        watched("test,staging")
