"""A controller is registered, but it is not a voter and does not fetch.

What it means
    The log holds a RegisterControllerRecord of a controller that is neither in the voter set nor among the observers:
    the controller was removed or switched off, and its registration stayed. No Kafka tool lists registrations.

    The registration has no effect until an upgrade: the active controller checks what every registration supports, and
    refuses a metadata.version that this controller did not support in the version that it ran last. A broker's
    registration does the same, and can be removed at every level. A controller's can be removed only from
    metadata.version 33 on (Kafka 4.4, KIP-1312): one that last ran Kafka 4.3 or older blocks the level that its own
    removal needs (KAFKA-20295).

What to do
    - metadata.version is 33 or higher: unregister the controller.
    - It is lower, and every registration supports 33: raise it, then unregister the controller. There is no way back
      from 33.
    - It is lower, and a registration without a controller does not support 33: start a controller with that node id
      once in the new version, with an empty disk. It registers again with what it supports. Then raise the level, stop
      the controller, and unregister it.
    - Not every running node supports 33: nothing. Before you upgrade to a lower level, start such a controller once in
      the new version.

    The alert has the commands of the case. In a dynamic quorum whose controllers 4, 5 and 6 last ran Kafka 3.9, 4.3 and
    4.4, those of controller 4's alert and then those of controller 6's are:

    ```
    $ kafka-storage.sh format --config $NODE_PROPERTIES --cluster-id lXKPGQVyRkOmCf5Xfmr2Tg --no-initial-controllers
    $ kafka-server-start.sh -daemon $NODE_PROPERTIES
    $ kafka-storage.sh format --config $NODE_PROPERTIES --cluster-id lXKPGQVyRkOmCf5Xfmr2Tg --no-initial-controllers
    $ kafka-server-start.sh -daemon $NODE_PROPERTIES
    $ kafka-features.sh --bootstrap-controller c1.example.com:9093 upgrade --feature metadata.version=33
    metadata.version was upgraded to 33.
    $ kafka-server-stop.sh --node-id=4
    $ kafka-server-stop.sh --node-id=5
    $ kafka-cluster.sh unregister-controller --id 4 --bootstrap-controller c1.example.com:9093
    Controller 4 is no longer registered.
    $ kafka-cluster.sh unregister-controller --id 5 --bootstrap-controller c1.example.com:9093
    Controller 5 is no longer registered.
    $ kafka-cluster.sh unregister-controller --id 6 --bootstrap-controller c1.example.com:9093
    Controller 6 is no longer registered.
    ```

What not to do
    Do not reuse the node id for a broker. Do not add the controller as a voter only to remove its registration. Do not
    unregister a controller that runs: it registers again. When you remove a voter for good, from metadata.version 33
    on, add `--unregister` to `kafka-metadata-quorum.sh remove-controller`: it leaves no registration.
"""

from collections.abc import Iterable

from rules.claims.claim import NO, Question, claim
from rules.claims.statement import statement
from rules.claims.words import predicate
from rules.facts.freshness import needed
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.facts.registered_node import METADATA_VERSION, RegisteredNode
from rules.finding import Finding, Plain, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.formatting import and_join, utc_text
from rules.model.ages import OBSERVER_SESSION_MS
from rules.model.identifiers import Millis, NodeId
from rules.model.membership import ControllerRegistration
from rules.model.quorum import Quorum
from rules.model.replica import Poll, ReplicaHistory
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_status
from rules.remedies.step import starts
from rules.remedies.unregister import unregister_steps
from rules.rule import Rule


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each registration of a controller that does not take part in the quorum."""
    quorum = facts.quorum
    poll = needed(quorum.poll)
    voters = poll.voter_ids | quorum.voter_ids
    listed: list[Plain] = [*sorted(voters)]
    present = voters | poll.observers_by_id.keys()
    for node, registration in sorted(quorum.controllers.items()):
        if node in present:
            continue
        fetched_at_ms = _last_fetch_at_ms(quorum, node)
        if fetched_at_ms is not None and quorum.now_ms - fetched_at_ms < OBSERVER_SESSION_MS:
            # A new leader lists an observer from its first fetch on.
            why = f"controller {node} fetched at {utc_text(fetched_at_ms)} and may fetch again"
            yield UnknownResult(subject=Subject("controller", node), why=why)
        else:
            yield _finding(facts, poll, registration, fetched_at_ms, listed)


def _last_fetch_at_ms(quorum: Quorum, node: NodeId) -> Millis | None:
    """Returns when the node last fetched, with any directory id; None if no poll has listed it."""
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
    facts: Facts, poll: Poll, registration: ControllerRegistration, fetched_at_ms: Millis | None, voters: list[Plain]
) -> Finding:
    node = registration.id
    last_fetch = "never observed" if fetched_at_ms is None else utc_text(fetched_at_ms)
    ghost = RegisteredNode(role="controller", registration=registration, running=False)
    supported = ghost.range(METADATA_VERSION)
    return Finding(
        subject=Subject("controller", node),
        severity=Severity.INFO,
        summary=statement(
            f"Controller {node} is registered, ",
            predicate(claim(Question.VOTER, NO, node=node)),
            f" and does not fetch. Its last fetch: {last_fetch}. "
            f"Kafka refuses a metadata.version above {supported.highest} because of it.",
        ),
        evidence={
            "controller": node,
            "registered_at_offset": registration.at.offset,
            "registration_timestamp_ms": registration.at.timestamp_ms,
            "registered_endpoints": [str(endpoint) for endpoint in registration.endpoints],
            "last_fetch": last_fetch,
            "voters": voters,
            "metadata_version": facts.quorum.metadata_version,
            "supported_levels": str(supported),
            "leader": poll.leader_id,
        },
        remedy=(
            starts(
                f"# If controller {node} should be running, start it"
                f"{f' at {and_join(registration.endpoints)}' if registration.endpoints else ''}",
                node,
            ),
            "# Otherwise remove its registration",
            *unregister_steps(facts, (ghost,)),
            "# Check which nodes are voters",
            describe_status(facts, excluding=node),
        ),
    )


def _resolved(facts: Facts, subject: Subject) -> str:
    node = subject.node
    if node not in facts.quorum.controllers:
        return f"Controller {node} is no longer registered."
    return f"Controller {node} {'is a voter' if facts.quorum.voter(node) else 'fetches the metadata log'}."


RULE = Rule(
    title="A registration without a controller",
    resolved=_resolved,
    hold=hold(
        600.0,
        "a leader lists an observer for 300 s after its last fetch; a controller that is moved or repaired is back by "
        "then",
    ),
    needs=(Need.CURRENT_LOG, Need.FRESH_POLL),
    grouped_with=("voter-disk-replaced",),
)
