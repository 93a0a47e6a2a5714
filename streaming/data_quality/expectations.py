"""The contracts as expectations of Great Expectations, and their evaluation on tables."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from streaming.data_quality import alert_contracts, event_contracts, observation_contracts, state_contracts
from streaming.data_quality.contract import Absent, Between, Contract, Equal, Matches, NotBelow, OneOf, Present, Suite
from streaming.data_quality.contract_table import Table
from streaming.data_quality.great_expectations_import import ProgressBarsConfig, expect, gx
from streaming.data_quality.violations import EXAMPLES_MAX, ViolatedContract

Context: TypeAlias = Any
"""Great Expectations publishes no types."""

CONTRACTS: Mapping[Suite, Sequence[Contract]] = {
    Suite.OBSERVATIONS: observation_contracts.CONTRACTS,
    Suite.EVENTS: event_contracts.CONTRACTS,
    Suite.STATES: state_contracts.CONTRACTS,
    Suite.ALERTS: alert_contracts.CONTRACTS,
}
ROW_KEYS: Mapping[Suite, tuple[str, ...]] = {
    Suite.OBSERVATIONS: ("cluster", "sequence"),
    Suite.EVENTS: ("cluster", "sequence", "ordinal"),
    Suite.STATES: ("cluster", "sequence"),
    Suite.ALERTS: ("cluster", "line"),
}
"""The columns that identify a row."""
_NAME = "kraftwatch"


class Validator:
    """Evaluates the contracts of a suite on tables."""

    def __init__(self) -> None:
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
        source = context.data_sources.add_pandas(_NAME)
        self.context: Context = context
        self._assets = {
            suite: source.add_dataframe_asset(suite.value).add_batch_definition_whole_dataframe("rows")
            for suite in Suite
        }
        self._suites = {suite: context.suites.add(suite_of(suite)) for suite in Suite}

    def validate(self, suite: Suite, table: Table) -> tuple[Any, Sequence[ViolatedContract]]:
        """Evaluates every contract of a suite on a table.

        Returns:
            Great Expectations' result, and the violated contracts in their order.

        Raises:
            RuntimeError: an expectation could not be evaluated: a bug of kraftwatch.
        """
        batch = self._assets[suite].get_batch(batch_parameters={"dataframe": table.frame()})
        result = batch.validate(
            self._suites[suite],
            result_format={
                "result_format": "SUMMARY",
                "unexpected_index_column_names": list(ROW_KEYS[suite]),
                "partial_unexpected_count": EXAMPLES_MAX,
            },
        )
        by_name = {one.expectation_config.meta["contract"]: one for one in result.results}
        broken = [_broken(contract, by_name[contract.name], suite) for contract in CONTRACTS[suite]]
        return result, [one for one in broken if one is not None]


def suite_of(suite: Suite) -> Any:
    """Returns a suite's contracts as expectations; name, reason and source are their notes."""
    return gx.ExpectationSuite(name=suite.value, expectations=[_expectation(one) for one in CONTRACTS[suite]])


def _expectation(contract: Contract) -> Any:
    common: dict[str, Any] = {
        "meta": {"contract": contract.name},
        "notes": [f"**{contract.name}**: {contract.promise}.", contract.why, f"Source: {contract.source}."],
        "severity": contract.severity.value,
    }
    match contract.check:
        case Present(column=column):
            return expect.ExpectColumnValuesToNotBeNull(column=column, **common)
        case Absent(column=column):
            return expect.ExpectColumnValuesToBeNull(column=column, **common)
        case Between(column=column, lowest=lowest, highest=highest):
            return expect.ExpectColumnValuesToBeBetween(column=column, min_value=lowest, max_value=highest, **common)
        case OneOf(column=column, values=values):
            return expect.ExpectColumnValuesToBeInSet(column=column, value_set=list(values), **common)
        case Matches(column=column, pattern=pattern):
            return expect.ExpectColumnValuesToMatchRegex(column=column, regex=pattern, **common)
        case NotBelow(column=column, floor=floor):
            return expect.ExpectColumnPairValuesAToBeGreaterThanB(
                column_A=column, column_B=floor, or_equal=True, ignore_row_if="either_value_is_missing", **common
            )
        case Equal(column=column, other=other):
            return expect.ExpectColumnPairValuesToBeEqual(
                column_A=column, column_B=other, ignore_row_if="either_value_is_missing", **common
            )


def _broken(contract: Contract, result: Any, suite: Suite) -> ViolatedContract | None:
    if result.exception_info.get("raised_exception") or "unexpected_count" not in result.result:
        raise RuntimeError(f"contract {contract.name} could not be evaluated: {result.exception_info}")
    rows = int(result.result["unexpected_count"])
    if rows == 0:
        return None
    keys = ROW_KEYS[suite]
    examples = tuple(
        {name: one.get(name) for name in (*keys, *_columns(contract))}
        for one in result.result.get("partial_unexpected_index_list", ())
    )
    return ViolatedContract(contract=contract, rows=rows, examples=examples)


@cache
def _columns(contract: Contract) -> tuple[str, ...]:
    """Returns the columns that the check reads."""
    match contract.check:
        case NotBelow(column=column, floor=other) | Equal(column=column, other=other):
            return (column, other)
        case Present(column=column) | Absent(column=column) | Between(column=column):
            return (column,)
        case OneOf(column=column) | Matches(column=column):
            return (column,)
