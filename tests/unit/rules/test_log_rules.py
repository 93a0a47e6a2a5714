"""open-transaction, broker-fenced, observer-lagging and epoch-churn: the rules that read the metadata log."""

from dataclasses import replace

import pytest

from rules.evaluate import evaluate, thresholds_for
from rules.finding import Severity
from rules.lifecycle import TrackedConditions, advance
from rules.model.history import Interruption
from rules.model.identifiers import Millis, NodeId, Offset
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    EPOCH,
    broker_lagging,
    controller_start,
    elected,
    epoch_jumped,
    evaluation_of,
    finding_lines,
    findings,
    healthy,
    in_transaction,
    key,
    leaderless,
    present,
    recovering,
    row,
    shut_down,
    silent,
    stalled,
    static,
    unknown_reasons,
    voter_not_fetching,
    with_broker,
    with_past,
    with_poll,
    with_rows,
)

CHURN = "warning epoch-churn: quorum"
FENCED = with_broker(healthy(), 101, fenced=True)
LAGGING = broker_lagging(healthy(), 101)


def test_controller_stuck_does_not_explain_a_log_that_is_not_committed_or_has_no_noops() -> None:
    assert finding_lines(silent(healthy())) == ["critical controller-stuck: active controller"]
    assert finding_lines(silent(healthy(), for_ms=11_000)) == []
    assert finding_lines(stalled(silent(healthy()))) == ["critical high-watermark-stalled: quorum"]
    without_noops = replace(healthy(), silent_ms=None)
    ((_, why),) = unknown_reasons(without_noops, "controller-stuck")
    assert why.startswith("whether the active controller appends is ")


@pytest.mark.parametrize(("for_ms", "fires"), [(59_000, False), (60_000, True)])
def test_an_open_transaction_is_aged_by_the_timestamps_in_the_log(for_ms: int, fires: bool) -> None:
    """Monitoring begins in the middle of the transaction: the hold counts from the beginning in the log."""
    thresholds = thresholds_for({})
    quorum = in_transaction(healthy(), for_ms=for_ms)
    _, alerts = advance(TrackedConditions(), evaluate(quorum, thresholds), quorum, thresholds)
    assert [each.rule for each in alerts] == ["open-transaction"] * fires


@pytest.mark.parametrize(
    ("of", "restarted", "ended", "starting"),
    [(101, True, None, True), (101, False, None, False), (101, True, 9_800, False), (102, True, None, False)],
)
def test_a_broker_that_registered_again_and_is_not_ready_is_starting(
    of: int, restarted: bool, ended: int | None, starting: bool
) -> None:
    """It sends heartbeats, and asks to stay fenced until it has recovered its logs (BrokerServer.startup)."""
    one = Interruption(
        id=NodeId(of),
        offset=Offset(9_700),
        timestamp_ms=Millis(FENCED.now_ms - 600_000),
        announced=False,
        restarted=restarted,
        ended_offset=None if ended is None else Offset(ended),
    )
    quorum = with_poll(with_past(FENCED, interruptions=(one,)), observers=())
    (finding,) = findings(quorum, "broker-fenced")

    assert ("it has registered again and is still starting, or has failed since." in finding.summary) is starting
    assert ("receives no heartbeats" in finding.summary) is not starting
    assert ("wait and do not restart it" in finding.remedy[0]) is starting


def test_broker_that_left_and_may_hold_the_only_copy_is_a_warning_with_the_number_of_its_partitions() -> None:
    (left,) = findings(recovering(shut_down(healthy(), 101), 0, 3, 4), "broker-fenced")
    assert left.severity is Severity.WARNING
    assert left.evidence["recovering_partitions_on_broker"] == 3


@pytest.mark.parametrize(("left", "severity"), [(False, Severity.CRITICAL), (True, Severity.WARNING)])
def test_fenced_brokers_are_one_step_worse_if_no_broker_is_alive(left: bool, severity: Severity) -> None:
    quorum = healthy()
    for node in quorum.brokers:
        quorum = shut_down(quorum, node) if left else with_broker(quorum, node, fenced=True)
    fenced = findings(quorum, "broker-fenced")

    assert [one.severity for one in fenced] == [severity] * len(quorum.brokers)
    assert fenced[0].summary.endswith("Brokers alive: 0 of 2 registered.")


@pytest.mark.parametrize(
    ("quorum", "firing"),
    [
        (LAGGING, ["warning observer-lagging: broker 101"]),
        (broker_lagging(healthy(), 101, silent=True), ["warning observer-lagging: broker 101"]),
        (broker_lagging(healthy(), 101, for_ms=29_000), []),
        # A fenced broker does not have to follow the log.
        (with_broker(LAGGING, 101, fenced=True), ["warning broker-fenced: broker 101"]),
        # A combined node is a voter, and is evaluated as one.
        (with_broker(voter_not_fetching(healthy(5), 2), 2), ["warning voter-lagging: voter 2"]),
        (stalled(LAGGING), ["critical high-watermark-stalled: quorum"]),
        (leaderless(FENCED, 1), ["critical no-leader: quorum"]),
    ],
)
def test_a_broker_is_reported_by_the_rule_that_names_its_problem(quorum: Quorum, firing: list[str]) -> None:
    assert finding_lines(quorum) == firing


