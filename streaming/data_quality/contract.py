"""Data contracts: promises about every row of a table, evaluated with Great Expectations.

`contracts.yaml` holds the contracts. Great Expectations keeps no context on disk and sends no usage report. Its import
takes seconds and 250 MB: only `kraftwatch audit` and the process of the job's daily audit import this module.
"""

import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib.resources import files
from types import ModuleType
from typing import Any, cast

import pandas as pd
import yaml

from rules.finding import Plain, Severity

os.environ["GX_ANALYTICS_ENABLED"] = "false"
with warnings.catch_warnings():
    # It imports deprecated modules of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    # Spark Connect needs packages that kraftwatch does not install; its import would end the whole program where the
    # main module is not a file.
    sys.modules.setdefault("pyspark.sql.connect", cast(ModuleType, None))
    import great_expectations as gx
    from great_expectations import expectations as expect
    from great_expectations.data_context.types.base import ProgressBarsConfig

    if sys.modules["pyspark.sql.connect"] is None:
        del sys.modules["pyspark.sql.connect"]

EXAMPLES_MAX = 20
"""Example rows for each contract; all rows are counted."""
JOURNAL = "(journal)"
"""Stands for the cluster of a row that cannot be read."""
_NAME = "kraftwatch"
_PAIR: Mapping[str, Any] = {"ignore_row_if": "either_value_is_missing"}
_CHECKS: Mapping[str, Callable[..., Any]] = {
    "present": lambda column, **more: expect.ExpectColumnValuesToNotBeNull(column=column, **more),
    # The text of such a column would name the fault of the row.
    "empty": lambda column, **more: expect.ExpectColumnValuesToBeNull(column=column, **more),
    "between": lambda column, low, high, **more: expect.ExpectColumnValuesToBeBetween(
        column=column, min_value=low, max_value=high, **more
    ),
    "one_of": lambda column, *values, **more: expect.ExpectColumnValuesToBeInSet(
        column=column, value_set=list(values), **more
    ),
    "matches": lambda column, pattern, **more: expect.ExpectColumnValuesToMatchRegex(
        column=column, regex=pattern, **more
    ),
    "not_below": lambda column, floor, **more: expect.ExpectColumnPairValuesAToBeGreaterThanB(
        column_A=column, column_B=floor, or_equal=True, **_PAIR, **more
    ),
    "equal": lambda column, other, **more: expect.ExpectColumnPairValuesToBeEqual(
        column_A=column, column_B=other, **_PAIR, **more
    ),
}


class Suite(StrEnum):
    """What the rows of a table are."""

    OBSERVATIONS = "observations"
    EVENTS = "events"
    ALERTS = "alerts"


ROW_KEYS: Mapping[Suite, tuple[str, ...]] = {
    Suite.OBSERVATIONS: ("cluster", "sequence"),
    Suite.EVENTS: ("cluster", "sequence", "ordinal"),
    Suite.ALERTS: ("cluster", "line"),
}
"""The columns that identify a row: the name of the cluster, and numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """One promise. Its name is the subject of the alert that reports a broken contract."""

    name: str
    suite: Suite
    promise: str
    """One sentence without a full stop: what holds for every row."""
    why: str
    """Why it holds, and what a broken row would mean."""
    source: str
    """The KIP, Kafka class or kraftwatch module that it comes from."""
    severity: Severity
    check: str
    arguments: Sequence[Any]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the check reads."""
        return tuple(self.arguments[: 2 if self.check in ("not_below", "equal") else 1])

    @property
    def has_numbers(self) -> bool:
        """Whether these columns hold numbers."""
        return self.check in ("between", "not_below")

    def expectation(self) -> Any:
        """Returns the expectation that evaluates it."""
        return _CHECKS[self.check](*self.arguments, meta={"contract": self.name}, severity=self.severity.value)


def _contracts() -> Mapping[Suite, Sequence[Contract]]:
    found: dict[Suite, list[Contract]] = {}
    for suite, contracts in yaml.safe_load((files(__package__) / "contracts.yaml").read_text("utf-8")).items():
        for name, texts in contracts.items():
            *_, severity = texts
            ((check, arguments),) = texts.pop(severity).items()
            how: dict[str, Any] = {"severity": Severity(severity), "check": check, "arguments": arguments}
            found.setdefault(Suite(suite), []).append(Contract(name=name, suite=Suite(suite), **how, **texts))
    return found


CONTRACTS = _contracts()


