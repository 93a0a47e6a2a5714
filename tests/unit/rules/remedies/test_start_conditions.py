"""What must be done before a node is started or restarted: names, copies and the majority."""

import pytest

from rules.facts.quorum import Facts
from rules.model.identifiers import NodeId
from rules.remedies.start_conditions import copy_sentence, resolve_names_first, start_conditions
from tests.situation.commands import situation

MAY_BE_LOST = "may hold the only copy of acknowledged records."


def passed_over(isr: str, *, replicas: str) -> tuple[str, ...]:
    """Returns commands: 102 became the leader of orders-0 and orders-3 while these replicas were in sync."""
    return (
        f"partitions orders 0,3 replicas {replicas}",
        f"change orders 0,3 since 80s isr {isr} leader {isr.partition(',')[0]}",
        "change orders 0,3 since 75s isr 102 leader 102 recovering yes",
    )


@pytest.mark.parametrize(
    ("isr", "sentence"),
    [
        ("101", f" Do not start or restart broker 101 before you have copied orders-0 and orders-3: it {MAY_BE_LOST}"),
        (
            "101,103",
            " Do not start or restart brokers 101 and 103 before you have copied orders-0 and orders-3: they "
            f"{MAY_BE_LOST}",
        ),
        (
            "101,103,104,105,106,107",
            " Do not start or restart brokers 101, 103, 104, 105 and 2 more before you have copied orders-0 and "
            f"orders-3: they {MAY_BE_LOST}",
        ),
    ],
)
def test_sentence_names_the_brokers_that_may_hold_the_only_copy(isr: str, sentence: str) -> None:
    quorum = situation(*passed_over(isr, replicas=f"102,{isr}"))

    assert copy_sentence(Facts(quorum), map(NodeId, range(101, 108))) == sentence
    assert copy_sentence(Facts(quorum), [NodeId(102)]) == "", "it leads both partitions"


@pytest.mark.parametrize(
    ("commands", "directories"),
    [
        (("unclean orders 0",), {102: ["orders-0"]}),
        # The record that names the topic could not be decoded.
        (("append partition orders-0 102,101 recovering since 80s",), {102: ["partition 0 of topic id-of-orders"]}),
        (("unclean orders 0", "change orders 0 since 5s leader none"), {}),
        # No other replica can take over, whatever is restarted.
        (("unclean orders 0 replicas 102",), {}),
    ],
)
def test_leader_of_a_recovering_partition_with_more_replicas_holds_the_only_in_sync_copy(
    commands: tuple[str, ...], directories: dict[int, list[str]]
) -> None:
    held = Facts(situation(*commands)).only_in_sync_copies
    assert {int(node): [one.text for one in sorted(each)] for node, each in held.items()} == directories


@pytest.mark.parametrize(
    ("commands", "holds"),
    [
        (("fence 101 since 45s",), True),
        (("fence 101 since 45s", "broker 101 fenced since 46s incarnation again"), True),
        (("fence 101 since 45s", "broker 101 fenced since 44s incarnation again"), False),
        (("left 101 since 45s",), True),
        # It was cut off, and runs.
        ((), False),
        (("append unregister 101 since 45s",), True),
    ],
)
def test_broker_that_was_passed_over_holds_a_copy_until_it_starts(commands: tuple[str, ...], holds: bool) -> None:
    """Each start registers it again; the partition has recovered since the election."""
    quorum = situation("unclean orders 0 recovered", *commands)

    assert (NodeId(101) in Facts(quorum).only_copies) is holds


@pytest.mark.parametrize(
    ("commands", "holders"),
    [
        (passed_over("101", replicas="101,102,103"), {101}),
        (
            (
                "partitions orders 0 replicas 101,102,103",
                "change orders 0 since 81s isr 101 elr 103 leader 101",
                "change orders 0 since 80s isr none elr 103 leader none",
                "change orders 0 since 75s isr 102 elr none leader 102 recovering yes",
            ),
            {103},
        ),
        # The election is older than what is known of the log: 104 was assigned a replica since.
        (
            (
                "append topic orders since 80s",
                "append partition orders-0 102,101,103 recovering since 80s",
                "append change orders-0 isr 102 since 79s",
                "append change orders-0 replicas 102,101,103,104 since 78s",
            ),
            {101, 103},
        ),
    ],
    ids=["in sync", "eligible", "unknown"],
)
def test_previous_isr_and_elr_hold_a_copy_or_all_replicas_if_they_are_unknown(
    commands: tuple[str, ...], holders: set[int]
) -> None:
    """Broker 102 leads, and all brokers run: those passed over by an election that is remembered have started since."""
    assert Facts(situation(*commands, "brokers 101,102,103,104")).only_copies.keys() == holders


@pytest.mark.parametrize(
    ("commands", "steps"),
    [
        ((), ()),
        (("stop-fetching 2",), ("controllers 1 and 3 before 2 fetches",)),
        (("voters 2", "stop-fetching 1"), ("controller 2 before 1 fetches",)),
        (("voters 5", "stop-fetching 2"), ()),
        (("voters 5", "stop-fetching 2,4"), ("controllers 1, 3 and 5 before 2 and 4 fetch",)),
        (("stop-fetching 2", "leaderless 1,2"), ()),
    ],
)
def test_no_voter_of_a_bare_majority_is_restarted(commands: tuple[str, ...], steps: tuple[str, ...]) -> None:
    quorum = situation(*commands)

    assert start_conditions(Facts(quorum), quorum.voter_ids) == tuple(
        f"# Do not restart {step} again: the quorum tolerates no further failure" for step in steps
    )


@pytest.mark.parametrize(("ago", "counts"), [("30s", True), ("30001ms", False)])
def test_probe_of_the_last_thirty_seconds_counts(ago: str, counts: bool) -> None:
    assert bool(resolve_names_first(Facts(situation(f"probe 1 name-not-found ago {ago}")))) is counts
