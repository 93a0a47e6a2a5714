"""ClusterMonitor: observations in, alerts out. Each one is applied, the rules are evaluated, the alerts advance.

When the rules are evaluated depends on the observations alone, never on how many of them come in one batch.
"""

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pydantic import TypeAdapter

from connectors.errors import UsageError
from rules.alert import Alert
from rules.evaluate import RULES, evaluate
from rules.finding import Evaluation, UnknownResult
from rules.lifecycle import TrackedConditions, advance, interrupted
from rules.model.quorum import Quorum
from rules.rule_evaluator import RuleEvaluator
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.contract_violations import EVALUATES
from streaming.replay.decoded_row import DecodedRow
from streaming.replay.deflated import deflated
from streaming.replay.machine import Machine
from streaming.replay.page_store import PageStore
from streaming.replay.state_codec import DamagedStateError, page_references

MAGIC = b"kww"
VERSION = 1
CONTRACTS_RULE = "data-contract-broken"
"""The rule that is evaluated on violated contracts alone, so also where the rest of the state cannot be evaluated."""

_TRACKED: TypeAdapter[TrackedConditions] = TypeAdapter(TrackedConditions)


class ClusterMonitor:
    """One monitored cluster: its machine and its tracked conditions, which are valid only together."""

    def __init__(self, settings: ClusterSettings, pages: PageStore | None = None) -> None:
        """Begins without observations; `pages` keeps the large parts of its stored form, None: they are in it."""
        self.machine = Machine(settings, pages)
        self.tracked = TrackedConditions()
        self.thresholds = settings.thresholds
        self._evaluator = RuleEvaluator(settings.thresholds)
        self._evaluated: tuple[Quorum, Evaluation] | None = None

    @classmethod
    def restored(
        cls, blob: bytes | None, settings: ClusterSettings, pages: PageStore | None = None
    ) -> "ClusterMonitor":
        """Returns the monitor that `to_bytes` wrote, with the current configuration; a new one if the blob is None.

        Raises:
            UsageError: the blob is of another version of kraftwatch or of another cluster.
            DamagedStateError: it is damaged.
        """
        monitor = cls(settings, pages)
        if blob is not None:
            monitor.tracked, state = _read(settings.name, blob)
            monitor.machine = Machine.from_bytes(state, settings, pages)
        return monitor

    def observe(self, rows: Iterable[DecodedRow]) -> tuple[Alert, ...]:
        """Applies each observation, evaluates the rules after it, and advances the alerts.

        Args:
            rows: ordered by sequence number. Rows that were applied before are skipped and not evaluated again.

        Returns:
            The alerts to send, in order.
        """
        alerts: list[Alert] = []
        for row in rows:
            if self.machine.apply(row.events, sequence=row.sequence, observed_at_ms=row.observed_at_ms):
                alerts += self._advance()
        return tuple(alerts)

    def skip(self, row: DecodedRow, reason: str) -> tuple[Alert, ...]:
        """Counts a row as applied that cannot be applied, evaluates the rules and advances the alerts."""
        self.machine.skip(sequence=row.sequence, observed_at_ms=row.observed_at_ms, reason=reason)
        return self._advance()

    def advance_unevaluated(self, reason: str) -> tuple[Alert, ...]:
        """Advances the alerts where the state cannot be evaluated: only violated contracts are, the rest is unknown."""
        machine = self.machine
        quorum = Quorum(
            cluster=machine.cluster,
            cluster_id=machine.cluster_id,
            now_ms=machine.now_ms,
            contract_violations=machine.contract_violations.violations,
        )
        others = (rule for rule in RULES if rule != CONTRACTS_RULE)
        unknown = tuple(UnknownResult(rule=rule, subject=None, why=reason) for rule in others)
        known = evaluate(quorum, self.thresholds, [RULES[CONTRACTS_RULE]])
        evaluation = replace(known, unknown=(*known.unknown, *unknown))
        self.tracked, changed = advance(self.tracked, evaluation, quorum, self.thresholds)
        return changed

    def _advance(self) -> tuple[Alert, ...]:
        if self.machine.observed_nothing:
            passed = not self.machine.time_stepped
            self.tracked = interrupted(self.tracked, self.machine.now_ms, time_passed=passed)
            return ()
        evaluation = self.evaluation()
        if evaluation.failed:
            self._record_failed_rules(evaluation.failed)
            evaluation = self.evaluation()
        self.tracked, changed = advance(self.tracked, evaluation, self.machine.quorum(), self.thresholds)
        return changed

    def _record_failed_rules(self, failed: Mapping[str, str]) -> None:
        """Records the rules that failed as one violation; one that lasts is recorded again every minute."""
        reason = "; ".join(f"rule {rule}: {site}" for rule, site in failed.items())
        machine = self.machine
        if machine.contract_violations.is_new(EVALUATES, reason, machine.now_ms):
            machine.record_failure(EVALUATES, reason)

    def evaluation(self) -> Evaluation:
        """Returns the evaluation of the current quorum; a rule whose results cannot have changed is not evaluated."""
        quorum = self.machine.quorum()
        if self._evaluated is None or self._evaluated[0] is not quorum:
            self._evaluated = (quorum, self._evaluator.evaluate(quorum))
        return self._evaluated[1]

    @property
    def newest_evaluation(self) -> Evaluation | None:
        """The newest evaluation; the same object while no rule's results have changed. None before the first one."""
        return None if self._evaluated is None else self._evaluated[1]

    def to_bytes(self) -> bytes:
        """Returns a versioned blob: `kww`, version, length and bytes of the tracked conditions, the machine's bytes."""
        tracked = deflated(json.dumps(_TRACKED.dump_python(self.tracked), separators=(",", ":")).encode())
        return MAGIC + bytes([VERSION]) + struct.pack(">I", len(tracked)) + tracked + self.machine.to_bytes()


def stored_references(cluster: str, blob: bytes) -> frozenset[bytes]:
    """Returns the references of the pages that a stored monitor needs.

    Raises:
        UsageError: the blob is of another version of kraftwatch.
        DamagedStateError, ValueError: it is damaged.
    """
    return frozenset(page_references(cluster, blob[_tracked_end(cluster, blob) :]))


def readable_conditions(cluster: str, damaged: bytes) -> TrackedConditions:
    """Returns the tracked conditions of a damaged state if they can still be read, so that its alerts keep firing."""
    try:
        return _read(cluster, damaged)[0]
    except Exception as error:
        if isinstance(error, MemoryError):
            raise
        return TrackedConditions()


def _tracked_end(cluster: str, blob: bytes) -> int:
    start = len(MAGIC) + 5
    if blob[: len(MAGIC)] != MAGIC or len(blob) < start:
        raise _damaged(cluster)
    if blob[len(MAGIC)] != VERSION:
        raise UsageError(
            f"the checkpoint's alerts of cluster {cluster} have version {blob[len(MAGIC)]}, this kraftwatch reads "
            f"{VERSION}: run the kraftwatch that wrote them, or start with a new checkpoint folder"
        )
    return start + int.from_bytes(blob[start - 4 : start], "big")


def _read(cluster: str, blob: bytes) -> tuple[TrackedConditions, bytes]:
    start, end = len(MAGIC) + 5, _tracked_end(cluster, blob)
    try:
        return _TRACKED.validate_python(json.loads(zlib.decompress(blob[start:end]))), blob[end:]
    except (zlib.error, ValueError) as error:
        raise _damaged(cluster) from error


def _damaged(cluster: str) -> DamagedStateError:
    return DamagedStateError(
        f"the checkpoint's alerts of cluster {cluster} are damaged: start with a new checkpoint folder"
    )
