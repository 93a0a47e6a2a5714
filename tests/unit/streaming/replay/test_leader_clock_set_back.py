"""Kafka's leader keeps the later times of a replica's last fetch while its clock is behind them."""

import pytest

from rules.facts.following_text import follows_text
from rules.facts.node import NodeFacts, Nodes
from rules.model.identifiers import Millis, Offset
from rules.model.replica import Replica
from streaming.replay.decoded_row import DecodedRow
from tests.scripts.log_script import apply, key, machine, poll

AHEAD_MS = 3_600_000


def row(name: str, end: int, fetched_ms: int) -> Replica:
    at = Millis(fetched_ms)
    return Replica(key=key(name), log_end_offset=Offset(end), last_fetch_ms=at, last_caught_up_ms=at)


def voter_2(*ends: int) -> tuple[Nodes, NodeFacts]:
    """Voter 2 follows the leader's log; then the leader's clock is set back, and its log ends there in each second."""
    replay = machine()
    for second, end in enumerate((1_000, *ends)):
        now_ms, leader_end = 1_000_000 + 1_000 * second, 1_000 + 500 * second
        back_ms = AHEAD_MS if second else 0
        leader, voter = row("1-a", leader_end, now_ms - back_ms), row("2-b", end, 1_000_000)
        event = poll(leader, voter, row("3-c", leader_end, now_ms - back_ms), hw=leader_end)
        apply(replay, [DecodedRow(second, Millis(now_ms), (event,))])
    nodes = Nodes(replay.quorum())
    return nodes, nodes.polled_voters[1]


@pytest.mark.parametrize("every_s", [1, 7])
def test_a_voter_whose_log_grows_fetches_also_if_it_is_far_behind(every_s: int) -> None:
    nodes, voter = voter_2(*(1_000 + 100 * (second // every_s) for second in range(60)))
    assert follows_text(nodes, voter) == "lagging"
    assert voter.lag is not None
    assert voter.lag > 20_000


def test_a_voter_whose_log_does_not_grow_has_not_fetched_since_it_did() -> None:
    nodes, voter = voter_2(*(1_000 + 100 * min(second, 30) for second in range(60)))
    assert follows_text(nodes, voter) == "not fetching since 1970-01-01 00:17:10 UTC"
