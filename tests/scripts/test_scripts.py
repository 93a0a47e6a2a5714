"""Scripts in plain text: what is done to a quorum, and what is told of it. The whole pure core in one go.

A script is blocks: comments (`#`) and commands, a line `----`, the expected output, an empty line. The commands
are documented beside their code below. `KRAFTWATCH_REWRITE_GOLDENS=1 pytest tests/scripts` writes the output into
the scripts: read each difference and understand it before you commit it.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from connectors.event import Audited, BrokenContract, ObservationFailed, Undecodable
from rules.alert import Alert
from rules.evaluate import evaluate, thresholds_for
from rules.lifecycle import Book
from rules.model.identifiers import Millis, Offset
from rules.model.monitoring import ObservationSource, Reason, Vantage
from streaming.replay.cluster_monitor import Row, Watch
from streaming.replay.machine import Machine
from tests.description import describe
from tests.scripts.script_quorum import SECOND, START, World

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
REWRITE = bool(os.environ.get("KRAFTWATCH_REWRITE_GOLDENS"))


@dataclass
class Play:
    """One script's world and the watch that sees it."""

    world: World = field(default_factory=World)
    watch: Watch | None = None
    vantage: Vantage = Vantage.INSIDE
    kept: list[Row] = field(default_factory=list)

    def run(self, line: str) -> Iterator[str]:
        """One command's output."""
        command, *arguments = line.split()
        steps: dict[str, Callable[..., Iterator[str] | None]] = {
            "voters": self.voters,
            "outside": self.outside,
            "static": self.static,
            "deny": self.deny,
            "tick": self.tick,
            "quorum": self.quorum,
            "findings": self.findings,
            "remedy": self.remedy,
            "unjudged": self.unjudged,
            "kill": lambda *nodes: _each(self.world.stop, nodes),
            "start": lambda *nodes: _each(self.world.start, nodes),
            "move": self.move,
            "wipe": lambda node, directory: self.world.wipe(int(node), directory),
            "observer": lambda node: self.world.observe(int(node)),
            "add-controller": lambda node: self.world.add(int(node)),
            "remove-controller": lambda node: self.world.remove(int(node)),
            "resign": self.world.resign,
            "cut-off": lambda node: self.world.cut_off(int(node)),
            "reconnect": lambda node: self.world.reconnect(int(node)),
            "upgrade": lambda version, *nodes: _each(lambda node: self.world.upgrade(node, int(version)), nodes),
            "finalize": lambda version: self.world.finalize(int(version)),
            "snapshots": self.snapshots,
            "transaction": self.world.transaction,
            "force-voters": lambda voters: self.world.force(_numbers(voters)),
            "names": self.names,
            "blind": self.blind,
            "topic": self.topic,
            "unclean": lambda partition, isr: self.change(partition, isr, recovering=True),
            "recovered": lambda partition, isr: self.change(partition, isr, recovering=False),
            "unfence": lambda node: self.world.unfence(int(node)),
            "away": self.away,
            "back": self.back,
            "compact": self.compact,
            "lose-metadata": self.lose_metadata,
            "undecodable": self.undecodable,
            "audit": self.audit,
            "restart": self.restart,
            "deliver-again": self.deliver_again,
        }
        yield from steps[command](*arguments) or ()

    def voters(self, voters: str, word: str = "brokers", brokers: str = "") -> None:
        """voters 1,2,3 brokers 101,102: a healthy quorum."""
        assert word == "brokers"
        self.world.begin(_numbers(voters), _numbers(brokers))

    def static(self) -> None:
        """static: kraft.version 0. Before `voters`."""
        self.world.static = True

    def deny(self, state: str = "log") -> None:
        """deny log, deny nothing: whether Fetch is allowed; DescribeQuorum is."""
        self.world.log_denied = state == "log"

    def outside(self) -> None:
        """outside: the monitor stands outside the cluster's network and name service. Before the first tick."""
        self.vantage = Vantage.OUTSIDE

    def tick(self, duration: str) -> Iterator[str]:
        """tick 30s: time passes; what is told meanwhile."""
        for _ in range(_seconds(duration)):
            rows = list(self.world.second())
            self.kept += rows
            yield from _told(self.watched().observe(rows))

    def quorum(self) -> Iterator[str]:
        """quorum: what is known, as `description.describe` says it."""
        yield from describe(self.watched().machine.quorum()).splitlines()

    def findings(self) -> Iterator[str]:
        """findings: the conditions that stand at this moment, held or not."""
        watch = self.watched()
        evaluation = evaluate(watch.machine.quorum(), watch.thresholds)
        for one in evaluation.findings:
            yield f"{one.severity} {one.rule} {one.subject}"

    def unjudged(self) -> Iterator[str]:
        """unjudged: what no rule vouches for at this moment, and why."""
        watch = self.watched()
        evaluation = evaluate(watch.machine.quorum(), watch.thresholds)
        for gap in evaluation.unknown:
            yield f"cannot tell {gap.rule}{f' {gap.subject}' if gap.subject else ''}: {gap.why}"
        for one in evaluation.not_applicable:
            yield f"not applicable {one.rule}: {one.why}"

    def remedy(self, *subject: str) -> Iterator[str]:
        """remedy voter 2: what to do, of each condition that stands about this subject."""
        watch = self.watched()
        for one in evaluate(watch.machine.quorum(), watch.thresholds).findings:
            if one.subject == " ".join(subject):
                yield from one.remedy

    def snapshots(self, state: str) -> None:
        """snapshots off, snapshots on: whether the leader takes one every hour."""
        self.world.snapshots = state == "on"

    def move(self, node: str, place: str) -> None:
        """move 2 HOST:PORT: stopped, its endpoint changed, started."""
        self.world.stop(int(node))
        host, _, port = place.partition(":")
        self.world.nodes[int(node)].host, self.world.nodes[int(node)].port = host, int(port)
        self.world.start(int(node))

    def names(self, state: str) -> None:
        """names gone, names back: the controllers' DNS names."""
        self.world.names_gone = state == "gone"

    def blind(self, reason: str) -> None:
        """blind timed-out, blind no: every look fails for this reason."""
        self.world.blind = None if reason == "no" else Reason(reason)

    def topic(self, name: str, *partitions: str) -> None:
        """topic orders 0:101,102 1:102,101: a topic with these replicas."""
        numbered = (each.partition(":") for each in partitions)
        self.world.topic(name, {int(number): tuple(_numbers(nodes)) for number, _, nodes in numbered})

    def change(self, partition: str, isr: str, *, recovering: bool) -> None:
        """unclean orders-0 102, recovered orders-0 101,102: an unclean election, and its end."""
        name, _, number = partition.rpartition("-")
        self.world.change(name, int(number), tuple(_numbers(isr)), recovering=recovering)

    def away(self) -> None:
        """away: nobody gathers from now on, and nothing is recorded."""
        self.world.away = True

    def back(self) -> Iterator[str]:
        """back: the gatherer is back and says that it was away."""
        self.world.away = False
        yield from self.said(
            ObservationFailed(
                sight=ObservationSource.LOG, endpoint="", reason=Reason.INTERRUPTED, detail="started again"
            )
        )

    def compact(self) -> None:
        """compact: the log the gatherer did not read yet is gone; its next read is answered by a snapshot."""
        self.world.compacted = True

    def lose_metadata(self, offset: str) -> Iterator[str]:
        """lose-metadata 50: the log is restored to offset 50, and the follower notices if it may read the log."""
        self.world.lose_metadata(int(offset))
        if self.world.log_denied:
            return
        detail = f"what was committed from offset {offset} on is gone"
        yield from self.said(
            ObservationFailed(
                sight=ObservationSource.LOG, endpoint="c1.test:9093", reason=Reason.METADATA_LOST, detail=detail
            )
        )

    def undecodable(self, offset: str, *words: str) -> Iterator[str]:
        """undecodable 140 WORDS: a record of the log does not decode, and why."""
        yield from self.said(Undecodable(offset=Offset(int(offset)), reason=" ".join(words), length=17))

    def audit(self, contract: str, *words: str) -> Iterator[str]:
        """audit alerts-resolve-what-fired WORDS: an audit found this contract broken, and where; clean: none."""
        last = self.world.sequence
        found = BrokenContract(
            contract=contract, promise="what it promises", grave=False, rows=1, example=" ".join(words), sequence=last
        )
        broken = () if contract == "clean" else (found,)
        yield from self.said(Audited(rows=last, first_sequence=0, last_sequence=last, broken=broken))

    def said(self, event: ObservationFailed | Undecodable | Audited) -> Iterator[str]:
        """One row of its own."""
        self.world.sequence += 1
        row = Row(self.world.sequence, Millis(self.world.now_ms), (event,))
        self.kept.append(row)
        yield from _told(self.watched().observe([row]))

    def restart(self, *bootstrap: str) -> None:
        """restart [HOST:PORT...]: the job is killed and comes back from its state, perhaps reconfigured."""
        blob, old = self.watched().to_bytes(), self.watched()
        self.world.asked = bootstrap
        self.watch = Watch.of(
            blob,
            cluster="test",
            cluster_id=None,
            bootstrap=self.world.bootstrap,
            vantage=self.vantage,
            thresholds=old.thresholds,
        )

    def deliver_again(self) -> Iterator[str]:
        """deliver-again: everything recorded so far is delivered once more."""
        yield from _told(self.watched().observe(self.kept))

    def watched(self) -> Watch:
        """The watch, which begins at its first use."""
        if self.watch is None:
            machine = Machine("test", None, self.world.bootstrap, self.vantage)
            self.watch = Watch(machine, Book(), thresholds_for({}))
        return self.watch


