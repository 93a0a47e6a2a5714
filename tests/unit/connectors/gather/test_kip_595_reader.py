"""KIP-595, what a follower and an observer do, as our own reader of the log does it: whom it asks, where it goes on."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from connectors.event import ObservationFailed, QuorumPolled
from connectors.gather.commit_buffer import Resume
from connectors.gather.log_follower import Follower
from connectors.gather.node_directory import Whereabouts
from connectors.kafka.client import Address
from connectors.kafka.event_loop import Loop
from connectors.kafka.kafka_python import FetchRequest
from rules.evaluate import evaluate, thresholds_for
from rules.model.monitoring import ObservationSource, Reason
from tests.unit.connectors.gather import test_quorum_poll as describing
from tests.unit.connectors.gather.log_bytes import batch
from tests.unit.connectors.gather.test_log_follower import LOG, PARTITION, Controllers, Seen, answer, follow, leading
from tests.unit.connectors.gather.test_log_follower import pointing as following
from tests.unit.streaming.replay.ledger import Ledger, apply, machine

C1, C2, C3 = Address("c1", 9093), Address("c2", 9093), Address("c3", 9093)
MORE = batch(4, 2, epoch=5)
Script = Callable[[Any], Any]


@pytest.fixture
def loop(leaping_loop: Loop) -> Loop:
    return leaping_loop


@dataclass
class Noted(Controllers):
    """Keeps what was asked, and how many requests each controller had before it at once."""

    fetches: list[tuple[Address, int, int, int]] = field(default_factory=list)
    """Whom, and of it current leader epoch, fetch offset and last fetched epoch."""
    cluster_ids: list[str | None] = field(default_factory=list)
    at_once: Counter[Address] = field(default_factory=Counter)
    most_at_once: int = 0

    async def ask(
        self, address: Address, request: Any, *, lane: ObservationSource, timeout_ms: int | None = None
    ) -> Any:
        assert isinstance(request, FetchRequest)
        partition = request.topics[0].partitions[0]
        where = (partition.current_leader_epoch, partition.fetch_offset, partition.last_fetched_epoch)
        self.fetches.append((address, *where))
        self.cluster_ids.append(request.cluster_id)
        self.at_once[address] += 1
        self.most_at_once = max(self.most_at_once, self.at_once[address])
        try:
            return await super().ask(address, request, lane=lane, timeout_ms=timeout_ms)
        finally:
            self.at_once[address] -= 1


def of_epoch_5(request: Any) -> Any:
    """The next leader: its log goes on behind LOG."""
    partition = request.topics[0].partitions[0]
    if partition.current_leader_epoch != 5:
        return answer(error=74, leader=2, epoch=5)
    asked = (partition.fetch_offset, partition.last_fetched_epoch)
    return answer(leader=2, epoch=5, high_watermark=6, records=MORE if asked == (4, 3) else b"")


def succeeded(error: int, *, leader: int, at: Address | None) -> dict[Address, Script]:
    """Controller 1 leads until LOG is read, then 2 does: what 1 answers from then on, and whom it names."""
    scripts: dict[Address, Script] = {}

    def first(request: Any) -> Any:
        if request.topics[0].partitions[0].fetch_offset == 4:
            scripts[C2] = of_epoch_5
        if scripts[C2] is of_epoch_5:
            return answer(error=error, leader=leader, epoch=5, at=at)
        return leading(LOG, end=4, leader=1)(request)

    scripts |= {C1: first, C2: following(1, C1)}
    return scripts


@pytest.mark.kip("D057", "D059", "D076")
@pytest.mark.parametrize("error", [6, 74])
def test_who_leads_no_more_names_the_new_leader_and_there_we_read_on_from_where_we_stood(
    loop: Loop, error: int
) -> None:
    controllers = Noted(loop, succeeded(error, leader=2, at=C2))

    seen = follow(loop, controllers, lambda seen: seen.log == LOG + MORE, configured=(C1,))

    assert seen.log == LOG + MORE, "no byte of it twice"
    turn = controllers.fetches.index((C1, 3, 4, 3))
    assert controllers.fetches[turn + 1] == (C2, 5, 4, 3), "at once, in the new epoch"
    assert seen.failures == []


@pytest.mark.kip("D076")
@pytest.mark.parametrize("error", [6, 74])
def test_when_who_leads_no_more_knows_no_leader_the_others_are_asked(loop: Loop, error: int) -> None:
    controllers = Noted(loop, succeeded(error, leader=-1, at=None))

    seen = follow(loop, controllers, lambda seen: seen.log == LOG + MORE, configured=(C1, C2))

    assert seen.log == LOG + MORE


@pytest.mark.kip("D053", "D096")
def test_without_a_leader_an_observer_asks_everybody_again_and_again_until_there_is_one(loop: Loop) -> None:
    scripts = {C1: following(-1, None), C2: following(-1, None)}
    controllers = Noted(loop, scripts)
    seen, where = Seen(), Whereabouts(configured=(C1, C2), cluster_id=None)
    follower = Follower(loop, controllers, where, seen)  # type: ignore[arg-type]

    async def main() -> None:
        loop.spawn(follower.run())
        await loop.sleep(120)
        assert seen.log == b""
        scripts[C2] = leading(LOG, end=4)
        await loop.sleep(5)

    loop.run(main)

    assert seen.log == LOG
    assert seen.said(C1) == seen.said(C2) == {Reason.NO_LEADER}
    in_vain = controllers.asked.count(C1)
    assert 100 < in_vain < 150, "for two minutes, about once a second"
    assert set(controllers.cluster_ids) == {None}, "it does not know which cluster this is"


@pytest.mark.kip("D087")
def test_without_a_leader_the_poll_waits_before_it_asks_again_until_somebody_leads(loop: Loop) -> None:
    asked_at: list[float] = []

    def in_election() -> Any:
        asked_at.append(loop.now())
        return describing.leading() if len(asked_at) >= 10 else describing.following()

    seen, _ = describing.poll(loop, {C1: in_election}, seconds=5)

    assert seen.reasons == {str(C1): Reason.NO_LEADER}
    assert isinstance(seen.rows[-1][1], QuorumPolled)
    assert all(later - earlier >= 0.1 for earlier, later in pairwise(asked_at)), "the poll's interval here"


@pytest.mark.kip("D081")
def test_a_reader_with_an_empty_log_fetches_from_offset_0(loop: Loop) -> None:
    controllers = Noted(loop, {C1: leading(LOG, end=4, leader=1)})

    seen = follow(loop, controllers, lambda seen: seen.log == LOG, configured=(C1,))

    assert seen.log == LOG
    assert [offset for *_, offset, _ in controllers.fetches][:2] == [0, 0], "first to find the leader"


@pytest.mark.kip("D082")
def test_a_fetch_is_answered_before_the_next_one_is_sent(loop: Loop) -> None:
    whole = [batch(offset, 1, epoch=3) for offset in range(50)]

    def one_by_one(request: Any) -> Any:
        partition = request.topics[0].partitions[0]
        if partition.current_leader_epoch != 3:
            return answer(error=74, leader=1, epoch=3, at=C1)
        next_one = whole[partition.fetch_offset : partition.fetch_offset + 1]
        return answer(leader=1, high_watermark=50, records=b"".join(next_one))

    controllers = Noted(loop, {C1: one_by_one})
    seen = follow(loop, controllers, lambda seen: seen.log == b"".join(whole), configured=(C1,))

    assert seen.log == b"".join(whole)
    assert controllers.most_at_once == 1


def restored(*, epoch: int) -> Script:
    """A leader of this epoch whose log ends at offset 4, and who commits on from there; epoch 3 was before it."""
    end = iter(range(5, 1_000))

    def script(request: Any) -> Any:
        partition = request.topics[0].partitions[0]
        asked = partition.current_leader_epoch
        if asked == 0:
            return answer(error=74, leader=1, epoch=3, at=C1)
        if asked != epoch:
            return answer(error=74 if asked < epoch else 75, leader=1, epoch=epoch, at=C1)
        if partition.last_fetched_epoch > epoch:
            return answer(error=42)
        if partition.fetch_offset > 4:
            diverging = PARTITION.EpochEndOffset(epoch=3, end_offset=4)
            return answer(leader=1, epoch=epoch, high_watermark=next(end), diverging_epoch=diverging)
        return answer(leader=1, epoch=epoch, high_watermark=next(end))

    return script


@pytest.mark.kip("D036", "D052", "D077")
@pytest.mark.parametrize("epoch", [2, 3, 8])
def test_a_leader_that_lacks_what_was_committed_is_critical_be_its_epoch_older_or_newer(loop: Loop, epoch: int) -> None:
    """Only what is not committed may be cut off, and the leader always holds what is."""
    controllers = Noted(loop, {C1: leading(LOG, end=4, leader=1)})
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    ledger.noops(49)
    known = apply(replay, [ledger.read()])
    assert [one.rule for one in evaluate(known, thresholds_for({})).findings if one.severity == "critical"] == []
    controllers.scripts[C1] = restored(epoch=epoch)

    lost: Callable[[Seen], list[ObservationFailed]] = lambda seen: [  # noqa: E731 - read twice
        one for one in seen.failures if one.reason is Reason.METADATA_LOST
    ]
    start = Resume(offset=50, epoch=3)
    seen = follow(loop, controllers, lambda seen: bool(lost(seen)), configured=(C1,), start=start)

    (told,) = lost(seen)
    assert "offset 49 of epoch 3 was committed" in told.detail
    quorum = apply(replay, [ledger.row(told)])
    found = evaluate(quorum, thresholds_for({})).findings
    assert [str(one.severity) for one in found if one.rule == "committed-metadata-lost"] == ["critical"]
