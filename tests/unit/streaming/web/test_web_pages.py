"""The page and its JSON over HTTP: content, headers, ETag, absent paths."""

import gzip
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from connectors.delivery.delivery_report import DeliveryReport, SinkResult
from rules.alert import Alert
from rules.evaluate import thresholds_for, with_overrides
from rules.finding import Severity, Thresholds
from rules.model.identifiers import Millis, NodeId, Offset
from rules.notifications.route import Silence
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.status.cluster_status import ClusterStatus, StatusSource
from streaming.status.status_store import ReceivedStatus, StatusStore
from streaming.web.cluster_view import ClusterView
from streaming.web.fleet_view import FleetView
from streaming.web.templating import render_cluster
from tests.page_fixture import PageFixture, ServedPages
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert
from tests.unit.streaming.status.statuses import NO_OBSERVATION

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageFixture]:
    """One cluster is healthy, one has no majority, one has no observation."""
    with PageFixture(tmp_path_factory.mktemp("fixture"), ["calm", "prod"]) as fixture:
        fixture.pass_s(5)
        fixture["prod"].kill(2)
        fixture["prod"].kill(3)
        fixture.pass_s(15)
        fixture.store.set_clusters(["calm", "prod", EVIL])
        yield fixture


def test_clusters_are_listed_worst_first(fixture: PageFixture) -> None:
    html = fixture.get("/").text
    places = [html.index(f">{name}</a>") for name in ("prod", "&lt;script&gt;alert(1)&lt;/script&gt;", "calm")]
    assert places == sorted(places)
    assert EVIL not in html
    assert "<title>1 critical, 1 unknown, 1 healthy" in html


@pytest.mark.parametrize("path", ["/", "/clusters/prod", "/rules/no-leader", "/api/clusters", "/static/kraftwatch.js"])
def test_every_response_has_its_security_headers_and_no_inline_style_or_script(fixture: PageFixture, path: str) -> None:
    answer = fixture.get(path)
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert "unsafe" not in policy
    assert (answer.headers["X-Content-Type-Options"], answer.headers["Cache-Control"]) == ("nosniff", "no-store")
    if "html" in answer.headers["Content-Type"]:
        assert [each for each in (" style=", "<style", "<script>", " onclick") if each in answer.text] == []


def test_unchanged_page_is_a_304(fixture: PageFixture) -> None:
    first = fixture.get("/")
    again = fixture.get("/", If_None_Match=first.headers["ETag"])
    assert (again.status_code, again.content, again.headers["X-Now"]) == (304, b"", str(fixture.now_ms))
    assert fixture.get("/?health=critical", If_None_Match=first.headers["ETag"]).status_code == 200


def test_search_and_health_filter_work_without_a_script(fixture: PageFixture) -> None:
    assert "/clusters/calm" in fixture.get("/?q=CAL").text
    assert "/clusters/prod" not in fixture.get("/?q=cal").text
    assert "/clusters/prod" in fixture.get("/?q=no-leader").text
    assert "/clusters/calm" not in fixture.get("/?health=critical").text
    assert "No cluster matches" in fixture.get("/?q=nothing").text


def test_api_of_all_clusters(fixture: PageFixture) -> None:
    body = fixture.get("/api/clusters").json()
    assert list(body) == ["now_ms", "counts", "clusters", "delivered_at_ms", "sinks", "engine", "engine_since_ms"]
    assert body["counts"] == {"healthy": 1, "unknown": 1, "warning": 0, "critical": 1}
    worst = body["clusters"][0]
    assert (worst["name"], worst["health"], worst["leader_id"], worst["alerts"]["critical"]) == (
        *("prod", "critical", None),
        1,
    )
    never = body["clusters"][1]
    assert (never["name"], never["health"], never["age_ms"], never["voters"]) == (EVIL, "unknown", None, None)


def test_api_of_one_cluster(fixture: PageFixture) -> None:
    body = fixture.get("/api/clusters/prod").json()
    assert [alert["rule"] for alert in body["firing"]] == ["no-leader"]
    assert body["firing"][0]["remedy"]
    assert "sent_at" not in body["firing"][0]
    assert body["status"]["cluster"] == "prod"
    assert [(line["rule"], line["state"]) for line in body["history"]] == [("no-leader", "firing")]
    assert (body["silences"], body["recovered"]) == ([], [])


