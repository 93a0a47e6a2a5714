"""Whether all outputs of a quorum agree: for tests of cases, scripts, the simulation, live scenarios and chaos."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connectors.observations.observation import Observation
from rules.alert import Alert
from rules.finding import Thresholds
from rules.formatting import iso
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from tests.agreement.claims import all_claims
from tests.agreement.contradictions import Contradiction, Kind, contradictions
from tests.agreement.outputs import Outputs, outputs_of
from tests.remedy_conflicts import conflicts


def disagreements(outputs: Outputs) -> list[Contradiction]:
    """Returns what cannot all be true or followed, each once; empty if all outputs agree."""
    remedies = [
        Contradiction(
            kind=Kind.REMEDIES, subject="remedies that cannot both be followed", quoted=(("reading both", sentence),)
        )
        for sentence in conflicts(outputs.reported)
    ]
    return [*contradictions(all_claims(outputs)), *remedies]


def assert_outputs_agree(
    quorum: Quorum, *, thresholds: Mapping[str, Thresholds] | None = None, firing: Iterable[Alert] = ()
) -> None:
    """Asserts that no two outputs of this quorum contradict each other.

    `firing`: the alerts that fire with their newest text.
    """
    found = disagreements(outputs_of(quorum, thresholds=thresholds, firing_alerts=firing))
    broken = [f"{one.kind}: {one}" for one in found]
    assert broken == [], "\n".join(broken)


@dataclass(kw_only=True)
class AgreementCount:
    """The contradictions that a run has met: a moment in each so many is checked, for its cost."""

    every: int
    offered: int = 0
    checked: int = 0
    kinds: Counter[Kind] = field(default_factory=Counter)
    """In how many checked moments each kind was found."""
    first: dict[Kind, str] = field(default_factory=dict)
    """The first contradiction of each kind."""

    def check(self, quorum: Quorum, *, thresholds: Mapping[str, Thresholds]) -> str | None:
        """Counts the contradictions of this moment if it is one to be checked; returns the first."""
        self.offered += 1
        if self.offered % self.every:
            return None
        self.checked += 1
        found = disagreements(outputs_of(quorum, thresholds=thresholds))
        self.kinds.update({one.kind for one in found})
        for one in found:
            self.first.setdefault(one.kind, str(one))
        return next((f"{one.kind}: {one}" for one in found), None)

    def check_rows(self, rows: Iterable[Observation], settings: ClusterSettings) -> list[str]:
        """Replays the rows that a gatherer recorded of a cluster; returns the contradictions."""
        monitor, found = ClusterMonitor(settings), list[str]()
        for row in rows:
            monitor.apply((row,))
            broken = self.check(monitor.machine.quorum(), thresholds=settings.thresholds)
            found += [f"{iso(Millis(row.observed_at_ms))}: {broken}"] if broken else []
        return found

    @property
    def report(self) -> str:
        """How many moments were checked, and in how many each kind was found."""
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.kinds.items())) or "none"
        return f"{self.checked} moments checked, contradictions: {kinds}"
