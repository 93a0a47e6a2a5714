"""The newest rows of a relay's topic."""

from collections.abc import Mapping

from connectors.observations.observation import Observation
from connectors.relay.relay_message import Baseline
from connectors.relay.topic_tail import TopicTail, advanced
from connectors.settings.sections import TopicSection
from tests.unit.connectors.relay.topic_records import FIRST, message

PARTITION = 3


class Tail(TopicTail):
    """A topic that was read."""

    def __init__(self) -> None:
        super().__init__(TopicSection(bootstrap=("a:1",), topic="t"), {"prod": "id"})
        self._next = {PARTITION: 100}

    def ends(self) -> Mapping[int, int]:
        return dict(self._next)

    uncommitted_ends = ends

    def has(self, sequence: int, row: Observation, relay: str, baseline: Baseline = FIRST) -> None:
        """The topic has another row."""
        after = advanced(self.positions.get("prod"), message(sequence, row, relay, baseline), PARTITION)
        if after is not None:
            self.positions["prod"] = after
