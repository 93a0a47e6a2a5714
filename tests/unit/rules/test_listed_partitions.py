"""The evidence of a rule lists at most 20 partitions of a topic."""

import pytest

from tests.situation.case import evaluated
from tests.situation.commands import situation


@pytest.mark.parametrize(
    ("rule", "commands"),
    [
        ("partition-stuck-recovering", ("unclean orders 0-24",)),
        ("recovery-invariant-broken", ("unclean orders 0-24", "change orders 0-24 since 30s isr 102,101")),
    ],
)
@pytest.mark.parametrize(("partitions", "listed", "further"), [("0-19", 20, 0), ("0-24", 20, 5)])
def test_partitions_beyond_twenty_are_counted(
    rule: str, commands: tuple[str, ...], partitions: str, listed: int, further: int
) -> None:
    quorum = situation(*(command.replace("0-24", partitions) for command in commands))
    (finding,) = [one for one in evaluated(quorum).findings if one.rule == rule]

    assert len(finding.evidence["partitions"]) == listed  # type: ignore[arg-type]
    assert finding.evidence["partitions_not_listed"] == further
