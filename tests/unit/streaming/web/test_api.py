"""The API: each operation is documented, answers as the document says, and changes something only with the token."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
from flask import Flask
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from connectors.process.wall_clock import wall_ms
from rules.evaluate import thresholds_for
from rules.facts.quorum import Facts
from rules.formatting import iso
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from rules.notifications.route import Silence
from streaming.status.build_status import job_cluster_status
from streaming.status.status_store import StatusStore
from streaming.web.api import OPERATIONS, api, openapi
from streaming.web.cluster_view import STALE_MS, restart_json
from streaming.web.fleet_view import FleetView
from tests.situation.commands import situation
from tests.unit.streaming.web.served_api import ALERT, BEARER, READER, TOKEN, WITNESS, Served

DOCUMENT = openapi()
HOUR_MS = 3_600_000


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path) as running:
        yield running


def checked(answer: requests.Response, method: str, path: str) -> Any:
    """Returns the answer, which is as the document says."""
    operation = DOCUMENT["paths"][path][method.lower()]
    schema = operation["responses"][str(answer.status_code)]["content"]["application/json"]["schema"]
    resource = DRAFT202012.create_resource(DOCUMENT)
    registry: Registry[Any] = Registry().with_resource("urn:api", resource)
    anchored = {"$id": "urn:api", **DOCUMENT, **schema}
    if "$ref" in schema:
        anchored = {"$ref": f"urn:api{schema['$ref']}"}
    Draft202012Validator(anchored, registry=registry).validate(answer.json())
    return answer.json()


ACKNOWLEDGE = {"fingerprint": ALERT.fingerprint, "by": "Ana", "comment": "INC-1"}


def silence(**more: Any) -> dict[str, Any]:
    ends_at = iso(Millis(wall_ms() + HOUR_MS))
    return {"rule": "voter-*", "ends_at": ends_at, "author": "Ana", "comment": "disks", **more}


def test_the_document_is_valid_and_describes_each_route() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()
    app = Flask("test")
    app.register_blueprint(api(FleetView(store=StatusStore([]))))
    routes = {
        (rule.rule.replace("<path:", "{").replace(">", "}"), method.lower())
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
        if rule.endpoint.startswith("api.")
    }
    assert routes == {(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert routes == {(one.path, one.method) for one in OPERATIONS}


def test_what_is_read_is_as_documented(served: Served) -> None:
    served.send("POST", "/api/acknowledgements", ACKNOWLEDGE)
    served.send("POST", "/api/silences", silence())
    for path, url in (
        ("/api/clusters", "/api/clusters"),
        ("/api/clusters/{name}", "/api/clusters/prod"),
        ("/api/clusters/{name}/safe-to-restart/{node}", "/api/clusters/prod/safe-to-restart/1"),
        ("/api/clusters/{name}/safe-to-restart/{node}", "/api/clusters/prod/safe-to-restart/101"),
        ("/api/acknowledgements", "/api/acknowledgements"),
        ("/api/silences", "/api/silences"),
        ("/api/openapi.json", "/api/openapi.json"),
    ):
        answer = served.send("GET", url)
        assert answer.status_code == 200, url
        found = checked(answer, "get", path)
        assert path != "/api/openapi.json" or found == DOCUMENT
    assert checked(served.send("GET", "/api/clusters/other"), "get", "/api/clusters/{name}")
    (shown,) = served.send("GET", "/api/clusters/prod").json()["status"]["acknowledged"]
    assert (shown["rule"], shown["by"], shown["comment"]) == ("voter-lagging", "Ana", "INC-1")


def test_an_alert_is_acknowledged_and_that_is_ended(served: Served) -> None:
    until = iso(Millis(wall_ms() + HOUR_MS))
    answer = served.send("POST", "/api/acknowledgements", {**ACKNOWLEDGE, "until": until})
    added = checked(answer, "post", "/api/acknowledgements")
    assert (answer.status_code, added["subject"], added["until"]) == (201, "voter 2", until)
    assert served.send("GET", "/api/acknowledgements").json() == [added]
    assert "<strong>Acknowledged</strong> by Ana until" in served.send("GET", "/clusters/prod").text
    path = f"/api/acknowledgements/{ALERT.fingerprint}"
    ended = served.send("DELETE", path)
    assert checked(ended, "delete", "/api/acknowledgements/{fingerprint}") == added
    assert served.acknowledged() == []
    again = served.send("DELETE", path)
    assert (again.status_code, again.json()) == (404, {"status": f"the alert {ALERT.fingerprint} is not acknowledged"})


def test_alerts_are_silenced_and_that_is_ended(served: Served) -> None:
    answer = served.send("POST", "/api/silences", silence(subject="voter 2"))
    added = checked(answer, "post", "/api/silences")
    assert (answer.status_code, added["rule"], added["subject"], added["active"]) == (201, "voter-*", "voter 2", True)
    assert served.send("GET", "/api/silences").json() == [added]
    ended = served.send("DELETE", f"/api/silences/{added['id']}")
    assert [one["id"] for one in checked(ended, "delete", "/api/silences/{id}")] == [added["id"]]
    assert served.send("GET", "/api/silences").json() == []
    assert served.send("DELETE", "/api/silences/other").status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("acknowledgements", {"by": "Ana"}, 400, "fingerprint: Field required"),
        (
            "acknowledgements",
            {**ACKNOWLEDGE, "fingerprint": "none"},
            404,
            "no alert with the fingerprint 'none' is firing",
        ),
        ("acknowledgements", {**ACKNOWLEDGE, "until": "2020-01-01T00:00:00Z"}, 400, "the end must be in the future"),
        ("acknowledgements", {**ACKNOWLEDGE, "by": " \n"}, 400, "by: String should have at least 1 character"),
        ("acknowledgements", {**ACKNOWLEDGE, "by": "A\x00"}, 400, "by: String should match pattern"),
        ("acknowledgements", [], 400, "Input should be an object"),
        ("silences", silence(author=" "), 400, "author: String should have at least 1 character"),
        ("silences", silence(comment=" "), 400, "comment: String should have at least 1 character"),
        ("silences", silence(rule="no-such"), 400, "rule: 'no-such' matches no rule"),
        ("silences", silence(cluster="other"), 400, "cluster: 'other' matches no cluster"),
        ("silences", silence(rule="*"), 400, "this would silence every alert"),
        ("silences", silence(rule="**", subject="?*"), 400, "this would silence every alert"),
        ("silences", silence(ends_at="2099-01-01T00:00:00Z"), 400, "the end must be in the future, at most 366 days"),
        ("silences", silence(comment=""), 400, "comment: String should have at least 1 character"),
    ],
)
def test_a_request_that_is_invalid_is_refused_in_one_sentence(
    served: Served, path: str, body: Any, status: int, sentence: str
) -> None:
    answer = served.send("POST", f"/api/{path}", body)
    assert answer.status_code == status
    assert checked(answer, "post", f"/api/{path}")["status"].startswith(sentence)


@pytest.mark.parametrize(
    ("headers", "more", "status"),
    [
        ({}, {}, 401),
        ({"Authorization": "Bearer wrong"}, {}, 401),
        ({"Cookie": f"token={TOKEN}"}, {"params": {"token": TOKEN}}, 401),
        ({}, {"auth": ("any", TOKEN)}, 403),
        ({"X-Requested-With": "kraftwatch"}, {"auth": ("any", TOKEN)}, 201),
        (READER, {}, 403),
        (BEARER, {}, 201),
    ],
    ids=["none", "wrong", "cookie and query", "login of the browser alone", "page", "reader", "program"],
)
def test_only_the_token_in_a_header_that_no_other_page_can_send_changes_something(
    served: Served, headers: Any, more: Any, status: int
) -> None:
    answer = served.send("POST", "/api/acknowledgements", ACKNOWLEDGE, headers, **more)
    assert (answer.status_code, len(served.acknowledged())) == (status, int(status == 201))
    assert TOKEN not in answer.text


def test_without_a_token_nothing_can_be_changed_and_the_page_offers_nothing(tmp_path: Path) -> None:
    with Served(tmp_path, token=None) as served:
        answer = served.send("POST", "/api/acknowledgements", ACKNOWLEDGE, {"X-Requested-With": "kraftwatch"})
        assert (answer.status_code, served.acknowledged()) == (403, [])
        assert "data-acknowledge" not in served.send("GET", "/clusters/prod").text
    with Served(tmp_path) as served:
        assert f'data-acknowledge="{ALERT.fingerprint}"' in served.send("GET", "/clusters/prod").text
        read = served.send("GET", "/clusters/prod", headers=READER)
        assert (read.status_code, "data-acknowledge" in read.text) == (200, False)


def test_a_job_that_starts_changes_nothing(tmp_path: Path) -> None:
    with Served(tmp_path, starting=True) as served:
        answer = served.send("POST", "/api/acknowledgements", ACKNOWLEDGE)
    assert (answer.status_code, answer.json()) == (503, {"status": "the job starts: try again"})


@pytest.mark.parametrize("length", [20_000, 70_000, 20_000_000])
def test_a_long_body_is_refused(length: int, served: Served) -> None:
    answer = served.send("POST", "/api/acknowledgements", {**ACKNOWLEDGE, "comment": "x" * length})
    assert (answer.status_code, answer.json()) == (413, {"status": "the body is longer than 16384 bytes"})
    assert served.acknowledged() == []


@pytest.mark.parametrize(
    "kind", ["multipart/form-data", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", ""]
)
def test_a_body_is_json_whatever_its_type_says(kind: str, served: Served) -> None:
    for body, status in ((ACKNOWLEDGE, 201), ({**ACKNOWLEDGE, "by": ""}, 400)):
        answer = served.send("POST", "/api/acknowledgements", body, {**BEARER, "Content-Type": kind})
        assert (answer.status_code, "fingerprint" in answer.json()) == (status, status == 201)


def test_a_body_may_come_in_chunks(served: Served) -> None:
    url, headers = (
        f"http://127.0.0.1:{served.port}/api/acknowledgements",
        {**BEARER, "Content-Type": "application/json"},
    )
    body = json.dumps(ACKNOWLEDGE).encode()

    answer = requests.post(url, data=iter([body[:9], body[9:]]), headers=headers, timeout=60)
    too_long = [
        requests.post(url, data=iter([body, b" " * length]), headers=headers, timeout=60) for length in (20_000, 70_000)
    ]

    assert (answer.status_code, served.acknowledged()) == (201, ["by Ana"])
    for refused in too_long:
        assert (refused.status_code, refused.json()) == (413, {"status": "the body is longer than 16384 bytes"})


CLUSTER_ID = situation().cluster_id
PEER = {"node": 2, "endpoint": "c2:9093", "reached": "no", "step": "tls", "why": "expired", "took_ms": 3}
ROW = {"version": 1, "node": 1, "cluster_id": CLUSTER_ID, "at_ms": 1_800_000_000_000, "login": "", "peers": [PEER]}
WITNESS_PATH = "/api/clusters/{name}/witness"


def test_a_row_of_a_voter_is_passed_on_to_the_gatherer(served: Served) -> None:
    for headers in (WITNESS, BEARER):
        answer = served.send("POST", "/api/clusters/prod/witness", ROW, headers)
        assert (answer.status_code, checked(answer, "post", WITNESS_PATH)) == (202, {"status": "accepted"})
    (cluster, row), again = served.reported
    assert again == (cluster, row)
    assert (cluster, row.node, row.peers[0].why) == ("prod", 1, "expired")
    served.gatherer_takes = False
    busy = served.send("POST", "/api/clusters/prod/witness", ROW, WITNESS)
    assert (busy.status_code, busy.json()) == (503, {"status": "the gatherer does not take it now: try again"})


@pytest.mark.parametrize(
    ("change", "status", "sentence"),
    [
        ({"node": 9}, 409, "node: 9 is none of the voters 1, 2 and 3, no observer and no broker"),
        ({"cluster_id": "AAAAAAAAAAAAAAAAAAAAAA"}, 409, "cluster_id: the row is of cluster id AAAAAAAAAAAAAAAAAAAAAA"),
        ({"cluster_id": None}, 409, "cluster_id: the row is of cluster id None"),
        ({"version": 2}, 400, "version: Input should be 1"),
        ({"node": "1"}, 400, "node: Input should be a valid integer"),
        ({"node": -1}, 400, "node: -1 is not from 0"),
        ({"at_ms": 10**18}, 400, "at_ms: 1000000000000000000 is not from"),
        ({"every_ms": 1}, 400, "every_ms: 1 is not from 10000 to 180000"),
        ({"took_ms": -1}, 400, "took_ms: -1 is not from 0"),
        ({"leader_ahead_ms": 10**30}, 400, "leader_ahead_ms: "),
        ({"observed_at_ms": 1}, 400, "observed_at_ms: no such field"),
        ({"peers": [{**PEER, "more": 1}]}, 400, "more: no such field"),
        ({"peers": [{**PEER, "reached": "maybe"}]}, 400, "peers.0.reached: Input should be 'yes', 'no' or 'unknown'"),
        ({"peers": [{**PEER, "why": "a\nb"}]}, 400, "a text has more than 300 characters, or one that is not printed"),
        ({"peers": [{**PEER, "why": "a" * 301}]}, 400, "a text has more than 300 characters, or one that is not"),
        ({"peers": [PEER] * 33}, 400, "peers: more than 32"),
    ],
)
def test_a_row_that_is_none_of_the_cluster_is_refused_in_one_sentence(
    served: Served, change: Any, status: int, sentence: str
) -> None:
    answer = served.send("POST", "/api/clusters/prod/witness", {**ROW, **change}, WITNESS)
    assert (answer.status_code, served.reported) == (status, [])
    assert checked(answer, "post", WITNESS_PATH)["status"].startswith(sentence)


def test_a_row_of_another_place_is_refused(tmp_path: Path, served: Served) -> None:
    assert served.send("POST", "/api/clusters/other/witness", ROW, WITNESS).status_code == 404
    long = served.send("POST", "/api/clusters/prod/witness", {**ROW, "login": "x" * 20_000}, WITNESS)
    assert long.status_code == 413
    with Served(tmp_path, relayed=True) as relayed:
        answer = relayed.send("POST", "/api/clusters/prod/witness", ROW, WITNESS)
    assert answer.status_code == 501
    assert checked(answer, "post", WITNESS_PATH)["status"].startswith(
        "relays gather this job's clusters: report to them"
    )


def test_the_token_of_a_host_reports_and_does_nothing_else(served: Served) -> None:
    refused = {"status": "this token only reports what a controller's host sees"}
    for method, path in (
        ("GET", "/api/clusters"),
        ("GET", "/clusters/prod"),
        ("GET", "/api/clusters/prod/witness"),
        ("POST", "/api/silences"),
    ):
        answer = served.send(method, path, None, WITNESS)
        assert (answer.status_code, answer.json()) == (403, refused), path
    answer = served.send("POST", "/api/clusters/prod/witness", ROW, READER)
    needed = "listen_token_file or listen_witness_token_file"
    assert (answer.status_code, answer.json()) == (403, {"status": f"this only reads: send the token of {needed}"})


def test_a_restart_is_answered_by_the_newest_status_and_by_what_was_observed_since(served: Served) -> None:
    path, now_ms = "/api/clusters/{name}/safe-to-restart/{node}", situation().now_ms

    def asked(node: str, since_ms: int | None = None) -> Any:
        since = "" if since_ms is None else f"?since={iso(Millis(since_ms))}"
        return checked(
            served.send("GET", f"/api/clusters/prod/safe-to-restart/{node}{since}", headers=READER), "GET", path
        )

    safe, leader = asked("1"), asked("3", now_ms - 60_000)
    assert (safe["safe"], safe["roles"], safe["remaining"]) == (True, ["controller"], [2, 3])
    assert (leader["safe"], "it leads" in leader["notes"][0]) == (True, True)
    assert asked("101")["partitions"] == {"without_leader": 0, "below_min_isr": 0, "undecided": 0, "one_replica": 0}

    later = asked("1", now_ms + 1)
    assert (later["safe"], later["unknown"][0][:32]) == (None, "the job has not observed the quo")
    assert [one["question"] for one in later["claims"]] == ["follows", "follows"]
    assert asked("9")["status"] == "cluster prod has no node 9"
    assert served.send("GET", "/api/clusters/other/safe-to-restart/1").status_code == 404
    assert served.send("GET", "/api/clusters/prod/safe-to-restart/1?since=soon").status_code == 400
    assert served.send("GET", "/api/clusters/prod/safe-to-restart/1", headers={}).status_code == 401


def test_an_old_status_says_of_no_node_that_it_may_be_restarted() -> None:
    view = FleetView(store=StatusStore(["prod"]), now_ms=lambda: Millis(wall_ms() + STALE_MS + 1_000))
    view.store.put_status(job_cluster_status(Facts(situation()), thresholds_for({})), at_ms=wall_ms())
    present = view.present("prod")
    assert present is not None
    answer = restart_json(present, "1", None)
    assert answer is not None
    assert (answer["safe"], answer["unknown"]) == (None, ["the job's newest status is 31 s old"])


def test_a_reason_is_left_out_by_its_name_and_announced_restarts_are_no_loop() -> None:
    quorum = situation("restarts 2 4 every 2m")
    view = FleetView(store=StatusStore(["prod"]), now_ms=lambda: quorum.now_ms)
    view.store.put_status(job_cluster_status(Facts(quorum), thresholds_for({})), at_ms=quorum.now_ms)
    present = view.present("prod")
    assert present is not None

    def asked(despite: str | None = None, *silences: Silence) -> tuple[Any, ...]:
        answer = restart_json(present, "1", None, despite=despite, silences=silences)
        plain: Any = answer
        claimed = [one["answer"] for one in plain["claims"] if one["question"] == "may-restart"]
        return plain["safe"], [one["name"] for one in plain["left_out"]], plain["notes"][:1], claimed

    def announcing(ago_ms: int, **more: str) -> Silence:
        return Silence(
            id="1",
            author="Ana",
            comment="CHG-1",
            starts_at_ms=Millis(quorum.now_ms - ago_ms),
            ends_at_ms=quorum.now_ms,
            **more,
        )

    assert asked() == (False, [], [], [["no"]])
    assert asked("node-restarting")[:2] == (True, ["node-restarting"])
    assert asked("voter-change")[0] is False
    announced: tuple[Any, ...] = (True, [], ["3 restarts announced: node-restarting does not count"], [["yes"]])
    assert asked(None, announcing(300_000)) == announced
    assert asked(None, announcing(300_000, subject="controller 2", cluster="pr*")) == announced
    for silence in (
        announcing(60_000),
        announcing(300_000, subject="controller 1"),
        announcing(300_000, cluster="dev"),
        announcing(300_000, rule="voter-*"),
    ):
        assert asked(None, silence)[0] is False, silence


def test_an_answer_rests_on_what_was_observed_of_each_node_since() -> None:
    quorum = situation("brokers 101,102,103")
    older = {at: replace(one, observed_at_ms=Millis(one.observed_at_ms - 20_000)) for at, one in quorum.probes.items()}

    def current(node: str, since_ms: int, seen: Quorum) -> bool:
        view = FleetView(store=StatusStore(["prod"]), now_ms=lambda: quorum.now_ms)
        view.store.put_status(job_cluster_status(Facts(seen), thresholds_for({})), at_ms=quorum.now_ms)
        present = view.present("prod")
        assert present is not None
        answer = restart_json(present, node, Millis(since_ms))
        assert answer is not None
        assert answer["current"] or answer["safe"] is not True
        return answer["current"]

    oldest = min(one.observed_at_ms for one in quorum.probes.values())
    assert current("1", oldest, quorum)
    assert not current("1", oldest + 1_000_000, quorum)
    assert not current("1", oldest, replace(quorum, probes=older)), "a controller may have stopped since its probe"
    assert not current("101", oldest, replace(quorum, probes=older))
    assert not current("101", quorum.now_ms + 1, quorum), "a broker may have stopped since its last fetch"
