"""A controller is registered that is no voter, and fetches no more.

What it means
    Nothing is broken, and nobody needs to get up. The log holds a RegisterControllerRecord of a controller that is
    neither in the voter set nor among the observers: it was removed or switched off, and its registration stayed. No
    record takes one away before Kafka 4.4 (KIP-1312), and no Kafka tool lists them.

    It costs nothing until an upgrade: the active controller goes by what every registration says it supports, and
    refuses a metadata.version that a ghost, in the version it ran last, did not know.

Evidence
    The registration with its offset and endpoints; when that id was last seen fetching, if ever; the voters.

What to do
    Nothing today. Before an upgrade of metadata.version, either:

    - start a controller of that node id once with the new version, as an observer: it registers again with what it
      supports; or
    - from Kafka 4.4 on, unregister it.

What not to do
    Do not reuse the node id for a broker. Do not add it as a voter only to be rid of the ghost.

Thresholds
    hold (10 min) and clear (10 s): a leader lists an observer for 300 s after its last fetch, and a new leader from
    its first fetch on; a controller being moved or repaired is back by then. poll_age (10 s). seen_age (10 s).
"""

from collections.abc import Iterable

from rules.analysis.freshness import POLL_AGE, SEEN_AGE, fresh_poll, no_fresh_poll
from rules.analysis.log_freshness import unread
from rules.finding import Finding, Rule, RuleResult, Severity, Thresholds, UnknownResult, clear, hold
from rules.formatting import listed, spelled
from rules.model.identifiers import Millis, NodeId
from rules.model.poll import Poll, ReplicaHistory
from rules.model.quorum import Quorum
from rules.model.registration import ControllerRegistration
from rules.remedy_commands import describe_status

ID = "ghost-registration"
OBSERVER_SESSION_MS = 300_000
"""How long a leader lists an observer after its last fetch (LeaderState.OBSERVER_SESSION_TIMEOUT_MS)."""


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding a registration that nobody stands behind."""
    hindrance = unread(ID, quorum, thresholds)
    if hindrance is not None:
        yield hindrance
        return
    poll = fresh_poll(quorum, thresholds)
    if poll is None or poll.leader is None:
        yield no_fresh_poll(ID, quorum)
        return
    voting = {row.key.id for row in poll.voters} | (quorum.committed.ids if quorum.committed else set())
    present = voting | {row.key.id for row in poll.observers}
    for node, registration in sorted(quorum.controllers.items()):
        if node in present:
            continue
        fetched = _last_fetched(quorum, node)
        if fetched is not None and quorum.now_ms - fetched < OBSERVER_SESSION_MS:
            # A new leader lists an observer from its first fetch on.
            why = f"controller {node} fetched {spelled(quorum.now_ms - fetched)} ago and may be back"
            yield UnknownResult(rule=ID, subject=f"controller {node}", why=why)
        else:
            yield _finding(quorum, poll, registration, fetched, sorted(voting))


def _last_fetched(quorum: Quorum, node: NodeId) -> Millis | None:
    return max((_fetched(each) for key, each in quorum.histories.items() if key.id == node), default=None)


def _fetched(history: ReplicaHistory) -> Millis:
    """When it last fetched; where no answer told that, when it was last listed."""
    told = (
        Millis(sample.observed_at_ms - sample.fetch_age_ms)
        for sample in reversed(history.samples)
        if sample.fetch_age_ms is not None
    )
    return next(told, history.last_seen_at_ms)


def _finding(
    quorum: Quorum, poll: Poll, registration: ControllerRegistration, fetched: Millis | None, voting: list[NodeId]
) -> Finding:
    node = registration.id
    ago = "not since it is watched" if fetched is None else f"last {spelled(quorum.now_ms - fetched)} ago"
    return Finding(
        rule=ID,
        subject=f"controller {node}",
        severity=Severity.INFO,
        summary=f"controller {node} is registered, is no voter and does not fetch ({ago}): an upgrade of "
        "metadata.version may be refused because of it",
        evidence={
            "controller": node,
            "registered_at_offset": registration.offset,
            "registered_at_ms_by_the_log": registration.timestamp_ms,
            "registered_endpoints": [str(endpoint) for endpoint in registration.endpoints],
            "seen_fetching": ago,
            "voters": [*voting],
            "metadata_version": quorum.metadata_version,
            "leader": poll.leader_id,
        },
        remedy=(
            f"# If controller {node} should be running, start it at {listed(registration.endpoints)}"
            if registration.endpoints
            else f"# If controller {node} should be running, start it",
            f"# Else, before metadata.version is upgraded, start a controller with node.id {node} once in the new "
            "version without making it a voter: it registers again with what it supports",
            "# From Kafka 4.4 on its registration can be taken away instead",
            "# See who is a voter and who observes",
            describe_status(quorum, besides=node),
        ),
    )


RULE = Rule(
    id=ID,
    title="A registration without a controller",
    text=__doc__ or "",
    thresholds=(hold(600.0), clear(), POLL_AGE, SEEN_AGE),
    evaluate=evaluate,
    inhibited_by=("no-leader", "committed-metadata-lost"),
    grouped_with=("voter-disk-replaced",),
)
