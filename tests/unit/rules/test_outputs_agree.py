"""No two answers of one moment contradict each other: alerts, status, safe-to-restart, what-if, resolved texts."""

import pytest

from rules.claims.claim import Claim, Question, Value
from rules.model.identifiers import NodeId
from tests.agreement import text
from tests.agreement.agreement import AgreementCount, assert_outputs_agree
from tests.agreement.contradictions import Kind, contradictions
from tests.agreement.said import Said
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


def said(question: Question, *answer: Value, node: int | None = None, output: str = "one") -> Said:
    about = None if node is None else NodeId(node)
    return Said(claim=Claim(question=question, node=about, answer=answer), output=output)


VOTERS = [said(Question.VOTER, "yes", node=node) for node in (1, 2, 3)]


@pytest.mark.parametrize(
    ("one", "other", "kinds"),
    [
        (said(Question.LEADER, 3), said(Question.LEADER, "nobody"), [Kind.LEADER]),
        (said(Question.LEADER, 3), said(Question.LEADER, 3, output="other"), []),
        (said(Question.FAILURES, 1), said(Question.FAILURES, 1, output="other"), []),
        (said(Question.FAILURES, 1), said(Question.FAILURES), [Kind.FAILURES]),
        (said(Question.RESTART, node=1), said(Question.RESTART, "no", node=1), []),
        (said(Question.FAILURES, 1), said(Question.FAILURES, 0), [Kind.FAILURES]),
        (said(Question.RESTART, "yes", node=1), said(Question.RESTART, "no", node=2), []),
        (said(Question.RESTART, "yes", node=1), said(Question.RESTART, "no", node=1), [Kind.RESTART]),
        (said(Question.RESTART, "yes", node=1), said(Question.FAILURES, 0), [Kind.RESTART]),
        (said(Question.RESTART, "yes", node=1), said(Question.FAILS, "no", node=1), [Kind.RESTART]),
        (said(Question.RESTART, "yes", node=1), said(Question.VOTES, "no", node=1), []),
        (said(Question.RESTART, "yes", node=1), said(Question.VOTES, "no", node=2), [Kind.RESTART]),
        (said(Question.REACHED, 3), said(Question.REACHES, "no", node=2), [Kind.REACHED]),
        (said(Question.REACHED, 2), said(Question.REACHES, "no", node=2), []),
        (said(Question.ELECTABLE, "yes"), said(Question.VOTES, "no", node=2), []),
        (said(Question.WITHOUT, "yes", node=1), said(Question.VOTES, "no", node=2), [Kind.ELECTABLE]),
        (said(Question.WITHOUT, "yes", node=1), said(Question.ELECTABLE, "no"), [Kind.ELECTABLE]),
        (said(Question.ELECTABLE, "yes"), said(Question.LISTS, "no"), [Kind.ELECTABLE]),
    ],
)
def test_claims_that_cannot_both_be_true_are_found(one: Said, other: Said, kinds: list[Kind]) -> None:
    assert [each.kind for each in contradictions([*VOTERS, one, other])] == kinds
    assert [each.kind for each in contradictions([*VOTERS, other, one])] == kinds
