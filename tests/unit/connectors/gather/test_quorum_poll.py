"""The poll against controllers that answer by script: a row each interval, whatever happens."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from connectors.errors import UnseenError
from connectors.event import EndpointProbed, LeaderViewPolled, ObservationFailed, QuorumPolled
from connectors.gather.commit_buffer import Release
from connectors.gather.node_directory import Whereabouts
from connectors.gather.quorum_poll import QuorumPoll
from connectors.kafka.client import Address
from connectors.kafka.event_loop import Loop
from connectors.kafka.kafka_python import DescribeQuorumRequest, DescribeQuorumResponse
from connectors.kafka.messages import SnapshotId
from rules.model.monitoring import ObservationSource, Reason

C1, C2, C3 = Address("c1", 9093), Address("c2", 9093), Address("c3", 9093)
INTERVAL_MS = 100


@pytest.fixture
def loop(leaping_loop: Loop) -> Loop:
    """Nothing here is a socket: time passes where all wait, and only there."""
    return leaping_loop


@dataclass
class Controllers:
    """Stands for the Client."""

    loop: Loop
    scripts: dict[Address, Callable[[], Any]]
    asked: list[Address] = field(default_factory=list)
    slow_s: dict[Address, float] = field(default_factory=dict)
    """How long an answer is on its way."""

    async def ask(self, address: Address, request: Any, *, lane: ObservationSource) -> Any:
        assert lane is ObservationSource.QUORUM
        assert isinstance(request, DescribeQuorumRequest)
        self.asked.append(address)
        answer = self.scripts[address]()
        await self.loop.sleep(60 if answer is None else self.slow_s.get(address, 0.0))
        return answer


class Seen:
    """An Output that keeps polls and failures, each with its time."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.rows: list[tuple[float, QuorumPolled | ObservationFailed]] = []

    def release(self, release: Release) -> None:
        raise AssertionError(release)

    def piece(self, snapshot: SnapshotId, number: int, batches: bytes) -> None:
        raise AssertionError(snapshot, number, batches)

    def probed(self, event: EndpointProbed) -> None:
        raise AssertionError(event)

    def polled(self, event: QuorumPolled) -> None:
        self.rows.append((self._loop.now(), event))

    def viewed(self, event: LeaderViewPolled) -> None:
        raise AssertionError(event)

    def unseen(self, event: ObservationFailed) -> None:
        self.rows.append((self._loop.now(), event))

    @property
    def reasons(self) -> dict[str, Reason]:
        return {event.endpoint: event.reason for _, event in self.rows if isinstance(event, ObservationFailed)}

    @property
    def answered_by(self) -> list[str]:
        return [event.endpoint for _, event in self.rows if isinstance(event, QuorumPolled)]


def leading(leader: int = 1, *, high_watermark: int = 5) -> Any:
    partition = DescribeQuorumResponse.TopicData.PartitionData(
        partition_index=0,
        leader_id=leader,
        leader_epoch=3,
        high_watermark=high_watermark,
        current_voters=[],
        observers=[],
    )
    topic = DescribeQuorumResponse.TopicData(topic_name="x", partitions=[partition])
    return DescribeQuorumResponse(error_code=0, topics=[topic], nodes=[])


def following() -> Any:
    partition = DescribeQuorumResponse.TopicData.PartitionData(
        partition_index=0, error_code=6, leader_id=0, leader_epoch=0, high_watermark=0, current_voters=[], observers=[]
    )
    topic = DescribeQuorumResponse.TopicData(topic_name="x", partitions=[partition])
    return DescribeQuorumResponse(error_code=0, topics=[topic], nodes=[])


def refusing() -> Any:
    raise UnseenError(Reason.REFUSED, "it refuses")


def silent() -> Any:
    return None


def poll(loop: Loop, scripts: dict[Address, Callable[[], Any]], *, seconds: float) -> tuple[Seen, Controllers]:
    seen, controllers = Seen(loop), Controllers(loop, scripts)
    where = Whereabouts(configured=tuple(scripts), cluster_id="x")
    poll = QuorumPoll(loop, controllers, where, seen, interval_ms=INTERVAL_MS)  # type: ignore[arg-type]

    async def main() -> None:
        running = loop.spawn(poll.run())
        await loop.sleep(seconds)
        assert not running.done

    loop.run(main)
    return seen, controllers


