"""A controller has a new directory id and is not a voter: with the recorded id, nothing fetches.

What it means
    The voter set contains the controller with its old directory id, which no longer fetches. A replica with the same id
    and a new directory id fetches instead. Either the disk was replaced or wiped, or only the label is new:
    `kafka-storage format` formats over the same log if `meta.properties` is missing, and Kafka makes a directory id if
    that line is missing. DescribeQuorum does not show which. Kafka treats it as a new replica without a vote (KIP-853,
    KIP-856).

    The process runs and looks healthy, but the quorum has one active voter less until an operator acts. The alert keeps
    firing between the two commands, when the old voter is removed and the new one is not yet added.

What to do
    Check first that the old directory is lost for good: if its disk is only not mounted, mount it and restart the
    controller. If the log is still the same one, which its `partition.metadata` shows (older than `meta.properties`),
    stop the controller, write the old `directory.id` into `meta.properties`, and start it: it is the voter again.
    Otherwise wait until the new replica has caught up. Then run two commands in this order: Kafka allows one voter
    per id and refuses to add the second.

    1. Remove the old voter. The command works from any host that reaches the controllers.
    2. Add the new one, on that controller's host and with its own configuration file.

    With controller.quorum.auto.join.enable=true (Kafka 4.2 and later) the controller does both within seconds: if this
    alert fires, it failed to, and its log says why.

What not to do
    Do not wipe or restart another controller before both commands are done. Do not add the new voter first. With
    auto-join, do not format a directory for a controller whose disk may come back: it removes the old directory's vote.
"""

from collections.abc import Iterable
from typing import NamedTuple

from rules.answers.election import failures_claim, failures_left
from rules.claims.claim import Directory, Follows, Question, claim
from rules.claims.statement import Statement, statement
from rules.claims.words import clause, not_a_voter, predicate
from rules.facts.following import Following, following, lag_ms, same_replica
from rules.facts.freshness import needed
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.facts.replica_lag import last_fetch_text
from rules.facts.voter_changes import half_done
from rules.finding import Finding, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.formatting import ms_text
from rules.model.identifiers import Millis, ReplicaKey
from rules.model.membership import Voter, VoterSet
from rules.model.quorum import Quorum
from rules.model.replica import Poll, Replica
from rules.model.subject import Subject
from rules.remedies.remedy_commands import add_controller, before_a_change, remove_controller, unless_it_joins
from rules.remedies.step import may_restart
from rules.rule import Rule

_LAGGING_MS = 2_000


class _Replaced(NamedTuple):
    """The voter whose log directory was replaced; it may be removed already."""

    key: ReplicaKey
    removed_at_ms: Millis | None = None


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each controller whose directory id changed."""
    quorum = facts.quorum
    poll, committed = needed(quorum.poll), needed(quorum.committed)
    found: set[int] = set()
    voters_fetching: int | None = None
    for row in sorted(poll.observers, key=lambda row: (row.key.id, row.key.directory_id or "")):
        old = _replaced(quorum, committed, poll, row.key, thresholds)
        if old is None or row.key.id in found:
            continue
        fetching = facts.nodes.fetching.get(row.key.id, ())
        if len(fetching) > 1:
            found.add(row.key.id)
            why = f"{len(fetching)} directories of controller {row.key.id} fetch: two processes run"
            yield UnknownResult(subject=Subject("controller", row.key.id), why=why)
        elif row.key in fetching:
            found.add(row.key.id)
            if voters_fetching is None:
                states = (following(quorum, poll, voter.key) for voter in committed.voters)
                voters_fetching = sum(state.fetches for state in states)
            yield _finding(facts, committed, poll, old, row, voters_fetching)
    yield from _not_fetching(quorum, committed, poll, found, thresholds)


def _replaced(
    quorum: Quorum, committed: VoterSet, poll: Poll, new: ReplicaKey, thresholds: Thresholds
) -> _Replaced | None:
    """Returns the voter whose directory this one replaces, if it does."""
    voter = committed.by_id(new.id)
    if voter is None:
        removal = half_done(quorum, new)
        return _Replaced(removal.key, removal.removed_at_ms) if removal else None
    if same_replica(voter.key, new) or following(quorum, poll, voter.key) is not Following.NOT_FETCHING:
        return None
    return _Replaced(voter.key)


def _not_fetching(
    quorum: Quorum, committed: VoterSet, poll: Poll, found: set[int], thresholds: Thresholds
) -> Iterable[UnknownResult]:
    """Returns an unknown result for each replacement that was observed and does not fetch now."""
    listed = {row.key for row in poll.observers}
    for key in sorted({*listed, *quorum.histories} - committed.keys):
        if key.id in found or _older(quorum, key, committed.by_id(key.id)):
            continue
        if _replaced(quorum, committed, poll, key, thresholds):
            found.add(key.id)
            yield UnknownResult(subject=Subject("controller", key.id), why=f"the replacement {key} is not fetching")


def _older(quorum: Quorum, key: ReplicaKey, voter: Voter | None) -> bool:
    """Returns whether this directory was observed before the voter's: then the voter is the replacement."""
    known = quorum.histories.get(key)
    own = quorum.histories.get(voter.key) if voter else None
    return known is not None and own is not None and known.first_seen_at_ms < own.first_seen_at_ms


