"""open-transaction, broker-fenced, observer-lagging and epoch-churn: what the log says of its own course."""

from dataclasses import replace

import pytest

from rules.evaluate import evaluate, thresholds_for
from rules.finding import Severity
from rules.lifecycle import Book, advance
from rules.model.identifiers import Millis, NodeId
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    broker,
    broker_behind,
    elected,
    findings,
    healthy,
    in_transaction,
    judged,
    key,
    leaderless,
    row,
    shut_down,
    silent,
    stalled,
    static,
    told,
    unknown,
    unseen_for,
    with_broker,
)

CHURN = "warning epoch-churn: quorum"
FENCED = with_broker(healthy(), 101, fenced=True)
LAGS = broker_behind(healthy(), 101)


@pytest.mark.parametrize(("for_ms", "fires"), [(59_000, False), (60_000, True)])
def test_a_transaction_s_age_is_the_log_s_own(for_ms: int, fires: bool) -> None:
    """We begin to watch in the middle of it: it has stood for as long as the log says."""
    thresholds = thresholds_for({})
    quorum = in_transaction(healthy(), for_ms=for_ms)
    _, alerts = advance(Book(), evaluate(quorum, thresholds), quorum, thresholds)
    assert [each.rule for each in alerts] == ["open-transaction"] * fires


def test_a_transaction_without_a_name() -> None:
    quorum = in_transaction(healthy(), for_ms=61_000)
    assert quorum.open_transaction is not None
    (finding,) = findings(
        replace(quorum, open_transaction=replace(quorum.open_transaction, name=None)), "open-transaction"
    )
    assert finding.summary.startswith("a transaction is open in the metadata log since offset 9000, for 61 s")


def test_who_left_in_order_is_known_and_who_did_not_is_looked_for() -> None:
    (crashed,) = findings(FENCED, "broker-fenced")
    (left,) = findings(shut_down(healthy(), 101), "broker-fenced")
    assert (crashed.severity, left.severity) == (Severity.WARNING, Severity.INFO)
    assert crashed.summary == "broker 101 is fenced: its heartbeats are not heard; 1 of 2 registered brokers live"


def test_a_broker_that_shuts_down_is_not_fenced_yet() -> None:
    leaving = replace(broker(101), in_controlled_shutdown=True)
    assert told(replace(healthy(), brokers={**healthy().brokers, NodeId(101): leaving})) == []


@pytest.mark.parametrize(
    ("quorum", "said"),
    [
        (LAGS, ["warning observer-lagging: broker 101"]),
        (broker_behind(healthy(), 101, silent=True), ["warning observer-lagging: broker 101"]),
        (broker_behind(healthy(), 101, for_ms=29_000), []),
        # Fenced: it is known not to follow.
        (with_broker(LAGS, 101, fenced=True), ["warning broker-fenced: broker 101"]),
        # A combined node is a voter, and judged as one.
        (with_broker(silent(healthy(5), 2), 2), ["warning voter-lagging: voter 2"]),
        (stalled(LAGS), ["critical high-watermark-stalled: quorum"]),
        (leaderless(FENCED, 1), ["critical no-leader: quorum"]),
    ],
)
def test_which_broker_is_meant(quorum: Quorum, said: list[str]) -> None:
    assert told(quorum) == said


def test_a_broker_that_catches_up_is_not_named_and_not_well() -> None:
    closing = broker_behind(healthy(), 101, lags=[90_000 - 5_000 * n for n in range(12)])
    assert told(closing) == []
    assert ("observer-lagging", "broker 101") in unknown(closing)


@pytest.mark.parametrize("first", [True, False])
def test_a_broker_on_a_new_disk_is_judged_by_the_directory_that_fetches(first: bool) -> None:
    """The leader lists the old directory beside it for 300 s, in any order (LeaderState.observerStates)."""
    quorum = healthy()
    assert quorum.poll is not None
    old, now = (row(key(101, "oldDisk"), fetched_ago_ms=120_000),), quorum.poll.observers
    observers = (*old, *now) if first else (*now, *old)
    assert told(replace(quorum, poll=replace(quorum.poll, observers=observers))) == []


