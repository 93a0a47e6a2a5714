"""The metrics by OTLP, sent to a real HTTP server and decoded with OpenTelemetry's own messages."""

import logging
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality
from prometheus_client import CollectorRegistry, Gauge

from connectors.errors import UsageError
from connectors.settings.secret import Secret
from connectors.sinks.http_request import PAGE
from streaming.config import checked
from streaming.metrics import otlp
from streaming.metrics.job_metrics import job_registry
from streaming.metrics.otlp import OtlpExport, OtlpMessages, OtlpTarget, send_message
from tests.eventually import eventually
from tests.present import present
from tests.sinks.server import HttpDouble, HttpReply, NoReply, serving
from tests.situation.commands import situation
from tests.situation.situation import NOW
from tests.unit.connectors.kafka.certificates import authority
from tests.unit.streaming.metrics.exposition import MetricsFixture
from tests.unit.streaming.metrics.otlp_metrics import (
    as_samples,
    attributes,
    ended,
    metrics,
    parsed,
    points,
    received,
    without_empty_labels,
)

SECRET = "4f1c2a90-do-not-print-me"
PROTOBUF = {"Content-Type": "application/x-protobuf"}


@pytest.fixture
def receiver() -> Iterator[HttpDouble]:
    with serving() as receiver:
        yield receiver


@pytest.fixture
def running(tmp_path: Path) -> MetricsFixture:
    return MetricsFixture(tmp_path).batch(situation(), took_s=0.2).batch(situation(), took_s=7)


def target(receiver: HttpDouble, **keys: Any) -> OtlpTarget:
    url = Secret(text=f"{receiver.url}/v1/metrics?key={SECRET}")
    given = {"url": url, "headers": (), "ca_file": None, "attributes": {}, "every_s": 0.02}
    return OtlpTarget(**{**given, **keys})


def test_a_message_has_every_sample_of_the_page(running: MetricsFixture) -> None:
    messages = OtlpMessages("kraftwatch", started_ms=NOW)
    message = messages.message(job_registry(running.sources).collect(), {}, now_ms=NOW)

    page = without_empty_labels(running.samples())
    assert as_samples(metrics(parsed(message))) == page
    assert len(page) > 80


def test_each_metric_has_its_kind_its_help_and_its_times(running: MetricsFixture) -> None:
    started_ms = NOW - 60_000
    messages = OtlpMessages("kraftwatch", started_ms=started_ms)
    found = metrics(parsed(messages.message(job_registry(running.sources).collect(), {}, now_ms=NOW)))

    kinds = {name: metric.WhichOneof("data") for name, metric in found.items()}
    assert kinds["kraftwatch_watchdog"] == "gauge"
    assert kinds["kraftwatch_batches_total"] == "sum"
    assert kinds["kraftwatch_batch_duration_seconds"] == "histogram"
    assert found["kraftwatch_batches_total"].description == "Micro-batches that were delivered."
    for name, kind in kinds.items():
        assert (kind == "sum") is name.endswith("_total")
        data = getattr(found[name], present(kind))
        if kind == "sum":
            assert data.is_monotonic
        for point in data.data_points:
            assert point.time_unix_nano == NOW * 1_000_000
            if kind != "gauge":
                assert data.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
                assert point.start_time_unix_nano == started_ms * 1_000_000


def test_a_counter_that_is_lower_than_before_has_begun_again(running: MetricsFixture) -> None:
    """As those of a gatherer that was restarted."""
    messages = OtlpMessages("kraftwatch", started_ms=NOW)

    def began(batches: int, now_ms: int) -> int:
        running.batch_stats.batches = batches
        found = metrics(parsed(messages.message(job_registry(running.sources).collect(), {}, now_ms=now_ms)))
        (point,) = points(found["kraftwatch_batches_total"])
        return int(point.start_time_unix_nano) // 1_000_000 - NOW

    assert [began(9, NOW + 60_000), began(3, NOW + 120_000), began(4, NOW + 180_000)] == [0, 60_000, 60_000]


def test_a_value_that_is_unknown_now_ends_once_at_the_receiver(running: MetricsFixture) -> None:
    messages = OtlpMessages("kraftwatch", started_ms=NOW)

    def gone() -> set[str]:
        return ended(
            metrics(parsed(messages.message(job_registry(running.sources).collect(), {}, now_ms=running.now_ms)))
        )

    assert gone() == set()
    messages.note_accepted()
    running.now_ms += 61_000
    without_value = gone()
    assert {"kraftwatch_current_leader", "kraftwatch_high_watermark"} <= without_value
    assert "kraftwatch_staleness_seconds" not in without_value
    assert gone() == without_value, "the receiver has not accepted it yet"
    messages.note_accepted()
    assert gone() == set()


