"""no-leader and monitor-blind: told apart from each other, and from an election."""

from dataclasses import replace

import pytest

from rules.checks.monitor_blind import ADVICE
from rules.evaluate import evaluate, thresholds_for
from rules.finding import Severity
from rules.formatting import listed
from rules.model.monitoring import Access, Answer, ObservationSource, Reason, Vantage
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    EPOCH,
    all_refuse,
    endpoint,
    failing,
    findings,
    healthy,
    key,
    leaderless,
    name_gone,
    probed,
    refuses,
    resolver_fails,
    silent,
    static,
    told,
    unknown,
    unseen_for,
    view,
    views,
    with_broker,
)

ALL = tuple(str(endpoint(node)) for node in (1, 2, 3))
NO_LEADER = ["critical no-leader: quorum"]
BLIND = ["critical monitor-blind: quorum"]
HALF_BLIND = ["warning monitor-blind: quorum"]


@pytest.mark.kip("D089")
@pytest.mark.parametrize(
    ("quorum", "said"),
    [
        (leaderless(healthy(), 1), NO_LEADER),
        (failing(unseen_for(healthy()), Reason.NOT_READY, ALL[0]), NO_LEADER),
        # One answers that there is none, the others do not answer at all.
        (failing(leaderless(healthy(), 1), Reason.TIMED_OUT, *ALL[1:]), NO_LEADER),
        # The newest news counts, if no leader answered about the same time.
        (failing(unseen_for(healthy(), 1_100, 1_500), Reason.NO_LEADER, ALL[0]), NO_LEADER),
        (failing(healthy(), Reason.NO_LEADER, ALL[0]), []),
        (failing(unseen_for(healthy(), 1_100, 1_500), Reason.NO_LEADER, ALL[0], ago_ms=5_000), []),
        (all_refuse(healthy()), NO_LEADER),
        # Brokers in the configuration time out when nobody leads: controllers decide.
        (
            failing(
                replace(all_refuse(healthy()), bootstrap=(*ALL, "b101.test:9092")),
                Reason.TIMED_OUT,
                "b101.test:9092",
                sight=ObservationSource.QUORUM,
            ),
            NO_LEADER,
        ),
        # A configured name that is gone hides nothing when all voters refuse where the log records them.
        (
            failing(replace(all_refuse(healthy()), bootstrap=("old.test:9093",)), Reason.UNRESOLVABLE, "old.test:9093"),
            NO_LEADER,
        ),
        (failing(unseen_for(healthy()), Reason.REFUSED, *ALL[:2]), BLIND),
        (failing(failing(unseen_for(healthy()), Reason.REFUSED, *ALL[:2]), Reason.TIMED_OUT, ALL[2]), BLIND),
        (failing(unseen_for(healthy()), Reason.TIMED_OUT, *ALL), BLIND),
        (failing(unseen_for(healthy()), Reason.UNRESOLVABLE, *ALL), BLIND),
        (failing(unseen_for(healthy()), Reason.NOT_AUTHENTICATED, *ALL), BLIND),
        (failing(unseen_for(healthy()), Reason.WRONG_CLUSTER, *ALL), BLIND),
        (unseen_for(healthy()), BLIND),
        (replace(healthy(), poll=None, log_seen_at_ms=None), BLIND),
        (failing(unseen_for(healthy(), poll_ms=None), Reason.DENIED, ALL[2]), HALF_BLIND),
        (
            failing(unseen_for(healthy(), log_ms=None), Reason.DENIED, ALL[2], sight=ObservationSource.QUORUM),
            HALF_BLIND,
        ),
        # A look at one endpoint fails while a leader answers elsewhere.
        (failing(healthy(), Reason.TIMED_OUT, ALL[0]), []),
        (failing(healthy(), Reason.REFUSED, *ALL, sight=ObservationSource.PROBE), []),
        (resolver_fails(healthy(), 1, 2), ["warning monitor-blind: names"]),
    ],
)
def test_told_apart(quorum: Quorum, said: list[str]) -> None:
    assert told(quorum) == said


def test_from_outside_blindness_is_a_warning() -> None:
    assert told(replace(unseen_for(healthy()), vantage=Vantage.OUTSIDE)) == HALF_BLIND


def test_blind_is_not_led() -> None:
    assert ("no-leader", None) in unknown(unseen_for(healthy()))
    assert ("no-leader", None) not in unknown(healthy())


