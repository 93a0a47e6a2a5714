"""Who leads in each controller's eyes, and what the leader's log begins with: asked seldom, and nobody for nothing."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from connectors.errors import UnseenError
from connectors.event import At, EndpointProbed, LeaderViewPolled, ObservationFailed, QuorumPolled, VotersSet
from connectors.gather.commit_buffer import Release
from connectors.gather.leader_view_poll import Views
from connectors.gather.node_directory import Whereabouts
from connectors.kafka.client import Address
from connectors.kafka.event_loop import Loop
from connectors.kafka.kafka_python import FetchRequest, FetchResponse, FetchSnapshotRequest, FetchSnapshotResponse
from connectors.kafka.messages import SnapshotId
from rules.model.identifiers import Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.monitoring import LeaderLog, ObservationSource, Reason, Snapshot
from rules.model.voter_set import Voter
from tests.unit.connectors.gather.test_log_follower import answer
from tests.unit.connectors.metadata.metadata_bytes import batch, control, noop

C1, C2, C3, B4 = (Address(f"c{number}", 9093) for number in (1, 2, 3, 4))
AT = At(offset=Offset(1), leader_epoch=Epoch(1), timestamp_ms=Millis(1))
AT_C1 = Endpoint(listener="CONTROLLER", host="c1", port=9093)
SAID = 1_790_000_000_000
PARTITION = FetchResponse.FetchableTopicResponse.PartitionData
Script = Callable[[Any], Any]


@pytest.fixture
def loop(leaping_loop: Loop) -> Loop:
    """Nothing here is a socket: time passes where all wait, and only there."""
    return leaping_loop


@dataclass
class Controllers:
    """Stands for the Client."""

    loop: Loop
    scripts: dict[Address, Script]
    version: int = 18
    asked: list[tuple[Address, str, int]] = field(default_factory=list)
    """Whom, what, and with which epoch."""

    async def ask(self, address: Address, request: Any, *, lane: ObservationSource) -> Any:
        assert lane is ObservationSource.VIEW
        partition = request.topics[0].partitions[0]
        self.asked.append((address, type(request).__name__, partition.current_leader_epoch))
        assert request.replica_id == -1
        request.API_VERSION = self.version if isinstance(request, FetchRequest) else 1
        await self.loop.sleep(0.001)
        return self.scripts[address](request)


class Seen:
    """An Output that keeps views."""

    def __init__(self) -> None:
        self.views: list[LeaderViewPolled] = []

    def viewed(self, event: LeaderViewPolled) -> None:
        self.views.append(event)

    def release(self, release: Release) -> None:
        raise AssertionError(release)

    def piece(self, snapshot: SnapshotId, number: int, batches: bytes) -> None:
        raise AssertionError(snapshot, number, batches)

    def polled(self, event: QuorumPolled) -> None:
        raise AssertionError(event)

    def probed(self, event: EndpointProbed) -> None:
        raise AssertionError(event)

    def unseen(self, event: ObservationFailed) -> None:
        raise AssertionError(event)

    @property
    def said(self) -> dict[str, tuple[int | None, int | None, int | None]]:
        """Node, leader and epoch, by who was asked."""
        return {one.endpoint: (one.node, one.leader_id, one.leader_epoch) for one in self.views}


def following(leader: int, *, epoch: int = 3) -> Script:
    """A controller that does not lead, and knows who does."""

    def script(request: Any) -> Any:
        asked = request.topics[0].partitions[0].current_leader_epoch
        error = 74 if asked < epoch else 75 if asked > epoch else 6
        return answer(error=error, leader=leader, epoch=epoch)

    return script


def leading(node: int, *, epoch: int = 3, snapshot: int | None = None, records: bytes = b"") -> Script:
    """A leader; its snapshot's header says SAID."""

    def script(request: Any) -> Any:
        if isinstance(request, FetchSnapshotRequest):
            return header(request)
        if request.topics[0].partitions[0].current_leader_epoch != epoch:
            return answer(error=74, leader=node, epoch=epoch)
        found = None if snapshot is None else PARTITION.SnapshotId(end_offset=snapshot, epoch=2)
        return answer(leader=node, epoch=epoch, snapshot_id=found, records=records, log_start_offset=0)

    return script


def header(request: Any) -> Any:
    said = b"\0\0" + SAID.to_bytes(8, "big") + b"\0"
    content = batch([control(3, said)])
    kind = FetchSnapshotResponse.TopicSnapshot.PartitionSnapshot
    wanted = request.topics[0].partitions[0]
    assert wanted.position == 0
    piece = kind(
        index=0,
        error_code=0,
        snapshot_id=kind.SnapshotId(end_offset=wanted.snapshot_id.end_offset, epoch=wanted.snapshot_id.epoch),
        size=len(content) + 500,
        position=0,
        unaligned_records=content + b"the rest is cut off",
    )
    topic = FetchSnapshotResponse.TopicSnapshot(name="__cluster_metadata", partitions=[piece])
    return FetchSnapshotResponse(throttle_time_ms=0, error_code=0, topics=[topic])


def failing(reason: Reason) -> Script:
    def script(_: Any) -> Any:
        raise UnseenError(reason, "in words")

    return script


def where_of(*nodes: int, configured: tuple[Address, ...] = ()) -> Whereabouts:
    where = Whereabouts(configured=configured, cluster_id="x")
    voters = tuple(
        Voter(key=ReplicaKey(id=NodeId(node)), endpoints=(Endpoint(listener="CONTROLLER", host=f"c{node}", port=9093),))
        for node in nodes
    )
    if voters:
        where.learn(VotersSet(at=AT, voters=voters))
    return where


