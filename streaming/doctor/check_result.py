"""The result of one check, with its remedy."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from rules.finding import Plain


class CheckStatus(StrEnum):
    """How severe the result is."""

    OK = "ok"
    WARNING = "warning"
    """The job runs, but observes or sends less than it could, or exposes more than it should."""
    FAILS = "fails"
    """The job does not start, observes nothing, or cannot reach a sink."""

    @property
    def exit_code(self) -> int:
        """0 ok, 1 warning, 2 fails."""
        return (CheckStatus.OK, CheckStatus.WARNING, CheckStatus.FAILS).index(self)


OK, WARNING, FAILS = CheckStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One line of the table. No text contains a secret."""

    scope: str
    """The cluster's name, or `machine`, or `sinks`."""
    subject: str
    """The address, the request, the sink or the folder."""
    name: str
    """What was checked, such as `login`."""
    status: CheckStatus
    message: str
    remedy: tuple[str, ...] = ()
    """Sentences and commands, in order."""

    def plain(self) -> dict[str, Plain]:
        """Returns the JSON object."""
        return {
            "of": self.scope,
            "subject": self.subject,
            "check": self.name,
            "verdict": self.status.value,
            "said": self.message,
            "remedy": [*self.remedy],
        }


def check_result(scope: str, subject: str, name: str, status: CheckStatus, message: str, *remedy: str) -> CheckResult:
    """Returns the result of a check."""
    return CheckResult(scope=scope, subject=subject, name=name, status=status, message=message, remedy=remedy)


def worst_status(results: Iterable[CheckResult]) -> CheckStatus:
    """Returns the worst status; OK if there are no results."""
    return max((result.status for result in results), key=lambda status: status.exit_code, default=CheckStatus.OK)