def test_the_dead_quorum_is_explained_from_what_was_recorded() -> None:
    hurt = leaderless(refuses(silent(healthy(), 1, end=9_000, epoch=6), 1, 2), 3)
    (finding,) = findings(hurt, "no-leader")
    assert finding.severity is Severity.CRITICAL
    assert "2 of 3 voters' endpoints refuse connections" in finding.summary
    evidence = finding.evidence
    assert evidence["last_leader"] == 3
    assert evidence["last_committed_offset"] == 9_999
    assert evidence["electable_if_refusing_voters_moved"] is True
    assert evidence["electable_if_refusing_voters_are_dead"] is False
    voters = evidence["voters"]
    assert isinstance(voters, dict)
    assert next(iter(voters.values())) == {
        "recorded_endpoint": "c1.test:9093",
        "seen_there": "refuses connections",
        "when_last_described": "silent",
        "log_end_offset": 9_000,
        "log_end_epoch": 6,
    }


def test_what_to_do_names_the_endpoints() -> None:
    (finding,) = findings(leaderless(name_gone(refuses(healthy(), 1), 2), 3), "no-leader")
    assert finding.remedy == (
        "# Start controller 1 so that it listens at c1.test:9093, or give it that endpoint back if it was moved",
        "# Make c2.test resolve again (it was 10.0.0.2): controller 2 is recorded there",
        "# A leader follows within seconds once 2 of the 3 voters run and reach each other at their recorded endpoints",
        "# See who leads, when one does",
        "kafka-metadata-quorum.sh --bootstrap-controller c3.test:9093 describe --status",
    )


def test_an_endpoint_that_leads_elsewhere_is_given_back_to_its_controller() -> None:
    taken = probed(healthy(), 2, answer=Answer.OTHER_CLUSTER)
    (finding,) = findings(leaderless(resolver_fails(taken, 1), 3), "no-leader")
    assert finding.remedy[0] == "# Make c2.test:9093 lead to controller 2 again"
    voters = finding.evidence["voters"]
    assert isinstance(voters, dict)
    seen = {name: each["seen_there"] for name, each in voters.items() if isinstance(each, dict)}
    assert seen == {
        str(key(1)): "the resolver here failed",
        str(key(2)): "a node of another cluster answers",
        str(key(3)): "accepts connections",
    }


@pytest.mark.parametrize(
    ("quorum", "first"),
    [
        (leaderless(static(healthy()), 1), "# Read the controllers' logs for why no election is won"),
        (all_refuse(static(healthy())), f"# Start the controllers at {listed(ALL)}: connections are refused there"),
        (
            leaderless(healthy(), 1),
            "# The voters' endpoints accept connections: read the controllers' logs for why no election is won",
        ),
    ],
)
def test_where_no_endpoint_is_at_fault_it_says_where_to_look(quorum: Quorum, first: str) -> None:
    (finding,) = findings(quorum, "no-leader")
    assert finding.remedy[0] == first


def test_who_never_polled_names_no_last_leader() -> None:
    (finding,) = findings(replace(leaderless(healthy(), 1), poll=None), "no-leader")
    assert "led until" not in finding.summary
    assert (finding.evidence["last_leader"], finding.evidence["last_leader_epoch"]) == (None, EPOCH)


def test_every_reason_has_its_advice() -> None:
    assert set(ADVICE) == set(Reason)
    hurt = failing(unseen_for(healthy()), Reason.DENIED, *ALL[:2], detail="CLUSTER_AUTHORIZATION_FAILED")
    (finding,) = findings(hurt, "monitor-blind")
    assert finding.remedy[0].startswith("# Allow the monitor's principal CLUSTER_ACTION on CLUSTER")
    assert "denied at c1.test:9093 and c2.test:9093" in finding.remedy[0]


@pytest.mark.parametrize(
    ("denied", "lacking"),
    [
        ((ObservationSource.LOG,), "--operation ClusterAction"),
        ((ObservationSource.QUORUM,), "--operation Describe"),
        ((ObservationSource.LOG, ObservationSource.QUORUM), "--operation Describe --operation ClusterAction"),
    ],
)
def test_what_is_denied_is_allowed_by_a_command(denied: tuple[ObservationSource, ...], lacking: str) -> None:
    quorum = replace(unseen_for(healthy()), access=Access(secured=True, principal="User:kraft watch"))
    for sight in denied:
        quorum = failing(quorum, Reason.DENIED, *ALL, sight=sight)

    (finding,) = findings(quorum, "monitor-blind")

    assert (
        "kafka-acls.sh --bootstrap-controller c3.test:9093 --command-config $NODE_PROPERTIES --add "
        f"--allow-principal 'User:kraft watch' {lacking} --cluster"
    ) in finding.remedy
    assert any("full administration" in line for line in finding.remedy) == (ObservationSource.LOG in denied)