@pytest.mark.kip("D083")
def test_the_leader_is_found_and_asked_alone_from_then_on(loop: Loop) -> None:
    seen, controllers = poll(loop, {C1: following, C2: leading, C3: following}, seconds=0.75)
    assert set(seen.answered_by) == {"c2:9093"}
    assert len(seen.answered_by) >= 5
    assert controllers.asked.count(C1) == 1
    assert seen.reasons == {}


def test_every_endpoint_says_why_it_shows_nothing(loop: Loop) -> None:
    seen, _ = poll(loop, {C1: following, C2: refusing, C3: silent}, seconds=0.5)
    assert seen.reasons == {"c1:9093": Reason.NO_LEADER, "c2:9093": Reason.REFUSED, "c3:9093": Reason.TIMED_OUT}


def test_the_clock_goes_on_when_everyone_is_silent_and_nobody_is_asked_twice(loop: Loop) -> None:
    seen, controllers = poll(loop, {C1: silent, C2: silent}, seconds=1.0)
    times = sorted({round(at * 1000 / INTERVAL_MS) for at, _ in seen.rows})
    assert len(times) >= 6
    assert sorted(controllers.asked) == [C1, C2], "an answer may still come"


def test_the_clock_goes_on_when_there_are_too_many_to_ask_each_time(loop: Loop) -> None:
    scripts = {Address(f"c{at}", 9093): refusing for at in range(20)}
    seen, controllers = poll(loop, scripts, seconds=1.0)
    assert len({round(at * 1000 / INTERVAL_MS) for at, _ in seen.rows}) >= 6
    assert len(controllers.asked) <= 20


def test_a_silent_leader_does_not_hide_that_another_leads(loop: Loop) -> None:
    scripts = {C1: leading, C2: following}

    def fall_silent() -> Any:
        scripts[C1], scripts[C2] = silent, leading
        return None

    scripts[C1] = fall_silent
    seen, _ = poll(loop, scripts, seconds=0.6)
    assert "c2:9093" in seen.answered_by


@pytest.mark.kip("D087")
def test_the_leader_that_a_fetch_named_is_asked_first_and_the_others_only_if_it_does_not_lead(loop: Loop) -> None:
    def asked(scripts: dict[Address, Callable[[], Any]]) -> list[Address]:
        seen, controllers = Seen(loop), Controllers(loop, scripts)
        where = Whereabouts(configured=(C1, C2), cluster_id="x")
        where.leader = C3
        poll = QuorumPoll(loop, controllers, where, seen, interval_ms=INTERVAL_MS)  # type: ignore[arg-type]

        async def main() -> None:
            loop.spawn(poll.run())
            await loop.sleep(0.05)

        loop.run(main)
        return controllers.asked

    assert set(asked({C1: following, C2: following, C3: leading})) == {C3}
    assert asked({C1: following, C2: leading, C3: following})[:3] == [C3, C1, C2]


def test_what_was_asked_before_a_newer_answer_came_says_nothing_any_more(loop: Loop) -> None:
    """Two brokers ask the leader for us: the slower one's answer must not be told after the faster one's next."""
    answers: list[int] = []

    def forwarding() -> Any:
        answers.append(len(answers))
        return leading(high_watermark=answers[-1])

    def forwarding_but_for_once() -> Any:
        return silent() if controllers.asked.count(C1) == 3 else forwarding()

    controllers = Controllers(loop, {C1: forwarding_but_for_once, C2: forwarding}, slow_s={C2: 0.01})
    seen = Seen(loop)
    where = Whereabouts(configured=(C1, C2), cluster_id="x")
    poll = QuorumPoll(loop, controllers, where, seen, interval_ms=INTERVAL_MS)  # type: ignore[arg-type]

    async def main() -> None:
        loop.spawn(poll.run())
        await loop.sleep(0.95)

    loop.run(main)
    told = [event.high_watermark for _, event in seen.rows if isinstance(event, QuorumPolled)]
    assert "c2:9093" in seen.answered_by
    assert told == sorted(told, key=lambda each: each or 0)
