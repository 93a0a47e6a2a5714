"""observer-could-be-voter: who is meant, who is not, and what promoting would gain."""

from dataclasses import replace

import pytest

from rules.checks.observer_could_be_voter import tolerated
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from tests.unit.rules.situation import NOW, findings, healthy, history, key, observer, removed, silent, told, unknown

RULE = "observer-could-be-voter"


@pytest.mark.kip("A096")
def test_a_waiting_controller() -> None:
    (finding,) = findings(observer(healthy(), 4), RULE)
    assert finding.subject == f"observer {key(4)}"
    assert finding.severity is Severity.INFO
    assert finding.evidence["keeps_up"] == "ready"
    assert finding.remedy[0].startswith("# Adding controller 4 alone gains nothing: 4 voters tolerate 1 failure")
    assert finding.remedy[-1] == (
        "kafka-metadata-quorum.sh --bootstrap-controller c3.test:9093 --command-config $NODE_PROPERTIES add-controller"
    )


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
def test_what_it_would_gain(voters: int, waiting: tuple[int, ...], severity: str, before: int, after: int) -> None:
    quorum = healthy(voters)
    for node in waiting:
        quorum = observer(quorum, node)
    found = findings(quorum, RULE)
    assert [each.severity for each in found] == [severity] * len(waiting)
    assert found[0].evidence["failures_tolerated"] == before
    assert found[0].evidence["failures_tolerated_with_it"] == after


@pytest.mark.parametrize(("voters", "failures"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2), (7, 3)])
def test_failures_tolerated(voters: int, failures: int) -> None:
    assert tolerated(voters) == failures


@pytest.mark.kip("A080", "K031")
@pytest.mark.parametrize(
    "quorum",
    [
        # Brokers, and whatever else never registered as a controller.
        healthy(),
        observer(healthy(), 103, registered=False),
        # Removed less than 300 s ago: Kafka lists it as an observer for that long.
        observer(removed(healthy(), 2, ago_ms=299_000), 2),
        # Another directory of a voter's id: voter-disk-replaced speaks of that.
        observer(silent(healthy(), 2), 2, directory="newDirOf2"),
        observer(removed(silent(healthy(), 2), 2, ago_ms=400_000), 2, directory="newDirOf2"),
    ],
)
def test_not_meant(quorum: Quorum) -> None:
    assert findings(quorum, RULE) == []


def test_the_disk_that_a_voter_had_before_is_not_waited_for() -> None:
    """It was seen minutes ago and is listed no more: the voter's id is not one that could join."""
    quorum = healthy()
    former = {key(2, "oldDirOf2"): history(key(2, "oldDirOf2"))}
    assert unknown(replace(quorum, histories={**quorum.histories, **former})) == []


def test_how_far_it_is_behind_may_be_unknown() -> None:
    quorum = observer(healthy(), 4)
    seen = quorum.histories[key(4)]
    unheard = replace(seen.samples[-1], lag=None, lag_ms=None)
    known = {**quorum.histories, key(4): replace(seen, samples=(*seen.samples, unheard))}
    (finding,) = findings(replace(quorum, histories=known), RULE)
    assert (finding.evidence["behind"], finding.evidence["records_behind"]) == (None, None)
    assert finding.evidence["keeps_up"] == "ready"


def test_a_voter_removed_long_ago_that_still_runs_is_meant() -> None:
    assert len(findings(observer(removed(healthy(), 2, ago_ms=301_000), 2), RULE)) == 1


def test_a_pending_voter_is_one_already() -> None:
    """DescribeQuorum's voters are the leader's latest set: the change is on its way."""
    quorum = observer(healthy(), 4)
    assert quorum.poll is not None
    joining = next(row for row in quorum.poll.observers if row.key.id == 4)
    assert findings(replace(quorum, poll=replace(quorum.poll, voters=(*quorum.poll.voters, joining))), RULE) == []


@pytest.mark.kip("A069", "D123")
@pytest.mark.parametrize(
    ("lags", "state", "first"),
    [
        ([0] * 30, "ready", "# Adding"),
        ([1_900, 400] * 15, "ready", "# Adding"),
        # One bad sample in the window: judged on the window, as Burrow does.
        ([0] * 15 + [5_000] + [0] * 14, "lagging", "# Wait"),
        ([60_000 - 1_000 * n for n in range(30)], "catching up", "# Wait"),
        ([60_000 + 1_000 * n for n in range(30)], "lagging", "# Wait"),
        # What was long ago does not count.
        ([9_000] * 10 + [0] * 30, "ready", "# Adding"),
        ([0, 0], "unknown", "# Adding"),
    ],
)
def test_how_it_keeps_up(lags: list[int], state: str, first: str) -> None:
    (finding,) = findings(observer(healthy(), 4, lags=lags), RULE)
    assert finding.evidence["keeps_up"] == state
    assert finding.remedy[0].startswith(first)


def test_a_silent_voter_is_removed_first() -> None:
    (finding,) = findings(observer(silent(healthy(), 1), 4), RULE)
    assert finding.evidence["voters_silent"] == [1]
    assert finding.remedy[0].startswith("# Voter 1 does not fetch: if it is gone for good, remove it before")


def test_an_observer_that_stops_fetching_is_not_forgotten() -> None:
    quorum = observer(healthy(), 4, fetched_ago_ms=30_000, lags=(30_000,) * 5)
    assert told(quorum) == []
    assert (RULE, f"observer {key(4)}") in unknown(quorum)


def test_an_election_does_not_make_it_forgotten_nor_lagging() -> None:
    """A new leader lists an observer only from its first fetch on, and knows of no progress before."""
    quorum = observer(healthy(), 4)
    assert quorum.poll is not None
    elected = replace(quorum, poll=replace(quorum.poll, observers=quorum.poll.observers[:2]))
    assert (RULE, f"observer {key(4)}") in unknown(elected)
    long_ago = replace(quorum.histories[key(4)], last_seen_at_ms=Millis(NOW - 300_000))
    gone = replace(elected, histories={**elected.histories, key(4): long_ago})
    assert (RULE, f"observer {key(4)}") not in unknown(gone)

    samples = quorum.histories[key(4)].samples
    nothing = replace(samples[20], lag=None, lag_ms=None, fetch_age_ms=None)
    history = replace(quorum.histories[key(4)], samples=(*samples[:20], nothing, *samples[21:]))
    (finding,) = findings(replace(quorum, histories={**quorum.histories, key(4): history}), RULE)
    assert finding.evidence["keeps_up"] == "ready"


@pytest.mark.kip("D142")
def test_an_observer_that_fell_silent_and_is_listed_no_more_is_over() -> None:
    quorum = observer(healthy(), 4, fetched_ago_ms=30_000, lags=(300_000,) * 5)
    assert quorum.poll is not None
    silent_before = replace(quorum.histories[key(4)].samples[-1], fetch_age_ms=Millis(299_000))
    history = replace(quorum.histories[key(4)], samples=(silent_before,))
    gone = replace(quorum, poll=replace(quorum.poll, observers=()), histories={key(4): history})
    assert (RULE, f"observer {key(4)}") not in unknown(gone)


def test_two_observers_with_one_id_would_be_one_voter() -> None:
    first, second = findings(observer(observer(healthy(), 4), 4, directory="otherDirOf4"), RULE)
    assert {first.severity, second.severity} == {Severity.INFO}
    assert first.evidence["failures_tolerated_with_all"] == 1
    assert "with all" not in first.summary
    assert "add it together with another one" in first.remedy[0]
