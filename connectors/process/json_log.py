"""Log events as JSON, one object a line: for programs that collect what a job prints (`log_format: json`).

Keys: `time` (ISO 8601, UTC), `level`, `logger`, `message`; `exception` (a traceback); and, where the event is about
one, `cluster`, `rule`, `subject`, `severity`, `state`, `fingerprint` (those of an alert's JSON) and `sink`.
"""

import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from rules.alert import Alert

LogFormat: TypeAlias = Literal["text", "json"]
_used = False


def use_format(log_format: LogFormat) -> None:
    """From now on this process prints text on stderr, or one JSON object a line: also an error that ends it."""
    global _used
    _used = log_format == "json"


def uses_json() -> bool:
    """Whether the process prints JSON on stderr."""
    return _used


def alert_fields(alert: "Alert") -> dict[str, str]:
    """Returns the keys of an event about an alert."""
    return {
        "cluster": alert.cluster,
        "rule": alert.rule,
        "subject": alert.subject,
        "severity": alert.severity.value,
        "state": alert.state.value,
        "fingerprint": alert.fingerprint,
    }


@lru_cache(maxsize=1)
def json_formatter() -> logging.Formatter:
    """Returns the formatter; it escapes control characters, so a message cannot control a terminal."""
    # Imported here: only a job with this format needs it.
    from pythonjsonlogger.json import JsonFormatter

    names = {"levelname": "level", "name": "logger", "exc_info": "exception", "stack_info": "stack"}
    return JsonFormatter("%(levelname)s %(name)s %(message)s", rename_fields=names, timestamp="time")


def json_event(message: str, *, level: str = "INFO", logger: str = "kraftwatch", **fields: str) -> str:
    """Returns one line, with its line feed, for an event that is no log record."""
    record = logging.makeLogRecord({"msg": message, "levelname": level, "name": logger, **fields})
    return f"{json_formatter().format(record)}\n"
