"""voter-change-stuck, forced-reconfiguration, ghost-registration and quorum-shape: who is in the set, and who was."""

from dataclasses import replace

import pytest

from rules.model.identifiers import Millis, Offset
from rules.model.poll import LagSample
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    NOW,
    adding,
    behind,
    findings,
    forced,
    healthy,
    history,
    judged,
    key,
    leaderless,
    observer,
    registered,
    removed,
    silent,
    stalled,
    static,
    told,
    unknown,
    unseen_for,
)

STUCK = "warning voter-change-stuck: quorum"


def removing(quorum: Quorum, node: int) -> Quorum:
    """remove-controller was accepted and not committed."""
    assert quorum.poll is not None
    left = tuple(row for row in quorum.poll.voters if row.key.id != node)
    gone = next(row for row in quorum.poll.voters if row.key.id == node)
    poll = replace(quorum.poll, voters=left, observers=(*quorum.poll.observers, gone))
    return replace(quorum, poll=poll)


def test_a_change_that_waits_names_who_is_added_and_removed() -> None:
    (finding,) = findings(removing(adding(healthy(), 4), 1), "voter-change-stuck")
    assert finding.evidence["adding"] == [str(key(4))]
    assert finding.evidence["removing"] == [str(key(1))]
    assert finding.summary == (
        "a change of the voter set is not committed (adding controller 4 and removing controller 1): "
        "3 of its 3 voters keep up, 2 are needed"
    )


def test_what_to_do_is_to_make_the_voters_of_the_new_set_fetch_and_keep_up() -> None:
    (well,) = findings(adding(healthy(), 4), "voter-change-stuck")
    assert well.remedy[0].startswith("# Every voter of the new set keeps up: read the log of the leader, controller 3")
    hurt = adding(behind(silent(healthy(5), 1), 2), 6)
    (finding,) = findings(hurt, "voter-change-stuck")
    assert finding.remedy[:3] == (
        "# Start controller 1, or see in its log why it does not fetch from the leader",
        "# See what slows controller 2: it fetches and does not catch up",
        "# Begin no other change of the voter set until this one is committed or gone",
    )


def test_the_leader_that_is_being_removed_is_no_case_of_its_own() -> None:
    """It leads on until the change commits (KIP-853)."""
    assert told(removing(healthy(), 3)) == [STUCK]


@pytest.mark.parametrize(
    ("quorum", "said"),
    [
        (adding(healthy(), 4), [STUCK]),
        (static(adding(healthy(), 4)), []),
        # What we read of the log is older than the poll.
        (unseen_for(adding(healthy(), 4), log_ms=11_000, poll_ms=None), []),
        (stalled(adding(healthy(), 4)), ["critical high-watermark-stalled: quorum"]),
        (leaderless(adding(healthy(), 4), 1), ["critical no-leader: quorum"]),
    ],
)
def test_who_can_be_judged(quorum: Quorum, said: list[str]) -> None:
    assert [each for each in told(quorum) if "monitor-blind" not in each and "quorum-shape" not in each] == said


def test_what_is_not_seen_is_not_well() -> None:
    assert ("voter-change-stuck", None) in unknown(unseen_for(adding(healthy(), 4), log_ms=11_000, poll_ms=None))


def test_a_forced_change_is_news_for_an_hour() -> None:
    jumped = forced(healthy(), before=(1, 2, 3), after=(3, 4))
    (finding,) = findings(jumped, "forced-reconfiguration")
    assert finding.evidence["left"] == [str(key(1)), str(key(2))]
    assert finding.evidence["came"] == [str(key(4))]
    assert told(forced(healthy(), before=(1, 2, 3), after=(3,), ago_ms=3_600_000)) != []
    assert told(forced(healthy(), before=(1, 2, 3), after=(3,), ago_ms=3_600_001)) == []


def test_two_forced_changes_are_two() -> None:
    twice = forced(healthy(), before=(1, 2, 3), after=(3,))
    later = replace(twice.past.reconfigurations[0], offset=Offset(9_001))
    both = replace(twice, past=replace(twice.past, reconfigurations=(*twice.past.reconfigurations, later)))
    assert [each.subject for each in findings(both, "forced-reconfiguration")] == [
        "voter set at offset 9000",
        "voter set at offset 9001",
    ]


