"""kraftwatch does not observe the quorum: its state is unknown.

What it means
    Active alerts stay active: unknown is not healthy. The subject is one of these:

    - `quorum`: fetches of the metadata log, DescribeQuorum polls or both have no current answer, and nothing shows that
      there is no leader: attempts time out, names do not resolve, a login fails, a permission is missing, a firewall
      refuses connections to the leader.
      If both have no answer the alert is critical, because the monitor cannot distinguish this from an outage (with
      `vantage: outside` it is a warning). If one has no answer it is a warning, because some rules cannot be evaluated.
      If all controllers reject the login or TLS of a monitor that they accepted before, they may reject each other too:
      then it is critical from outside as well, and the remedy begins with a check of that.
      If the controllers moved to another listener and kraftwatch's `bootstrap` or `security_protocol` did not, it
      names the new addresses and the new protocol.
    - `rule NAME`: that rule failed, and is not evaluated until it is fixed.

    If all that fails is at the endpoint of a voter where another process answers, it is one incident with
    `stale-voter-endpoint`, which names that process.

    A single controller that does not answer while others do is `controller-not-observed`; a resolver that fails while
    the quorum is observed is `resolver-failing`. Neither fires for what this alert reports.

    Where nothing is observed of three clusters or more that are half of all, `monitor-degraded` reports them as one:
    this host is probably cut off.

What to do
    1. Check the monitor's own host and network.
    2. Fix what the reasons name: the remedy says how, for each reason.
    3. Query the quorum from another host.

What not to do
    Do not restart controllers because of this alert alone.
"""

from collections.abc import Iterable, Mapping, Sequence

from rules.claims.claim import Question, claim
from rules.claims.statement import Statement, statement
from rules.claims.words import listen, sentence, the_leader
from rules.facts.damaged_log import unreadable_log
from rules.facts.endpoint import EndpointFault
from rules.facts.freshness import last_answers, unanswered_sources
from rules.facts.leadership import UnreachableLeader, never_accepted, rejecting_voters
from rules.facts.node import Process
from rules.facts.outdated_settings import OutdatedSettings, outdated_settings
from rules.facts.quorum import Facts
from rules.finding import Finding, FindingFacts, Plain, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.formatting import and_join, utc_text
from rules.model.identifiers import Millis, NodeId
from rules.model.monitoring import NO_LEADER_REASONS, FailedObservation, ObservationSource, Reason, Vantage
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.access_steps import access_steps, is_untrusted
from rules.remedies.remedy_commands import SCRAM_NEEDS_A_LEADER, describe_status
from rules.rule import Rule

QUORUM_SUBJECT = Subject("quorum")
_DETAIL = 200
"""Maximum number of characters of a failure's detail."""
_NAMES = {ObservationSource.LOG: "the metadata log", ObservationSource.QUORUM: "DescribeQuorum"}
_EVIDENCE_KEYS = {
    ObservationSource.LOG: "metadata_log_last_answer",
    ObservationSource.QUORUM: "describe_quorum_last_answer",
}
_CURRENT = "current"
_REJECTED = (
    " The controllers reject the monitor's login or TLS since the last answer: if they use the same credentials or "
    "authorities, they reject each other too, and there is no leader."
)
_DISTRUSTED = (
    " The monitor trusts none of the certificates since the last answer: if the controllers' truststores are like "
    "ssl_cafile, they reject each other too, and there is no leader."
)
_NEVER_ACCEPTED = (
    " No controller has accepted the monitor's login or TLS yet: whether there is a leader, only the controllers know."
)
_NO_SCRAM = " With SCRAM a controller that was restarted rejects every login until there is a leader."
_CONFIGURATION_ERRORS = {
    Reason.DENIED,
    Reason.NOT_AUTHENTICATED,
    Reason.TLS_FAILED,
    Reason.WRONG_PROTOCOL,
    Reason.WRONG_CLUSTER,
    Reason.UNSUPPORTED,
}


_RUNNING_REASONS = frozenset({Reason.NOT_AUTHENTICATED, Reason.DENIED, Reason.NOT_READY})
"""What only a process answers that runs."""