@dataclass(slots=True)
class Table:
    """The rows of one suite that wait for their evaluation, by column; a column that is not named is empty."""

    suite: Suite
    rows: list[Mapping[str, int | str | None]] = field(default_factory=list)

    def frame(self) -> pd.DataFrame:
        """Returns a pandas frame with the columns of the suite and nullable integers."""
        contracts = CONTRACTS[self.suite]
        names = dict.fromkeys((*ROW_KEYS[self.suite], *(name for one in contracts for name in one.columns)))
        numbers = {*ROW_KEYS[self.suite][1:], *(name for one in contracts if one.has_numbers for name in one.columns)}
        values = {name: [row.get(name) for row in self.rows] for name in names}
        return pd.DataFrame(
            {name: pd.array(one, dtype="Int64" if name in numbers else "object") for name, one in values.items()}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ViolatedContract:
    """One contract and the rows that violate it."""

    contract: Contract
    rows: int
    examples: Sequence[Mapping[str, object]]
    """Some of the rows: their keys and the columns that the contract reads."""

    def of(self, cluster: str) -> "ViolatedContract | None":
        """Returns the examples of one cluster; None if there is none. Only rows in the examples are counted."""
        own = [one for one in self.examples if one.get("cluster") in (cluster, JOURNAL)]
        return replace(self, rows=len(own), examples=own) if own else None

    def plain(self) -> dict[str, Plain]:
        """Returns the JSON object."""
        contract = self.contract
        return {
            "contract": contract.name,
            "suite": contract.suite.value,
            "severity": contract.severity.value,
            "promise": contract.promise,
            "why": contract.why,
            "source": contract.source,
            "rows": self.rows,
            "examples": [{name: cell(value) for name, value in one.items()} for one in self.examples],
        }


class Validator:
    """Evaluates tables, counts their rows and collects the violated contracts."""

    def __init__(self) -> None:
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
        source = context.data_sources.add_pandas(_NAME)
        self._batches = {
            suite: source.add_dataframe_asset(suite.value).add_batch_definition_whole_dataframe("rows")
            for suite in Suite
        }
        self._suites = {
            suite: context.suites.add(
                gx.ExpectationSuite(name=suite.value, expectations=[one.expectation() for one in contracts])
            )
            for suite, contracts in CONTRACTS.items()
        }
        self.rows: dict[Suite, int] = dict.fromkeys(Suite, 0)
        self._broken: dict[str, ViolatedContract] = {}

    def evaluate(self, table: Table) -> None:
        """Evaluates every contract of the table's suite on its rows, and removes the rows.

        Raises:
            RuntimeError: an expectation could not be evaluated: a bug of kraftwatch.
        """
        if not table.rows:
            return
        result = (
            self._batches[table.suite]
            .get_batch(batch_parameters={"dataframe": table.frame()})
            .validate(
                self._suites[table.suite],
                result_format={
                    "result_format": "SUMMARY",
                    "unexpected_index_column_names": list(ROW_KEYS[table.suite]),
                    "partial_unexpected_count": EXAMPLES_MAX,
                },
            )
        )
        by_name = {one.expectation_config.meta["contract"]: one for one in result.results}
        for contract in CONTRACTS[table.suite]:
            self._add(contract, by_name[contract.name])
        self.rows[table.suite] += len(table.rows)
        table.rows.clear()

    @property
    def broken(self) -> Sequence[ViolatedContract]:
        """The violated contracts, the most severe first, then by name."""
        return sorted(self._broken.values(), key=lambda one: (-one.contract.severity.rank, one.contract.name))

    def _add(self, contract: Contract, found: Any) -> None:
        if found.exception_info.get("raised_exception") or "unexpected_count" not in found.result:
            raise RuntimeError(f"contract {contract.name} could not be evaluated: {found.exception_info}")
        rows = int(found.result["unexpected_count"])
        if rows == 0:
            return
        names = (*ROW_KEYS[contract.suite], *contract.columns)
        unexpected = found.result.get("partial_unexpected_index_list", ())
        examples = [{name: one.get(name) for name in names} for one in unexpected]
        before = self._broken.get(contract.name, ViolatedContract(contract=contract, rows=0, examples=()))
        self._broken[contract.name] = replace(
            before, rows=before.rows + rows, examples=(*before.examples, *examples)[:EXAMPLES_MAX]
        )


def cell(value: object) -> str | int | None:
    """Returns a cell for JSON and people: Great Expectations turns numbers into texts."""
    if value is None or isinstance(value, int):
        return value
    text = str(value)
    if text.removeprefix("-").isdecimal():
        return int(text)
    return None if text in ("<NA>", "None", "nan") else text


def row_text(example: Mapping[str, object]) -> str:
    """Returns an example row as text: `row 12, base_offset_of_log 4, next_offset 9`."""
    cells = {name: cell(value) for name, value in example.items() if name != "cluster"}
    return ", ".join(
        f"{'row' if name == 'sequence' else name} {value}" for name, value in cells.items() if value is not None
    )
