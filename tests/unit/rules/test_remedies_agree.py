"""The remedies of alerts that fire at once can all be followed: none destroys what another one saves."""

from dataclasses import replace

import pytest

from rules.model.identifiers import NodeId
from rules.model.monitoring import Invariant, Reason
from rules.model.quorum import Quorum
from tests.remedy_conflicts import conflicts
from tests.unit.rules.situation import (
    adding,
    broker_lagging,
    elected,
    evaluation_of,
    failing,
    findings,
    forced_change,
    healthy,
    in_transaction,
    leaderless,
    name_not_found,
    observer,
    recovering,
    refuses,
    registered,
    registered_elsewhere,
    removed,
    shut_down,
    stalled,
    unclean,
    upgraded,
    view,
    voter_not_fetching,
    with_broker,
    with_invariant_violation,
    with_views,
)
from tests.unit.rules.test_goldens import CASES

FENCED = with_broker(healthy(), 101, fenced=True)
LOST = recovering(unclean(FENCED, 0, 3), 0, 3)
"""Broker 101 was the only in-sync replica of orders-0 and orders-3, failed, and 102 was elected uncleanly."""


def combined_node(quorum: Quorum, node: int) -> Quorum:
    """Controller and broker in one process."""
    return with_broker(quorum, node, fenced=True)


COMBINED = recovering(with_broker(healthy(), 1, fenced=True), 0, replicas=(1, 102), previous_isr=(1,))
"""Voter 1 is a broker as well, and was the only in-sync replica of orders-0."""


SITUATIONS: dict[str, Quorum] = {
    "fenced broker after an unclean election": LOST,
    "broker left by a controlled shutdown": recovering(unclean(shut_down(healthy(), 101), 0), 0),
    "another replica has joined": unclean(FENCED, 0, 3),
    "isr violates KIP-704": recovering(unclean(FENCED, 0), 0, isr=(102, 101)),
    "the leader failed too": recovering(unclean(with_broker(FENCED, 102, fenced=True), 0), 0, leader=None, isr=(102,)),
    "the only in-sync copy has outdated metadata": broker_lagging(LOST, 102, silent=True),
    "mixed versions": upgraded(LOST, 30, 1, 2, 3),
    "the replica is a controller too": recovering(
        combined_node(voter_not_fetching(healthy(), 1), 1), 0, replicas=(1, 102), previous_isr=(1,)
    ),
    "the replica is a controller without a vote": recovering(
        combined_node(registered(healthy(), 9), 9), 0, replicas=(9, 102), previous_isr=(9,)
    ),
    "no leader, and a voter holds the only copy": recovering(
        combined_node(leaderless(refuses(healthy(), 1, 2), 3), 1), 0, replicas=(1, 102), previous_isr=(1,)
    ),
    "a voter with the only copy while names are gone": name_not_found(COMBINED, 2),
    "a voter with the only copy while a change is pending": adding(voter_not_fetching(COMBINED, 1), 4),
    "a voter with the only copy reports no leader": with_views(COMBINED, view(1, leader=None)),
    "a voter with the only copy while nothing is committed": stalled(voter_not_fetching(COMBINED, 1)),
    "the only copy is on an old version": upgraded(LOST, 25, 101),
    "metadata lost while a voter is down": failing(
        voter_not_fetching(recovering(FENCED, 0), 2), Reason.METADATA_LOST, "c3.test:9093", detail="lost"
    ),
    "metadata lost and old names": failing(
        name_not_found(healthy(), 1, 2), Reason.METADATA_LOST, "c3.test:9093", detail="lost"
    ),
    "an epoch with two leaders while a voter is down": with_invariant_violation(
        voter_not_fetching(healthy(), 2), Invariant.TWO_LEADERS
    ),
    "forced voters and a former voter that is registered": replace(
        forced_change(removed(removed(healthy(), 1, ago_ms=5_000), 2, ago_ms=5_000), before=(1, 2, 3), after=(3,)),
        histories={},
    ),
    "old names while a voter is down": name_not_found(voter_not_fetching(healthy(), 2), 1),
    "a moved voter while a voter is down": registered_elsewhere(voter_not_fetching(healthy(), 2), 1),
    "a pending change and a replaced disk": adding(
        observer(voter_not_fetching(healthy(), 2), 2, directory="newDirOf2"), 4
    ),
    "no leader and old names": leaderless(name_not_found(healthy(), 1, 2, 3), 1, 2, 3),
    "no leader and a registration elsewhere": leaderless(registered_elsewhere(refuses(healthy(), 2), 1), 3),
    "no leader after a forced change": forced_change(
        leaderless(refuses(healthy(), 1, 2), 3), before=(1, 2, 3, 4, 5), after=(1, 2, 3)
    ),
    "a transaction is open on the only copy": replace(
        recovering(
            in_transaction(with_broker(healthy(), 101, fenced=True), for_ms=61_000), 0, leader=3, replicas=(101, 3)
        ),
        leader_id=NodeId(3),
    ),
    "elections while a voter is down": elected(voter_not_fetching(healthy(), 2), 1, 2, 1, 2, 3),
    **{f"golden {name}": quorum for name, (_, quorum) in CASES.items()},
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_remedies_of_all_findings_agree(name: str) -> None:
    assert conflicts(evaluation_of(SITUATIONS[name]).findings) == []


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("broker-fenced", "fenced broker after an unclean election"),
        ("broker-fenced", "broker left by a controlled shutdown"),
        ("broker-fenced", "another replica has joined"),
        ("unclean-election", "fenced broker after an unclean election"),
        ("partition-stuck-recovering", "fenced broker after an unclean election"),
        ("recovery-invariant-broken", "isr violates KIP-704"),
        ("version-drift", "mixed versions"),
        ("ghost-registration", "the replica is a controller without a vote"),
        ("failure-tolerance", "the replica is a controller too"),
        ("no-leader", "no leader, and a voter holds the only copy"),
        ("stale-voter-endpoint", "a voter with the only copy while names are gone"),
        ("voter-change-stuck", "a voter with the only copy while a change is pending"),
        ("views-disagree", "a voter with the only copy reports no leader"),
        ("version-drift", "the only copy is on an old version"),
        ("high-watermark-stalled", "a voter with the only copy while nothing is committed"),
    ],
)
def test_first_step_is_to_copy_the_only_copy(rule: str, name: str) -> None:
    found = findings(SITUATIONS[name], rule)
    assert found
    for first in (each.remedy[0] for each in found):
        assert first.startswith("# Do not start or restart broker ")
        assert "before you have copied orders-0" in first
        assert "log.dirs" in first
