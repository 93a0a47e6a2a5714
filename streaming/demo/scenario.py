"""A scene: one way to hurt a quorum, what must be told of it, and how it is healed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deploy.lab.lab import Lab
from streaming.demo.job_process import Told, Watcher

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """What a scene acts on."""

    lab: Lab
    watcher: Watcher
    say: Say
    """Tells the person who looks on what is being done, as it is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """An alert that must come."""

    rule: str
    subject: str = ""
    """A part of the alert's subject."""
    severity: str = ""
    """The exact severity, or any when empty."""
    within_s: float = 90.0
    """After the hurt was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One scene, told the way an operator would meet it."""

    name: str
    """Three words for a table."""
    title: str
    story: str
    """What happens, in the words of the person who did it."""
    hurt: Callable[[Play], None]
    expected: tuple[Expectation, ...]
    mending: str
    """How it is mended, or why it cannot be."""
    mend: Callable[[Play, Sequence[Told]], None] | None
    """Given the alerts that came; None when it cannot be mended."""
    resolved_within_s: float = 180.0
    also: tuple[str, ...] = ()
    """Rules that may speak too: true consequences, not false alarms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one expected alert came."""

    scene: str
    expectation: Expectation
    told: Told | None
    after_hold_s: float | None
    """From first observation plus hold to the line in the file."""
    after_hurt_s: float | None
    """From the damage to the line in the file: the physical delay, the hold in it."""
    resolved_after_s: float | None
    """From the end of the mending to the line; None where nothing was to be resolved or it was not."""
    resolvable: bool

    @property
    def good(self) -> bool:
        """Told, and resolved where it was mended."""
        return self.told is not None and (not self.resolvable or self.resolved_after_s is not None)
