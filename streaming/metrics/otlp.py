"""The metrics of /metrics by OTLP: protobuf over HTTP, to an OpenTelemetry collector or another receiver.

Each message has every known value of the registry that /metrics encodes, under the name that it has there, as the
Prometheus receiver of the collector passes them on: a counter is a monotonic sum with `_total` in its name, sums are
cumulative, and a value that has become unknown is sent once as one without a recorded value, so that it ends there too.

Only the messages of OpenTelemetry are used, not its SDK: in version 1.45 its data points cannot end, and its exporter
takes a redirect, a web page and rejected data points for success, waits for a slow answer beyond its timeout, and logs
the URL of a request that fails, which may be secret.
"""

import gzip
import logging
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from connectors.errors import UsageError
from connectors.process.extras import Extra, require
from connectors.process.wall_clock import wall_ms
from connectors.settings.secret import Secret, excerpt
from connectors.settings.sections import readable, url_problem
from connectors.sinks.http_request import HttpResponse, outcome_of_response, post, tls_context, url_secrets
from connectors.sinks.sink import Delivered, Retry
from rules.evaluate import exception_site
from streaming.metrics.periodic import Periodic

if TYPE_CHECKING:
    # The configuration imports this module, and needs none of these.
    from opentelemetry.proto.metrics.v1 import metrics_pb2
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric
    from prometheus_client.samples import Sample

log = logging.getLogger(__name__)

TIMEOUT_S = 10.0
"""How long a message may take: what OpenTelemetry's own exporters use."""
_CUMULATIVE: Any = 2
"""AGGREGATION_TEMPORALITY_CUMULATIVE."""
_NO_RECORDED_VALUE = 1
"""DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK."""
_NS_PER_MS = 1_000_000

Labels: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpTarget:
    """The receiver of the configuration."""

    url: Secret
    """The whole URL, such as http://HOST:4318/v1/metrics."""
    headers: Sequence[tuple[str, Secret]]
    ca_file: Path | None
    """Certificate authorities to trust instead of the public ones."""
    attributes: Mapping[str, str]
    """Attributes of the resource, beside or instead of those that name the job."""
    every_s: float

    def check(self) -> None:
        """Reads all of it once, so that a mistake is reported early.

        Raises:
            UsageError: the extra is not installed, or a file cannot be used.
        """
        require(Extra.OTLP, "otlp")
        self.url.check("otlp.url")
        problem = metrics_url_problem(self.url.read())
        if problem is not None:
            raise UsageError(f"otlp.url{self.url.place}: {problem}")
        for name, value in self.headers:
            value.check(f"otlp.headers.{name}")
        if self.ca_file is not None:
            readable(self.ca_file, "otlp.ca_file")
            try:
                tls_context(self.ca_file)
            except ssl.SSLError:
                raise UsageError(f"otlp.ca_file: {self.ca_file} must hold certificates of authorities in PEM") from None


def metrics_url_problem(text: str) -> str | None:
    """Returns what is wrong with the URL of a receiver, without a part of it, which may be secret; None if valid."""
    problem = url_problem(text)
    if problem is None and urlsplit(text).path in ("", "/"):
        return "write the whole URL: that of a collector is http://HOST:4318/v1/metrics"
    return problem


