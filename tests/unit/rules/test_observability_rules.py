"""no-leader and monitor-blind: distinguished from each other, and from an election."""

from dataclasses import replace
from typing import Any

import pytest

from rules.checks.monitor_blind import ADVICE
from rules.evaluate import evaluate, thresholds_for
from rules.formatting import and_join, utc_text
from rules.model.identifiers import Millis, NodeId, ReplicaKey
from rules.model.monitoring import (
    Access,
    Answer,
    CertificateFault,
    Connection,
    ObservationSource,
    Probe,
    Reason,
    Vantage,
    probe_key,
)
from rules.model.quorum import Quorum
from rules.remedies.remedy_commands import WHY_NOT_UP
from tests.unit.rules.situation import (
    EPOCH,
    adding,
    all_refuse,
    elected,
    endpoint,
    failing,
    finding_lines,
    findings,
    foreign,
    healthy,
    leaderless,
    name_not_found,
    not_observed_for,
    present,
    probed,
    refuses,
    resolver_fails,
    stalled,
    static,
    unknown,
    unknown_reasons,
    view,
    voter_not_fetching,
    with_certificates,
    with_committed,
    with_controller,
    with_past,
    with_protocols,
    with_views,
)
from tests.unit.rules.test_voter_disk_replaced import replaced
from tests.unit.rules.test_voter_set_rules import removing

ALL = tuple(str(endpoint(node)) for node in (1, 2, 3))
NO_LEADER = ["critical no-leader: quorum"]
BLIND = ["critical monitor-blind: quorum"]
PARTLY_BLIND = ["warning monitor-blind: quorum"]


@pytest.mark.parametrize(
    ("quorum", "firing"),
    [
        (leaderless(healthy(), 1), NO_LEADER),
        (failing(not_observed_for(healthy()), Reason.NOT_READY, ALL[0]), NO_LEADER),
        # One controller answers that there is no leader, the others do not answer at all.
        (failing(leaderless(healthy(), 1), Reason.TIMED_OUT, *ALL[1:]), NO_LEADER),
        # The newest observation counts, unless a leader answered at about the same time.
        (failing(not_observed_for(healthy(), 1_100, 1_500), Reason.NO_LEADER, ALL[0]), NO_LEADER),
        (failing(healthy(), Reason.NO_LEADER, ALL[0]), []),
        (failing(not_observed_for(healthy(), 1_100, 1_500), Reason.NO_LEADER, ALL[0], ago_ms=5_000), []),
        (all_refuse(healthy()), NO_LEADER),
        # Configured brokers time out while there is no leader: the controllers decide.
        (
            failing(
                replace(all_refuse(healthy()), bootstrap=(*ALL, "b101.test:9092")),
                Reason.TIMED_OUT,
                "b101.test:9092",
                source=ObservationSource.QUORUM,
            ),
            NO_LEADER,
        ),
        # All voters refuse at their recorded endpoints: a configured name that does not resolve changes nothing.
        (
            failing(replace(all_refuse(healthy()), bootstrap=("old.test:9093",)), Reason.UNRESOLVABLE, "old.test:9093"),
            NO_LEADER,
        ),
        (failing(not_observed_for(healthy()), Reason.REFUSED, *ALL[:2]), BLIND),
        (failing(failing(not_observed_for(healthy()), Reason.REFUSED, *ALL[:2]), Reason.TIMED_OUT, ALL[2]), BLIND),
        (failing(not_observed_for(healthy()), Reason.TIMED_OUT, *ALL), BLIND),
        (failing(not_observed_for(healthy()), Reason.UNRESOLVABLE, *ALL), BLIND),
        (failing(not_observed_for(healthy()), Reason.NOT_AUTHENTICATED, *ALL), BLIND),
        (failing(not_observed_for(healthy()), Reason.WRONG_CLUSTER, *ALL), BLIND),
        (failing(not_observed_for(healthy()), Reason.WRONG_PROTOCOL, *ALL), BLIND),
        (not_observed_for(healthy()), BLIND),
        (replace(healthy(), poll=None, log_fetched_at_ms=None), BLIND),
        (failing(not_observed_for(healthy(), poll_ms=None), Reason.DENIED, ALL[2]), PARTLY_BLIND),
        (
            failing(not_observed_for(healthy(), log_ms=None), Reason.DENIED, ALL[2], source=ObservationSource.QUORUM),
            PARTLY_BLIND,
        ),
        # One endpoint fails while a leader answers elsewhere.
        (failing(healthy(), Reason.TIMED_OUT, ALL[0]), []),
        (failing(healthy(), Reason.REFUSED, *ALL, source=ObservationSource.PROBE), []),
        (resolver_fails(healthy(), 1, 2), ["warning monitor-blind: names"]),
    ],
)
def test_no_leader_and_monitor_blind_are_distinguished(quorum: Quorum, firing: list[str]) -> None:
    assert finding_lines(quorum) == firing


