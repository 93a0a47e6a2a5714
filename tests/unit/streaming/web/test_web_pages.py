"""The page and its JSON as a program gets them: headers, what is asked for again, what there is not."""

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from connectors.delivery.delivery_report import DeliveryReport, SinkResult
from rules.model.identifiers import Millis
from tests.browser.page_fixture import PageFixture

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageFixture]:
    """One cluster is well, one has no majority, one was never seen."""
    with PageFixture(tmp_path_factory.mktemp("stage"), ["calm", "prod"]) as stage:
        stage.pass_s(5)
        stage["prod"].stop(2)
        stage["prod"].stop(3)
        stage.pass_s(15)
        stage.fleet.watch(["calm", "prod", EVIL])
        yield stage


def get(stage: PageFixture, path: str, headers: Mapping[str, str] | None = None) -> requests.Response:
    return requests.get(stage.url(path), headers=headers, timeout=60)


def json_of(stage: PageFixture, path: str) -> dict[str, Any]:
    answer: dict[str, Any] = get(stage, path).json()
    return answer


def test_the_names_stand_in_the_page_itself_the_worst_first(stage: PageFixture) -> None:
    html = get(stage, "/").text
    places = [html.index(f">{name}</a>") for name in ("prod", "&lt;script&gt;alert(1)&lt;/script&gt;", "calm")]
    assert places == sorted(places)
    assert EVIL not in html
    assert "<title>1 critical, 1 unknown, 1 healthy" in html


@pytest.mark.parametrize("path", ["/", "/clusters/prod", "/rules", "/api/clusters", "/static/kraftwatch.js"])
def test_every_answer_loads_nothing_of_others_and_is_kept_nowhere(stage: PageFixture, path: str) -> None:
    headers = get(stage, path).headers
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")


def test_a_page_has_no_inline_style_or_script_that_its_policy_would_refuse(stage: PageFixture) -> None:
    for path in ("/", "/clusters/prod", "/rules/no-leader"):
        html = get(stage, path).text
        assert " style=" not in html
        assert "<style" not in html
        assert "<script>" not in html
        assert " onclick" not in html


