"""Caches the known endpoints of every cluster in a file beside the journal.

A restarted gatherer resumes the log at its last position, so it does not read the VotersRecord with the endpoints
again; and no node reports them while the quorum is down. The file is written before the rows that contain the
endpoints are published: it may be ahead of the journal, never behind.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from connectors.durable_file import Synced, replace_file
from connectors.gather.node_directory import KnownEndpoints

NAME = "endpoints.json"
_LOG = logging.getLogger(__name__)
_JSON: TypeAdapter[dict[str, KnownEndpoints]] = TypeAdapter(dict[str, KnownEndpoints])


class EndpointCache:
    """The cache of all clusters in one small file. If it cannot be read or written, the gatherer runs without it."""

    def __init__(self, journal: Path) -> None:
        """Reads the file, if it exists."""
        self._path = journal / NAME
        self._cached = self._read()

    def of(self, cluster: str) -> KnownEndpoints:
        """Returns the cached endpoints of a cluster; empty for a new cluster."""
        return self._cached.get(cluster, KnownEndpoints())

    def update(self, known_endpoints: Mapping[str, KnownEndpoints]) -> None:
        """Writes the file atomically, if its content changed."""
        updated = self._cached | dict(known_endpoints)
        if updated == self._cached:
            return
        try:
            content = _JSON.dump_json(updated, indent=1)
            replace_file(self._path, content, synced=Synced.FILE)
        except OSError as problem:
            _LOG.warning("%s cannot be written: %s", self._path, problem.strerror)
        else:
            self._cached = updated

    def _read(self) -> dict[str, KnownEndpoints]:
        try:
            return _JSON.validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValidationError):
            _LOG.warning("%s cannot be read: endpoints stay unknown until the log or a poll reports them", self._path)
            return {}
