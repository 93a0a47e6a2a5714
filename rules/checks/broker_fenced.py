"""A registered broker is fenced: the active controller does not hear its heartbeats.

What it means
    The broker leads nothing and serves no client, and its replicas are in no ISR: every partition that it holds has one
    copy less, and a partition of which it holds the only copy is offline. The metadata log alone says so, which is why
    brokers are named that no client asks and no exporter runs on.

    - Warning: it crashed, was cut off from the controllers, or has not caught up with the metadata since it started.
    - Info: it took leave by a controlled shutdown and did not come back.

Evidence
    Its registration with the endpoints, whether it left in order, how many other brokers live, and how many partitions
    that are recovering it holds.

What to do
    1. If its process is down, start it.
    2. If it runs, read the end of its log: it says why its heartbeats fail (the way to the controllers, a long pause, a
       full or broken disk).
    3. If it is gone for good, move its partitions to other brokers, and unregister it only then.

What not to do
    Do not unregister a broker that still holds the only replica of anything.

Thresholds
    hold (5 min) and clear (10 s): a restart of a broker with many partitions, and each step of a rolling upgrade, is
    over by then. seen_age (10 s): the log must have answered this recently.
"""

from collections.abc import Iterable

from rules.analysis.freshness import SEEN_AGE
from rules.analysis.log_freshness import unread
from rules.finding import Finding, Rule, RuleResult, Severity, Thresholds, clear, hold
from rules.formatting import listed
from rules.model.quorum import Quorum
from rules.model.registration import BrokerRegistration
from rules.remedy_commands import describe_status

ID = "broker-fenced"


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding a fenced broker."""
    hindrance = unread(ID, quorum, thresholds)
    if hindrance is not None:
        yield hindrance
        return
    for _, broker in sorted(quorum.brokers.items()):
        if broker.fenced:
            yield _finding(quorum, broker)


def _finding(quorum: Quorum, broker: BrokerRegistration) -> Finding:
    node, left = broker.id, broker.in_controlled_shutdown
    alive = sum(each.alive for each in quorum.brokers.values())
    where = f" at {listed(broker.endpoints, 2)}" if broker.endpoints else ""
    why = "it took leave by a controlled shutdown" if left else "its heartbeats are not heard"
    return Finding(
        rule=ID,
        subject=f"broker {node}",
        severity=Severity.INFO if left else Severity.WARNING,
        summary=f"broker {node} is fenced: {why}; {alive} of {len(quorum.brokers)} registered brokers live",
        evidence={
            "broker": node,
            "incarnation": broker.incarnation_id,
            "registered_at_offset": broker.offset,
            "registered_endpoints": [str(endpoint) for endpoint in broker.endpoints],
            "left_by_controlled_shutdown": left,
            "brokers_registered": len(quorum.brokers),
            "brokers_alive": alive,
            "partitions_recovering_on_it": sum(node in each.replicas for each in quorum.recovering),
        },
        remedy=(
            f"# Start broker {node} again{where}, if it is meant to run"
            if left
            else f"# Start broker {node}{where}, or see in its log why its heartbeats to the active controller fail",
            f"# If broker {node} is gone for good, move its partitions to others first and then unregister it with "
            "kafka-cluster.sh unregister",
            "# See who leads: its heartbeats go there",
            describe_status(quorum),
        ),
    )


RULE = Rule(
    id=ID,
    title="A broker is fenced",
    text=__doc__ or "",
    thresholds=(hold(300.0), clear(), SEEN_AGE),
    evaluate=evaluate,
    inhibited_by=("no-leader", "high-watermark-stalled", "committed-metadata-lost"),
)
