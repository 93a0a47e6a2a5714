"""PageFiles: the pages of a cluster's state as files in Spark's checkpoint, beside the state that refers to them.

A page is written and synced before the state that refers to it is handed to Spark. The pages of a batch are synced
together, in threads: a disk takes about as long for eight as for one, and a large snapshot has a thousand. A batch that
is repeated writes the same pages again.

Spark may repeat a batch after a crash. So a page is deleted once no state of the last SWEEP_BATCHES batches refers to
it. Pages of attempts that failed are deleted, too.
"""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from connectors.store.durable_file import FOLDER_MODE, Synced, replace_file, sync_path
from streaming.replay.stored_topics import REFERENCE_BYTES, MissingPageError, page_reference

FOLDER: Final = "pages"
"""In Spark's checkpoint."""
SWEEP_BATCHES: Final = 100
"""Five times as many batches as Spark retains."""
_SYNCED_AT_ONCE: Final = 8


class PageFiles:
    """Implements PageStore for one cluster. The folder is created with the first page."""

    def __init__(self, spark: Path, cluster: str) -> None:
        self._folder = spark / FOLDER / quote(cluster, safe="")
        self._unsynced: set[bytes] = set()
        """The pages that may be lost by a power failure."""
        self._needed: set[bytes] = set()
        """The pages that states since the last sweep refer to."""
        self._batches = 0

    def put(self, content: bytes) -> bytes:
        """As `PageStore.put`; `stored` makes the file durable."""
        reference = page_reference(content)
        if reference not in self._needed:
            # A file of a former attempt may be empty after a power failure.
            self._unsynced.add(reference)
            path = self._path(reference)
            if not path.exists() or path.read_bytes() != content:
                self._folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
                replace_file(path, content, synced=Synced.NOTHING)
        self._needed.add(reference)
        return reference

    def get(self, reference: bytes) -> bytes:
        """As `PageStore.get`."""
        if len(reference) != REFERENCE_BYTES:
            raise MissingPageError(f"the reference of a page has {len(reference)} bytes instead of {REFERENCE_BYTES}")
        path = self._path(reference)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise MissingPageError(f"{path} is missing") from None
        if page_reference(content) != reference:
            raise MissingPageError(f"{path} is damaged")
        return content

    def stored(self, references: Collection[bytes]) -> None:
        """Syncs the pages of the state that Spark stores next, and deletes old pages to which it does not refer."""
        if unsynced := self._unsynced.intersection(references):
            with ThreadPoolExecutor(_SYNCED_AT_ONCE) as threads:
                list(threads.map(sync_path, map(self._path, unsynced)))
            sync_path(self._folder)
            self._unsynced -= unsynced
        self._needed.update(references)
        self._batches += 1
        if self._batches >= SWEEP_BATCHES:
            self._sweep()
            self._needed, self._batches = set(references), 0
            self._unsynced.clear()

    def _sweep(self) -> None:
        if self._folder.exists():
            kept = {self._path(reference).name for reference in self._needed}
            for path in self._folder.iterdir():
                if path.name not in kept:
                    # Another process may be deleting the checkpoint.
                    with suppress(FileNotFoundError):
                        path.unlink()

    def _path(self, reference: bytes) -> Path:
        return self._folder / reference.hex()
