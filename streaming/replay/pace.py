"""When the rules of a cluster are evaluated: its pace, and until when nothing changes because time passes.

The rules are evaluated after every row that may show a change. After a quiet row, which shows nothing new but that time
passes, they are evaluated once in PACE_MS of observed time, and when a hold or clear time ends. That depends on the
rows alone, never on how many of them are applied together.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from rules.evaluate import evaluate
from rules.facts.quorum import Facts
from rules.finding import Evaluation, Severity, Thresholds
from rules.lifecycle import TrackedConditions, next_due
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from rules.model.subject import Subject

PACE_MS: Final = 2_000
"""How long quiet rows are not evaluated: by so much an alert without a hold is later than with every row evaluated."""
_AHEAD_MS: Final = (9_000, 4_000)
"""How far ahead the rules are evaluated, the longest first: a poll is no longer current after ten seconds."""


def is_due(
    tracked: TrackedConditions,
    thresholds: Mapping[str, Thresholds],
    now_ms: Millis,
    *,
    quiet: bool,
    pace_ms: int = PACE_MS,
) -> bool:
    """Returns whether the rules are evaluated after a row of this time, which is quiet or not.

    `tracked`: the conditions after the newest evaluation.
    """
    if not quiet or now_ms - tracked.now_ms >= pace_ms:
        return True
    due_ms = next_due(tracked, thresholds)
    return due_ms is not None and now_ms >= due_ms


def quiet_until_ms(quorum: Quorum, evaluation: Evaluation, thresholds: Mapping[str, Thresholds]) -> Millis:
    """Returns a time before which no condition begins or ends if nothing but time passes; `now_ms`: none is known.

    Args:
        quorum: after the newest row.
        evaluation: the newest one: of this quorum, or of the one before some quiet rows.
        thresholds: by rule id, as `rules.evaluate.thresholds_for` returns them.
    """
    found = _conditions(evaluation)
    for ms in _AHEAD_MS:
        if _conditions(evaluate(Facts(_later(quorum, ms)), thresholds, texts=False)) == found:
            return Millis(quorum.now_ms + ms)
    return quorum.now_ms


def _conditions(evaluation: Evaluation) -> list[tuple[str, Subject, Severity]]:
    return [(finding.rule, finding.subject, finding.severity) for finding in evaluation.findings]


def _later(quorum: Quorum, ms: int) -> Quorum:
    newest_ms = quorum.newest_timestamp_ms
    newest_ms = None if newest_ms is None else Millis(newest_ms + ms)
    return replace(quorum, now_ms=Millis(quorum.now_ms + ms), newest_timestamp_ms=newest_ms)
