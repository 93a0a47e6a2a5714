"""A Check: one thing that was looked at, what was seen, and what to do about it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from rules.finding import Plain


class Verdict(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    """The job runs, and sees or tells less than it could."""
    FAILS = "fails"
    """The job does not run, or is blind."""

    @property
    def exit_code(self) -> int:
        """What a script is told."""
        return (Verdict.OK, Verdict.WARNING, Verdict.FAILS).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the table. No text holds a secret."""

    of: str
    """The cluster's name, or `machine`, or `telling`."""
    subject: str
    """The address, the sink, the folder."""
    name: str
    """What was looked at."""
    verdict: Verdict
    said: str
    mend: tuple[str, ...] = ()
    """What to do: sentences and commands, in order."""

    def plain(self) -> dict[str, Plain]:
        """As JSON says it."""
        return {
            "of": self.of,
            "subject": self.subject,
            "check": self.name,
            "verdict": self.verdict.value,
            "said": self.said,
            "mend": [*self.mend],
        }


def worst(checks: Iterable[Check]) -> Verdict:
    """The worst verdict of all; ok for none."""
    return max((check.verdict for check in checks), key=lambda verdict: verdict.exit_code, default=Verdict.OK)
