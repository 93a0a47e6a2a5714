"""kraftwatch does not observe what it should: the state of the quorum is unknown.

What it means
    Active alerts stay active: unknown is not healthy. The subject names what is not observed:

    - `quorum`: fetches of the metadata log, DescribeQuorum polls or both have no current answer, and nothing shows that
      there is no leader: attempts time out, names do not resolve, a login fails, a permission is missing, a firewall
      refuses connections to the leader.
      If both have no answer the alert is critical, because the monitor cannot distinguish this from an outage (with
      `vantage: outside` it is a warning). If one has no answer it is a warning, because some rules cannot be evaluated.
      If all controllers reject the login or TLS of a monitor that they accepted before, they may reject each other too:
      then it is critical from outside as well, and the remedy begins with a check of that.
      If the controllers moved to another listener and kraftwatch's `bootstrap` or `security_protocol` did not, it
      names the new addresses and the new protocol.
    - `controller N`: one of several voters does not answer the monitor (its login or TLS fails, a permission is denied
      there, or it is silent) while others do, and it fetches. If it becomes the leader, the quorum is not observed. A
      voter that is down, or whose recorded endpoint is stale, is reported by the rules for that instead.
      So is one that fetches and answers no new connection of the monitor: whether the other controllers could connect
      to it, and get its vote, is unknown then.
    - `connections`: no voter answers a new connection of the monitor, while those that are open are answered: the path
      from this host changed, or something limits connections.
    - `names`: the resolver on the monitor's host fails, so names that no longer exist would not be noticed.
    - `rule NAME`: that rule failed, and is not evaluated until it is fixed.

    Where nothing is observed of three clusters or more that are half of all, `monitor-degraded` reports them as one:
    this host is probably cut off.

What to do
    1. Check the monitor's own host and network.
    2. Fix what the reasons name: the remedy says how, for each reason.
    3. Query the quorum from another host.

What not to do
    Do not restart controllers because of this alert alone.
"""

from collections.abc import Collection, Iterable, Sequence

from rules.analysis.damaged_log import unreadable_log
from rules.analysis.endpoint_text import probe_outcome
from rules.analysis.freshness import fresh_poll
from rules.analysis.leadership import UnreachableLeader, leaderless, rejecting_voters, unreachable_leader
from rules.analysis.missing_voter import trust_steps
from rules.analysis.outdated_settings import OutdatedSettings, outdated_settings
from rules.analysis.safe_to_restart import known_controllers
from rules.analysis.silent_controllers import SilentController, silent_controllers
from rules.analysis.votes import denying
from rules.finding import Facts, Finding, Plain, Rule, RuleResult, Severity, Threshold, Thresholds, UnknownResult, hold
from rules.formatting import and_join, utc_text
from rules.model.following import following
from rules.model.identifiers import Millis, NodeId
from rules.model.monitoring import (
    CertificateFault,
    FailedObservation,
    ObservationSource,
    Reason,
    Resolution,
    Vantage,
)
from rules.model.node_facts import NodeFacts
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.remedy_commands import SCRAM_NEEDS_A_LEADER, allow, describe_status

QUORUM_SUBJECT = Subject("quorum")
NOTHING_OBSERVED = "The state of the quorum is unknown"
"""How the summary begins while no data source answers."""
CONTROLLER_HOLD = Threshold(
    name="controller_hold",
    default=300.0,
    meaning="how long one of several controllers must not answer before its alert fires. The others are observed, so "
    "the default is longer than a restart",
)

