"""Describes each replica of a quorum by the committed voters, the newest poll and the polls before it."""

from collections.abc import Iterator

from rules.model.identifiers import ReplicaKey
from rules.model.quorum import Quorum
from rules.model.replica import Poll, Replica, ReplicaHistory
from tests.description.fact_words import Fact, Times, endpoints, known, listed, seconds, voter


def replica_facts(quorum: Quorum, times: Times) -> Iterator[Fact]:
    """Yields the newest poll, then each replica: voters, observers, and those that are no longer listed."""
    if quorum.poll is not None:
        yield from _poll(quorum, quorum.poll, times)
    listed_keys = [row.key for row in (*quorum.poll.voters, *quorum.poll.observers)] if quorum.poll else []
    committed = [one.key for one in quorum.voters]
    for key in dict.fromkeys([*committed, *listed_keys, *sorted(quorum.histories)]):
        yield Fact(f"replica {key}", _replica(quorum, key, times))
    for key, history in quorum.histories.items():
        yield from _past(key, history, times)
    if (wait := quorum.commit_wait) is not None:
        lags = listed(f"{key} {seconds(lag)}" for key, lag in wait.lags_ms.items())
        answers = known(None) if wait.answer_ms is None else seconds(wait.answer_ms)
        waits = f"records wait {seconds(wait.average_ms)} for a majority"
        yield Fact("commits", f"{waits}; the leader answers in {answers}, voters lag: {lags}")
    for one in quorum.clocks_set_back:
        where = "the monitor's host" if one.controller is None else f"controller {one.controller}"
        since = f"at {times.at(one.at_ms)} in epoch {one.leader_epoch}, after offset {one.high_watermark}"
        yield Fact(
            f"clock of {where}",
            f"the clock of {where}, {one.was_ahead_ms} ms ahead, was set back by {one.by_ms} ms {since}",
        )
    for removal in quorum.removals:
        yield Fact(f"removal of {removal.key}", f"removed {removal.key} at {times.at(removal.removed_at_ms)}")


def _poll(quorum: Quorum, poll: Poll, times: Times) -> Iterator[Fact]:
    """Yields the poll, and where it lists a node at other endpoints than the voters' record."""
    by = f" by {poll.endpoint}" if poll.endpoint else ""
    words = [f"polled at {times.at(poll.observed_at_ms)}{by}: leader {poll.leader_id} in epoch {poll.leader_epoch}"]
    words.append(f"high watermark {known(poll.high_watermark)}")
    if poll.leader is not None:
        words.append(f"leader time {times.at(poll.leader.last_fetch_ms)}")
        if poll.leader.last_caught_up_ms != poll.leader.last_fetch_ms:
            words.append(f"caught up {times.at(poll.leader.last_caught_up_ms)}")
    if poll.answer_ms is not None:
        words.append(f"answered after {poll.answer_ms} ms")
    if poll.clock_ahead_ms:
        words.append(f"{seconds(poll.clock_ahead_ms)} ahead of this host's clock")
    if poll.cluster_id != quorum.cluster_id:
        words.append(f"cluster id {known(poll.cluster_id)}")
    if set(poll.nodes) != poll.voter_ids:
        words.append(f"endpoints of nodes {listed(poll.nodes)}")
    yield Fact("poll", ", ".join(words))
    recorded = {one.key.id: one.endpoints for one in quorum.voters}
    for node, where in poll.nodes.items():
        if endpoints(where) != endpoints(recorded.get(node, ())):
            yield Fact(f"node {node}", f"node {node} at {endpoints(where)} by the poll")


def _replica(quorum: Quorum, key: ReplicaKey, times: Times) -> str:
    """Returns `voter 2-b at c2:9093, log end 20 in epoch 1, lag 0, fetched and caught up 0.1 s before, ...`."""
    poll, history = quorum.poll, quorum.histories.get(key)
    row = next((one for one in (*poll.voters, *poll.observers) if one.key == key), None) if poll else None
    words = [*_standing(quorum, key), *_log_end(row, history)]
    if history is not None and history.samples:
        words.append(f"lag {known(history.samples[-1].lag)}")
    if poll is not None and row is not None and row is not poll.leader:
        words.append(_ages(poll, row, times))
    if history is not None:
        words += _sampled(poll, row, history)
        words.append(
            f"polled since {times.at(history.first_seen_at_ms)}" + (f" as {history.key}" * (history.key != key))
        )
        if row is None or poll is None or history.last_seen_at_ms != poll.observed_at_ms:
            words.append(f"last at {times.at(history.last_seen_at_ms)}")
    else:
        words.append("never polled")
    return ", ".join(words)


