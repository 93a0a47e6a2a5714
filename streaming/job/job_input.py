"""Where a job's rows come from: its own gatherer process and journal, or the topics that relays write."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from connectors.kafka.cluster_connection import ClusterConnection
from connectors.observations.observation import Observation
from connectors.store.journal_reader import JournalReader
from rules.model.witness import WitnessRow
from streaming.config import Config
from streaming.job.gatherer_process import GathererProcess
from streaming.job.topic_input import TopicRows
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.journal_rows import JournalRows
from streaming.pipeline.output_rows import EvaluationTimes
from streaming.pipeline.topic_files import TopicState
from streaming.replay.cluster_settings import ClusterSettings

_READ_S: Final = 3.0
"""If a topic was read to its end so recently, Spark works: between two batches, it asks once a second."""
_MOST_UNWRITTEN: Final = 10_000


class GatheredInput:
    """A gatherer process of this job, and its journal."""

    def __init__(self, clusters: Sequence[ClusterConnection], checkpoint: Checkpoint) -> None:
        """Starts the gatherer; errors as of `GathererProcess.start`."""
        self._checkpoint = checkpoint
        self._unwritten = deque[Observation](maxlen=_MOST_UNWRITTEN)
        """Rows that a full disk did not take, and that no understudy has taken yet."""
        self.gatherer = GathererProcess(
            clusters, journal=checkpoint.journal, logs=checkpoint.logs, on_unwritten=self._unwritten.append
        )
        self.gatherer.start()

    @property
    def has_nothing(self) -> bool:
        """Whether no rows come that Spark could evaluate."""
        return not self.gatherer.alive

    @property
    def only_understudy_has(self) -> bool:
        """Whether there are rows that Spark does not get: the journal does not have them."""
        return bool(self._unwritten)

    def rows(self, config: Config, settings: Mapping[str, ClusterSettings]) -> JournalRows:
        """Returns the rows of an understudy."""
        return JournalRows(JournalReader(self._checkpoint.journal), settings, self._unwritten)

    def topics(self) -> TopicState:
        """Returns what Spark has found in topics: nothing."""
        return TopicState()

    def request_polls(self, evaluated: Mapping[str, EvaluationTimes]) -> None:
        """Requests the polls that the evaluations of clusters need next. Never blocks."""
        self.gatherer.request_polls({name: (each.due_ms, each.quiet_until_ms) for name, each in evaluated.items()})

    def report_witness(self, cluster: str, row: WitnessRow) -> bool:
        """As `GathererProcess.report_witness`."""
        return self.gatherer.report_witness(cluster, row)

    def limit_log(self, cluster: str, waiting_bytes: int) -> None:
        """As `GathererProcess.limit_log`."""
        self.gatherer.limit_log(cluster, waiting_bytes)

    def stop(self) -> None:
        """Ends the gatherer."""
        self.gatherer.stop()


class TopicInput:
    """The topics of relays, which gather on other machines. Spark's planner reads them."""

    gatherer: None = None
    only_understudy_has = False

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint, self._files = checkpoint, checkpoint.topic_files

    @property
    def has_nothing(self) -> bool:
        """Whether no rows come that Spark could evaluate: it reads the ends of the topics again and again."""
        return time.monotonic() - max(self.topics().read_to_end_at.values(), default=float("-inf")) < _READ_S

    def rows(self, config: Config, settings: Mapping[str, ClusterSettings]) -> TopicRows:
        """Returns the rows of an understudy."""
        return TopicRows(config, self._checkpoint)

    def topics(self) -> TopicState:
        """Returns what Spark's planner has found in the topics."""
        return self._files.state()

    def request_polls(self, evaluated: Mapping[str, EvaluationTimes]) -> None:
        """Lets quiet rows wait for a batch until the times of their clusters: the next regular poll is soon enough."""
        self._files.put_quiet_until(
            {
                name: each.quiet_until_ms if each.due_ms is None else min(each.due_ms, each.quiet_until_ms)
                for name, each in evaluated.items()
            }
        )

    def report_witness(self, cluster: str, row: WitnessRow) -> bool:
        """Takes nothing: a relay writes what it observes itself."""
        return False

    def limit_log(self, cluster: str, waiting_bytes: int) -> None:
        """Limits nothing: a relay does not know how far its rows are evaluated."""

    def stop(self) -> None:
        """Deletes the login that no planner has read."""
        self._files.delete_source()


JobInput: TypeAlias = GatheredInput | TopicInput
