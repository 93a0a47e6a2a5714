"""kraftwatch itself cannot see what it should: nothing can be said of the quorum, neither good nor bad.

What it means
    Alerts told before stay as they were: blind is not healthy. The subject says what is not seen:

    - `quorum`: the metadata log, DescribeQuorum or both have not been answered for a while, and nobody said that there
      is no leader: attempts time out, names do not resolve, a login fails, something is not allowed. Blind to both is
      critical, because from here it cannot be told from an outage; blind to one is a warning, because half of the rules
      cannot judge.
    - `names`: the resolver here fails, so vanished names would not be noticed.
    - `rule NAME`: that rule failed, and sees nothing until it is mended.
    - `sink NAME`, about the cluster `kraftwatch`, which is the job itself: that sink could not be told for five
      minutes, and the others tell of it. What waits for it is told once it can be.

Evidence
    What was last seen when, and every attempt that fails now: what was asked where, the reason, since when. Where only
    the leader does not answer: who it is, by whose word.

What to do
    Follow the reason. Look first at the monitor's own host and network; then ask the quorum from another place.

What not to do
    Do not restart controllers because of this alert alone.

Thresholds
    hold (30 s) and clear (10 s). seen_age (10 s): older than that is stale. probe_age (30 s): likewise for endpoints.
"""

from collections.abc import Iterable

from rules.analysis.freshness import PROBE_AGE, SEEN_AGE, hidden, leaderless
from rules.analysis.unreachable_leader import HiddenLeader
from rules.finding import Finding, Plain, Rule, RuleResult, Severity, Thresholds, UnknownResult, clear, hold
from rules.formatting import listed, spelled
from rules.model.identifiers import Millis
from rules.model.monitoring import FailedObservation, ObservationSource, Reason, Resolution, Vantage
from rules.model.quorum import Quorum
from rules.remedy_commands import allow, describe_status

ID = "monitor-blind"

ADVICE: dict[Reason, str] = {
    Reason.UNRESOLVABLE: "Look up the controllers' names on the monitor's host: there is no answer for {where}",
    Reason.RESOLVER_FAILED: "Mend name resolution on the monitor's host: it failed on {where}",
    Reason.REFUSED: "See what runs at {where}: connections are refused there",
    Reason.TIMED_OUT: "Look at the network between the monitor and {where}, and whether the processes there hang",
    Reason.UNREACHABLE: "Look at routes and firewalls between the monitor and {where}",
    Reason.CLOSED: "See in the logs at {where} why connections are closed: a listener with TLS closes plain ones",
    Reason.NO_LEADER: "See why no leader is known at {where} while others do not say so",
    Reason.NOT_READY: "Wait for the start of {where}: the authorizer is not ready there",
    Reason.DENIED: "Allow the monitor's principal {operations} on CLUSTER: it is denied at {where}",
    Reason.NOT_AUTHENTICATED: "Mend the monitor's login: it is not accepted at {where}",
    Reason.TLS_FAILED: "Mend the TLS settings between the monitor and {where}: certificate, authority or host name",
    Reason.WRONG_CLUSTER: "Correct the configured addresses: another cluster answers at {where}",
    Reason.UNSUPPORTED: "See which Kafka runs at {where}: what was asked is not supported there",
    Reason.UNDECODABLE: "See that a controller listens at {where}; if one does, it is a fault of kraftwatch: report it",
    Reason.METADATA_LOST: "Find out who restored or rebuilt {where}: committed metadata that was read before is gone",
    Reason.INTERRUPTED: "Look why kraftwatch's gatherer was restarted: see its own log",
}
_OPERATIONS = {
    ObservationSource.QUORUM: ("DESCRIBE", "Describe"),
    ObservationSource.LOG: ("CLUSTER_ACTION", "ClusterAction"),
}
"""What each look needs on CLUSTER: in Kafka's spelling, and in that of kafka-acls."""
_DETAIL = 200
"""Characters of a failure's own words."""
_WORDS = {"metadata log": "the metadata log", "DescribeQuorum": "DescribeQuorum"}
_KEPT_OUT = {Reason.DENIED, Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED, Reason.WRONG_CLUSTER, Reason.UNSUPPORTED}


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """At most one finding about our sight of the quorum, and one about names."""
    yield from _quorum(quorum, thresholds)
    yield from _names(quorum, thresholds)


