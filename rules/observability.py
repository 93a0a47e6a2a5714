"""Checks what a rule needs to observe (`Rule.needs`) before the rule is evaluated."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from rules.analysis.freshness import POLLS_ONLY, fresh_poll, log_age_problem, log_read_problem, poll_problem
from rules.finding import Finding, Need, NotApplicable, Rule, RuleResult, Thresholds, UnknownResult
from rules.model.poll import Poll
from rules.model.quorum import Quorum
from rules.model.voter_set import VoterSet

DISABLED = "disabled by the configuration"
"""Why a rule that the configuration turned off is not applicable."""


class UnmetNeedError(RuntimeError):
    """A rule was evaluated although one of its needs is not met, or uses an observation that it does not declare."""


def evaluate_rule(rule: Rule, quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns the results of one rule, with the configured severity.

    The only result is unknown or not applicable while a need is not met, and not applicable for a disabled rule.
    """
    if not thresholds.enabled:
        return (NotApplicable(rule=rule.id, why=DISABLED),)
    result = unmet_need(rule, quorum, thresholds)
    if result is not None:
        return (result,)
    results = rule.evaluate(quorum, thresholds)
    severity = thresholds.severity
    if severity is None:
        return results
    return (replace(each, severity=severity) if isinstance(each, Finding) else each for each in results)


def unmet_need(rule: Rule, quorum: Quorum, thresholds: Thresholds) -> UnknownResult | NotApplicable | None:
    """Returns the result of a rule for the first of its needs that is not met; None if all are met."""
    for need in rule.needs:
        if need is not Need.FRESH_POLL and not quorum.access.log:
            return NotApplicable(rule=rule.id, why=POLLS_ONLY)
        if need is Need.VOTERS_RECORD and _static(quorum):
            why = "kraft.version is 0: a static quorum has no VotersRecord and no directory ids"
            return NotApplicable(rule=rule.id, why=why)
        if need is Need.RECOVERY_STATE and _without_recovery_state(quorum):
            why = (
                f"not supported: metadata.version {quorum.metadata_version} is below 3.2 and has no LeaderRecoveryState"
            )
            return NotApplicable(rule=rule.id, why=why)
        problem = _PROBLEMS[need](quorum, thresholds)
        if problem is not None:
            return UnknownResult(rule=rule.id, subject=None, why=problem)
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


def _metadata_log(_quorum: Quorum, _thresholds: Thresholds) -> str | None:
    return None


def _voters_record(quorum: Quorum, _thresholds: Thresholds) -> str | None:
    return log_read_problem(quorum) or (_NO_VOTERS_RECORD if quorum.committed is None else None)


def _current_log(quorum: Quorum, thresholds: Thresholds) -> str | None:
    return log_read_problem(quorum) or log_age_problem(quorum, thresholds)


def _fresh_poll(quorum: Quorum, thresholds: Thresholds) -> str | None:
    poll = fresh_poll(quorum, thresholds)
    return None if poll is not None and poll.leader is not None else poll_problem(quorum)


_PROBLEMS: Mapping[Need, Callable[[Quorum, Thresholds], str | None]] = {
    Need.METADATA_LOG: _metadata_log,
    Need.VOTERS_RECORD: _voters_record,
    Need.CURRENT_LOG: _current_log,
    Need.FRESH_POLL: _fresh_poll,
    Need.RECOVERY_STATE: _metadata_log,
}
"""Each returns one sentence that says why the need is not met, or None."""
