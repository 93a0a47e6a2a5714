"""The commands for what controllers answer who leads."""

from dataclasses import replace

from rules.model.identifiers import Epoch, NodeId
from rules.model.monitoring import (
    LeaderView,
)
from tests.commands import Words, milliseconds, numbers, replica_key
from tests.situation.registry import age, command
from tests.situation.situation import (
    ASKED_AGO_MS,
    NOW,
    PROBE_EVERY_MS,
    SECOND,
    Situation,
    controller_endpoint,
    log_with_snapshot,
)


@command("view")
def view_(made: Situation, words: Words) -> None:
    """view 1 leader 2 [epoch 5], view 1 none [epoch 9], view 1 foreign; [ago 4s] [since 60s]: what it answers.

    `at HOST:PORT [of 1]` is another address than its own, of no known node or of this one. `epoch none`: its answer has
    no epoch.
    """
    at_ms, since_ms = age(words, "ago", f"{ASKED_AGO_MS}ms"), age(words, "since", "60s")
    epoch, leader, where = words.option("epoch") or "7", words.number("leader"), words.option("at")
    foreign, none = words.flag("foreign"), words.flag("none")
    node = int(words.word()) if where is None else words.number("of")
    if leader is None and not foreign and not none:
        leader = made.leader or max(made.voters)
    address = where or str(made.listeners.get(node or 0, (controller_endpoint(node or 0),))[0])
    view = LeaderView(
        endpoint=address,
        node=None if node is None else NodeId(node),
        this_cluster=not foreign,
        leader_id=None if foreign or none or leader is None else NodeId(leader),
        leader_epoch=None if foreign or epoch == "none" else Epoch(int(epoch)),
        log=None
        if node is None or leader != node or foreign
        else made.leader_log or log_with_snapshot(NOW - 30 * 60 * SECOND),
    )
    _add_views(made, view, since_ms, at_ms)


def _add_views(made: Situation, view: LeaderView, since_ms: int, at_ms: int) -> None:
    times = [*range(at_ms, min(since_ms, at_ms) - 1, -PROBE_EVERY_MS)]
    made.views.setdefault(view.endpoint, []).extend((each, view) for each in times)


@command("unasked")
def unasked(made: Situation, words: Words) -> None:
    """unasked 1,2: these controllers were never asked who leads."""
    made.silent_views.update(numbers(words.word()))


@command("second-quorum")
def second_quorum(made: Situation, words: Words) -> None:
    """second-quorum 1 [epoch 2] [voters 1-new,2-new] [ago 4s]: it leads a quorum of its own with the same cluster id.

    `at HOST:PORT` is another address than its own, of no known node.
    """
    epoch, listed, where = words.number("epoch"), words.option("voters"), words.option("at")
    at_ms = age(words, "ago", f"{ASKED_AGO_MS}ms")
    node = int(words.word())
    keys = tuple(map(replica_key, (listed or f"{node}-new").split(",")))
    view = LeaderView(
        endpoint=where or str(controller_endpoint(node)),
        node=None if where else NodeId(node),
        this_cluster=True,
        leader_id=NodeId(node),
        leader_epoch=Epoch(2 if epoch is None else epoch),
        log=None,
        other_voters=keys,
    )
    _add_views(made, view, NOW - 60 * SECOND, at_ms)


@command("snapshot")
def snapshot(made: Situation, words: Words) -> None:
    """snapshot 4h [end 800], snapshot none [begins 4h] [old]: what the leader's newest snapshot reaches to.

    `begins`: the age of the log's first record. `old`: a Kafka that does not tell that there is none. `snapshot
    unreadable`: its header could not be read.
    """
    end, begins, old = words.number("end"), words.option("begins"), words.flag("old")
    text = words.word()
    made.leader_log = log_with_snapshot(
        None if text == "none" else 0 if text == "unreadable" else NOW - milliseconds(text),
        end=6_400 if end is None else end,
        tells_absence=not old,
        begins_ms=None if begins is None else NOW - milliseconds(begins),
    )
    if text == "unreadable" and (snapshot := made.leader_log.snapshot) is not None:
        made.leader_log = replace(made.leader_log, snapshot=replace(snapshot, last_contained_timestamp_ms=None))
