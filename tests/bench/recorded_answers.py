"""The responses of a real quorum, as `record_answers` recorded them, and the log that they hold.

The recording is JSON lines, compressed with xz: first the facts that the lab reported, then every exchange in order.
"""

import base64
import json
import lzma
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from connectors.errors import ObservationError
from connectors.event import Event
from connectors.kafka.kafka_python import (
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeQuorumResponse,
    FetchResponse,
    FetchSnapshotResponse,
)
from connectors.kafka.messages import FetchResult, FetchSnapshotResult, parse_fetch, parse_fetch_snapshot
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode_records

RECORDING: Final = Path(__file__).parents[1] / "data" / "answers" / "quorum-4.3.jsonl.xz"
FETCH, API_VERSIONS, DESCRIBE_CONFIGS, DESCRIBE_QUORUM, FETCH_SNAPSHOT, DESCRIBE_CLUSTER = 1, 18, 32, 55, 59, 60
VERSIONS: Final = {
    FETCH: 18,
    API_VERSIONS: 4,
    DESCRIBE_CONFIGS: 4,
    DESCRIBE_QUORUM: 2,
    FETCH_SNAPSHOT: 1,
    DESCRIBE_CLUSTER: 2,
}
"""The version of each API in which the requests were sent: those that the gatherer uses with Kafka 4.3."""
_RESPONSES: Final = {
    FETCH: FetchResponse,
    DESCRIBE_CONFIGS: DescribeConfigsResponse,
    DESCRIBE_QUORUM: DescribeQuorumResponse,
    FETCH_SNAPSHOT: FetchSnapshotResponse,
    DESCRIBE_CLUSTER: DescribeClusterResponse,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request to one controller, and the bytes of its response."""

    step: str
    """What the lab did meanwhile."""
    at_ms: int
    node: int
    api: int
    offset: int = -1
    """Of a Fetch: the requested offset."""
    answer: bytes = field(repr=False)
    """The whole response without its length: header and body."""

    @property
    def body(self) -> bytes:
        """The response after its header: the correlation id, and one byte of tags except in ApiVersions (KIP-511)."""
        return self.answer[4 if self.api == API_VERSIONS else 5 :]

    def decode(self) -> Any:
        """Returns kafka-python's decoded response."""
        return _RESPONSES[self.api].decode(self.body, version=VERSIONS[self.api])

    def encode(self, response: Any) -> bytes:
        """Returns the body of a decoded response, as kafka-python encodes it."""
        return bytes(response.encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedState:
    """What the lab reported at the end of a step, by requests of its own."""

    step: str
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[tuple[int, str], ...]
    """Node id and directory id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedByKafka:
    """A record as Kafka's own dump tool prints it."""

    offset: int
    type: str
    data: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class LabFacts:
    """What the lab knows about the quorum."""

    kafka: str
    cluster_id: str
    endpoints: dict[int, tuple[str, int]]
    """Host and port of each controller."""
    brokers: tuple[int, ...]
    log_records: tuple[DumpedByKafka, ...]
    """Of the leader's log at the end, without NoOps."""
    states: tuple[ReportedState, ...]


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A recording. Read only."""

    facts: LabFacts
    exchanges: tuple[Exchange, ...] = field(repr=False)

    def of(self, api: int) -> list[Exchange]:
        """Returns the exchanges of one API, in order."""
        return [one for one in self.exchanges if one.api == api]

    @cached_property
    def fetched(self) -> list[tuple[Exchange, FetchResult]]:
        """The Fetch responses, decoded by the product, without those with an error that does not name the leader."""
        results: list[tuple[Exchange, FetchResult]] = []
        for one in self.of(FETCH):
            with suppress(ObservationError):
                results.append((one, parse_fetch(one.decode())))
        return results

    @cached_property
    def batches(self) -> tuple[bytes, ...]:
        """The batches of all Fetch responses: the log from offset 0. A batch replaces those that were truncated."""
        found: list[tuple[int, bytes]] = []
        for _, result in self.fetched:
            for batch in scan(result.records):
                assert isinstance(batch, RecordBatch)
                while found and found[-1][0] >= batch.base_offset:
                    found.pop()
                found.append((batch.base_offset, result.records[batch.position : batch.end]))
        return tuple(content for _, content in found)

    @property
    def log(self) -> bytes:
        """The log from offset 0."""
        return b"".join(self.batches)

    @cached_property
    def snapshot(self) -> bytes:
        """The pieces of all FetchSnapshot responses: a `.checkpoint`."""
        pieces: list[FetchSnapshotResult] = [parse_fetch_snapshot(one.decode()) for one in self.of(FETCH_SNAPSHOT)]
        content = b""
        for piece in pieces:
            assert piece.position == len(content), "the recorded pieces follow one another"
            content += piece.records
        return content

    def events(self) -> list[Event]:
        """Returns the events of the whole log, decoded by the product."""
        return events_of(self.log)


def events_of(log: bytes) -> list[Event]:
    """Returns the events of consecutive batches, decoded by the product."""
    batches = [one for one in scan(log) if isinstance(one, RecordBatch)]
    table = decode_records(
        log,
        base_offset=batches[0].base_offset,
        last_offset=batches[-1].last_offset,
        leader_epoch=batches[-1].leader_epoch,
        high_watermark=batches[-1].last_offset + 1,
    )
    return list(table.events())


@cache
def recording(path: Path = RECORDING) -> Recording:
    """Reads a recording."""
    facts, *lines = map(json.loads, lzma.decompress(path.read_bytes()).splitlines())
    return Recording(
        facts=LabFacts(
            kafka=facts["kafka"],
            cluster_id=facts["cluster_id"],
            endpoints={int(node): (host, port) for node, (host, port) in facts["endpoints"].items()},
            brokers=tuple(facts["brokers"]),
            log_records=tuple(DumpedByKafka(**one) for one in facts["log_records"]),
            states=tuple(
                ReportedState(**{**one, "voters": tuple((node, directory) for node, directory in one["voters"])})
                for one in facts["states"]
            ),
        ),
        exchanges=tuple(Exchange(**{**one, "answer": base64.b64decode(one["answer"])}) for one in lines),
    )


def write(path: Path, facts: LabFacts, exchanges: Iterable[Exchange]) -> int:
    """Writes a recording and returns its size in bytes."""
    lines = [asdict(facts), *({**asdict(one), "answer": base64.b64encode(one.answer).decode()} for one in exchanges)]
    content = lzma.compress("".join(json.dumps(one) + "\n" for one in lines).encode(), preset=9 | lzma.PRESET_EXTREME)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return len(content)
