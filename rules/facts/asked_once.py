"""A question about a quorum that several findings, rules, commands or metrics ask: its facts keep the answer."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar, TypeVarTuple, cast

from rules.facts.quorum import Facts

_About = TypeVarTuple("_About")
_AnswerT = TypeVar("_AnswerT")


def asked_once(question: Callable[[Facts, *_About], _AnswerT]) -> Callable[[Facts, *_About], _AnswerT]:
    """Returns the question, whose answer is kept with the facts, by what else is asked about: hashable values."""

    @wraps(question)
    def answer(facts: Facts, *about: *_About) -> _AnswerT:
        key = (question, *about)
        if key not in facts.answers:
            facts.answers[key] = question(facts, *about)
        return cast(_AnswerT, facts.answers[key])

    return answer
