"""stale-voter-endpoint: what is stale, what is down, what cannot be told; and how bad it is."""

from dataclasses import replace

import pytest

from rules.finding import Finding, Severity
from rules.model.identifiers import Endpoint
from rules.model.monitoring import Answer, Connection, Reason, Vantage
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    all_refuse,
    endpoint,
    failing,
    findings,
    healthy,
    key,
    leaderless,
    name_gone,
    observer,
    probed,
    refuses,
    registered_elsewhere,
    registration,
    resolver_fails,
    silent,
    told,
    unknown,
    unseen_for,
)

RULE = "stale-voter-endpoint"


def stale(quorum: Quorum) -> list[str]:
    """`SEVERITY voter N: because`."""
    return [f"{each.severity} {each.subject}: {_because(each)}" for each in findings(quorum, RULE)]


def _because(finding: Finding) -> str:
    reasons = finding.evidence["stale_because"]
    assert isinstance(reasons, list)
    return ", ".join(str(reason) for reason in reasons)


@pytest.mark.kip("C026", "E015")
@pytest.mark.parametrize(
    ("quorum", "said"),
    [
        (name_gone(healthy(), 1), ["warning voter 1: name-gone"]),
        (registered_elsewhere(healthy(), 1), ["warning voter 1: registration-differs"]),
        (refuses(healthy(), 1), ["warning voter 1: refused-while-fetching"]),
        (probed(healthy(), 1, answer=Answer.OTHER_CLUSTER), ["warning voter 1: leads-elsewhere"]),
        (probed(healthy(), 1, answer=Answer.OTHER_NODE, answered_by=2), ["warning voter 1: leads-elsewhere"]),
        (probed(healthy(), 1, answer=Answer.THIS_CLUSTER, answered_by=2), ["warning voter 1: leads-elsewhere"]),
        (probed(healthy(), 1, answer=Answer.NOT_KAFKA), ["warning voter 1: leads-elsewhere"]),
        (name_gone(registered_elsewhere(healthy(), 1), 1), ["warning voter 1: registration-differs, name-gone"]),
        # The leader is known to live without fetching.
        (refuses(healthy(), 3), ["warning voter 3: refused-while-fetching"]),
    ],
)
def test_stale(quorum: Quorum, said: list[str]) -> None:
    assert stale(quorum) == said
    assert [each for each in unknown(quorum) if each[0] == RULE] == []


@pytest.mark.kip("C004")
@pytest.mark.parametrize(
    "quorum",
    [
        # Down, and nothing says that it moved.
        refuses(silent(healthy(), 1), 1),
        # Who answers could not be asked, or only that it is this cluster.
        probed(healthy(), 1, answer=Answer.NOT_ALLOWED),
        probed(healthy(), 1, answer=Answer.NOT_ASKED),
        probed(healthy(), 1, answer=Answer.THIS_CLUSTER, answered_by=None),
        # Accepted and then nothing: a process that hangs or is stopped is where it should be.
        probed(healthy(), 1, answer=Answer.NO_ANSWER),
        # Host names do not care for case.
        replace(
            healthy(),
            controllers={**healthy().controllers, key(1).id: registration(1, endpoint(1, host="C1.TEST"))},
        ),
        # The registration lists further listeners: only the one of the same name is compared.
        replace(
            healthy(),
            controllers={
                **healthy().controllers,
                key(1).id: replace(
                    registration(1),
                    endpoints=(Endpoint(listener="PLAINTEXT", host="b1.test", port=9092), endpoint(1)),
                ),
            },
        ),
        # A new directory under the same id registered itself: the registration is not this voter's.
        registered_elsewhere(observer(silent(healthy(), 1), 1, directory="newDirOf1"), 1),
        # A controller that never registered (or whose registration we have not).
        replace(healthy(), controllers={}),
    ],
)
def test_not_stale(quorum: Quorum) -> None:
    assert stale(quorum) == []
    assert [each for each in unknown(quorum) if each[0] == RULE] == []