def evaluate(facts: Facts, _thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns at most one result: about the quorum."""
    quorum = facts.quorum
    answers, stale = last_answers(quorum), unanswered_sources(quorum)
    if not stale:
        return
    if not all(_tried_since_gap(quorum, source, answers[source]) for source in stale):
        why = f"nothing was observed until {utc_text(quorum.watched_since_ms)}, and no attempt has ended since"
        yield UnknownResult(why=why)
        return
    unreachable = facts.unreachable_leader
    failures = [
        failure
        for failure in quorum.failures
        if failure.source in stale
        and failure.reason is not Reason.LOG_DAMAGED
        and (unreachable is None or failure.reason is not Reason.NO_LEADER)
    ]
    damaged = unreadable_log(quorum)
    if damaged is not None and stale == (ObservationSource.LOG,):
        why = f"metadata-log-damaged reports that the log of {damaged.name} cannot be read further"
        yield UnknownResult(subject=QUORUM_SUBJECT, why=why)
        return
    if facts.leaderless is not None:
        # A configuration error remains when a leader is elected; the missing leader explains every other failure.
        if any(failure.reason in _CONFIGURATION_ERRORS for failure in failures):
            why = "no controller leads, and some requests are rejected or not supported"
            yield UnknownResult(subject=QUORUM_SUBJECT, why=why)
        return
    nothing = len(stale) == len(answers)
    outdated, rejecting = outdated_settings(quorum), rejecting_voters(facts.who_leads) if nothing else ()
    rejected = bool(rejecting) or (nothing and never_accepted(facts.who_leads))
    # A connection that is rejected shows that the path from outside works.
    critical = nothing and (quorum.vantage is Vantage.INSIDE or bool(rejecting))
    yield Finding(
        subject=QUORUM_SUBJECT,
        severity=Severity.CRITICAL if critical else Severity.WARNING,
        summary=statement(
            _summary(answers, stale, failures, outdated),
            _listening(facts, failures),
            _rejection(quorum, failures, since=bool(rejecting)) if rejected else "",
            _leader_sentence(unreachable),
        ),
        evidence={
            "vantage": quorum.vantage.value,
            **({"unreachable_leader": unreachable.id, "reported_by": [*unreachable.followers]} if unreachable else {}),
            **{_EVIDENCE_KEYS[source]: _time(at) if source in stale else _CURRENT for source, at in answers.items()},
            "last_committed_offset": quorum.last_offset,
            **(outdated.evidence if outdated else {}),
            **({"rejecting": [*rejecting]} if rejecting else {}),
            "failing": [_failure(failure) for failure in _oldest(failures)],
        },
        facts=FindingFacts(
            failed_nodes=_replaced(facts, failures),
            unobserved=tuple(sorted({failure.reason for failure in failures})) if nothing else None,
        ),
        remedy=tuple(_remedy(facts, failures, outdated, rejected=rejected)),
    )


def _listening(facts: Facts, failures: Sequence[FailedObservation]) -> Statement:
    """Returns what the failures say of the voters: one that rejects or denies the monitor runs, unless its newest probe
    says otherwise."""
    running = {failure.endpoint for failure in _oldest(failures) if failure.reason in _RUNNING_REASONS}
    silent = {Process.DOWN, Process.HUNG, Process.NOT_REACHED}
    voters = [
        voter.id
        for voter in facts.nodes.voters
        if str(voter.endpoint) in running and not (voter.faults or voter.unanswered or voter.process in silent)
    ]
    return statement(" ", listen(voters), ".") if voters else Statement("")


def _replaced(facts: Facts, failures: Iterable[FailedObservation]) -> tuple[NodeId, ...]:
    """Returns the voters at whose endpoints something else answers, if that explains each failure."""
    voters = [voter for voter in facts.nodes.voters if EndpointFault.OTHER_RESPONDER in voter.faults]
    failing = {failure.endpoint for failure in failures if failure.reason not in NO_LEADER_REASONS}
    explained = bool(failing) and failing <= {str(voter.endpoint) for voter in voters}
    return tuple(voter.id for voter in voters) if explained else ()


def _tried_since_gap(quorum: Quorum, source: ObservationSource, answered_at_ms: Millis | None) -> bool:
    """Returns whether this source was tried since the newest gap in the observations; it last answered at this time.

    A gatherer that only restarts, again and again, tries nothing.
    """
    restarts = [failure for failure in quorum.failures if failure.reason is Reason.INTERRUPTED]
    if any(restart.first_at_ms < restart.last_at_ms for restart in restarts) or quorum.watched_since_ms == 0:
        return True
    failed = (failure for failure in quorum.failures if failure.last_at_ms >= quorum.watched_since_ms)
    answered = answered_at_ms is not None and answered_at_ms >= quorum.watched_since_ms
    return answered or any(failure.source is source and failure.reason is not Reason.INTERRUPTED for failure in failed)


def _rejection(quorum: Quorum, failures: Sequence[FailedObservation], *, since: bool) -> str:
    """`since`: a leader answered before."""
    if not since:
        return f"{_NEVER_ACCEPTED}{_NO_SCRAM if quorum.access.scram else ''}"
    return _DISTRUSTED if is_untrusted(quorum, [failure.endpoint for failure in failures]) else _REJECTED


def _remedy(
    facts: Facts, failures: Sequence[FailedObservation], outdated: OutdatedSettings | None, *, rejected: bool
) -> Iterable[str]:
    advice = tuple(access_steps(facts, failures, outdated))
    untrusted = is_untrusted(facts.quorum, [failure.endpoint for failure in failures])
    # What has never worked is more often wrong here than there, but where an outage looks the same.
    own_first = rejected and (untrusted or not (facts.who_leads.last_ms is not None or facts.quorum.access.scram))
    if own_first:
        yield from advice
    if rejected:
        yield "# Check on a controller's host, with its own configuration file, whether there is a leader"
        yield describe_status(facts)
        yield (
            "# If there is none, or it is rejected too, the controllers reject each other as well: give all of them, "
            "one after the other, credentials and certificates that the others accept"
        )
        if any(failure.reason is Reason.NOT_AUTHENTICATED for failure in failures):
            yield SCRAM_NEEDS_A_LEADER
    if not own_first:
        yield from advice
    yield "# Query the quorum from another host as well"
    if not rejected:
        yield describe_status(facts)


def _summary(
    answers: Mapping[ObservationSource, Millis | None],
    stale: Sequence[ObservationSource],
    failures: Sequence[FailedObservation],
    outdated: OutdatedSettings | None,
) -> str:
    sources = and_join(f"{_NAMES[source]} (last answer: {_time(answers[source])})" for source in stale)
    reasons = and_join(
        [_reason_with_endpoints(reason, failures) for reason in sorted({failure.reason for failure in failures})], 4
    )
    if len(stale) == len(answers):
        problem, consequence = "The state of the quorum is unknown", ""
    else:
        problem, consequence = "Part of the quorum is not observed", " Some rules cannot be evaluated."
    cause = f"Failing: {reasons}." if failures else "No failed attempt was reported."
    if outdated is not None:
        sentence = f"kraftwatch's own settings are out of date. {outdated.sentence}"
        return f"{problem}: {sentence} No current answer from {sources}.{consequence} {cause}"
    return f"{problem}: no current answer from {sources}.{consequence} {cause}"


def _leader_sentence(leader: UnreachableLeader | None) -> Statement:
    if leader is None:
        return Statement("")
    report = "reports" if len(leader.followers) == 1 else "report"
    who = sentence(the_leader(claim(Question.LEADER, leader.id)))
    return statement(" ", who, f" does not answer here, but {and_join(leader.followers, 4)} {report} it.")


def _reason_with_endpoints(reason: Reason, failures: Sequence[FailedObservation]) -> str:
    """Returns a reason with its endpoints, and with the failures' detail if all of them have the same."""
    matching = [failure for failure in failures if failure.reason is reason]
    details = {failure.detail for failure in matching}
    why = f" ({details.pop()[:_DETAIL]})" if len(details) == 1 and details != {""} else ""
    return f"{reason.value}{why} at {and_join(sorted({failure.endpoint or 'no address' for failure in matching}), 4)}"


def _time(at: Millis | None) -> str:
    return "never" if at is None else utc_text(at)


def _oldest(failures: Sequence[FailedObservation]) -> list[FailedObservation]:
    return sorted(failures, key=lambda each: (each.first_at_ms, each.source, each.endpoint))[:16]


def _failure(failure: FailedObservation) -> dict[str, Plain]:
    return {
        "observation_source": failure.source.value,
        "endpoint": failure.endpoint,
        "reason": failure.reason.value,
        "since": utc_text(failure.first_at_ms),
        **({"detail": failure.detail[:_DETAIL]} if failure.detail else {}),
    }


def _resolved(facts: Facts, subject: Subject) -> str:
    if subject.kind == "rule":
        return f"Rule {subject.name} is evaluated."
    return "kraftwatch observes the quorum: the controllers answer."


RULE = Rule(
    title="kraftwatch does not observe the quorum",
    resolved=_resolved,
    hold=hold(30.0),
    about_observation=True,
)
