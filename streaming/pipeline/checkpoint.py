"""The checkpoint: the job's whole persistent state, a folder that is locked by one job at a time.

cluster.json        the version of the folder, and the cluster ids that it belongs to, by cluster name
journal/            every observation, in order, in observations.db (written by the gatherer)
spark/              Spark's offsets, commits and state
kraftwatch.db       alerts and their notifications, sent and pending; silences; what sinks remember; the quarantine
lock                locked by the running job

Spark's files may be elsewhere, in a file system that all nodes of a cluster reach; then nothing here reads them.
"""

import errno
import fcntl
import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from connectors.errors import StoreError, UsageError
from connectors.store.collection import Collection
from connectors.store.durable_file import FOLDER_MODE, Synced, full_disk, lock, replace_file, restrict_folder
from connectors.store.journal_file import NEW_FOLDER, journal_damage, journal_file
from connectors.store.journal_reader import JournalReader
from connectors.store.store_place import PostgresPlace
from connectors.store.stored_json import parse_json
from connectors.store.tables import job_database, sqlite_database
from rules.formatting import plural
from streaming.pipeline.spark.spark_files import LocalFolder, SparkFiles
from streaming.pipeline.topic_files import TopicFiles

LOCK_WAIT_S = 10.0
VERSION = 1
"""Of the folder, its cluster.json and its source.json; a folder of another version is refused."""

_FILE = "file://"
_CLUSTERS_MAX = 100_000


