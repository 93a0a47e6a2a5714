"""Error redaction removes secrets."""

import pytest

from connectors.secret import redact


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("POST https://hooks.slack.com/services/T0/B1/xyz: 500", "POST https://hooks.slack.com/*** 500"),
        ("https://me:pw@host:8443/path?key=1", "https://host:8443/***"),
        ("https://host", "https://host"),
        ("https://me:p@ss@host/path", "https://host/***"),
        ("https://host?token=a@b", "https://***"),
        ("https://me:p/ss@host/path", "https://***/***"),
        ("password=hunter2, port=3", "password=***, port=3"),
        ("{'routing_key': 'abc def', 'n': 1}", "{'routing_key': ***, 'n': 1}"),
        ("Authorization: Bearer abc.def failed", "Authorization: *** failed"),
        ("sasl.plain.password: x", "sasl.plain.password: ***"),
        ("connection refused by c1:9093", "connection refused by c1:9093"),
    ],
)
def test_secrets_are_removed(text: str, redacted: str) -> None:
    assert redact(text) == redacted


def test_every_occurrence_of_every_secret_is_removed() -> None:
    assert redact("abc sent abc, then xyz and xyz", "abc", "xyz") == "*** sent ***, then *** and ***"
    assert redact("an empty secret hides nothing", "", "xyz") == "an empty secret hides nothing"
