"""A change of the voter set was begun and is not committed.

What it means
    The leader works with a voter set that the log's last committed VotersRecord does not hold: somebody ran
    add-controller or remove-controller (or a controller joined by itself), and no majority of the new set has
    acknowledged it (KIP-853). It commits in milliseconds when the voters fetch.

    Until it does no other change of the voter set is accepted, and a leader that fails may take the change with it, so
    that the set falls back to the old one. Kafka's tool gives up after seconds and says "timed out"; the change does
    not. No Kafka tool shows the committed set next to the leader's. A leader that hears no majority at all resigns
    within seconds: then `no-leader` speaks instead.

Evidence
    Who is added and who removed; the committed set with its offset; what each voter of the new set does, and how many
    must acknowledge.

What to do
    1. Count a majority of the new set: with the added voter, without the removed one.
    2. Make so many of them fetch: start those that are down, mend the way of the others to the leader.

What not to do
    Do not repeat the command because it timed out, and begin no other change: both are refused. Do not remove further
    controllers to make it pass.

Thresholds
    hold (60 s) and clear (10 s): a change that commits takes far less than a second, also through an election. silent
    (10 s), behind (10 s), poll_age (10 s). seen_age (10 s): the log must have answered this recently.
"""

from collections.abc import Iterable

from rules.analysis.freshness import POLL_AGE, SEEN_AGE, SILENT, fresh_poll, no_fresh_poll, no_voters_record
from rules.analysis.log_freshness import unread
from rules.analysis.replica_lag import same
from rules.analysis.voter_status import BEHIND, Part, Seat, keeping_up, seats
from rules.finding import Finding, Rule, RuleResult, Severity, Thresholds, clear, hold
from rules.formatting import listed
from rules.model.identifiers import ReplicaKey
from rules.model.poll import Poll
from rules.model.quorum import Quorum
from rules.model.voter_set import VoterSet
from rules.remedy_commands import describe_status

ID = "voter-change-stuck"


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding about the quorum, while the leader's set is not the committed one."""
    hindrance = no_voters_record(ID, quorum) or unread(ID, quorum, thresholds)
    if hindrance is not None:
        yield hindrance
        return
    poll, committed = fresh_poll(quorum, thresholds), quorum.committed
    if poll is None or poll.leader is None or committed is None:
        yield no_fresh_poll(ID, quorum)
        return
    latest = [row.key for row in poll.voters]
    added = sorted((key for key in latest if not _in(key, committed.keys)), key=str)
    removed = sorted((key for key in committed.keys if not _in(key, latest)), key=str)
    if added or removed:
        yield _finding(quorum, committed, poll, added, removed, seats(quorum, poll, thresholds))


def _in(key: ReplicaKey, keys: Iterable[ReplicaKey]) -> bool:
    return any(same(key, other) for other in keys)


def _finding(
    quorum: Quorum,
    committed: VoterSet,
    poll: Poll,
    added: list[ReplicaKey],
    removed: list[ReplicaKey],
    seated: tuple[Seat, ...],
) -> Finding:
    carrying, majority = keeping_up(seated), len(seated) // 2 + 1
    what = listed(
        [*(f"adding controller {key.id}" for key in added), *(f"removing controller {key.id}" for key in removed)]
    )
    return Finding(
        rule=ID,
        subject="quorum",
        severity=Severity.WARNING,
        summary=f"a change of the voter set is not committed ({what}): {carrying} of its {len(seated)} voters keep up, "
        f"{majority} are needed",
        evidence={
            "adding": [str(key) for key in added],
            "removing": [str(key) for key in removed],
            "committed_voters": [str(voter.key) for voter in committed.voters],
            "voters_record_offset": committed.offset,
            "voters_of_the_change": {str(seat.key): str(seat) for seat in seated},
            "voters_keeping_up": carrying,
            "majority": majority,
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
            "high_watermark": quorum.high_watermark,
        },
        remedy=tuple(_remedy(quorum, poll, seated)),
    )


def _remedy(quorum: Quorum, poll: Poll, seated: tuple[Seat, ...]) -> Iterable[str]:
    for seat in seated:
        if seat.part is Part.SILENT:
            yield f"# Start controller {seat.key.id}, or see in its log why it does not fetch from the leader"
        elif seat.part is Part.BEHIND:
            yield f"# See what slows controller {seat.key.id}: it fetches and does not catch up"
    if all(seat.part is Part.KEEPS_UP for seat in seated):
        yield (
            f"# Every voter of the new set keeps up: read the log of the leader, controller {poll.leader_id}, for why "
            "it does not commit the change"
        )
    yield "# Begin no other change of the voter set until this one is committed or gone"
    yield "# See the set the leader works with"
    yield describe_status(quorum)


RULE = Rule(
    id=ID,
    title="A change of the voter set does not commit",
    text=__doc__ or "",
    thresholds=(hold(60.0), clear(), SILENT, BEHIND, POLL_AGE, SEEN_AGE),
    evaluate=evaluate,
    inhibited_by=("no-leader", "high-watermark-stalled", "committed-metadata-lost"),
)
