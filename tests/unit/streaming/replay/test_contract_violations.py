"""Violated data contracts, as replay keeps them."""

from connectors.observations.log_event import Undecodable
from connectors.observations.observation import ObservationsAudited
from rules.model.identifiers import Millis, Offset
from rules.model.monitoring import ContractViolation
from streaming.replay.contract_violations import (
    AGAIN_MS,
    EVALUATES,
    REMEMBERED,
    REMEMBERED_MS,
    RENDERS,
    ContractViolations,
)
from tests.unit.streaming.replay.log_script import again, machine

NOW = Millis(1_800_000_000_000)


def audit(*contracts: str) -> ObservationsAudited:
    broken = tuple(
        ContractViolation(contract=each, promise="p", grave=True, rows=2, example="row 4", sequence=4)
        for each in contracts
    )
    return ObservationsAudited(rows=9, first_sequence=0, last_sequence=8, broken=broken)


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


def test_an_audit_updates_the_violations_it_repeats_and_keeps_the_others() -> None:
    contracts = ContractViolations()
    contracts.audited(audit("a", "b"), NOW)
    contracts.audited(audit("a"), Millis(NOW + 1_000))

    assert names(contracts) == ["b", "a"]
    assert [(each.first_at_ms - NOW, each.last_at_ms - NOW, each.rows) for each in contracts.violations] == [
        (0, 0, 2),
        (0, 1_000, 2),
    ]


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


def test_violations_expire_and_are_bounded() -> None:
    contracts = ContractViolations()
    contracts.audited(audit(*map(str, range(REMEMBERED + 3))), NOW)
    assert names(contracts) == [str(number) for number in range(3, REMEMBERED + 3)]

    contracts.expire(Millis(NOW + REMEMBERED_MS))
    assert len(contracts.violations) == REMEMBERED
    contracts.expire(Millis(NOW + REMEMBERED_MS + 1))
    assert contracts.violations == ()
