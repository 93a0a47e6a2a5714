"""What a gatherer is told, as one JSON line: it may hold secrets, so it travels by stdin and is never logged."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError

from connectors.cluster_connection import Cluster
from connectors.errors import UsageError
from connectors.gather.commit_buffer import Resume


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything one gatherer process needs."""

    clusters: tuple[Cluster, ...]
    journal: str
    """The journal's folder."""
    resume: Mapping[str, Resume] = field(default_factory=dict)
    """Where to go on, by cluster; one that is missing goes on behind its last row in the journal."""
    stats: str | None = None
    """A file for what the gathering costs, written anew each second (see `connectors.gather.gatherer_stats`)."""
    lock_timeout_s: float = 10.0
    """How long to try for the journal's lock."""
    journal_options: Mapping[str, float] = field(default_factory=dict)
    """`segment_bytes`, `keep_bytes`, `keep_s` of `connectors.journal.writer.Recorder`."""
    verbose: bool = False


_JSON = TypeAdapter(Settings)


def to_line(settings: Settings) -> bytes:
    """One line of JSON, line end included. It holds the clusters' secrets."""
    return _JSON.dump_json(settings) + b"\n"


def from_line(line: bytes) -> Settings:
    """What `to_line` wrote.

    Raises:
        UsageError: naming the first field that is wrong, never its value.
    """
    try:
        return _JSON.validate_json(line)
    except ValidationError as problem:
        first = problem.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "the line"
        raise UsageError(f"The gatherer's settings: {where}: {first['msg']}.") from None