def test_leader_is_not_called_missing_while_the_monitor_did_not_run() -> None:
    """It was stopped for hours, and the quorum may have lost its leader just before it was started again."""
    quorum = replace(leaderless(healthy(), 1, 2, 3), poll=None)
    started_ms, seen_ms = Millis(quorum.now_ms - 4_000), Millis(quorum.now_ms - 7_200_000)

    def summary(failing_since_ms: Millis) -> str:
        failures = tuple(replace(one, first_at_ms=failing_since_ms) for one in quorum.failures)
        restarted = replace(quorum, watched_since_ms=started_ms, log_fetched_at_ms=seen_ms, failures=failures)
        (finding,) = findings(restarted, "no-leader")
        return finding.summary

    assert summary(started_ms).startswith(f"No leader at least since {utc_text(started_ms)}: no metadata change")
    assert summary(Millis(seen_ms + 2_000)).startswith(f"No leader since {utc_text(seen_ms)}: no metadata change")


def test_evidence_of_a_voter_that_stopped_before_the_leader_has_its_own_log_end() -> None:
    quorum = leaderless(refuses(voter_not_fetching(healthy(), 1, end=9_000, epoch=6), 1, 2), 3)
    (finding,) = findings(quorum, "no-leader")
    voters = finding.evidence["voters"]
    assert isinstance(voters, dict)
    assert next(iter(voters.values())) == {
        "recorded_endpoint": "c1.test:9093",
        "process": "down",
        "probe_result": "refuses connections",
        "state_at_the_last_poll": "not fetching",
        "log_end_offset": 9_000,
        "log_end_epoch": 6,
    }


def test_the_remedy_names_each_endpoint_and_the_list_of_all() -> None:
    (finding,) = findings(leaderless(name_not_found(refuses(healthy(), 1), 2), 3), "no-leader")
    assert finding.remedy[:3] == (
        "# Start controller 1 at c1.test:9093; if it runs elsewhere, make that address reach it again",
        WHY_NOT_UP,
        "# Make c2.test resolve again (it was 10.0.0.2): it is the recorded endpoint of controller 2",
    )
    assert " 1 of 3 voters can be reached; 2 are needed." in finding.summary
    assert finding.remedy[4].endswith(
        "--initial-controllers 1@c1.test:9093:dirOf1AAAAAAAAAAAAAAAA,"
        "2@c2.test:9093:dirOf2AAAAAAAAAAAAAAAA,3@c3.test:9093:dirOf3AAAAAAAAAAAAAAAA"
    )


HUNG_2 = (
    "# Controller 2 hangs, it accepts connections at c2.test:9093 and does not answer: take a thread dump on its host "
    "before you restart it (jcmd PID Thread.print, or jstack PID)",
    "# If the thread dump of controller 2 hangs too, check its state with ps: T is stopped (kill -CONT PID), D waits "
    "for a disk",
    "# Then restart controller 2",
)


def test_a_controller_that_accepts_and_does_not_answer_is_hung() -> None:
    (finding,) = findings(leaderless(probed(healthy(), 2, answer=Answer.NO_ANSWER), 3), "no-leader")
    assert "Controller 2 is hung (accepting connections, not answering)." in finding.summary
    assert finding.remedy[:3] == HUNG_2
    voters = finding.evidence["voters"]
    assert isinstance(voters, dict)
    assert [each["process"] for each in voters.values() if isinstance(each, dict)] == ["running", "hung", "running"]


@pytest.mark.parametrize("connection", [Connection.TIMED_OUT, Connection.UNREACHABLE])
def test_a_controller_to_which_connections_time_out_is_not_reached(connection: Connection) -> None:
    """A process that hangs accepts connections only until its backlog is full."""
    quorum = leaderless(probed(healthy(), 2, connection=connection, answer=Answer.NOT_ASKED), 3)
    (finding,) = findings(quorum, "no-leader")
    assert "Controller 2 is not reached (connections time out or have no route). 2 of 3 voters" in finding.summary
    assert finding.remedy[0].startswith("# Check the host of controller 2: connections at c2.test:9093 time out")
    assert finding.remedy[2].startswith("# Wait until 2 of the 3 voters run")
    assert (
        "# If no leader is elected then, check in the controllers' logs why: 2 of the 3 voters run already, and 2 are "
        "enough"
    ) in finding.remedy
    (outside,) = findings(replace(quorum, vantage=Vantage.OUTSIDE), "no-leader")
    assert "None of the 3 voters wins an election." in outside.summary, "nothing is known of its process"


def test_votes_that_an_uncommitted_change_of_the_voters_needs_are_named() -> None:
    """A removal that the leader appended and could not commit: its log and those that have it count by the new set."""
    (finding,) = findings(leaderless(removing(healthy(), 1), 3), "no-leader")
    assert finding.summary.endswith(
        " The last leader's change of the voters to 2 and 3 may not be committed: with it 2 of these 2 votes are "
        "needed. The last leader was controller 3."
    )
    (added,) = findings(leaderless(adding(healthy(), 4), 3), "no-leader")
    assert " to 1, 2, 3 and 4 may not be committed: with it 3 of these 4 votes are needed." in added.summary
    (whole,) = findings(leaderless(healthy(), 3), "no-leader")
    assert "may not be committed" not in whole.summary


