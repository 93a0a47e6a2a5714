"""The follower against controllers that answer by script: whom it asks, what it hands on, what it says."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from connectors.errors import UnseenError
from connectors.event import EndpointProbed, LeaderViewPolled, ObservationFailed, QuorumPolled
from connectors.gather.commit_buffer import Release, Resume
from connectors.gather.log_follower import Follower
from connectors.gather.node_directory import Whereabouts
from connectors.kafka.client import Address
from connectors.kafka.event_loop import Loop
from connectors.kafka.kafka_python import FetchRequest, FetchResponse, FetchSnapshotRequest, FetchSnapshotResponse
from connectors.kafka.messages import SnapshotId
from rules.model.monitoring import ObservationSource, Reason
from tests.unit.connectors.gather.log_bytes import batch

C1, C2, C3 = Address("c1", 9093), Address("c2", 9093), Address("c3", 9093)
PARTITION = FetchResponse.FetchableTopicResponse.PartitionData


@pytest.fixture
def loop(leaping_loop: Loop) -> Loop:
    """Nothing here is a socket: time passes where all wait, and only there."""
    return leaping_loop


@dataclass
class Controllers:
    """Stands for the Client: each address has a script, asked with the request."""

    loop: Loop
    scripts: dict[Address, Callable[[Any], Any]]
    asked: list[Address] = field(default_factory=list)
    timeout_ms: int = 100

    async def ask(
        self, address: Address, request: Any, *, lane: ObservationSource, timeout_ms: int | None = None
    ) -> Any:
        assert lane is ObservationSource.LOG
        self.asked.append(address)
        assert request.replica_id == -1
        request.API_VERSION = 18 if isinstance(request, FetchRequest) else 1
        await self.loop.sleep(0.002)
        return self.scripts[address](request)


class Seen:
    """An Output that keeps what comes."""

    def __init__(self) -> None:
        self.log = b""
        self.pieces: list[tuple[SnapshotId, int, bytes]] = []
        self.failures: list[ObservationFailed] = []

    def release(self, release: Release) -> None:
        self.log += release.batches

    def piece(self, snapshot: SnapshotId, number: int, batches: bytes) -> None:
        self.pieces.append((snapshot, number, batches))

    def polled(self, event: QuorumPolled) -> None:
        raise AssertionError(event)

    def probed(self, event: EndpointProbed) -> None:
        raise AssertionError(event)

    def viewed(self, event: LeaderViewPolled) -> None:
        raise AssertionError(event)

    def unseen(self, event: ObservationFailed) -> None:
        self.failures.append(event)

    def said(self, address: Address) -> set[Reason]:
        return {event.reason for event in self.failures if event.endpoint == str(address)}


def answer(*, error: int = 0, leader: int = -1, epoch: int = 3, at: Address | None = None, **more: Any) -> Any:
    settings = {"high_watermark": -1, "records": b"", **more}
    partition = PARTITION(
        partition_index=0,
        error_code=error,
        current_leader=PARTITION.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
        aborted_transactions=None,
        **settings,
    )
    topic = FetchResponse.FetchableTopicResponse(topic_id=UUID(int=1), partitions=[partition])
    nodes = [] if at is None else [FetchResponse.NodeEndpoint(node_id=leader, host=at.host, port=at.port)]
    return FetchResponse(throttle_time_ms=0, error_code=0, responses=[topic], node_endpoints=nodes)


def leading(log: bytes, *, end: int, leader: int = 2, epoch: int = 3) -> Callable[[Any], Any]:
    """A leader whose whole log is committed."""

    def script(request: Any) -> Any:
        partition = request.topics[0].partitions[0]
        if partition.current_leader_epoch != epoch:
            return answer(error=74, leader=leader, epoch=epoch)
        records = log if partition.fetch_offset == 0 else b""
        return answer(leader=leader, epoch=epoch, high_watermark=end, records=records)

    return script


def pointing(leader: int, at: Address | None, *, epoch: int = 3) -> Callable[[Any], Any]:
    return lambda _: answer(error=6, leader=leader, epoch=epoch, at=at)


def refusing(_: Any) -> Any:
    raise UnseenError(Reason.REFUSED, "it refuses")


def follow(
    loop: Loop,
    controllers: Controllers,
    until: Callable[[Seen], bool],
    *,
    configured: tuple[Address, ...],
    start: Resume = Resume(offset=0, epoch=0),  # noqa: B008 - frozen
) -> Seen:
    seen = Seen()
    where = Whereabouts(configured=configured, cluster_id="x")
    follower = Follower(loop, controllers, where, seen, start=start)  # type: ignore[arg-type]

    async def main() -> None:
        running = loop.spawn(follower.run())
        deadline = loop.now() + 8
        while not until(seen) and loop.now() < deadline:
            assert not running.done, running.future.exception
            await loop.sleep(0.005)

    loop.run(main)
    return seen


LOG = batch(0, 3, epoch=1) + batch(3, 1, epoch=3)


@pytest.mark.kip("D053", "D066")
def test_any_controller_leads_to_the_leader(loop: Loop) -> None:
    controllers = Controllers(loop, {C1: pointing(2, C2), C2: leading(LOG, end=4)})
    seen = follow(loop, controllers, lambda seen: seen.log == LOG, configured=(C1,))
    assert seen.log == LOG
    assert seen.failures == []


def test_without_addresses_in_the_answers_everyone_is_asked_and_nobody_accused(loop: Loop) -> None:
    scripts = {C1: pointing(2, None), C2: leading(LOG, end=4), C3: pointing(2, None)}
    seen = follow(loop, Controllers(loop, scripts), lambda seen: seen.log == LOG, configured=(C1, C2, C3))
    assert seen.log == LOG
    assert seen.failures == [], "a leader that finds our epoch old is asked again with the right one"


def test_a_leader_that_is_gone_but_still_named_is_no_leader(loop: Loop) -> None:
    scripts = {C1: pointing(2, C2), C2: refusing, C3: pointing(-1, None)}
    controllers = Controllers(loop, scripts)
    seen = follow(loop, controllers, lambda seen: bool(seen.said(C3)), configured=(C1, C3))
    assert seen.said(C1) == {Reason.NO_LEADER}
    assert seen.said(C3) == {Reason.NO_LEADER}
    assert seen.said(C2) == {Reason.REFUSED}
    assert "names node 2" in next(event.detail for event in seen.failures if event.endpoint == str(C1))
    assert len(controllers.asked) < 15, "it does not run after the hint in circles"


def test_a_newer_epoch_of_the_same_leader_is_believed_again(loop: Loop) -> None:
    scripts = {C1: pointing(2, C2), C2: refusing}
    controllers = Controllers(loop, scripts)

    def back(seen: Seen) -> bool:
        if seen.said(C1):
            scripts[C1] = pointing(2, C2, epoch=4)
            scripts[C2] = leading(LOG, end=4, epoch=4)
        return seen.log == LOG

    assert follow(loop, controllers, back, configured=(C1,)).log == LOG


def snapshot_of(file: bytes, *, cut: int, failures: list[int]) -> Callable[[Any], Any]:
    """A leader with a snapshot at offset 9 of epoch 2, given in pieces; fails once at each of `failures`."""

    def script(request: Any) -> Any:
        if isinstance(request, FetchSnapshotRequest):
            partition = request.topics[0].partitions[0]
            assert (partition.snapshot_id.end_offset, partition.snapshot_id.epoch) == (9, 2)
            if partition.position in failures:
                failures.remove(partition.position)
                raise UnseenError(Reason.CLOSED, "gone in the middle")
            kind = FetchSnapshotResponse.TopicSnapshot.PartitionSnapshot
            piece = kind(
                index=0,
                error_code=0,
                snapshot_id=partition.snapshot_id,
                size=len(file),
                position=partition.position,
                unaligned_records=file[partition.position : partition.position + cut],
            )
            topic = FetchSnapshotResponse.TopicSnapshot(name="x", partitions=[piece])
            return FetchSnapshotResponse(throttle_time_ms=0, error_code=0, topics=[topic])
        partition = request.topics[0].partitions[0]
        if partition.current_leader_epoch != 3:
            return answer(error=74, leader=1, epoch=3, at=C1)
        if partition.fetch_offset < 9:
            return answer(leader=1, high_watermark=11, snapshot_id=PARTITION.SnapshotId(end_offset=9, epoch=2))
        assert (partition.fetch_offset, partition.last_fetched_epoch) in ((9, 2), (11, 3))
        records = batch(9, 2, epoch=3) if partition.fetch_offset == 9 else b""
        return answer(leader=1, high_watermark=11, records=records)

    return script


@pytest.mark.kip("A083", "D121")
@pytest.mark.parametrize("cut", [40, 100, 10_000])
def test_a_snapshot_is_resumed_where_the_connection_ended(loop: Loop, cut: int) -> None:
    file = b"".join(batch(at, 5, epoch=2) for at in range(4))
    script = snapshot_of(file, cut=cut, failures=[cut * 2])
    seen = follow(loop, Controllers(loop, {C1: script}), lambda seen: bool(seen.log), configured=(C1,))

    assert b"".join(batches for *_, batches in seen.pieces) == file, "no byte twice"
    assert [number for _, number, _ in seen.pieces] == list(range(len(seen.pieces)))
    assert {snapshot for snapshot, *_ in seen.pieces} == {SnapshotId(end_offset=9, epoch=2)}
    assert seen.log == batch(9, 2, epoch=3)


def test_lost_metadata_is_told_and_the_log_read_from_its_beginning(loop: Loop) -> None:
    watermark = iter(range(4, 1_000))

    def restored(request: Any) -> Any:
        partition = request.topics[0].partitions[0]
        if partition.current_leader_epoch != 3:
            return answer(error=74, leader=1, epoch=3, at=C1)
        if partition.fetch_offset > 4:
            diverging = PARTITION.EpochEndOffset(epoch=3, end_offset=4)
            return answer(leader=1, high_watermark=next(watermark), diverging_epoch=diverging)
        return answer(leader=1, high_watermark=4, records=LOG if partition.fetch_offset == 0 else b"")

    controllers = Controllers(loop, {C1: restored})
    resume = Resume(offset=50, epoch=3)
    seen = follow(loop, controllers, lambda seen: seen.log == LOG, configured=(C1,), start=resume)
    assert seen.log == LOG
    assert [event.reason for event in seen.failures] == [Reason.METADATA_LOST]
    assert "offset 49 of epoch 3 was committed" in seen.failures[0].detail