def test_the_resource_names_the_service_and_the_instance(running: MetricsFixture, receiver: HttpDouble) -> None:
    given = target(receiver, attributes={"service.instance.id": "kraftwatch-0", "deployment.environment.name": "prod"})
    with OtlpExport(job_registry(running.sources), lambda: given, service="kraftwatch"):
        eventually(lambda: receiver.requests != [], within_s=20)

    (resource,) = received(receiver)[0].resource_metrics
    named = attributes(resource.resource)
    assert re.match(r"\d+\.\d+\.\d+", named.pop("service.version"))
    assert named == {
        "service.name": "kraftwatch",
        "service.instance.id": "kraftwatch-0",
        "deployment.environment.name": "prod",
    }


def test_headers_are_read_from_their_files_for_each_message(receiver: HttpDouble, tmp_path: Path) -> None:
    token = tmp_path / "token"
    headers = [("Authorization", Secret(file=token)), ("X-Scope-OrgID", Secret(text="kafka"))]
    for text in ("Bearer one", "Bearer two"):
        token.write_text(text)
        assert send_message(target(receiver, headers=headers), b"") is None

    assert [one.headers["Authorization"] for one in receiver.requests] == ["Bearer one", "Bearer two"]
    assert {one.headers["X-Scope-OrgID"] for one in receiver.requests} == {"kafka"}
    assert {one.headers["Content-Type"] for one in receiver.requests} == {"application/x-protobuf"}
    token.unlink()
    assert "no such file" in present(send_message(target(receiver, headers=headers), b""))


def test_nothing_is_sent_without_a_receiver_and_a_reload_may_add_one(
    running: MetricsFixture, receiver: HttpDouble
) -> None:
    now: list[OtlpTarget | None] = [None]
    empty = CollectorRegistry()
    Gauge("kraftwatch_start", "While the job starts.", registry=empty)
    with OtlpExport(empty, lambda: now[0], service="kraftwatch") as export:
        now[0] = target(receiver)
        eventually(lambda: receiver.requests != [], within_s=20)
        export.show(job_registry(running.sources), lambda: now[0])
        eventually(lambda: "kraftwatch_watchdog" in metrics(received(receiver)[-1]), within_s=20)
    assert {*metrics(received(receiver)[0])} == {"kraftwatch_start"}


def test_a_receiver_that_fails_is_logged_once_and_once_when_it_is_back_without_a_secret(
    running: MetricsFixture, receiver: HttpDouble, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.behave = lambda request: HttpReply(
        status=401, body=f"no {request.headers['X-Key']} at {request.path}".encode()
    )
    given = target(receiver, headers=[("X-Key", Secret(text=SECRET))])
    with (
        caplog.at_level(logging.INFO),
        OtlpExport(job_registry(running.sources), lambda: given, service="kraftwatch"),
    ):
        eventually(lambda: len(receiver.requests) > 2, within_s=20)
        receiver.behave = lambda _: HttpReply(headers=PROTOBUF)
        eventually(lambda: len(of_export(caplog)) > 1, within_s=20)
        several = len(receiver.requests) + 2
        eventually(lambda: len(receiver.requests) > several, within_s=20)

    assert of_export(caplog) == [
        "the metrics could not be sent by OTLP; retrying every 0.02 s: HTTP 401: the credentials are not accepted "
        "(no *** at /v1/metrics?key=***)",
        "the metrics are sent by OTLP again",
    ]
    assert SECRET not in caplog.text


def of_export(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == otlp.__name__]


def test_an_error_that_nobody_expects_ends_no_export(receiver: HttpDouble, caplog: pytest.LogCaptureFixture) -> None:
    registry = CollectorRegistry()
    value = Gauge("kraftwatch_value", "A value.", registry=registry)
    value.set_function(lambda: 1 / 0)
    with OtlpExport(registry, lambda: target(receiver), service="kraftwatch"):
        eventually(lambda: len(of_export(caplog)) > 0, within_s=20)
        value.set_function(lambda: 1)
        eventually(lambda: receiver.requests != [], within_s=20)
    assert "ZeroDivisionError" in of_export(caplog)[0]


REJECTED = ExportMetricsServiceResponse()
REJECTED.partial_success.rejected_data_points = 300
REJECTED.partial_success.error_message = f"too old, {SECRET}"
WARNED = ExportMetricsServiceResponse()
WARNED.partial_success.error_message = "a warning"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (HttpReply(headers=PROTOBUF), None),
        (HttpReply(body=b"{}"), None),
        (HttpReply(status=202, body=b"OK", headers={"Content-Type": "text/plain"}), None),
        (HttpReply(headers=PROTOBUF, body=WARNED.SerializeToString()), None),
        (
            HttpReply(headers=PROTOBUF, body=REJECTED.SerializeToString()),
            "the receiver rejected 300 data points (too old, ***)",
        ),
        # A google.rpc.Status with code and message.
        (HttpReply(status=503, headers=PROTOBUF, body=b"\x08\x0e\x12\x04busy"), "HTTP 503 (busy)"),
        (HttpReply(status=503, headers=PROTOBUF, body=b"\xffbusy"), "HTTP 503 (\N{REPLACEMENT CHARACTER}busy)"),
        (HttpReply(status=404), "HTTP 404: the URL does not exist"),
        (HttpReply(body=b"<html>Log in", headers={"Content-Type": "text/html"}), PAGE),
        (HttpReply(status=307, headers={"Location": "/elsewhere"}), "redirects are not followed"),
    ],
)
def test_an_answer_says_whether_the_receiver_has_the_metrics(
    receiver: HttpDouble, reply: HttpReply, reason: str | None
) -> None:
    receiver.behave = lambda _: reply
    given = target(receiver, headers=[("X-Key", Secret(text=SECRET))])

    found = send_message(given, b"")

    assert found is None if reason is None else reason in present(found)
    assert len(receiver.requests) == 1


