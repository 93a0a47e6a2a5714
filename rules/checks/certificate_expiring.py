"""A certificate of a controller expires soon.

What it means
    The certificate that a controller presents at its recorded endpoint is valid for a few more days only. Nothing fails
    yet. When it has expired, the other controllers and the brokers cannot connect to this controller any more: open
    connections stay, and it fetches over its own, so a healthy quorum may hide it until the next restart or election.
    Then no other controller can fetch from it as leader, and no candidate gets its vote. Certificates that were issued
    together expire together, and with a majority of them the quorum cannot elect a leader.

    - Warning: within `warning` days.
    - Critical: within `critical` days.

    A certificate that has expired is reported by `stale-voter-endpoint`; an alert of this rule keeps firing until it is
    renewed. A static quorum records no endpoints: there this rule reports expired certificates too.

What to do
    1. Renew each certificate that is listed, and install it in the controller's keystore (ssl.keystore.location).
    2. Restart these controllers one by one, the leader last; `kraftwatch safe-to-restart` tells whether the next may be
       restarted. `kafka-configs.sh --alter` of a keystore is no substitute: it prints success, and Kafka 4.4 goes on
       with the former certificate if the new one has another distinguished name. Check what is presented.
    3. Check why the certificates were not renewed: the process that renews them may have stopped.

What not to do
    Do not wait for the expiry, and do not restart several controllers at once: a controller whose certificate is
    invalid after the restart is lost for elections.
"""

from collections.abc import Iterable, Sequence

from rules.claims.statement import statement
from rules.claims.words import take_no_part
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Threshold, Thresholds, UnknownResult, hold
from rules.formatting import and_join, numbered, plural, utc_text
from rules.model.identifiers import Millis, NodeId
from rules.model.monitoring import CertificateFault, Probe, Vantage
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.step import may_restart
from rules.rule import Rule

