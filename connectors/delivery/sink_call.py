"""Asking: one call to one sink, with a deadline that holds whatever the sink does.

The call runs in a thread of its own, because no deadline reaches into a blocked write or a dead name service. A
call that misses the deadline is left behind; its answer is taken when it comes, and the sink is not asked again
before that.
"""

import time
from collections.abc import Sequence
from threading import Thread

from connectors.sinks.error_redaction import redact
from connectors.sinks.sink import Outcome, Retry, Sink
from rules.model.identifiers import Millis
from rules.notifications.notification import Notice


class Asking:
    """A call that has begun."""

    def __init__(self, sink: Sink, notices: Sequence[Notice], *, sent_at_ms: Millis, deadline_s: float) -> None:
        """Begin it."""
        self.notices = notices
        self._sink = sink
        self._sent_at_ms = sent_at_ms
        self._deadline_s = deadline_s
        self._outcomes: Sequence[Outcome] = ()
        self._crash: BaseException | None = None
        self._overdue_at = time.monotonic() + deadline_s
        self._thread = Thread(target=self._run, name=f"telling {sink.terms.name}", daemon=True)
        self._thread.start()

    @property
    def overdue(self) -> bool:
        """It has taken longer than its deadline."""
        return time.monotonic() >= self._overdue_at

    def answer(self, timeout_s: float) -> Sequence[Outcome] | None:
        """One outcome for each notice; None when the sink has not answered yet."""
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return None
        if self._crash is not None:
            raise self._crash
        return self._outcomes

    def _run(self) -> None:
        try:
            outcomes = self._sink.tell(self.notices, sent_at_ms=self._sent_at_ms, deadline_s=self._deadline_s)
        except Exception as error:  # noqa: BLE001 - the fence around one sink: its fault is not the others'
            outcomes = [Retry(reason=redact(f"{type(error).__name__}: {error}"))] * len(self.notices)
        except BaseException as error:  # noqa: BLE001 - raised again where somebody waits
            self._crash = error
            return
        if len(outcomes) != len(self.notices):
            reason = f"the sink gave {len(outcomes)} answers to {len(self.notices)} notices"
            outcomes = [Retry(reason=reason)] * len(self.notices)
        self._outcomes = outcomes