@pytest.mark.parametrize(
    ("rule", "quorum"),
    [
        ("failure-tolerance", voter_not_fetching(healthy(), 2)),
        ("voter-lagging", voter_not_fetching(healthy(5), 2)),
        ("high-watermark-stalled", stalled(voter_not_fetching(healthy(), 2))),
        ("voter-change-stuck", adding(voter_not_fetching(healthy(), 2), 4)),
    ],
)
def test_steps_for_a_voter_that_does_not_fetch_depend_on_its_process(rule: str, quorum: Quorum) -> None:
    def steps(of: Quorum) -> list[str]:
        (finding,) = findings(of, rule)
        return [step for step in finding.remedy if "ontroller 2" in step and "Do not restart" not in step]

    assert steps(probed(quorum, 2, answer=Answer.NO_ANSWER)) == [*HUNG_2]
    timed_out = failing(quorum, Reason.TIMED_OUT, "c2.test:9093", source=ObservationSource.QUORUM)
    assert steps(timed_out) == [*HUNG_2], "a probe identifies the node only once a minute"
    assert steps(refuses(quorum, 2)) == [
        "# Start controller 2 so that it listens at c2.test:9093: connections are refused there"
    ]
    assert steps(quorum)[0] == (
        "# Check in the log of controller 2 why it does not fetch from the leader: its process accepts connections at "
        "c2.test:9093"
    )
    assert steps(replace(quorum, probes={})) == [
        "# Start controller 2 so that it listens at c2.test:9093, or check in its log why it does not fetch from the "
        "leader"
    ]


@pytest.mark.parametrize(
    ("quorum", "first"),
    [
        (leaderless(static(healthy()), 1), "# Check in the controllers' logs why no election is won"),
        (all_refuse(static(healthy())), f"# Start the controllers at {and_join(ALL)}: connections are refused there"),
        (
            leaderless(healthy(), 1),
            "# Check in the controllers' logs why no election is won: the voters' endpoints accept connections",
        ),
    ],
)
def test_without_an_endpoint_at_fault_the_remedy_says_what_to_check(quorum: Quorum, first: str) -> None:
    (finding,) = findings(quorum, "no-leader")
    assert finding.remedy[0] == first


def test_every_reason_has_a_remedy() -> None:
    assert set(ADVICE) == set(Reason)
    quorum = failing(not_observed_for(healthy()), Reason.DENIED, *ALL[:2], detail="CLUSTER_AUTHORIZATION_FAILED")
    (finding,) = findings(quorum, "monitor-blind")
    assert finding.remedy[0].startswith("# Allow the monitor's principal CLUSTER_ACTION on CLUSTER")
    assert "denied at c1.test:9093 and c2.test:9093" in finding.remedy[0]


@pytest.mark.parametrize(
    ("denied", "options"),
    [
        ((ObservationSource.LOG,), "--operation ClusterAction"),
        ((ObservationSource.QUORUM,), "--operation Describe"),
        ((ObservationSource.LOG, ObservationSource.QUORUM), "--operation Describe --operation ClusterAction"),
    ],
)
def test_the_remedy_of_a_denied_request_is_the_command_that_allows_it(
    denied: tuple[ObservationSource, ...], options: str
) -> None:
    quorum = replace(not_observed_for(healthy()), access=Access(protocol="SASL_SSL", principal="User:kraft watch"))
    for source in denied:
        quorum = failing(quorum, Reason.DENIED, *ALL, source=source)

    (finding,) = findings(quorum, "monitor-blind")

    assert (
        "kafka-acls.sh --bootstrap-controller c3.test:9093 --command-config $NODE_PROPERTIES --add "
        f"--allow-principal 'User:kraft watch' {options} --cluster"
    ) in finding.remedy
    means = "# CLUSTER_ACTION amounts to full administration: without it, polls and half of the rules still work"
    assert (means in finding.remedy) is (ObservationSource.LOG in denied)


def test_without_the_metadata_log_by_choice_only_failing_polls_are_reported() -> None:
    quorum = replace(not_observed_for(healthy(), poll_ms=None), access=Access(log=False))
    assert finding_lines(quorum) == []
    evaluation = evaluate(quorum, thresholds_for({}))
    assert {"stale-voter-endpoint", "partition-stuck-recovering"} <= {each.rule for each in evaluation.not_applicable}
    assert finding_lines(replace(not_observed_for(healthy()), access=Access(log=False))) == BLIND


def test_brokers_serve_polls_but_not_the_metadata_log() -> None:
    quorum = replace(not_observed_for(healthy(), poll_ms=None), bootstrap=("b101.test:9092",))
    (finding,) = findings(failing(quorum, Reason.UNSUPPORTED, "b101.test:9092"), "monitor-blind")
    assert finding.remedy[0].startswith(
        "# Configure a controller's address as well: brokers (b101.test:9092) do not serve"
    )


def with_unreachable_leader(quorum: Quorum, *followers: int, reason: Reason = Reason.TIMED_OUT) -> Quorum:
    """Controller 3 leads and does not answer; these followers answer that they do not lead, and report it as leader."""
    quorum = failing(not_observed_for(quorum), reason, ALL[2])
    return failing(quorum, Reason.NO_LEADER, *(str(endpoint(node)) for node in followers))