def _quorum(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    if _just_back(quorum):
        yield UnknownResult(rule=ID, subject="quorum", why="the gatherer has only just begun to look again")
        return
    ages = {"DescribeQuorum": _age(quorum, quorum.poll.observed_at_ms if quorum.poll else None)}
    if quorum.access.log:
        ages = {"metadata log": _age(quorum, quorum.log_seen_at_ms), **ages}
    stale = [name for name, age in ages.items() if age is None or age > thresholds.ms(SEEN_AGE.name)]
    sights = {"metadata log": ObservationSource.LOG, "DescribeQuorum": ObservationSource.QUORUM}
    if not stale:
        return
    behind = hidden(quorum)
    failures = [
        each
        for each in quorum.failures
        if each.sight in {sights[name] for name in stale} and (behind is None or each.reason is not Reason.NO_LEADER)
    ]
    if leaderless(quorum) is not None:
        # What keeps us out does so with and without a leader; all else that is stale, the want of one explains.
        if any(each.reason in _KEPT_OUT for each in failures):
            yield UnknownResult(
                rule=ID, subject="quorum", why="no controller leads, and part of what is asked is denied"
            )
        return
    wholly = len(stale) == len(ages)
    critical = wholly and quorum.vantage is Vantage.INSIDE
    yield Finding(
        rule=ID,
        subject="quorum",
        severity=Severity.CRITICAL if critical else Severity.WARNING,
        summary=_summary(ages, stale, failures) + _followed(behind),
        evidence={
            "vantage": quorum.vantage.value,
            **({"leads_by_the_word_of_others": behind.id, "followers": list(behind.followers)} if behind else {}),
            **{f"{name}_seen": _ago(age) for name, age in ages.items()},
            "last_committed_offset": quorum.last_offset,
            "failing": [_failure(quorum, each) for each in _worst(failures)],
        },
        remedy=(*_advice(quorum, failures), "# Ask the quorum from another host as well", describe_status(quorum)),
    )


def _just_back(quorum: Quorum) -> bool:
    """This very observation says that nobody was looking: what was blind before that did not go on standing."""
    return any(
        each.reason is Reason.INTERRUPTED and each.first_at_ms == each.last_at_ms == quorum.now_ms
        for each in quorum.failures
    )


def _summary(ages: dict[str, Millis | None], stale: list[str], failures: list[FailedObservation]) -> str:
    said = listed(f"{_WORDS[name]} (last answer {_ago(ages[name])})" for name in stale)
    reasons = listed([_said(reason, failures) for reason in sorted({each.reason for each in failures})], 4)
    lost = "nothing can be said of the quorum" if len(stale) == len(ages) else "part of the rules cannot judge"
    return f"kraftwatch cannot see {said}: {lost}; {reasons if failures else 'no attempt was reported'}"


def _followed(behind: HiddenLeader | None) -> str:
    if behind is None:
        return ""
    return f"; controller {behind.id} leads by the word of {listed(behind.followers, 4)}, and does not answer from here"


def _said(reason: Reason, failures: list[FailedObservation]) -> str:
    """A reason, where it is met, and in the words of the failure where all of them say the same."""
    met = [each for each in failures if each.reason is reason]
    details = {each.detail for each in met}
    why = f" ({details.pop()[:_DETAIL]})" if len(details) == 1 and details != {""} else ""
    return f"{reason.value}{why} at {listed(sorted({each.endpoint or 'no address' for each in met}), 4)}"


def _names(quorum: Quorum, thresholds: Thresholds) -> Iterable[Finding]:
    limit = quorum.now_ms - thresholds.ms(PROBE_AGE.name)
    failed = [
        probe
        for _, probe in sorted(quorum.probes.items())
        if probe.resolution is Resolution.RESOLVER_FAILED and probe.observed_at_ms >= limit
    ]
    if not failed:
        return
    hosts = sorted({probe.endpoint.host for probe in failed})
    yield Finding(
        rule=ID,
        subject="names",
        severity=Severity.WARNING,
        summary=f"the resolver on the monitor's host fails on {listed(hosts, 4)}: "
        "whether the voters' names still exist cannot be told",
        evidence={
            "vantage": quorum.vantage.value,
            "hosts": [*hosts],
            "said": [*sorted({probe.detail for probe in failed if probe.detail})],
        },
        remedy=("# Mend name resolution on the monitor's host: its resolver gives no answer, which is not NXDOMAIN",),
    )


def _age(quorum: Quorum, at: Millis | None) -> Millis | None:
    return None if at is None else Millis(quorum.now_ms - at)


def _ago(age: Millis | None) -> str:
    return "never" if age is None else f"{spelled(age)} ago"


def _worst(failures: list[FailedObservation]) -> list[FailedObservation]:
    return sorted(failures, key=lambda each: (each.first_at_ms, each.sight, each.endpoint))[:16]


def _failure(quorum: Quorum, failure: FailedObservation) -> dict[str, Plain]:
    return {
        "sight": failure.sight.value,
        "endpoint": failure.endpoint,
        "reason": failure.reason.value,
        "since": _ago(Millis(quorum.now_ms - failure.first_at_ms)),
        **({"detail": failure.detail[:_DETAIL]} if failure.detail else {}),
    }


def _advice(quorum: Quorum, failures: list[FailedObservation]) -> Iterable[str]:
    for reason in sorted({each.reason for each in failures}):
        where = listed(sorted({each.endpoint for each in failures if each.reason is reason and each.endpoint}), 4)
        match reason:
            case Reason.DENIED:
                yield from _allow(quorum, failures, where)
            case Reason.UNSUPPORTED if quorum.poll and all(each.sight is ObservationSource.LOG for each in failures):
                yield f"# Configure a controller's address as well: no broker, as at {where}, serves the metadata log"
            case _:
                yield "# " + ADVICE[reason].format(where=where)


def _allow(quorum: Quorum, failures: list[FailedObservation], where: str) -> Iterable[str]:
    """What lacks, what it means to give it, and the command that does."""
    denied = {each.sight for each in failures if each.reason is Reason.DENIED}
    lacking = [operation for sight, operation in _OPERATIONS.items() if sight in denied]
    yield "# " + ADVICE[Reason.DENIED].format(operations=listed(name for name, _ in lacking), where=where)
    if ObservationSource.LOG in denied:
        yield "# CLUSTER_ACTION amounts to full administration: without it the polls still work, and half of the rules"
    yield from allow(quorum, (option for _, option in lacking))


RULE = Rule(
    id=ID,
    title="kraftwatch cannot see the quorum",
    text=__doc__ or "",
    thresholds=(hold(30.0), clear(), SEEN_AGE, PROBE_AGE),
    evaluate=evaluate,
)
