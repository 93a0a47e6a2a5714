"""The difference of Alertmanager's clock and this host's.

Alertmanager accepts an alert that is over by its own clock, and drops it. So where the Date of an answer differs from
this host's clock by more than CLOCKS_DIFFER_S, the times are given by the clock by which Alertmanager has received the
alert, since the Date may be that of a proxy; by the Date, if it does not have the alert.
"""

import logging
from collections.abc import Collection
from email.utils import parsedate_to_datetime

from connectors.sinks.alertmanager.alert_list import Identity, listed_alerts
from connectors.sinks.http_request import HttpResponse
from connectors.sinks.sink import Retry
from rules.formatting import ms_text
from rules.model.identifiers import Millis

log = logging.getLogger(__name__)

CLOCKS_DIFFER_S = 200.0
"""A larger difference of the clocks is corrected: an alert that ends early must still be sent again before its end,
also after some failures."""


class ClockDifference:
    """By how much this clock is ahead of that of one Alertmanager."""

    def __init__(self, sink: str) -> None:
        """`sink`: its name, for the log."""
        self._sink = sink
        self.ahead_ms = 0
        """0 for what does not matter."""
        self._ahead_of_date_ms = 0
        """By how much it was ahead of the Date of an answer, when that differed last."""

    @property
    def of_dates(self) -> str:
        """The difference to the Date of the answers, before "this host's"."""
        return _difference(self._ahead_of_date_ms) if self._ahead_of_date_ms else "no difference to"

    def date_differs(self, response: HttpResponse | Retry, sent_at_ms: Millis) -> bool:
        """Returns whether the Date of an answer shows another clock than the one before."""
        date = response.headers.get("Date", "") if isinstance(response, HttpResponse) else ""
        try:
            ahead_ms = _difference_that_matters(sent_at_ms - parsedate_to_datetime(date).timestamp() * 1000)
        except (ValueError, TypeError, OverflowError):
            return False
        differs = _difference_that_matters(ahead_ms - self._ahead_of_date_ms) != 0
        if differs:
            self._ahead_of_date_ms = ahead_ms
        return differs

    def adopt(self, listed: HttpResponse | Retry | None, sent: Collection[Identity], sent_at_ms: Millis) -> bool:
        """Takes the clock of Alertmanager; returns whether the sent times were wrong."""
        received = (listed_alerts(listed) if listed is not None else None) or {}
        times = [at_ms for one in sent if (at_ms := received.get(one)) is not None]
        ahead_ms = _difference_that_matters(sent_at_ms - max(times)) if times else self._ahead_of_date_ms
        if not _difference_that_matters(ahead_ms - self.ahead_ms):
            return False
        log.warning(
            "sink %s: Alertmanager's clock is %s",
            self._sink,
            f"{_difference(ahead_ms)} this host's: alerts are sent with its times; set the wrong clock"
            if ahead_ms
            else "right again: alerts are sent with this host's times",
        )
        self.ahead_ms = ahead_ms
        return True


def _difference_that_matters(ahead_ms: float) -> int:
    """Returns a difference of two clocks; 0 for one that is not corrected."""
    return round(ahead_ms) if abs(ahead_ms) > CLOCKS_DIFFER_S * 1000 else 0


def _difference(ahead_ms: int) -> str:
    return f"{ms_text(Millis(abs(ahead_ms)))} {'behind' if ahead_ms > 0 else 'ahead of'}"
