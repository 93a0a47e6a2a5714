"""No broker is registered: the cluster stores nothing and serves no client.

What it means
    The metadata quorum works, and no broker belongs to it.

    - Critical: brokers were registered, and the last one was unregistered. What they stored is on their disks.
    - Warning: the quorum is older than an hour and has never had a broker, as far as the log shows. The brokers were
      not started, or they follow another quorum: one with the same configuration that was formatted by itself.

What to do
    1. Start the brokers. One that was unregistered registers again with its data when it is restarted.
    2. If they run, compare their `controller.quorum.bootstrap.servers` and the cluster.id in their meta.properties with
       those of the controllers. Their logs say which controller they ask.

What not to do
    Do not format the disks of brokers that were unregistered: their partitions are still there, and the log still
    assigns them to these ids.
"""

from collections.abc import Iterable
from typing import Final

from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Thresholds, hold
from rules.formatting import ms_text, plural, utc_text
from rules.model.history import NodeKind, Unregistration
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_status
from rules.remedies.step import starts
from rules.rule import Rule

_NEW_MS: Final = Millis(3_600_000)
"""How old a quorum that never had a broker must be, by the timestamps in the log: the controllers of a new cluster
are started first."""


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the cluster while no broker is registered."""
    quorum = facts.quorum
    if quorum.brokers:
        return
    left = next(
        (
            unregistration
            for unregistration in reversed(quorum.history.unregistrations)
            if unregistration.kind is NodeKind.BROKER
        ),
        None,
    )
    age_ms = _age_ms(quorum)
    if left is not None or age_ms >= _NEW_MS:
        yield _finding(facts, left, age_ms)


def _age_ms(quorum: Quorum) -> Millis:
    """Returns how long the quorum has existed at least, by the timestamps in the log."""
    newest = quorum.newest_timestamp_ms
    known = [controller.features_since_timestamp_ms for controller in quorum.controllers.values()]
    known += [quorum.committed.timestamp_ms] if quorum.committed else []
    since = [millis for millis in known if millis is not None]
    return Millis(max(0, newest - min(since)) if since and newest is not None else 0)


def _finding(facts: Facts, left: Unregistration | None, age_ms: Millis) -> Finding:
    quorum = facts.quorum
    gone = [
        unregistration.id for unregistration in quorum.history.unregistrations if unregistration.kind is NodeKind.BROKER
    ]
    return Finding(
        subject=Subject("brokers"),
        severity=Severity.CRITICAL if left else Severity.WARNING,
        summary="No broker is registered: the cluster serves no client. "
        + (
            f"The last one, broker {left.id}, was unregistered at {utc_text(left.timestamp_ms)}."
            if left
            else f"The quorum of {plural(len(quorum.controllers), 'registered controller')} has existed for "
            f"{ms_text(age_ms)} at least."
        ),
        evidence={
            "brokers_registered": 0,
            "last_unregistered_broker": left.id if left else None,
            "last_unregistered_at_offset": left.offset if left else None,
            "unregistered_brokers": [*dict.fromkeys(gone)],
            "controllers_registered": len(quorum.controllers),
            "quorum_has_existed_for": ms_text(age_ms),
        },
        remedy=(
            starts(
                "# Start the brokers, or read in their logs which controllers they ask and why they do not register",
                *gone,
            ),
            "# Compare the cluster.id in the meta.properties of a broker and of a controller"
            + (f": it is {quorum.cluster_id} here" if quorum.cluster_id else ""),
            describe_status(facts),
        ),
    )


def _resolved(facts: Facts, _subject: Subject) -> str:
    alive = sum(broker.alive for broker in facts.quorum.brokers.values())
    return f"Brokers alive: {alive} of {len(facts.quorum.brokers)} registered."


RULE = Rule(
    title="No broker is registered",
    resolved=_resolved,
    hold=hold(60.0, "a broker that is unregistered and started again is back by then"),
    needs=(Need.CURRENT_LOG,),
    grouped_with=("partitions-offline", "broker-fenced"),
)
