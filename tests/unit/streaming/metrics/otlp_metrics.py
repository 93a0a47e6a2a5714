"""Messages of OTLP that a server received, and the samples that Prometheus makes of them."""

import gzip
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import DataPointFlags, Metric

from tests.present import present
from tests.sinks.server import HttpDouble
from tests.unit.streaming.metrics.exposition import Samples, samples


def received(receiver: HttpDouble) -> list[ExportMetricsServiceRequest]:
    """Returns the messages that a server received."""
    return [parsed(gzip.decompress(one.body)) for one in receiver.requests]


def parsed(message: bytes) -> ExportMetricsServiceRequest:
    request: ExportMetricsServiceRequest = ExportMetricsServiceRequest.FromString(message)
    return request


def metrics(message: ExportMetricsServiceRequest) -> dict[str, Metric]:
    """Returns the metrics of a message by name."""
    (resource,) = message.resource_metrics
    (scope,) = resource.scope_metrics
    found = {one.name: one for one in scope.metrics}
    assert len(found) == len(scope.metrics)
    return found


def points(metric: Metric) -> list[Any]:
    return list(getattr(metric, present(metric.WhichOneof("data"))).data_points)


def attributes(owner: Any) -> dict[str, str]:
    return {one.key: one.value.string_value for one in owner.attributes}


def has_ended(point: Any) -> bool:
    """Whether a point says that its series has no value any more."""
    return bool(point.flags & DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK)


def ended(found: dict[str, Metric]) -> set[str]:
    """Returns the names of the metrics with a series that has ended."""
    return {name for name, metric in found.items() if any(map(has_ended, points(metric)))}


def as_samples(found: dict[str, Metric]) -> Samples:
    """Returns the samples that Prometheus makes of metrics."""
    lines = []
    for name, metric in found.items():
        for point in points(metric):
            if has_ended(point):
                continue
            labels = [f'{key}="{text}"' for key, text in attributes(point).items()]
            if metric.WhichOneof("data") != "histogram":
                lines.append(f"{name}{{{','.join(labels)}}} {point.as_double}")
                continue
            bounds, below = [*map(str, point.explicit_bounds), "+Inf"], 0
            for bound, count in zip(bounds, point.bucket_counts, strict=True):
                below += count
                given = ",".join([*labels, f'le="{bound}"'])
                lines.append(f"{name}_bucket{{{given}}} {below}")
            lines += [f"{name}_count {point.count}", f"{name}_sum {point.sum}"]
    return samples("\n".join([*lines, ""]))


def without_empty_labels(page: Samples) -> Samples:
    """Returns the samples of a page as Prometheus stores them."""
    return {(name, tuple(label for label in labels if label[1])): value for (name, labels), value in page.items()}
