"""A question about a quorum that several rules, commands and metrics ask: it is answered once for its facts."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar, cast

from rules.facts.quorum import Facts

_AnswerT = TypeVar("_AnswerT")


def asked_once(question: Callable[[Facts], _AnswerT]) -> Callable[[Facts], _AnswerT]:
    """Returns the question, whose answer is kept with the facts."""

    @wraps(question)
    def answer(facts: Facts) -> _AnswerT:
        if question not in facts.answers:
            facts.answers[question] = question(facts)
        return cast(_AnswerT, facts.answers[question])

    return answer
