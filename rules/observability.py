"""Checks what a rule needs to observe (`Rule.needs`) before the rule is evaluated."""

from collections.abc import Iterable
from dataclasses import replace

from rules.analysis.freshness import POLLS_ONLY, fresh_poll, log_age_problem, log_read_problem, poll_problem
from rules.finding import Finding, Need, NotApplicable, Rule, RuleResult, Thresholds, UnknownResult
from rules.model.membership import VoterSet
from rules.model.quorum import Poll, Quorum

DISABLED = "disabled by the configuration"
"""Why a rule that the configuration turned off is not applicable."""


class UnmetNeedError(RuntimeError):
    """A rule was evaluated although one of its needs is not met, or uses an observation that it does not declare."""


def evaluate_rule(rule: Rule, quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Yields the results of one rule, with its id and the configured severity.

    The only result is unknown or not applicable while a need is not met, and not applicable for a disabled rule.
    """
    unmet = _unmet_need(rule, quorum, thresholds)
    for each in rule.evaluate(quorum, thresholds) if unmet is None else (unmet,):
        if isinstance(each, Finding) and thresholds.severity is not None:
            yield replace(each, rule=rule.id, severity=thresholds.severity)
        else:
            yield replace(each, rule=rule.id)


def _unmet_need(rule: Rule, quorum: Quorum, thresholds: Thresholds) -> UnknownResult | NotApplicable | None:
    """Returns the result of a rule for the first of its needs that is not met; None if all are met."""
    if not thresholds.enabled:
        return NotApplicable(why=DISABLED)
    for need in rule.needs:
        if need is not Need.FRESH_POLL and not quorum.access.log:
            return NotApplicable(why=POLLS_ONLY)
        if need is Need.VOTERS_RECORD and _static(quorum):
            return NotApplicable(why="kraft.version is 0: a static quorum has no VotersRecord and no directory ids")
        if need is Need.RECOVERY_STATE and _without_recovery_state(quorum):
            level = quorum.metadata_version
            return NotApplicable(
                why=f"not supported: metadata.version {level} is below 3.2 and has no LeaderRecoveryState"
            )
        problem = _problem(need, quorum, thresholds)
        if problem is not None:
            return UnknownResult(why=problem)
    return None


def needed_poll(quorum: Quorum) -> Poll:
    """Returns the poll of a rule that declares `Need.FRESH_POLL`.

    Raises:
        UnmetNeedError: there is no poll.
    """
    if quorum.poll is None:
        raise UnmetNeedError(poll_problem(quorum))
    return quorum.poll


def needed_voters(quorum: Quorum) -> VoterSet:
    """Returns the committed voters of a rule that declares `Need.VOTERS_RECORD`.

    Raises:
        UnmetNeedError: no VotersRecord is known.
    """
    if quorum.committed is None:
        raise UnmetNeedError(_NO_VOTERS_RECORD)
    return quorum.committed


_RECOVERY_STATE_SINCE = 3
"""The level of metadata.version 3.2-IV0 (MetadataVersion.isLeaderRecoverySupported)."""
_NO_VOTERS_RECORD = "no committed VotersRecord has been read yet"


def _static(quorum: Quorum) -> bool:
    """Returns whether the log, read to its end, has no VotersRecord.

    A log without a KRaftVersionRecord was written by a Kafka before 3.9: its kraft.version is 0.
    """
    return log_read_problem(quorum) is None and quorum.committed is None and not quorum.kraft_version


def _without_recovery_state(quorum: Quorum) -> bool:
    level = quorum.metadata_version
    return level is not None and level < _RECOVERY_STATE_SINCE


def _problem(need: Need, quorum: Quorum, thresholds: Thresholds) -> str | None:
    """Returns one sentence that says why the need is not met; None if it is met. Two are met wherever they apply."""
    match need:
        case Need.METADATA_LOG | Need.RECOVERY_STATE:
            return None
        case Need.VOTERS_RECORD:
            return log_read_problem(quorum) or (_NO_VOTERS_RECORD if quorum.committed is None else None)
        case Need.CURRENT_LOG:
            return log_read_problem(quorum) or log_age_problem(quorum, thresholds)
        case Need.FRESH_POLL:
            poll = fresh_poll(quorum, thresholds)
            return None if poll is not None and poll.leader is not None else poll_problem(quorum)
