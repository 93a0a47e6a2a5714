"""Error redaction removes secrets, and reads no more than the beginning of a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.settings.secret import LENGTH_MAX, redact


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("POST https://hooks.slack.com/services/T0/B1/xyz: 500", "POST https://hooks.slack.com/*** 500"),
        ("https://me:pw@host:8443/path?key=1", "https://host:8443/***"),
        ("https://host", "https://host"),
        ("https://me:p@ss@host/path", "https://host/***"),
        ("https://host?token=a@bc", "https://**"),
        ("https://me:p/ss@host/path", "https://***/***"),
        ("password=hunter2, port=3", "password=***, port=3"),
        ("{'routing_key': 'abc def', 'n': 1}", "{'routing_key': ***, 'n': 1}"),
        ("Authorization: Bearer abc.def failed", "Authorization: *** failed"),
        ("sasl.plain.password: x", "sasl.plain.password: *"),
        ("connection refused by c1:9093", "connection refused by c1:9093"),
        ("cannot read file:///var/lib/kafka/x", "cannot read file:///var/lib/kafka/x"),
        ("{'secret': 'abc', 'n': 1}", "{'secret': ***, 'n': 1}"),
        ("token='a b'c, d", "token=***, d"),
        ("password='it never ends, does it", "password=***"),
        # The login of a URL is whole only where the @ is.
        ("x" * 985 + " https://" + "me:pass-word" * 90 + "@host/", "x" * 985 + " https://"),
        ("password=" + "p" * 2_000, "password=***"),
    ],
)
def test_secrets_are_removed(text: str, redacted: str) -> None:
    assert redact(text) == redacted


def test_every_occurrence_of_every_secret_is_removed() -> None:
    assert redact("abc sent abc, then xyz and xyz", "abc", "xyz") == "*** sent ***, then *** and ***"
    assert redact("an empty secret hides nothing", "", "xyz") == "an empty secret hides nothing"


def test_a_secret_at_the_end_of_what_is_kept_is_hidden_as_a_whole() -> None:
    for before in range(LENGTH_MAX - 20, LENGTH_MAX + 2):
        found = redact("x" * before + "abcdefghij-secret", "abcdefghij-secret")
        assert "a" not in found
        assert len(found) <= LENGTH_MAX


def test_a_secret_that_contains_another_one_is_hidden_as_a_whole() -> None:
    assert redact("in abcdef", "abc", "abcdef") == "in ***"


PIECES = st.sampled_from(
    [
        *("password", "token", "secret=", "Authorization: ", "api_key", "=", ":", "bearer ", "basic ", "'", '"'),
        *("://", "https://", "file://", "@", "/", "?", "#", "***", "*", ")", "{", "}", ",", ";", "&"),
        *(" ", "\n", "\u2028", "a", "host", "x.y", "-", "é"),
    ]
)
TEXTS = st.lists(PIECES, max_size=40).map("".join)
SECRETS = st.text("abcXYZ0189", min_size=8, max_size=20)


@given(TEXTS, st.sampled_from([1, 1, 40]), st.integers(0, LENGTH_MAX))
def test_redaction_of_a_redacted_text_changes_nothing(text: str, times: int, before: int) -> None:
    redacted = redact("x" * before + text * times)
    assert redact(redacted) == redacted
    assert len(redacted) <= LENGTH_MAX


@given(st.data(), st.lists(SECRETS, min_size=1, max_size=3), st.sampled_from([1, 40]))
def test_no_secret_is_left(data: st.DataObject, secrets: list[str], times: int) -> None:
    text = data.draw(st.lists(PIECES | st.sampled_from(secrets), max_size=60).map("".join)) * times
    redacted = redact(text, *secrets)
    assert [secret for secret in secrets if secret in redacted] == []
    assert redact(redacted, *secrets) == redacted == redact(redacted)
