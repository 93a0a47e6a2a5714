"""Total outages of a quorum by their form: each is injected, changes its form, and ends.

Nothing is committed from the first step on until the outage ends. `tests.chaos.chaos_outages` judges what is said.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import TypeAlias

from rules.model.membership import majority
from tests.chaos import small_disk
from tests.chaos.chaos_lab import ChaosLab
from tests.chaos.packet_filter import MONITOR, BrokenPath, Cut
from tests.kafka.monitored_cluster import pause_nodes

Steps: TypeAlias = Callable[[ChaosLab], Iterator[None]]
_DENIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:nobody",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """One outage: `steps` yields after each form that it takes, and then ends it."""

    name: str
    steps: Steps


def _leader_first(lab: ChaosLab) -> Sequence[int]:
    return [lab.leader, *lab.followers]


def _majority(lab: ChaosLab) -> Sequence[int]:
    return _leader_first(lab)[: majority(len(lab.controllers))]


def _restart(lab: ChaosLab, *nodes: int) -> None:
    lab.kill(*(node for node in nodes if lab.node(node).running))
    lab.start(*nodes, wait=False)


def _killed(lab: ChaosLab, *, everyone: bool = False) -> Iterator[None]:
    nodes = lab.controllers if everyone else _majority(lab)
    lab.kill(*nodes)
    yield
    lab.start(*nodes, wait=False)


def _stopped(lab: ChaosLab) -> Iterator[None]:
    nodes = _majority(lab)
    lab.stop(*nodes)
    yield
    lab.start(*nodes, wait=False)


def _paused(lab: ChaosLab, *, then_killed: bool = False) -> Iterator[None]:
    nodes = _majority(lab)
    lab.pause(*nodes)
    yield
    if then_killed:
        lab.kill(*nodes)
        yield
        lab.start(*nodes, wait=False)
    else:
        lab.resume(*nodes)


def _followers_paused(lab: ChaosLab, *, leader_killed: bool = False) -> Iterator[None]:
    """The leader runs, and does not know yet that nobody follows it."""
    leader, followers = lab.leader, lab.followers
    lab.pause(*followers)
    yield
    if leader_killed:
        lab.kill(leader)
        yield
        lab.start(leader, wait=False)
    lab.resume(*followers)


def _elected_in_vain(lab: ChaosLab, *, killed: bool = False) -> Iterator[None]:
    """So many are killed that each of the others is needed, and one of them reaches nobody: it votes and follows none.

    Whoever it votes for is elected, commits nothing and resigns, again and again.
    """
    nodes = _leader_first(lab)
    needed = majority(len(nodes))
    down, left = nodes[:-needed], nodes[-needed:]
    # A leader that does not reach the others is followed; it must not be elected.
    cut = left[-1]
    paths = [BrokenPath(source=cut, target=node) for node in nodes if node != cut]
    lab.filter.change(*paths)
    lab.kill(*down)
    yield
    if killed:
        lab.kill(left[0])
        yield
        lab.start(left[0], wait=False)
        yield
    lab.filter.restore(*paths)
    lab.start(*down, wait=False)


def _cut_off(lab: ChaosLab, cut: Cut, *, then: Cut | None = None, requests: bool = True) -> Iterator[None]:
    """No controller reaches another one."""
    nodes = lab.controllers
    for form in (cut, *((then,) if then else ())):
        paths = [
            BrokenPath(source=one, target=other, cut=form, requests=requests)
            for one in nodes
            for other in nodes
            if one != other
        ]
        lab.filter.change(*paths)
        yield
        lab.filter.restore(*paths)


def _without_names(lab: ChaosLab, *, killed: bool = False) -> Iterator[None]:
    """All controllers are restarted, and their names do not resolve."""
    nodes = lab.controllers
    lab.kill(*nodes)
    lab.drop_names(nodes)
    lab.start(*nodes, wait=False)
    yield
    if killed:
        lab.kill(*nodes)
        yield
    lab.drop_names(())
    _restart(lab, *nodes)


def _denied(lab: ChaosLab, *, killed: bool = False) -> Iterator[None]:
    """Each controller that another one asks for a vote or a record ends, as the authorizers deny it."""
    nodes = lab.controllers
    lab.kill(*nodes)
    lab.own_properties = dict.fromkeys(nodes, _DENIES)
    lab.start(*nodes, wait=False)
    yield
    if killed:
        lab.kill(*(node for node in nodes if lab.node(node).running))
        yield
    lab.own_properties = {}
    _restart(lab, *nodes)


def _full_disks(lab: ChaosLab) -> Iterator[None]:
    disks = [disk for node in _majority(lab) if (disk := lab.node(node).disk) is not None]
    for disk in disks:
        small_disk.fill(disk)
    yield
    for disk in disks:
        small_disk.free(disk)
    _restart(lab, *lab.controllers)


@contextmanager
def _some_killed(lab: ChaosLab, nodes: Sequence[int]) -> Iterator[None]:
    lab.kill(*nodes)
    yield
    # Where others denied, all have been started.
    lab.start(*(node for node in nodes if not lab.node(node).running), wait=False)


@contextmanager
def _disks_replaced(lab: ChaosLab, nodes: Sequence[int]) -> Iterator[None]:
    """The disks of nodes are new, and the former ones are mounted again in the end."""
    kept = {node: lab.directory / f"former-disk-{node}" for node in nodes}
    lab.kill(*nodes)
    for node, former in kept.items():
        shutil.copytree(lab.node(node).data, former)
        lab.wipe_disk(node)
    lab.start(*nodes, wait=False)
    yield
    lab.kill(*(node for node in nodes if lab.node(node).running))
    for node, former in kept.items():
        shutil.rmtree(lab.node(node).data)
        shutil.copytree(former, lab.node(node).data)
        shutil.rmtree(former)
    lab.start(*nodes, wait=False)


@contextmanager
def _names_dropped(lab: ChaosLab, nodes: Sequence[int]) -> Iterator[None]:
    """Nodes are restarted while their names resolve nowhere."""
    lab.kill(*nodes)
    lab.drop_names(nodes)
    lab.start(*nodes, wait=False)
    yield
    lab.drop_names(())
    _restart(lab, *nodes)


@contextmanager
def _hosts_cut(lab: ChaosLab, nodes: Sequence[int]) -> Iterator[None]:
    """No packet arrives at the hosts of nodes, nor leaves them."""
    to_them = [BrokenPath(source=one, target=node) for node in nodes for one in (*lab.controllers, MONITOR)]
    paths = [*to_them, *(BrokenPath(source=node, target=one) for node in nodes for one in lab.controllers)]
    lab.filter.change(*paths)
    yield
    lab.filter.restore(*paths)


@contextmanager
def _denying(lab: ChaosLab, nodes: Sequence[int]) -> Iterator[None]:
    """Nodes are restarted, and deny what the others send; who is denied ends."""
    lab.kill(*nodes)
    lab.own_properties = dict.fromkeys(nodes, _DENIES)
    lab.start(*nodes, wait=False)
    yield
    lab.own_properties = {}
    _restart(lab, *lab.controllers)


_PARTS: dict[str, Callable[[ChaosLab, Sequence[int]], AbstractContextManager[None]]] = {
    "killed": _some_killed,
    "paused": lambda lab, nodes: pause_nodes(lab, *nodes),
    "given new disks": _disks_replaced,
    "without names": _names_dropped,
    "cut off": _hosts_cut,
    "denying": _denying,
}
"""What happens to some of the controllers."""


def _two_parts(lab: ChaosLab, first: str, second: str) -> Iterator[None]:
    """Nobody leads because of two faults, each of too few controllers."""
    nodes = _majority(lab)
    half = len(nodes) // 2
    with ExitStack() as stack:
        stack.enter_context(_PARTS[first](lab, nodes[:half]))
        stack.enter_context(_PARTS[second](lab, nodes[half:]))
        yield


_FORMS: tuple[tuple[str, Steps], ...] = (
    ("a majority is killed", _killed),
    ("all are killed", partial(_killed, everyone=True)),
    ("a majority is stopped", _stopped),
    ("a majority is paused", _paused),
    ("a majority is paused, then killed", partial(_paused, then_killed=True)),
    ("the followers are paused", _followers_paused),
    ("the followers are paused, then the leader is killed", partial(_followers_paused, leader_killed=True)),
    ("leaders are elected in vain", _elected_in_vain),
    ("leaders are elected in vain, then one of them is killed", partial(_elected_in_vain, killed=True)),
    ("no packet arrives", partial(_cut_off, cut=Cut.DROP)),
    ("all connections are refused", partial(_cut_off, cut=Cut.RESET)),
    ("no packet arrives, then connections are refused", partial(_cut_off, cut=Cut.DROP, then=Cut.RESET)),
    ("answers do not arrive", partial(_cut_off, cut=Cut.DROP, requests=False)),
    ("no name resolves", _without_names),
    ("no name resolves, then all are killed", partial(_without_names, killed=True)),
    ("each denies the others", _denied),
    ("each denies the others, then all are killed", partial(_denied, killed=True)),
    ("the disks of a majority are full", _full_disks),
    *(
        (f"some are {first}, and others {second}", partial(_two_parts, first=first, second=second))
        for first, second in combinations(_PARTS, 2)
    ),
)
OUTAGES = tuple(Outage(name=name, steps=steps) for name, steps in _FORMS)
