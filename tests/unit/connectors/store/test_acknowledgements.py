"""Acknowledgements: what one process writes, every process reads; the ledger ends and drops them with their alerts."""

from connectors.delivery.ledger import Ledger
from connectors.store.acknowledgements import AcknowledgementStore
from connectors.store.store_place import StorePlace
from connectors.store.tables import job_database
from rules.finding import Severity
from rules.formatting import utc_text
from rules.model.identifiers import Millis
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

WARNING = alert("voter 1", severity=Severity.WARNING)
CRITICAL = alert("voter 1", severity=Severity.CRITICAL, observed_at_ms=Millis(NOON_MS + 60_000))
MINUTE_MS = 60_000
BY_ANA = f"by Ana until {utc_text(NOON_MS + MINUTE_MS)}"
DAY_MS = 86_400_000


def active(place: StorePlace, now_ms: int = NOON_MS) -> list[str]:
    """Returns by whom which alert is acknowledged at that time, as another process reads it."""
    return [one.who for one in AcknowledgementStore(job_database(place)).read() if one.active(Millis(now_ms))]


def test_an_acknowledgement_is_added_replaced_and_ended(place: StorePlace) -> None:
    stored = AcknowledgementStore(job_database(place))
    assert stored.current() == ()
    stored.add([WARNING, alert("voter 2")], by="Ana", now_ms=NOON_MS, until_ms=Millis(NOON_MS + MINUTE_MS))
    assert active(place) == [BY_ANA] * 2
    assert active(place, NOON_MS + MINUTE_MS) == []
    stored.add([WARNING], by="Eva", now_ms=Millis(NOON_MS + 1), comment="INC-1")
    assert active(place, NOON_MS + MINUTE_MS) == ["by Eva"]
    stored.end([WARNING.alert_id, alert("voter 3").alert_id], now_ms=Millis(NOON_MS + 2))
    assert active(place, NOON_MS + 2) == [BY_ANA]
    assert [one.until_ms for one in stored.read()] == [NOON_MS + MINUTE_MS, NOON_MS + 2], "an ended one stays as it is"


def test_a_higher_severity_ends_an_acknowledgement_for_good(place: StorePlace) -> None:
    database = job_database(place)
    database.create()
    ledger, stored = Ledger(database), AcknowledgementStore(database)
    ledger.record([WARNING], NOON_MS)
    stored.add([WARNING], by="Ana", now_ms=NOON_MS)
    ledger.record([CRITICAL], Millis(NOON_MS + MINUTE_MS))
    assert active(place, NOON_MS + MINUTE_MS) == []
    stored.add([CRITICAL], by="Ana", now_ms=Millis(NOON_MS + 2 * MINUTE_MS))
    again = alert("voter 1", severity=Severity.WARNING, observed_at_ms=Millis(NOON_MS + 3 * MINUTE_MS))
    ledger.record([again], Millis(NOON_MS + 3 * MINUTE_MS))
    assert active(place, NOON_MS + 3 * MINUTE_MS) == ["by Ana"], "a lower severity ends nothing"


def test_acknowledgements_are_dropped_with_their_alerts(place: StorePlace) -> None:
    database = job_database(place)
    database.create()
    ledger, stored = Ledger(database), AcknowledgementStore(database)
    over = alert("voter 1", severity=Severity.WARNING, resolved=True, observed_at_ms=Millis(NOON_MS + 1))
    ledger.record([WARNING, alert("voter 2")], NOON_MS)
    stored.add([WARNING, alert("voter 2")], by="Ana", now_ms=NOON_MS)
    ledger.record([over], Millis(NOON_MS + 1))
    ledger.record([alert("voter 3")], Millis(NOON_MS + 40 * DAY_MS))
    assert [one.alert_id for one in stored.read()] == [alert("voter 2").alert_id]
