"""The faults of the monitored cluster: its controllers, their disks, names and paths, and its brokers."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Thread

from deploy.lab import LabError
from streaming.demo.fault import DISK_REPLACED, ELECTED_UNCLEANLY, NAMES_DROPPED, Fault
from tests import faults
from tests.chaos.chaos_fault import (
    RECONNECT_S,
    ChaosContext,
    ChaosFault,
    Needs,
    NotNowError,
    Step,
    brokers,
    controllers,
    facts_while,
    lasting,
    only,
)
from tests.chaos.chaos_lab import ChaosLab
from tests.chaos.facts import Kind
from tests.chaos.packet_filter import MONITOR, BrokenPath, Cut

_SLOW = """
import os, signal, sys, time
while True:
    for number, seconds in ((signal.SIGSTOP, 0.35), (signal.SIGCONT, 0.15)):
        os.kill(int(sys.argv[1]), number)
        time.sleep(seconds)
"""


def _leader(context: ChaosContext) -> Mapping[str, Sequence[int]]:
    leader = context.leader()
    return {"controller": () if leader is None else (leader,)}


def _leader_alone(context: ChaosContext) -> Mapping[str, Sequence[int]]:
    """The leader, while nothing is done to brokers, which it could not unfence, nor to the voters."""
    return {**_leader(context), "every broker": (0,), "membership": (0,)}


def _two_directories(context: ChaosContext) -> Mapping[str, Sequence[int]]:
    """The broker with two log directories."""
    return {"broker": context.lab.brokers[:1]}


def _members(context: ChaosContext) -> Mapping[str, Sequence[int]]:
    """A controller, and the right to change the voters: one change at a time."""
    return {"controller": context.lab.controllers, "membership": (0,)}


def _resume_controller(context: ChaosContext, node: int) -> None:
    context.lab.resume(node)
    context.uncertain_for(node, RECONNECT_S)


def _pause_majority(context: ChaosContext, _: int) -> Iterator[None]:
    """Those that are left elect no leader."""
    controllers = context.lab.controllers
    paused = context.random.sample(controllers, len(controllers) // 2 + 1)
    with facts_while(context, *(context.facts.begin(Kind.SILENT, each) for each in paused)):
        faults.MAJORITY_PAUSED.inject(context.lab, paused)
        yield
        for each in paused:
            _resume_controller(context, each)


def _slow_controller(context: ChaosContext, node: int) -> Iterator[None]:
    """The controller runs for 150 ms and is stopped for 350 ms, again and again."""
    pid = context.lab.node(node).pid
    with facts_while(context, context.facts.begin(Kind.UNCERTAIN, node)):
        slowing = subprocess.Popen([sys.executable, "-S", "-c", _SLOW, str(pid)])
        yield
        slowing.kill()
        slowing.wait()
        _resume_controller(context, node)


def _broken(context: ChaosContext, kind: Kind, paths: Sequence[BrokenPath], *nodes: int) -> Iterator[None]:
    """Something is so of nodes while these paths are broken; who was cut off from others connects again."""
    with facts_while(context, *(context.facts.begin(kind, each) for each in nodes)):
        context.lab.filter.change(*paths)
        yield
        context.lab.filter.restore(*paths)
        for each in nodes if kind in (Kind.SILENT, Kind.UNCERTAIN) else ():
            context.uncertain_for(each, RECONNECT_S)


def _cut_off_controller(context: ChaosContext, node: int) -> Iterator[None]:
    """The controller reaches nobody, and nobody but the monitor reaches it."""
    others = [each for each in (*context.lab.controllers, *context.lab.brokers) if each != node]
    cut = context.random.choice((*Cut,))
    paths = [
        *(BrokenPath(source=each, target=node, cut=cut) for each in others),
        *(BrokenPath(source=node, target=each, cut=cut) for each in context.lab.controllers if each != node),
    ]
    return _broken(context, Kind.SILENT, paths, node)


def _cut_off_one_way(context: ChaosContext, node: int) -> Iterator[None]:
    """Requests of a controller arrive, answers do not; or nobody reaches it, and it reaches everybody."""
    others = [each for each in context.lab.controllers if each != node]
    if context.random.random() < 0.5:
        paths = [BrokenPath(source=node, target=each, requests=False) for each in others]
    else:
        paths = [BrokenPath(source=each, target=node) for each in others]
    return _broken(context, Kind.UNCERTAIN, paths, node)


def _cut_monitor_from_one(context: ChaosContext, node: int) -> Iterator[None]:
    path = BrokenPath(source=MONITOR, target=node, cut=context.random.choice((*Cut,)))
    return _broken(context, Kind.NOT_OBSERVED, [path], node)


def _cut_monitor_from_all(context: ChaosContext, _: int) -> Iterator[None]:
    """Packets vanish: if all controllers refused connections, nobody could tell it from controllers that are down."""
    controllers = context.lab.controllers
    return _broken(
        context, Kind.NOT_OBSERVED, [BrokenPath(source=MONITOR, target=each) for each in controllers], *controllers
    )


def _serve_no_new_connection(context: ChaosContext, node: int) -> Iterator[None]:
    """The controller fetches by the connections that it has; nobody gets a new one."""
    others = [each for each in (*context.lab.controllers, *context.lab.brokers, MONITOR) if each != node]
    paths = [BrokenPath(source=each, target=node, new_only=True) for each in others]
    return _broken(context, Kind.UNSERVED, paths, node)


def _hang_event_thread(context: ChaosContext, node: int) -> Iterator[None]:
    """A policy for new topics hangs in the active controller; Raft goes on. Brokers are not unfenced meanwhile."""
    lab, topic = context.lab, f"hangs-{len(context.facts.facts)}"
    uncertain = [context.facts.begin(Kind.BROKER_UNCERTAIN, each) for each in lab.brokers]
    with facts_while(context, *uncertain):
        lab.waits(node).touch()
        creating = Thread(target=_create, args=(lab, topic), daemon=True)
        creating.start()
        stuck = context.facts.begin(Kind.STUCK, node)
        yield
        lab.waits(node).unlink()
        context.facts.end(stuck)
        for broker in lab.brokers:
            yield from _until_unfenced(context, broker)
        yield from _until_done(context, lambda: _delete(lab, topic))


def _delete(lab: ChaosLab, topic: str) -> None:
    at = ["--bootstrap-server", ",".join(lab.broker_bootstrap)]
    lab.jvm.tool("kafka-topics", [*at, "--delete", "--if-exists", "--topic", topic])


def _create(lab: ChaosLab, topic: str) -> None:
    with suppress(LabError):
        lab.create_topic(topic)


def _restart_again_and_again(context: ChaosContext, node: int) -> Iterator[None]:
    """The controller is killed as soon as it has started, three times."""
    lab = context.lab
    with facts_while(context, context.facts.begin(Kind.UNCERTAIN, node)):
        for _ in range(3):
            yield
            lab.kill(node)
            context.restart_controller(node)
            for _ in range(15):
                yield
                if lab.node(node).accepts_requests(lab.connect):
                    break
            yield  # It registers.
    context.facts.instant(Kind.RESTARTED_OFTEN, node, lasts_s=60.0)


def _lose_majority_of_disks(context: ChaosContext, _: int) -> Iterator[None]:
    """A majority of the controllers start with new disks, which hold no vote; later they get their own back."""
    lab = context.lab
    chosen = context.random.sample(lab.controllers, len(lab.controllers) // 2 + 1)
    with facts_while(context, *(context.facts.begin(Kind.NEW_DISK, each) for each in chosen)):
        lab.kill(*chosen)
        for each in chosen:
            shutil.copytree(lab.node(each).data, context.folder / f"lost-{each}")
            lab.wipe_disk(each)
            context.restart_controller(each)
        yield
        # A controller without a vote may have ended: the others take it for the voter that it was.
        lab.kill(*(each for each in chosen if lab.node(each).running))
        for each in chosen:
            shutil.rmtree(lab.node(each).data)
            shutil.move(context.folder / f"lost-{each}", lab.node(each).data)
            context.restart_controller(each)


def _replace_disk(context: ChaosContext, node: int) -> Iterator[None]:
    """The controller starts with an empty disk; at the end its old voter is removed, and it is added."""
    if context.require_leader() == node:
        raise NotNowError("the leader's disk is replaced elsewhere")
    lab = context.lab
    before = lab.node(node).directory_id
    new_disk = context.facts.begin(Kind.NEW_DISK, node)
    lab.kill(node)
    lab.wipe_disk(node)
    context.restart_controller(node)
    yield
    yield from _until_done(context, lambda: lab.remove_controller(node, before))
    yield from _until_done(context, lambda: lab.add_controller(node))
    context.facts.end(new_disk)


def _remove_voter(context: ChaosContext, node: int) -> Iterator[None]:
    """A controller is removed from the voters, and added again."""
    if context.require_leader() == node:
        raise NotNowError("another controller is removed")
    changing = context.facts.begin(Kind.UNCERTAIN, node)
    yield from _until_done(context, lambda: context.lab.remove_controller(node))
    removed = context.facts.begin(Kind.REMOVED, node)
    context.facts.end(changing)
    yield
    yield from _until_done(context, lambda: context.lab.add_controller(node))
    context.facts.end(removed)


def _until_done(context: ChaosContext, change: Callable[[], None]) -> Iterator[None]:
    """Tries a change of the voters again and again; it needs a leader that can commit."""
    while True:
        try:
            context.require_leader()
            change()
        except (LabError, NotNowError):
            yield
        else:
            return


def _restore_log(context: ChaosContext, node: int) -> Iterator[None]:
    """A follower's log directory is copied while it is stopped; later the copy replaces the newer one."""
    if context.require_leader() == node:
        raise NotNowError("a follower's disk is restored")
    lab, copy = context.lab, context.folder / f"copy-{node}"
    silent = context.facts.begin(Kind.SILENT, node)
    lab.kill(node)
    shutil.copytree(lab.node(node).data, copy)
    context.restart_controller(node)
    context.facts.end(silent)
    yield
    old, silent = context.facts.begin(Kind.OLD_DISK, node), context.facts.begin(Kind.SILENT, node)
    lab.kill(node)
    shutil.rmtree(lab.node(node).data)
    shutil.move(copy, lab.node(node).data)
    context.restart_controller(node)
    context.facts.end(old, silent)


