"""Data contracts: promises about every row of a table, evaluated with Great Expectations.

`contracts.yaml` holds the contracts. Great Expectations keeps no context on disk and sends no usage report. Its import
takes seconds and 250 MB: only `kraftwatch audit` and the process of the job's daily audit import this module.
"""

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from types import ModuleType
from typing import Any, TypeAlias, cast

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
    from great_expectations.data_context.types.base import ProgressBarsConfig

    if sys.modules["pyspark.sql.connect"] is None:
        del sys.modules["pyspark.sql.connect"]

EXAMPLES_MAX = 20
"""Example rows for each contract; all rows are counted."""
JOURNAL = "(journal)"
"""Stands for the cluster of a row that cannot be read."""
ROW_KEYS: Mapping[str, tuple[str, ...]] = {
    "observations": ("cluster", "sequence"),
    "events": ("cluster", "sequence", "ordinal"),
    "alerts": ("cluster", "line"),
}
"""The suites, and the columns that identify a row of each: the name of the cluster, and numbers."""
Row: TypeAlias = Mapping[str, int | str | None]
"""The columns of a row; one that is left out is empty."""


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

    def plain(self) -> dict[str, Plain]:
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
            "examples": [dict(each) for each in self.examples],
        }


class Validator:
    """Evaluates tables, counts their rows and collects the violated contracts."""

    def __init__(self) -> None:
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
        self._source = context.data_sources.pandas_default
        self.rows = dict.fromkeys(ROW_KEYS, 0)
        self._broken: dict[str, ViolatedContract] = {}

    def evaluate(self, suite: str, rows: Sequence[Row]) -> None:
        """Evaluates every contract of a suite on at least one row.

        Raises:
            RuntimeError: an expectation could not be evaluated: a bug of kraftwatch.
        """
        contracts = CONTRACTS[suite]
        names = dict.fromkeys((*ROW_KEYS[suite], *(name for each in contracts.values() for name in each.columns)))
        # Floating-point numbers, which pandas takes for numbers beside empty cells, are not exact.
        frame = pd.DataFrame(rows, columns=[*names], dtype=object).convert_dtypes(convert_string=False)
        result = self._source.read_dataframe(frame).validate(
            gx.ExpectationSuite(name=suite, expectations=[each.expectation for each in contracts.values()]),
            result_format={"result_format": "SUMMARY", "partial_unexpected_count": EXAMPLES_MAX},
        )
        for found in result.results:
            self._add(contracts[found.expectation_config.meta["contract"]], found, rows)
        self.rows[suite] += len(rows)

    @property
    def broken(self) -> Sequence[ViolatedContract]:
        """The violated contracts, the most severe first, then by name."""
        return sorted(self._broken.values(), key=lambda one: (-one.contract.severity.rank, one.contract.name))

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
    """Returns an example row as text: `row 12, base_offset_of_log 4, next_offset 9`."""
    cells = {"row" if name == "sequence" else name: value for name, value in example.items() if name != "cluster"}
    return ", ".join(f"{name} {value}" for name, value in cells.items() if value is not None)
