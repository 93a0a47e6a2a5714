"""Describes a quorum in a few lines of text, for the output of scripts."""

from collections.abc import Iterator

from rules.model.history import Recovery
from rules.model.identifiers import Millis, ReplicaKey
from rules.model.membership import Voter
from rules.model.quorum import Quorum, Replica


def describe(quorum: Quorum) -> str:
    """Returns leader, voters, observers, registrations, recovering partitions and failures. Times are ages."""
    return "\n".join(_lines(quorum))


def _lines(quorum: Quorum) -> Iterator[str]:
    leader = "no leader" if quorum.leader_id is None else f"leader {quorum.leader_id}"
    yield f"{leader} in epoch {_or_unknown(quorum.leader_epoch)}, high watermark {_or_unknown(quorum.high_watermark)}"
    read = "never" if quorum.log_seen_at_ms is None else _ago(quorum, quorum.log_seen_at_ms)
    yield f"log applied up to {_or_unknown(quorum.last_offset)}, last read {read}"
    yield f"kraft.version {_or_unknown(quorum.kraft_version)}, metadata.version {_or_unknown(quorum.metadata_version)}"
    yield from _replicas(quorum)
    yield from (f"removed {one.key} {_ago(quorum, one.removed_at_ms)}" for one in quorum.removals)
    for registration in sorted(quorum.controllers.values(), key=lambda one: one.id):
        yield f"controller {registration.id} registered at {', '.join(map(str, registration.endpoints))}"
    for broker in sorted(quorum.brokers.values(), key=lambda one: one.id):
        state = "fenced" if broker.fenced else "shutting down" if broker.in_controlled_shutdown else "alive"
        yield f"broker {broker.id} {state}"
    yield from (_recovering(quorum, one) for one in quorum.recovering)
    for name, probe in sorted(quorum.probes.items()):
        yield f"probe {name}: {probe.resolution}, {probe.connection}, {probe.answer}"
    for failure in quorum.failures:
        endpoint = failure.endpoint or "no endpoint"
        yield f"failing {failure.source} at {endpoint}: {failure.reason} since {_ago(quorum, failure.first_at_ms)}"


def _replicas(quorum: Quorum) -> Iterator[str]:
    polled: dict[ReplicaKey, Replica] = {}
    if quorum.poll is not None:
        polled = {row.key: row for row in (*quorum.poll.voters, *quorum.poll.observers)}
    voters = quorum.committed.voters if quorum.committed is not None else ()
    for voter in voters:
        yield f"voter {voter.key} at {_endpoints(voter)}, {_progress(quorum, voter.key)}"
    if quorum.poll is None:
        return
    committed = {voter.key for voter in voters}
    for row in quorum.poll.voters:
        if row.key not in committed:
            kind = "pending voter" if quorum.committed is not None else "voter"
            yield f"{kind} {row.key}, {_progress(quorum, row.key)}"
    for row in quorum.poll.observers:
        if row.key not in committed:
            yield f"observer {row.key}, {_progress(quorum, row.key)}"
    unlisted = [key for key in sorted(quorum.histories, key=str) if key not in polled and key not in committed]
    yield from (f"no longer listed {key}, {_progress(quorum, key)}" for key in unlisted)


def _endpoints(voter: Voter) -> str:
    return ", ".join(map(str, voter.endpoints)) or "no endpoint"


def _progress(quorum: Quorum, key: ReplicaKey) -> str:
    history = quorum.histories.get(key)
    if history is None:
        return "never polled"
    sample = history.samples[-1]
    lag = "lag unknown" if sample.lag is None else f"lag {sample.lag}"
    fetched = "fetch unknown" if sample.fetch_age_ms is None else f"fetched {_seconds(sample.fetch_age_ms)} before"
    return f"{lag}, {fetched}, polled {_ago(quorum, history.last_seen_at_ms)}"


def _recovering(quorum: Quorum, one: Recovery) -> str:
    newest = quorum.newest_timestamp_ms
    age = "unknown" if newest is None else _seconds(Millis(newest - one.since_timestamp_ms))
    least = "at least " if one.at_least else ""
    return (
        f"recovering {one.topic or one.topic_id}-{one.partition} for {least}{age} since offset {one.since_offset}: "
        f"leader {_or_unknown(one.leader)}, isr {_ids(one.isr)} of {_ids(one.replicas)}, "
        f"before isr {_ids(one.previous_isr)} elr {_ids(one.previous_elr)}"
    )


def _ids(nodes: tuple[int, ...] | None) -> str:
    return "unknown" if nodes is None else f"[{','.join(map(str, nodes))}]"


def _or_unknown(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def _seconds(duration_ms: int) -> str:
    return f"{duration_ms / 1000:.1f} s"


def _ago(quorum: Quorum, at_ms: Millis) -> str:
    return f"{_seconds(quorum.now_ms - at_ms)} ago"