def _told(alerts: tuple[Alert, ...]) -> Iterator[str]:
    for alert in alerts:
        at = (alert.observed_at_ms - START) / SECOND
        began = (alert.started_at_ms - START) / SECOND
        yield f"{at:.0f}s {alert.state} {alert.severity} {alert.rule} {alert.subject} (since {began:.0f}s)"


def _each(what: Callable[[int], None], nodes: tuple[str, ...]) -> None:
    for node in nodes:
        what(int(node))


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def _seconds(text: str) -> int:
    return int(text[:-1]) * {"s": 1, "m": 60}[text[-1]]


def blocks(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Each block's lines above and below its `----`."""
    for block in text.strip("\n").split("\n\n"):
        above, _, below = block.partition("\n----")
        yield above.split("\n"), below.strip("\n").split("\n") if below.strip("\n") else []


def played(text: str) -> str:
    """The script with what really came out."""
    play, written = Play(), []
    for above, _ in blocks(text):
        commands = [line for line in above if line and not line.startswith("#")]
        output = [line for command in commands for line in play.run(command)]
        if not commands:
            written.append("\n".join(above))
            continue
        written.append("\n".join([*above, "----", *(output or ["nothing is told"])]))
    return "\n\n".join(written) + "\n"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script(script: Path) -> None:
    text = script.read_text()
    result = played(text)
    if REWRITE:
        script.write_text(result)
    assert result == text or REWRITE, f"{script.name}: KRAFTWATCH_REWRITE_GOLDENS=1 rewrites it; read the difference"


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 10
