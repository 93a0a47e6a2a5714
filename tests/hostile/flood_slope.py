"""Floods: what one controller repeats n, 2n and 4n times takes a time in proportion, in redaction and processor."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from pyspark.sql.streaming.state import GroupState

from connectors.gather.observation_writer import redacted_batches
from connectors.observations.observation import Observation, ObservationEvent, ObservationKind, to_json
from rules.model.identifiers import Endpoint, Millis, NodeId
from rules.model.monitoring import ObservationSource, Reason
from rules.model.replica import Poll
from streaming.pipeline.cluster_processor import ClusterProcessor
from streaming.pipeline.schema import group_of, pack
from tests.hostile.record_floods import RECORD_FLOODS, flood
from tests.hostile.section import SectionResult
from tests.scripts.log_script import failed, poll, probed, replica, view
from tests.unit.connectors.metadata.metadata_bytes import batch
from tests.unit.streaming.pipeline.quiet_cluster import START_MS, OneState, settings_of

RECORDS: Final = 1_000
"""n, unless so many records are larger than `FIRST_BYTES`."""
FIRST_BYTES: Final = 256 * 1024
OBSERVATIONS: Final = 400
GROWTH: Final = 7.0
"""The most that 4n may take of the time of n: 4 where each costs the same, 16 where each costs one of the others."""
LEAST_S: Final = 0.1
"""A shorter time is not compared: it is mostly that of an empty batch."""
CLUSTER: Final = "flooded"


def _elsewhere(number: int) -> Endpoint:
    return Endpoint(listener="CONTROLLER", host=f"c{number}.test", port=9093, protocol="PLAINTEXT")


def _voters(number: int) -> Poll:
    """Returns a poll with voters that no other poll has."""
    return poll(*(replica(f"{number % 50 * 10 + at}-{number % 26:x}{at}") for at in range(9)), epoch=1, hw=90)


OBSERVATION_FLOODS: Final[Mapping[str, tuple[ObservationKind, Callable[[int], ObservationEvent]]]] = {
    "polls of one quorum": (ObservationKind.QUORUM, lambda at: poll(*map(replica, ("1-a", "2-b")), hw=90 + at)),
    "polls with other voters": (ObservationKind.QUORUM, _voters),
    "polls of other epochs": (ObservationKind.QUORUM, lambda at: poll(replica("1-a"), epoch=1 + at, hw=90)),
    "probes of other endpoints": (ObservationKind.PROBE, lambda at: probed(1, "10.0.0.1", where=_elsewhere(at))),
    "probes of other nodes": (ObservationKind.PROBE, lambda at: probed(at, "10.0.0.1", where=_elsewhere(at))),
    "views of other nodes": (
        ObservationKind.VIEW,
        lambda at: replace(view(1, epoch=at), endpoint=f"c{at}.test:9093", node=NodeId(at)),
    ),
    "failures at other places": (
        ObservationKind.FAILED,
        lambda at: failed(Reason.REFUSED, f"c{at}.test:9093", ObservationSource.QUORUM),
    ),
}


def measured() -> SectionResult:
    """Measures every flood."""
    result = SectionResult(name="floods")
    worst = (0.0, "")
    floods = {name: (_count(name), partial(_record_rows, name)) for name in RECORD_FLOODS}
    floods |= {name: (OBSERVATIONS, partial(_rows, name)) for name in OBSERVATION_FLOODS}
    for name, (count, rows) in floods.items():
        result.tried += 1
        slope, seconds = growth(rows, count)
        if seconds[-1] >= LEAST_S:
            worst = max(worst, (slope, name))
            # Another program may have had the caches during one of the measurements.
            if slope > GROWTH and growth(rows, count)[0] > GROWTH:
                taken = ", ".join(f"{each:.2f}" for each in seconds)
                result.problems.append(f"{name}: {count:,}, {2 * count:,} and {4 * count:,} take {taken} s of CPU")
    result.figure = f"four times as much takes at most {worst[0]:.1f} times the CPU time ({worst[1]})"
    return result


def growth(rows: Callable[[int], Sequence[Observation]], count: int) -> tuple[float, Sequence[float]]:
    """Returns how many times longer four times the rows take, and the seconds that n, 2n and 4n of them take."""
    seconds = [_seconds(rows, many) for many in (count, 2 * count, 4 * count)]
    return seconds[-1] / max(seconds[0], LEAST_S / 4), seconds


def _count(name: str) -> int:
    size = max(len(value) if isinstance(value, bytes) else sum(map(len, value)) for value in flood(name, 0, 3))
    return max(2, min(RECORDS, FIRST_BYTES // size))


def _seconds(rows: Callable[[int], Sequence[Observation]], count: int) -> float:
    ClusterProcessor._cache.clear()
    began = time.thread_time()
    made = rows(count)
    processor, state = ClusterProcessor({CLUSTER: settings_of(CLUSTER)}), OneState()
    for _ in processor((group_of(CLUSTER),), iter([pack(made).to_pandas()]), cast(GroupState, state)):
        pass
    return time.thread_time() - began


def _record_rows(name: str, count: int) -> Sequence[Observation]:
    values = flood(name, 0, count)
    base = 0
    rows: list[Observation] = []
    for piece in redacted_batches(batch(values)).pieces:
        assert piece.last_offset is not None
        at: dict[str, Any] = {"base_offset": base, "last_offset": piece.last_offset, "leader_epoch": 1}
        rows.append(_row(len(rows), ObservationKind.RECORDS, piece.content, high_watermark=len(values), **at))
        base = piece.last_offset + 1
    return rows


def _rows(name: str, count: int) -> Sequence[Observation]:
    kind, event = OBSERVATION_FLOODS[name]
    return [_row(at, kind, to_json(event(at))) for at in range(count)]


def _row(number: int, kind: ObservationKind, payload: bytes, **at: Any) -> Observation:
    observed_at_ms = Millis(START_MS + number)
    return Observation(
        cluster=CLUSTER, kind=kind, observed_at_ms=observed_at_ms, payload=payload, sequence=number, **at
    )
