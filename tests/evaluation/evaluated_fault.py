"""A fault of the evaluation: what is done to the quorum, and what the person on call must read."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streaming.demo.job_process import AlertLine
from streaming.demo.scenarios import ScenarioContext
from tests.evaluation.fault_actions import restore

Inject = Callable[[ScenarioContext], None]
Fix = Callable[[ScenarioContext, Sequence[AlertLine]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedText:
    """The alert that must be sent, and what it must say first."""

    rule: str
    severity: str
    sentence: str
    """A regular expression for the first sentence of its summary: the conclusion."""
    step: str
    """A regular expression for the first line of its remedy."""
    subject: str = ""
    """A part of the alert's subject."""
    within_s: float = 90.0

    def sentence_is_right(self, alert: AlertLine) -> bool:
        """Returns whether the summary begins with the conclusion."""
        return re.match(self.sentence, first_sentence(str(alert.line["summary"]))) is not None

    def step_is_right(self, alert: AlertLine) -> bool:
        """Returns whether the remedy begins with the right step."""
        return bool(alert.remedy) and re.match(self.step, alert.remedy[0]) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedFault:
    """One fault, injected by hand into a healthy quorum."""

    name: str
    """A few words for a table."""
    inject: Inject
    expected: ExpectedText | None
    """None: nobody needs to be notified."""
    fix: Fix = restore
    worsen: Inject | None = None
    worse: tuple[ExpectedText, ...] = ()
    """The alerts after `worsen`, or those that follow from the same fault; each makes it worse."""
    separate: bool = False
    """Whether each alert of `worse` is a fault of its own, with notifications of its own."""
    silent: tuple[str, ...] = ()
    """Rules of which no alert may fire."""

    @property
    def notifications(self) -> dict[str, int]:
        """How many notifications are right: one when it begins, one each time it gets worse, one when it ends."""
        worse = 0 if self.separate else len(self.worse)
        notified = int(self.expected is not None) + len(self.worse) - worse
        return {"begin": notified, "worse": worse, "end": notified, "other": 0}


def first_sentence(text: str) -> str:
    """Returns the text up to the first full stop, question mark or colon that ends a sentence."""
    return re.split(r"(?<=[.?])\s", text, maxsplit=1)[0]
