"""A metric's name and HELP text, and how its values are read."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeAlias, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

PREFIX = "kraftwatch_"
CLUSTER = "cluster"

Values: TypeAlias = Mapping[tuple[str, ...], float | int | bool | None] | float | int | bool | None
"""By the values of the metric's own labels, in their order; a bare number where it has none. None: unknown."""
SampleT = TypeVar("SampleT")


class MetricKind(Enum):
    """The metric's Prometheus type."""

    GAUGE = "gauge"
    COUNTER = "counter"
    """It only grows, and starts at 0 with the process that counts. Its name ends in `_total`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec(Generic[SampleT]):
    """One metric. An unknown value is left out; it is never 0."""

    name: str
    """Without the prefix; units are seconds and bytes."""
    help: str
    """The HELP text, on one line."""
    read: Callable[[SampleT], Values]
    labels: tuple[str, ...] = ()
    """Its own labels, without `cluster`."""
    kind: MetricKind = MetricKind.GAUGE
    named_by: str = ""
    """KIP and its name of the metric; empty where no KIP names it."""

    @property
    def full_name(self) -> str:
        """The name in Prometheus."""
        return PREFIX + self.name


def family(
    spec: MetricSpec[SampleT], samples: Iterable[tuple[Sequence[str], SampleT]], labels: Sequence[str]
) -> Metric:
    """Returns the metric with every known value.

    Args:
        samples: what to read it from, each with the values of `labels`.
        labels: the labels before the metric's own: `cluster`, or none.
    """
    made: GaugeMetricFamily | CounterMetricFamily
    names = [*labels, *spec.labels]
    match spec.kind:
        case MetricKind.GAUGE:
            made = GaugeMetricFamily(spec.full_name, spec.help, labels=names)
        case MetricKind.COUNTER:
            made = CounterMetricFamily(spec.full_name, spec.help, labels=names)
    for leading, sample in samples:
        values = spec.read(sample)
        for own, value in (values if isinstance(values, Mapping) else {(): values}).items():
            if value is not None:
                made.add_metric([*leading, *own], float(value))
    return made
