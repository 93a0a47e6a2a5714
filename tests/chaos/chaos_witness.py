"""ChaosWitness: faults between controllers, mostly hidden from the monitor, and the rows of the controllers' hosts.

A round injects a fault, dials from the host of each controller (`kraftwatch witness`), asks about each controller with
these rows, and does one of the things that were asked about. A positive answer must be right. Before anything is lost
the rows must show who does not reach whom and at which step, and `peer-unreachable` must name it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from connectors.witness.dial import Attempts, witness
from deploy.lab.addresses import LOOPBACK
from rules.evaluate import evaluate
from rules.facts.quorum import Facts
from rules.model.quorum import Quorum
from rules.model.witness import DialStep, Reached, WitnessRow
from tests.chaos.chaos_fault import ChaosFault, controllers
from tests.chaos.chaos_forecast import ChaosForecast
from tests.chaos.chaos_lab import ChaosLab
from tests.chaos.packet_filter import BrokenPath, Cut, address
from tests.eventually import eventually
from tests.peer_faults import PEER_FAULTS, PeerFault, PeerLab
from tests.simulation.forecast import LOSE, Answer

Unreached = Mapping[tuple[int, int], DialStep]
"""Who does not reach whom, and at which step."""
_DIAL_S = 2.0
_SHOWN_S = 90.0
_COUNTS_S = 10.0


class WitnessLab(PeerLab, ChaosLab):
    """A quorum in which each of the faults is possible."""


@dataclass(kw_only=True)
class ChaosWitness(ChaosForecast):
    """A run with one quorum of three or five controllers, by a seed."""

    kinds: ClassVar[Sequence[Mapping[str, Any]]] = ({},)
    healthy_polls: ClassVar[int] = 1
    over_share: ClassVar[float] = 0.0
    negative_share: ClassVar[float] = 0.5
    survives_s: ClassVar[float] = 30.0
    lab: ClassVar[Callable[..., ChaosLab]] = WitnessLab
    words: tuple[str, ...] = ()
    """A fault's name contains one of them, if there are any."""
    unreached: Unreached = field(default_factory=dict)
    """What the fault that is there does."""
    rows: Sequence[WitnessRow] = ()
    """Of all controllers' hosts, since the fault began or ended."""

    def __post_init__(self) -> None:
        """Takes the faults of this module."""
        found: list[ChaosFault] = [
            ChaosFault(name=one.name, needs=controllers, run=partial(self._run, partial(self._changed, one)))
            for one in PEER_FAULTS
        ]
        others: Mapping[str, Begin] = {
            "one other controller does not reach it: cut": self._cut,
            "one other controller does not resolve its name": self._drop_name,
            "one other controller has the address of another one for it": self._mislead,
        }
        found += [
            ChaosFault(name=name, needs=controllers, run=partial(self._run, begin)) for name, begin in others.items()
        ]
        self.faults = [one for one in found if not self.words or any(word in one.name for word in self.words)]

    @staticmethod
    def _login(lab: ChaosLab) -> Mapping[str, Any]:
        assert isinstance(lab, WitnessLab)
        return lab.monitor_options

    def as_asked(self, seen: Quorum) -> Quorum:
        return replace(seen, witnesses=tuple(self.rows))

    def _dial(self) -> None:
        """Dials from the host of each controller, until the rows show the fault that is there, or that none is."""
        lab = self.context.lab

        def is_shown() -> None:
            files = [node.properties_file for node in lab.layout.controllers if node.running]
            with ThreadPoolExecutor() as threads:
                self.rows = [*threads.map(_row, files)]
            dials = [(row.node, peer) for row in self.rows for peer in row.peers]
            seen = {(by, peer.node): peer.step for by, peer in dials if peer.reached is Reached.NO}
            assert seen == self.unreached, self.rows
            self.monitor.wait_for_quorum(counts, within_s=_COUNTS_S)

        def counts(seen: Quorum) -> bool:
            shown = Facts(self.as_asked(seen)).witnesses
            pairs = {(by, of) for by, found in shown.unreached.items() for of in found}
            return pairs == {*self.unreached} and bool(pairs or shown.seen_from)

        eventually(is_shown, within_s=_SHOWN_S)

    def _ask(self, state: str) -> Sequence[Answer]:
        if not self.rows:
            self._dial()
        facts = Facts(self.as_asked(self.monitor.machine.quorum()))
        found = evaluate(facts, self.monitor.monitor.settings.thresholds)
        named = {one.subject.node for one in found.findings if one.rule == "peer-unreachable"}
        if named != {of for _, of in self.unreached}:
            self.problems.append(f"peer-unreachable names {named}, and who is not reached is in {self.unreached}")
        return super()._ask(state)

    def _await_all_voters(self) -> None:
        super()._await_all_voters()
        self._dial()

    def is_proved(self, answer: Answer) -> bool:
        """That no leader is elected is proved by the rows. A restart may do no harm, by chance."""
        return answer.question == LOSE

    def _has_unused_broken_path(self, leader: int | None, lost: set[int]) -> bool:
        """No path is hidden from the rows."""
        return False

    # ---- the faults

    def _run(self, begin: "Begin", context: Any, node: int) -> Iterator[None]:
        random: Random = context.random
        lab = context.lab
        by = random.choice([one for one in lab.controllers if one != node])
        with ExitStack() as ends:
            self.unreached, self.rows = begin(lab, ends, random, by, node), ()
            yield
        self.unreached, self.rows = {}, ()

    def _changed(
        self, fault: PeerFault, lab: WitnessLab, ends: ExitStack, random: Random, by: int, node: int
    ) -> Unreached:
        others = [one for one in lab.controllers if one not in (by, node)]
        # Of five, two have it, or one: of what one loss then leaves, there is no majority that reaches each other.
        changed = [node, *random.sample(others, 0 if fault.by else random.randint(0, len(lab.controllers) // 2 - 1))]
        changes = {**{one: fault.changed(lab) for one in changed}, **({by: fault.by(lab)} if fault.by else {})}

        def restart() -> None:
            for each in changes:
                if lab.node(each).running:
                    lab.kill(each)
                lab.start(each, wait=False)

        def end() -> None:
            for each in changes:
                del lab.own_properties[each]
            restart()

        lab.own_properties |= changes
        ends.callback(end)
        restart()
        return dict.fromkeys(fault.unreached(lab.controllers, changed, by), fault.step)

    def _cut(self, lab: WitnessLab, ends: ExitStack, random: Random, by: int, node: int) -> Unreached:
        path = BrokenPath(source=by, target=node, cut=random.choice((*Cut,)))
        lab.filter.change(path)
        ends.callback(lab.filter.restore, path)
        return {(by, node): DialStep.CONNECTION}

    def _drop_name(self, lab: WitnessLab, ends: ExitStack, _random: Random, by: int, node: int) -> Unreached:
        def end() -> None:
            lab.unknown_names.discard((by, node))
            lab.write_hosts()

        lab.unknown_names.add((by, node))
        lab.write_hosts()
        ends.callback(end)
        return {(by, node): DialStep.NAME}

    def _mislead(self, lab: WitnessLab, ends: ExitStack, random: Random, by: int, node: int) -> Unreached:
        third = random.choice([one for one in lab.controllers if one not in (by, node)])
        port, to = lab.node(node).controller_port, lab.node(third).controller_port
        assert port is not None
        place = address(by, node)

        def end() -> None:
            del lab.filter.redirects[place, port]
            lab.filter.change()

        lab.filter.redirects[place, port] = f"{LOOPBACK}:{to}"
        lab.filter.change()
        ends.callback(end)
        return {(by, node): DialStep.NODE}


def _row(properties: Path) -> WitnessRow:
    return witness(properties, timeout_s=_DIAL_S, attempts=Attempts())


Begin = Callable[[WitnessLab, ExitStack, Random, int, int], Unreached]
"""Begins a fault of a controller that one other one does not reach, or none; what ends it is in the stack."""
