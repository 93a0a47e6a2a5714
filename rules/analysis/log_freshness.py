"""Reading: whether the log is read to its end and still followed, for rules that judge by what it says now."""

from rules.analysis.freshness import SEEN_AGE, catching_up
from rules.finding import NotApplicable, Thresholds, UnknownResult
from rules.formatting import spelled
from rules.model.quorum import Quorum


def unread(rule: str, quorum: Quorum, thresholds: Thresholds) -> UnknownResult | NotApplicable | None:
    """The answer of a rule that judges by the log's end while that is not seen; None while it is.

    Args:
        rule: who asks.
        quorum: what is known.
        thresholds: `seen_age`.
    """
    behind = catching_up(rule, quorum)
    if behind is not None:
        return behind
    seen = quorum.log_seen_at_ms
    if seen is None or quorum.now_ms - seen > thresholds.ms(SEEN_AGE.name):
        ago = "never" if seen is None else f"{spelled(quorum.now_ms - seen)} ago"
        return UnknownResult(rule=rule, subject=None, why=f"the metadata log was last answered {ago}")
    return None