@pytest.mark.parametrize(
    "quorum",
    [
        resolver_fails(healthy(), 1),
        probed(healthy(), 1, connection=Connection.TIMED_OUT, answer=Answer.NOT_ASKED),
        probed(healthy(), 1, connection=Connection.UNREACHABLE, answer=Answer.NOT_ASKED),
        probed(healthy(), 1, ago_ms=31_000),
        replace(healthy(), probes={name: probe for name, probe in healthy().probes.items() if probe.node != 1}),
        # Refused a moment ago, and not one fetch since: killed just now, or alive: the next polls tell.
        refuses(healthy(), 1, ago_ms=100),
        # A fetch that the poll shows a moment after the look may have been before it.
        refuses(healthy(), 1, ago_ms=600),
        # Refused, and nobody tells whether it fetches.
        refuses(unseen_for(healthy(), log_ms=None, poll_ms=30_000), 1),
    ],
)
def test_what_is_not_seen_is_unknown(quorum: Quorum) -> None:
    assert stale(quorum) == []
    assert [each for each in unknown(quorum) if each[0] == RULE] == [(RULE, "voter 1")]


def test_from_outside_a_time_out_is_expected() -> None:
    quorum = probed(healthy(), 1, connection=Connection.TIMED_OUT, answer=Answer.NOT_ASKED)
    assert (RULE, "voter 1") not in unknown(replace(quorum, vantage=Vantage.OUTSIDE))


@pytest.mark.kip("E014", "E072", "E091")
@pytest.mark.parametrize(
    ("voters", "gone", "severity"),
    [(3, (1, 2), "warning"), (3, (1, 2, 3), "critical"), (4, (1, 2), "warning"), (4, (1, 2, 3), "critical")],
)
def test_severity_is_that_of_an_election_held_now(voters: int, gone: tuple[int, ...], severity: str) -> None:
    assert stale(name_gone(healthy(voters), *gone)) == [f"{severity} voter {node}: name-gone" for node in gone]


def test_a_silent_voter_makes_the_others_endpoints_count() -> None:
    """One name of three is gone, and another voter is dead: the moved one's own vote still makes two."""
    assert stale(name_gone(silent(healthy(), 1), 2)) == ["warning voter 2: name-gone"]
    assert stale(name_gone(silent(healthy(), 1), 2, 3)) == [
        "critical voter 2: name-gone",
        "critical voter 3: name-gone",
    ]


@pytest.mark.kip("A095")
def test_an_election_does_not_make_it_critical() -> None:
    """A new leader does not know yet when the others fetched (-1): they are not gone for that."""
    quorum = name_gone(healthy(), 1)
    assert quorum.poll is not None
    fresh = tuple(
        row if row.key.id == 3 else replace(row, last_fetch_ms=None, last_caught_up_ms=None)
        for row in quorum.poll.voters
    )
    assert stale(replace(quorum, poll=replace(quorum.poll, voters=fresh))) == ["warning voter 1: name-gone"]


def test_a_leader_that_restarts_does_not_make_it_critical() -> None:
    """One voter's name is gone for days, and the leader restarts: it refuses while the others elect."""
    told_before = name_gone(refuses(healthy(), 3), 1)
    electing = failing(unseen_for(told_before, 2_000, 2_500), Reason.NO_LEADER, "c2.test:9093")
    assert stale(electing) == ["warning voter 1: name-gone"]
    lasting = failing(unseen_for(told_before, 6_000, 6_500), Reason.NO_LEADER, "c2.test:9093")
    assert stale(lasting) == ["critical voter 1: name-gone", "critical voter 3: dead-or-moved"]


def test_it_works_on_when_describe_quorum_does_not_answer() -> None:
    blind = unseen_for(name_gone(healthy(), 1, 2, 3), log_ms=None, poll_ms=60_000)
    assert {each.severity for each in findings(blind, RULE)} == {Severity.CRITICAL}


@pytest.mark.kip("E073")
def test_probing_from_outside_is_capped() -> None:
    outside = replace(name_gone(healthy(), 1, 2, 3), vantage=Vantage.OUTSIDE)
    assert {each.severity for each in findings(outside, RULE)} == {Severity.WARNING}
    by_the_log = replace(registered_elsewhere(healthy(), 1, 2, 3), vantage=Vantage.OUTSIDE)
    assert {each.severity for each in findings(by_the_log, RULE)} == {Severity.CRITICAL}


