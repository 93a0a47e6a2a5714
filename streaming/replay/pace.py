"""When the rules of a cluster are evaluated: its pace, and until when nothing changes because time passes.

The rules are evaluated after every row that may show a change. After a quiet row, which shows nothing new but that time
passes, they are evaluated when a condition may begin or end by that, at most once in PACE_MS of observed time, and when
a hold or clear time ends. That depends on the rows alone, never on how many of them are applied together.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from rules.evaluate import evaluate
from rules.facts.contact import is_answered
from rules.facts.following import majority_lag_ms
from rules.facts.quorum import Facts
from rules.finding import Evaluation, Severity, Thresholds
from rules.lifecycle import TrackedConditions, next_due
from rules.model.ages import APPENDED_MS, FETCH_WAIT_MS, POLL_LATENCY_MS
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from rules.model.replica import CommitWait
from rules.model.subject import Subject
from streaming.replay.commit_waits import AVERAGED_MS, STEP_MS

PACE_MS: Final = 2_000
"""How long quiet rows are not evaluated: by so much an alert without a hold is later than with every row evaluated."""
_ON_AVERAGE: Final = frozenset({"commits-slow", "leader-slow"})
"""The rules whose conditions hold while an average is high."""
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
    if not _failed_probes_are_decided(quorum):
        return quorum.now_ms
    found = _conditions(evaluation)
    for ms in _AHEAD_MS:
        later = _futures(_later(quorum, ms), ms, ends=any(rule in _ON_AVERAGE for rule, *_ in found))
        if all(_conditions(evaluate(Facts(each), thresholds, texts=False)) == found for each in later):
            return Millis(quorum.now_ms + ms)
    return quorum.now_ms


def _failed_probes_are_decided(quorum: Quorum) -> bool:
    """Returns whether the newest poll shows of each node whose probe failed whether it fetched since. Before that, a
    quiet poll may change a result."""
    polled_ms = quorum.poll.observed_at_ms if quorum.poll else Millis(0)
    return all(
        is_answered(probe) or polled_ms - probe.observed_at_ms > POLL_LATENCY_MS + 2 * FETCH_WAIT_MS
        for probe in quorum.probes.values()
    )


def _conditions(evaluation: Evaluation) -> list[tuple[str, Subject, Severity]]:
    return [(finding.rule, finding.subject, finding.severity) for finding in evaluation.findings]


def _later(quorum: Quorum, ms: int) -> Quorum:
    newest_ms = quorum.newest_timestamp_ms
    newest_ms = None if newest_ms is None else Millis(newest_ms + ms)
    return replace(quorum, now_ms=Millis(quorum.now_ms + ms), newest_timestamp_ms=newest_ms)


def _futures(quorum: Quorum, ms: int, *, ends: bool) -> Iterator[Quorum]:
    """Yields the quorum with the averages of its polls as high as they may be after so many milliseconds more: they
    move towards what the newest poll shows, and by a step. If a condition of one may end, also as low as they may be.
    """
    wait = quorum.commit_wait
    if wait is None:
        yield quorum
        return
    lags = {str(key): history.samples[-1].lag_ms or 0 for key, history in quorum.histories.items() if history.samples}
    answer_ms = quorum.poll.answer_ms if quorum.poll else None

    def moved(sign: int, least_ms: int) -> CommitWait:
        shown = {key: max(lags.get(key, 0), least_ms) for key in wait.lags_ms}
        return CommitWait(
            average_ms=_moved(wait.average_ms, majority_lag_ms(shown.values()), sign, ms),
            answer_ms=None if wait.answer_ms is None else _moved(wait.answer_ms, answer_ms, sign, ms),
            lags_ms={key: _moved(average, shown[key], sign, ms) for key, average in wait.lags_ms.items()},
        )

    # A quiet poll may show replicas that lack what was just appended.
    yield replace(quorum, commit_wait=moved(1, APPENDED_MS))
    if ends:
        yield replace(quorum, commit_wait=moved(-1, 0))


def _moved(average_ms: Millis, newest_ms: int | None, sign: int, ms: int) -> Millis:
    """Returns the highest (sign 1) or lowest (-1) value that an average may have after so many milliseconds."""
    drift_ms = 0 if newest_ms is None else sign * (newest_ms - average_ms) * ms // AVERAGED_MS
    return Millis(max(0, average_ms + sign * (STEP_MS + max(0, drift_ms))))
