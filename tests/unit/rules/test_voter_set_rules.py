"""voter-change-stuck, forced-reconfiguration, ghost-registration and quorum-shape: the rules about the voter set."""

from dataclasses import replace
from itertools import pairwise

import pytest

from rules.finding import Severity
from rules.model.identifiers import Endpoint, Millis, NodeId
from rules.model.quorum import LagSample, Quorum
from tests.unit.rules.situation import (
    NOW,
    adding,
    endpoint,
    evaluation_of,
    finding_lines,
    findings,
    forced_change,
    healthy,
    history,
    key,
    leaderless,
    not_observed_for,
    observer,
    present,
    registered,
    removed_repeatedly,
    stalled,
    static,
    unknown,
    voter_not_fetching,
    voters_lagging,
    with_committed,
    with_history,
    with_past,
    with_poll,
)

ID = "voter-change-stuck"
STUCK = f"warning {ID}: quorum"


def removing(quorum: Quorum, node: int) -> Quorum:
    """Returns the quorum with a removal of this voter that is accepted and not committed."""
    poll = present(quorum.poll)
    left = tuple(row for row in poll.voters if row.key.id != node)
    gone = next(row for row in poll.voters if row.key.id == node)
    return with_poll(quorum, voters=left, observers=(*poll.observers, gone))


def shrunk(*sets: tuple[int, ...], ago_ms: int) -> Quorum:
    """Returns a quorum of the last of these voter sets, each of which followed the one before, all at this time."""
    quorum = healthy(len(sets[-1]))
    for before, after in pairwise(sets):
        quorum = forced_change(quorum, before=before, after=after, ago_ms=ago_ms)
    return quorum


def test_two_voters_that_were_removed_within_an_hour_are_a_warning_at_once() -> None:
    (finding,) = findings(shrunk((1, 2, 3), (1, 2), (1,), ago_ms=3_599_000), "quorum-shape")
    assert (finding.severity, finding.hold_ms) == (Severity.WARNING, 0)
    assert finding.summary.startswith("3 voters became 1 within an hour: 2 and 3 were removed.")

    later = shrunk((1, 2, 3), (1, 2), (1,), ago_ms=3_600_001)
    assert [(one.severity, one.hold_ms) for one in findings(later, "quorum-shape")] == [(Severity.INFO, None)]
    assert findings(shrunk((1, 2, 3, 4, 5), (1, 2, 3, 4), (1, 2, 3), ago_ms=1_000), "quorum-shape") == []
    # Voters that are replaced one by one, the old one removed first: two are left for a while.
    replaced = shrunk((7, 8, 1), (8, 1), (8, 1, 2), (1, 2), ago_ms=1_000)
    assert [one.hold_ms for one in findings(replaced, "quorum-shape")] == [None]
    at_once = shrunk((1, 2, 3), (1,), ago_ms=1_000)
    assert [one.severity for one in findings(at_once, "quorum-shape")] == [Severity.INFO], "forced-reconfiguration"


def test_a_pending_change_names_the_voters_that_are_added_and_removed() -> None:
    (finding,) = findings(removing(adding(healthy(), 4), 1), "voter-change-stuck")
    assert finding.evidence["adding"] == [str(key(4))]
    assert finding.evidence["removing"] == [str(key(1))]
    assert finding.summary == (
        "A change of the voter set is not committed: adding controller 4 and removing controller 1. "
        "3 of the 3 voters of the new set are in sync; 2 are needed."
    )


def moving(quorum: Quorum, node: int) -> Quorum:
    """Returns the quorum with a new endpoint of this voter that the leader uses and that is not committed."""
    nodes = {**present(quorum.poll).nodes, NodeId(node): (endpoint(node, port=19093),)}
    return with_poll(quorum, nodes=nodes)


def test_a_change_of_endpoints_alone_is_pending() -> None:
    quorum = moving(healthy(), 2)
    (finding,) = findings(quorum, "voter-change-stuck")
    assert finding.summary.startswith("A change of the voter set is not committed: moving controller 2. ")
    assert finding.evidence["moving"] == {"2": ["c2.test:19093"]}
    (wait,) = (one.remedy[0] for one in findings(moving(observer(healthy(), 5), 2), "observer-could-be-voter"))
    assert wait == "# Wait until the pending change of the voter set is committed or dropped"


