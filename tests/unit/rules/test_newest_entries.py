"""What happened more often than a person reads: the evidence has the newest entries, and the first names."""

import pytest

from tests.situation.case import evaluated
from tests.situation.commands import situation


@pytest.mark.parametrize(
    ("rule", "command", "entries", "first"),
    [
        ("epoch-churn", f"elected {' '.join('12' * 10)} every 30s", "elections", "14:05:50"),
        ("broker-flapping", "fencings 101 20 every 30s", "fencings", "14:05:20"),
        ("node-restarting", "restarts 2 20 every 30s", "newest_starts", "14:05:50"),
    ],
)
def test_evidence_has_the_newest_sixteen_entries(rule: str, command: str, entries: str, first: str) -> None:
    (finding,) = (one for one in evaluated(situation(command)).findings if one.rule == rule)
    listed = finding.evidence[entries]
    assert isinstance(listed, list)
    assert len(listed) == 16
    oldest = listed[0]
    assert isinstance(oldest, dict)
    assert oldest["at"] == f"2026-09-21 {first} UTC"


def test_evidence_names_the_first_twenty_brokers_that_were_fenced_at_the_same_times() -> None:
    brokers = range(101, 126)
    quorum = situation(f"brokers {','.join(map(str, brokers))}", *(f"fencings {broker} 4" for broker in brokers))
    first, *_ = (one for one in evaluated(quorum).findings if one.rule == "broker-flapping")
    assert first.evidence["fenced_at_the_same_times"] == [*range(102, 122)]