@pytest.mark.parametrize(
    "reason",
    [
        *(Reason.TIMED_OUT, Reason.TLS_FAILED, Reason.UNREACHABLE, Reason.NOT_AUTHENTICATED, Reason.REFUSED),
        *(Reason.TOO_FEW_DESCRIPTORS, Reason.UNDECODABLE, Reason.INVALID_RESPONSE, Reason.WRONG_CLUSTER),
        *(Reason.UNSUPPORTED, Reason.WRONG_PROTOCOL),
    ],
)
def test_a_leader_that_only_kraftwatch_does_not_reach_fires_monitor_blind(reason: Reason) -> None:
    quorum = with_unreachable_leader(healthy(), 1, 2, reason=reason)

    assert finding_lines(quorum) == BLIND
    (blind,) = findings(quorum, "monitor-blind")
    assert blind.summary.endswith(f"Controller 3 does not answer here, but {ALL[0]} and {ALL[1]} report it as leader.")
    assert "no-leader" not in blind.summary
    assert not any("no leader" in step for step in blind.remedy)


def test_a_follower_whose_directory_id_the_voter_set_lacks_is_no_replaced_disk() -> None:
    quorum = with_unreachable_leader(healthy(), 1, 2)
    voters = tuple(replace(one, key=ReplicaKey(id=one.key.id)) for one in present(quorum.committed).voters)

    assert finding_lines(with_committed(quorum, voters=voters)) == BLIND


WITHOUT_A_MAJORITY = {
    "one follower never stops reporting a leader that is down": with_unreachable_leader(healthy(), 1),
    "two followers of five voters": with_unreachable_leader(healthy(5), 1, 2),
    "they cannot reach one another": with_unreachable_leader(name_not_found(healthy(), 1), 1, 2),
    "one has a new disk and no vote": with_unreachable_leader(replaced(), 1, 2),
    "a node of another cluster is no follower": with_unreachable_leader(
        with_views(healthy(), replace(view(2), this_cluster=False)), 1, 2
    ),
    "the controller itself answers that it does not lead": failing(
        with_unreachable_leader(healthy(), 1, 2), Reason.NO_LEADER, ALL[2], source=ObservationSource.QUORUM
    ),
    **{
        what: with_unreachable_leader(with_views(healthy(), *views), 1, 2)
        for what, views in {
            "they report no leader": (view(1, leader=None), view(2, leader=None)),
            "they report two leaders": (view(2, leader=1),),
            "a report of an older epoch": (view(2, epoch=EPOCH - 1),),
            "a report of long ago": (view(2, ago_ms=40_000),),
        }.items()
    },
}


@pytest.mark.parametrize("why", WITHOUT_A_MAJORITY)
def test_followers_that_could_not_have_elected_another_leader_are_not_enough(why: str) -> None:
    assert [each for each in finding_lines(WITHOUT_A_MAJORITY[why]) if "no-leader" in each] == NO_LEADER


@pytest.mark.parametrize("known", [True, False])
def test_last_leader_is_that_of_the_newest_epoch_and_not_of_an_older_poll(*, known: bool) -> None:
    quorum = replace(leaderless(elected(healthy(), 2), 1), leader_id=None)
    quorum = quorum if known else with_past(quorum, elections=())
    (finding,) = findings(quorum, "no-leader")
    assert finding.summary.endswith(" The last leader was controller 2.") is known
    assert "The last leader was controller 3" not in finding.summary
    assert (finding.evidence["last_leader"], finding.evidence["last_leader_epoch"]) == (2 if known else None, 40)


@pytest.mark.parametrize(
    ("quorum", "summary"),
    [
        (
            all_refuse(static(healthy())),
            "No leader since 2026-09-21 14:13:06 UTC: no metadata change is possible. "
            "Every configured controller refuses connections. The last leader was controller 3.",
        ),
        (
            replace(
                all_refuse(static(healthy())), poll=None, log_fetched_at_ms=None, leader_id=None, leader_epoch=None
            ),
            "No leader: no metadata change is possible. Every configured controller refuses connections.",
        ),
    ],
)
def test_no_leader_of_a_static_quorum_is_reported_by_its_configured_controllers(quorum: Quorum, summary: str) -> None:
    (finding,) = findings(quorum, "no-leader")
    assert finding.summary == summary
    elected = {name: value for name, value in finding.evidence.items() if name.startswith(("electable", "majority"))}
    assert elected == {
        "majority": None,
        "electable_if_refusing_voters_moved": None,
        "electable_if_refusing_voters_are_down": None,
    }, "the voters' endpoints are not known"


def test_rejected_request_stays_unknown_while_there_is_no_leader() -> None:
    rejected = failing(leaderless(healthy(), 1), Reason.DENIED, ALL[1])
    assert unknown_reasons(rejected, "monitor-blind") == [
        ("quorum", "no controller leads, and some requests are rejected or not supported"),
        (None, "inhibited by no-leader"),
    ]


