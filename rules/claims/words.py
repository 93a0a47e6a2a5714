"""The words of claims: sentences are made of them, so that no text gives another answer than its claims.

A question that several sentences answer is answered here, and nowhere else: `make check` finds its words in no other
module. A clause begins in lower case and has no full stop; a predicate follows the name of the node.
"""

from collections.abc import Collection, Mapping
from typing import Final

from rules.claims.claim import NO, NOBODY, YES, Claim, Directory, Follows, Question, Value, claim, of_each
from rules.claims.statement import Statement, statement
from rules.formatting import numbered, plural
from rules.model.identifiers import NodeId

TAKES_NO_PART: Final = "can neither vote nor lead"
NO_LEADER_ELECTED: Final = "no leader could be elected"
_QUORUM: Final[Mapping[tuple[Question, Value | None], str]] = {
    (Question.LEADER, NOBODY): "no controller leads the quorum",
    (Question.LEADER, None): "which controller leads now is not known",
    (Question.COMMITS, NO): "no metadata change is possible",
    (Question.FAILURES, 0): "the quorum tolerates no further failure",
    (Question.FAILURES, None): "how many more voters may fail is not known",
    (Question.ELECTABLE, YES): "if all controllers restarted now, a leader could still be elected",
    (Question.ELECTABLE, NO): f"if all controllers restarted now, {NO_LEADER_ELECTED}",
    (Question.ELECTABLE, None): "whether a leader could be elected if all controllers restarted now is not known",
}
"""What an answer says of the quorum; None: it is unknown."""
_COUNTED: Final[Mapping[Question, tuple[str, str]]] = {
    Question.REACHED: ("can be reached", "can be reached"),
    Question.ACTIVE: ("is active", "are active"),
    Question.IN_SYNC: ("is in sync", "are in sync"),
}
"""What so many voters do, if there is one voter or several."""
_NODE: Final[Mapping[tuple[Question, Value], str]] = {
    (Question.VOTER, NO): "is not a voter",
    (Question.VOTES, NO): TAKES_NO_PART,
    (Question.FOLLOWS, Follows.IN_SYNC): "is in sync",
    (Question.FOLLOWS, Follows.NOT_FETCHING): "is not fetching",
    (Question.DIRECTORY, Directory.REPLACED): "has a new directory id and is not a voter",
}
"""What an answer says of a node."""


def clause(one: Claim) -> Statement:
    """Returns a claim about the quorum, or who leads it."""
    return Statement(_clause(one), one)


def _clause(one: Claim) -> str:
    value = one.answer[0] if one.answer else None
    if value == Directory.COPY:
        return f"two processes run with node.id {one.node}"
    if isinstance(value, int) and one.of is not None:
        return f"{value} of {plural(one.of, 'voter')} {_COUNTED[one.question][one.of != 1]}"
    if isinstance(value, int) and one.question is Question.LEADER:
        return f"controller {value} leads"
    if value and one.question is Question.FAILURES:
        return f"the quorum tolerates {plural(int(value), 'further failure')}"
    return _QUORUM[one.question, value]


def predicate(one: Claim) -> Statement:
    """Returns what a claim says of its node."""
    return Statement(_NODE[one.question, one.answer[0]], one)


def not_a_voter(node: NodeId) -> Statement:
    """Returns the sentence with which an alert about a voter resolves that is none any more."""
    return statement(f"Controller {node} ", predicate(claim(Question.VOTER, NO, node=node)), ".")


def sentence(*parts: str) -> Statement:
    """Returns the parts as one text that begins with a capital letter, with the claims of each."""
    whole = statement(*parts)
    return Statement(whole[:1].upper() + whole[1:], *whole.claims)


def do_not_restart(nodes: Collection[NodeId] | None, act: str = "restart", *, named: str = "") -> Statement:
    """Returns the beginning of a sentence that forbids the restart of these controllers; None: of every node.

    `act`: what is forbidden with it (`stop or restart`). `named`: what the sentence calls them instead of their ids.
    """
    claims = (claim(Question.RESTART, NO),) if nodes is None else of_each(Question.RESTART, nodes, NO)
    return Statement(f"Do not {act} {named or numbered('controller', sorted(nodes or ()))}", *claims)
