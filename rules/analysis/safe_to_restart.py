"""Whether one controller may be restarted now: what the quorum would be without it, and what must be mended first.

Safe means: the voters that remain are a majority, fetch, have caught up and could elect a leader among themselves;
every voter's recorded endpoint leads to it, so that the restarted one is found again and finds the others (KIP-853);
no other controller is down, no disk replacement and no change of the voter set is under way. What cannot be told is
not safe. Partitions are not judged: on a combined node they are a question of their own.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rules.analysis.disk_replacement import half_done
from rules.analysis.electability import electability, stands
from rules.analysis.endpoint_status import Look, looks, seen_there
from rules.analysis.freshness import catching_up, fresh_poll, leaderless, no_fresh_poll
from rules.analysis.replica_lag import Liveness, lag_ms, liveness, row_of
from rules.finding import Thresholds
from rules.formatting import counted, listed, spelled
from rules.model.identifiers import Millis, NodeId, ReplicaKey
from rules.model.poll import Poll
from rules.model.quorum import Quorum

CAUGHT_UP_MS = Millis(5_000)
"""Who had caught up this recently counts as level with the leader: an idle follower is half a second behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The answer, with the reasons."""

    node: NodeId
    against: tuple[str, ...]
    """Why not, the weightiest first; empty: it is safe."""
    notes: tuple[str, ...]
    """What to know although it does not decide."""
    remaining: tuple[NodeId, ...] | None
    """The other voters that fetch, have caught up and accept connections; None where that could not be told."""
    votes_needed: int | None

    @property
    def safe(self) -> bool:
        """Nothing speaks against it."""
        return not self.against


def known(quorum: Quorum) -> frozenset[NodeId]:
    """Every controller that log or poll names: voters, and those that registered without being one."""
    polled = {row.key.id for row in quorum.poll.voters} if quorum.poll else set()
    return frozenset({*polled, *quorum.controllers, *(quorum.committed.ids if quorum.committed else ())})


def safe_to_restart(quorum: Quorum, node: NodeId, thresholds: Thresholds) -> Restart:
    """Judge the restart of a controller of `known(quorum)`.

    Args:
        quorum: the quorum now.
        node: who would be restarted.
        thresholds: `silent`, `poll_age`, `probe_age` and `half_done`.
    """
    blind = _blind(quorum, thresholds)
    poll = fresh_poll(quorum, thresholds)
    if blind is not None or poll is None:
        why = blind or no_fresh_poll("", quorum).why
        return Restart(node=node, against=(why,), notes=(), remaining=None, votes_needed=None)
    seen = looks(quorum, poll, thresholds)
    voters = _voters(quorum, poll)
    others = [key for key in voters if key.id != node]
    refusing = {look.voter.key.id for look in seen if look.refused}
    remaining = [key for key in others if key.id not in refusing and not _behind(quorum, poll, key, thresholds)]
    needed = len(voters) // 2 + 1
    against = [
        *_too_few(quorum, poll, voters, others, remaining, thresholds),
        *_endpoints(seen),
        *_unfinished(quorum, poll, thresholds),
        *_unelectable(quorum, node, seen, remaining, needed),
    ]
    if node not in {key.id for key in voters}:
        # It has no vote: the quorum is as it is with and without it, and only what is unfinished speaks against it.
        against = [*_unfinished(quorum, poll, thresholds)]
    return Restart(
        node=node,
        against=tuple(against),
        notes=tuple(_notes(quorum, poll, node, voters, seen)),
        remaining=tuple(key.id for key in remaining),
        votes_needed=needed,
    )


def _blind(quorum: Quorum, thresholds: Thresholds) -> str | None:
    nobody = leaderless(quorum)
    if nobody is not None:
        said = f"{listed(nobody.answered, 3)} says so" if nobody.answered else "every controller refuses connections"
        return f"no controller leads the quorum ({said}): mend that first"
    behind = catching_up("", quorum)
    if behind is not None:
        return f"cannot tell: {behind.why}"
    if fresh_poll(quorum, thresholds) is None:
        return f"cannot tell: {no_fresh_poll('', quorum).why}"
    if quorum.committed is None and quorum.kraft_version:
        return "cannot tell: no committed VotersRecord has been read yet"
    return None


def _voters(quorum: Quorum, poll: Poll) -> list[ReplicaKey]:
    """The committed voters; those of the poll where the quorum is static."""
    keys = quorum.committed.keys if quorum.committed else {row.key for row in poll.voters}
    return sorted(keys)


def _behind(quorum: Quorum, poll: Poll, key: ReplicaKey, thresholds: Thresholds) -> str | None:
    """Why this voter would not carry the quorum; None when it would."""
    if liveness(quorum, poll, key, thresholds) is not Liveness.FETCHING:
        return "does not fetch"
    row = row_of(poll, key)
    behind = lag_ms(poll, row) if row else None
    if behind is None:
        return "is not known to have caught up"
    return None if behind <= CAUGHT_UP_MS else f"is {spelled(behind)} behind the leader"


def _too_few(
    quorum: Quorum,
    poll: Poll,
    voters: list[ReplicaKey],
    others: list[ReplicaKey],
    remaining: list[ReplicaKey],
    thresholds: Thresholds,
) -> Iterable[str]:
    needed = len(voters) // 2 + 1
    if not others:
        yield "it is the only voter: while it is down nobody leads"
        return
    for key in others:
        if key not in remaining:
            why = _behind(quorum, poll, key, thresholds) or "refuses connections at its recorded endpoint"
            yield f"controller {key.id} {why}: bring it back first"
    if len(remaining) < needed:
        left = counted(len(remaining), "voter")
        yield f"without it {left} of {len(voters)} would remain, caught up and reachable, and {needed} are needed"


def _endpoints(seen: Iterable[Look]) -> Iterable[str]:
    for look in seen:
        if look.flaws:
            found = f"{', '.join(flaw.value for flaw in look.flaws)}; {seen_there(look)}"
            yield (
                f"voter {look.voter.key.id}'s recorded endpoint {look.endpoint} is stale ({found}): "
                "whoever restarts may not come back into the quorum"
            )
        elif look.blind is not None and not look.refused:
            yield f"cannot tell whether voter {look.voter.key.id} can be reached: {look.blind}"


def _unfinished(quorum: Quorum, poll: Poll, thresholds: Thresholds) -> Iterable[str]:
    committed = quorum.committed
    if committed is None:
        return
    for row in poll.observers:
        voter = committed.by_id(row.key.id)
        other_disk = voter is not None and row.key.directory_id not in (None, voter.key.directory_id)
        if other_disk and liveness(quorum, poll, row.key, thresholds) is not Liveness.FETCHING:
            # The directory that was replaced: the leader lists it for 300 s after its last fetch.
            continue
        if other_disk or (voter is None and half_done(quorum, row.key, thresholds)):
            yield f"controller {row.key.id} runs on a new disk and is not a voter with it yet: finish that first"
    latest = {row.key for row in poll.voters}
    if latest != committed.keys and None not in {key.directory_id for key in latest}:
        changed = sorted(latest ^ committed.keys)
        yield f"a change of the voter set is under way ({listed(changed)}): wait until it is committed"


def _unelectable(
    quorum: Quorum, node: NodeId, seen: tuple[Look, ...], remaining: list[ReplicaKey], needed: int
) -> Iterable[str]:
    if not seen or len(remaining) < needed:
        return
    standing = [replace(one, alive=False) if one.key.id == node else one for one in stands(quorum, seen)]
    if not electability(standing).electable:
        yield "without it no voter could win an election: the others do not reach each other where they are recorded"


def _notes(quorum: Quorum, poll: Poll, node: NodeId, voters: list[ReplicaKey], seen: tuple[Look, ...]) -> Iterable[str]:
    if node not in {key.id for key in voters}:
        yield f"controller {node} is no voter: the quorum does not need it"
    elif poll.leader_id == node:
        yield "it leads: its restart is an election of a second or two; in a rolling restart the leader comes last"
    if node in quorum.brokers:
        yield f"node {node} is a broker as well: whether its partitions stay available is not judged here"
    if not seen:
        yield "a static quorum records no endpoints: whether the controllers find each other again is not judged here"
