"""observer-could-be-voter: which observers are reported, and what adding them as voters would gain."""

from dataclasses import replace

import pytest

from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    NOW,
    finding_lines,
    findings,
    healthy,
    history,
    key,
    observer,
    present,
    removed,
    unknown,
    unknown_reasons,
    voter_not_fetching,
    with_history,
    with_poll,
)

RULE = "observer-could-be-voter"


@pytest.mark.parametrize(
    ("voters", "waiting", "severity", "before", "after"),
    [
        (1, (4,), "info", 0, 0),
        (2, (4,), "warning", 0, 1),
        (3, (4,), "info", 1, 1),
        (4, (5,), "warning", 1, 2),
        (3, (4, 5), "warning", 1, 1),
        (1, (4, 5), "warning", 0, 0),
    ],
)
def test_severity_and_evidence_follow_the_gain_in_failure_tolerance(
    voters: int, waiting: tuple[int, ...], severity: str, before: int, after: int
) -> None:
    quorum = healthy(voters)
    for node in waiting:
        quorum = observer(quorum, node)
    found = findings(quorum, RULE)
    assert [each.severity for each in found] == [severity] * len(waiting)
    assert found[0].evidence["failures_tolerated"] == before
    assert found[0].evidence["failures_tolerated_with_this_observer"] == after


@pytest.mark.parametrize(
    "quorum",
    [
        # Brokers, and other nodes that never registered as a controller.
        healthy(),
        observer(healthy(), 103, registered=False),
        # Removed less than 300 s ago: Kafka lists it as an observer for that long.
        observer(removed(healthy(), 2, ago_ms=299_000), 2),
        # Another directory of a voter's id: voter-disk-replaced reports that.
        observer(voter_not_fetching(healthy(), 2), 2, directory="newDirOf2"),
        observer(removed(voter_not_fetching(healthy(), 2), 2, ago_ms=400_000), 2, directory="newDirOf2"),
    ],
)
def test_brokers_removed_voters_and_replaced_disks_are_not_reported(quorum: Quorum) -> None:
    assert findings(quorum, RULE) == []


def test_a_voter_whose_addition_is_pending_is_not_reported() -> None:
    """The voters in DescribeQuorum are the leader's latest set, which may not be committed yet."""
    quorum = observer(healthy(), 4)
    joining = next(row for row in present(quorum.poll).observers if row.key.id == 4)
    assert findings(with_poll(quorum, voters=(*present(quorum.poll).voters, joining)), RULE) == []


@pytest.mark.parametrize(
    ("lags", "state", "first"),
    [
        ([0] * 30, "ready", "# Add"),
        # One bad sample in the window: the whole window is evaluated, as Burrow does.
        ([0] * 15 + [5_000] + [0] * 14, "lagging", "# Wait"),
        ([60_000 - 1_000 * n for n in range(30)], "catching up", "# Wait"),
        # Samples older than the window do not count.
        ([9_000] * 10 + [0] * 30, "ready", "# Add"),
        ([0, 0], "unknown", "# Add"),
    ],
)
def test_readiness_is_evaluated_on_the_window(lags: list[int], state: str, first: str) -> None:
    (finding,) = findings(observer(healthy(), 4, lags=lags), RULE)
    assert finding.evidence["readiness"] == state
    assert finding.remedy[0].startswith(first)


def test_a_voter_that_does_not_fetch_is_started_or_removed_first() -> None:
    (finding,) = findings(observer(voter_not_fetching(healthy(), 1), 4), RULE)
    assert finding.evidence["voters_not_fetching"] == [1]
    assert finding.remedy[0] == ("# Before you add this observer, start or remove the voters that do not fetch: 1")


def test_an_observer_that_stops_fetching_is_unknown() -> None:
    quorum = observer(healthy(), 4, fetched_ago_ms=30_000, lags=(30_000,) * 5)
    assert finding_lines(quorum) == []
    assert unknown_reasons(quorum, RULE) == [(f"observer {key(4)}", f"observer {key(4)} is not fetching")]


def test_after_an_election_an_observer_is_unknown_and_not_lagging() -> None:
    """A new leader lists an observer only from its first fetch on, and does not know its earlier progress."""
    quorum = observer(healthy(), 4)
    elected = with_poll(quorum, observers=present(quorum.poll).observers[:2])
    assert unknown_reasons(elected, RULE) == [(f"observer {key(4)}", f"the leader does not list observer {key(4)} yet")]
    for ago_ms, unknown_now in ((299_999, True), (300_000, False)):
        history = replace(quorum.histories[key(4)], last_seen_at_ms=Millis(NOW - ago_ms))
        assert ((RULE, f"observer {key(4)}") in unknown(with_history(elected, history))) is unknown_now, ago_ms

    samples = quorum.histories[key(4)].samples
    without_progress = replace(samples[20], lag=None, lag_ms=None, fetch_age_ms=None)
    history = replace(quorum.histories[key(4)], samples=(*samples[:20], without_progress, *samples[21:]))
    (finding,) = findings(with_history(quorum, history), RULE)
    assert finding.evidence["readiness"] == "ready"


def test_an_observer_that_stopped_fetching_and_is_no_longer_listed_is_not_unknown() -> None:
    quorum = observer(healthy(), 4, fetched_ago_ms=30_000, lags=(300_000,) * 5)
    not_fetching = replace(quorum.histories[key(4)].samples[-1], fetch_age_ms=Millis(299_000))
    history = replace(quorum.histories[key(4)], samples=(not_fetching,))
    gone = replace(with_poll(quorum, observers=()), histories={key(4): history})
    assert (RULE, f"observer {key(4)}") not in unknown(gone)


@pytest.mark.parametrize(("registered", "expected"), [(True, [(RULE, f"observer {key(4)}")]), (False, [])])
def test_an_observer_that_is_not_listed_now_is_unknown_only_if_it_is_a_registered_controller(
    registered: bool, expected: list[tuple[str, str]]
) -> None:
    unlisted = with_poll(observer(healthy(), 4, registered=registered), observers=())

    assert [each for each in unknown(unlisted) if each[0] == RULE] == expected


def test_two_observers_with_the_same_id_count_as_one_voter() -> None:
    first, second = findings(observer(observer(healthy(), 4), 4, directory="otherDirOf4"), RULE)
    assert {first.severity, second.severity} == {Severity.INFO}
    assert first.evidence["failures_tolerated_with_all_observers"] == 1
    assert "with all" not in first.summary
    assert "together with another one" in first.remedy[0]


def test_the_former_directory_of_a_voter_is_not_unknown() -> None:
    """The directory was listed minutes ago and is not listed now. Its id belongs to a voter, so it cannot be added."""
    quorum = healthy()
    assert unknown(with_history(quorum, history(key(2, "oldDirOf2")))) == []


@pytest.mark.parametrize(("fetch_age_ms", "expected"), [(10_000, [(RULE, f"observer {key(4)}")]), (10_001, [])])
def test_an_observer_that_fetched_within_the_limit_when_last_listed_is_unknown(
    fetch_age_ms: int, expected: list[tuple[str, str]]
) -> None:
    quorum = observer(healthy(), 4)
    seen = quorum.histories[key(4)]
    fetched = replace(seen, samples=(replace(seen.samples[-1], fetch_age_ms=Millis(fetch_age_ms)),))
    unlisted = replace(with_poll(quorum, observers=()), histories={key(4): fetched})

    assert [each for each in unknown(unlisted) if each[0] == RULE] == expected
