"""Which clusters have no state yet in a new Spark checkpoint: their states begin with the alerts of the ledger.

Spark makes a cluster's state with its first row. The job may be killed after the first batch and before the first row
of another cluster, so the names are kept in the checkpoint until a batch with rows of the cluster is committed.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress

from connectors.delivery.ledger import Ledger
from connectors.store.durable_file import replace_file
from connectors.store.stored_json import parse_json
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.initial_alerts import StepWithInitialAlerts, initial_conditions
from streaming.pipeline.python_worker import SharedFolder
from streaming.pipeline.step import Step
from streaming.replay.cluster_settings import ClusterSettings

_FILE = "clusters-without-state.json"
_EVERY = "every"
"""Instead of names: every cluster of the ledger."""


def forget_known_states(checkpoint: Checkpoint) -> None:
    """Lets the next start give the ledger's alerts to every cluster that has no state then.

    A repair calls this before Spark continues after an older batch: clusters may have got their state after it.

    Raises:
        OSError: the file cannot be written.
    """
    replace_file(checkpoint.folder / _FILE, json.dumps(_EVERY).encode())


class ClustersWithoutState:
    """Owned by the running job. While it knows none that is configured, a batch costs nothing."""

    def __init__(self, checkpoint: Checkpoint, ledger: Ledger, shared: SharedFolder | None = None) -> None:
        """Reads the names that the job before has left.

        Args:
            checkpoint: of the job.
            ledger: that of the checkpoint.
            shared: what the step checks on executors that may be on other machines.
        """
        self._shared = shared
        self._ledger = ledger
        self._path = checkpoint.folder / _FILE
        self._spark_folder = checkpoint.pages
        # A cluster that has state is not changed, so what is not known elsewhere is taken for new.
        self._new_state = checkpoint.uri is not None or not checkpoint.spark_files.has_state
        self._names = set() if self._new_state else self._read()
        self._configured: set[str] = set()
        """Those of the names that the running query has rows of."""
        self._delivered: set[str] = set()
        """Those in batches that may not be committed yet."""

    def step(self, settings: Mapping[str, ClusterSettings]) -> Step:
        """Returns the step for the next start of the query, with the alerts of clusters that have no state.

        Raises:
            OSError: the names cannot be written.
        """
        if self._new_state:
            self._new_state = False
            self._names = set(initial_conditions(self._ledger.history(), ()))
            self._write()
        self._delivered = set()
        self._configured = self._names & settings.keys()
        if not self._configured:
            return Step(settings, spark_folder=self._spark_folder, shared=self._shared)
        conditions = initial_conditions(self._ledger.history(), self._ledger.firing())
        # A cluster that has state is not changed, so a name too many has no effect.
        return StepWithInitialAlerts(
            settings,
            {name: known for name, known in conditions.items() if name in self._configured},
            spark_folder=self._spark_folder,
            shared=self._shared,
        )

    def batch_delivered(self, clusters: Iterable[str]) -> None:
        """Forgets clusters of the batches before: Spark delivers a batch once the one before is committed."""
        if not self._configured:
            return
        committed, self._delivered = self._delivered, self._configured.intersection(clusters)
        if committed:
            self._configured -= committed
            self._names -= committed
            # Names that remain on a full disk have no effect.
            with suppress(OSError):
                self._write()

    def _read(self) -> set[str]:
        try:
            names = parse_json(self._path.read_text(encoding="utf-8"))
            if names != _EVERY:
                return {str(name) for name in names}
        except FileNotFoundError:
            return set()
        except (OSError, ValueError, TypeError):
            pass
        return set(initial_conditions(self._ledger.history(), ()))

    def _write(self) -> None:
        if self._names:
            replace_file(self._path, json.dumps(sorted(self._names)).encode())
        else:
            self._path.unlink(missing_ok=True)