def test_a_ghost_is_registered_and_nowhere_to_be_seen() -> None:
    (finding,) = findings(registered(healthy(), 9), "ghost-registration")
    assert finding.summary.startswith("controller 9 is registered, is no voter and does not fetch (not since it is")
    assert finding.evidence["registered_endpoints"] == ["c9.test:9093"]


@pytest.mark.parametrize(
    "quorum",
    [
        # A voter that is down is no ghost.
        silent(healthy(), 2),
        # An observer is there.
        observer(healthy(), 4),
        # A voter that was removed is listed as an observer.
        removing(healthy(), 1),
        adding(healthy(), 4),
        # Its registration may be older than what we read.
        unseen_for(registered(healthy(), 9), log_ms=11_000, poll_ms=None),
        unseen_for(registered(healthy(), 9), log_ms=None, poll_ms=11_000),
    ],
)
def test_no_ghost(quorum: Quorum) -> None:
    assert findings(quorum, "ghost-registration") == []


@pytest.mark.parametrize(
    ("listed_ago_ms", "fetched_before_ms", "ghost"),
    [
        # A leader lists it for 300 s after its last fetch, and no longer: what it drops is gone.
        (1_000, 298_000, False),
        (1_000, 300_000, True),
        # A new leader does not list it before it fetches again.
        (299_000, 500, False),
        (299_500, 500, True),
        # No answer told when it fetched.
        (299_000, None, False),
        (300_000, None, True),
    ],
)
def test_who_fetched_just_now_may_be_back(listed_ago_ms: int, fetched_before_ms: int | None, ghost: bool) -> None:
    quorum = listed_until(registered(healthy(), 9), 9, ago_ms=listed_ago_ms, fetched_before_ms=fetched_before_ms)
    assert bool(findings(quorum, "ghost-registration")) is ghost
    assert (("ghost-registration", "controller 9") in unknown(quorum)) is not ghost


def test_a_removed_controller_that_was_switched_off_is_a_ghost() -> None:
    quorum = listed_until(removed(healthy(4), 1, ago_ms=900_000), 1, ago_ms=300_000, fetched_before_ms=299_000)
    assert told(quorum) == ["info ghost-registration: controller 1"]
    (finding,) = findings(quorum, "ghost-registration")
    assert finding.evidence["seen_fetching"] == "last 9 min ago"


def listed_until(quorum: Quorum, node: int, *, ago_ms: int, fetched_before_ms: int | None) -> Quorum:
    """The last poll that listed this observer, and how long before it it had fetched."""
    at = Millis(NOW - ago_ms)
    age = None if fetched_before_ms is None else Millis(fetched_before_ms)
    newest = LagSample(observed_at_ms=at, lag=0, lag_ms=Millis(0), fetch_age_ms=age)
    seen = replace(history(key(node)), last_seen_at_ms=at, samples=(newest,))
    return replace(quorum, histories={**quorum.histories, key(node): seen})


@pytest.mark.parametrize(
    ("voters", "said", "tolerates"),
    [(1, ["info"], 0), (2, ["warning"], 0), (3, [], 1), (4, ["info"], 1), (5, [], 2), (6, ["info"], 2), (7, [], 3)],
)
def test_the_shape(voters: int, said: list[str], tolerates: int) -> None:
    found = findings(healthy(voters), "quorum-shape")
    assert [each.severity for each in found] == said
    assert [each.evidence["failures_tolerated"] for each in found] == [tolerates] * len(said)
    assert [each.severity for each in findings(static(healthy(voters)), "quorum-shape")] == said


def test_too_many_voters() -> None:
    (finding,) = findings(healthy(9), "quorum-shape")
    assert finding.severity == "info"
    assert finding.summary == "the quorum has 9 voters and tolerates 4 failures: every commit waits for 4 others"
    assert [each.rule for each in judged(healthy(5), {"quorum-shape.most": 3}).findings] == ["quorum-shape"]
    assert [each.rule for each in judged(healthy(9), {"quorum-shape.most": 9}).findings] == []


def test_the_shape_of_nobody_knows_what() -> None:
    assert ("quorum-shape", None) in unknown(replace(static(healthy()), poll=None))
