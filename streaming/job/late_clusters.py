"""LateClusters: asks clusters that do not answer yet for their ids, beside the relay, until one does."""

import logging
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from connectors.errors import UsageError
from connectors.kafka.cluster_connection import ClusterConnection
from connectors.kafka.cluster_id_lookup import identify
from streaming.job.cluster_identity import identify_clusters

log = logging.getLogger(__name__)

RETRY_S = 30.0


class LateClusters:
    """Asks while entered. Its thread ends with the first answer; without clusters there is none."""

    def __init__(self, clusters: Sequence[ClusterConnection]) -> None:
        """`clusters`: those that did not answer."""
        self._clusters = clusters
        self._stopping = threading.Event()
        self._answered = threading.Event()
        self._thread = threading.Thread(target=self._run, name="late clusters", daemon=True)

    @property
    def answered(self) -> bool:
        """Whether one of them has answered."""
        return self._answered.is_set()

    def __enter__(self) -> Self:
        if self._clusters:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Not joined: a request may take seconds to time out, and the thread changes nothing.
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(RETRY_S):
            try:
                found = identify_clusters(self._clusters, {}, identify)
            except UsageError as problem:
                log.warning("%s", problem)
                continue
            if found.ids:
                self._answered.set()
                return
