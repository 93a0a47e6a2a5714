"""A change of the voter set is not committed, or a voter is removed again and again.

What it means
    The leader uses a voter set that differs from the last committed VotersRecord in the log: an administrator ran
    add-controller or remove-controller, a controller joined automatically (controller.quorum.auto.join.enable), or a
    voter moved to another endpoint, and no majority of the new set has acknowledged the change (KIP-853).

    Until it commits, the leader refuses every other change of the voter set. If the leader fails, the change may be
    lost and the old set may come back. Kafka's tool reports "timed out" after some seconds; the change itself does not
    time out. A leader that hears from no majority resigns within seconds: then `no-leader` fires instead. While the
    change is pending no later record is committed: `no-leader` fires too, as part of the same incident.

    The alert also fires for a controller that is removed from the voters again and again. With auto-join (Kafka 4.2 and
    later) two processes with one node.id do this: one removes the other's directory, and the other adds itself again.

    One return is enough if the same directory is a voter again within ten seconds of its removal: a controller with
    auto-join that was removed while it runs adds itself, and the quorum has one voter less than its operator counts on
    once it stops.

What to do
    1. Count the majority of the new set: with the added voter, without the removed one.
    2. Make that many voters fetch: start those that are down, and fix the network path of the others to the leader.
    3. For repeated removals: stop the process that should not have this node.id. A controller with auto-join that is
       to leave the quorum must be stopped before it is removed, or started without auto-join.

What not to do
    Do not repeat the command after it timed out, and do not start another change: the leader refuses both. Do not
    remove more controllers to make the change commit.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rules.answers.now import committed_voters
from rules.facts.following import Following, same_replica
from rules.facts.following_text import follows_text
from rules.facts.freshness import needed
from rules.facts.needs import Need
from rules.facts.node import NodeFacts
from rules.facts.node_claims import in_sync_count
from rules.facts.quorum import Facts
from rules.facts.voter_changes import moving_voters
from rules.finding import Finding, RuleResult, Severity, Threshold, Thresholds, hold, window_of
from rules.formatting import and_join, ms_text, needed_text, utc_text
from rules.model.history import VoterChange
from rules.model.identifiers import Endpoint, Millis, NodeId, ReplicaKey
from rules.model.membership import VoterSet, majority
from rules.model.replica import Poll
from rules.model.subject import Subject
from rules.remedies.remedy_commands import bring_in_sync, describe_status, remove_controller
from rules.remedies.step import Act, does, forbids
from rules.rule import Rule

WINDOW = window_of("removals of a voter", "The newest 64 changes of the voter set are remembered")
REMOVALS = Threshold(
    name="removals",
    default=3.0,
    unit="removals",
    meaning="this many removals of one controller from the voters within the window are repeated ones; the replacement "
    "of a disk is one",
)
_JOINS_MS = 10_000
"""A controller that joins by itself tries to every few seconds; a person who adds it again needs longer."""


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns a finding while the leader's voter set is not the committed one, and one for each controller that was
    removed again and again, or is back."""
    poll, committed = needed(facts.quorum.poll), needed(facts.quorum.committed)
    added = _missing(poll.voter_keys, committed.keys)
    removed = _missing(committed.keys, poll.voter_keys)
    moving = moving_voters(poll, committed)
    if added or removed or moving:
        statuses = facts.nodes.polled_voters
        yield _finding(facts, committed, poll, _VoterSetChange(added=added, removed=removed, moving=moving), statuses)
    yield from _repeated_removals(facts, poll, thresholds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _VoterSetChange:
    added: list[ReplicaKey]
    removed: list[ReplicaKey]
    moving: Mapping[NodeId, tuple[Endpoint, ...]]

    def __str__(self) -> str:
        return and_join(
            [
                *(f"adding controller {key.id}" for key in self.added),
                *(f"removing controller {key.id}" for key in self.removed),
                *(f"moving controller {node}" for node in self.moving),
            ]
        )


def _missing(keys: frozenset[ReplicaKey], others: frozenset[ReplicaKey]) -> list[ReplicaKey]:
    by_id: dict[NodeId, list[ReplicaKey]] = {}
    for other in others:
        by_id.setdefault(other.id, []).append(other)
    absent = (key for key in keys if not any(same_replica(key, other) for other in by_id.get(key.id, ())))
    return sorted(absent, key=str)


def _finding(
    facts: Facts,
    committed: VoterSet,
    poll: Poll,
    change: _VoterSetChange,
    statuses: tuple[NodeFacts, ...],
) -> Finding:
    in_sync, needed = in_sync_count(statuses), majority(len(statuses))
    return Finding(
        subject=Subject("quorum"),
        severity=Severity.WARNING,
        summary=f"A change of the voter set is not committed: {change}. {in_sync} of the {len(statuses)} voters of "
        f"the new set are in sync; {needed_text(needed)}.",
        evidence={
            "adding": [str(key) for key in change.added],
            "removing": [str(key) for key in change.removed],
            "moving": {
                str(node): [str(endpoint) for endpoint in endpoints] for node, endpoints in change.moving.items()
            },
            "committed_voters": [str(voter.key) for voter in committed.voters],
            "voters_record_offset": committed.offset,
            "voters_of_the_new_set": {str(status.key): follows_text(facts.nodes, status) for status in statuses},
            "voters_in_sync": in_sync,
            "majority": needed,
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
            "high_watermark": facts.quorum.high_watermark,
        },
        remedy=tuple(_remedy(facts, poll, statuses)),
        starts=tuple(status.id for status in statuses if status.following is Following.NOT_FETCHING),
    )


def _remedy(facts: Facts, poll: Poll, statuses: tuple[NodeFacts, ...]) -> Iterable[str]:
    for status in statuses:
        yield from bring_in_sync(facts, status)
    if all(status.following is Following.IN_SYNC for status in statuses):
        yield (
            f"# Check in the log of the leader, controller {poll.leader_id}, why it does not commit the change: every "
            "voter of the new set is in sync"
        )
    yield forbids(
        "# Do not start another change of the voter set until this one is committed or dropped",
        Act.CHANGE_VOTER,
        (None,),
        (Act.SETTLE, (None,)),
    )
    yield "# Check the voter set that the leader uses"
    yield describe_status(facts)


def _repeated_removals(facts: Facts, poll: Poll, thresholds: Thresholds) -> Iterable[Finding]:
    quorum = facts.quorum
    since = (quorum.newest_timestamp_ms or 0) - thresholds.ms(WINDOW.name)
    removals: dict[NodeId, list[VoterChange]] = {}
    for change in quorum.history.voter_changes:
        for node in {key.id for key in change.removed} if change.timestamp_ms >= since else ():
            removals.setdefault(node, []).append(change)
    for node, changes in sorted(removals.items()):
        if len(changes) >= thresholds[REMOVALS.name]:
            yield _repeated(facts, node, changes)
        elif not facts.nodes.is_shared(node) and (back := _return(facts, changes[-1])) is not None:
            # Two processes with one node id remove each other, until one of them is stopped (duplicate-node-id).
            yield _returned(facts, changes[-1], *back)


def _return(facts: Facts, removal: VoterChange) -> tuple[ReplicaKey, Millis] | None:
    """Returns the voter that is one again soon after this removal, and how long it was none; None if it is none."""
    for change in facts.quorum.history.voter_changes:
        took_ms = Millis(change.timestamp_ms - removal.timestamp_ms)
        if change.offset <= removal.offset or took_ms >= _JOINS_MS:
            continue
        for key in change.added:
            if key in removal.removed and key in needed(facts.quorum.committed).keys:
                return key, took_ms
    return None


def _returned(facts: Facts, removal: VoterChange, key: ReplicaKey, took_ms: Millis) -> Finding:
    node = key.id
    return Finding(
        subject=Subject("controller", node),
        severity=Severity.WARNING,
        summary=f"Controller {node} is a voter again, {ms_text(took_ms)} after it was removed: if it added itself "
        "(controller.quorum.auto.join.enable), each removal while it runs ends so. The voters are "
        f"{committed_voters(facts.quorum)}.",
        evidence={
            "controller": node,
            "directory": str(key),
            "removed_at": utc_text(removal.timestamp_ms),
            "removal_offset": removal.offset,
            "back_after": ms_text(took_ms),
            "committed_voters": [str(voter.key) for voter in facts.quorum.voters],
            "leader": facts.quorum.leader_id,
        },
        remedy=(
            f"# If controller {node} is to stay, do nothing: it is a voter as before",
            does(
                f"# If controller {node} is to leave the quorum, stop it first, and then remove it: with "
                "controller.quorum.auto.join.enable=true it adds itself again while it runs",
                (Act.STOP, (node,)),
            ),
            remove_controller(facts, key),
        ),
        hold_ms=Millis(0),
    )


def _repeated(facts: Facts, node: NodeId, changes: list[VoterChange]) -> Finding:
    fetching = facts.nodes.fetching.get(node, ())
    took = ms_text(Millis(changes[-1].timestamp_ms - changes[0].timestamp_ms))
    twins = len(fetching) > 1
    return Finding(
        subject=Subject("controller", node),
        severity=Severity.WARNING,
        summary=f"Controller {node} was removed from the voters {len(changes)} times within {took}. "
        + (
            f"Processes with different directories use its node id: {and_join(fetching)} fetch."
            if twins
            else "It was added again in between."
        ),
        evidence={
            "controller": node,
            "removals": len(changes),
            "removed_directories": [
                str(key) for key in sorted({key for change in changes for key in change.removed}) if key.id == node
            ],
            "first_removal": utc_text(changes[0].timestamp_ms),
            "newest_removal": utc_text(changes[-1].timestamp_ms),
            "newest_removal_offset": changes[-1].offset,
            "directories_fetching": [str(key) for key in fetching],
            "committed_voters": [str(voter.key) for voter in facts.quorum.voters],
            "leader": facts.quorum.leader_id,
        },
        remedy=tuple(_end_removals(facts, node, fetching)),
    )


def _end_removals(facts: Facts, node: NodeId, fetching: Sequence[ReplicaKey]) -> Iterable[str]:
    if len(fetching) > 1:
        directories = and_join(str(key.directory_id) for key in fetching)
        yield (
            f"# Stop the process that should not have node.id {node}: directories {directories} fetch (directory.id in "
            "meta.properties)"
        )
        yield "# Give it a node.id of its own and format its directory before it starts again"
    else:
        yield f"# Find out who removes controller {node}: an operator, a script, or another process with its node.id"
        yield does(
            f"# If controller {node} is to leave the quorum, stop it before it is removed: with "
            "controller.quorum.auto.join.enable=true it adds itself again",
            (Act.STOP, (node,)),
        )
    yield "# Check the voter set that the leader uses"
    yield describe_status(facts)


def _resolved(facts: Facts, subject: Subject) -> str:
    change = "No change of the voter set is pending"
    if subject != Subject("quorum"):
        change = f"{str(subject).capitalize()} is no longer removed from the voters and added again"
    return f"{change}. The voters are {committed_voters(facts.quorum)}."


RULE = Rule(
    title="A change of the voter set does not end",
    resolved=_resolved,
    hold=hold(60.0, "a change commits in far less than a second, even during an election"),
    further_thresholds=(WINDOW, REMOVALS),
    needs=(Need.VOTERS_RECORD, Need.CURRENT_LOG, Need.FRESH_POLL),
    # Nothing after an uncommitted VotersRecord is committed either: that rule always fires too.
    without_leader=True,
    grouped_with=("no-leader",),
)
