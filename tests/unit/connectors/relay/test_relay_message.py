"""A message of the relay's topic holds one row unchanged; whatever else is in the topic is refused with a reason."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from connectors.errors import UndecodableError
from connectors.observations.observation import Observation, ObservationKind
from connectors.relay.relay_message import Baseline, RelayMessage, parse_message

ROW = Observation(
    cluster="prod",
    kind=ObservationKind.RECORDS,
    observed_at_ms=1_800_000_000_000,
    base_offset=5,
    last_offset=4,
    leader_epoch=3,
    high_watermark=None,
    payload=b"\x00\xff",
    sequence=1_800_000_000_000_007,
)
MESSAGE = RelayMessage(observation=ROW, cluster_id="abc", baseline=Baseline(sequence=1_800_000_000_000_000, at_ms=17))


def test_message_is_read_as_it_was_written() -> None:
    assert parse_message(MESSAGE.key, MESSAGE.value(), MESSAGE.headers) == MESSAGE


@pytest.mark.parametrize(
    ("key", "value", "headers", "reason"),
    [
        (None, MESSAGE.value(), MESSAGE.headers, "no key"),
        (b"prod", None, MESSAGE.headers, "no value"),
        (b"other", MESSAGE.value(), MESSAGE.headers, "key is not the cluster"),
        (b"prod", b"", MESSAGE.headers, "not a row: it is too short"),
        (b"prod", b'{"cluster": "prod"}', MESSAGE.headers, "not a row: it is too short"),
        (b"prod", MESSAGE.value()[:-1], MESSAGE.headers, "it has 53 bytes, not 54"),
        (b"prod", MESSAGE.value() + b"x", MESSAGE.headers, "it has 55 bytes, not 54"),
        (b"prod", MESSAGE.value()[:-1] + b"x", MESSAGE.headers, "CRC-32C"),
        (b"prod", MESSAGE.value(), None, "no valid header baseline"),
        (b"prod", MESSAGE.value(), [("baseline", b"1"), ("cluster_id", b"a")], "no valid header baseline"),
        (b"prod", MESSAGE.value(), [("baseline", b"1 2"), ("cluster_id", b"\xff")], "no valid header"),
        (b"prod", MESSAGE.value(), [("baseline", b"-1 2"), ("cluster_id", b"a")], "baseline is out of range"),
        (b"prod", MESSAGE.value(), [("baseline", b"1 9223372036854775808"), ("cluster_id", b"a")], "out of range"),
        (
            b"prod",
            replace(MESSAGE, observation=replace(ROW, sequence=1 << 63)).value(),
            MESSAGE.headers,
            "out of range",
        ),
    ],
)
def test_other_messages_are_refused(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]] | None, reason: str
) -> None:
    with pytest.raises(UndecodableError, match=reason):
        parse_message(key, value, headers)