def test_the_certificate_of_a_receiver_is_verified(tmp_path: Path) -> None:
    trusted = authority(tmp_path / "ca")
    with serving(trusted.server(trusted.issue("receiver"))) as receiver:
        assert send_message(target(receiver, ca_file=Path(trusted.file)), b"") is None
        assert "the server's certificate is not trusted" in present(send_message(target(receiver), b""))


def test_a_receiver_that_does_not_answer_is_waited_for_until_the_deadline(
    receiver: HttpDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "TIMEOUT_S", 0.2)
    receiver.behave = lambda _: NoReply()
    assert send_message(target(receiver), b"") == "no response in time"


def configured(**keys: object) -> OtlpTarget:
    clusters = [{"name": "prod", "bootstrap": ["c1:9093"]}]
    return present(checked({"clusters": clusters, "otlp": keys}, "test").otlp_target())


def test_configuration_names_the_receiver(tmp_path: Path) -> None:
    file = tmp_path / "url"
    found = configured(url={"file": file}, headers={"Authorization": {"file": tmp_path / "token"}}, every="15s")
    assert found == OtlpTarget(
        url=Secret(file=file),
        headers=(("Authorization", Secret(file=tmp_path / "token")),),
        ca_file=None,
        attributes={},
        every_s=15,
    )
    assert configured(url="https://otlp.example/v1/metrics").every_s == 60


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("url", "otlp.url: cannot read {folder}/url: no such file or directory"),
        ("token", "otlp.headers.Authorization: cannot read {folder}/token: no such file or directory"),
        ("ca", "otlp.ca_file: cannot read {folder}/ca: no such file or directory"),
    ],
)
def test_a_file_that_cannot_be_read_is_reported_at_the_start(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "url").write_text("http://c.example/v1/metrics")
    (tmp_path / "token").write_text("Bearer x")
    shutil.copy(authority(tmp_path / "authority").file, tmp_path / "ca")
    given = configured(
        url={"file": tmp_path / "url"},
        headers={"Authorization": {"file": tmp_path / "token"}},
        ca_file=str(tmp_path / "ca"),
    )
    given.check()
    (tmp_path / name).unlink()
    with pytest.raises(UsageError) as refused:
        given.check()
    assert str(refused.value) == sentence.format(folder=tmp_path)


def test_a_file_without_a_certificate_is_reported_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "ca"
    file.write_text("no certificate")
    with pytest.raises(UsageError) as refused:
        configured(url="https://c.example/v1/metrics", ca_file=str(file)).check()
    assert str(refused.value) == f"otlp.ca_file: {file} must hold certificates of authorities in PEM"


def test_a_url_in_a_file_is_checked_as_one_in_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("http://collector.example:4318")
    with pytest.raises(UsageError) as refused:
        configured(url={"file": file}).check()
    assert str(refused.value) == (
        f"otlp.url in {file}: write the whole URL: that of a collector is http://HOST:4318/v1/metrics"
    )