def test_what_has_not_changed_is_not_sent_again(stage: PageFixture) -> None:
    first = get(stage, "/")
    again = get(stage, "/", {"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content, again.headers["X-Now"]) == (304, b"", str(stage.now_ms))
    assert get(stage, "/?health=critical", {"If-None-Match": first.headers["ETag"]}).status_code == 200


def test_finding_and_choosing_work_without_a_script(stage: PageFixture) -> None:
    assert "/clusters/calm" in get(stage, "/?q=CAL").text
    assert "/clusters/prod" not in get(stage, "/?q=cal").text
    assert "/clusters/prod" in get(stage, "/?q=no-leader").text
    assert "/clusters/calm" not in get(stage, "/?health=critical").text
    assert "No cluster is found" in get(stage, "/?q=nothing").text


def test_the_fleet_as_json(stage: PageFixture) -> None:
    told = json_of(stage, "/api/clusters")
    assert list(told) == ["now_ms", "counts", "clusters", "delivered_at_ms", "sinks"]
    assert told["counts"] == {"healthy": 1, "unknown": 1, "warning": 0, "critical": 1}
    worst = told["clusters"][0]
    assert (worst["name"], worst["health"], worst["leader_id"], worst["alerts"]["critical"]) == (
        *("prod", "critical", None),
        1,
    )
    never = told["clusters"][1]
    assert (never["name"], never["health"], never["age_ms"], never["voters"]) == (EVIL, "unknown", None, None)


def test_one_cluster_as_json(stage: PageFixture) -> None:
    told = json_of(stage, "/api/clusters/prod")
    assert [alert["rule"] for alert in told["firing"]] == ["no-leader"]
    assert told["firing"][0]["remedy"]
    assert "sent_at" not in told["firing"][0]
    assert told["portrait"]["cluster"] == "prod"
    assert [(line["rule"], line["state"]) for line in told["history"]] == [("no-leader", "firing")]
    assert (told["silences"], told["recovered"]) == ([], [])


def test_a_name_of_any_characters_has_a_page(stage: PageFixture) -> None:
    path = "/clusters/%3Cscript%3Ealert%281%29%3C%2Fscript%3E"
    assert f'href="{path}"' in get(stage, "/").text
    answer = get(stage, path)
    assert answer.status_code == 200
    assert "Nothing was seen of this cluster yet" in answer.text


@pytest.mark.parametrize("path", ["/clusters/none", "/api/clusters/none", "/rules/none", "/static/pages.py"])
def test_what_there_is_not_is_said(stage: PageFixture, path: str) -> None:
    answer = get(stage, path)
    assert (answer.status_code, list(answer.json())) == (404, ["status"])


def test_every_rule_that_is_linked_has_its_page(stage: PageFixture) -> None:
    html = get(stage, "/clusters/prod").text
    assert 'href="/rules/no-leader"' in html
    assert "What to do" in get(stage, "/rules/no-leader").text


def test_a_directory_id_in_evidence_is_shown_letter_by_letter(stage: PageFixture) -> None:
    told = stage.fleet.told
    assert told is not None
    evidence: dict[str, Any] = {"voters": {"1-0dU03Uz3QFKZPAcA9Bgc_g": "does not fetch, " * 9}, "leader_epoch": 7}
    alert = replace(told.history[0], subject="another", evidence=evidence)
    before = told.history
    stage.fleet.tell(DeliveryReport(recorded=1, sinks={}), lambda: [*before, alert], at_ms=Millis(stage.now_ms))
    html = get(stage, "/clusters/prod").text
    stage.fleet.tell(DeliveryReport(recorded=1, sinks={}), lambda: before, at_ms=Millis(stage.now_ms))
    assert "1-0dU03Uz3QFKZPAcA9Bgc_g" in html
    assert ">leader epoch</th>" in html


def test_a_large_page_is_packed_for_who_takes_that(stage: PageFixture) -> None:
    packed = requests.get(stage.url("/clusters/prod"), headers={"Accept-Encoding": "gzip"}, stream=True, timeout=60)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert b"<!DOCTYPE html>" in gzip.decompress(packed.raw.read(decode_content=False))
    plain = get(stage, "/clusters/prod", {"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers


def test_how_each_sink_does_is_shown(tmp_path: Path) -> None:
    with PageFixture(tmp_path, ["calm"]) as stage:
        stage.pass_s(2)
        sinks = {"slack:ops": SinkResult(pending=3, silenced=1, failing="it answered 503"), "jsonl:/a": SinkResult()}
        stage.fleet.tell(DeliveryReport(recorded=0, sinks=sinks), tuple, at_ms=Millis(stage.now_ms))
        html = get(stage, "/").text
        assert "slack:ops cannot be told now" in html[: html.index('id="find"')], "before all clusters"
        assert "Failing" in html
        assert "it answered 503" in html
        assert json_of(stage, "/api/clusters")["sinks"][0] == {
            "name": "slack:ops",
            "pending": 3,
            "silenced": 1,
            "failing": "it answered 503",
        }


def test_a_cluster_of_which_nothing_comes_any_more_is_not_healthy(tmp_path: Path) -> None:
    with PageFixture(tmp_path, ["calm"]) as stage:
        stage.pass_s(12)
        assert json_of(stage, "/api/clusters/calm")["health"] == "healthy"
        stage.now_ms += 31_000
        told = json_of(stage, "/api/clusters/calm")
        assert (told["health"], told["headline"]) == (
            "unknown",
            "nothing came of it for 31 s: what is shown is that old",
        )


def test_json_of_a_hostile_name_is_json(stage: PageFixture) -> None:
    path = "/api/clusters/%3Cscript%3Ealert%281%29%3C%2Fscript%3E"
    answer = get(stage, path)
    assert answer.headers["Content-Type"] == "application/json"
    assert json.loads(answer.text)["name"] == EVIL