def after_a_gap(quorum: Quorum, ended_s_ago: int = 0) -> Quorum:
    """Returns the quorum whose observations have a gap that ended then."""
    ended_ms = Millis(quorum.now_ms - 1_000 * ended_s_ago)
    (gap,) = failing(quorum, Reason.INTERRUPTED, "").failures[-1:]
    gap = replace(gap, first_at_ms=ended_ms, last_at_ms=ended_ms)
    return replace(quorum, failures=(*quorum.failures, gap), watched_since_ms=ended_ms)


def test_what_was_not_tried_since_a_gap_is_unknown() -> None:
    restarted = after_a_gap(not_observed_for(healthy()), 2)
    why = f"nothing was observed until {utc_text(restarted.watched_since_ms)}, and no attempt has ended since"
    assert findings(restarted, "monitor-blind") == []
    assert unknown_reasons(restarted, "monitor-blind") == [(None, why)]

    one = failing(restarted, Reason.TIMED_OUT, ALL[0])
    assert unknown_reasons(one, "monitor-blind") == [(None, why)], "the other data source was not tried"
    both = failing(one, Reason.TIMED_OUT, ALL[0], source=ObservationSource.QUORUM)
    assert finding_lines(both) == BLIND


def test_attempts_before_a_gap_do_not_count_after_it() -> None:
    quorum = not_observed_for(healthy())
    for source in (ObservationSource.LOG, ObservationSource.QUORUM):
        quorum = failing(quorum, Reason.TIMED_OUT, *ALL, source=source, ago_ms=5_000)
    assert finding_lines(quorum) == BLIND
    after_gap = replace(quorum, watched_since_ms=Millis(quorum.now_ms - 1_000))
    assert findings(after_gap, "monitor-blind") == []
    assert ("monitor-blind", None) in unknown(after_gap)


def test_only_failures_of_what_is_not_observed_are_named() -> None:
    partly = failing(not_observed_for(healthy(), poll_ms=None), Reason.DENIED, ALL[2])
    (finding,) = findings(failing(partly, Reason.TIMED_OUT, ALL[0], source=ObservationSource.QUORUM), "monitor-blind")
    assert "Failing: denied at c3.test:9093." in finding.summary
    assert isinstance(finding.evidence["failing"], list)
    assert len(finding.evidence["failing"]) == 1


def test_the_failure_that_began_first_is_named_first() -> None:
    quorum = failing(not_observed_for(healthy()), Reason.TIMED_OUT, *ALL[:2])
    newer, older = quorum.failures
    older = replace(older, first_at_ms=Millis(older.first_at_ms - 60_000))
    newer = replace(newer, last_at_ms=Millis(newer.last_at_ms - 5_000))
    (finding,) = findings(replace(quorum, failures=(newer, older)), "monitor-blind")
    failures = finding.evidence["failing"]
    assert isinstance(failures, list)
    assert [one["endpoint"] for one in failures if isinstance(one, dict)] == [ALL[1], ALL[0]]


def test_gatherer_that_only_restarts_observes_nothing() -> None:
    restarted = after_a_gap(not_observed_for(healthy()))
    (gap,) = restarted.failures
    again = replace(gap, first_at_ms=Millis(gap.first_at_ms - 20_000))
    assert finding_lines(replace(restarted, failures=(again,))) == BLIND


def test_names_are_unknown_until_they_were_looked_up_again() -> None:
    quorum = after_a_gap(resolver_fails(healthy(), 1, 2))
    assert findings(quorum, "monitor-blind") == []
    why = "not every name was looked up since the newest gap"
    assert unknown_reasons(quorum, "monitor-blind") == [("names", why)]


def silent(quorum: Quorum, node: int, reason: Reason = Reason.NOT_AUTHENTICATED, detail: str = "") -> Quorum:
    """The leader view poll of one controller fails; its last view has expired."""
    failed = failing(quorum, reason, str(endpoint(node)), source=ObservationSource.LEADER_VIEW, detail=detail)
    views = {name: each for name, each in failed.leader_views.items() if each.node != node}
    *others, newest = failed.failures
    return replace(failed, leader_views=views, failures=(*others, replace(newest, node=NodeId(node))))


def everywhere(**result: Any) -> Quorum:
    """The newest probe of each voter has this result."""
    return probed(probed(probed(healthy(), 1, **result), 2, **result), 3, **result)


ONE_SILENT = ["warning monitor-blind: controller 2"]