def look(
    loop: Loop, controllers: Controllers, where: Whereabouts, until: Callable[[Seen], bool], *, interval_ms: int = 20
) -> Seen:
    seen = Seen()
    views = Views(loop, controllers, where, seen, interval_ms=interval_ms)  # type: ignore[arg-type]

    async def main() -> None:
        running = loop.spawn(views.run())
        deadline = loop.now() + 8
        while not until(seen) and loop.now() < deadline:
            assert not running.done, running.future.exception
            await loop.sleep(0.005)

    loop.run(main)
    return seen


def test_each_controller_says_whom_it_follows_and_is_asked_once(loop: Loop) -> None:
    where = where_of(1, 2, 3)
    where.leader_epoch = 3
    scripts = {C1: following(2), C2: leading(2), C3: following(2, epoch=2)}
    controllers = Controllers(loop, scripts)
    seen = look(loop, controllers, where, lambda seen: len(seen.views) >= 3, interval_ms=60_000)

    assert seen.said == {"c1:9093": (1, 2, 3), "c2:9093": (2, 2, 3), "c3:9093": (3, 2, 2)}
    assert sorted(controllers.asked) == [(one, "FetchRequest", 3) for one in (C1, C2, C3)]
    assert {one.endpoint for one in seen.views if one.log is not None} == {"c2:9093"}


def test_a_controller_that_knows_no_leader_says_so(loop: Loop) -> None:
    seen = look(loop, Controllers(loop, {C1: following(-1, epoch=8)}), where_of(1), lambda seen: bool(seen.views))
    assert seen.said == {"c1:9093": (1, None, 8)}


def test_a_leader_is_asked_again_with_its_own_epoch(loop: Loop) -> None:
    controllers = Controllers(loop, {C1: leading(1, epoch=5)})
    seen = look(loop, controllers, where_of(1), lambda seen: bool(seen.views), interval_ms=60_000)
    assert [epoch for _, _, epoch in controllers.asked] == [0, 5]
    assert seen.views[0].log is not None


def test_the_newest_snapshot_and_its_header_which_is_read_once(loop: Loop) -> None:
    where = where_of(1)
    where.leader_epoch = 3
    controllers = Controllers(loop, {C1: leading(1, snapshot=90)})
    seen = look(loop, controllers, where, lambda seen: len(seen.views) >= 3)

    snapshot = Snapshot(end_offset=Offset(90), epoch=Epoch(2), last_contained_timestamp_ms=Millis(SAID))
    log = LeaderLog(start_offset=Offset(0), snapshot=snapshot, tells_absence=True, begins_timestamp_ms=None)
    assert {one.log for one in seen.views} == {log}
    assert [what for _, what, _ in controllers.asked].count("FetchSnapshotRequest") == 1

    controllers.scripts[C1] = leading(1, snapshot=120)
    again = look(loop, controllers, where, lambda seen: bool(seen.views))
    assert again.views[0].log == replace(log, snapshot=replace(snapshot, end_offset=Offset(120)))


@pytest.mark.parametrize(("version", "tells"), [(18, True), (16, True), (15, False), (13, False)])
def test_no_snapshot_is_an_answer_only_from_a_kafka_that_would_name_one(loop: Loop, version: int, tells: bool) -> None:
    where = where_of(1)
    where.leader_epoch = 3
    controllers = Controllers(loop, {C1: leading(1, records=batch([noop()], timestamp=SAID))}, version=version)
    seen = look(loop, controllers, where, lambda seen: bool(seen.views))
    assert seen.views[0].log == LeaderLog(
        start_offset=Offset(0), snapshot=None, tells_absence=tells, begins_timestamp_ms=Millis(SAID)
    )


def test_a_node_of_another_cluster_is_told_and_a_silent_one_is_not(loop: Loop) -> None:
    scripts = {C1: failing(Reason.WRONG_CLUSTER), C2: failing(Reason.TIMED_OUT), C3: following(2)}
    seen = look(loop, Controllers(loop, scripts), where_of(1, 2, 3), lambda seen: len(seen.views) > 5)
    assert {one.endpoint: one.this_cluster for one in seen.views} == {"c1:9093": False, "c3:9093": True}


@pytest.mark.parametrize("reason", [Reason.UNSUPPORTED, Reason.DENIED])
def test_a_broker_and_whoever_refuses_are_left_alone(loop: Loop, reason: Reason) -> None:
    controllers = Controllers(loop, {C1: following(1), B4: failing(reason)})
    look(loop, controllers, where_of(1, configured=(B4,)), lambda seen: len(seen.views) > 5)
    assert [address for address, *_ in controllers.asked].count(B4) == 1


def test_an_address_that_nobody_knows_is_asked_seldom_once_the_controllers_are_known(loop: Loop) -> None:
    where = where_of(1, configured=(B4,))
    where.leader_epoch = 3
    controllers = Controllers(loop, {C1: following(1), B4: following(1)})
    seen = look(loop, controllers, where, lambda seen: len(seen.views) > 5)
    assert [address for address, *_ in controllers.asked].count(B4) == 1
    assert seen.said[str(B4)][0] is None


def test_configured_addresses_are_asked_before_anybody_tells_who_is_there(loop: Loop) -> None:
    where = where_of(configured=(C1,))
    controllers = Controllers(loop, {C1: following(1)})

    def known(seen: Seen) -> bool:
        if seen.views:
            where.learn(VotersSet(at=AT, voters=(Voter(key=ReplicaKey(id=NodeId(1)), endpoints=(AT_C1,)),)))
        return any(one.node is not None for one in seen.views)

    seen = look(loop, controllers, where, known, interval_ms=60_000)
    assert [one.node for one in seen.views] == [None, 1], "and again, at once, when somebody does"
