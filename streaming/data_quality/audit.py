"""The audit: evaluates the contracts on a journal's rows, their events and sent alerts with Great Expectations.

`contracts.yaml` holds the contracts. Great Expectations keeps no context on disk and sends no usage report. Its import
takes seconds and 250 MB: only `kraftwatch data audit` imports this module.
"""

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import pandas as pd
import yaml

from connectors.errors import JournalError
from connectors.observations.observation import Observation
from connectors.observations.partition_run import each_event
from connectors.sinks.alert_json import alert_schema
from connectors.store.audit_results import ContractResult
from rules.evaluate import ALL_RULES
from rules.finding import Plain, Severity
from rules.model.identifiers import Millis
from streaming.data_quality.suite_rows import (
    JOURNAL,
    PAYLOAD_BYTES_MAX,
    ROW_KEYS,
    AlertRows,
    ObservationRows,
    Row,
    event_rows,
)
from streaming.replay.decoded_row import decoded_row

os.environ["GX_ANALYTICS_ENABLED"] = "false"
with warnings.catch_warnings():
    # It imports deprecated modules of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

EXAMPLES_MAX = 20
"""Example rows for each contract; all rows are counted."""
_EXAMPLE_CHARACTERS = 160
TABLE_ROWS_MAX = 50_000
"""Most rows that are evaluated together: about 100 MB with Great Expectations' data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """One promise. Its name is the subject of the alert that reports a broken contract."""

    name: str
    suite: str
    promise: str
    """One sentence without a full stop: what holds for every row."""
    why: str
    """Why it holds, and what a broken row would mean."""
    source: str
    """The KIP, Kafka class or kraftwatch module that it comes from."""
    severity: Severity
    expectation: Any
    columns: tuple[str, ...]
    """What the expectation reads."""


def _contract(suite: str, name: str, texts: dict[str, Any]) -> Contract:
    severity = next(each for each in Severity if each.value in texts)
    ((expected, arguments),) = texts.pop(severity.value).items()
    columns = tuple(arguments[key] for key in ("column", "column_A", "column_B") if key in arguments)
    pair = {"ignore_row_if": "either_value_is_missing"} if len(columns) > 1 else {}
    make = getattr(gx.expectations, f"ExpectColumn{expected}")
    expectation = make(**arguments, **pair, meta={"contract": name}, severity=severity.value)
    return Contract(name=name, suite=suite, severity=severity, expectation=expectation, columns=columns, **texts)


_PARAMETERS: Mapping[str, Any] = {
    "alert_schema": alert_schema(),
    "payload_bytes_max": PAYLOAD_BYTES_MAX,
    "rules": [*ALL_RULES],
}
CONTRACTS: Mapping[str, Mapping[str, Contract]] = {
    suite: {name: _contract(suite, name, texts) for name, texts in contracts.items()}
    for suite, contracts in yaml.safe_load((files(__package__) / "contracts.yaml").read_text("utf-8")).items()
}


@dataclass(slots=True, kw_only=True)
class ViolatedContract:
    """One contract and the rows that violate it."""

    contract: Contract
    rows: int = 0
    examples: Sequence[Row] = ()
    """Some of the rows: their keys and the columns that the contract reads."""

    @property
    def clusters(self) -> tuple[str, ...]:
        """The names of the examples' clusters."""
        return tuple(
            sorted({str(example["cluster"]) for example in self.examples if example["cluster"] not in (None, JOURNAL)})
        )

    def plain(self) -> Plain:
        """Returns the JSON object."""
        contract = self.contract
        return {
            "contract": contract.name,
            "suite": contract.suite,
            "severity": contract.severity.value,
            "promise": contract.promise,
            "why": contract.why,
            "source": contract.source,
            "rows": self.rows,
            "examples": [dict(example) for example in self.examples],
        }