@pytest.mark.parametrize(
    ("quorum", "firing"),
    [
        *(
            (silent(healthy(), 2, reason), ONE_SILENT)
            for reason in (Reason.TLS_FAILED, Reason.DENIED, Reason.TIMED_OUT)
        ),
        # The leader itself answers polls and fetches on its established connections.
        (silent(healthy(), 3), ["warning monitor-blind: controller 3"]),
        (silent(silent(healthy(), 1), 2), ["warning monitor-blind: controller 1", *ONE_SILENT]),
        # If no controller answers, the monitor's own access is the reason.
        (silent(silent(silent(healthy(), 1), 2), 3), []),
        # Nor if its older views are still fresh, if other clusters answer, or a controller that is not a voter.
        (replace(silent(silent(silent(healthy(), 1), 2), 3), leader_views=healthy().leader_views), []),
        (with_views(silent(healthy(), 2), foreign(view(1)), foreign(view(3))), []),
        (with_views(silent(silent(silent(healthy(), 1), 2), 3), view(4)), []),
        (silent(healthy(), 2, Reason.NOT_READY), []),
        (silent(healthy(), 4), []),
        # Without leader views, the probes count.
        (probed(replace(healthy(), leader_views={}), 2, answer=Answer.NOT_ALLOWED), ONE_SILENT),
        (probed(replace(healthy(), leader_views={}), 2, connection=Connection.TIMED_OUT), ONE_SILENT),
        # It answers an older connection and no new one: stale-voter-endpoint reports it.
        (probed(healthy(), 2, connection=Connection.TIMED_OUT), []),
        (probed(healthy(), 2, answer=Answer.NO_ANSWER), []),
        # What is between it and the monitor rejects new connections.
        (probed(healthy(), 2, connection=Connection.UNREACHABLE), ONE_SILENT),
        (replace(probed(healthy(), 2, connection=Connection.UNREACHABLE), vantage=Vantage.OUTSIDE), []),
        # No voter answers a new connection, and all answer older ones: the path from the monitor's host.
        *(
            (everywhere(**result), ["warning monitor-blind: connections"])
            for result in (
                {"connection": Connection.TIMED_OUT},
                {"connection": Connection.UNREACHABLE},
                {"answer": Answer.NO_ANSWER},
            )
        ),
        # The view of a controller that is not a voter says nothing of the voters.
        (
            probed(with_views(silent(replace(healthy(), leader_views={}), 2), view(4)), 2, answer=Answer.NOT_ALLOWED),
            ONE_SILENT,
        ),
        (probed(replace(healthy(), leader_views={}), 2, answer=Answer.NOT_ALLOWED, ago_ms=31_000), []),
        # A voter that is down, or whose endpoint is stale, is reported by other rules.
        (silent(voter_not_fetching(healthy(), 2), 2, Reason.TIMED_OUT), []),
        (silent(with_certificates(healthy(), {2: CertificateFault.EXPIRED}), 2, Reason.TLS_FAILED), []),
        # Without any answer, the alert about the quorum is critical, as before.
        (failing(not_observed_for(silent(healthy(), 2)), Reason.TIMED_OUT, *ALL), BLIND),
    ],
)
def test_one_of_several_controllers_that_does_not_answer_is_a_warning(quorum: Quorum, firing: list[str]) -> None:
    assert [line for line in finding_lines(quorum) if "monitor-blind" in line] == firing


def test_unanswered_new_connections_are_reported_with_what_is_unknown_then() -> None:
    (path,) = findings(everywhere(connection=Connection.TIMED_OUT), "monitor-blind")
    assert path.summary == (
        "No controller answers a new connection of the monitor, while older ones are answered: "
        f"{and_join(f'{one} the connection timed out' for one in ALL)}. "
        "Whether the other controllers could connect to them, and get their votes, is unknown."
    )
    assert path.remedy[0] == (
        f"# Check the network and firewalls between the monitor and {and_join(ALL)}, and limits of connections there"
    )
    (one,) = findings(probed(healthy(), 2, connection=Connection.UNREACHABLE), "monitor-blind")
    assert one.hold_ms == 300_000
    assert one.summary == (
        f"Controller 2 answers no new connection of the monitor, while older ones are answered: {ALL[1]} unreachable. "
        "Whether the other controllers could connect to it, and get its vote, is unknown."
    )


@pytest.mark.parametrize(("other_ago_ms", "firing"), [(1_000, []), (3_000, ONE_SILENT)])
@pytest.mark.parametrize("host", ["a.test", "z.test"])
def test_of_two_endpoints_of_a_controller_the_newest_probe_counts(
    host: str, other_ago_ms: int, firing: list[str]
) -> None:
    quorum = probed(replace(healthy(), leader_views={}), 2, answer=Answer.NOT_ALLOWED)
    probes = {f"2@{host}:9093": answered_at(quorum, host, other_ago_ms), **quorum.probes}

    by_name = replace(quorum, probes={name: probes[name] for name in sorted(probes)})

    assert [line for line in finding_lines(by_name) if "monitor-blind" in line] == firing


def answered_at(quorum: Quorum, host: str, ago_ms: int) -> Probe:
    (own,) = (each for each in healthy().probes.values() if each.node == 2)
    return replace(own, endpoint=replace(own.endpoint, host=host), observed_at_ms=Millis(quorum.now_ms - ago_ms))