def test_cluster_name_with_markup_and_each_rule_have_a_page(fixture: PageFixture) -> None:
    path = "/clusters/%3Cscript%3Ealert%281%29%3C%2Fscript%3E"
    assert f'href="{path}"' in fixture.get("/").text
    assert "No observation of this cluster has arrived yet" in fixture.get(path).text
    assert 'href="/rules/no-leader"' in fixture.get("/clusters/prod").text
    assert "What to do" in fixture.get("/rules/no-leader").text


@pytest.mark.parametrize("path", ["/clusters/none", "/api/clusters/none", "/rules/none", "/static/pages.py"])
def test_unknown_path_is_a_404_as_json(fixture: PageFixture, path: str) -> None:
    answer = fixture.get(path)
    assert (answer.status_code, list(answer.json())) == (404, ["status"])


def test_page_of_a_rule_has_a_line_for_each_paragraph_and_item_and_keeps_those_of_code(fixture: PageFixture) -> None:
    html = fixture.get("/rules/ghost-registration").text
    assert (
        "\n- It is lower, and every registration supports 33: raise it, then unregister the controller. There" in html
    )
    assert "There is no way back from 33.\n- It is lower, and a registration without" in html
    assert "<code>$ kafka-storage.sh format --config" in html
    assert "metadata.version was upgraded to 33.\n$ kafka-server-stop.sh --node-id=4\n" in html
    assert "reported by <code>failure-tolerance</code> or" in fixture.get("/rules/stale-voter-endpoint").text


def test_directory_id_in_evidence_is_shown_unchanged() -> None:
    evidence: dict[str, Any] = {"voters": {"1-0dU03Uz3QFKZPAcA9Bgc_g": "does not fetch, " * 9}, "leader_epoch": 7}
    html = rendered(NO_OBSERVATION, history=[alert("quorum", cluster="prod", evidence=evidence)])
    assert "1-0dU03Uz3QFKZPAcA9Bgc_g" in html
    assert ">leader epoch</th>" in html


def test_large_page_is_compressed_on_request(fixture: PageFixture) -> None:
    packed = requests.get(fixture.url("/clusters/prod"), headers={"Accept-Encoding": "gzip"}, stream=True, timeout=60)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert b"<!DOCTYPE html>" in gzip.decompress(packed.raw.read(decode_content=False))
    plain = fixture.get("/clusters/prod", Accept_Encoding="identity")
    assert "Content-Encoding" not in plain.headers


def test_state_of_each_sink_is_shown(tmp_path: Path) -> None:
    with PageFixture(tmp_path, ["calm"]) as fixture:
        fixture.pass_s(2)
        sinks = {
            "slack:ops": SinkResult(pending=3, silenced=1, failing="it answered 503"),
            "jsonl:/a": SinkResult(),
            "pagerduty": SinkResult(pending=2, failing="HTTP 403", not_accepted=("a", "b")),
        }
        fixture.store.put_delivery(DeliveryReport(recorded=0, sinks=sinks), tuple, at_ms=Millis(fixture.now_ms))
        html = fixture.get("/").text
        assert "Deliveries to slack:ops, pagerduty fail" in html[: html.index('id="find"')], "before all clusters"
        assert "Failing" in html
        assert "it answered 503" in html
        assert "2 not accepted, others are: HTTP 403" in html
        assert fixture.get("/api/clusters").json()["sinks"][0] == {
            "name": "slack:ops",
            "pending": 3,
            "silenced": 1,
            "failing": "it answered 503",
            "set_aside": 0,
        }


def test_page_shows_the_rules_that_the_configuration_changes(tmp_path: Path) -> None:
    overrides = {"no-leader": Thresholds(severity=Severity.WARNING), "version-drift": Thresholds(enabled=False)}
    with PageFixture(tmp_path, ["calm"]) as fixture:
        cluster = fixture.clusters["calm"]
        settings = replace(cluster.monitor.machine.settings, thresholds=with_overrides(thresholds_for({}), overrides))
        cluster.monitor = ClusterMonitor.restored(cluster.monitor.to_bytes(), settings)
        fixture.pass_s(12)

        html = fixture.get("/clusters/calm").text

    assert "The configuration changes the severity of 1 rule</summary>" in html
    assert "no-leader</a>: warning" in html
    assert "version-drift</a>: disabled by the configuration" in html


