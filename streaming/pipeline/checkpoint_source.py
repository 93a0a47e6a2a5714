"""The source that a checkpoint's state belongs to: in source.json, or in the store if Spark's files are elsewhere.

The sequences of a relay's topic and those of a journal are not comparable.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from connectors.errors import UsageError
from connectors.store.collection import Collection
from connectors.store.durable_file import replace_file
from connectors.store.tables import job_database
from streaming.pipeline.checkpoint import Checkpoint

GATHERER, KAFKA, RELAY = "gatherer", "kafka", "relay"
_FILE = "source.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSource:
    """The source that a checkpoint belongs to."""

    kind: str = GATHERER
    """`gatherer` or `kafka`: of a job. `relay`: it is a relay's folder."""
    starting_offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Of `kafka`: the topics, and where the first batch begins, by partition."""
    baselines: Mapping[str, int] = field(default_factory=dict)
    """Of `kafka`, by cluster: rows of an older baseline are not read, because the state does not begin with them."""
    uri: str | None = None
    """Of `kafka`: where Spark's files are, if they are not in the folder."""
    relay: str = ""
    """Of `relay`: its name in the topic."""

    def __str__(self) -> str:
        match self.kind:
            case "kafka":
                return f"source: kafka, topic {', '.join(sorted(self.starting_offsets))}"
            case "relay":
                return "kraftwatch relay"
            case _:
                return "source: gatherer"


_STORED = TypeAdapter(CheckpointSource)


def checkpoint_source(checkpoint: Checkpoint) -> CheckpointSource | None:
    """Returns the source of a checkpoint; None for a new one. Raises UsageError if its file cannot be read."""
    if (shared := _shared(checkpoint)) is not None:
        sources, uri = shared
        return sources.get(uri)
    path = checkpoint.folder / _FILE
    try:
        return _STORED.validate_json(path.read_bytes())
    except FileNotFoundError:
        used = checkpoint.journal.exists() or checkpoint.spark.exists()
        return CheckpointSource() if used else None
    except (OSError, ValueError):
        raise UsageError(f"{path} cannot be read: restore it from a backup, or give a new --checkpoint") from None


def _shared(checkpoint: Checkpoint) -> tuple[Collection[CheckpointSource], str] | None:
    """Returns where a store has the source of a checkpoint that is elsewhere, and its name there."""
    if checkpoint.store is None or checkpoint.uri is None:
        return None
    return Collection(job_database(checkpoint.store), "sources", _STORED), checkpoint.uri


def require_source(checkpoint: Checkpoint, wanted: CheckpointSource) -> CheckpointSource:
    """Returns the recorded source if it is the wanted one; for a new checkpoint the wanted one. Writes nothing.

    A checkpoint of topics may get further ones, but not only others. Raises UsageError if it belongs to another source.
    """
    recorded = checkpoint_source(checkpoint)
    if recorded is not None and not _continues(recorded, wanted):
        option = "relay.folder" if wanted.kind == RELAY else "--checkpoint"
        raise UsageError(
            f"folder {checkpoint.folder} belongs to {recorded}, not to {wanted}; nothing was changed: restore the "
            f"former configuration, or give a new {option}"
        )
    return recorded or wanted


def _continues(recorded: CheckpointSource, wanted: CheckpointSource) -> bool:
    topics = recorded.starting_offsets.keys()
    return recorded.kind == wanted.kind and (not topics or bool(topics & wanted.starting_offsets.keys()))


def record_source(checkpoint: Checkpoint, source: CheckpointSource) -> None:
    """Writes the source of a checkpoint durably. That of a gatherer is not written."""
    if source.kind == GATHERER:
        return
    if (shared := _shared(checkpoint)) is not None:
        sources, uri = shared
        if sources.get(uri) != source:
            sources.put({uri: source})
    else:
        replace_file(checkpoint.folder / _FILE, _STORED.dump_json(source))


def is_new(checkpoint: Checkpoint, source: CheckpointSource) -> bool:
    """Whether Spark has no state yet: a job begins with each cluster's newest baseline.

    Spark's files elsewhere are not read: what counts is whether this folder, or the store, belongs to them.
    """
    return not checkpoint.spark_files.offsets if checkpoint.uri is None else source.uri != checkpoint.uri
