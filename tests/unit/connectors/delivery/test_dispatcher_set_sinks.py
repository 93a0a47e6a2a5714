"""Sinks come and go while the job runs: what was told is not told again, what is new hears what stands."""

from collections.abc import Sequence
from pathlib import Path
from threading import Event

import pytest

from connectors.delivery.dispatcher import Delivery
from connectors.delivery.ledger import Ledger
from connectors.errors import UsageError
from connectors.sinks.sink import Delivered, Outcome
from rules.model.identifiers import Millis
from rules.notifications.notification import Notice
from tests.eventually import eventually
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, Recording, alert

FIRST, SECOND = alert("one"), alert("two")


class Slow(Recording):
    """Takes what it is told, and answers once it is let."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.let = Event()

    def tell(self, notices: Sequence[Notice], *, sent_at_ms: Millis, deadline_s: float) -> Sequence[Outcome]:
        self.told += [each for notice in notices for each in notice.news]
        assert self.let.wait(30)
        return [Delivered()] * len(notices)


def delivery(path: Path, *sinks: Recording, patience_s: float = 30) -> Delivery:
    return Delivery(Ledger(path / "ledger"), sinks, deadline_s=30, patience_s=patience_s)


def test_a_sink_that_stays_goes_on_and_one_that_comes_hears_what_stands(tmp_path: Path) -> None:
    stays, goes, comes = Recording("stays"), Recording("goes"), Recording("comes")
    telling = delivery(tmp_path, stays, goes)
    telling.deliver([FIRST], NOON_MS)

    telling.tell_these([stays, comes])
    telling.deliver([SECOND], NOON_MS)

    assert stays.told == comes.told == [FIRST, SECOND]
    assert goes.told == [FIRST]


def test_what_a_sink_was_asked_when_it_was_replaced_is_not_asked_of_its_successor(tmp_path: Path) -> None:
    slow, successor = Slow("sink"), Recording("sink")
    telling = delivery(tmp_path, slow, patience_s=0.05)

    def all_is_told() -> bool:
        return not telling.deliver([], NOON_MS).sinks["sink"].pending

    assert telling.deliver([FIRST], NOON_MS).sinks["sink"].pending == 1

    telling.tell_these([successor])
    telling.deliver([], NOON_MS)
    assert successor.told == []
    slow.let.set()
    eventually(all_is_told, within_s=30)
    telling.deliver([SECOND], NOON_MS)
    eventually(all_is_told, within_s=30)

    assert (slow.told, successor.told) == ([FIRST], [SECOND])


def test_two_of_one_name_change_nothing(tmp_path: Path) -> None:
    before = Recording("before")
    telling = delivery(tmp_path, before)

    with pytest.raises(UsageError, match="The sink twice was given twice"):
        telling.tell_these([Recording("twice"), Recording("twice")])

    telling.deliver([FIRST], NOON_MS)
    assert before.told == [FIRST]
