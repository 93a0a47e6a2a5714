"""The jsonl object: other programs rely on its exact format."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.sinks.alert_json import claims_json, claims_text, key_of, to_line
from rules.claims.claim import NO, Follows, Question, claim
from rules.model.identifiers import Millis, NodeId
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert


def test_the_object_has_exactly_these_fields_in_this_order() -> None:
    claims = (claim(Question.FOLLOWS, Follows.NOT_FETCHING, node=NodeId(2)),)
    assert to_line(alert(claims=claims), Millis(NOON_MS + 6_000)).decode() == (
        '{"cluster":"alpha","cluster_id":"kP1x","rule":"no-leader","subject":"voter 2","severity":"critical",'
        '"state":"firing","summary":"No leader elected.","evidence":{"leader_epoch":7,"asked":["c1:9093","c2:9093"]},'
        '"claims":[{"question":"follows","node":2,"answer":["not fetching"],"of":null,"observed_at":null,'
        '"undecided":[]}],'
        '"remedy":["# Start a controller.","bin/kafka-server-start.sh $NODE_PROPERTIES"],'
        '"started_at":"2026-11-20T05:01:02.345Z","observed_at":"2026-11-20T05:01:07.345Z",'
        '"offset":991,"fingerprint":"83f33bc26ad4ce07","sent_at":"2026-11-20T05:01:08.345Z"}\n'
    )


@given(st.integers(0, 60), st.integers(2, 2_000))
def test_claims_as_text_are_whole_and_the_first_ones(count: int, most: int) -> None:
    claims = [claim(Question.RESTART, NO, node=NodeId(node)) for node in range(count)]
    text = claims_text(claims, most)
    kept = json.loads(text or "[]")
    assert len(text) <= most
    assert kept == claims_json(claims)[: len(kept)]
    assert len(kept) == count or len(claims_text(claims, most + 200)) > len(text)


@given(st.text(), st.text(), st.integers(0, 4_000_000_000_000), st.booleans())
def test_a_line_has_one_line_feed_and_the_key_of_its_alert(subject: str, rule: str, at_ms: int, resolved: bool) -> None:
    expected = alert(subject, rule=rule, started_at_ms=at_ms, resolved=resolved)
    line = to_line(expected, NOON_MS)
    assert line.count(b"\n") == 1
    assert key_of(line) == expected.key


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b"null", b'{"cluster":"alpha"', b'{"started_at":3}', b"\xff"])
def test_another_line_has_no_key(line: bytes) -> None:
    assert key_of(line) is None


def test_a_lone_surrogate_and_nan_do_not_lose_the_alert() -> None:
    expected = alert(
        summary="broken \udc80 name", evidence={"age_s": float("nan"), "deep": [{"x": float("inf")}], "ok": 1.5}
    )
    line = json.loads(to_line(expected, NOON_MS))
    assert line["evidence"] == {"age_s": None, "deep": [{"x": None}], "ok": 1.5}
    assert line["summary"] == "broken \udc80 name"
    assert key_of(to_line(expected, NOON_MS)) == expected.key