def test_a_silent_controller_is_named_with_its_reason_and_a_hold_of_its_own() -> None:
    (finding,) = findings(silent(healthy(), 2, detail="the node rejected the login"), "monitor-blind")
    assert finding.summary == (
        f"Controller 2 does not answer the monitor: not-authenticated (the node rejected the login) at {endpoint(2)}. "
        "It fetches, and controllers 1 and 3 can be observed. If controller 2 becomes the leader, the quorum is not "
        "observed."
    )
    assert finding.evidence == {
        "vantage": "inside",
        "controller": 2,
        "endpoint": str(endpoint(2)),
        "reason": "not-authenticated",
        "detail": "the node rejected the login",
        "failing_since": "2026-09-21 14:13:00 UTC",
        "observed_controllers": [1, 3],
    }
    assert finding.remedy[:2] == (
        f"# Fix the monitor's login: it is rejected at {endpoint(2)}",
        "# Compare controller 2's listeners, certificates, logins and super.users with those of controllers 1 and 3",
    )
    assert finding.hold_ms == 300_000


def test_while_no_controller_answers_the_alert_of_one_stays_as_it_is() -> None:
    nobody = silent(silent(silent(healthy(), 1), 2), 3)
    why = "no other controller answers either"
    assert unknown_reasons(nobody, "monitor-blind") == [(f"controller {node}", why) for node in (1, 2, 3)]
    blind = failing(not_observed_for(nobody), Reason.TIMED_OUT, *ALL)
    assert ("controller 2", "the leader does not answer either") in unknown_reasons(blind, "monitor-blind")


def test_from_outside_monitor_blind_is_a_warning() -> None:
    assert finding_lines(replace(not_observed_for(healthy()), vantage=Vantage.OUTSIDE)) == PARTLY_BLIND


NEW_PORTS = tuple(f"c{node}.test:9094" for node in (1, 2, 3))


def moved_listener(
    quorum: Quorum, *nodes: int, beside: bool = False, protocol: str = "SSL", port: int = 9094
) -> Quorum:
    """These controllers listen at another port with this protocol, or there too, and a process accepts connections."""
    for node in nodes:
        new = replace(endpoint(node, port=port), listener="CONTROLLER_SSL", protocol=protocol)
        former = replace(endpoint(node), protocol="PLAINTEXT")
        endpoints = (former, new) if beside else (new,)
        known = replace(quorum.controllers[NodeId(node)], endpoints=endpoints)
        voters = tuple(
            replace(voter, endpoints=endpoints) if voter.key.id == node else voter for voter in quorum.voters
        )
        found = replace(quorum.probes[probe_key(NodeId(node), endpoint(node))], endpoint=new, answer=Answer.NOT_ALLOWED)
        probes = {**quorum.probes, probe_key(NodeId(node), new): found}
        quorum = with_committed(replace(with_controller(quorum, known), probes=probes), voters=voters)
    return quorum


def unanswered(quorum: Quorum) -> Quorum:
    """The configured addresses refuse connections."""
    return failing(not_observed_for(quorum), Reason.REFUSED, *ALL)


def test_addresses_and_protocol_that_the_controllers_have_now_are_named() -> None:
    quorum = unanswered(moved_listener(healthy(), 1, 2, 3))
    assert finding_lines(quorum) == BLIND
    (blind,) = findings(quorum, "monitor-blind")
    assert blind.summary.startswith(
        "The state of the quorum is unknown: kraftwatch's own settings are out of date. The controllers listen at "
        "c1.test:9094, c2.test:9094 and c3.test:9094 with SSL now (listener CONTROLLER_SSL); kraftwatch is configured "
        "with c1.test:9093, c2.test:9093 and c3.test:9093 with PLAINTEXT. No current answer from "
    )
    assert blind.remedy[0] == (
        '# Set bootstrap: ["c1.test:9094", "c2.test:9094", "c3.test:9094"] and security_protocol: SSL for cluster prod '
        "in kraftwatch's configuration"
    )
    assert blind.evidence["controllers_listen_at"] == [*NEW_PORTS]


def test_half_of_a_move_names_the_listener_that_every_voter_has() -> None:
    """Controllers 1 and 2 have only the new listener, and 3 has both; 1 leads, and 3 says so."""
    quorum = moved_listener(moved_listener(not_observed_for(healthy()), 1, 2), 3, beside=True)
    quorum = failing(failing(quorum, Reason.REFUSED, *ALL[:2]), Reason.NO_LEADER, ALL[2])
    *others, last = quorum.failures
    quorum = replace(quorum, failures=(*others, replace(last, leader_id=NodeId(1))))
    assert finding_lines(quorum) == BLIND
    (blind,) = findings(quorum, "monitor-blind")
    assert blind.evidence["controllers_listen_at"] == [*NEW_PORTS]


def test_another_protocol_at_the_same_port_is_named() -> None:
    quorum = with_protocols(not_observed_for(healthy()), "SSL", "SSL", "SSL")
    (blind,) = findings(failing(quorum, Reason.WRONG_PROTOCOL, *ALL), "monitor-blind")
    assert blind.evidence["protocol_there"] == "SSL"
    assert "security_protocol: SSL" in blind.remedy[0]