@pytest.mark.parametrize("first", [True, False])
def test_a_broker_with_a_new_disk_is_evaluated_by_the_directory_that_fetches(first: bool) -> None:
    """The leader also lists the old directory for 300 s, in any order (LeaderState.observerStates)."""
    quorum = healthy()
    old, now = (row(key(101, "oldDisk"), fetched_ago_ms=120_000),), present(quorum.poll).observers
    observers = (*old, *now) if first else (*now, *old)
    assert finding_lines(with_poll(quorum, observers=observers)) == []


@pytest.mark.parametrize(
    ("alive_for_ms", "elected_ago_ms", "polled_for_ms", "fires"),
    [
        (30_000, None, 10_000, False),
        (30_001, None, 10_000, True),
        # The broker has been alive for an hour, and the leader was elected so long ago.
        (3_600_000, 30_000, 10_000, False),
        (3_600_000, 30_001, 10_000, True),
        (None, 30_001, 10_000, True),
        # The leaders before did not list it either.
        (3_600_000, 5_000, 30_000, False),
        (3_600_000, 5_000, 30_001, True),
        (30_000, 5_000, 30_001, False),
    ],
)
def test_a_broker_that_the_leader_does_not_list_is_unknown_for_thirty_seconds_and_then_does_not_fetch(
    alive_for_ms: int | None, elected_ago_ms: int | None, polled_for_ms: int, fires: bool
) -> None:
    quorum = healthy()
    polled_since_ms = Millis(present(quorum.poll).observed_at_ms - polled_for_ms)
    histories = {key: replace(one, first_seen_at_ms=polled_since_ms) for key, one in quorum.histories.items()}
    quorum = replace(quorum, histories=histories)
    newest = present(quorum.newest_timestamp_ms)
    since = None if alive_for_ms is None else Millis(newest - alive_for_ms)
    brokers = with_broker(quorum, 103).brokers
    late = replace(brokers[NodeId(103)], alive_since_timestamp_ms=since)
    quorum = replace(quorum, brokers={**brokers, NodeId(103): late})
    if elected_ago_ms is not None:
        (won,) = elected(healthy(), 3).history.elections
        won = replace(won, leader_epoch=EPOCH, timestamp_ms=Millis(newest - elected_ago_ms))
        quorum = with_past(quorum, elections=(won,))
    assert finding_lines(quorum) == (["warning observer-lagging: broker 103"] if fires else [])
    assert unknown_reasons(quorum, "observer-lagging") == (
        [] if fires else [("broker 103", "the leader does not list it as an observer yet")]
    )
    for finding in findings(quorum, "observer-lagging"):
        assert "Broker 103 does not fetch the metadata log" in finding.summary
        assert finding.evidence["lag_trend"] == "does not fetch"


@pytest.mark.parametrize(
    ("listed_ago_ms", "fetch_age_ms", "fires"),
    [(2_000, 400, False), (30_000, 400, False), (30_001, 400, True), (2_000, 10_000, False), (2_000, 10_001, True)],
)
def test_a_broker_that_a_new_leader_does_not_list_is_evaluated_by_the_polls_before(
    listed_ago_ms: int, fetch_age_ms: int, fires: bool
) -> None:
    quorum = healthy()
    poll, newest = present(quorum.poll), present(quorum.newest_timestamp_ms)
    (won,) = elected(healthy(), 3).history.elections
    won = replace(won, leader_epoch=EPOCH, timestamp_ms=Millis(newest - 1_000))
    listed = next(one for key, one in LAGGING.histories.items() if key.id == 101)
    sample = replace(listed.samples[-1], fetch_age_ms=Millis(fetch_age_ms))
    last_seen_ms = Millis(poll.observed_at_ms - listed_ago_ms)
    listed = replace(listed, last_seen_at_ms=last_seen_ms, samples=(*listed.samples[:-1], sample))
    quorum = replace(quorum, histories={**quorum.histories, listed.key: listed})
    quorum = with_past(with_poll(quorum, observers=()), elections=(won,))
    broker = [line for line in finding_lines(quorum) if line.endswith("broker 101")]
    assert broker == (["warning observer-lagging: broker 101"] if fires else [])


def test_a_broker_that_never_caught_up_with_a_new_leader_lags_by_its_records() -> None:
    """The leader does not know since when (-1 in its answer)."""
    assert "has lagged" in findings(LAGGING, "observer-lagging")[0].summary
    unknown = with_rows(LAGGING, 101, last_caught_up_ms=None)
    assert "Broker 101 lags in the metadata log: it works" in findings(unknown, "observer-lagging")[0].summary