def _move_endpoint(context: ChaosContext, node: int) -> Iterator[None]:
    """A controller is started at another port, which it sends to the leader.

    One controller stays where it was: a broker that runs finds the quorum by the bootstrap servers of its start.
    """
    context.require_leader()
    if {str(node), *(each.subject for each in context.facts.of(Kind.MOVED))} >= {*map(str, context.lab.controllers)}:
        raise NotNowError("no controller would be where the brokers look for it")
    silent = context.facts.begin(Kind.SILENT, node)
    moved = context.facts.begin(Kind.MOVED, node)
    context.lab.kill(node)
    context.lab.move_endpoint(node)
    context.restart_controller(node)
    context.facts.end(silent)
    yield
    yield from _until_done(context, lambda: _require_new_endpoint(context, node))
    context.facts.end(moved)


def _require_new_endpoint(context: ChaosContext, node: int) -> None:
    state = context.lab.state
    if state is None or context.lab.node(node).endpoint not in state.endpoints.get(node, ()):
        raise NotNowError("the voter has its old endpoint")


def _drop_names(context: ChaosContext, _: int) -> Iterator[None]:
    """The name service loses the controllers' names."""
    lab = context.lab
    with facts_while(context, *(context.facts.begin(Kind.NAMELESS, each) for each in lab.controllers)):
        lab.drop_names(lab.controllers)
        yield
        lab.drop_names(())