def test_a_broker_a_new_leader_has_not_heard_of_is_unknown() -> None:
    quorum = with_broker(healthy(), 103)
    assert told(quorum) == []
    assert ("observer-lagging", "broker 103") in unknown(quorum)
    assert quorum.poll is not None
    never = replace(row(key(103)), last_caught_up_ms=None)
    heard = replace(quorum, poll=replace(quorum.poll, observers=(*quorum.poll.observers, never)))
    assert ("observer-lagging", "broker 103") in unknown(heard)


@pytest.mark.kip("D060")
@pytest.mark.parametrize(
    ("quorum", "said"),
    [
        (elected(healthy(), 1, 2, 1, 2), [CHURN]),
        (elected(healthy(), 1, 2, 1), []),
        # One that is elected again and again is churn as well: it loses its majority each time.
        (elected(healthy(), 3, 3, 3, 3), [CHURN]),
        # A rolling restart: as many starts as elections.
        (elected(healthy(5), 1, 2, 3, 4, 5, 1, started=(1, 2, 3, 4, 5)), []),
        (elected(healthy(), 1, 2, 1, 2, 1, 2, started=(1, 2)), [CHURN]),
        # Spread over more than the window: the oldest of the four is 15 min and 3 s old.
        (elected(healthy(), 1, 2, 1, 2, every_ms=301_000), []),
        (leaderless(elected(healthy(), 1, 2, 1, 2), 1), ["critical no-leader: quorum"]),
    ],
)
def test_elections_that_no_restart_explains(quorum: Quorum, said: list[str]) -> None:
    assert told(quorum) == said


@pytest.mark.parametrize("quorum", [healthy(5), static(healthy(5))])
def test_where_the_log_tells_no_starts_a_rolling_restart_is_no_churn(quorum: Quorum) -> None:
    """Controllers register from metadata.version 3.7 on."""
    unregistered = replace(quorum, controllers={})
    assert told(elected(unregistered, 1, 2, 3, 4, 5, 1, 2, 3)) == []
    (finding,) = findings(elected(unregistered, 1, 2, 3, 4, 5, 1, 2, 3, 4), "epoch-churn")
    assert finding.summary.startswith(
        "9 elections within 15 min, more than a restart of all 5 voters, which this log does not tell, would explain; "
    )
    unasked = replace(unregistered, committed=None, poll=None)
    assert len(findings(elected(unasked, 1, 2, 1, 2), "epoch-churn")) == 1


def test_a_restart_explains_an_election_only_within_the_same_window() -> None:
    quorum = elected(healthy(), 1, 2, 1, 2, started=(1, 2, 3))
    assert told(quorum) == []
    before = tuple(replace(one, timestamp_ms=Millis(one.timestamp_ms - 900_001)) for one in quorum.past.starts)
    assert told(replace(quorum, past=replace(quorum.past, starts=before))) == [CHURN]


def test_epochs_that_nobody_won_are_evidence() -> None:
    (finding,) = findings(elected(healthy(), 1, 2, 1, 2), "epoch-churn")
    assert finding.evidence["epochs_without_a_leader"] == 3
    assert finding.summary == (
        "4 elections within 15 min, of which restarts explain 0; won: 2 by controller 1 and 2 by controller 2"
    )


def test_thresholds_reach_them() -> None:
    assert [each.rule for each in judged(elected(healthy(), 1, 2), {"epoch-churn.elections": 2}).findings] == [
        "epoch-churn"
    ]
    assert judged(elected(healthy(), 1, 2, 1, 2), {"epoch-churn.window": 100}).findings == ()
    assert judged(LAGS, {"observer-lagging.lag": 90}).findings == ()


@pytest.mark.parametrize("rule", ["open-transaction", "broker-fenced", "observer-lagging", "epoch-churn"])
def test_a_log_that_is_not_followed_is_not_judged(rule: str) -> None:
    hurt = elected(in_transaction(broker_behind(FENCED, 102), for_ms=61_000), 1, 2, 1, 2)
    assert len(findings(hurt, rule)) == 1
    assert (rule, None) in unknown(unseen_for(hurt, log_ms=11_000, poll_ms=None))
