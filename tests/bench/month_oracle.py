"""The oracle of a month: what people must be notified of, by what was done, and what is wrong with what they got.

It imports nothing of the product.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias

Span: TypeAlias = tuple[float, float]
"""Seconds: the earliest and the latest."""
REPEAT_S = 30 * 60
"""How often people are reminded of what goes on."""
_NUMBERS = re.compile(r"\d+")


@dataclass(kw_only=True)
class Outage:
    """What is wrong, since when and until when, and what people must be notified of."""

    what: str
    must: Mapping[str, Span]
    """Rule and subject: the earliest and the latest time of the notification, in seconds after the beginning."""
    may: frozenset[str] = frozenset()
    """Consequences that may be sent, too."""
    pages: int = 1
    began_s: float = 0.0
    ended_s: float = float("inf")
    away: Span | None = None
    """When Slack and PagerDuty answered 503."""
    quiet: Span | None = None
    """Nobody may be reminded: a person has acknowledged or silenced it."""
    restored_s: float | None = None
    """When the store was restored from a copy made while this was wrong."""

    def includes(self, at_s: float) -> bool:
        """Whether it is wrong, or was so a moment ago."""
        return self.began_s <= at_s <= max(self.ended_s, *(self.away or ()), self.restored_s or 0) + 300


@dataclass
class Oracle:
    """What each service received, and what it should have received."""

    outages: list[Outage] = field(default_factory=list)
    documents: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    """Of the webhook, with the times."""
    effects: dict[str, list[tuple[float, str, str]]] = field(default_factory=lambda: defaultdict(list))
    """By service: time, what it did, and of which message or alert."""
    days: list[float] = field(default_factory=list)
    """When each day began: the hours that are left out are not counted."""

    def problems(self) -> Iterator[str]:
        """Yields each notification that is false, missing, late or sent twice."""
        yield from self._unexpected()
        for outage in self.outages:
            yield from self._of_webhook(outage)
            yield from self._of_pagerduty(outage)
            yield from self._of_slack(outage)

    def _unexpected(self) -> Iterator[str]:
        before: dict[str, float] = {}
        for at_s, document in self.documents:
            outage = self._at(at_s)
            for alert in document["new_transitions"]:
                about = f"{alert['rule']} {alert['subject']}"
                if outage is None or about not in {*outage.must, *outage.may}:
                    yield f"{self._time(at_s)} {alert['state']} {alert['severity']} {about}: not expected"
            if not document["new_transitions"]:
                early = at_s - before.get(document["incident"], 0.0) < REPEAT_S - 1
                quiet = outage is not None and outage.quiet is not None and _within(at_s, outage.quiet)
                if outage is None or quiet or (early and outage.restored_s is None):
                    yield f"{self._time(at_s)} {document['reason']} of {document['summary']}: not expected"
            before[document["incident"]] = at_s
        for name, effects in self.effects.items():
            for at_s, effect, key in effects:
                if effect == "dropped" or self._at(at_s) is None:
                    yield f"{self._time(at_s)} {name}: {effect} {key}: not expected"

    def _time(self, *times: float) -> str:
        """Returns the days and times, or that there is none."""
        found = []
        for at_s in times:
            day = bisect_right(self.days, at_s)
            found.append(f"day {day} {timedelta(seconds=at_s - self.days[day - 1])}")
        return ", ".join(found) or "no time"

    def _at(self, at_s: float) -> Outage | None:
        return next((each for each in self.outages if each.includes(at_s)), None)

    def _of_webhook(self, outage: Outage) -> Iterator[str]:
        sent = defaultdict[tuple[str, str, str, str], list[float]](list)
        for at_s, document in self.documents:
            if self._at(at_s) is outage:
                for alert in document["new_transitions"]:
                    about = f"{alert['rule']} {alert['subject']}"
                    # An alert that comes to say something else is sent again, in the same incident.
                    says = (
                        _NUMBERS.sub("", f"{alert['summary']} {alert['remedy']}") if alert["state"] == "firing" else ""
                    )
                    sent[about, alert["state"], alert["severity"], says].append(at_s)
        for (about, state, severity, _), times in sent.items():
            again = state == "resolved" and outage.restored_s is not None and outage.restored_s > outage.ended_s
            if len(times) > 1 + again:
                yield f"{outage.what}: {state} {severity} {about} {len(times)} times: {self._time(*times)}"
        for about, (earliest_s, latest_s) in outage.must.items():
            for state, span in {
                "firing": (outage.began_s + earliest_s, outage.began_s + latest_s),
                "resolved": (outage.ended_s, outage.ended_s + 120),
            }.items():
                times = [at for key, all_ in sent.items() if key[:2] == (about, state) for at in all_]
                if not times or not _within(min(times), span):
                    yield f"{outage.what}: {state} {about} sent at {self._time(*times)}, not in {self._time(*span)}"

    def _of_pagerduty(self, outage: Outage) -> Iterator[str]:
        latest_s = max(latest for _, latest in outage.must.values())
        opened = (outage.began_s, outage.began_s + latest_s)
        ended = (outage.ended_s, outage.ended_s + 120)
        if outage.away is not None:
            opened = (outage.away[1], outage.away[1] + 120)
        for effect, span in {"opened": opened, "resolved": ended}.items():
            of_effect = [at for at, what, _ in self.effects["PagerDuty"] if what == effect and self._at(at) is outage]
            due = self._time(*span)
            if len(of_effect) != outage.pages or not all(_within(at, span) for at in of_effect):
                yield f"{outage.what}: PagerDuty {effect} at {self._time(*of_effect)}, not {outage.pages} in {due}"

    def _of_slack(self, outage: Outage) -> Iterator[str]:
        messages = [at for at, what, _ in self.effects["Slack"] if what == "message" and self._at(at) is outage]
        incidents = {document["incident"] for at, document in self.documents if self._at(at) is outage}
        if len(messages) != len(incidents):
            times = self._time(*messages)
            yield f"{outage.what}: {len(messages)} messages in Slack of {len(incidents)} incidents: {times}"


def _within(at_s: float, span: Span) -> bool:
    return span[0] <= at_s <= span[1]
