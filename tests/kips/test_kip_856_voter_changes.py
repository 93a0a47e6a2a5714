"""KIP-856 and KIP-853, changes of the voter set: one at a time, committed by a majority of the new set."""

import pytest

from rules.evaluate import evaluate, thresholds_for
from rules.quorum import Quorum
from tests.unit.rules.situation import adding, findings, healthy
from tests.unit.rules.test_voter_set_rules import removing
from tests.unit.streaming.replay.ledger import Ledger, apply, machine, poll, replica


def forced(quorum: Quorum) -> list[str]:
    found = evaluate(quorum, thresholds_for({})).findings
    return [one.severity.value for one in found if one.rule == "forced-reconfiguration"]


@pytest.mark.kip("A019", "K033")
@pytest.mark.parametrize(
    ("following", "told"),
    [("1-a 2-b", 0), ("1-a 2-b 3-c 4-d", 0), ("1-a", 1), ("1-a 4-d 5-e", 1), ("1-a 2-b 3-c 4-d 5-e", 1)],
)
def test_more_than_one_voter_at_once_is_read_and_told(following: str, told: int) -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    ledger.kraft(1)
    ledger.voters("1-a", "2-b", "3-c")
    apply(replay, [ledger.read(), ledger.row(poll(replica("1-a"), replica("2-b"), replica("3-c")))])
    ledger.voters(*following.split())

    quorum = apply(replay, [ledger.read()])

    assert quorum.committed is not None
    assert len(quorum.committed.voters) == len(following.split()), "it is no decode error"
    assert len(forced(quorum)) == told


@pytest.mark.kip("A024", "A026")
def test_a_pending_change_waits_for_a_majority_of_the_new_set() -> None:
    (added,) = findings(adding(healthy(3), 4), "voter-change-stuck")
    (removed,) = findings(removing(healthy(3), 1), "voter-change-stuck")

    assert "4 of its 4 voters keep up, 3 are needed" in added.summary
    assert "2 of its 2 voters keep up, 2 are needed" in removed.summary
