"""Violated data contracts, as replay keeps them."""

from connectors.observations.log_event import Undecodable
from rules.model.identifiers import Millis, Offset
from rules.model.monitoring import ContractViolation
from streaming.replay.contract_violations import (
    AGAIN_MS,
    EVALUATES,
    REMEMBERED_MS,
    RENDERS,
    ContractViolations,
)
from tests.scripts.log_script import again, machine

NOW = Millis(1_800_000_000_000)


def names(contracts: ContractViolations) -> list[str]:
    return [each.contract for each in contracts.violations]


def test_undecodable_records_are_one_violation_that_counts_rows() -> None:
    replay = machine()
    bad = Undecodable(offset=Offset(7), reason="the CRC-32C does not match", length=80)
    replay.apply([bad, bad], sequence=0, observed_at_ms=NOW)
    replay.apply([bad], sequence=1, observed_at_ms=Millis(NOW + 1_000))
    replay.apply([bad], sequence=1, observed_at_ms=Millis(NOW + 1_000))

    (breach,) = again(replay.to_bytes()).quorum().contract_violations

    assert breach == ContractViolation(
        contract="every-record-decodes",
        promise="every recorded batch, record and observation can be decoded",
        grave=False,
        rows=3,
        first_at_ms=NOW,
        last_at_ms=Millis(NOW + 1_000),
        example="offset 7: the CRC-32C does not match",
        sequence=1,
    )
    assert replay.undecodable == again(replay.to_bytes()).undecodable == 3


def test_a_repeated_violation_is_the_newest_one_and_keeps_its_first_time() -> None:
    contracts = ContractViolations()
    contracts.failed(RENDERS, "status", sequence=1, now_ms=NOW)
    contracts.failed(EVALUATES, "rule no-leader", sequence=1, now_ms=NOW)
    contracts.failed(RENDERS, "alert", sequence=2, now_ms=Millis(NOW + 1_000))

    assert names(contracts) == [EVALUATES, RENDERS]
    newest = contracts.violations[-1]
    assert (newest.first_at_ms - NOW, newest.last_at_ms - NOW, newest.rows, newest.example) == (0, 1_000, 2, "alert")


def test_a_violation_is_new_again_after_a_minute() -> None:
    contracts = ContractViolations()
    contracts.failed(EVALUATES, "rule no-leader", sequence=1, now_ms=NOW)

    assert not contracts.is_new(EVALUATES, "rule no-leader", Millis(NOW + AGAIN_MS - 1))
    assert contracts.is_new(EVALUATES, "rule no-leader", Millis(NOW + AGAIN_MS))
    assert contracts.is_new(EVALUATES, "rule broker-fenced", NOW)
    assert contracts.is_new(RENDERS, "rule no-leader", NOW)


def test_a_violation_that_is_repeated_expires_after_its_newest_row() -> None:
    contracts = ContractViolations()
    later = Millis(NOW + REMEMBERED_MS)
    contracts.failed(EVALUATES, "rule no-leader", sequence=1, now_ms=NOW)
    contracts.failed(EVALUATES, "rule no-leader", sequence=2, now_ms=later)
    contracts.failed(RENDERS, "status", sequence=1, now_ms=NOW)

    contracts.expire(Millis(later + 1))
    assert names(contracts) == [EVALUATES]
