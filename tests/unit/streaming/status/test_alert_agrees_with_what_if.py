"""stale-voter-endpoint's sentences about an election are what `kraftwatch what-if` answers for the same quorum."""

import re
from collections.abc import Iterator
from itertools import combinations

import pytest

from rules.answers.election import electable, failures_left
from rules.answers.what_if import Change, controllers_of_quorum
from rules.evaluate import evaluate, thresholds_for
from rules.facts.quorum import Facts
from rules.finding import Finding
from rules.model.identifiers import NodeId
from rules.model.quorum import Quorum
from streaming.status.what_if import what_if
from tests.present import present
from tests.situation.commands import situation

RULE = "stale-voter-endpoint"
THRESHOLDS = thresholds_for({})


def alerts_of(quorum: Quorum) -> tuple[Finding, ...]:
    return tuple(one for one in evaluate(Facts(quorum), THRESHOLDS).findings if one.rule == RULE)


def survives(quorum: Quorum, *lost: int) -> bool:
    """Returns the answer of `what-if`, with a `--lose` for each of these."""
    change = Change(moved={}, lost=frozenset(map(NodeId, lost)), restarted=None)
    return present(what_if(controllers_of_quorum(Facts(quorum)), change).electable)


def assert_agrees(quorum: Quorum, alert: Finding) -> None:
    voters = [voter.key.id for voter in quorum.committed.voters] if quorum.committed else []
    could = "If all controllers restarted now, a leader could still be elected: "
    could_not = "If all controllers restarted now, no leader could be elected: "
    assert (could in alert.summary, could_not in alert.summary) == (survives(quorum), not survives(quorum))
    last = {node for node in voters if not survives(quorum, node)} if survives(quorum) else set()
    named = re.search(
        r"If (?:any of )?controllers? ([\d, and]+) stopped too, no leader could be elected\.", alert.summary
    )
    assert {int(node) for node in re.findall(r"\d+", named[1] if named else "")} == last, alert.summary
    assert {str(key).partition("-")[0] for key in alert.evidence["indispensable_voters"]} == {*map(str, last)}  # type: ignore[union-attr]


def quorums(counts: tuple[int, ...]) -> Iterator[Quorum]:
    """Yields every combination of a fault with each number of voters, and of a down voter beside a majority."""
    for count in counts:
        # Two polls are enough, and take half the time.
        quorum = (f"voters {count}", "polling 5s")
        nodes = range(1, count + 1)
        for some in nodes:
            for stale in combinations(nodes, some):
                for fault in faults(",".join(map(str, stale)), stale):
                    yield situation(*quorum, *fault)
                    for down in {*nodes} - {*stale, count} if count > 2 else ():
                        yield situation(*quorum, f"stop-fetching {down}", f"probe {down} refused", *fault)


def faults(stale: str, nodes: tuple[int, ...]) -> Iterator[tuple[str, ...]]:
    """Yields each fault of the endpoints of these voters, as commands."""
    for result in ("name-not-found", "refused", "other-cluster"):
        yield (f"probe {stale} {result}",)
    yield tuple(f"registers {node} at c{node}:19093" for node in nodes)
    yield (f"certificates {' '.join(f'{node}=expired' for node in nodes)}",)


@pytest.mark.parametrize("counts", [(1, 2, 3, 4), pytest.param((5,), marks=pytest.mark.long)])
def test_every_small_quorum_gets_the_same_answer(counts: tuple[int, ...]) -> None:
    seen: set[bool] = set()
    named = 0
    for quorum in quorums(counts):
        for alert in alerts_of(quorum):
            assert_agrees(quorum, alert)
            seen.add(survives(quorum))
            named += "stopped too" in alert.summary
    assert seen == {True, False}
    assert named > 50


