"""The steps by which the monitor observes again: what no case can show."""

from rules.model.monitoring import Reason
from rules.remedies.access_steps import ADVICE


def test_every_reason_has_a_remedy() -> None:
    assert set(ADVICE) == set(Reason)