def _finding(
    facts: Facts, committed: VoterSet, poll: Poll, replaced: _Replaced, row: Replica, fetching: int
) -> Finding:
    quorum = facts.quorum
    (old, removed_at_ms), new = replaced, row.key
    behind = lag_ms(poll, row)
    lagging = behind is None or behind > _LAGGING_MS
    wait = (f"# Wait until {new} has caught up with the leader: a lagging replica cannot be added",)
    remove = (remove_controller(facts, old),) if removed_at_ms is None else ()
    return Finding(
        subject=Subject("controller", new.id),
        severity=Severity.WARNING,
        summary=_summary(facts, committed, replaced, new, fetching),
        evidence={
            "old_voter": str(old),
            "new_replica": str(new),
            "old_is_still_a_voter": removed_at_ms is None,
            "old_last_fetched": last_fetch_text(quorum, poll, old),
            "new_last_fetched": last_fetch_text(quorum, poll, new),
            "new_lag": "unknown" if behind is None else ms_text(behind),
            "new_log_end_offset": row.log_end_offset,
            "voters": len(committed.voters),
            "voters_fetching": fetching,
            "majority": committed.majority,
            "voters_record_offset": committed.offset,
            **({} if removed_at_ms is None else {"removed_at_ms": removed_at_ms}),
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
        },
        remedy=(
            *(_former_is_lost(old) if remove else ()),
            *before_a_change(facts, new.id),
            *(wait if lagging else ()),
            *unless_it_joins(quorum, new.id),
            *remove,
            *add_controller(facts, new.id),
        ),
    )


def _former_is_lost(old: ReplicaKey) -> tuple[str, ...]:
    """Returns the check that comes before the removal: a directory that is only not mounted still has the vote."""
    return (
        may_restart(
            f"# Check on controller {old.id}'s host that the directory {old.directory_id} (directory.id in "
            "meta.properties) is lost: if its disk is only not mounted, mount it and restart the controller, and it is "
            "the voter again",
            old.id,
        ),
        may_restart(
            "# If its __cluster_metadata-0/partition.metadata is older than its meta.properties, the log is the "
            f"voter's, and only the id is new: stop controller {old.id}, write directory.id={old.directory_id} back "
            f"into meta.properties, start controller {old.id}, and run no command below",
            old.id,
        ),
    )


def _summary(facts: Facts, committed: VoterSet, replaced: _Replaced, new: ReplicaKey, fetching: int) -> Statement:
    old, directory = replaced.key, claim(Question.DIRECTORY, Directory.REPLACED, node=new.id)
    what = statement(f"Controller {new.id} ", predicate(directory))
    if replaced.removed_at_ms is not None:
        removed = f". The old voter {old} is removed; the new replica {new} is fetching but not added yet."
        return statement(what, removed)
    left = failures_left(facts)
    return statement(
        what,
        f": voter {old} ",
        predicate(claim(Question.FOLLOWS, Follows.NOT_FETCHING, node=old.id)),
        f", observer {new} is. ",
        clause(claim(Question.ACTIVE, fetching, of=len(committed.voters))),
        "; ",
        clause(failures_claim(left)),
        ".",
    )


def _resolved(facts: Facts, subject: Subject) -> str:
    voter = facts.quorum.voter(subject.node)
    if voter is None:
        return not_a_voter(subject.node)
    return f"Controller {subject.node} is a voter with directory id {voter.key.directory_id}."


RULE = Rule(
    title="A voter's log directory was replaced",
    resolved=_resolved,
    hold=hold(60.0, "auto-join replaces the voter within seconds"),
    needs=(Need.VOTERS_RECORD, Need.FRESH_POLL),
    outlives_cause=True,
)