SUBJECT = Subject("certificates")
_DAY_MS = 86_400_000
WARNING = Threshold(
    name="warning",
    default=14.0,
    unit="days",
    meaning="a certificate that expires within this time is reported: time to renew it in a planned rolling restart",
)
CRITICAL = Threshold(
    name="critical",
    default=3.0,
    unit="days",
    meaning="a certificate that expires within this time is critical: the default is a long weekend",
)


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for the cluster while a certificate at a probed endpoint expires soon."""
    quorum = facts.quorum
    probes = [quorum.probes[name] for name in sorted(quorum.probes)]
    within = max(_days_ms(thresholds, WARNING), _days_ms(thresholds, CRITICAL))
    soon = [probe for probe in probes if _expires_within(quorum, probe, within)]
    renewable = [
        probe for probe in soon if not (_expires_within(quorum, probe, Millis(0)) and _reported_as_stale(quorum, probe))
    ]
    if renewable:
        urgent = any(_expires_within(quorum, probe, _days_ms(thresholds, CRITICAL)) for probe in renewable)
        severity = Severity.CRITICAL if urgent else Severity.WARNING
        yield _finding(quorum, sorted(soon, key=_expires_at_and_node), severity)
    elif soon:
        nodes = sorted({probe.node for probe in soon})
        expired = "has expired: stale-voter-endpoint reports it"
        if len(nodes) > 1:
            expired = "have expired: stale-voter-endpoint reports them"
        yield UnknownResult(subject=SUBJECT, why=f"{_certificates(nodes)} {expired}")
    elif quorum.access.tls and quorum.vantage is Vantage.INSIDE:
        # Another listener of the same node may have been probed, before the voter set was known.
        read = {probe.node for probe in probes if _expires_at(probe) is not None}
        unread = sorted({probe.node for probe in probes} - read)
        if unread or not probes:
            was = "were not" if len(unread) > 1 else "was not" if unread else "was"
            missing = _certificates(unread) if unread else "no certificate"
            yield UnknownResult(subject=SUBJECT, why=f"{missing} {was} read by the newest probes")


def _certificates(nodes: Sequence[NodeId]) -> str:
    return f"the {'certificate' if len(nodes) == 1 else 'certificates'} of {numbered('controller', nodes)}"


def _days_ms(thresholds: Thresholds, threshold: Threshold) -> Millis:
    return Millis(round(thresholds[threshold.name] * _DAY_MS))


def _expires_at(probe: Probe) -> Millis | None:
    return probe.certificate.expires_at_ms if probe.certificate else None


def _expires_at_and_node(probe: Probe) -> tuple[Millis, NodeId, str]:
    return (_expires_at(probe) or Millis(0), probe.node, str(probe.endpoint))


def _expires_within(quorum: Quorum, probe: Probe, within_ms: Millis) -> bool:
    at = _expires_at(probe)
    return at is not None and quorum.now_ms > at - within_ms


def _reported_as_stale(quorum: Quorum, probe: Probe) -> bool:
    """Returns whether `stale-voter-endpoint` evaluates this endpoint: the one that other voters dial."""
    voter = quorum.voter(probe.node)
    recorded = voter is not None and voter.endpoint == probe.endpoint
    return recorded and probe.certificate_fault is CertificateFault.EXPIRED


def _finding(quorum: Quorum, soon: Sequence[Probe], severity: Severity) -> Finding:
    """`soon`: by expiry."""
    nodes = sorted({probe.node for probe in soon})
    expired = {probe.node for probe in soon if _expires_within(quorum, probe, Millis(0))}
    # The only voter needs no other one.
    lost = statement(": it ", take_no_part(expired)) if len(quorum.voting_ids) != 1 else ""
    return Finding(
        subject=SUBJECT,
        severity=severity,
        summary=statement(
            _summary(quorum, soon, nodes),
            " No other node can connect to a controller whose certificate has expired",
            lost,
            ".",
        ),
        evidence={
            "certificates": {f"{probe.node}@{probe.endpoint}": _when(quorum, probe) for probe in soon},
        },
        remedy=(
            *(f"# Renew the certificate of controller {p.node} at {p.endpoint}: it {_when(quorum, p)}" for p in soon),
            may_restart(
                f"# Install {'it' if len(nodes) == 1 else 'each'} in the controller's keystore (ssl.keystore.location) "
                f"and restart {'the controller' if len(nodes) == 1 else 'the controllers one by one, the leader last'}",
                *nodes,
            ),
            f"# Check what {'it presents' if len(nodes) == 1 else 'each presents'} then: openssl s_client -connect "
            f"{soon[0].endpoint} </dev/null | openssl x509 -noout -subject -enddate",
            "# Check why it was not renewed in time: the process that renews the certificates may have stopped",
        ),
    )


def _summary(quorum: Quorum, soon: Sequence[Probe], nodes: Sequence[NodeId]) -> str:
    if len(nodes) == 1:
        return f"The certificate of controller {nodes[0]} {_when(quorum, soon[0])}."
    first = soon[0]
    return (
        f"The certificates of controllers {and_join(nodes)} expire soon: that of controller {first.node} "
        f"{_when(quorum, first)}."
    )


def _when(quorum: Quorum, probe: Probe) -> str:
    at = _expires_at(probe) or Millis(0)
    if _expires_within(quorum, probe, Millis(0)):
        return f"expired at {utc_text(at)}"
    days = (at - quorum.now_ms) // _DAY_MS
    left = f"in {plural(days, 'day')}" if days else "in less than a day"
    return f"expires {left}, at {utc_text(at)}"


def _resolved(facts: Facts, _subject: Subject) -> str:
    dates = [probe.certificate.expires_at_ms for probe in facts.quorum.probes.values() if probe.certificate]
    first = min((at for at in dates if at is not None), default=None)
    if first is None:
        return "No controller presents a certificate that expires soon."
    return f"No controller presents a certificate that expires before {utc_text(first)}."


RULE = Rule(
    title="A controller's certificate expires soon",
    resolved=_resolved,
    hold=hold(60.0),
    further_thresholds=(WARNING, CRITICAL),
    # Without the log by choice no endpoint is probed.
    needs=(Need.METADATA_LOG,),
    without_leader=True,
)