def _start_broker(context: ChaosContext, node: int) -> Iterator[None]:
    context.lab.start(node, wait=False)
    context.facts.instant(Kind.STARTED, node)
    yield from _until_unfenced(context, node)


def _resume_broker(context: ChaosContext, node: int) -> Iterator[None]:
    context.lab.resume(node)
    yield from _until_unfenced(context, node)


def _cut_off_broker(context: ChaosContext, node: int) -> Iterator[None]:
    paths = [
        BrokenPath(source=node, target=each, cut=context.random.choice((*Cut,))) for each in context.lab.controllers
    ]
    with facts_while(context, context.facts.begin(Kind.BROKER_SILENT, node)):
        context.lab.filter.change(*paths)
        yield
        context.lab.filter.restore(*paths)
        yield from _until_unfenced(context, node)


def _fail_log_directory(context: ChaosContext, node: int) -> Iterator[None]:
    """One of the broker's two log directories is a file, with the only replica of partitions; later it is back."""
    context.require_leader()
    lab, topic = context.lab, f"single-{len(context.facts.facts)}"
    second = lab.second_directory
    assert second is not None
    try:
        # In both directories alternately.
        lab.create_topic(topic, assignment=[[node]] * 4)
        lab.produce(topic, 40)
    except LabError:
        raise NotNowError("the partitions are not used yet") from None
    kept = second.data.with_name("kept")
    with facts_while(context, context.facts.begin(Kind.DIRECTORY_LOST, node)):
        second.data.rename(kept)
        second.data.touch()
        yield
        uncertain = context.facts.begin(Kind.BROKER_UNCERTAIN, node)
        lab.kill(node)
        second.data.unlink()
        kept.rename(second.data)
        yield from _start_broker(context, node)
        context.facts.end(uncertain)
        # With one replica they stay RECOVERING.
        yield from _until_done(context, lambda: _delete(lab, topic))


