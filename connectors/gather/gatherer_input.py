"""What the job writes to the gatherer's stdin: a JSON line of settings, then a JSON line for each control message.

The settings may hold secrets, so they are never logged.
"""

from dataclasses import dataclass
from typing import TypeAlias

from pydantic import TypeAdapter, ValidationError

from connectors.errors import UsageError
from connectors.kafka.cluster_connection import ClusterConnection
from rules.model.witness import WitnessRow


@dataclass(frozen=True, slots=True, kw_only=True)
class GathererSettings:
    """The settings of one gatherer process."""

    clusters: tuple[ClusterConnection, ...]
    journal: str
    """The journal's folder."""
    stats: str | None = None
    """Path of the statistics file, rewritten each second (see `connectors.gather.gatherer_stats`)."""
    lock_timeout_s: float = 10.0
    """How long to wait for the journal's lock."""
    keep_bytes: int | None = None
    """How much of the journal is kept; None: the default of `connectors.store.journal_writer.JournalWriter`."""


_SETTINGS_JSON = TypeAdapter(GathererSettings)


def settings_to_line(settings: GathererSettings) -> bytes:
    """Returns the settings as one line of JSON with its line end. It holds the clusters' secrets."""
    return _SETTINGS_JSON.dump_json(settings) + b"\n"


def settings_from_line(line: bytes) -> GathererSettings:
    """Parses a line written by `settings_to_line`.

    Raises:
        UsageError: names the first invalid field, never its value.
    """
    try:
        return _SETTINGS_JSON.validate_json(line)
    except ValidationError as problem:
        first = problem.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "the line"
        raise UsageError(f"The gatherer's settings: {where}: {first['msg']}.") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class PollRequest:
    """What an evaluation asks for; the times are those of the gatherer's clock."""

    cluster: str
    at_ms: int | None
    """Poll at this time, and publish the first row from then on at once; None: as usual.

    It is the time at which a hold or clear duration ends. Without the poll's row, the transition waits for the next
    rows, up to ten seconds.
    """
    quiet_until_ms: int
    """Until then no condition begins or ends because time passes, so quiet rows may wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPause:
    """Do not read this cluster's log for a while: more of it waits to be evaluated than a batch may take.

    Polls and probes go on. The job repeats the message while it needs to, so that a lost one does no harm.
    """

    cluster: str
    pause_ms: int
    """From now on; 0 ends a pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRow:
    """What a controller's host saw, as it reported it to the job: it becomes an observation as those of this process.

    A lost one does no harm: the next one follows.
    """

    cluster: str
    row: WitnessRow


ControlMessage: TypeAlias = PollRequest | LogPause | ReportedRow

_MESSAGE_JSON: TypeAdapter[ControlMessage] = TypeAdapter(ControlMessage)


def message_to_line(message: ControlMessage) -> bytes:
    """Returns the message as one line of JSON with its line end."""
    return _MESSAGE_JSON.dump_json(message) + b"\n"


def message_from_line(line: bytes) -> ControlMessage:
    """Parses a line written by `message_to_line`, or raises ValueError."""
    return _MESSAGE_JSON.validate_json(line)