class DamagedIdentityError(UsageError):
    """cluster.json is damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One checkpoint and the paths in its folder."""

    folder: Path
    """The job's folder on this machine."""
    uri: str | None = None
    """Where Spark's files are, if they are not in the folder. The folder then has no journal either."""
    store: PostgresPlace | None = None
    """A server that has the cluster ids, and the source of what is elsewhere; None: they are in the folder."""

    @property
    def journal(self) -> Path:
        """The journal's folder."""
        return self.folder / "journal"

    @property
    def location(self) -> str:
        """The URI of Spark's checkpoint, for Spark."""
        # A path alone would be one of the cluster's default file system.
        return self.uri or f"{_FILE}{self.spark.absolute()}"

    @property
    def shared_folder(self) -> Path | None:
        """A folder beside Spark's files, which executors must share; None if those are not local files."""
        if self.uri is None:
            return self.logs / "executors"
        return Path(self.uri.removeprefix(_FILE)) / "executors" if self.uri.startswith(_FILE) else None

    @property
    def spark(self) -> Path:
        """Spark's own checkpoint, in the folder."""
        return self.folder / "spark"

    @property
    def pages(self) -> Path | None:
        """Where the pages of large states are; None if they are in the states."""
        return self.spark.absolute() if self.uri is None else None

    @property
    def spark_files(self) -> SparkFiles:
        """The files of Spark's checkpoint, if they are in the folder."""
        return SparkFiles(folder=LocalFolder(path=self.spark))

    @property
    def repair_command(self) -> str:
        """The command that repairs damaged files of this checkpoint."""
        return f"kraftwatch repair --checkpoint {shlex.quote(str(self.folder))}"

    @property
    def logs(self) -> Path:
        """Spark's and the gatherer's logs."""
        return self.folder / "log"

    @property
    def topic_files(self) -> TopicFiles:
        """What the driver and Spark's planner, which reads a relay's topic, say to each other."""
        return TopicFiles(self.logs / "topic")

    @property
    def identity(self) -> Path:
        """The cluster ids that the checkpoint belongs to."""
        return self.folder / "cluster.json"

    @contextmanager
    def held(self, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
        """Locks the folder, creating it if it is new. The operating system releases the lock when the process ends.

        Raises:
            UsageError: the folder cannot be created or written, or another job holds the lock after `wait_s` seconds.
            StoreError: the disk is full. Also instead of a UsageError inside: a full disk is no invalid input, and a
                supervisor must start the job again when there is space.
        """
        try:
            self.folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            # A folder that existed before may be readable for others.
            restrict_folder(self.folder)
            handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            reason = (problem.strerror or "unusable").lower()
            if problem.errno == errno.ENOSPC:
                raise StoreError(f"checkpoint {self.folder}: {reason}") from None
            raise UsageError(f"checkpoint {self.folder}: {reason}; give a writable folder with --checkpoint") from None
        if not lock(handle, wait_s):
            os.close(handle)
            waited = f"still in use after {wait_s:.0f} s" if wait_s else "in use"
            raise UsageError(
                f"checkpoint {self.folder} is {waited}: another kraftwatch holds its "
                f"lock; stop that process first, or give this one another --checkpoint"
            )
        try:
            yield
        except UsageError as problem:
            if full_disk(self.folder) is None:
                raise
            raise StoreError(f"{problem}: no space is left on the disk of {self.folder}") from problem
        finally:
            os.close(handle)

    def is_held(self) -> bool | None:
        """Returns whether a running job has locked the folder, None if this user may not know; changes nothing."""
        try:
            handle = os.open(self.folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError:
            return None
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def cluster_ids(self) -> dict[str, str]:
        """Returns the recorded cluster ids by cluster name; empty for a new checkpoint.

        Raises DamagedIdentityError if cluster.json cannot be read, and UsageError if another version has written it.
        """
        if self.store is not None:
            return self._shared_ids(self.store).items()
        try:
            recorded = parse_json(self.identity.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            recorded = None
        if isinstance(recorded, dict) and recorded.get("version") != VERSION:
            raise UsageError(
                f"checkpoint {self.folder} was written by another version of kraftwatch: use that one, or {NEW_FOLDER}"
            )
        ids = recorded.get("cluster_ids") if isinstance(recorded, dict) else None
        if not isinstance(ids, dict):
            raise DamagedIdentityError(
                f"{self.identity} cannot be read: restore it from a backup, or run `{self.repair_command}`"
            )
        return {str(name): str(cluster_id) for name, cluster_id in ids.items()}

    def record_cluster_ids(self, ids: Mapping[str, str]) -> None:
        """Writes the cluster ids atomically, or raises StoreError."""
        if self.store is not None:
            self._shared_ids(self.store).put(ids)
            return
        content = json.dumps({"version": VERSION, "cluster_ids": dict(ids)}, indent=1, sort_keys=True).encode()
        replace_file(self.identity, content, synced=Synced.FILE)

    @staticmethod
    def _shared_ids(store: PostgresPlace) -> Collection[str]:
        return Collection(job_database(store), "cluster ids", TypeAdapter(str), keep=_CLUSTERS_MAX)

    def check_observations(self) -> None:
        """Raises UsageError if the journal's database is damaged: names the damage and the command that repairs it."""
        damage = journal_damage(self.journal)
        if damage is not None:
            raise UsageError(f"{journal_file(self.journal)} is damaged: {damage}: run `{self.repair_command}`")

    def why_no_state(self, partitions: int | None = None, files: SparkFiles | None = None) -> str | None:
        """Returns why Spark cannot continue with its state; None if it can, or has none yet.

        Not what only Spark finds when it reads its state.

        Args:
            partitions: the configured number; None: any.
            files: Spark's files, if they are elsewhere; without them nothing is found there.
        """
        if self.uri is not None and files is None:
            return None
        files, journal = files or self.spark_files, JournalReader(self.journal)
        existing, planned = files.partitions, files.newest_planned_end()
        if damaged := files.damaged():
            return "; ".join(damaged)
        if partitions is not None and existing not in (None, partitions):
            return f"its state has {plural(existing or 0, 'partition')}, and pipeline.partitions is {partitions}"
        if planned is None:
            # Only rows that Spark has processed are deleted from the journal.
            lacking = journal.created and not journal.complete and not files.offsets
            return "it has no offsets, and journal/ lacks its first rows" if lacking else None
        if not journal.created or journal.journal_id != planned.journal_id:
            return "journal/ is not the one that it has read"
        # The new rows of a journal that ends before would have the numbers of rows that were evaluated.
        if not journal.first_sequence() <= planned.sequence <= journal.published_end():
            return f"journal/ does not have row {planned.sequence}, which comes next"
        return None

    def check_database(self) -> None:
        """Raises UsageError if the database is damaged, or missing although Spark has state; names the command."""
        damage = self.database_damage()
        if damage is not None:
            raise UsageError(f"{damage}: run `{self.repair_command}`")

    def database_damage(self) -> str | None:
        """Returns what is wrong with the database, as the beginning of a sentence that names it; None if nothing is."""
        database = sqlite_database(self.folder, read_only=True)
        if not database.exists:
            missing = self.uri is None and self.spark_files.has_state
            return f"{database.path} does not exist, but spark/ does" if missing else None
        damage = database.damage()
        return None if damage is None else f"{database.path} is damaged: {damage}"
