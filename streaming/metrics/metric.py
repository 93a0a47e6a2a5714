"""A measure: one metric's name, words and origin, and how its values are read."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeAlias, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

PREFIX = "kraftwatch_"
CLUSTER = "cluster"

Values: TypeAlias = Mapping[tuple[str, ...], float | int | bool | None] | float | int | bool | None
"""By the values of the further labels, in their order; a bare number where there are none. None: not known."""
ShownT = TypeVar("ShownT")


class Origin(Enum):
    """How we come by a value."""

    SEEN = "seen"
    """It is in an answer or a record, as it is."""
    DERIVED = "derived"
    """We work it out of what is seen; the words say how."""
    HIDDEN = "not visible from outside"
    """It never leaves the node: only its own JMX tells it."""
    OWN = "kraftwatch's own"
    """It is about kraftwatch itself."""


class Kind(Enum):
    """What Prometheus takes it for."""

    GAUGE = "gauge"
    COUNTER = "counter"
    """It only grows, and begins again at 0 with the process that counts. Its name ends in `_total`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure(Generic[ShownT]):
    """One metric. What is not known is left out: it is never 0."""

    name: str
    """Without the prefix; units are seconds and bytes."""
    words: str
    """What it is, in one line: the HELP."""
    read: Callable[[ShownT], Values]
    labels: tuple[str, ...] = ()
    """Beside the cluster's."""
    origin: Origin = Origin.OWN
    kind: Kind = Kind.GAUGE
    of: str = ""
    """Who named it: KIP and metric; empty where it is our own."""

    @property
    def full_name(self) -> str:
        """As Prometheus shows it."""
        return PREFIX + self.name


def family(measure: Measure[ShownT], shown: Iterable[tuple[Sequence[str], ShownT]], labels: Sequence[str]) -> Metric:
    """The metric with every value that is known.

    Args:
        measure: which one.
        shown: what to read it from, each with the values of `labels`.
        labels: what stands before the measure's own labels: `cluster`, or nothing.
    """
    made: GaugeMetricFamily | CounterMetricFamily
    names = [*labels, *measure.labels]
    match measure.kind:
        case Kind.GAUGE:
            made = GaugeMetricFamily(measure.full_name, measure.words, labels=names)
        case Kind.COUNTER:
            made = CounterMetricFamily(measure.full_name, measure.words, labels=names)
    for first, one in shown:
        values = measure.read(one)
        for further, value in (values if isinstance(values, Mapping) else {(): values}).items():
            if value is not None:
                made.add_metric([*first, *further], float(value))
    return made
