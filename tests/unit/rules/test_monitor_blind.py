"""monitor-blind: what no case can show."""

from rules.checks.monitor_blind import ADVICE
from rules.model.monitoring import Reason


def test_every_reason_has_a_remedy() -> None:
    assert set(ADVICE) == set(Reason)