ADVICE: dict[Reason, str] = {
    Reason.UNRESOLVABLE: "Look up the controllers' names on the monitor's host: no address is found for {where}",
    Reason.RESOLVER_FAILED: "Fix name resolution on the monitor's host: the resolver failed for {where}",
    Reason.REFUSED: "Check the addresses, whether controllers run, and firewalls: connections are refused at {where}",
    Reason.TIMED_OUT: "Check the network between the monitor and {where}, and whether the processes there hang",
    Reason.UNREACHABLE: "Check routes and firewalls between the monitor and {where}",
    Reason.CLOSED: "Check in the logs at {where} why connections are closed: a TLS listener closes plaintext ones",
    Reason.NO_LEADER: "Add the addresses of all controllers to bootstrap: {where} does not lead, and no leader answers",
    Reason.NOT_READY: "Wait until startup is complete at {where}: the authorizer is not ready there",
    Reason.DENIED: "Allow the monitor's principal {operations} on CLUSTER: it is denied at {where}",
    Reason.NOT_AUTHENTICATED: "Fix the monitor's login: it is rejected at {where}",
    Reason.TLS_FAILED: "Fix TLS between the monitor and {where}: certificate, certificate authority or host name",
    Reason.WRONG_PROTOCOL: "Correct security_protocol in the monitor's settings: another protocol is used at {where}",
    Reason.WRONG_CLUSTER: "Correct the configured addresses: another cluster answers at {where}; if this cluster was "
    "created again, give it another name in the configuration, or start kraftwatch with a new --checkpoint",
    Reason.UNSUPPORTED: "Check which Kafka version runs at {where}: it does not support the request",
    Reason.UNDECODABLE: "Check that a controller listens at {where}; if one does, report this as a bug of kraftwatch",
    Reason.INVALID_RESPONSE: "Find out what answers at {where}: it sends what no Kafka node sends, and is refused",
    Reason.TOO_FEW_DESCRIPTORS: "Raise kraftwatch's limit of file descriptors (ulimit -n): no socket for {where}",
    Reason.METADATA_LOST: "Find out who restored or rebuilt {where}: committed metadata read before is missing",
    Reason.LOG_DAMAGED: "Restore the metadata log at {where}: the alert metadata-log-damaged says how",
    Reason.RECORDS_KNOWN: "Nothing is to be done: an upgraded kraftwatch reads the metadata log again",
    Reason.RECORDS_MISSING: "Have the log read again: the alert data-contract-broken names the missing offsets",
    Reason.TASK_FAILED: "Report this as a bug of kraftwatch: its own log says where its gatherer failed",
    Reason.INTERRUPTED: "Check in kraftwatch's own log why its gatherer was restarted",
    Reason.CLOCK_STEPPED: "Check the clock of kraftwatch's host (NTP): it was set",
}
_COMPARE = "# Compare controller {}'s listeners, certificates, logins, authorizer and super.users with those of {}"
_OPERATIONS = {
    ObservationSource.QUORUM: ("DESCRIBE", "Describe"),
    ObservationSource.LOG: ("CLUSTER_ACTION", "ClusterAction"),
}
"""The operation that each observation source needs on CLUSTER: in Kafka's spelling, and in that of kafka-acls."""
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
_CONFIGURATION_ERRORS = {
    Reason.DENIED,
    Reason.NOT_AUTHENTICATED,
    Reason.TLS_FAILED,
    Reason.WRONG_PROTOCOL,
    Reason.WRONG_CLUSTER,
    Reason.UNSUPPORTED,
}


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns findings about the quorum, each controller, new connections and name resolution, at most one of each."""
    yield from _quorum(quorum, thresholds)
    yield from _controllers(quorum, thresholds)
    yield from _names(quorum)


def _quorum(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    answers = _answers(quorum)
    stale = _stale(quorum)
    if not stale:
        return
    if not all(_tried_since_gap(quorum, source, answers[source]) for source in stale):
        why = f"nothing was observed until {utc_text(quorum.watched_since_ms)}, and no attempt has ended since"
        yield UnknownResult(why=why)
        return
    unreachable = unreachable_leader(quorum)
    failures = [
        each
        for each in quorum.failures
        if each.source in stale
        and each.reason is not Reason.LOG_DAMAGED
        and (unreachable is None or each.reason is not Reason.NO_LEADER)
    ]
    damaged = unreadable_log(quorum)
    if damaged is not None and stale == [ObservationSource.LOG]:
        why = f"metadata-log-damaged reports that the log of {damaged.name} cannot be read further"
        yield UnknownResult(subject=QUORUM_SUBJECT, why=why)
        return
    if quorum.derived(leaderless) is not None:
        # A configuration error remains when a leader is elected; the missing leader explains every other failure.
        if any(each.reason in _CONFIGURATION_ERRORS for each in failures):
            why = "no controller leads, and some requests are rejected or not supported"
            yield UnknownResult(subject=QUORUM_SUBJECT, why=why)
        return
    nothing = len(stale) == len(answers)
    outdated, rejecting = outdated_settings(quorum), rejecting_voters(quorum) if nothing else ()
    # A connection that is rejected shows that the path from outside works.
    critical = nothing and (quorum.vantage is Vantage.INSIDE or bool(rejecting))
    yield Finding(
        subject=QUORUM_SUBJECT,
        severity=Severity.CRITICAL if critical else Severity.WARNING,
        summary=_summary(answers, stale, failures, outdated)
        + (_rejection(quorum, failures) if rejecting else "")
        + _leader_sentence(unreachable),
        evidence={
            "vantage": quorum.vantage.value,
            **({"unreachable_leader": unreachable.id, "reported_by": [*unreachable.followers]} if unreachable else {}),
            **{_EVIDENCE_KEYS[one]: _time(at) if one in stale else _CURRENT for one, at in answers.items()},
            "last_committed_offset": quorum.last_offset,
            **_outdated(outdated),
            **({"rejecting": [*rejecting]} if rejecting else {}),
            "failing": [_failure(each) for each in _oldest(failures)],
        },
        facts=Facts(unobserved=tuple(sorted({each.reason for each in failures})) if nothing else None),
        remedy=tuple(_remedy(quorum, failures, outdated, rejected=bool(rejecting))),
    )


def _tried_since_gap(quorum: Quorum, source: ObservationSource, answered_at_ms: Millis | None) -> bool:
    """Returns whether this source was tried since the newest gap in the observations; it last answered at this time.

    A gatherer that only restarts, again and again, tries nothing.
    """
    restarts = [each for each in quorum.failures if each.reason is Reason.INTERRUPTED]
    if any(each.first_at_ms < each.last_at_ms for each in restarts) or quorum.watched_since_ms == 0:
        return True
    failed = (each for each in quorum.failures if each.last_at_ms >= quorum.watched_since_ms)
    answered = answered_at_ms is not None and answered_at_ms >= quorum.watched_since_ms
    return answered or any(each.source is source and each.reason is not Reason.INTERRUPTED for each in failed)


def _answers(quorum: Quorum) -> dict[ObservationSource, Millis | None]:
    polled = {ObservationSource.QUORUM: quorum.poll.observed_at_ms if quorum.poll else None}
    return {ObservationSource.LOG: quorum.log_fetched_at_ms, **polled} if quorum.access.log else polled


def _stale(quorum: Quorum) -> list[ObservationSource]:
    limit = quorum.ages.answer_ms
    return [source for source, at in _answers(quorum).items() if at is None or quorum.now_ms - at > limit]


def _outdated(outdated: OutdatedSettings | None) -> dict[str, Plain]:
    if outdated is None:
        return {}
    return {"controllers_listen_at": [*outdated.addresses], "protocol_there": outdated.protocol}


def _rejection(quorum: Quorum, failures: list[FailedObservation]) -> str:
    return _DISTRUSTED if _untrusted(quorum, " ".join(each.endpoint for each in failures)) else _REJECTED


def _remedy(
    quorum: Quorum, failures: list[FailedObservation], outdated: OutdatedSettings | None, *, rejected: bool
) -> Iterable[str]:
    advice = (outdated.step(quorum.cluster),) if outdated is not None else tuple(_advice(quorum, failures))
    own_file = rejected and _untrusted(quorum, " ".join(each.endpoint for each in failures))
    if own_file:
        yield from advice
    if rejected:
        yield "# Check on a controller's host, with its own configuration file, whether there is a leader"
        yield describe_status(quorum)
        yield (
            "# If there is none, the controllers reject each other as well: give all of them, one after the other, "
            "credentials and certificates that the others accept"
        )
        if any(each.reason is Reason.NOT_AUTHENTICATED for each in failures):
            yield SCRAM_NEEDS_A_LEADER
    if not own_file:
        yield from advice
    yield "# Query the quorum from another host as well"
    if not rejected:
        yield describe_status(quorum)


def _summary(
    answers: dict[ObservationSource, Millis | None],
    stale: list[ObservationSource],
    failures: list[FailedObservation],
    outdated: OutdatedSettings | None,
) -> str:
    sources = and_join(f"{_NAMES[source]} (last answer: {_time(answers[source])})" for source in stale)
    reasons = and_join(
        [_reason_with_endpoints(reason, failures) for reason in sorted({each.reason for each in failures})], 4
    )
    if len(stale) == len(answers):
        problem, consequence = NOTHING_OBSERVED, ""
    else:
        problem, consequence = "Part of the quorum is not observed", " Some rules cannot be evaluated."
    cause = f"Failing: {reasons}." if failures else "No failed attempt was reported."
    if outdated is not None:
        sentence = f"kraftwatch's own settings are out of date. {outdated.sentence}"
        return f"{problem}: {sentence} No current answer from {sources}.{consequence} {cause}"
    return f"{problem}: no current answer from {sources}.{consequence} {cause}"


def _leader_sentence(leader: UnreachableLeader | None) -> str:
    if leader is None:
        return ""
    report = "reports" if len(leader.followers) == 1 else "report"
    return f" Controller {leader.id} does not answer here, but {and_join(leader.followers, 4)} {report} it as leader."


def _reason_with_endpoints(reason: Reason, failures: list[FailedObservation]) -> str:
    """Returns a reason with its endpoints, and with the failures' detail if all of them have the same."""
    matching = [each for each in failures if each.reason is reason]
    details = {each.detail for each in matching}
    why = f" ({details.pop()[:_DETAIL]})" if len(details) == 1 and details != {""} else ""
    return f"{reason.value}{why} at {and_join(sorted({each.endpoint or 'no address' for each in matching}), 4)}"


