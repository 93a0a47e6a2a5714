"""The commands for how replicas fetch, and for what DescribeQuorum says of them."""

from rules.model.identifiers import Epoch, NodeId, Offset, ReplicaKey
from tests.commands import Words, endpoint, milliseconds
from tests.situation.registry import age, command, replica, run
from tests.situation.situation import (
    NOW,
    SECOND,
    Situation,
    controller_endpoint,
    controller_key,
)


@command("stop-fetching")
def stop_fetching(made: Situation, words: Words) -> None:
    """stop-fetching 2 [since 120s] [end 9000]: it has not fetched since; its log ends at this offset."""
    at_ms, end = age(words, "since", "120s"), words.number("end")
    for key in [replica(made, Words(one)) for one in words.word().split(",")]:
        made.follow(key, stopped_ms=at_ms, **({} if end is None else {"log_ends": ((0, end),)}))


@command("stuck")
def stuck(made: Situation, words: Words) -> None:
    """stuck 2 [since 120s]: it fetches, and has appended nothing since."""
    at_ms = age(words, "since", "120s")
    for key in [replica(made, Words(one)) for one in words.word().split(",")]:
        made.follow(key, stuck_ms=at_ms)


@command("behind")
def behind(made: Situation, words: Words) -> None:
    """behind 2 60s [shrinking 0.1] [growing 0.1]: it is so far behind; by how much that changes in a second.

    With `stop-fetching` it was so far behind when it fetched for the last time.
    """
    shrinking, growing = words.option("shrinking"), words.option("growing")
    replicas, lag = words.word(), milliseconds(words.word())
    for key in [replica(made, Words(one)) for one in replicas.split(",")]:
        made.follow(key, lag_ms=lag, lag_rate=float(growing or 0) - float(shrinking or 0))


@command("add-observer")
def add_observer(made: Situation, words: Words) -> None:
    """add-observer 4,2-new [unregistered] [since 1h] [stopped 20s]: a controller fetches without a vote."""
    unregistered, since, stopped = words.flag("unregistered"), words.option("since"), words.option("stopped")
    for one in words.word().split(","):
        _add_observer(made, replica(made, Words(one)), since=since, stopped=stopped, registered=not unregistered)


def _add_observer(
    made: Situation, key: ReplicaKey, *, since: str | None, stopped: str | None, registered: bool
) -> None:
    if key.id in made.voters and key.directory_id is None:
        key = controller_key(key.id)
    made.follow(key, appeared_ms=None if since is None else NOW - milliseconds(since))
    if stopped is not None:
        made.follow(key, stopped_ms=NOW - milliseconds(stopped))
    if registered:
        run(made, f"registers {key.id} since {since or '3h'} incarnation {key}")


@command("gone")
def gone(made: Situation, words: Words) -> None:
    """gone 4-dir4 20s: the leader listed this replica the last time so long ago."""
    key, at_ms = replica(made, words), NOW - milliseconds(words.word())
    made.follow(key, ends_ms=at_ms)
    if at_ms < made.begins_ms:
        made.begins_ms = at_ms - 30 * SECOND
        made.steps_of_polls(at_ms)


@command("unknown-row")
def unknown_row(made: Situation, words: Words) -> None:
    """unknown-row 2 [since 4s]: the leader does not know yet how it fetches."""
    since = words.option("since")
    made.follow(replica(made, words), unknown_since_ms=0 if since is None else NOW - milliseconds(since))


@command("never-caught-up")
def never_caught_up(made: Situation, words: Words) -> None:
    """never-caught-up 2 [since 4s]: it fetches, and the leader does not know since when it lags (see `behind`)."""
    since = words.option("since")
    made.follow(replica(made, words), never_caught_up_since_ms=0 if since is None else NOW - milliseconds(since))


@command("untimed")
def untimed(made: Situation, _words: Words) -> None:
    """untimed: DescribeQuorum before Kafka 3.3 does not say when a replica fetched (KIP-836)."""
    made.timed = False


@command("adding")
def adding(made: Situation, words: Words) -> None:
    """adding 4: add-controller was accepted and is not committed."""
    key = replica(made, words)
    made.pending += (key,)
    run(made, f"registers {key.id}")


@command("removing")
def removing(made: Situation, words: Words) -> None:
    """removing 1: remove-controller was accepted and is not committed."""
    key = replica(made, words)
    made.leaving += (key,)
    made.follow(key)


@command("moving")
def moving(made: Situation, words: Words) -> None:
    """moving 2 c2:19093,EXTRA://c2:9094: the leader uses these listeners of a voter, and has not committed them."""
    node = NodeId(int(words.word()))
    recorded = {NodeId(one): made.listeners.get(one, (controller_endpoint(one),)) for one in made.voters}
    moved = {node: tuple(map(endpoint, words.word().split(",")))}
    made.polled |= {"nodes": recorded | made.polled.get("nodes", {}) | moved}


@command("restore-log")
def restore_log(made: Situation, words: Words) -> None:
    """restore-log 2 [at 5s] [to 3] [now 40]: its log ended at offset 3 then, although it had all; where it ends now.

    `now end`: it has all records again.
    """
    at_ms, low, now = age(words, "at", "5s"), words.number("to"), words.option("now") or "40"
    key = replica(made, words)
    low = 3 if low is None else low
    later = ((at_ms + SECOND, int(now)),) if now != "end" else ()
    made.begins_ms = min(made.begins_ms, at_ms - 30 * SECOND)
    made.follow(key, log_ends=((at_ms, low), *later), regains_ms=at_ms + SECOND if now == "end" else None)
    made.steps_of_polls(at_ms)


@command("outages")
def outages(made: Situation, words: Words) -> None:
    """outages 2 9 [for 60s] [every 100s]: it was not in sync so many times, and is now."""
    lasts, every = milliseconds(words.option("for") or "60s"), milliseconds(words.option("every") or "100s")
    key, times = replica(made, words), int(words.word())
    begins = [NOW - age * every for age in range(times, 0, -1)]
    made.begins_ms = min(made.begins_ms, begins[0] - 30 * SECOND)
    earlier = made.progress[key].outages if key in made.progress else ()
    made.follow(key, outages=(*earlier, *((at_ms, at_ms + lasts) for at_ms in begins)))
    for at_ms in begins:
        made.steps_of_polls(at_ms + lasts)


@command("polled")
def polled(made: Situation, words: Words) -> None:
    """polled leader 2, polled epoch 8, polled high-watermark 9000 [since 20s]: what the polls say, unlike the log.

    `polled nodes none`: no endpoints, before Kafka 3.9. `polled clock-ahead 1h`: the clock of the monitor's host was
    set back by so much, and is behind the times of the rows. `polled answer 700ms`, or `unknown`: how long the leader
    took.
    """
    since = words.option("since")
    field, value = words.word(), words.word()
    if since is not None:
        made.polled_since_ms = NOW - milliseconds(since)
    values: dict[str, dict[str, object]] = {
        "leader": {"leader_id": NodeId(int(value))} if field == "leader" else {},
        "epoch": {"leader_epoch": Epoch(int(value))} if field == "epoch" else {},
        "high-watermark": {"high_watermark": Offset(int(value))} if field == "high-watermark" else {},
        "endpoint": {"endpoint": value},
        "nodes": {"nodes": {}},
        "answer": {"answer_ms": None if value == "unknown" else milliseconds(value)} if field == "answer" else {},
        "clock-ahead": {"clock_ahead_ms": milliseconds(value)} if field == "clock-ahead" else {},
    }
    made.polled |= values[field]