def test_broker_of_which_a_new_leader_knows_no_fetch_is_evaluated_by_the_polls_before() -> None:
    elected_now = with_rows(broker_lagging(healthy(), 101), 101, last_fetch_ms=None)
    (finding,) = findings(elected_now, "observer-lagging")
    assert "has lagged in the metadata log since 2026-09-21 14:12:19 UTC" in finding.summary
    (never,) = findings(replace(elected_now, histories={}), "observer-lagging")
    assert "does not fetch the metadata log" in never.summary
    assert never.evidence["last_fetch"] == "never observed"


@pytest.mark.parametrize(
    ("quorum", "firing"),
    [
        (elected(healthy(), 1, 2, 1, 2), [CHURN]),
        (elected(healthy(), 1, 2, 1), []),
        # A controller that is elected again and again is churn too: it loses its majority each time.
        (elected(healthy(), 3, 3, 3, 3), [CHURN]),
        # A rolling restart: as many starts as elections.
        (elected(healthy(5), 1, 2, 3, 4, 5, 1, started=(1, 2, 3, 4, 5)), []),
        (elected(healthy(), 1, 2, 1, 2, 1, 2, started=(1, 2)), [CHURN]),
        # Controller 3 registered after it had won as a candidate.
        (elected(healthy(), 1, 2, 1, 3, started=(3,)), []),
        (elected(healthy(), 1, 2, 1, 2, 3, started=(3,)), [CHURN]),
        # Spread over more than the window: the oldest of the four is 15 min and 3 s old.
        (elected(healthy(), 1, 2, 1, 2, every_ms=301_000), []),
        (leaderless(elected(healthy(), 1, 2, 1, 2), 1), ["critical no-leader: quorum"]),
    ],
)
def test_elections_that_no_restart_explains_are_churn(quorum: Quorum, firing: list[str]) -> None:
    assert finding_lines(quorum) == firing


def test_churn_names_the_votes_of_each_election_that_has_them() -> None:
    quorum = elected(healthy(), 1, 2, 1, 2)
    *others, last = quorum.history.elections
    voters = NodeId(1), NodeId(2), NodeId(3)
    last = replace(last, voter_ids=voters, granting_voter_ids=voters[1:])
    (finding,) = findings(with_past(quorum, elections=(*others, last)), "epoch-churn")
    listed = str(finding.evidence["elections"])
    assert "'votes': [2, 3]" in listed
    assert listed.count("'votes'") == 1


@pytest.mark.parametrize("quorum", [healthy(5), static(healthy(5))])
def test_without_controller_starts_in_the_log_a_rolling_restart_is_no_churn(quorum: Quorum) -> None:
    """Controllers register from metadata.version 3.7 on."""
    unregistered = replace(quorum, controllers={})
    assert finding_lines(elected(unregistered, 1, 2, 3, 4, 5, 1, 2, 3)) == []
    (finding,) = findings(elected(unregistered, 1, 2, 3, 4, 5, 1, 2, 3, 4), "epoch-churn")
    assert finding.summary.startswith(
        "Too many leader elections: 9 within 15 min. A restart of all 5 voters, which this log does not record, does "
        "not explain them. Won: "
    )
    without_voters = replace(unregistered, committed=None, poll=None)
    assert len(findings(elected(without_voters, 1, 2, 1, 2), "epoch-churn")) == 1


def test_a_start_before_the_elections_explains_none() -> None:
    quorum = elected(healthy(), 1, 2, 1, 2)
    starts = tuple(controller_start(node, offset=9_000) for node in (1, 2))
    assert finding_lines(with_past(quorum, starts=starts)) == [CHURN]
    one_before_the_window = elected(healthy(), 3, 1, 2, 1, 2, every_ms=250_000)
    its_start = (controller_start(3, offset=9_897),)
    assert finding_lines(with_past(one_before_the_window, starts=its_start)) == [CHURN]


@pytest.mark.parametrize(
    ("started", "fires"),
    [
        # Controller 1 lost the election before the last one, 2 the last one; 3 took part in none.
        ((1,), False),
        ((2,), False),
        ((3,), True),
        ((3, 3), True),
    ],
)
def test_only_the_start_of_the_controller_that_lost_or_won_explains_an_election(
    started: tuple[int, ...], fires: bool
) -> None:
    quorum = elected(healthy(), 1, 2, 1, 2, started=started)
    assert finding_lines(quorum) == ([CHURN] if fires else [])


@pytest.mark.parametrize(
    ("skipped", "after_ms", "fires"),
    [(9, 1_500, False), (10, 1_500, True), (10, 9_999, True), (10, 10_000, False)],
)
def test_jump_is_more_epochs_than_elections_fit_into_the_time_before(skipped: int, after_ms: int, fires: bool) -> None:
    assert bool(findings(epoch_jumped(healthy(), skipped, after_ms=after_ms), "epoch-churn")) is fires


def test_election_whose_former_epoch_is_unknown_is_no_jump() -> None:
    quorum = epoch_jumped(healthy(), 20, after_ms=500)
    (won,) = quorum.history.elections
    unknown_before = replace(quorum.history, elections=(replace(won, previous_epoch=None),))
    evaluation = evaluation_of(replace(quorum, history=unknown_before), {"epoch-churn.jump": 1})
    assert evaluation.findings == ()
