"""Text for people: durations, times, lists and counts; and texts from outside, of which nothing is hidden."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from rules.model.identifiers import Millis

if TYPE_CHECKING:
    # Each command imports this module: the dataclasses of the model would delay its completion and help.
    from rules.model.plain import Plain

_SECOND = 1_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
LATEST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, the latest that can be formatted."""
MOST_ENTRIES = 100
"""How many entries a list has that each of many findings repeats: the evidence must not grow with their square."""

_UNUSUAL = re.compile(r"[^ -~]")
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Unicode categories: control, format (with direction overrides), surrogate, private use, separators of lines."""
_WORD_MAX = 100
_NOT_KNOWN = re.compile(r"^Found at \S+ \S+ UTC, not known now: ")


def visible(text: str, keep: str = "") -> str:
    """Returns the text with control and direction characters escaped (`\\x1b`), except those in `keep`.

    So it stays on its line: every character that some program takes as a line break is escaped.
    """
    if text.isprintable():
        return text
    return with_hidden(text, lambda one: one if one in keep else one.encode("unicode_escape").decode())


def with_hidden(text: str, escaped: Callable[[str], str]) -> str:
    """Returns the text in which each control or direction character is replaced by what the function returns."""
    if text.isprintable():
        return text
    return _UNUSUAL.sub(
        lambda found: escaped(found[0]) if unicodedata.category(found[0]) in _INVISIBLE else found[0], text
    )


def visible_evidence(evidence: "Mapping[str, Plain]") -> "Mapping[str, Plain]":
    """Returns evidence whose names and texts are visible: the same one if all are."""
    if all(map(str.isprintable, evidence)) and all(map(_is_printable, evidence.values())):
        return evidence
    return {visible(name): _visible_value(value) for name, value in evidence.items()}


def _is_printable(value: "Plain") -> bool:
    if isinstance(value, str):
        return value.isprintable()
    if isinstance(value, dict):
        return all(map(str.isprintable, value)) and all(map(_is_printable, value.values()))
    return not isinstance(value, list) or all(map(_is_printable, value))


def _visible_value(value: "Plain") -> "Plain":
    match value:
        case str():
            return visible(value)
        case list():
            return [_visible_value(each) for each in value]
        case dict():
            return {visible(name): _visible_value(each) for name, each in value.items()}
        case _:
            return value


def printable_step(step: str) -> str:
    """Returns a step of a remedy on one line; for a command with a hidden character a sentence that says why not.

    No name in Kafka has such a character. An escaped name would be another name, and a command with a line break is
    two commands where it is pasted.
    """
    shown = visible(step)
    if shown == step or step.startswith("#"):
        return shown
    word = next(visible(word) for word in step.split(" ") if not word.isprintable())
    return (
        f"# The command {visible(step.partition(' ')[0])} of this step is not printed: {word[:_WORD_MAX]} in it has a "
        "line break or another hidden character, which no name in Kafka has. Find out which node reported it"
    )


def ms_text(duration: Millis | int) -> str:
    """Returns a duration as text: `850 ms`, `75 s`, `12 min`, `5 h`, `3 days`."""
    for unit, name, enough in ((_DAY, "days", 2), (_HOUR, "h", 2), (_MINUTE, "min", 2), (_SECOND, "s", 1)):
        if duration >= enough * unit:
            return f"{duration // unit} {name}"
    return f"{max(0, duration)} ms"


def duration(ms: Millis | float) -> str:
    """Formats a duration: `0.4 s`, `42 s`, `3 min 5 s`, `2 h 10 min`, `9 d 4 h`."""
    if ms < 0:
        return f"-{duration(-ms)}"
    seconds = ms / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, below, below_unit in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit}" + (f" {rest} {below_unit}" if rest else "")
    return f"{whole} s"


@lru_cache(maxsize=4_096)
def utc_text(at: Millis | int) -> str:
    """Returns a time as text: `2026-11-21 03:12:45 UTC`. A time before 1970 or after the year 9999 is given in ms."""
    if not 0 <= at <= LATEST_MS:
        return f"{at} ms since 1970"
    return f"{_EPOCH + at * _MILLISECOND:%Y-%m-%d %H:%M:%S} UTC"


def iso(at_ms: Millis) -> str:
    """Formats a time as ISO 8601 in UTC with milliseconds: `2026-11-20T05:01:02.345Z`."""
    return (_EPOCH + at_ms * _MILLISECOND).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_iso(text: str) -> Millis:
    """Parses a time that `iso` formatted.

    Raises ValueError if the text is not a time, TypeError if the value is not a text, or the time has no time zone.
    """
    return Millis((datetime.fromisoformat(text) - _EPOCH) // _MILLISECOND)


def resolved_summary(now: str, ended_at_ms: Millis) -> str:
    """Returns the summary of a resolved alert: what is true now, and since when the condition is over.

    How long the incident was open is said once, by the sink: it ends with the last of its alerts.
    """
    return f"{now} Over since {utc_text(ended_at_ms)}."


def not_known_now(summary: str, found_at_ms: Millis) -> str:
    """Returns the summary of an alert that goes on, and whose condition cannot be evaluated now."""
    return f"Found at {utc_text(found_at_ms)}, not known now: {summary}"


def as_found(summary: str) -> str:
    """Returns the summary as it was found: the reverse of `not_known_now`, if it is one of its texts."""
    return _NOT_KNOWN.sub("", summary)


def and_join(items: Iterable[object], most: int = 8) -> str:
    """Returns `a`, `a and b` or `a, b and c`; if there are more than `most` items: `a, b and 7 more`."""
    words = [str(item) for item in items]
    if len(words) > most:
        words = [*words[:most], f"{len(words) - most} more"]
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part) if words else "none"


def first_values(values: "Sequence[Plain]") -> "list[Plain]":
    """Returns the values; of more than MOST_ENTRIES the first ones, and how many are left out as the last one."""
    more = len(values) - MOST_ENTRIES
    return [*values[:MOST_ENTRIES], f"{more} more"] if more > 0 else [*values]


def shortened(text: str, limit: int) -> str:
    """Returns the text, or its beginning with `…`, in at most `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def topic_text(topic: str | None, topic_id: str) -> str:
    """Returns a topic's name; `with id ID` if its name is unknown."""
    return topic or f"with id {topic_id}"


def plural(number: int, noun: str) -> str:
    """Returns the number with its noun: `1 partition`, `2 partitions`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def numbered(noun: str, numbers: Iterable[object], most: int = 8) -> str:
    """Returns ids with their noun: `broker 101`, `brokers 101 and 102`; of more than `most` the first ones."""
    ids = [*numbers]
    return f"{noun}{'' if len(ids) == 1 else 's'} {and_join(ids, most)}"


def needed_text(number: int, noun: str | None = None) -> str:
    """Returns how many of something are needed: `1 is needed`, `2 votes are needed`."""
    counted = str(number) if noun is None else plural(number, noun)
    return f"{counted} {'is' if number == 1 else 'are'} needed"


def late_text(late_ms: Millis) -> str:
    """Returns, for people, that an alert is about an observation of some time ago."""
    return f"read {ms_text(late_ms)} late"
