"""SinkCall: one call to one sink, with a deadline that is kept whatever the sink does.

The call runs in its own thread, because a deadline cannot interrupt a blocked write or a hanging name lookup. A call
that misses its deadline keeps running; its outcome is collected later, and the sink is not called again before that.
"""

import time
from collections.abc import Sequence
from threading import Thread

from connectors.sinks.error_redaction import redact
from connectors.sinks.sink import Outcome, Retry, Sink
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification


class SinkCall:
    """A call that has been started."""

    def __init__(
        self, sink: Sink, notifications: Sequence[Notification], *, sent_at_ms: Millis, deadline_s: float
    ) -> None:
        """Starts the call."""
        self._notifications = notifications
        self._sink = sink
        self._sent_at_ms = sent_at_ms
        self._deadline_s = deadline_s
        self._outcomes: Sequence[Outcome] = ()
        self._crash: BaseException | None = None
        self._overdue_at = time.monotonic() + deadline_s
        self._thread = Thread(target=self._run, name=f"notify {sink.options.name}", daemon=True)
        self._thread.start()

    @property
    def overdue(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() >= self._overdue_at

    def outcomes(self, timeout_s: float) -> Sequence[Outcome] | None:
        """Waits at most `timeout_s`; returns one outcome per notification, or None while the call is in progress."""
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return None
        if self._crash is not None:
            raise self._crash
        return self._outcomes

    def _run(self) -> None:
        try:
            outcomes = self._sink.send(self._notifications, sent_at_ms=self._sent_at_ms, deadline_s=self._deadline_s)
        except Exception as error:  # noqa: BLE001 - an error in one sink must not affect the other sinks
            outcomes = [Retry(reason=redact(f"{type(error).__name__}: {error}"))] * len(self._notifications)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that collects the outcomes
            self._crash = error
            return
        if len(outcomes) != len(self._notifications):
            reason = f"the sink returned {len(outcomes)} outcomes for {len(self._notifications)} notifications"
            outcomes = [Retry(reason=reason)] * len(self._notifications)
        self._outcomes = outcomes