@pytest.mark.kip("E073")
def test_it_says_from_where_it_looked() -> None:
    inside = findings(name_gone(healthy(), 1), RULE)[0]
    outside = findings(replace(name_gone(healthy(), 1), vantage=Vantage.OUTSIDE), RULE)[0]
    assert inside.evidence["vantage"] == "inside"
    assert "seen from outside the cluster's network" in outside.summary


# Nobody leads.


def test_dead_or_moved() -> None:
    """Every endpoint moved at once: one controller, now elsewhere, says that it knows no leader."""
    quorum = failing(unseen_for(refuses(healthy(), 1, 2, 3)), Reason.NO_LEADER, "c1.test:19093")
    assert stale(quorum) == [f"critical voter {node}: dead-or-moved" for node in (1, 2, 3)]
    summary = findings(quorum, RULE)[0].summary
    assert "c1.test:9093" in summary
    assert "dead or moved" in summary


def test_dead_or_moved_counts_what_is_left() -> None:
    assert stale(leaderless(refuses(healthy(), 1, 2), 3)) == [
        "critical voter 1: dead-or-moved",
        "critical voter 2: dead-or-moved",
    ]
    # One down, and no leader at the moment: an election, or a quarrel; not for want of endpoints.
    assert stale(leaderless(refuses(healthy(), 1), 3)) == []


def test_when_nobody_answers_all_may_be_down() -> None:
    assert stale(all_refuse(refuses(healthy(), 1, 2, 3))) == []
    assert told(all_refuse(refuses(healthy(), 1, 2, 3))) == ["critical no-leader: quorum"]


def test_a_stopped_majority_has_not_moved() -> None:
    """SIGSTOP: connections are accepted by the kernel, and nobody answers."""
    hung = probed(probed(healthy(), 1, answer=Answer.NO_ANSWER), 2, answer=Answer.NO_ANSWER)
    assert stale(leaderless(hung, 3)) == []


def test_names_that_went_with_the_leader_stay_told() -> None:
    assert stale(leaderless(name_gone(healthy(), 1, 2, 3), 1)) == [f"critical voter {n}: name-gone" for n in (1, 2, 3)]


# The remedy.


def test_vanished_names_come_back_before_anything_restarts() -> None:
    remedy = findings(name_gone(healthy(), 1, 2, 3), RULE)[0].remedy
    assert remedy[0].startswith("# Restart no controller until")
    assert remedy[1:4] == tuple(
        f"# Make c{node}.test, which was 10.0.0.{node}, resolve again on every controller and broker"
        for node in (1, 2, 3)
    )
    assert "one by one" in remedy[4]
    assert "the leader (controller 3) last" in remedy[4]
    assert remedy[5] == "# Only when all new endpoints are recorded drop the old names"
    # No name leads to any controller: the address its name had stands in.
    assert remedy[-1] == "kafka-metadata-quorum.sh --bootstrap-controller 10.0.0.3:9093 describe --status"


def test_the_bootstrap_controller_is_one_that_answers() -> None:
    remedy = findings(name_gone(healthy(), 3), RULE)[0].remedy
    assert remedy[-1] == "kafka-metadata-quorum.sh --bootstrap-controller c1.test:9093 describe --status"
    assert "$BOOTSTRAP" not in " ".join(remedy)


def test_every_step_is_a_command_or_one_remark() -> None:
    hurt = [
        name_gone(healthy(), 1),
        registered_elsewhere(healthy(), 1, 3),
        refuses(healthy(), 1),
        probed(healthy(), 1, answer=Answer.OTHER_CLUSTER),
        leaderless(refuses(healthy(), 1, 2), 3),
    ]
    for quorum in hurt:
        for finding in findings(quorum, RULE):
            assert finding.remedy
            assert all(step.startswith(("# ", "kafka-")) for step in finding.remedy)
            assert all("\n" not in step for step in finding.remedy)
