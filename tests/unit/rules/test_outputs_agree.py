"""No two answers of one moment contradict each other: alerts, status, safe-to-restart, what-if, resolved texts."""

import pytest

from tests.agreement import text
from tests.agreement.agreement import AgreementCount, assert_outputs_agree
from tests.agreement.claim import About, Answers, Claim, at_least, at_most, one_of
from tests.agreement.contradictions import Kind, contradictions
from tests.agreement.sentences import Reader, read
from tests.golden_file import assert_golden
from tests.recordings import BROKER_RESTART, TWO_CLUSTERS, RecordedJournal
from tests.situation.commands import situation


def test_rows_of_the_table_contradict_themselves_as_written() -> None:
    assert_golden(text.ROWS, text.rows_text())


def test_outputs_of_a_healthy_quorum_agree() -> None:
    assert text.of_quorum(situation()) == ()
    assert_outputs_agree(situation())


@pytest.mark.parametrize("recorded", [TWO_CLUSTERS, BROKER_RESTART], ids=lambda one: one.name)
def test_outputs_of_recorded_quorums_agree(recorded: RecordedJournal) -> None:
    """What gatherers recorded of real Kafkas, as in a chaos run."""
    for cluster in recorded.cluster_ids:
        count = AgreementCount(every=10)
        rows = [row for row in recorded.observations() if row.cluster == cluster]

        assert count.check_rows(rows, recorded.monitor(cluster).settings) == []
        assert count.checked == len(rows) // 10, count.report


READER = Reader(
    output="one",
    node=2,
    controllers=frozenset({1, 2, 3, 4}),
    voters=frozenset({1, 2, 3}),
    node_at={"c1:9093": 1, "c2:9093": 2},
)


@pytest.mark.parametrize(
    ("sentence", "claims"),
    [
        ("2 of 3 voters can be reached; 2 are needed.", {(About.REACHED, None, one_of(2))}),
        ("The quorum tolerates no further failure: 2 of 3 voters are in sync; 2 are needed.", {
            (About.FAILURES, None, at_most(0)),
            (About.IN_SYNC, None, one_of(2)),
        }),
        ("It tolerates no further failure reliably", set()),
        ("Wait until 2 of 3 voters are in sync: the leader then commits", set()),
        ("Do not restart another controller until controller 2 is stable", {
            (About.RESTART, 1, one_of("no")),
            (About.RESTART, 3, one_of("no")),
            (About.RESTART, 4, one_of("no")),
        }),
        ("Do not restart another voter: it could not connect to controller 2, nor get its vote", {
            (About.RESTART, 1, one_of("no")),
            (About.RESTART, 3, one_of("no")),
        }),
        ("Do not restart controllers 1 and 3 until this alert resolves", {
            (About.RESTART, 1, one_of("no")),
            (About.RESTART, 3, one_of("no")),
        }),
        ("Controllers 1 and 3 are down (connections are refused).", {
            (About.ENDPOINT, 1, one_of(Answers.REFUSES)),
            (About.ENDPOINT, 3, one_of(Answers.REFUSES)),
            (About.VOTES, 1, one_of("no")),
            (About.VOTES, 3, one_of("no")),
        }),
        ("Voter 1's recorded endpoint c1:9093 is served by another process: node 7.", {
            (About.ENDPOINT, 1, one_of(Answers.OTHER)),
            (About.REACHES, 1, one_of("no")),
        }),
        ("Failing: not-authenticated at c1:9093 and c2:9093.", {
            (About.ENDPOINT, 1, one_of(Answers.LISTENS)),
            (About.ENDPOINT, 2, one_of(Answers.LISTENS)),
        }),
        ("Check which controller is the leader", set()),
    ],
)  # fmt: skip
def test_a_sentence_makes_these_claims(sentence: str, claims: set[object]) -> None:
    assert {(one.about, one.node, one.values) for one in read(sentence, READER)} == claims


def claim(about: About, values: frozenset[int | str], node: int | None = None, output: str = "one") -> Claim:
    return Claim(about=about, node=node, values=values, output=output, said="so")


VOTERS = [claim(About.VOTER, one_of("yes"), node) for node in (1, 2, 3)]


@pytest.mark.parametrize(
    ("one", "other", "kinds"),
    [
        (claim(About.LEADER, one_of(3)), claim(About.LEADER, one_of("nobody")), [Kind.LEADER]),
        (claim(About.LEADER, one_of(3)), claim(About.LEADER, one_of(3), output="other"), []),
        (claim(About.FAILURES, one_of(1)), claim(About.FAILURES, at_least(1)), []),
        (claim(About.FAILURES, one_of(1)), claim(About.FAILURES, at_most(0)), [Kind.FAILURES]),
        (claim(About.RESTART, one_of("yes"), 1), claim(About.RESTART, one_of("no"), 2), []),
        (claim(About.RESTART, one_of("yes"), 1), claim(About.RESTART, one_of("no"), 1), [Kind.RESTART]),
        (claim(About.RESTART, one_of("yes"), 1), claim(About.FAILURES, at_most(0)), [Kind.RESTART]),
        (claim(About.RESTART, one_of("yes"), 1), claim(About.FAILS, one_of("no"), 1), [Kind.RESTART]),
        (claim(About.RESTART, one_of("yes"), 1), claim(About.VOTES, one_of("no"), 1), []),
        (claim(About.RESTART, one_of("yes"), 1), claim(About.VOTES, one_of("no"), 2), [Kind.RESTART]),
        (claim(About.REACHED, one_of(3)), claim(About.REACHES, one_of("no"), 2), [Kind.REACHED]),
        (claim(About.REACHED, one_of(2)), claim(About.REACHES, one_of("no"), 2), []),
        (claim(About.ELECTABLE, one_of("yes")), claim(About.VOTES, one_of("no"), 2), []),
        (claim(About.WITHOUT, one_of("yes"), 1), claim(About.VOTES, one_of("no"), 2), [Kind.ELECTABLE]),
        (claim(About.WITHOUT, one_of("yes"), 1), claim(About.ELECTABLE, one_of("no")), [Kind.ELECTABLE]),
        (claim(About.ELECTABLE, one_of("yes")), claim(About.LISTS, one_of("no")), [Kind.ELECTABLE]),
    ],
)
def test_claims_that_cannot_both_be_true_are_found(one: Claim, other: Claim, kinds: list[Kind]) -> None:
    assert [each.kind for each in contradictions([*VOTERS, one, other])] == kinds
    assert [each.kind for each in contradictions([*VOTERS, other, one])] == kinds