def test_endpoints_in_another_order_or_not_reported_are_no_pending_change() -> None:
    quorum = healthy()
    extra = Endpoint(listener="EXTRA", host="c1.test", port=9094)
    voters = tuple(replace(one, endpoints=(*one.endpoints, extra)) for one in quorum.voters)
    nodes = {node: (extra, *endpoints) for node, endpoints in present(quorum.poll).nodes.items()}
    reordered = with_committed(with_poll(quorum, nodes=nodes), voters=voters)
    assert findings(reordered, "voter-change-stuck") == []
    assert findings(with_poll(quorum, nodes={}), "voter-change-stuck") == []


def test_the_remedy_of_a_pending_change_is_to_bring_the_voters_of_the_new_set_in_sync() -> None:
    quorum = adding(voters_lagging(voter_not_fetching(healthy(5), 1), 2), 6)
    (finding,) = findings(quorum, "voter-change-stuck")
    assert finding.remedy[:5] == (
        "# Check in the log of controller 1 why it does not fetch from the leader: its process accepts connections at "
        "c1.test:9093",
        "# If controller 1 hangs, take a thread dump before you restart it: jcmd PID Thread.print",
        "# Check the path voter 2 -> leader 5 for long round trips and lost packets: a fetch that takes longer than "
        "controller.quorum.request.timeout.ms (2 s) is given up and repeated",
        "# Check the metadata disk and the CPU of controller 2",
        "# Do not start another change of the voter set until this one is committed or dropped",
    )


def test_removals_of_different_voters_and_of_replaced_disks_are_no_repeated_ones() -> None:
    changes = [removed_repeatedly(healthy(), node, ago_s=(600, 300)).history.voter_changes for node in (1, 2, 3)]
    merged = tuple(one for each in changes for one in each)
    assert findings(with_past(healthy(), voter_changes=merged), ID) == []


def test_repeated_removals_of_one_directory_name_no_other_process() -> None:
    quorum = removed_repeatedly(healthy(), 2, ago_s=(9, 6, 3, 0))
    (alone,) = findings(quorum, ID)
    assert alone.summary == (
        "Controller 2 was removed from the voters 4 times within 9 s. It was added again in between."
    )
    (stopped,) = findings(observer(quorum, 2, directory="otherDirOf2", fetched_ago_ms=11_000), ID)
    assert stopped.summary == alone.summary, "a directory that fetched before is not in use"


@pytest.mark.parametrize(
    ("quorum", "firing"),
    [
        (adding(healthy(), 4), [STUCK]),
        # The leader leads until its own removal is committed (KIP-853).
        (removing(healthy(), 3), [STUCK]),
        (static(adding(healthy(), 4)), []),
        # The metadata log was read before the poll.
        (not_observed_for(adding(healthy(), 4), log_ms=11_000, poll_ms=None), []),
        (stalled(adding(healthy(), 4)), ["critical high-watermark-stalled: quorum", STUCK]),
        (leaderless(adding(healthy(), 4), 1), ["critical no-leader: quorum"]),
    ],
)
def test_a_pending_change_fires_only_if_it_can_be_evaluated(quorum: Quorum, firing: list[str]) -> None:
    assert [
        each for each in finding_lines(quorum) if "monitor-blind" not in each and "quorum-shape" not in each
    ] == firing


def test_remedy_of_a_forced_change_that_removed_no_voter_keeps_no_controller_off() -> None:
    (adding_two,) = findings(forced_change(healthy(), before=(1,), after=(1, 2, 3)), "forced-reconfiguration")
    assert adding_two.remedy[1] == "# Check that every voter of the new set is meant to be a voter"