def test_certificates_that_only_the_monitor_may_not_accept_make_the_answer_unknown() -> None:
    quorum = situation("certificates 1=untrusted 2=untrusted 3=untrusted")
    change = Change(moved={}, lost=frozenset(), restarted=None)
    answer = what_if(controllers_of_quorum(Facts(quorum)), change)
    assert (answer.electable, answer.unknown) == (
        None,
        "whether controllers 1, 2 and 3 take part is unknown (the monitor does not accept the certificate); to find "
        "out, compare the certificate with the truststores of the controllers, and with ssl_cafile",
    )


def test_voter_that_is_restarted_cannot_connect_to_a_leader_with_an_expired_certificate() -> None:
    controllers = controllers_of_quorum(Facts(situation("certificates 3=expired")))
    one, two = (
        what_if(controllers, Change(moved={}, lost=frozenset(), restarted=frozenset(map(NodeId, some))))
        for some in ((1,), (1, 2))
    )
    assert (one.leader_stays, two.leader_stays) == (3, None)


@pytest.mark.parametrize(("result", "electable"), [("no-answer", False), ("timed-out", False), ("unreachable", None)])
def test_a_voter_that_answers_no_new_connection_is_never_counted_on(result: str, electable: bool | None) -> None:
    """The vote of controller 1 does not count, or it is unknown whether it does: 2 needs it once 3 is lost."""
    controllers = controllers_of_quorum(Facts(situation(f"probe 1 {result}")))
    lost = what_if(controllers, Change(moved={}, lost=frozenset({NodeId(3)}), restarted=None))
    assert lost.electable is electable
    assert ("whether controller 1 takes part is unknown" in str(lost.unknown)) is (electable is None)
    assert what_if(controllers, Change(moved={}, lost=frozenset(), restarted=None)).electable


@pytest.mark.parametrize("result", ["never", "resolver-fails", "not-ready"])
def test_a_voter_that_no_probe_has_reached_is_not_assumed_to_be_there(result: str) -> None:
    controllers = controllers_of_quorum(Facts(situation(f"probe 1 {result}")))
    change = Change(moved={}, lost=frozenset({NodeId(3)}), restarted=None)
    assert (what_if(controllers, change).electable, controllers.assumed) == (None, ())


@pytest.mark.parametrize("command", ["probe 1 denied", "fails view denied 1"])
def test_no_election_is_promised_while_a_controller_denies_what_the_others_send(command: str) -> None:
    """Kafka ends each controller that asks it for its vote, also if the others are a majority without it."""
    quorum = situation("voters 5", command)
    controllers = controllers_of_quorum(Facts(quorum))

    def answer(*lost: int, restarted: frozenset[NodeId] | None = None) -> bool | None:
        change = Change(moved={}, lost=frozenset(map(NodeId, lost)), restarted=restarted)
        return what_if(controllers, change).electable

    assert (answer(), answer(5), answer(1)) == (None, None, True)
    assert answer(restarted=frozenset({NodeId(2)})), "the leader stays"
    assert electable(Facts(quorum)).value is None
    assert failures_left(Facts(quorum)).value is None


def test_certificates_of_two_authorities_count_by_the_one_of_most() -> None:
    controllers = controllers_of_quorum(Facts(situation("certificates 1=CN=new")))

    def answer(*lost: int) -> bool | None:
        return what_if(controllers, Change(moved={}, lost=frozenset(map(NodeId, lost)), restarted=None)).electable

    assert (answer(), answer(1), answer(2)) == (True, True, None)


def test_a_leader_stays_only_with_a_majority_that_follows_it() -> None:
    """A former leader that is cut off polls as in sync: its own row was, when it led."""
    lost = frozenset({NodeId(1)})
    alone = Change(moved={}, lost=lost, restarted=lost)
    healthy, cut_off = (controllers_of_quorum(Facts(situation(*one))) for one in ((), ("view 2 none epoch 6",)))

    assert (what_if(healthy, alone).leader_stays, what_if(healthy, alone).electable) == (3, True)
    assert (what_if(cut_off, alone).leader_stays, what_if(cut_off, alone).electable) == (None, None)
    assert "reports no leader" in (what_if(cut_off, alone).unknown or "")