def _until_unfenced(context: ChaosContext, node: int) -> Iterator[None]:
    """A leader unfences it: the time without one does not count."""
    waited = 0
    while waited < 60:
        with suppress(LabError, OSError):
            if context.lab.node(node).accepts_requests(context.lab.connect):
                return
        waited += context.leader() is not None
        yield
    raise LabError(f"broker {node} stays fenced")


def _elect_uncleanly(context: ChaosContext, _: int) -> Iterator[None]:
    """A partition of a new topic stays RECOVERING until the broker with the lost records is started."""
    context.require_leader()
    lab, topic = context.lab, f"topic-{len(context.facts.facts)}"
    with facts_while(context, *(context.facts.begin(Kind.BROKER_UNCERTAIN, each) for each in lab.brokers)):
        try:
            unclean = lab.leave_partitions_recovering(topic)
        except LabError:
            lab.start(*(each for each in lab.brokers if not lab.node(each).running), wait=False)
            yield from _until_unfenced(context, lab.brokers[0])
            return
    silent = context.facts.begin(Kind.BROKER_SILENT, unclean.killed_broker)
    with facts_while(context, context.facts.begin(Kind.RECOVERING, topic), silent):
        yield
        lab.start(unclean.killed_broker, wait=False)
        yield from _until_unfenced(context, unclean.killed_broker)


def _down(fault: Fault, needs: Needs, end: Step, *, kind: Kind = Kind.SILENT, weight: int = 2) -> ChaosFault:
    """Returns a fault of one node that does nothing until `end`."""
    run = lasting(kind, lambda context, node: fault.inject(context.lab, [node]), end)
    return ChaosFault(name=fault.name, needs=needs, run=run, weight=weight)


CLUSTER_FAULTS = (
    _down(faults.CONTROLLER_KILLED, controllers, ChaosContext.restart_controller, weight=4),
    _down(faults.LEADER_KILLED, _leader, ChaosContext.restart_controller, weight=4),
    _down(faults.CONTROLLER_STOPPED, controllers, ChaosContext.restart_controller),
    _down(faults.CONTROLLER_PAUSED, controllers, _resume_controller, weight=4),
    ChaosFault(name=faults.MAJORITY_PAUSED.name, needs=only("every controller"), run=_pause_majority, weight=1),
    ChaosFault(name="a controller is slow", needs=controllers, run=_slow_controller),
    ChaosFault(name="a controller is cut off", needs=controllers, run=_cut_off_controller, weight=4),
    ChaosFault(name="a controller is cut off in one direction", needs=controllers, run=_cut_off_one_way),
    ChaosFault(name="the monitor is cut off from a controller", needs=controllers, run=_cut_monitor_from_one),
    ChaosFault(name="the monitor is cut off", needs=only("monitor"), run=_cut_monitor_from_all, weight=1),
    ChaosFault(name="a controller serves no new connection", needs=controllers, run=_serve_no_new_connection),
    ChaosFault(
        name="the event thread of the active controller hangs",
        needs=_leader_alone,
        run=_hang_event_thread,
        longest_s=80,
    ),
    ChaosFault(name="a controller restarts again and again", needs=controllers, run=_restart_again_and_again),
    ChaosFault(
        name="a majority of the disks is replaced",
        needs=only("every controller"),
        run=_lose_majority_of_disks,
        weight=1,
    ),
    ChaosFault(name=DISK_REPLACED.name, needs=_members, run=_replace_disk),
    ChaosFault(name="a voter is removed and added", needs=_members, run=_remove_voter),
    ChaosFault(name="an old copy of a disk is restored", needs=_members, run=_restore_log),
    ChaosFault(name=faults.ENDPOINT_MOVED.name, needs=_members, run=_move_endpoint),
    ChaosFault(name=NAMES_DROPPED.name, needs=only("names"), run=_drop_names, weight=1),
    _down(faults.BROKER_KILLED, brokers, _start_broker, kind=Kind.BROKER_SILENT),
    _down(faults.BROKER_PAUSED, brokers, _resume_broker, kind=Kind.BROKER_SILENT),
    ChaosFault(name="a broker is cut off", needs=brokers, run=_cut_off_broker),
    ChaosFault(name="a broker's log directory fails", needs=_two_directories, run=_fail_log_directory),
    ChaosFault(name=ELECTED_UNCLEANLY.name, needs=only("every broker"), run=_elect_uncleanly),
)