@pytest.mark.parametrize(
    "quorum",
    [
        # A voter that is down.
        voter_not_fetching(healthy(), 2),
        # An observer.
        observer(healthy(), 4),
        # A voter that was removed is listed as an observer.
        removing(healthy(), 1),
        adding(healthy(), 4),
        # The log or the poll is not current.
        not_observed_for(registered(healthy(), 9), log_ms=11_000, poll_ms=None),
        not_observed_for(registered(healthy(), 9), log_ms=None, poll_ms=11_000),
    ],
)
def test_voters_and_observers_are_not_ghost_registrations(quorum: Quorum) -> None:
    assert findings(quorum, "ghost-registration") == []


@pytest.mark.parametrize(
    ("listed_ago_ms", "fetched_before_ms", "ghost"),
    [
        # A leader lists an observer for 300 s after its last fetch.
        (1_000, 298_000, False),
        (1_000, 300_000, True),
        # A new leader does not list an observer before it fetches again.
        (299_000, 500, False),
        (299_500, 500, True),
        # No poll reported its last fetch.
        (299_000, None, False),
        (300_000, None, True),
    ],
)
def test_a_controller_that_fetched_recently_is_unknown(
    listed_ago_ms: int, fetched_before_ms: int | None, ghost: bool
) -> None:
    quorum = listed_until(registered(healthy(), 9), 9, ago_ms=listed_ago_ms, fetched_before_ms=fetched_before_ms)
    assert bool(findings(quorum, "ghost-registration")) is ghost
    assert (("ghost-registration", "controller 9") in unknown(quorum)) is not ghost


def test_a_controller_with_a_new_directory_fetched_when_that_one_did() -> None:
    quorum = listed_until(registered(healthy(), 9), 9, ago_ms=900_000, fetched_before_ms=500)
    assert findings(quorum, "ghost-registration")
    new = history(key(9, "newDirOf9"))
    assert findings(with_history(quorum, new), "ghost-registration") == []


def test_a_controller_fetched_last_as_the_newest_poll_says() -> None:
    quorum = registered(healthy(), 9)
    samples = tuple(
        LagSample(observed_at_ms=Millis(NOW - ago_ms), lag=0, lag_ms=Millis(0), fetch_age_ms=Millis(age_ms))
        for ago_ms, age_ms in ((60_000, 290_000), (55_000, 500))
    )
    fetched = replace(history(key(9)), samples=samples)
    assert findings(with_history(quorum, fetched), "ghost-registration") == []


def listed_until(quorum: Quorum, node: int, *, ago_ms: int, fetched_before_ms: int | None) -> Quorum:
    """Returns the quorum with the last poll that listed this observer, and the age of its last fetch in that poll."""
    at = Millis(NOW - ago_ms)
    age = None if fetched_before_ms is None else Millis(fetched_before_ms)
    newest = LagSample(observed_at_ms=at, lag=0, lag_ms=Millis(0), fetch_age_ms=age)
    seen = replace(history(key(node)), last_seen_at_ms=at, samples=(newest,))
    return with_history(quorum, seen)


@pytest.mark.parametrize(
    ("voters", "severities", "tolerates"),
    [(1, ["info"], 0), (2, ["warning"], 0), (3, [], 1), (4, ["info"], 1), (5, [], 2), (6, ["info"], 2), (7, [], 3)],
)
def test_the_severity_of_a_number_of_voters(voters: int, severities: list[str], tolerates: int) -> None:
    found = findings(healthy(voters), "quorum-shape")
    assert [each.severity for each in found] == severities
    assert [each.evidence["failures_tolerated"] for each in found] == [tolerates] * len(severities)
    assert [each.severity for each in findings(static(healthy(voters)), "quorum-shape")] == severities


def test_more_voters_than_the_threshold_are_reported() -> None:
    (finding,) = findings(healthy(9), "quorum-shape")
    assert finding.severity == "info"
    assert finding.summary == "The quorum has 9 voters and tolerates 4 failures. Every commit waits for 4 other voters."
    assert [each.rule for each in evaluation_of(healthy(5), {"quorum-shape.most": 3}).findings] == ["quorum-shape"]
    assert [each.rule for each in evaluation_of(healthy(9), {"quorum-shape.most": 9}).findings] == []
