"""CampaignResult: what a half of a campaign found, as tables for people and as JSON."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.kill_campaign.delivery_check import ExecutedKill, SinkResult
from tests.kill_campaign.kill_point import FILE_POINTS, KILL_POINTS, Role

Report = Callable[[ExecutedKill], None]
"""Called after each kill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What was found of the transitions that must be there."""

    expected: int
    """Recorded: those of the uninterrupted run. Live: two for each injected condition."""
    found: int
    problems: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class CampaignResult:
    """One half: recorded or live."""

    mode: str
    kills: Sequence[ExecutedKill]
    not_reached: Sequence[str]
    """The points that were replaced by a random moment."""
    starts: int
    compared: Comparison
    sinks: Sequence[SinkResult]
    problems: Sequence[str]
    """One sentence for each broken promise; empty for a passed campaign."""
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Returns the result as plain values."""
        return asdict(self)

    def print(self, console: Console) -> None:
        """Prints the tables."""
        minutes = self.seconds / 60
        console.print(
            f"\n{self.mode}: {len(self.kills)} kills, {self.starts - 1} restarts of the job in {minutes:.0f} minutes; "
            f"transitions: {self.compared.found} of {self.compared.expected}"
        )
        _print_counts(console, "victim", Counter(kill.victim for kill in self.kills), [role.value for role in Role])
        at = Counter(kill.at.partition(" (")[0] for kill in self.kills)
        names = [*(point.name for point in KILL_POINTS), *(point.name for point in FILE_POINTS)]
        _print_counts(console, "killed at", at, [*names, "random moment"])
        self._print_sinks(console)
        for problem in self.problems:
            console.print(problem, style="red", markup=False)

    def _print_sinks(self, console: Console) -> None:
        table = Table(box=None, pad_edge=False)
        for column in ("sink", "transitions", "reported", "discarded", "lost", "doubled", "explained duplicates"):
            table.add_column(column, justify="left" if column == "sink" else "right")
        for sink in self.sinks:
            counts = (sink.expected, sink.found, sink.discarded, sink.lost, sink.doubled, len(sink.explained))
            table.add_row(sink.sink, *map(str, counts))
        console.print(table)
        for text in (text for sink in self.sinks for text in sink.explained):
            console.print(f"  {text}", markup=False)


def _print_counts(console: Console, title: str, counts: Counter[str], order: Sequence[str]) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column(title)
    table.add_column("kills", justify="right")
    for name in order:
        if counts[name]:
            table.add_row(name, str(counts[name]))
    console.print(table)
