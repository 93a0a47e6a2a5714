"""A controller follows the quorum as an observer and could be one of its voters.

What it means
    A controller registered itself, fetches the metadata log, and is no voter: it was started and never added, or it
    was removed more than five minutes ago and still runs. It costs as much as a voter and protects nothing.

    - Warning: the quorum would tolerate more failures with it.
    - Info: promoting it gains nothing alone, or it lags. An even number of voters tolerates no more failures than the
      odd number below it.

    Brokers are observers too: they never register as controllers and are never meant here. A controller whose disk was
    replaced is `voter-disk-replaced`'s, not this rule's.

Evidence
    The observer's key; how it keeps up, judged on a window of polls by the leader's clock; what promoting it, and all
    that wait, would do to the number of failures the quorum tolerates.

What to do
    - Where promoting gains something, add it: the remedy holds the command.
    - Where it gains nothing alone, keep it as a spare on purpose, or add it together with another one.
    - Where it lags, find out why first.

What not to do
    Do not promote a replica that lags: until it has caught up it counts for the majority and does not vote.

Thresholds
    hold (5 min) and clear (10 s). removed_for (300 s): a voter removed more recently is not named, because Kafka lists
    it as an observer for that long. ready_lag (2 s) and window (30 samples, more than the minute that is kept):
    caught up this closely in each. silent (10 s), poll_age (10 s), half_done (a day).
"""

from collections.abc import Iterable

from rules.analysis.disk_replacement import HALF_DONE, half_done
from rules.analysis.freshness import POLL_AGE, SILENT, fresh_poll, no_fresh_poll, no_voters_record
from rules.analysis.replica_lag import Liveness, Readiness, liveness, readiness
from rules.finding import Finding, Rule, RuleResult, Severity, Threshold, Thresholds, UnknownResult, clear, hold
from rules.formatting import counted, listed, spelled
from rules.model.identifiers import NodeId, ReplicaKey
from rules.model.poll import Poll, Replica
from rules.model.quorum import Quorum
from rules.model.voter_set import VoterSet
from rules.remedy_commands import add_controller