def _standing(quorum: Quorum, key: ReplicaKey) -> Iterator[str]:
    """Yields its role; of a committed voter also its endpoints, and whether the leader's own set is another one."""
    committed = next((one for one in quorum.voters if one.key == key), None)
    if committed is None:
        yield f"{_role(quorum, key)} {key}"
        return
    yield f"voter {voter(committed)}"
    if quorum.poll is not None and key not in quorum.poll.voter_keys:
        yield "listed as observer" if _is_observer(quorum, key) else "not listed"


def _role(quorum: Quorum, key: ReplicaKey) -> str:
    if quorum.poll is not None and key in quorum.poll.voter_keys:
        return "voter" if quorum.committed is None else "pending voter"
    return "observer" if _is_observer(quorum, key) else "no longer listed"


def _is_observer(quorum: Quorum, key: ReplicaKey) -> bool:
    return quorum.poll is not None and any(row.key == key for row in quorum.poll.observers)


def _log_end(row: Replica | None, history: ReplicaHistory | None) -> Iterator[str]:
    """Yields where its log ends; that of an earlier poll if the newest one does not have it."""
    end = None if row is None else row.log_end_offset
    if row is not None:
        yield f"log end {known(end)}" + (
            "" if end is None or history is None else f" in epoch {history.last_leader_epoch}"
        )
    if history is not None and (row is None or end is None or end != history.last_log_end_offset):
        yield f"last log end {known(history.last_log_end_offset)} in epoch {history.last_leader_epoch}"


def _ages(poll: Poll, row: Replica, times: Times) -> str:
    """Returns how long before the poll it fetched and caught up, by the leader's clock."""
    if row.last_fetch_ms is None and row.last_caught_up_ms is None:
        return "never fetched"
    fetched, caught_up = _age(poll, row)
    if fetched is None or caught_up is None:
        return (
            f"fetched at leader time {times.at(row.last_fetch_ms)} and caught up at {times.at(row.last_caught_up_ms)}"
        )
    if fetched == caught_up:
        return f"fetched and caught up {seconds(fetched)} before"
    return f"fetched {seconds(fetched)} and caught up {seconds(caught_up)} before"


def _age(poll: Poll, row: Replica) -> tuple[int | None, int | None]:
    leader = poll.leader
    if leader is None:
        return None, None
    return _minus(leader.last_fetch_ms, row.last_fetch_ms), _minus(leader.last_caught_up_ms, row.last_caught_up_ms)


def _minus(value: int | None, other: int | None) -> int | None:
    return None if value is None or other is None else value - other


def _sampled(poll: Poll | None, row: Replica | None, history: ReplicaHistory) -> Iterator[str]:
    """Yields the ages of its newest sample if they are not those of the newest poll."""
    if not history.samples:
        yield "without a sample"
        return
    sample = history.samples[-1]
    fetched, caught_up = (None, None) if poll is None or row is None else _age(poll, row)
    if (sample.fetch_age_ms, sample.lag_ms) != (fetched, 0 if sample.lag == 0 else caught_up):
        ages = ("unknown" if age is None else seconds(age) for age in (sample.fetch_age_ms, sample.lag_ms))
        yield "sampled as fetched {} and caught up {} before".format(*ages)


def _past(key: ReplicaKey, history: ReplicaHistory, times: Times) -> Iterator[Fact]:
    for outage in history.outages:
        began = times.at(outage.since_ms)
        yield Fact(f"outage of {key} from {began}", f"{key} not in sync {times.span(outage.since_ms, outage.until_ms)}")
    if (regressed := history.log_regression) is not None:
        yield Fact(
            f"regression of {key}",
            f"{key} lost records: log end {regressed.log_end_offset} in epoch {regressed.leader_epoch} at "
            f"{times.at(regressed.observed_at_ms)}, before {regressed.acknowledged_offset} acknowledged",
        )
