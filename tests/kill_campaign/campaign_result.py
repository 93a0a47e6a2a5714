"""CampaignResult: what a campaign found, as tables for people and as JSON."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from tests.kill_campaign.delivery_check import ExecutedKill, SinkResult


@dataclass(frozen=True, kw_only=True)
class CampaignResult:
    """All that was found."""

    kills: Sequence[ExecutedKill]
    not_reached: Sequence[str]
    """The points that were replaced by a random moment."""
    starts: int
    expected: int
    """The transitions of the uninterrupted run."""
    found: int
    sinks: Sequence[SinkResult]
    problems: Sequence[str]
    """One sentence for each broken promise; empty for a passed campaign."""
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Returns the result as plain values."""
        return asdict(self)

    def print(self, console: Console) -> None:
        """Prints what a person reads."""
        console.print(
            f"\n{len(self.kills)} kills, {self.starts - 1} restarts of the job in {self.seconds / 60:.0f} "
            f"minutes; transitions: {self.found} of {self.expected}"
        )
        for title, counts in {
            "victims": Counter(kill.victim for kill in self.kills),
            "killed at": Counter(kill.at.partition(" (")[0] for kill in self.kills),
        }.items():
            console.print(f"{title}: {', '.join(f'{name} {count}' for name, count in sorted(counts.items()))}")
        for sink in self.sinks:
            console.print(
                f"{sink.sink}: {sink.found} of {sink.expected} transitions reported, {sink.discarded} discarded, "
                f"{sink.lost} lost, {sink.doubled} doubled, {len(sink.explained)} explained duplicates"
            )
            for text in sink.explained:
                console.print(f"  {text}", markup=False)
        for problem in self.problems:
            console.print(problem, style="red", markup=False)
