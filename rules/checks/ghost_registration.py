"""A controller is registered, but it is not a voter and does not fetch.

What it means
    The log holds a RegisterControllerRecord of a controller that is neither in the voter set nor among the observers:
    the controller was removed or switched off, and its registration stayed. Before Kafka 4.4 no record removes a
    registration (KIP-1312), and no Kafka tool lists them.

    The registration has no effect until an upgrade: the active controller checks what every registration supports, and
    refuses a metadata.version that this controller did not support in the version that it ran last.

What to do
    Nothing today. Before an upgrade of metadata.version, do one of these:

    - start a controller of that node id once with the new version, as an observer: it registers again with what it
      supports; or
    - from Kafka 4.4 on, unregister it.

What not to do
    Do not reuse the node id for a broker. Do not add the controller as a voter only to remove its registration.
"""

from collections.abc import Iterable

from rules.analysis.freshness import ANSWER_AGE, POLL_AGE, needed
from rules.analysis.now import node_of
from rules.finding import Finding, Need, Plain, Rule, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.formatting import and_join, utc_text
from rules.model.identifiers import Millis, NodeId
from rules.model.membership import ControllerRegistration
from rules.model.quorum import OBSERVER_SESSION_MS, Poll, Quorum, ReplicaHistory
from rules.remedies.remedy_commands import describe_status


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each registration of a controller that does not take part in the quorum."""
    poll = needed(quorum.poll)
    voters = {row.key.id for row in poll.voters} | quorum.voter_ids
    listed: list[Plain] = [*sorted(voters)]
    present = voters | {row.key.id for row in poll.observers}
    for node, registration in sorted(quorum.controllers.items()):
        if node in present:
            continue
        fetched_at_ms = _last_fetch_at_ms(quorum, node)
        if fetched_at_ms is not None and quorum.now_ms - fetched_at_ms < OBSERVER_SESSION_MS:
            # A new leader lists an observer from its first fetch on.
            why = f"controller {node} fetched at {utc_text(fetched_at_ms)} and may fetch again"
            yield UnknownResult(subject=f"controller {node}", why=why)
        else:
            yield _finding(quorum, poll, registration, fetched_at_ms, listed)


def _last_fetch_at_ms(quorum: Quorum, node: NodeId) -> Millis | None:
    """Returns when the node last fetched, with any directory id; None if no poll has listed it."""
    # Only of this node: the samples of the nodes that fetch change with every poll, and the rule is evaluated again.
    fetches = (_fetch_at_ms(history) for key, history in quorum.histories.items() if key.id == node)
    return max(fetches, default=None)


def _fetch_at_ms(history: ReplicaHistory) -> Millis:
    """Returns when the replica last fetched, or when it was last listed if no poll reported its last fetch."""
    fetches = (
        Millis(sample.observed_at_ms - sample.fetch_age_ms)
        for sample in reversed(history.samples)
        if sample.fetch_age_ms is not None
    )
    return next(fetches, history.last_seen_at_ms)


def _finding(
    quorum: Quorum, poll: Poll, registration: ControllerRegistration, fetched_at_ms: Millis | None, voters: list[Plain]
) -> Finding:
    node = registration.id
    last_fetch = "never observed" if fetched_at_ms is None else utc_text(fetched_at_ms)
    return Finding(
        subject=f"controller {node}",
        severity=Severity.INFO,
        summary=f"Controller {node} is registered, is not a voter and does not fetch. Its last fetch: {last_fetch}. An "
        "upgrade of metadata.version may be refused because of it.",
        evidence={
            "controller": node,
            "registered_at_offset": registration.at.offset,
            "registration_timestamp_ms": registration.at.timestamp_ms,
            "registered_endpoints": [str(endpoint) for endpoint in registration.endpoints],
            "last_fetch": last_fetch,
            "voters": voters,
            "metadata_version": quorum.metadata_version,
            "leader": poll.leader_id,
        },
        remedy=(
            f"# If controller {node} should be running, start it at {and_join(registration.endpoints)}"
            if registration.endpoints
            else f"# If controller {node} should be running, start it",
            f"# Otherwise, before you upgrade metadata.version, start a controller with node.id {node} once in the new "
            "version, as an observer: it registers again with what it supports",
            "# From Kafka 4.4 on, you can unregister it instead",
            "# Check which nodes are voters",
            describe_status(quorum, excluding=node),
        ),
        starts=(node,),
    )


def _resolved(quorum: Quorum, subject: str) -> str:
    node = node_of(subject)
    if node not in quorum.controllers:
        return f"Controller {node} is no longer registered."
    return f"Controller {node} {'is a voter' if quorum.voter(node) else 'fetches the metadata log'}."


RULE = Rule(
    title="A registration without a controller",
    resolved=_resolved,
    hold=hold(
        600.0,
        "a leader lists an observer for 300 s after its last fetch; a controller that is moved or repaired is back by "
        "then",
    ),
    further_thresholds=(POLL_AGE, ANSWER_AGE),
    needs=(Need.CURRENT_LOG, Need.FRESH_POLL),
    inhibited_by=("no-leader",),
    grouped_with=("voter-disk-replaced",),
)