def send_message(target: OtlpTarget, message: bytes) -> str | None:
    """Sends one message; returns why the receiver has not all of it, without a secret; None if it has."""
    try:
        url = target.url.read()
        secrets = {name: value.read() for name, value in target.headers}
    except UsageError as problem:
        return str(problem)
    invalid = metrics_url_problem(url)
    if invalid is not None:
        return f"invalid url{target.url.place}: {invalid}"
    headers = {**secrets, "Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
    response = post(url, gzip.compress(message), seconds=TIMEOUT_S, headers=headers, ca_file=target.ca_file)
    if isinstance(response, Retry):
        return response.reason
    rejected, text = _answer(response)
    outcome = outcome_of_response(replace(response, body=text.encode()), url, [*secrets.values()])
    if not isinstance(outcome, Delivered):
        return outcome.reason
    if not rejected:
        return None
    return f"the receiver rejected {rejected} data points ({excerpt(text, *secrets.values(), *url_secrets(url))})"


def _answer(response: HttpResponse) -> tuple[int, str]:
    """Returns how many points an answer that accepts a message rejects, and what any answer says."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsPartialSuccess,
        ExportMetricsServiceResponse,
    )

    if "protobuf" not in response.headers.get("Content-Type", ""):
        return 0, response.text
    try:
        if response.accepts:
            partial = ExportMetricsServiceResponse.FromString(response.body).partial_success
            return partial.rejected_data_points, partial.error_message
        # An error is a google.rpc.Status, which has its message in the same field.
        return 0, ExportMetricsPartialSuccess.FromString(response.body).error_message
    except DecodeError:
        return 0, response.text


def _warn(sentence: str) -> None:
    log.warning("%s", sentence)


class OtlpExport(Periodic):
    """Sends the metrics of a registry while entered. A failure is reported, as its end is, and has no other effect."""

    def __init__(
        self,
        exported: "CollectorRegistry",
        target: Callable[[], OtlpTarget | None],
        *,
        service: str,
        report: Callable[[str], None] = _warn,
    ) -> None:
        """`target` is read each second, None: nothing is sent; `service`: the attribute `service.name`."""
        super().__init__("otlp")
        self._exported, self._target, self._report = exported, target, report
        self._messages = OtlpMessages(service, started_ms=wall_ms())
        self._failing = False

    def show(self, exported: "CollectorRegistry", target: Callable[[], OtlpTarget | None]) -> None:
        """Sends the metrics of this registry from now on, in place of the one before, and logs a failure again."""
        self._exported, self._target, self._report = exported, target, _warn
        self._failing = False

    def _every_s(self) -> float | None:
        target = self._target()
        return None if target is None else target.every_s

    def _send(self) -> None:
        target = self._target()
        if target is None:
            return
        try:
            message = self._messages.message(self._exported.collect(), target.attributes, now_ms=wall_ms())
            error = send_message(target, message)
        except Exception as problem:  # noqa: BLE001 - the next message must be sent
            error = exception_site(problem)
        if error is None:
            self._messages.note_accepted()
        if self._stopping.is_set():
            return
        if error is not None and not self._failing:
            self._report(f"the metrics could not be sent by OTLP; retrying every {target.every_s:g} s: {error}")
        if error is None and self._failing:
            self._report("the metrics are sent by OTLP again")
        self._failing = error is not None


class OtlpMessages:
    """Makes the messages of one process, each from what is known at its time and from those before."""

    def __init__(self, service: str, *, started_ms: int) -> None:
        """`started_ms`: when the counters began, by the wall clock."""
        self._resource = {
            "service.name": service,
            "service.instance.id": gethostname(),
            "service.version": version("kraftwatch"),
        }
        self._started_ns = self._newest_ns = started_ms * _NS_PER_MS
        self._counters: dict[tuple[str, Labels], tuple[int, float]] = {}
        """Of each series that only grows: when it began, in nanoseconds, and its newest value."""
        self._newest: dict[str, Set[Labels]] = {}
        """The series of the newest message, by the name of the metric."""
        self._shown: dict[str, Set[Labels]] = {}
        """Those that the receiver may show as current."""

    def message(self, families: Iterable["Metric"], attributes: Mapping[str, str], *, now_ms: int) -> bytes:
        """Returns an ExportMetricsServiceRequest with these metrics; `attributes`: further ones of the resource."""
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

        now_ns = now_ms * _NS_PER_MS
        request = ExportMetricsServiceRequest()
        resource = request.resource_metrics.add()
        _set_attributes(resource.resource, {**self._resource, **attributes}.items())
        scope = resource.scope_metrics.add()
        scope.scope.name = "kraftwatch"
        for family in families:
            metric = self._metric(family, now_ns)
            if metric is not None:
                scope.metrics.append(metric)
        self._newest_ns = now_ns
        for name, series in self._newest.items():
            self._shown[name] = series | self._shown.get(name, frozenset())
        encoded: bytes = request.SerializeToString()
        return encoded

    def note_accepted(self) -> None:
        """Notes that the receiver has the newest message: what is not in it has ended there."""
        self._shown = {**self._newest}

    def _metric(self, family: "Metric", now_ns: int) -> "metrics_pb2.Metric | None":
        """Returns a metric with all of its points; None if it has none."""
        from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as OtlpMetric

        series: dict[Labels, list[Sample]] = {}
        for sample in family.samples:
            series.setdefault(_labels(sample), []).append(sample)
        name = f"{family.name}_total" if family.type == "counter" else family.name
        ended = self._shown.get(name, frozenset()) - series.keys()
        self._newest[name] = frozenset(series)
        if not series and not ended:
            return None
        metric = OtlpMetric(name=name, description=family.documentation)
        data = _data(metric, family.type)
        for labels, samples in series.items():
            point = data.data_points.add(time_unix_nano=now_ns)
            _set_attributes(point, labels)
            value = _set_histogram(point, samples) if family.type == "histogram" else _set_number(point, samples)
            if family.type != "gauge":
                point.start_time_unix_nano = self._began_ns((name, labels), value, now_ns)
        for labels in ended:
            _set_attributes(data.data_points.add(time_unix_nano=now_ns, flags=_NO_RECORDED_VALUE), labels)
        return metric

    def _began_ns(self, series: tuple[str, Labels], value: float, now_ns: int) -> int:
        """Returns when a series that only grows began: a lower value is one of a process that was started again."""
        began_ns, before = self._counters.get(series, (self._started_ns, 0.0))
        if value < before:
            began_ns = min(self._newest_ns, now_ns)
        self._counters[series] = (began_ns, value)
        return began_ns


def _labels(sample: "Sample") -> Labels:
    """Returns the labels of a series; Prometheus has none that is empty."""
    return tuple(sorted((name, text) for name, text in sample.labels.items() if text and name != "le"))


def _set_attributes(owner: Any, attributes: Iterable[tuple[str, str]]) -> None:
    for name, text in attributes:
        owner.attributes.add(key=name).value.string_value = text


def _data(metric: "metrics_pb2.Metric", kind: str) -> Any:
    """Returns the part of a metric that holds its points."""
    match kind:
        case "counter":
            metric.sum.aggregation_temporality = _CUMULATIVE
            metric.sum.is_monotonic = True
            return metric.sum
        case "histogram":
            metric.histogram.aggregation_temporality = _CUMULATIVE
            return metric.histogram
        case _:
            return metric.gauge


def _set_number(point: Any, samples: Sequence["Sample"]) -> float:
    point.as_double = samples[0].value
    return samples[0].value


def _set_histogram(point: Any, samples: Sequence["Sample"]) -> float:
    """Sets buckets, sum and count, of which Prometheus' buckets are cumulative; returns the count."""
    buckets = [(float(sample.labels["le"]), int(sample.value)) for sample in samples if sample.name.endswith("_bucket")]
    counts = [count for _, count in buckets]
    # The last one has no bound.
    point.explicit_bounds.extend(bound for bound, _ in buckets[:-1])
    point.bucket_counts.extend(after - before for before, after in pairwise([0, *counts]))
    point.sum = next(sample.value for sample in samples if sample.name.endswith("_sum"))
    point.count = counts[-1]
    return counts[-1]
