"""Broken data contracts, as replay remembers them."""

from connectors.log_event import Undecodable
from connectors.observation_event import BrokenContract, ObservationsAudited
from rules.model.identifiers import Millis, Offset
from rules.model.monitoring import ContractViolation
from streaming.replay.contract_violations import REMEMBERED, REMEMBERED_MS, ContractViolations
from tests.unit.streaming.replay.ledger import again, machine

NOW = Millis(1_800_000_000_000)


def verdict(*contracts: str) -> ObservationsAudited:
    broken = tuple(
        BrokenContract(contract=each, promise="p", grave=True, rows=2, example="row 4", sequence=4)
        for each in contracts
    )
    return ObservationsAudited(rows=9, first_sequence=0, last_sequence=8, broken=broken)


def names(contracts: ContractViolations) -> list[str]:
    return [each.contract for each in contracts.violations]


def test_what_does_not_decode_is_one_breach_that_counts() -> None:
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


def test_what_an_audit_finds_again_is_the_same_breach_and_what_it_does_not_find_stays() -> None:
    contracts = ContractViolations()
    contracts.audited(verdict("a", "b"), NOW)
    contracts.audited(verdict("a"), Millis(NOW + 1_000))

    assert names(contracts) == ["b", "a"]
    assert [(each.first_at_ms - NOW, each.last_at_ms - NOW, each.rows) for each in contracts.violations] == [
        (0, 0, 2),
        (0, 1_000, 2),
    ]


def test_breaches_are_forgotten_in_time_and_bounded() -> None:
    contracts = ContractViolations()
    contracts.audited(verdict(*map(str, range(REMEMBERED + 3))), NOW)
    assert names(contracts) == [str(number) for number in range(3, REMEMBERED + 3)]

    contracts.expire(Millis(NOW + REMEMBERED_MS))
    assert len(contracts.violations) == REMEMBERED
    contracts.expire(Millis(NOW + REMEMBERED_MS + 1))
    assert contracts.violations == ()
