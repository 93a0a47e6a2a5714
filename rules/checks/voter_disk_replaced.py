"""A controller came back with another metadata directory: the voter it was is gone for good.

What it means
    The voter set names (id, old directory), which no longer fetches, while a replica with the same id and a new
    directory does: its disk was replaced, or its metadata directory was wiped and formatted again. Kafka counts it as
    a new replica that has no vote (KIP-853, KIP-856).

    The process is up and looks well, but the quorum runs with one voter fewer than it seems to have, and this does not
    heal by itself. Half-way through the mending, when the old key is removed and the new one not yet added, the alert
    goes on.

Evidence
    Both keys as a pair; when each last fetched by the leader's clock; how far behind the new one is; how many voters
    still fetch and how many are needed.

What to do
    Two commands, in this order: Kafka allows one voter an id and refuses to add the second.

    1. Remove the old key. It works from any host that reaches the controllers.
    2. Add the new one, on that controller's host and with its own configuration file.

What not to do
    Do not wipe or restart another controller before this is mended. Do not add first.

Thresholds
    hold (60 s) and clear (10 s). silent (10 s): when a voter counts as not fetching. poll_age (10 s). half_done (a
    day): how long after the removal the new directory is still taken for the replacement.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from rules.analysis.disk_replacement import HALF_DONE, half_done
from rules.analysis.freshness import POLL_AGE, SILENT, fresh_poll, no_fresh_poll, no_voters_record
from rules.analysis.replica_lag import Liveness, lag_ms, liveness, same, silence_ms
from rules.finding import Finding, Rule, RuleResult, Severity, Thresholds, UnknownResult, clear, hold
from rules.formatting import spelled
from rules.model.identifiers import Millis, ReplicaKey
from rules.model.poll import Poll, Replica
from rules.model.quorum import Quorum
from rules.model.voter_set import Voter, VoterSet
from rules.remedy_commands import add_controller, remove_controller

ID = "voter-disk-replaced"
_LAGGING_MS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """One replacement: what the voter set says, or said until it was removed, and what came instead."""

    old: ReplicaKey
    new: Replica
    removed_at_ms: Millis | None


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding a controller whose directory changed."""
    hindrance = no_voters_record(ID, quorum)
    if hindrance is not None:
        yield hindrance
        return
    poll, committed = fresh_poll(quorum, thresholds), quorum.committed
    if poll is None or poll.leader is None or committed is None:
        yield no_fresh_poll(ID, quorum)
        return
    found: set[int] = set()
    for row in sorted(poll.observers, key=lambda row: (row.key.id, row.key.directory_id or "")):
        pair = _pair(quorum, committed, poll, row, thresholds)
        if pair is None or row.key.id in found:
            continue
        if liveness(quorum, poll, row.key, thresholds) is Liveness.FETCHING:
            found.add(row.key.id)
            yield _finding(quorum, committed, poll, pair, thresholds)
    yield from _out_of_sight(quorum, committed, poll, found, thresholds)


def _pair(quorum: Quorum, committed: VoterSet, poll: Poll, row: Replica, thresholds: Thresholds) -> _Pair | None:
    if row.key.directory_id is None:
        return None
    voter = committed.by_id(row.key.id)
    if voter is None:
        removal = half_done(quorum, row.key, thresholds)
        return _Pair(old=removal.key, new=row, removed_at_ms=removal.removed_at_ms) if removal else None
    if same(voter.key, row.key) or liveness(quorum, poll, voter.key, thresholds) is not Liveness.SILENT:
        return None
    return _Pair(old=voter.key, new=row, removed_at_ms=None)


def _out_of_sight(
    quorum: Quorum, committed: VoterSet, poll: Poll, found: set[int], thresholds: Thresholds
) -> Iterable[UnknownResult]:
    """The new directory was seen and does not fetch now: not mended, and nothing to name as the pair's other half."""
    rows = {row.key: row for row in poll.observers}
    for key in sorted({*rows, *quorum.histories} - committed.keys, key=lambda key: (key.id, key.directory_id or "")):
        row = rows.get(key) or Replica(key=key, log_end_offset=None, last_fetch_ms=None, last_caught_up_ms=None)
        if key.id in found or _older(quorum, key, committed.by_id(key.id)):
            continue
        if _pair(quorum, committed, poll, row, thresholds):
            found.add(key.id)
            yield UnknownResult(
                rule=ID, subject=f"controller {key.id}", why=f"replica {key}, the replacement, does not fetch now"
            )


def _older(quorum: Quorum, key: ReplicaKey, voter: Voter | None) -> bool:
    """This directory was seen before the voter's own: it is what the voter replaced, and not the other way round."""
    known = quorum.histories.get(key)
    own = quorum.histories.get(voter.key) if voter else None
    return known is not None and own is not None and known.first_seen_at_ms < own.first_seen_at_ms


def _finding(quorum: Quorum, committed: VoterSet, poll: Poll, pair: _Pair, thresholds: Thresholds) -> Finding:
    old, new = pair.old, pair.new.key
    living = sum(liveness(quorum, poll, voter.key, thresholds) is Liveness.FETCHING for voter in committed.voters)
    behind = lag_ms(poll, pair.new)
    lagging = behind is None or behind > _LAGGING_MS
    wait = (f"# Wait until {new} has caught up with the leader: a replica that lags cannot be added",)
    remove = (remove_controller(quorum, old),) if pair.removed_at_ms is None else ()
    return Finding(
        rule=ID,
        subject=f"controller {new.id}",
        severity=Severity.WARNING,
        summary=_summary(committed, pair, living),
        evidence={
            "old": str(old),
            "new": str(new),
            "old_is_still_a_voter": pair.removed_at_ms is None,
            "old_last_fetched": _ago(silence_ms(quorum, poll, old)),
            "new_last_fetched": _ago(silence_ms(quorum, poll, new)),
            "new_behind": "unknown" if behind is None else spelled(behind),
            "new_log_end_offset": pair.new.log_end_offset,
            "voters": len(committed.voters),
            "voters_fetching": living,
            "majority": committed.majority,
            "voters_record_offset": committed.offset,
            **({} if pair.removed_at_ms is None else {"removed_at_ms": pair.removed_at_ms}),
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
        },
        remedy=(*remove, *(wait if lagging else ()), *add_controller(quorum, new.id)),
    )


def _summary(committed: VoterSet, pair: _Pair, living: int) -> str:
    old, new = pair.old, pair.new.key
    if pair.removed_at_ms is not None:
        return (
            f"controller {new.id} is half-way through a disk replacement: voter {old} is removed, and {new} fetches "
            "but is not a voter yet"
        )
    spare = living - committed.majority
    left = "no further voter may fail" if spare <= 0 else f"{spare} more may fail"
    return (
        f"controller {new.id} runs on a new disk: voter {old} is silent while {new} fetches without a vote; "
        f"{living} of {len(committed.voters)} voters fetch, {left}"
    )


def _ago(silence: Millis | None) -> str:
    return "never seen" if silence is None else f"{spelled(silence)} before the poll"


RULE = Rule(
    id=ID,
    title="A voter's disk was replaced",
    text=__doc__ or "",
    thresholds=(hold(60.0), clear(), SILENT, POLL_AGE, HALF_DONE),
    evaluate=evaluate,
    inhibited_by=("no-leader",),
)