SETTINGS_ARE_RIGHT = {
    "both listeners": unanswered(moved_listener(healthy(), 1, 2, 3, beside=True)),
    "the former listener and its protocol": unanswered(with_protocols(healthy(), *("PLAINTEXT",) * 3)),
    "nothing is registered": unanswered(replace(healthy(), controllers={})),
    "aliases": failing(
        not_observed_for(replace(healthy(), bootstrap=("10.0.0.1:9093",))), Reason.TLS_FAILED, "10.0.0.1:9093"
    ),
    "nothing is recorded": unanswered(replace(healthy(), committed=None, poll=None, controllers={})),
}


@pytest.mark.parametrize("why", SETTINGS_ARE_RIGHT)
def test_settings_that_may_be_right_are_not_called_out_of_date(why: str) -> None:
    for finding in findings(SETTINGS_ARE_RIGHT[why], "monitor-blind"):
        assert "controllers_listen_at" not in finding.evidence


def test_a_controller_that_moved_is_reported_with_where_it_listens() -> None:
    """The other two still have both listeners, and are observed at the former one."""
    quorum = moved_listener(moved_listener(healthy(), 2), 1, 3, beside=True)
    (blind,) = findings(silent(quorum, 2, Reason.WRONG_PROTOCOL), "monitor-blind")
    assert (blind.subject, blind.evidence["controllers_listen_at"]) == ("controller 2", [*NEW_PORTS])
    assert blind.remedy[0].startswith('# Set bootstrap: ["c1.test:9094", ')


def test_without_a_listener_that_every_voter_has_none_is_named() -> None:
    (blind,) = findings(silent(moved_listener(healthy(), 2), 2, Reason.WRONG_PROTOCOL), "monitor-blind")
    assert "controllers_listen_at" not in blind.evidence


def test_a_certificate_that_the_monitor_does_not_trust_begins_with_a_comparison_of_the_issuers() -> None:
    quorum = with_certificates(replace(healthy(), leader_views={}), {1: CertificateFault.UNTRUSTED})
    (blind,) = findings(quorum, "monitor-blind")
    assert (blind.severity, blind.subject) == ("warning", "controller 1")
    assert blind.remedy[0].startswith(
        "# Compare the issuer of the certificate at c1.test:9093 with the authorities in "
    )
    assert blind.remedy[1].endswith("add it to ssl_cafile")
    (expired,) = findings(silent(quorum, 1, Reason.TIMED_OUT), "monitor-blind")
    assert expired.remedy[0].startswith("# Compare the issuer")


def test_nothing_observed_because_no_authority_is_trusted_begins_with_a_comparison_too() -> None:
    quorum = with_certificates(not_observed_for(healthy()), dict.fromkeys((1, 2, 3), CertificateFault.UNTRUSTED))
    quorum = replace(failing(quorum, Reason.TLS_FAILED, *ALL), poll=None, log_fetched_at_ms=None)
    (blind,) = findings(quorum, "monitor-blind")
    assert blind.remedy[0].startswith("# Compare the issuer of the certificate at c1.test:9093, c2.test:9093 and ")
    assert "openssl s_client -connect c1.test:9093 <" in blind.remedy[0]


REJECTIONS = {
    "every voter": ((1, 2, 3), Vantage.INSIDE, True),
    "every voter, from outside": ((1, 2, 3), Vantage.OUTSIDE, True),
    "so many that no majority is left": ((1, 3), Vantage.INSIDE, True),
    "one of them": ((1,), Vantage.INSIDE, False),
}


@pytest.mark.parametrize("reason", [Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED])
@pytest.mark.parametrize("who", REJECTIONS)
def test_controllers_that_reject_the_monitor_may_reject_each_other(who: str, reason: Reason) -> None:
    nodes, vantage, may = REJECTIONS[who]
    quorum = failing(replace(not_observed_for(healthy()), vantage=vantage), reason, *(ALL[node - 1] for node in nodes))
    (blind,) = findings(quorum, "monitor-blind")
    assert blind.severity == "critical"
    assert ("they reject each other too, and there is no leader" in blind.summary) is may
    assert blind.remedy[0].startswith("# Check on a controller's host, with its own configuration file") is may


def test_certificates_that_only_the_monitor_may_not_trust_begin_with_its_own_file() -> None:
    quorum = with_certificates(not_observed_for(healthy()), dict.fromkeys((1, 2, 3), CertificateFault.UNTRUSTED))
    (blind,) = findings(failing(quorum, Reason.TLS_FAILED, *ALL), "monitor-blind")
    assert blind.severity == "critical"
    assert "The monitor trusts none of the certificates since the last answer" in blind.summary
    assert blind.remedy[0].startswith("# Compare the issuer of the certificate at ")
    assert blind.remedy[2].startswith("# Check on a controller's host, with its own configuration file")


def test_a_monitor_that_was_never_accepted_is_told_of_its_own_login_only() -> None:
    quorum = replace(failing(healthy(), Reason.NOT_AUTHENTICATED, *ALL), poll=None, log_fetched_at_ms=None)
    for vantage, severity in ((Vantage.INSIDE, "critical"), (Vantage.OUTSIDE, "warning")):
        (blind,) = findings(replace(quorum, vantage=vantage), "monitor-blind")
        assert (blind.severity, "reject each other" in blind.summary) == (severity, False)
