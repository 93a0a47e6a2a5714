"""The gatherer's settings as one JSON line. They may hold secrets, so they are sent over stdin and never logged."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError

from connectors.errors import UsageError
from connectors.gather.commit_buffer import FetchPosition
from connectors.kafka.cluster_connection import ClusterConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class GathererSettings:
    """The settings of one gatherer process."""

    clusters: tuple[ClusterConnection, ...]
    journal: str
    """The journal's folder."""
    resume: Mapping[str, FetchPosition] = field(default_factory=dict)
    """Log position to start from, by cluster; default: after the cluster's last row in the journal."""
    stats: str | None = None
    """Path of the statistics file, rewritten each second (see `connectors.gather.gatherer_stats`)."""
    lock_timeout_s: float = 10.0
    """How long to wait for the journal's lock."""
    journal_options: Mapping[str, float] = field(default_factory=dict)
    """`keep_bytes`, `keep_s` of `connectors.store.journal_writer.JournalWriter`."""
    verbose: bool = False


_JSON = TypeAdapter(GathererSettings)


def to_line(settings: GathererSettings) -> bytes:
    """Returns the settings as one line of JSON with its line end. It holds the clusters' secrets."""
    return _JSON.dump_json(settings) + b"\n"


def from_line(line: bytes) -> GathererSettings:
    """Parses a line written by `to_line`.

    Raises:
        UsageError: names the first invalid field, never its value.
    """
    try:
        return _JSON.validate_json(line)
    except ValidationError as problem:
        first = problem.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "the line"
        raise UsageError(f"The gatherer's settings: {where}: {first['msg']}.") from None