class Audit:
    """One run over rows and alerts: evaluates them table by table, counts them and collects the violated contracts.

    Memory is bounded by the rows of a table. What a row is compared with is kept from one table to the next, so that
    the size of the tables does not change the result.
    """

    def __init__(self) -> None:
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
        self._source = context.data_sources.pandas_default
        self._observations = ObservationRows()
        self._broken: dict[str, ViolatedContract] = {}
        self.rows = dict.fromkeys(ROW_KEYS, 0)
        self.tables: Mapping[str, list[Row]] = {suite: [] for suite in ROW_KEYS}
        """The rows of each suite that wait for their evaluation."""

    def recording(self, rows: Iterable[Observation], restarts_logs: Callable[[Observation], bool]) -> None:
        """Evaluates consecutive rows up to the first one that cannot be read.

        Args:
            rows: those of each cluster in order, from any position.
            restarts_logs: returns whether a log may be read again from the newest row on.
        """
        try:
            for row in rows:
                if restarts_logs(row):
                    self._observations.logs_read_again()
                events = tuple(each_event(decoded_row(row).events))
                self.tables["observations"].append(self._observations.row(row, events[0] if events else None))
                self.tables["events"] += event_rows(row, events)
                self.evaluate(TABLE_ROWS_MAX)
        except JournalError as problem:
            self.tables["observations"].append({"cluster": JOURNAL, "read_error": str(problem)})
        self.evaluate()

    def alerts(self, alerts: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        """Evaluates the sent alerts of a ledger or a file in their order: the number and the fields of each."""
        table = AlertRows()
        for number, fields in alerts:
            self.tables["alerts"].append(table.row(number, fields))
            self.evaluate(TABLE_ROWS_MAX)
        self.evaluate()

    def evaluate(self, at_least: int = 1) -> None:
        """Evaluates the contracts of each table that has so many rows, and empties it."""
        for suite, rows in self.tables.items():
            if len(rows) < at_least:
                continue
            contracts = CONTRACTS[suite]
            names = dict.fromkeys(
                (*ROW_KEYS[suite], *(name for contract in contracts.values() for name in contract.columns))
            )
            # Whole numbers beside empty cells stay whole numbers; below 2^53, as offsets are, they are exact.
            frame = pd.DataFrame(rows, columns=[*names], dtype=object).convert_dtypes(convert_string=False)
            result = self._source.read_dataframe(frame).validate(
                gx.ExpectationSuite(name=suite, expectations=[contract.expectation for contract in contracts.values()]),
                result_format={"result_format": "SUMMARY", "partial_unexpected_count": EXAMPLES_MAX},
                expectation_parameters=_PARAMETERS,
            )
            for found in result.results:
                self._add(contracts[found.expectation_config.meta["contract"]], found, rows)
            self.rows[suite] += len(rows)
            rows.clear()

    @property
    def broken(self) -> Sequence[ViolatedContract]:
        """The violated contracts, the most severe first, then by name."""
        return sorted(self._broken.values(), key=lambda one: (-one.contract.severity.rank, one.contract.name))

    def results(self, audited_at_ms: Millis) -> Sequence[ContractResult]:
        """Returns what was found about each contract of the suites that had rows."""
        return [
            self._result(contract, audited_at_ms)
            for suite, contracts in CONTRACTS.items()
            if self.rows[suite]
            for contract in contracts.values()
        ]

    def _result(self, contract: Contract, audited_at_ms: Millis) -> ContractResult:
        violated = self._broken.get(contract.name, ViolatedContract(contract=contract))
        return ContractResult(
            audited_at_ms=audited_at_ms,
            suite=contract.suite,
            contract=contract.name,
            severity=contract.severity,
            checked_rows=self.rows[contract.suite],
            broken_rows=violated.rows,
            clusters=violated.clusters,
            example=row_text(violated.examples[-1]) if violated.examples else None,
        )

    def _add(self, contract: Contract, found: Any, rows: Sequence[Row]) -> None:
        if found.exception_info.get("raised_exception") or "unexpected_count" not in found.result:
            raise RuntimeError(f"contract {contract.name} could not be evaluated: {found.exception_info}")
        if found.result["unexpected_count"]:
            names = (*ROW_KEYS[contract.suite], *contract.columns)
            examples = [
                {name: rows[at].get(name) for name in names} for at in found.result["partial_unexpected_index_list"]
            ]
            violated = self._broken.setdefault(contract.name, ViolatedContract(contract=contract))
            violated.rows += int(found.result["unexpected_count"])
            violated.examples = (*violated.examples, *examples)[:EXAMPLES_MAX]


def row_text(example: Row) -> str:
    """Returns an example row as text of at most 160 characters: `row 12, base_offset_of_log 4, next_offset 9`."""
    cells = {"row" if name == "sequence" else name: value for name, value in example.items() if name != "cluster"}
    return ", ".join(f"{name} {value}" for name, value in cells.items() if value is not None)[:_EXAMPLE_CHARACTERS]
