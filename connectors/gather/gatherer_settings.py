"""The gatherer's settings as one JSON line. They may hold secrets, so they are sent over stdin and never logged."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError

from connectors.cluster_connection import ClusterConnection
from connectors.errors import UsageError
from connectors.gather.commit_buffer import LogPosition
from connectors.journal.follow_position import FollowPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class GathererSettings:
    """The settings of one gatherer process."""

    clusters: tuple[ClusterConnection, ...]
    journal: str
    """The journal's folder."""
    resume: Mapping[str, LogPosition] = field(default_factory=dict)
    """Log position to start from, by cluster; default: after the cluster's last row in the journal."""
    stats: str | None = None
    """Path of the statistics file, rewritten each second (see `connectors.gather.gatherer_stats`)."""
    lock_timeout_s: float = 10.0
    """How long to wait for the journal's lock."""
    journal_options: Mapping[str, float] = field(default_factory=dict)
    """`segment_bytes`, `keep_bytes`, `keep_s` of `connectors.journal.writer.JournalWriter`."""
    verbose: bool = False
    processes: int = 1
    """Over how many processes the clusters are spread; with 1, the process that writes the journal gathers itself."""
    clusters_in_job: int | None = None
    """How many clusters all processes gather; None: those of this process."""
    share: int | None = None
    """Number of the share that this process gathers; None: all clusters."""
    positions: Mapping[str, FollowPosition] = field(default_factory=dict)
    """Where to continue, by cluster, for a process without a journal of its own."""

    @property
    def clusters_of_all(self) -> int:
        """How many clusters all processes gather."""
        return len(self.clusters) if self.clusters_in_job is None else self.clusters_in_job


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
