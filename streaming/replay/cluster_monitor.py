"""ClusterMonitor: observations of one cluster in; alerts, its state and the time of the next poll out.

Each observation is applied; the rules are evaluated after it if it is due, and the alerts advance. When the rules are
evaluated depends on the observations alone, never on how many of them are applied together (`streaming.replay.pace`).

A row that raises is skipped and reported; all others are applied. After it the state is exactly what it was before the
row, except the recorded violation and the time; so the result does not depend on how the rows are grouped. Nothing is
done for that until something raises. Then the state is restored from its newest stored form, and the rows since are
applied one by one, with the state stored after each. A row after which the state cannot be stored is skipped too. An
OSError concerns the disk with the pages of the state, never a row: it is raised.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from connectors.observations.log_event import Undecodable
from connectors.observations.observation import Observation
from rules.alert import Alert
from rules.evaluate import RULES, evaluate
from rules.facts.quorum import Facts
from rules.finding import CLEAR, Evaluation, Thresholds, UnknownResult
from rules.firing import Firing
from rules.lifecycle import TrackedConditions, advance, firing, interrupted, next_due
from rules.model.identifiers import Millis
from rules.model.monitoring import ContractViolation
from rules.model.quorum import Quorum
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.contract_violations import APPLIES, EVALUATES, failure_reason
from streaming.replay.decoded_row import DecodedRow, decoded_row
from streaming.replay.machine import Machine
from streaming.replay.pace import PACE_MS, is_due, quiet_until_ms
from streaming.replay.state_codec import (
    MonitorParts,
    monitor_parts,
    monitor_to_bytes,
    unpack_waiting,
    waiting_part,
    waiting_table,
)
from streaming.replay.stored_topics import PageStore

CONTRACTS_RULE = "data-contract-broken"
"""The rule that is evaluated on violated contracts alone, so also where the rest of the state cannot be evaluated."""
ALWAYS: Final = Millis(0)
"""`evaluates_from_ms` of the job: the rules are evaluated from the first observation on."""
ROWS_TOGETHER: Final = 256
"""Most rows between two stored forms of the state."""
EVENTS_TOGETHER: Final = 20_000
"""Most events in these rows, but for the last one: they are kept in memory. A larger state is stored after as many
events as it holds, because storing it takes as long as it is large."""
_SHORT_MS: Final = 10_000
"""A clear time that is shorter may end before the row that begins it is evaluated: rows wait so long at most."""
_BYTES_AN_EVENT: Final = 16
"""Of the stored form of a partition, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRow:
    """A row, or a part of one, that could not be decoded, applied or evaluated."""

    sequence: int
    observed_at_ms: Millis
    ordinal: int
    """The number of events before it in the row; of all events if it is the whole row."""
    offset: int | None
    """Of its first record, if it holds records."""
    length: int = 0
    """Bytes that could not be decoded."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What observations brought about, in their order."""

    alerts: tuple[Alert, ...] = ()
    """To send."""
    undecodable: tuple[RefusedRow, ...] = ()
    """Parts of rows: the rest of the row was applied."""
    failed: tuple[RefusedRow, ...] = ()
    """Rows that could not be applied or evaluated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRows:
    """The rows of a cluster that wait to be applied: their evaluation takes longer than a batch may."""

    size: int
    """Bytes of their payloads."""
    since_ms: Millis | None
    """When the first of them was observed; None if none waits."""


class ClusterMonitor:
    """One monitored cluster: its machine and its tracked conditions, which are valid only together."""

    def __init__(
        self,
        settings: ClusterSettings,
        pages: PageStore | None = None,
        *,
        tracked: TrackedConditions | None = None,
        evaluates_from_ms: Millis | None = ALWAYS,
        rows_together: int = ROWS_TOGETHER,
        pace_ms: int = PACE_MS,
    ) -> None:
        """Begins without observations.

        Args:
            pages: keeps the large parts of the stored form; None: they are in it.
            tracked: conditions whose alerts are firing already.
            evaluates_from_ms: the rules are evaluated at their pace from this time on; None: only when `evaluation` is
                called, and no alert advances.
            rows_together: the most rows between two stored forms of the state: they are kept in memory.
            pace_ms: how long quiet rows are not evaluated.
        """
        self.settings = settings
        self._pace_ms = pace_ms
        self._pages = pages
        self._evaluates_from_ms = evaluates_from_ms
        self._rows_together = rows_together
        self._initial = TrackedConditions() if tracked is None else tracked
        self._stored: bytes | None = None
        """The newest stored form; None: the beginning."""
        self._since: list[DecodedRow] = []
        """Applied since the stored form."""
        self._events_since = 0
        """In these rows."""
        self.waiting: tuple[Observation, ...] = ()
        """Rows that follow and are not applied yet: they are stored with the state."""
        self._waiting_parts: dict[int, bytes] = {}
        """The stored form of each of them by sequence: the same row is not packed again while it waits."""
        self._refused: list[RefusedRow] = []
        """Records of these rows beyond a limit, found by the newest `apply`."""
        self._restore()

    @classmethod
    def restored(
        cls,
        blob: bytes | None,
        settings: ClusterSettings,
        pages: PageStore | None = None,
        *,
        evaluates_from_ms: Millis | None = ALWAYS,
    ) -> "ClusterMonitor":
        """Returns the monitor that `to_bytes` wrote, with the current configuration; a new one if the blob is None.

        Raises:
            UnusableStateError: the blob is of another version, or its pages are lost.
            UsageError: it is of another cluster.
            DamagedStateError: it is damaged.
        """
        monitor = cls(settings, pages, evaluates_from_ms=evaluates_from_ms)
        if blob is not None:
            monitor._stored = blob
            monitor.waiting = unpack_waiting(settings.name, monitor._restore(), pages)
        return monitor

    def _restore(self) -> bytes:
        """Makes the state that of the newest stored form; returns the table of the rows that waited then."""
        waiting = b""
        if self._stored is None:
            self.tracked, self.machine = self._initial, Machine(self.settings, self._pages)
        else:
            parts = monitor_parts(self.settings.name, self._stored)
            self.tracked, waiting = parts.tracked, parts.waiting
            self.machine = Machine(self.settings, self._pages, stored=parts.machine)
        self._evaluated: tuple[Facts, Evaluation] | None = None
        self._advanced: tuple[Facts, Evaluation] | None = None
        """By which the conditions advanced; None: they are as they were stored."""
        self._whole = False
        """Whether that is the whole quorum with all rules, and has been observed without a gap since."""
        return waiting

    def apply(self, rows: Iterable[Observation | DecodedRow], *, store: bool = False) -> Outcome:
        """Applies each observation, evaluates the rules after it if it is due, and advances the alerts.

        Args:
            rows: ordered by sequence number. Rows that were applied before are skipped and not evaluated again.
            store: whether `stored` holds the state after the last row; False: that of some rows before, at most.

        Returns:
            What these rows brought about. Earlier rows may be among the failed ones: after them the state could not be
            stored, which shows only now.
        """
        decoded = [decoded_row(row) if isinstance(row, Observation) else row for row in rows]
        fresh = [row for row in decoded if not self.machine.has_applied(row.sequence)]
        failing_before = self._failing_rules()
        self._refused = []
        alerts, failed = self._apply_contained(decoded, store=store)
        return Outcome(
            alerts=alerts,
            undecodable=(*(one for row in fresh for one in _undecodable(row)), *self._refused),
            failed=(*failed, *self._evaluation_failures(failing_before, decoded)),
        )

    @property
    def stored(self) -> bytes | None:
        """The newest stored form of the state; None: the one without observations."""
        return self._stored

    @property
    def waiting_rows(self) -> WaitingRows:
        """What waits to be applied."""
        first = Millis(self.waiting[0].observed_at_ms) if self.waiting else None
        return WaitingRows(size=sum(len(row.payload) for row in self.waiting), since_ms=first)

    @property
    def poll_at_ms(self) -> Millis | None:
        """When a hold or clear time expires: a poll at that time decides about an alert. None: no time is special."""
        return next_due(self.tracked, self.settings.thresholds)

    @property
    def quiet_until_ms(self) -> Millis:
        """Until when a quiet row changes no alert, as far as is known: 0 if it may change one.

        Until then no condition begins or ends because time passes. Where a quiet row ends one, its clear time begins.
        Rows that wait are applied with the next ones, so none may be late.
        """
        return ALWAYS if self.waiting else self._foreseen_until_ms()

    @property
    def furthest_quiet_until_ms(self) -> Millis:
        """The same, counted from the newest row instead of the newest evaluation: after quiet rows it is further.

        The evaluation in between will find what the newest one has found. It takes an evaluation ahead.
        """
        until_ms = self.quiet_until_ms
        if until_ms == ALWAYS or self.machine.now_ms <= self.tracked.now_ms:
            return until_ms
        _, evaluation = self._newest
        return max(until_ms, quiet_until_ms(self.machine.quorum(), evaluation, self._thresholds))

    def _foreseen_until_ms(self) -> Millis:
        """Returns until when the same is found as by the newest evaluation, if only time passes.

        It is found out once, before the first row after that evaluation, and stored: the rows alone decide when the
        rules are evaluated.
        """
        if self.tracked.quiet_until_ms is None:
            facts, evaluation = self._newest
            until_ms = ALWAYS if self._changes_soon() else quiet_until_ms(facts.quorum, evaluation, self._thresholds)
            self.tracked = replace(self.tracked, quiet_until_ms=until_ms)
            return until_ms
        return self.tracked.quiet_until_ms

    @property
    def _newest(self) -> tuple[Facts, Evaluation]:
        """The evaluation by which the conditions advanced; that of the current quorum after the state was restored."""
        return self._advanced or (self.facts, self.evaluation())

    def _changes_soon(self) -> bool:
        """Returns whether the next row may fire an alert or end one: it is not known whether its condition holds."""
        fires = any(
            condition.notified_severity is None and condition.due_at_ms <= self.tracked.now_ms
            for condition in self.tracked.conditions.values()
        )
        resolves = any(
            condition.rule in self._thresholds and self._thresholds[condition.rule].ms(CLEAR) < _SHORT_MS
            for condition in self.tracked.conditions.values()
        )
        return fires or resolves

    @property
    def _thresholds(self) -> Mapping[str, Thresholds]:
        return self.settings.thresholds

    def evaluation(self) -> Evaluation:
        """Returns the evaluation of the current quorum."""
        quorum = self.machine.quorum()
        if self._evaluated is None or self._evaluated[0].quorum is not quorum:
            facts = Facts(quorum)
            self._evaluated = (facts, evaluate(facts, self.settings.thresholds))
        return self._evaluated[1]

    @property
    def facts(self) -> Facts:
        """What is known of the current quorum."""
        if self._evaluated is not None and self._evaluated[0].quorum is self.machine.quorum():
            return self._evaluated[0]
        return Facts(self.machine.quorum())

    @property
    def evaluated(self) -> tuple[Facts, Evaluation]:
        """The quorum by which the conditions advanced, and its evaluation: what fires, and the status, are of then.

        The current ones, if not all rules can be evaluated, after a gap, and after the state was restored.
        """
        if self._advanced is not None and self._whole:
            return self._advanced
        evaluation = self.evaluation()
        return self.facts, evaluation

    def firing(self, before: Firing | None, changed: Iterable[Alert]) -> Firing:
        """Returns what fires now, and what ended by the transitions `changed` since `before`."""
        facts, evaluation = self._advanced or self.evaluated
        return firing(self.tracked, evaluation, facts.quorum, before=before, changed=changed)

    def to_bytes(self) -> bytes:
        """Returns the stored form of the state, a versioned blob."""
        known = self._waiting_parts
        self._waiting_parts = {
            row.sequence: known.get(row.sequence) or waiting_part(row, self._pages) for row in self.waiting
        }
        waiting = waiting_table([*self._waiting_parts.values()])
        self._stored = monitor_to_bytes(
            MonitorParts(tracked=self.tracked, waiting=waiting, machine=self.machine.to_bytes())
        )
        self._since, self._events_since = [], 0
        return self._stored

    # --- rows that raise ------------------------------------------------------------------------------------------

    def _apply_contained(
        self, rows: Sequence[DecodedRow], *, store: bool
    ) -> tuple[tuple[Alert, ...], tuple[RefusedRow, ...]]:
        before = len(self._since)
        self._since += rows
        try:
            alerts = self._observe(rows)
            if store or self._are_many(rows):
                self.to_bytes()
        except (MemoryError, OSError):
            raise
        except Exception:  # noqa: BLE001 - whatever a row raises concerns this cluster only
            return self._apply_one_by_one(self._since, before)
        return alerts, ()

    def _are_many(self, new: Sequence[DecodedRow]) -> bool:
        """Whether so many rows or events were applied since the newest stored form that the state is stored again."""
        self._events_since += sum(row.event_count for row in new)
        stored_events = 0 if self._stored is None else len(self._stored) // _BYTES_AN_EVENT
        return len(self._since) >= self._rows_together or self._events_since >= max(EVENTS_TOGETHER, stored_events)

    def _apply_one_by_one(
        self, rows: Sequence[DecodedRow], before: int
    ) -> tuple[tuple[Alert, ...], tuple[RefusedRow, ...]]:
        """Applies the rows since the newest stored form, without those that raise.

        Args:
            before: how many of them were applied before: their alerts were returned already.
        """
        alerts: list[Alert] = []
        failed: list[RefusedRow] = []
        self._restore()
        for number, row in enumerate(rows):
            try:
                changed = self._observe((row,))
                self.to_bytes()
            except (MemoryError, OSError):
                raise
            except Exception as error:  # noqa: BLE001 - the row is skipped
                failed.append(_refused(row, f"could not be applied: {failure_reason(error)}"))
                changed = self._skip_failing(row, failed[-1].reason)
            alerts += changed if number >= before else ()
        return tuple(alerts), tuple(failed)

    def _skip_failing(self, row: DecodedRow, reason: str) -> tuple[Alert, ...]:
        """Returns the alerts after a row that raised, by the first of these attempts that works.

        1. The row is skipped. 2. If the state before it cannot be evaluated either, the row is not the cause: it is
        applied, and only the violated contracts are evaluated. 3. The row is skipped, and only the contracts are
        evaluated. 4. The state stays, and only the row's sequence counts.
        """
        sequence, at_ms = row.sequence, row.observed_at_ms
        for skips, evaluates in ((True, True), (False, False), (True, False)):
            self._restore()
            try:
                if skips:
                    self.machine.skip(sequence=sequence, observed_at_ms=at_ms, reason=reason)
                else:
                    self.machine.apply(row.events, sequence=sequence, observed_at_ms=at_ms)
                    self.machine.record_failure(APPLIES, reason)
                alerts = self._advance() if evaluates else self._advance_unevaluated(reason)
                self.to_bytes()
            except (MemoryError, OSError):
                raise
            except Exception:  # noqa: BLE001, S112 - the next attempt asks less of the state
                continue
            return alerts
        self._restore()
        self.machine.sequence = max(sequence, self.machine.sequence)
        self.to_bytes()
        return ()

    def _failing_rules(self) -> ContractViolation | None:
        violations = self.machine.contract_violations.violations
        return next((violation for violation in violations if violation.contract == EVALUATES), None)

    def _evaluation_failures(
        self, before: ContractViolation | None, rows: Iterable[DecodedRow]
    ) -> Iterator[RefusedRow]:
        """Yields the row after which rules began to fail; a failure that lasts is reported once."""
        now = self._failing_rules()
        if now is None or (before is not None and before.example == now.example):
            return
        for row in rows:
            if row.sequence == now.sequence:
                yield _refused(row, f"could not be evaluated: {now.example}")

    # --- rows that raise nothing ----------------------------------------------------------------------------------

    def _observe(self, rows: Iterable[DecodedRow]) -> tuple[Alert, ...]:
        alerts: list[Alert] = []
        for row in rows:
            if row.quiet and self._pace_ms and self._evaluates_now():
                self._foreseen_until_ms()
            if self.machine.apply(row.events, sequence=row.sequence, observed_at_ms=row.observed_at_ms):
                self._refused += (_part(row, *refused) for refused in self.machine.refused)
                alerts += self._advance(quiet=row.quiet)
        return tuple(alerts)

    def _evaluates_now(self) -> bool:
        return self._evaluates_from_ms is not None and self.machine.now_ms >= self._evaluates_from_ms

    def _advance(self, *, quiet: bool = False) -> tuple[Alert, ...]:
        if not self._evaluates_now():
            return ()
        if self.machine.observed_nothing:
            passed = not self.machine.time_stepped
            self.tracked = interrupted(self.tracked, self.machine.now_ms, time_passed=passed)
            self._whole = False
            return ()
        thresholds, now_ms = self.settings.thresholds, self.machine.now_ms
        pace_ms = self._pace_ms
        if quiet and pace_ms:
            pace_ms = max(pace_ms, self._foreseen_until_ms() - self.tracked.now_ms)
        if not is_due(self.tracked, thresholds, now_ms, quiet=quiet, pace_ms=pace_ms):
            return ()
        evaluation = self.evaluation()
        if evaluation.failed:
            self._record_failed_rules(evaluation.failed)
            evaluation = self.evaluation()
        self._advanced, self._whole = (self.facts, evaluation), True
        self.tracked, changed = advance(self.tracked, evaluation, self.machine.quorum(), thresholds)
        return changed

    def _record_failed_rules(self, failed: Mapping[str, str]) -> None:
        """Records the rules that failed as one violation; one that lasts is recorded again every minute."""
        reason = "; ".join(f"rule {rule}: {site}" for rule, site in failed.items())
        machine = self.machine
        if machine.contract_violations.is_new(EVALUATES, reason, machine.now_ms):
            machine.record_failure(EVALUATES, reason)

    def _advance_unevaluated(self, reason: str) -> tuple[Alert, ...]:
        """Advances the alerts where the state cannot be evaluated: only violated contracts are, the rest is unknown."""
        if not self._evaluates_now():
            return ()
        machine, thresholds = self.machine, self.settings.thresholds
        quorum = Quorum(
            cluster=machine.cluster,
            cluster_id=machine.cluster_id,
            now_ms=machine.now_ms,
            contract_violations=machine.contract_violations.violations,
        )
        others = (rule for rule in RULES if rule != CONTRACTS_RULE)
        unknown = tuple(UnknownResult(rule=rule, subject=None, why=reason) for rule in others)
        facts = Facts(quorum)
        known = evaluate(facts, thresholds, [RULES[CONTRACTS_RULE]])
        evaluation = replace(known, unknown=(*known.unknown, *unknown))
        self._advanced, self._whole = (facts, evaluation), False
        tracked, changed = advance(self.tracked, evaluation, quorum, thresholds)
        self.tracked = replace(tracked, quiet_until_ms=ALWAYS)
        return changed


def _refused(row: DecodedRow, reason: str) -> RefusedRow:
    return RefusedRow(
        sequence=row.sequence,
        observed_at_ms=row.observed_at_ms,
        ordinal=row.event_count,
        offset=row.first_offset,
        reason=reason,
    )


def _undecodable(row: DecodedRow) -> Iterator[RefusedRow]:
    for ordinal, event in row.undecodable():
        yield _part(row, ordinal, event)


def _part(row: DecodedRow, ordinal: int, event: Undecodable) -> RefusedRow:
    return RefusedRow(
        sequence=row.sequence,
        observed_at_ms=row.observed_at_ms,
        ordinal=ordinal,
        offset=event.offset,
        length=event.length,
        reason=event.reason,
    )