def test_whom_only_kafka_knows_is_allowed_by_no_command_of_ours() -> None:
    quorum = replace(failing(unseen_for(healthy()), Reason.DENIED, *ALL), access=Access(secured=True))
    (finding,) = findings(quorum, "monitor-blind")
    assert not any(line.startswith("kafka-acls") for line in finding.remedy)


def test_polls_alone_by_choice_are_no_blindness_until_they_fail() -> None:
    quorum = replace(unseen_for(healthy(), poll_ms=None), access=Access(log=False))
    assert told(quorum) == []
    judged = evaluate(quorum, thresholds_for({}))
    assert {"stale-voter-endpoint", "partition-stuck-recovering"} <= {each.rule for each in judged.not_applicable}
    assert told(replace(unseen_for(healthy()), access=Access(log=False))) == BLIND


def test_brokers_alone_serve_polls_and_no_log() -> None:
    quorum = replace(unseen_for(healthy(), poll_ms=None), bootstrap=("b101.test:9092",))
    (finding,) = findings(failing(quorum, Reason.UNSUPPORTED, "b101.test:9092"), "monitor-blind")
    assert finding.remedy[0].startswith("# Configure a controller's address as well: no broker, as at b101.test:9092")


def test_a_broker_s_loss_is_not_ours() -> None:
    assert told(with_broker(healthy(), 101, fenced=True)) == ["warning broker-fenced: broker 101"]


def hides_its_leader(quorum: Quorum, *followers: int, reason: Reason = Reason.TIMED_OUT) -> Quorum:
    """Controller 3 leads and does not answer us; these answer that they do not lead, and name it."""
    quorum = failing(unseen_for(quorum), reason, ALL[2])
    return failing(quorum, Reason.NO_LEADER, *(str(endpoint(node)) for node in followers))


@pytest.mark.parametrize("reason", [Reason.TIMED_OUT, Reason.TLS_FAILED, Reason.UNREACHABLE, Reason.NOT_AUTHENTICATED])
def test_a_leader_that_only_we_do_not_reach_is_our_blindness(reason: Reason) -> None:
    quorum = hides_its_leader(healthy(), 1, 2, reason=reason)

    assert told(quorum) == BLIND
    (blind,) = findings(quorum, "monitor-blind")
    assert blind.summary.endswith(
        f"controller 3 leads by the word of {ALL[0]} and {ALL[1]}, and does not answer from here"
    )
    assert "no-leader" not in blind.summary
    assert not any("no leader" in step for step in blind.remedy)


@pytest.mark.parametrize(
    "quorum",
    [
        # One follower elects nobody, and names a dead leader for ever.
        hides_its_leader(healthy(), 1),
        hides_its_leader(healthy(5), 1, 2),
        # Where connections are refused nobody listens.
        hides_its_leader(healthy(), 1, 2, reason=Reason.REFUSED),
        # The others cannot reach one another at what is recorded, so they could not have elected anybody.
        hides_its_leader(name_gone(healthy(), 1), 1, 2),
        # They name nobody, or not the same one, or said so long ago.
        hides_its_leader(views(healthy(), view(1, leader=None), view(2, leader=None)), 1, 2),
        hides_its_leader(views(healthy(), view(2, leader=1)), 1, 2),
        hides_its_leader(views(healthy(), view(2, epoch=EPOCH - 1)), 1, 2),
        hides_its_leader(views(healthy(), view(2, ago_ms=40_000)), 1, 2),
        # It answers itself that it does not lead.
        failing(hides_its_leader(healthy(), 1, 2), Reason.NO_LEADER, ALL[2], sight=ObservationSource.QUORUM),
    ],
    ids=["one", "two-of-five", "refused", "unreachable", "nobody", "two", "old-epoch", "old-word", "itself"],
)
def test_where_the_others_could_not_have_replaced_it_their_word_is_not_enough(quorum: Quorum) -> None:
    assert [each for each in told(quorum) if "no-leader" in each] == NO_LEADER