def _controllers(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    silent = [*silent_controllers(quorum)]
    poll = fresh_poll(quorum)
    if not _stale(quorum):
        yield from _new_connections(quorum, {each.key.id for each in silent}, thresholds)
    if not silent:
        return
    faulty = {each.id for each in quorum.dialled_nodes if each.faults or each.unserved}
    leader_answers = not _stale(quorum)
    for each in silent:
        why = None
        if not leader_answers:
            why = "the leader does not answer either"
        elif not each.answering:
            why = "no other controller answers either"
        elif each.key.id in faulty:
            why = "stale-voter-endpoint reports its recorded endpoint"
        elif not following(quorum, poll, each.key).fetches:
            why = "it does not fetch, so it may be down"
        if why is None:
            yield _controller_finding(quorum, each, thresholds)
        else:
            yield UnknownResult(subject=Subject("controller", each.key.id), why=why)


def _controller_finding(quorum: Quorum, silent: SilentController, thresholds: Thresholds) -> Finding:
    node, detail = silent.key.id, f" ({silent.detail[:_DETAIL]})" if silent.detail else ""
    advice = f"Check the network, TLS and the login between the monitor and {silent.endpoint}"
    if isinstance(silent.reason, Reason):
        advice = ADVICE[silent.reason].format(where=silent.endpoint, operations="CLUSTER_ACTION")
    outdated = outdated_settings(quorum)
    others = f"controller{'s' if len(silent.answering) > 1 else ''} {and_join(silent.answering, 4)}"
    denies = node in denying(quorum)
    return Finding(
        subject=Subject("controller", node),
        severity=Severity.WARNING,
        summary=f"Controller {node} does not answer the monitor: {silent.reason}{detail} at {silent.endpoint}. It "
        f"fetches, and {others} can be observed. If controller {node} becomes the leader, the quorum is not observed."
        + (f" {outdated.sentence}" if outdated else ""),
        evidence={
            "vantage": quorum.vantage.value,
            "controller": node,
            "endpoint": silent.endpoint,
            "reason": silent.reason.value,
            **({"detail": silent.detail[:_DETAIL]} if silent.detail else {}),
            **({"failing_since": utc_text(silent.since_ms)} if silent.since_ms is not None else {}),
            "observed_controllers": [*silent.answering],
            **_outdated(outdated),
        },
        remedy=(
            *(_settings_first(node, others) if denies else ()),
            *_controller_steps(quorum, silent, outdated, advice),
            *(() if denies else (_COMPARE.format(node, others),)),
            describe_status(quorum, excluding=node),
        ),
        hold_ms=thresholds.ms(CONTROLLER_HOLD.name),
    )


def _settings_first(node: NodeId, others: str) -> Iterable[str]:
    """Yields the first steps about a controller that denies the monitor, and maybe the others, what others permit."""
    yield _COMPARE.format(node, others)
    yield (
        f"# Do not stop or restart another controller before that: if controller {node} denies the others too, each of "
        "them that asks it for its vote ends"
    )


def _controller_steps(
    quorum: Quorum, silent: SilentController, outdated: OutdatedSettings | None, advice: str
) -> Iterable[str]:
    if outdated is not None:
        return (outdated.step(quorum.cluster),)
    return trust_steps(silent.endpoint) if _untrusted(quorum, silent.endpoint) else (f"# {advice}",)


def _new_connections(quorum: Quorum, silent: Collection[NodeId], thresholds: Thresholds) -> Iterable[Finding]:
    """Yields the voters that fetch and answer only older connections: one finding if no voter answers a new one."""
    unanswered = [each for each in quorum.dialled_nodes if each.unanswered and each.following.fetches]
    unknown = "Whether the other controllers could connect to {}, and get {} vote{}, is unknown."
    if unanswered and not any(each.answered for each in quorum.dialled_nodes):
        yield _connection_finding(
            quorum,
            Subject("connections"),
            unanswered,
            "No controller answers a new connection of the monitor, while older ones are answered: "
            + and_join((f"{each.endpoint} {probe_outcome(each)}" for each in unanswered), 4)
            + f". {unknown.format('them', 'their', 's')}",
            thresholds,
        )
        return
    for each in unanswered:
        node = each.id
        if node not in silent and not each.unserved:
            yield _connection_finding(
                quorum,
                Subject("controller", node),
                [each],
                f"Controller {node} answers no new connection of the monitor, while older ones are answered: "
                f"{each.endpoint} {probe_outcome(each)}. {unknown.format('it', 'its', '')}",
                thresholds,
            )


def _connection_finding(
    quorum: Quorum, subject: Subject, unanswered: Sequence[NodeFacts], summary: str, thresholds: Thresholds
) -> Finding:
    endpoints = and_join((str(each.endpoint) for each in unanswered), 4)
    return Finding(
        subject=subject,
        severity=Severity.WARNING,
        summary=summary,
        evidence={
            "vantage": quorum.vantage.value,
            "unanswered": {str(each.key): f"{each.endpoint}: {probe_outcome(each)}" for each in unanswered},
        },
        remedy=(
            f"# Check the network and firewalls between the monitor and {endpoints}, and limits of connections there",
            "# Do not restart a controller until new connections are answered: it may not be able to rejoin the quorum",
            describe_status(quorum),
        ),
        hold_ms=thresholds.ms(CONTROLLER_HOLD.name),
        keep_running=known_controllers(quorum),
    )


def _names(quorum: Quorum) -> Iterable[RuleResult]:
    limit = quorum.now_ms - quorum.ages.probe_ms
    failed = [
        probe
        for _, probe in sorted(quorum.probes.items())
        if probe.resolution is Resolution.RESOLVER_FAILED and probe.observed_at_ms >= limit
    ]
    if any(probe.observed_at_ms < quorum.watched_since_ms for probe in failed):
        yield UnknownResult(subject=Subject("names"), why="not every name was looked up since the newest gap")
        return
    if not failed:
        return
    hosts = sorted({probe.endpoint.host for probe in failed})
    yield Finding(
        subject=Subject("names"),
        severity=Severity.WARNING,
        summary=f"Name resolution fails on the monitor's host: {and_join(hosts, 4)}. A voter's name that no longer "
        "exists would not be noticed.",
        evidence={
            "vantage": quorum.vantage.value,
            "hosts": [*hosts],
            "resolver_errors": [*sorted({probe.detail for probe in failed if probe.detail})],
        },
        remedy=("# Fix name resolution on the monitor's host: its resolver gives no answer, not even NXDOMAIN",),
    )


def _time(at: Millis | None) -> str:
    return "never" if at is None else utc_text(at)


def _oldest(failures: list[FailedObservation]) -> list[FailedObservation]:
    return sorted(failures, key=lambda each: (each.first_at_ms, each.source, each.endpoint))[:16]


def _failure(failure: FailedObservation) -> dict[str, Plain]:
    return {
        "observation_source": failure.source.value,
        "endpoint": failure.endpoint,
        "reason": failure.reason.value,
        "since": utc_text(failure.first_at_ms),
        **({"detail": failure.detail[:_DETAIL]} if failure.detail else {}),
    }


def _advice(quorum: Quorum, failures: list[FailedObservation]) -> Iterable[str]:
    for reason in sorted({each.reason for each in failures}):
        endpoints = sorted({each.endpoint for each in failures if each.reason is reason and each.endpoint})
        where = and_join(endpoints, 4)
        match reason:
            case Reason.DENIED:
                yield from _allow(quorum, failures, where)
            case Reason.UNSUPPORTED if quorum.poll and all(each.source is ObservationSource.LOG for each in failures):
                yield f"# Configure a controller's address as well: brokers ({where}) do not serve the metadata log"
            case Reason.TLS_FAILED if _untrusted(quorum, endpoints):
                yield from trust_steps(where)
            case _:
                yield "# " + ADVICE[reason].format(where=where)


def _untrusted(quorum: Quorum, endpoints: Collection[str]) -> bool:
    """Returns whether the monitor does not trust the authority of the certificates there, and nothing else is wrong."""
    faults = {one.certificate_fault for one in quorum.probes.values() if str(one.endpoint) in endpoints} - {None}
    return faults == {CertificateFault.UNTRUSTED}


def _allow(quorum: Quorum, failures: list[FailedObservation], where: str) -> Iterable[str]:
    """Returns which operations are denied, what allowing them means, and the command that allows them."""
    denied = {each.source for each in failures if each.reason is Reason.DENIED}
    missing = [operation for source, operation in _OPERATIONS.items() if source in denied]
    yield "# " + ADVICE[Reason.DENIED].format(operations=and_join(name for name, _ in missing), where=where)
    if ObservationSource.LOG in denied:
        yield "# CLUSTER_ACTION amounts to full administration: without it, polls and half of the rules still work"
    yield from allow(quorum, (option for _, option in missing))


def _resolved(_quorum: Quorum, subject: Subject) -> str:
    if subject == Subject("names"):
        return "The resolver of the monitor's host answers: the names of all voters are observed."
    if subject.kind == "rule":
        return f"Rule {subject.name} is evaluated."
    return "kraftwatch observes the quorum: the controllers answer."


RULE = Rule(
    title="kraftwatch does not observe the quorum",
    resolved=_resolved,
    hold=hold(30.0),
    inhibited_by=("no-leader",),
    further_thresholds=(CONTROLLER_HOLD,),
)
