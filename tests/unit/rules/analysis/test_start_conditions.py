"""What must be done before a node is started or restarted: names, copies and the majority."""

from dataclasses import replace

import pytest

from rules.analysis.start_conditions import (
    copy_sentence,
    only_copies,
    only_in_sync_copies,
    resolve_names_first,
    start_conditions,
)
from rules.model.identifiers import Millis, NodeId
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    TOPIC,
    healthy,
    leaderless,
    name_not_found,
    position,
    recovering,
    unclean,
    voter_not_fetching,
    with_broker,
)

MAY_BE_LOST = "may hold the only copy of acknowledged records."


@pytest.mark.parametrize(
    ("previous_isr", "sentence"),
    [
        ((102,), ""),
        ((101,), f" Do not start or restart broker 101 before you have copied orders-0 and orders-3: it {MAY_BE_LOST}"),
        (
            (101, 103),
            " Do not start or restart brokers 101 and 103 before you have copied orders-0 and orders-3: they "
            f"{MAY_BE_LOST}",
        ),
        (
            (101, 103, 104, 105, 106, 107),
            " Do not start or restart brokers 101, 103, 104, 105 and 2 more before you have copied orders-0 and "
            f"orders-3: they {MAY_BE_LOST}",
        ),
    ],
)
def test_sentence_names_the_brokers_that_may_hold_the_only_copy(previous_isr: tuple[int, ...], sentence: str) -> None:
    """Broker 102 leads both partitions."""
    quorum = recovering(healthy(), 0, 3, previous_isr=previous_isr)
    assert copy_sentence(quorum, map(NodeId, previous_isr)) == sentence


@pytest.mark.parametrize(
    ("quorum", "directories"),
    [
        (recovering(healthy(), 0), {102: ["orders-0"]}),
        (recovering(healthy(), 0, topic=None), {102: [f"partition 0 of topic {TOPIC}"]}),
        (recovering(healthy(), 0, leader=None), {}),
        # No other replica can take over, whatever is restarted.
        (recovering(healthy(), 0, replicas=(102,)), {}),
    ],
)
def test_leader_of_a_recovering_partition_with_more_replicas_holds_the_only_in_sync_copy(
    quorum: Quorum, directories: dict[int, list[str]]
) -> None:
    held = only_in_sync_copies(quorum)
    assert {int(node): [one.text for one in sorted(each)] for node, each in held.items()} == directories


@pytest.mark.parametrize(("registered_at", "holds"), [(9_499, True), (9_500, False)])
def test_broker_that_was_passed_over_holds_a_copy_until_it_starts(registered_at: int, holds: bool) -> None:
    """Each start registers it again; the newest unclean election is at offset 9500."""
    quorum = with_broker(unclean(healthy(), 0), 101, fenced=True)
    registered = replace(quorum.brokers[NodeId(101)], at=position(registered_at, 0))
    quorum = replace(quorum, brokers={**quorum.brokers, NodeId(101): registered})
    assert (NodeId(101) in only_copies(quorum)) is holds
    running = replace(registered, fenced=False)
    assert NodeId(101) not in only_copies(replace(quorum, brokers={NodeId(101): running}))
    assert NodeId(101) in only_copies(replace(quorum, brokers={})), "its registration was removed"


@pytest.mark.parametrize(
    ("isr", "elr", "holders"),
    [((101,), (), {101}), ((102,), (103,), {103}), (None, None, {101, 103}), ((), (), {101, 103})],
    ids=["in sync", "eligible", "unknown", "cleared"],
)
def test_previous_isr_and_elr_hold_a_copy_or_all_replicas_if_they_are_unknown(
    isr: tuple[int, ...] | None, elr: tuple[int, ...] | None, holders: set[int]
) -> None:
    """Broker 102 leads; 104 was assigned a replica after the election."""
    quorum = recovering(healthy(), 0, replicas=(101, 102, 103, 104), previous_isr=isr)
    (one,) = quorum.recovering
    known = None if elr is None else tuple(map(NodeId, elr))
    later = replace(one, previous_elr=known, added=(NodeId(104),))
    assert only_copies(replace(quorum, recovering=(later,))).keys() == holders


@pytest.mark.parametrize(
    ("quorum", "steps"),
    [
        (healthy(), ()),
        (voter_not_fetching(healthy(), 2), ("controllers 1 and 3 before 2",)),
        (voter_not_fetching(healthy(2), 1), ("controller 2 before 1",)),
        (voter_not_fetching(healthy(5), 2), ()),
        (voter_not_fetching(voter_not_fetching(healthy(5), 2), 4), ("controllers 1, 3 and 5 before 2 and 4",)),
        (leaderless(voter_not_fetching(healthy(), 2), 1), ()),
    ],
)
def test_no_voter_of_a_bare_majority_is_restarted(quorum: Quorum, steps: tuple[str, ...]) -> None:
    assert start_conditions(quorum, quorum.committed.ids if quorum.committed else ()) == tuple(
        f"# Do not restart {step} fetches again: the quorum tolerates no further failure" for step in steps
    )


@pytest.mark.parametrize(("ago_ms", "counts"), [(30_000, True), (30_001, False)])
def test_probe_of_the_last_thirty_seconds_counts(ago_ms: int, counts: bool) -> None:
    quorum = name_not_found(healthy(), 1)
    aged = {
        name: replace(probe, observed_at_ms=Millis(quorum.now_ms - ago_ms)) for name, probe in quorum.probes.items()
    }
    assert bool(resolve_names_first(replace(quorum, probes=aged))) is counts