ID = "observer-could-be-voter"
OBSERVER_SESSION_MS = 300_000
"""How long a leader lists an observer after its last fetch (LeaderState.OBSERVER_SESSION_TIMEOUT_MS)."""
READY_LAG = Threshold(
    name="ready_lag",
    default=2.0,
    unit="s",
    meaning="an observer that was never further behind the leader is ready; the default is "
    "controller.quorum.fetch.timeout.ms",
)
WINDOW = Threshold(
    name="window",
    default=30.0,
    unit="samples",
    meaning="how many of the newest samples of its progress are judged; one is kept every 5 s for a minute, so the "
    "default judges that minute, and fewer than 12 judge less",
)
REMOVED_FOR = Threshold(
    name="removed_for",
    default=300.0,
    unit="s",
    meaning="a voter removed more recently is not named: the leader lists it as an observer for 300 s",
)


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding an observer that could be promoted."""
    hindrance = no_voters_record(ID, quorum)
    if hindrance is not None:
        yield hindrance
        return
    poll, committed = fresh_poll(quorum, thresholds), quorum.committed
    if poll is None or poll.leader is None or committed is None:
        yield no_fresh_poll(ID, quorum)
        return
    waiting = _waiting(quorum, committed, poll, thresholds)
    ready = [row for row in waiting if liveness(quorum, poll, row.key, thresholds) is Liveness.FETCHING]
    for row in waiting:
        if row in ready:
            yield _finding(quorum, committed, poll, row, ready, thresholds)
        else:
            yield UnknownResult(rule=ID, subject=_subject(row.key), why=f"observer {row.key} does not fetch now")
    for key in _unheard(quorum, committed, poll, thresholds):
        yield UnknownResult(rule=ID, subject=_subject(key), why=f"the leader has not heard of observer {key} yet")


def _waiting(quorum: Quorum, committed: VoterSet, poll: Poll, thresholds: Thresholds) -> list[Replica]:
    voters = committed.ids | {row.key.id for row in poll.voters}
    just_removed = {
        removal.key.id
        for removal in quorum.removals
        if quorum.now_ms - removal.removed_at_ms < thresholds.ms(REMOVED_FOR.name)
    }
    return [
        row
        for row in sorted(poll.observers, key=lambda row: (row.key.id, row.key.directory_id or ""))
        if row.key.id in quorum.controllers
        and row.key.id not in voters | just_removed
        and half_done(quorum, row.key, thresholds) is None
    ]


def _unheard(quorum: Quorum, committed: VoterSet, poll: Poll, thresholds: Thresholds) -> list[ReplicaKey]:
    """Who fetched when last seen and is not listed now: a new leader lists an observer from its first fetch on.

    The leader before would have listed it for 300 s after its last one, so within that time it may be back.
    """
    listed_now = {row.key for row in (*poll.voters, *poll.observers)}
    voting = committed.ids | {row.key.id for row in poll.voters}
    return [
        key
        for key, history in sorted(quorum.histories.items(), key=lambda pair: str(pair[0]))
        if key not in listed_now
        and key.id in quorum.controllers
        and key.id not in voting
        and quorum.now_ms - history.last_seen_at_ms < OBSERVER_SESSION_MS
        and (history.samples[-1].fetch_age_ms or 0) <= thresholds.ms(SILENT.name)
    ]


def _subject(key: ReplicaKey) -> str:
    return f"observer {key}"


def _finding(
    quorum: Quorum, committed: VoterSet, poll: Poll, row: Replica, waiting: list[Replica], thresholds: Thresholds
) -> Finding:
    history = quorum.histories.get(row.key)
    samples = history.samples if history else ()
    window = int(thresholds[WINDOW.name])
    state = readiness(samples, limit_ms=thresholds.ms(READY_LAG.name), window=window)
    # Kafka allows one directory an id: of two observers with the same id only one can be added.
    n, together = len(committed.voters), len(committed.voters) + len({each.key.id for each in waiting})
    gains = tolerated(together) > tolerated(n)
    silent = [
        voter.key.id for voter in committed.voters if liveness(quorum, poll, voter.key, thresholds) is Liveness.SILENT
    ]
    newest = samples[-1] if samples else None
    return Finding(
        rule=ID,
        subject=_subject(row.key),
        severity=Severity.WARNING if gains else Severity.INFO,
        summary=f"controller {row.key.id} is an observer ({_kept_up(state)}) and could be a voter: "
        f"{n} voters tolerate {counted(tolerated(n), 'failure')}, with it {n + 1} tolerate {tolerated(n + 1)}"
        + (f", with all {together - n} that wait {together} tolerate {tolerated(together)}" * (together - n > 1)),
        evidence={
            "observer": str(row.key),
            "keeps_up": state.value,
            "samples_judged": min(window, len(samples)),
            "records_behind": newest.lag if newest else None,
            "behind": spelled(newest.lag_ms) if newest and newest.lag_ms is not None else None,
            "registered_at_offset": quorum.controllers[row.key.id].offset,
            "voters": n,
            "majority": committed.majority,
            "voters_silent": [*silent],
            "failures_tolerated": tolerated(n),
            "failures_tolerated_with_it": tolerated(n + 1),
            "observers_waiting": [str(each.key) for each in waiting],
            "failures_tolerated_with_all": tolerated(together),
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
        },
        remedy=(
            *_under_way(committed, poll),
            *_first(row, state, committed, waiting, silent),
            *add_controller(quorum, row.key.id),
        ),
    )


def tolerated(voters: int) -> int:
    """How many of so many voters may fail with a majority left."""
    return max(0, voters - (voters // 2 + 1))


def _kept_up(state: Readiness) -> str:
    return "how it keeps up is not known yet" if state is Readiness.UNKNOWN else state.value


def _under_way(committed: VoterSet, poll: Poll) -> Iterable[str]:
    """The leader takes one change of the voter set at a time, and refuses the next (KIP-853)."""
    latest = {row.key for row in poll.voters}
    if latest != committed.keys and None not in {key.directory_id for key in latest}:
        yield "# Wait until the change of the voter set that is under way is committed or gone"


def _first(
    row: Replica, state: Readiness, committed: VoterSet, waiting: list[Replica], silent: list[NodeId]
) -> Iterable[str]:
    n, others = len(committed.voters), sorted({each.key.id for each in waiting} - {row.key.id})
    if state in (Readiness.CATCHING_UP, Readiness.LAGGING):
        yield f"# Wait until controller {row.key.id} has caught up: now it is {state.value}"
    if silent:
        yield f"# Voter {listed(silent)} does not fetch: if it is gone for good, remove it before adding this one"
    elif tolerated(n + 1) <= tolerated(n):
        yield (
            f"# Adding controller {row.key.id} alone gains nothing: {n + 1} voters tolerate "
            f"{counted(tolerated(n + 1), 'failure')}; add it together with "
            f"{f'controller {listed(others)}' if others else 'another one'}, or keep it as a spare"
        )


RULE = Rule(
    id=ID,
    title="An observer could be a voter",
    text=__doc__ or "",
    thresholds=(hold(300.0), clear(), REMOVED_FOR, READY_LAG, WINDOW, SILENT, POLL_AGE, HALF_DONE),
    evaluate=evaluate,
    inhibited_by=("no-leader",),
    grouped_with=("voter-disk-replaced",),
)
