"""A voter runs no controller: it is a broker only, or no controller is registered under its id.

What it means
    Nothing in Kafka prevents it (KAFKA-19021): add-controller accepts any node that fetches, and a voter may be started
    again with `process.roles=broker`. It counts as a voter, grants no vote, and cannot be the active controller: the
    quorum tolerates one failure less than it seems to.

    A broker that is a voter (seen with Kafka 4.3 and 4.4) ends when it first sends its endpoints to the leader, within
    seconds, and again after each start. Its log says "Received unexpected invalid request error".

What to do
    1. If the node should be a controller, add `controller` to its process.roles and a controller listener, and start
       it.
    2. Otherwise remove it from the voters, then start the broker: the remedy holds the command.

What not to do
    Do not stop another voter before: the voter without a controller cannot take its place.
"""

from collections.abc import Iterable

from rules.analysis.electability import failures_left
from rules.analysis.freshness import needed
from rules.analysis.votes import runs_no_controller
from rules.finding import Finding, Need, Rule, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.formatting import utc_text
from rules.model.membership import BrokerRegistration, ControllerRegistration, Voter, tolerated_failures
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.remedy_commands import remove_controller, wait_for_pending_change


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each voter that runs no controller."""
    committed = needed(quorum.committed)
    # Below metadata.version 3.7 no controller registers.
    for voter in sorted(committed.voters, key=lambda voter: voter.key) if quorum.controllers else ():
        controller, broker = quorum.controllers.get(voter.key.id), quorum.brokers.get(voter.key.id)
        if runs_no_controller(quorum, voter):
            yield _finding(quorum, voter, controller, broker)
        elif controller is None:
            # It may be a controller that was never started.
            yield UnknownResult(subject=Subject("voter", voter.key.id), why=f"voter {voter.key} is not fetching")


def _finding(
    quorum: Quorum, voter: Voter, controller: ControllerRegistration | None, broker: BrokerRegistration | None
) -> Finding:
    node, voters = voter.key.id, len(quorum.voters)
    if broker is None:
        cause = "no controller is registered under its id"
    elif controller is None:
        cause = "it is registered as a broker only"
    else:
        cause = f"it was started as a broker only at {utc_text(broker.at.timestamp_ms)}"
    left = failures_left(quorum)
    return Finding(
        subject=Subject("voter", node),
        severity=Severity.WARNING,
        summary=f"Voter {node} runs no controller: {cause}. It grants no vote and cannot lead. Failures tolerated: "
        f"{'unknown' if left is None else max(0, left)} instead of {tolerated_failures(voters)}.",
        evidence={
            "voter": str(voter.key),
            "recorded_endpoint": None if voter.endpoint is None else str(voter.endpoint),
            "controller_registered_at_offset": None if controller is None else controller.at.offset,
            "broker_registered_at_offset": None if broker is None else broker.at.offset,
            "voters": voters,
            "majority": needed(quorum.committed).majority,
        },
        remedy=(
            f"# If node {node} should be a controller, add controller to its process.roles and a controller listener, "
            "and start it",
            f"# Otherwise remove voter {node}",
            *wait_for_pending_change(quorum),
            remove_controller(quorum, voter.key, for_good=True),
            *(() if broker is None else (f"# Start broker {node} again, if it has ended",)),
        ),
        starts=(node,),
    )


def _resolved(quorum: Quorum, subject: Subject) -> str:
    node = subject.node
    return f"Voter {node} runs a controller." if quorum.voter(node) else f"Node {node} is not a voter."


RULE = Rule(
    title="A voter without a controller",
    hold=hold(60.0, "a controller registers within seconds of its start, once there is a leader"),
    resolved=_resolved,
    needs=(Need.VOTERS_RECORD, Need.CURRENT_LOG, Need.FRESH_POLL),
    inhibited_by=("no-leader",),
    grouped_with=("stale-voter-endpoint",),
)
