"""Text for people: durations, times, lists and counts; and texts from outside, of which nothing is hidden."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

from rules.finding import Plain
from rules.model.identifiers import Millis

_SECOND = 1_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR_10000_MS = 253_402_300_800_000
MOST_ENTRIES = 100
"""How many entries a list has that each of many findings repeats: the evidence must not grow with their square."""

_UNUSUAL = re.compile(r"[^ -~]")
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Unicode categories: control, format (with direction overrides), surrogate, private use, separators of lines."""
_WORD_MAX = 100


def visible(text: str, keep: str = "") -> str:
    """Returns the text with control and direction characters escaped (`\\x1b`), except those in `keep`.

    So it stays on its line: every character that some program takes as a line break is escaped.
    """
    return with_hidden(text, lambda one: one if one in keep else one.encode("unicode_escape").decode())


def with_hidden(text: str, escaped: Callable[[str], str]) -> str:
    """Returns the text in which each control or direction character is replaced by what the function returns."""
    if text.isprintable():
        return text
    return _UNUSUAL.sub(
        lambda found: escaped(found[0]) if unicodedata.category(found[0]) in _INVISIBLE else found[0], text
    )


def visible_evidence(value: Plain) -> Plain:
    """Returns evidence whose names and texts are visible."""
    match value:
        case str():
            return visible(value)
        case list():
            return [visible_evidence(each) for each in value]
        case dict():
            return {visible(name): visible_evidence(each) for name, each in value.items()}
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


def utc_text(at: Millis | int) -> str:
    """Returns a time as text: `2026-11-21 03:12:45 UTC`. A time before 1970 or after the year 9999 is given in ms.

    The calendar is computed here (Howard Hinnant, "chrono-compatible low-level date algorithms"), because the rules
    import no clock, and with it no `datetime`.
    """
    if not 0 <= at < _YEAR_10000_MS:
        return f"{at} ms since 1970"
    days, rest = divmod(at // _SECOND, _DAY // _SECOND)
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * from_march + 2) // 5 + 1
    month = from_march + 3 if from_march < 10 else from_march - 9
    year = year_of_era + era * 400 + (month <= 2)
    return f"{year:04}-{month:02}-{day:02} {rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02} UTC"


def resolved_summary(now: str, ended_at_ms: Millis) -> str:
    """Returns the summary of a resolved alert: what is true now, and since when the condition is over.

    How long the incident was open is said once, by the sink: it ends with the last of its alerts.
    """
    return f"{now} Over since {utc_text(ended_at_ms)}."


def and_join(items: Iterable[object], most: int = 8) -> str:
    """Returns `a`, `a and b` or `a, b and c`; if there are more than `most` items: `a, b and 7 more`."""
    words = [str(item) for item in items]
    if len(words) > most:
        words = [*words[:most], f"{len(words) - most} more"]
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part) if words else "none"


def first_values(values: Sequence[Plain]) -> list[Plain]:
    """Returns the values; of more than MOST_ENTRIES the first ones, and how many are left out as the last one."""
    more = len(values) - MOST_ENTRIES
    return [*values[:MOST_ENTRIES], f"{more} more"] if more > 0 else [*values]


def topic_text(topic: str | None, topic_id: str) -> str:
    """Returns a topic's name; `with id ID` if its name is unknown."""
    return topic or f"with id {topic_id}"


def plural(number: int, noun: str) -> str:
    """Returns the number with its noun: `1 partition`, `2 partitions`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def late_text(late_ms: Millis) -> str:
    """Returns, for people, that an alert is about an observation of some time ago."""
    return f"read {ms_text(late_ms)} late"
