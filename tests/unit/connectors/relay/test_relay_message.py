"""A message of the relay's topic holds one row unchanged; whatever else is in the topic is refused with a reason."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from google_crc32c import value as crc32c
from hypothesis import given
from hypothesis import strategies as st

from connectors.errors import UndecodableError
from connectors.observations.observation import Observation, ObservationKind, Urgency
from connectors.relay.relay_message import (
    Baseline,
    RelayMessage,
    SurveyedCluster,
    TopicSurvey,
    parse_message,
)

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
BEGIN = 1_800_000_000_000_000
MESSAGE = RelayMessage(
    observation=ROW,
    cluster_id="abc",
    baseline=Baseline(sequence=BEGIN, at_ms=17),
    relay="host-1",
)
RELAY = ("relay", b"host-1")


HEADERS, WITHOUT_RELAY = MESSAGE.headers, MESSAGE.headers[:2]


def value_of(**changed: int) -> bytes:
    return replace(MESSAGE, observation=replace(ROW, **changed)).value()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "value", "headers", "reason"),
    [
        (None, MESSAGE.value(), HEADERS, "no key"),
        (b"prod", None, HEADERS, "no value"),
        (b"other", MESSAGE.value(), HEADERS, "key is not the cluster"),
        (b"prod", b"", HEADERS, "not a row: its CRC-32C does not match"),
        (b"prod", b"\1" + crc32c(b"prod").to_bytes(4, "big") + b"prod", HEADERS, "not a row: no relay wrote it"),
        (
            b"prod",
            b"\2" + MESSAGE.value()[1:],
            HEADERS,
            "has version 2, and this kraftwatch reads 1: a relay",
        ),
        (b"prod", value_of(sequence=-1), HEADERS, "out of range"),
        (b"prod", value_of(leader_epoch=1 << 31), HEADERS, "leader epoch is out of range"),
        (b"prod", MESSAGE.value(), None, "no valid header baseline"),
        (b"prod", MESSAGE.value(), WITHOUT_RELAY, "no valid header baseline, cluster_id or relay"),
        (b"prod", MESSAGE.value(), [("baseline", b"1 2"), ("cluster_id", b"\xff"), RELAY], "no valid header"),
        (b"prod", MESSAGE.value(), [("baseline", b"-1 2"), ("cluster_id", b"a"), RELAY], "baseline is out of range"),
        (b"prod", MESSAGE.value(), [*WITHOUT_RELAY, ("relay", b"host 1")], "relay is no name of a relay"),
        (b"prod", MESSAGE.value(), [*WITHOUT_RELAY, ("relay", b"x" * 101)], "relay is no name of a relay"),
    ],
)
def test_other_messages_are_refused(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]] | None, reason: str
) -> None:
    with pytest.raises(UndecodableError, match=reason):
        parse_message(key, value, headers)


offsets = st.none() | st.integers(-1, 2**63 - 1)
observations = st.builds(
    Observation,
    cluster=st.text(min_size=1, max_size=20).filter(lambda name: name.isprintable()),
    kind=st.sampled_from(ObservationKind),
    observed_at_ms=st.integers(0, 2**62),
    base_offset=offsets,
    last_offset=offsets,
    leader_epoch=st.none() | st.integers(-1, 2**31 - 1),
    high_watermark=offsets,
    payload=st.binary(max_size=200),
    sequence=st.integers(0, 2**63 - 1),
    urgency=st.sampled_from(Urgency),
)


def message_of(row: Observation) -> RelayMessage:
    return replace(MESSAGE, observation=row)


def parsed(message: RelayMessage, value: bytes) -> RelayMessage:
    return parse_message(message.key, value, message.headers)


@given(observations)
def test_a_row_survives_encoding_and_reading(row: Observation) -> None:
    message = message_of(row)
    assert parsed(message, message.value()) == message


@given(observations, st.data())
def test_any_flipped_bit_is_detected(row: Observation, data: st.DataObject) -> None:
    message = message_of(row)
    encoded = bytearray(message.value())
    at = data.draw(st.integers(0, len(encoded) * 8 - 1))
    encoded[at // 8] ^= 1 << (at % 8)
    with pytest.raises(UndecodableError):
        parsed(message, bytes(encoded))


def test_a_partition_is_read_from_the_first_row_that_one_of_its_clusters_needs() -> None:
    def surveyed(partition: int, begins_at: int) -> SurveyedCluster:
        return SurveyedCluster(
            partition=partition,
            cluster_id="abc",
            baseline=MESSAGE.baseline,
            begins_at=begins_at,
            whole=True,
            newest_baseline=BEGIN,
        )

    clusters = {"a": surveyed(0, 40), "b": surveyed(0, 7), "c": surveyed(0, 90), "d": surveyed(2, 0)}
    survey = TopicSurvey(ends={0: 100, 1: 30, 2: 50}, clusters=clusters)

    assert survey.starting_offsets() == {0: 7, 1: 30, 2: 0}, "of a partition without a cluster nothing is read"