def test_silenced_alert_shows_its_silence_and_each_pattern_has_its_own_place_on_the_page() -> None:
    times: dict[str, Any] = {"starts_at_ms": NOON_MS, "ends_at_ms": Millis(NOON_MS + 60_000)}
    one = Silence(id="1f0c9b2e", rule="no-leader", **times, author="eva", comment="CHG-1")

    html = rendered(
        NO_OBSERVATION,
        silences=[replace(one, rule="voter-*"), one],
        history=[alert("quorum", cluster="prod")],
    )

    assert "<strong>Silenced</strong> by eva until 2026-11-20 05:02:02 UTC: CHG-1" in html
    ids = re.findall(r'<li id="(s-[^"]+)"', html)
    assert len(ids) == len(set(ids)) == 2


@pytest.mark.parametrize(
    ("alerts", "sentence"),
    [
        ([], "Starting: no observation of this cluster has been evaluated yet"),
        ([alert("quorum", cluster="prod")], "No leader elected."),
    ],
    ids=["nothing fires", "an alert fires"],
)
def test_page_before_the_first_batch_says_that_the_job_is_starting(alerts: list[Alert], sentence: str) -> None:
    store = StatusStore(["prod"])
    store.put_delivery(DeliveryReport(recorded=len(alerts), sinks={}), lambda: alerts, at_ms=NOON_MS)
    view = FleetView(store=store, starting=lambda: True)
    with ServedPages(view) as server:
        for path in ("/", "/clusters/prod"):
            assert sentence in server.get(path).text


def rendered(status: ClusterStatus, topic: str = "", **more: Any) -> str:
    """The page of one cluster with this status."""
    received = ReceivedStatus(status=status, received_at_ms=NOON_MS)
    view = ClusterView(name="prod", now_ms=NOON_MS, received=received, **more)
    return render_cluster(view, timeline_ms=(Millis(NOON_MS - 3_600_000), NOON_MS), span="1h", topic=topic)


def test_a_topic_can_be_searched_before_the_log_was_read() -> None:
    """As a page does that stays open while the job restarts."""
    assert 'value="orders"' in rendered(NO_OBSERVATION, topic="orders")


def test_recorded_voters_are_unknown_before_the_log_was_read() -> None:
    read = replace(NO_OBSERVATION, last_offset=Offset(10))

    assert "<dt>Committed</dt><dd>unknown</dd>" in rendered(NO_OBSERVATION)
    assert "<dt>Committed</dt><dd>none in the log</dd>" in rendered(read)


HEALTHY = replace(
    NO_OBSERVATION, source=StatusSource.LIVE, leader_id=NodeId(1), findings=(), unknown=(), now_ms=NOON_MS
)


@pytest.mark.parametrize("count", [1, 2])
def test_a_healthy_cluster_with_an_information_is_not_said_to_have_no_alert(count: int) -> None:
    alerts = [alert(f"broker {number}", cluster="prod", severity=Severity.INFO) for number in range(count)]
    received = ReceivedStatus(status=HEALTHY, received_at_ms=NOON_MS)
    view = ClusterView(name="prod", now_ms=NOON_MS, received=received, history=alerts)

    assert view.health == "healthy"
    assert view.headline.endswith("no warning or critical alert is firing")
    html = rendered(HEALTHY, history=alerts)
    assert "no alert is firing" not in html
    assert "no warning or critical alert is firing" in html


def test_cluster_with_an_old_status_is_unknown() -> None:
    received = ReceivedStatus(status=HEALTHY, received_at_ms=NOON_MS)
    view = ClusterView(name="prod", now_ms=Millis(NOON_MS + 31_000), received=received)

    assert view.health == "unknown"
    assert view.headline == "No status has arrived for 31 s: this page shows the last one"
